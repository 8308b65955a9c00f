"""The tagger: a hidden Markov model of words and their tags."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import TYPE_CHECKING, Any

import pyro
import torch
from torch import Tensor

from ..distributions import Chain
from ..distributions.ragged import check_lengths, offsets_of
from ..errors import StructureError
from ..tables import declare, dense_tables
from .base import Model, plain_names, size_of
from .sentences import Sentences, as_flat, check_numbers, check_vocab

if TYPE_CHECKING:
    from .gibbs_tags import TagState


class Tagger(Model):
    """A bigram or trigram hidden Markov model, as an ordinary Pyro model.

        start ~ Dirichlet,  transition[z] ~ Dirichlet,  emission[z] ~ Dirichlet
        for each sentence:  tags by start and transition, words by emission, tags summed out

    Tables: ``start`` (K,), ``transition`` (K, K) or, for ``order=2``, (K, K, K), ``emission`` (K, V), and for
    ``order=2`` also ``second`` (K, K): out of the first tag of a sentence. With ``stop`` the transitions have one more
    outcome. Axes: ``tag``, ``word``, and in the transitions ``previous`` and ``previous2``, the tags before.

    :param tags: how many tags, or the tags themselves.
    :param vocab: how many words, or the vocabulary itself.
    :param order: 1 (bigram) or 2 (trigram).
    :param dictionary: which tags a word may have: a mask (K, V), or anything with ``mask(vocab)`` that makes one.
    :param stop: whether ending is an event that the tags predict.
    :param prior: Dirichlet concentration, one for all tables or by name.

    Runs under EM and its relatives, and unchanged under stock Pyro::

        >>> import pyro, pyro.poutine as poutine
        >>> from pyro_unsup.models import Tagger
        >>> pyro.set_rng_seed(0)
        >>> tagger = Tagger(tags=2, vocab=3)
        >>> print(poutine.trace(tagger).get_trace([[0, 1, 2], [2, 1]]).format_shapes())
           Trace Shapes:
            Param Sites:
           Sample Sites:
              start dist   |   2
                   value   |   2
         transition dist   | 2 2
                   value   | 2 2
           emission dist   | 2 3
                   value   | 2 3
          sentences dist   |
                   value 2 |
              words dist 2 |   5
                   value   |   5
    """

    task = "tagger"

    def __init__(
        self,
        tags: int | Sized,
        vocab: int | Sized,
        order: int = 1,
        dictionary: Any = None,
        stop: bool = False,
        prior: float | Mapping[str, float] = 1.0,
    ) -> None:
        self.tags, self.vocab, self.order, self.stop = tags, vocab, order, stop
        K, V = size_of(tags), size_of(vocab)
        if order not in (1, 2):
            raise StructureError(f"order must be 1 (bigram) or 2 (trigram), actual = {order}")
        self.states, self.words = K, V
        if not isinstance(stop, bool):
            raise StructureError(f"stop must be True or False, actual = {stop!r:.80}")
        mask = _mask(dictionary, tags, vocab, K, V)
        ending: Any = [*(range(K) if isinstance(tags, int) else tags), "stop"] if stop else tags  # type: ignore[misc]
        second: dict[str, int | Sized] = {"previous": tags, "tag": ending}
        transition = second if order == 1 else {"previous2": tags, **second}
        axes = {"start": {"tag": tags}, "transition": transition, "emission": {"tag": tags, "word": vocab}}
        if order == 2:
            axes["second"] = second
        # A dictionary or a trigram context can leave rows that no sentence of this corpus visits.
        some_unvisited = order == 2 or (mask is not None and not bool(mask.all()))
        self._tables = dense_tables(
            "this tagger", axes, prior, axes if some_unvisited else (), {} if mask is None else {"emission": mask}
        )

    def __call__(self, sentences: Any = None, lengths: Any = None) -> Tensor:
        """The model. Without sentences it draws words of the given lengths; both lie flat (:func:`.as_flat`)."""
        tables = {name: table for name, table in self._tables.items() if name != "emission"}
        emission = self._tables["emission"]
        words: Tensor | None = None
        if sentences is None:
            lengths = check_lengths(lengths)
        else:
            words, lengths = as_flat(sentences, lengths, self.vocab)
            check_vocab(sentences, self.vocab)
            check_numbers(words, self.words)
            if len(words) < self.words:  # a mini-batch touches only some columns of the emission table
                touched, words = torch.unique(words, return_inverse=True)
                emission = emission.touching(touched)
        start = declare(tables["start"])
        transition = declare(tables["transition"])
        emitted = declare(emission)
        second = declare(tables["second"]) if self.order == 2 else None
        chain = Chain(start, transition, emitted, lengths, second, flat=True)
        with pyro.plate("sentences", len(lengths)):
            drawn: Tensor = pyro.sample("words", chain, obs=words)
        return drawn

    def index(self, sentences: Any, lengths: Any = None) -> Any:
        """Sentences that mini-batches can be selected from: a corpus is itself, others lie flat."""
        if hasattr(sentences, "select") and lengths is None:
            return sentences
        words, lengths = as_flat(sentences, lengths, self.vocab)
        return Sentences(words, offsets_of(lengths))

    def with_states(self, states: int) -> Tagger:
        """The same model with another number of tags.

        :param states: how many.
        :raises StructureError: if its tags have names, or a dictionary tells them apart.
        """
        if not isinstance(self.tags, int) or self._tables["emission"].layout.support is not None:
            raise StructureError(
                "the tags of this tagger have names or a dictionary, so there is no model with more or fewer of them: "
                "give tags as a number, without a dictionary"
            )
        return Tagger(states, self.vocab, self.order, None, self.stop, self._priors())

    def gibbs_state(self) -> type[TagState]:
        """What :class:`.CollapsedGibbs` moves: labels of data under this model, its tables integrated out."""
        from .gibbs_tags import TagState

        return TagState

    @property
    def interchangeable(self) -> bool:  # type: ignore[override]
        """Without a dictionary, states are but numbers."""
        return self._tables["emission"].layout.support is None

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and tensors."""
        plain = {
            "tags": plain_names(self.tags),
            "vocab": plain_names(self.vocab),
            "order": self.order,
            "stop": self.stop,
            "prior": self._priors(),
        }
        mask = self._tables["emission"].layout.support
        return plain, {} if mask is None else {"dictionary": mask}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Tagger:
        """Build a model from its :meth:`settings`."""
        return cls(**plain, dictionary=tensors.get("dictionary"))

    def __repr__(self) -> str:
        extra = ", stop=True" if self.stop else ""
        known = "" if self._tables["emission"].layout.support is None else ", dictionary"
        return f"Tagger(tags={self.states}, vocab={self.words}, order={self.order}{extra}{known})"


def _mask(dictionary: Any, tags: Any, vocab: Any, K: int, V: int) -> Tensor | None:
    if dictionary is None:
        return None
    mask = torch.as_tensor(dictionary.mask(vocab) if hasattr(dictionary, "mask") else dictionary, dtype=torch.bool)
    if mask.shape != (K, V):
        raise StructureError(
            f"the dictionary mask should have shape (tags, words) = {(K, V)}, actual {tuple(mask.shape)}"
        )
    for axis, names, what, fix in (
        (0, vocab, "word", "a word that the dictionary does not list should allow every tag"),
        (1, tags, "tag", "leave the tag out, or take the vocabulary from the text that the dictionary comes from"),
    ):
        barred = (~mask.any(axis)).nonzero()
        if len(barred):
            first = int(barred[0])
            name = str(first) if isinstance(names, int) else repr(names[first])
            other = "tag" if what == "word" else "word"
            raise StructureError(f"{what} {name} has no allowed {other} in the dictionary: {fix}")
    return mask
