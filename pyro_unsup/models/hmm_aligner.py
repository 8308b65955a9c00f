"""The aligner by jumps: a hidden Markov model in both directions, which may learn from each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..distributions import Alignment, AlignmentHMM, HMMAgreement
from ..distributions.alignment.jumps import DIRECTIONS, again, directions
from ..errors import StructureError
from ..tables import Axis, Declaration, Layout, declare
from ..tables.derived import derived
from .aligner import Aligner
from .base import check_settings, size_of
from .lexicon import Lexicon
from .pairs import Pairs

if TYPE_CHECKING:
    from .gibbs_links import LinkState

WAYS = ("forward", "backward")
#: Jumps of this many words or more have one weight in common.
REACH = 5
#: What classes of words are called where a model is saved.
CLASSES = ("source_classes", "target_classes")

Start = Callable[[Mapping[str, Declaration], torch.Generator], dict[str, Tensor]]


class HMMAligner(Aligner):
    """Which word translates which, neighbours likely translating neighbours: a hidden Markov model in both directions.

        translation_forward, translation_backward       as in :class:`.Aligner`
        jump_forward[kind] ~ Dirichlet                  over offsets -5 (or less) .. 5 (or more)
        jump_backward[kind] ~ Dirichlet
        null_forward, null_backward ~ Dirichlet         no link, a link; if ``null`` is to be learned

    For each pair of sentences the target words come one after the other. Each has no link, and is drawn from the
    translations of the null word; or it jumps from the place of the last link to another, and is drawn from the
    translations of the word there. There are three kinds of jumps: from before the sentence to the first link, from
    link to link, and from the last link to the end. One that would leave the sentence is drawn again. The source words,
    in a model of their own, likewise. All links are summed out (:class:`.AlignmentHMM`).

    Jumps from link to link may depend on more: on the class of the word that they leave (``classes``), and on where the
    jump before went (``order=2``): back, to the same word, to the next, or further ahead. There is a row of the tables
    of jumps for each.

    EM is exact: jumps that were drawn in vain count too, in expectation (:func:`.again`). With agreement it is what
    :class:`.Aligner` says of it; jumps count as they do in their own direction.

    From uniform tables it learns poorly; :meth:`start_from` begins where an :class:`.Aligner` ended.

    :param null: the probability of no link; if not given, 1 / (words of the other sentence + 1); ``"learn"`` makes it a
        table.
    :param null_words: what words without a link are drawn from: ``"learn"`` a row of the table of translations,
        ``"uniform"`` every word of the vocabulary alike.
    :param classes: the class of every source word and of every target word, (words,) each, from 0 on; None where jumps
        do not depend on it. :func:`.word_classes` learns them with a tagger. Words that the vocabulary does not have
        are taken for words of the commonest class.
    :param order: 2 if jumps depend on the jump before.

        >>> import pyro_unsup as pu
        >>> source, target = [[0, 1], [0, 2], [1]], [[5, 6], [5, 7], [6]]  # the house, the book, house
        >>> first = pu.EM(pu.models.Aligner.of((source, target), source=3, target=8), init=pu.init.uniform())
        >>> fit = first.run((source, target), iterations=5)
        >>> model = pu.models.HMMAligner.like(fit.model)
        >>> fit = pu.EM(model, init=model.start_from(fit)).run((source, target), iterations=5)
        >>> model.best_translation(fit.weights["translation_forward"]).tolist()
        [5, 6, 7]

    **References:** [1] S. Vogel, H. Ney and C. Tillmann (1996) "HMM-based word alignment in statistical translation";
    [2] P. Liang, B. Taskar and D. Klein (2006) "Alignment by agreement".
    """

    _settings = (*Aligner._settings, "null_words", "order")

    def __init__(
        self,
        source: int | Sized,
        target: int | Sized,
        lexicon: Lexicon,
        agreement: str | None = "product",
        null: float | str | None = None,
        prior: float | Mapping[str, float] = 1.0,
        null_words: str = "learn",
        classes: tuple[Any, Any] = (None, None),
        order: int = 1,
    ) -> None:
        if isinstance(null, str) and null != "learn":
            raise StructureError(f"null must be a probability below 1, 'learn' or None, actual {null!r:.80}")
        if null_words not in ("learn", "uniform"):
            raise StructureError(f"null_words must be 'learn' or 'uniform', actual {null_words!r:.80}")
        self.learns_null, self.null_words = null == "learn", null_words
        self.order, many = order, directions(order)
        self.classes = tuple(
            None if given is None else _as_classes(name, given, size_of(vocab))
            for name, given, vocab in zip(("source", "target"), classes, (source, target), strict=True)
        )
        sizes = [1 if x is None else int(x.max()) + 1 for x in self.classes]
        self._own = _own_tables(self.learns_null, prior, [_kinds(many, size) for size in sizes])
        rest = {name: x for name, x in prior.items() if name not in self._own} if isinstance(prior, Mapping) else prior
        super().__init__(source, target, lexicon, agreement, None if isinstance(null, str) else null, rest)

    @classmethod
    def of(
        cls,
        bitext: Any,
        agreement: str | None = "product",
        null: float | str | None = None,
        prior: float | Mapping[str, float] = 1.0,
        source: int | Sized | None = None,
        target: int | Sized | None = None,
        null_words: str = "learn",
        classes: tuple[Any, Any] = (None, None),
        order: int = 1,
    ) -> HMMAligner:
        """An aligner for the words that occur together in these pairs of sentences; see :meth:`.Aligner.of`."""
        words = Aligner.of(bitext, agreement, source=source, target=target)
        return cls.like(words, null=null, prior=prior, null_words=null_words, classes=classes, order=order)

    @classmethod
    def like(cls, aligner: Aligner, **settings: Any) -> HMMAligner:
        """An aligner by jumps for the words of another aligner, with its agreement and null unless told otherwise."""
        known = {"agreement": aligner.agreement, "null": aligner.null}
        return cls(aligner.source, aligner.target, aligner.lexicon, **{**known, **settings})

    def directions(
        self,
        forward: Tensor,  # (shared + target null words,)
        backward: Tensor,  # (shared + source null words,), in the order of the forward table
        pairs: Pairs,
        shared: int,
    ) -> tuple[AlignmentHMM, AlignmentHMM, Tensor]:
        """The two alignments, and their cells: words that never met get one of their own, without weight.

        :param pairs: the data.
        :param shared: how many cells, the first ones, both tables have in common.
        """
        if self.null_words == "uniform":
            forward = derived(_even, forward, shared, self.target_words)
            backward = derived(_even, backward, shared, self.source_words)
        one, other, cells = super().directions(forward, backward, pairs, shared)
        return self._by_jumps(one, "forward"), self._by_jumps(other, "backward"), cells

    def _by_jumps(self, one: Alignment, way: str) -> AlignmentHMM:
        jump = declare(self._own[f"jump_{way}"])
        null, word = self._links(one, way)
        given = (one.weights["translation"], one.grid, jump, derived(again, jump), None, null, word)
        return AlignmentHMM(*given, one.turned, self._classes_of(one), self.order)

    def _classes_of(self, one: Alignment) -> Tensor | None:  # (words that may be chosen,)
        known, words = self.classes[int(one.turned)], one.grid.words
        if known is None:
            return None
        if words is None:
            raise StructureError("jumps depend on classes of words, and these pairs do not tell their words")
        return torch.cat([known, known.bincount().argmax()[None]])[words.of(one.turned).long()]

    def _links(self, one: Alignment, way: str) -> tuple[Tensor, Tensor]:  # (B,) or (*draws, 1, B) each
        """Log-probability of no link and of a link, by pair."""
        if self.learns_null:
            choice = declare(self._own[f"null_{way}"])
            links: tuple[Tensor, Tensor] = derived(_everywhere, choice, len(one.grid))
            return links
        sizes = one.grid.chosen(one.turned).to(one.weights["translation"].dtype)
        alone = 1 / (sizes + 1) if self.null is None else torch.full_like(sizes, self.null)
        return alone.log(), (1 - alone).log()

    def _agree(self, forward: Any, backward: Any, shared: int) -> HMMAgreement:
        return HMMAgreement(forward, backward, shared)

    def start_from(self, fit: Mapping[str, Tensor] | Any, sharp: float = 1.0) -> Start:
        """Where training may start: the translations of another fit, such as that of an :class:`.Aligner`. Of the
        tables that it does not have, jumps are the likelier the nearer they come to the next word, the rest is uniform.

        :param fit: a fit, or log-weights by table.
        :param sharp: by how much the log-weight of a jump falls with each word that it is off.
        """
        found: Mapping[str, Tensor] = getattr(fit, "weights", fit)
        if missing := [name for name in self._tables if name not in found]:
            raise StructureError(f"the other fit has no table {missing}: it has {sorted(found)}")

        def start(declarations: Mapping[str, Declaration], generator: torch.Generator) -> dict[str, Tensor]:
            result = {name: d.layout.uniform() for name, d in declarations.items() if name not in found}
            off = (torch.arange(-REACH, REACH + 1, dtype=torch.float64) - 1).abs()
            for name in result:
                if name.startswith("jump_"):
                    layout = declarations[name].layout
                    result[name] = layout.normalise((-sharp * off).repeat(layout.shape[0], 1))
            for name in declarations.keys() & found.keys():
                result[name] = declarations[name].layout.check(name, found[name].detach().double()).clone()
            return result

        return start

    def gibbs_state(self) -> type[LinkState]:
        """What :class:`.CollapsedGibbs` moves: links of words, the translations integrated out; and tables of jumps."""
        from .gibbs_jumps import JumpState

        return JumpState

    def declarations(self) -> dict[str, Declaration]:
        """The tables, by name."""
        return {**super().declarations(), **self._own}

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and tensors."""
        plain, tensors = super().settings()
        plain["prior"] |= {name: float(table.prior) for name, table in self._own.items()}
        plain |= {"null": "learn" if self.learns_null else self.null, "null_words": self.null_words}
        plain["order"] = self.order
        known = {name: x for name, x in zip(CLASSES, self.classes, strict=True) if x is not None}
        return plain, {**tensors, **known}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> HMMAligner:
        """Build a model from its :meth:`settings`."""
        check_settings(plain, *cls._settings)
        lexicon = Lexicon(size_of(plain["source"]), size_of(plain["target"]), tensors["sizes"], tensors["met"])
        return cls(**{**plain, "lexicon": lexicon, "classes": tuple(tensors.get(name) for name in CLASSES)})

    def __repr__(self) -> str:
        extra = ", null='learn'" if self.learns_null else ""
        extra += "" if self.null_words == "learn" else f", null_words={self.null_words!r}"
        extra += "" if self.order == 1 else f", order={self.order}"
        if any(x is not None for x in self.classes):
            extra += f", classes={tuple(None if x is None else int(x.max()) + 1 for x in self.classes)}"
        return f"HMM{super().__repr__().removesuffix(')')}{extra})"


def _as_classes(name: str, given: Any, words: int) -> Tensor:  # (words,)
    """Classes of all words of a vocabulary, checked."""
    found = torch.as_tensor(given)
    if found.shape != (words,) or found.is_floating_point() or found.dtype == torch.bool or int(found.min()) < 0:
        raise StructureError(
            f"the classes of {name} words should be whole numbers from 0 on, one for each of the {words} words, actual "
            f"shape {tuple(found.shape)}, dtype {found.dtype}"
            + (f", smallest {int(found.min())}" if found.numel() else "")
        )
    return found.long()


def _kinds(directions: int, classes: int) -> tuple[str, ...]:
    """What kinds of jumps are called."""
    after = [""] if directions == 1 else [f", after {name}" for name in DIRECTIONS]
    of = [""] if classes == 1 else [f", class {k}" for k in range(classes)]
    return ("first", *(f"inner{c}{d}" for d in after for c in of), "end")


def _own_tables(
    learns_null: bool, prior: float | Mapping[str, float], kinds: Sequence[tuple[str, ...]]
) -> dict[str, Declaration]:
    """Jumps, and whether there is a link, for both directions."""
    offsets = torch.arange(-REACH, REACH + 1)
    tables = {}
    for way, names in zip(WAYS, kinds, strict=True):
        # The first link and the end of a sentence lie to the right of where one comes from.
        support = torch.ones(len(names), len(offsets), dtype=torch.bool)
        support[[0, -1]] = offsets > 0
        axes: tuple[Axis, ...] = (Axis("kind", names), Axis("offset", offsets.tolist()))
        tables[f"jump_{way}"] = (Layout.dense(len(names), len(offsets), support=support), axes)
    if learns_null:
        tables |= {f"null_{way}": (Layout.dense(2), (Axis("link", ("none", "word")),)) for way in WAYS}
    given = prior if isinstance(prior, Mapping) else dict.fromkeys(tables, prior)
    return {
        name: Declaration(
            name, layout, torch.tensor(float(given.get(name, 1.0)), dtype=torch.float64), "keep", axes=axes
        )
        for name, (layout, axes) in tables.items()
    }


def _everywhere(choice: Tensor, size: int) -> tuple[Tensor, ...]:  # (*batch, 2) -> (*batch, size) each
    """Two weights, the same for all pairs."""
    return tuple(choice[..., k, None].expand(*choice.shape[:-1], size) for k in (0, 1))


def _even(table: Tensor, shared: int, words: int) -> Tensor:  # (*batch, C) -> the same
    """A table whose cells of the null word have the same weight for every word."""
    rest = table[..., shared:]
    return torch.cat([table[..., :shared], torch.full_like(rest, -math.log(words))], -1)
