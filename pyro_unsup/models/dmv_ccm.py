"""The product of the dependency model with valence and the constituent-context model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyro
import torch
from pyro import poutine
from torch import Tensor

from ..distributions import HeadedBracketing
from ..distributions.headed_bracketing import check_order
from ..distributions.ragged import offsets_of
from ..errors import StructureError
from ..tables import Declaration, declare
from .base import Model, check_settings, size_of
from .ccm import CCM, Estimate, Pair
from .dmv import DMV
from .inventory import Inventory
from .sentences import Sentences, as_parsed, vocab_of
from .spans import Spans

if TYPE_CHECKING:
    from .gibbs_brackets import HeadedState

Start = Callable[[Mapping[str, Declaration], torch.Generator], dict[str, Tensor]]


@dataclass(frozen=True, eq=False)
class TagsAndSpans:
    """Sentences as both models see them."""

    sentences: Sentences
    spans: Spans

    def __len__(self) -> int:
        return len(self.spans)

    @property
    def lengths(self) -> Tensor:  # (B,)
        """Words in each sentence."""
        return self.spans.lengths

    def select(self, indices: Any) -> TagsAndSpans:
        """The same of some sentences: integers in any order, or one truth value a sentence."""
        which = torch.as_tensor(indices)
        which = which.nonzero()[:, 0] if which.dtype == torch.bool else which.long()
        return TagsAndSpans(self.sentences.select(which), self.spans.select(which))


class DMVCCM(Model):
    """The product of :class:`.DMV` and :class:`.CCM` (Klein & Manning 2004), as an ordinary Pyro model.

        root, attach, stop ~ Dirichlet as in a DMV,  yield, context ~ Dirichlet as in a CCM
        for each sentence:  a dependency tree by the first three, and by the other two all spans as constituents or
                            distituents of the binary tree that goes with it; trees summed out

    A dependency tree becomes a binary one if every head takes its children one by one: those on one side first, then
    those on the other, near ones before far ones (:class:`.HeadedBracketing`). Both models draw the same tags, so the
    product is deficient.

    :param vocab: how many tags, or the tags themselves.
    :param inventory: the yields and contexts that have columns; :meth:`of` takes them from a corpus.
    :param variant: of the constituent-context model: 1, or 2 for yields given their width.
    :param prior: Dirichlet concentration, one for all tables or by name; of ``yield`` and ``context`` perhaps
        (constituents, distituents).
    :param empty_spans: let spans of no words draw their contexts too; see :class:`.CCM`.
    :param order: the side on which heads take their children first, ``"right"`` or ``"left"``.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(300, seed=1), max_length=8, drop=["PUNCT"])
        >>> model = pu.models.DMVCCM.of(corpus)
        >>> fit = pu.EM(model, pu.AddLambda(0.1), init=model.start(corpus)).run(corpus, iterations=10)
        >>> corpus.sentence(0), fit.posterior(corpus).mbr()[:5].tolist()  # heads: 0 is the root, k the k-th word
        (['PROPN', 'AUX', 'VERB', 'DET', 'NOUN'], [2, 3, 0, 3, 4])

    **References:** [1] D. Klein and C. D. Manning (2004) "Corpus-based induction of syntactic structure: models of
    dependency and constituency", section 5.
    """

    task = "dmv-ccm"

    def __init__(
        self,
        vocab: int | Sized,
        inventory: Inventory,
        variant: int = 1,
        prior: Pair | Mapping[str, Pair] = 1.0,
        empty_spans: bool = False,
        order: str = "right",
    ) -> None:
        check_order(order)
        names = ("root", "attach", "stop"), ("yield", "context")
        given = prior if isinstance(prior, Mapping) else dict.fromkeys([*names[0], *names[1]], prior)
        if unknown := given.keys() - {*names[0], *names[1]}:
            raise StructureError(f"prior names tables that a DMVCCM does not have: {sorted(unknown)}")
        if pairs := [name for name in names[0] if isinstance(given.get(name), tuple)]:
            raise StructureError(f"a prior of {', '.join(pairs)} is one number: only yield and context have two kinds")
        self.dmv = DMV(vocab, {name: given[name] for name in names[0] if name in given})  # type: ignore[misc]
        self.ccm = CCM(
            vocab, inventory, variant, {name: given[name] for name in names[1] if name in given}, empty_spans
        )
        self.vocab, self.symbols, self.order = vocab, self.ccm.symbols, order

    @classmethod
    def of(
        cls,
        sentences: Any,
        lengths: Any = None,
        vocab: int | Sized | None = None,
        variant: int = 1,
        prior: Pair | Mapping[str, Pair] = 1.0,
        empty_spans: bool = False,
        order: str = "right",
    ) -> DMVCCM:
        """A model with the yields and contexts of these sentences, such as those it will learn from.

        :param sentences: a corpus, lists of numbers, or a tensor of them.
        :param lengths: of the sentences, (B,), where these come as a padded or flat tensor; None for a corpus or lists.
        :param vocab: that of the corpus, if it is not given.
        """
        vocab = vocab_of(sentences, vocab)
        inventory = CCM.of(sentences, lengths, vocab, empty_spans=empty_spans).inventory
        return cls(vocab, inventory, variant, prior, empty_spans, order)

    def __call__(self, sentences: Any, lengths: Any = None) -> Tensor:
        """The model. It observes :class:`TagsAndSpans`, or sentences of tags (:func:`.as_flat`)."""
        data = self.index(sentences, lengths)
        root, attach, stop = (declare(table) for table in self.dmv.declarations().values())
        # The constituent-context model declares its tables; what it observes is seen here only.
        with poutine.block(hide=["sentences", "spans"]):
            site = poutine.trace(self.ccm).get_trace(data.spans).nodes["spans"]
        weights, spans = site["fn"].weights, site["value"]
        with pyro.plate("sentences", len(data)):
            trees = HeadedBracketing(
                *(root, attach, stop, weights["yields"], weights["contexts"], spans),
                data.spans.lengths,
                order=self.order,
            )
            observed: Tensor = pyro.sample("tags", trees, obs=data.sentences.words)
        return observed

    def index(self, sentences: Any, lengths: Any = None) -> TagsAndSpans:
        """Sentences as the model sees them. The spans of a corpus are remembered until another one comes."""
        if isinstance(sentences, TagsAndSpans):
            return sentences
        words, sizes = as_parsed(sentences, lengths, self.vocab)
        return TagsAndSpans(Sentences(words, offsets_of(sizes)), self.ccm.index(sentences, lengths))

    def start(
        self,
        sentences: Any,
        lengths: Any = None,
        reading: str = "counts",
        estimate: Estimate | None = None,
        **constants: Any,
    ) -> Start:
        """Where training may start: short dependencies are likelier, and trees are split after split, at random.

        :param reading: of what short dependencies are, with its constants: see :meth:`.DMV.harmonic_start`.
        :param estimate: how the expected counts of spans become weights: see :meth:`.CCM.split_start`.
        :param sentences: those to be learned from.
        :param lengths: of the sentences, (B,), where these come as a padded or flat tensor; None for a corpus or lists.
        """
        harmonic = self.dmv.harmonic_start(sentences, lengths, reading, **constants)
        split = self.ccm.split_start(sentences, lengths, estimate)
        return lambda declarations, generator: {
            **harmonic(declarations, generator),
            **split(declarations, generator),
        }

    def declarations(self) -> dict[str, Declaration]:
        """The tables, by name."""
        return {**self.dmv.declarations(), **self.ccm.declarations()}

    def gibbs_state(self) -> type[HeadedState]:
        """What :class:`.CollapsedGibbs` moves: trees of sentences under this model, its tables integrated out."""
        from .gibbs_brackets import HeadedState

        return HeadedState

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and tensors."""
        plain, tensors = self.ccm.settings()
        return {**plain, "prior": {**self.dmv.settings()[0]["prior"], **plain["prior"]}, "order": self.order}, tensors

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> DMVCCM:
        """Build a model from its :meth:`settings`."""
        check_settings(plain, "vocab", "variant", "prior", "empty_spans", "order")
        vocab = plain["vocab"]
        inventory = Inventory(size_of(vocab), tensors["yields"], tensors["contexts"])
        prior = {name: tuple(x) if isinstance(x, list) else x for name, x in plain["prior"].items()}
        return cls(vocab, inventory, plain["variant"], prior, plain["empty_spans"], plain["order"])

    def __repr__(self) -> str:
        known = f"{len(self.ccm.inventory.yields)} yields, {len(self.ccm.inventory.contexts)} contexts"
        extra = (
            f"{', empty_spans=True' if self.ccm.empty_spans else ''}{', order=left' if self.order == 'left' else ''}"
        )
        return f"DMVCCM(tags={self.symbols}, {known}, variant={self.ccm.variant}{extra})"
