"""The dependency model with valence: dependency trees over sequences of tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyro
import torch
from torch import Tensor

from ..distributions import Dependency
from ..distributions.ragged import check_lengths, offsets_of
from ..errors import StructureError
from ..tables import Declaration, Layout, declare, dense_tables
from .base import Model, check_settings, plain_names, size_of
from .harmonic import READINGS
from .sentences import Sentences, as_flat, as_parsed, vocab_of

if TYPE_CHECKING:
    from .gibbs_heads import HeadState

Start = Callable[[Mapping[str, Declaration], torch.Generator], dict[str, Tensor]]

#: What the axes of each table are called.
_AXES = {
    "root": ("child",),
    "attach": ("head", "direction", "child"),
    "stop": ("head", "direction", "adjacency", "decision"),
}
_BY_VALENCE = ("head", "direction", "adjacency", "child")
_LABELS = {"direction": ("left", "right"), "adjacency": ("adjacent", "beyond"), "decision": ("stop", "continue")}


class DMV(Model):
    """The dependency model with valence of Klein & Manning (2004), as an ordinary Pyro model.

        root ~ Dirichlet,  attach[head, direction] ~ Dirichlet,  stop[head, direction, adjacency] ~ Dirichlet
        for each sentence:  one root; every word, to the left and to the right of it, stops or continues by ``stop``
                            and draws its children by ``attach``; trees summed out

    Tables: ``root`` (K,), ``attach`` (K, 2, K) with the axes ``head``, ``direction`` (left, right) and ``child``, and
    ``stop`` (K, 2, 2, 2) with the axes ``head``, ``direction``, ``adjacency`` (adjacent: no child yet; beyond) and
    ``decision`` (stop, continue). Trees are projective and have one root. With ``valence=2`` the first child of a head
    on a side is drawn from a row of its own (Headden et al. 2009): ``attach`` is (K, 2, 2, K), with the axes ``head``,
    ``direction``, ``adjacency`` and ``child``.

    :param tags: how many tags, or the tags themselves. Sentences are sequences of them, the words of a corpus after
        ``tags_as_words()``.
    :param prior: Dirichlet concentration, one for all tables or by name.
    :param valence: 2 if the first child has a row of its own, 1 if not.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(300, seed=1), max_length=8, drop=["PUNCT"])
        >>> model = pu.models.DMV.of(corpus)
        >>> fit = pu.EM(model, pu.AddLambda(0.1), init=model.harmonic_start(corpus)).run(corpus)
        >>> corpus.sentence(0), fit.posterior(corpus).mbr()[:5].tolist()  # heads: 0 is the root, k the k-th word
        (['PROPN', 'AUX', 'VERB', 'DET', 'NOUN'], [2, 3, 0, 3, 4])

    **References:** [1] D. Klein and C. D. Manning (2004) "Corpus-based induction of syntactic structure: models of
    dependency and constituency"; [2] W. P. Headden III, M. Johnson and D. McClosky (2009) "Improving unsupervised
    dependency parsing with richer contexts and smoothing".
    """

    task = "dmv"

    def __init__(self, tags: int | Sized, prior: float | Mapping[str, float] = 1.0, valence: int = 1) -> None:
        if valence not in (1, 2):
            raise StructureError(f"valence should be 1 or 2, actual {valence!r:.40}")
        self.tags, self.valence = tags, valence
        self.symbols = size_of(tags)
        labels: dict[str, int | Sized] = {"head": tags, "child": tags, **_LABELS}
        names = {**_AXES, "attach": _BY_VALENCE} if valence > 1 else _AXES
        axes = {name: {axis: labels[axis] for axis in each} for name, each in names.items()}
        # A tag that is always last never has children to its right, and the like.
        self._tables = dense_tables("a DMV", axes, prior, keep=["attach", "stop"])

    @classmethod
    def of(cls, sentences: Any, prior: float | Mapping[str, float] = 1.0, valence: int = 1) -> DMV:
        """A model of the symbols of this corpus.

        :param sentences: a corpus, or lists of symbols.
        :param prior: concentration of the tables, one for all or by table.
        :param valence: 2 if the first child of a head on a side has probabilities of its own.
        """
        return cls(vocab_of(sentences), prior, valence)

    @property
    def vocab(self) -> int | Sized:
        """The tags, by the name that symbols have in other models."""
        return self.tags

    def __call__(self, sentences: Any = None, lengths: Any = None) -> Tensor:
        """The model. Without sentences it draws tags of the given lengths; both lie flat (:func:`.as_flat`)."""
        tags: Tensor | None = None
        if sentences is None:
            lengths = check_lengths(lengths)
        else:
            tags, lengths = as_parsed(sentences, lengths, self.tags)
        root, attach, stop = (declare(table) for table in self._tables.values())
        with pyro.plate("sentences", len(lengths)):
            drawn: Tensor = pyro.sample("tags", Dependency(root, attach, stop, lengths, self.valence), obs=tags)
        return drawn

    def index(self, sentences: Any, lengths: Any = None) -> Any:
        """Sentences that mini-batches can be selected from: a corpus is itself, others lie flat."""
        if hasattr(sentences, "select") and lengths is None:
            return sentences
        tags, lengths = as_flat(sentences, lengths, self.tags)
        return Sentences(tags, offsets_of(lengths))

    def harmonic_start(self, sentences: Any, lengths: Any = None, reading: str = "counts", **constants: Any) -> Start:
        """Where training may start: short dependencies are likelier (Klein & Manning 2004, section 3).

        What the paper says leaves room, and more than one reading of it is in use. All are in :mod:`.harmonic`, with
        the constants that each takes:

        * ``"counts"``: every other word is a head in proportion to 1 / distance; counts that go with that.
        * ``"tree"``: expected counts if a tree weighs the product of 1 / (distance + 2) over its arcs.
        * ``"parameters"``: the same with 1 / (distance + 1), and words that stop with fixed probabilities.
        * ``"viterbi"``: counts of the best trees under 1 / (distance + 2).

        :param sentences: those to be learned from.
        :param lengths: of the sentences, (B,), where these come as a padded or flat tensor; None for a corpus or lists.
        :param reading: one of those above.
        :param constants: of that reading.
        """
        if reading not in READINGS:
            raise StructureError(f"reading should be one of {', '.join(READINGS)}, actual {reading!r:.80}")
        known = list(signature(READINGS[reading]).parameters)[3:]
        if unknown := constants.keys() - set(known):
            raise StructureError(
                f"the reading '{reading}' has the constants {', '.join(known)}, actual {', '.join(sorted(unknown))}"
            )

        def start(declarations: Mapping[str, Declaration], generator: torch.Generator) -> dict[str, Tensor]:
            tags, sizes = as_parsed(sentences, lengths, self.tags)
            counts = READINGS[reading](tags.long(), sizes, self.symbols, **constants)
            if self.valence > 1:  # first and later children begin alike
                counts["attach"] = counts["attach"].unsqueeze(2).expand(-1, -1, 2, -1)
            return {name: _shares(table.layout, counts[name]) for name, table in self._tables.items()}

        return start

    def gibbs_state(self) -> type[HeadState]:
        """What :class:`.CollapsedGibbs` moves: trees of sentences under this model, its tables integrated out."""
        from .gibbs_heads import HeadState

        return HeadState

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and tensors."""
        return {"tags": plain_names(self.tags), "prior": self._priors(), "valence": self.valence}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> DMV:
        """Build a model from its :meth:`settings`."""
        check_settings(plain, "tags", "prior", "valence")
        return cls(plain["tags"], plain["prior"], plain["valence"])

    def __repr__(self) -> str:
        return f"DMV(tags={self.symbols}{'' if self.valence == 1 else f', valence={self.valence}'})"


def _shares(layout: Layout, counts: Tensor) -> Tensor:
    """Counts as log-weights; a row without any is even."""
    return layout.normalise(torch.where(layout.row_sum(counts).unsqueeze(-1) > 0, counts, 1.0).log())
