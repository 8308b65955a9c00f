"""The constituent-context model: binary trees over sequences of tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyro
import torch
from torch import Tensor

from ..distributions import Bracketing
from ..distributions.bracketing_priors import split_marginals, uniform_marginals, uniform_tree
from ..errors import StructureError
from ..tables import Declaration, Layout, declare
from .base import Model, check_settings, plain_names, size_of
from .inventory import Inventory, span_axes
from .sentences import as_parsed, vocab_of
from .spans import Spans, with_gaps

#: What a start adds to its expected counts, if it is not told otherwise.
START_SMOOTHING = 0.1

if TYPE_CHECKING:
    from .gibbs_brackets import SpanState

Pair = float | tuple[float, float]
Start = Callable[[Mapping[str, Declaration], torch.Generator], dict[str, Tensor]]


class Estimate(Protocol):
    """Makes weights of counts; every estimator of :mod:`pyro_unsup.estimate` does."""

    def weights(self, declaration: Declaration, counts: Tensor, old: Tensor) -> Tensor: ...


class CCM(Model):
    """The constituent-context model of Klein & Manning (2002), as an ordinary Pyro model.

        yield[c] ~ Dirichlet,  context[c] ~ Dirichlet            for c = 0 (distituent), 1 (constituent)
        for each sentence:  a binary tree, all alike; then for each span, in the tree or not, what it
                            consists of by yield, and what is around it by context; trees summed out

    Tables: ``yield`` (2, yields + 1) and ``context`` (2, contexts + 1). The last column stands for whatever the
    inventory does not have: it has no counts in training, so only an estimator that smooths gives it weight. The
    variant 2 (Smith & Eisner 2004) draws a yield given also how wide it is: ``yield`` is then ragged, a row for each
    width of distituents and then of constituents, an unknown yield at the end of each, and a row of one for all that
    is wider than any yield known. Axes: ``kind``, ``width`` in variant 2, and ``yield`` and ``context``, tuples of
    symbols.

    Neighbours of a span beyond the sentence are two symbols of their own, its start and its end. Single words and whole
    sentences are constituents of every tree.

    :param vocab: how many symbols, or the symbols themselves.
    :param inventory: the yields and contexts that have columns; :meth:`of` takes them from a corpus.
    :param variant: 1, or 2 for yields given their width.
    :param prior: Dirichlet concentration, one or (constituents, distituents); for all tables or by name.
    :param empty_spans: let spans of no words, between two words and at the edges of a sentence, draw their contexts
        too (Klein 2005). They are distituents of every tree, so they tell which symbols no constituent comes between.
        In variant 1 their yield is one more column, the last one; in variant 2 it is certain.

        >>> import torch
        >>> import pyro_unsup as pu
        >>> from pyro_unsup.distributions.bracketing import constituents
        >>> sentences = [[0, 1, 2], [3, 2, 0, 1], [0, 1, 2, 0, 1], [2, 0, 1]]  # determiner, noun, verb, pronoun
        >>> model = pu.models.CCM.of(sentences, vocab=4)
        >>> fit = pu.EM(model, pu.AddLambda(0.1), init=model.split_start(sentences)).run(sentences)
        >>> tree = fit.predict([[2, 0, 1]])
        >>> constituents(tree, torch.tensor([3])).tolist()  # sentence, start, end
        [[0, 0, 1], [0, 1, 2], [0, 2, 3], [0, 1, 3], [0, 0, 3]]
    """

    task = "ccm"

    def __init__(
        self,
        vocab: int | Sized,
        inventory: Inventory,
        variant: int = 1,
        prior: Pair | Mapping[str, Pair] = 1.0,
        empty_spans: bool = False,
    ) -> None:
        if type(variant) is not int or variant not in (1, 2):
            raise StructureError(f"variant must be 1, or 2 (yields given their width), actual = {variant!r:.80}")
        if not isinstance(empty_spans, bool):
            raise StructureError(f"empty_spans must be True or False, actual = {empty_spans!r:.80}")
        self.vocab, self.inventory, self.variant, self.empty_spans = vocab, inventory, variant, empty_spans
        self.symbols = size_of(vocab)
        if inventory.symbols != self.symbols:
            raise StructureError(f"the inventory is of {inventory.symbols} symbols, the vocabulary has {self.symbols}")
        widths = inventory.widths
        rows = np.concatenate([widths + 1, [1]]) if variant == 2 else np.array([widths.sum() + 1 + empty_spans])
        self._empty = int(rows[0]) - 1 if variant == 1 and empty_spans else None  # the column of the empty yield
        self._rows = np.concatenate([[0], np.cumsum(rows)])  # where the yields of each width begin, in a row of 1
        layouts = {
            "yield": Layout.dense(2, int(rows.sum())) if variant == 1 else Layout.ragged([*rows, *rows]),
            "context": Layout.dense(2, len(inventory.contexts) + 1),
        }
        self.pairs = {name: _pair(prior.get(name, 1.0) if isinstance(prior, Mapping) else prior) for name in layouts}
        axes = span_axes(inventory, vocab, self._rows if variant == 2 else None, self._empty is not None)
        # A word on its own is never a distituent, and no sentence may be long enough for the widest rows.
        self._tables = {
            name: Declaration(name, layout, _concentration(self.pairs[name], layout), "keep", axes=axes[name])
            for name, layout in layouts.items()
        }

    @classmethod
    def of(
        cls,
        sentences: Any,
        lengths: Any = None,
        vocab: int | Sized | None = None,
        variant: int = 1,
        prior: Pair | Mapping[str, Pair] = 1.0,
        empty_spans: bool = False,
    ) -> CCM:
        """A model with the yields and contexts of these sentences, such as those it will learn from.

        :param sentences: a corpus, lists of numbers, or a tensor of them.
        :param lengths: of the sentences, (B,), where these come as a padded or flat tensor; None for a corpus or lists.
        :param vocab: that of the corpus, if it is not given.
        """
        vocab = vocab_of(sentences, vocab)
        words, lengths = as_parsed(sentences, lengths, vocab)
        inventory = Inventory.of(words, lengths, size_of(vocab), empty_spans)
        return cls(vocab, inventory, variant, prior, empty_spans)

    def __call__(self, sentences: Any, lengths: Any = None) -> Tensor:
        """The model. It observes :class:`Spans`, or sentences of symbols (:func:`.as_flat`)."""
        spans = self.index(sentences, lengths)
        y, x = columns = spans.cells.unbind(1)
        if self.empty_spans:
            y, x = (
                torch.cat([c, self.gap_columns(name, spans)]) for name, c in zip(self._tables, columns, strict=True)
            )
        yields, y = self._declare("yield", y)
        contexts, x = self._declare("context", x)
        if self.empty_spans:
            yields, y = with_gaps(yields, contexts, y, x, spans)
        same = y is columns[0] and x is columns[1]  # as in every step of batch EM: nothing to copy
        cells = spans.cells if same else torch.stack([y, x[: len(y)]], 1)
        tree = uniform_tree(int(spans.lengths.max())).to(yields.dtype)
        with pyro.plate("sentences", len(spans)):
            bracketing = Bracketing(yields, contexts, spans.lengths, tree=tree)
            observed: Tensor = pyro.sample("spans", bracketing, obs=cells)
        return observed

    def _declare(self, name: str, columns: Tensor) -> tuple[Tensor, Tensor]:  # (n,) -> (*batch, 2, C), (n,)
        """Log-weights of a table, or of the columns that a mini-batch touches; and where in them these columns are."""
        declaration = self._tables[name]
        size, dense = declaration.layout.shape.numel() // 2, declaration.layout.row_lengths is None
        if len(columns) < size:
            used, columns = torch.unique(columns, return_inverse=True)
            declaration = declaration.touching(used if dense else torch.cat([used, used + size]))
        weights = declare(declaration)
        return weights if dense else weights.unflatten(-1, (2, -1)), columns

    def index(self, sentences: Any, lengths: Any = None) -> Spans:
        """Sentences as the model sees them. What a corpus looks like is remembered until another one comes."""
        if isinstance(sentences, Spans):
            if (sentences.before is not None) != self.empty_spans:
                raise StructureError("the spans were indexed by another model, with empty spans or without: index anew")
            return sentences
        seen: Spans | None = self._recall(sentences)
        if seen is not None:
            return seen
        words, lengths = as_parsed(sentences, lengths, self.vocab)
        found = self.inventory.find(words, lengths)
        known = len(self.inventory.yields)
        columns = found.yields
        if self.variant == 2:
            widest = len(self.inventory.widths)
            width = np.minimum(found.widths, widest + 1)
            # Every width before this one has a column of its own for the unknown.
            columns = np.where(found.yields < known, found.yields + width - 1, self._rows[width] - 1)
        gaps = self.inventory.find_gaps(words, lengths) if self.empty_spans else ()
        cells = torch.from_numpy(np.stack([columns, found.contexts], 1))
        spans = Spans(cells, lengths, *map(torch.from_numpy, gaps))
        self._remember(sentences, spans)
        return spans

    def split_start(self, sentences: Any, lengths: Any = None, estimate: Estimate | None = None) -> Start:
        """Where training may start: what is expected of these sentences if trees are split after split, at random.

        :param sentences: those to be learned from.
        :param lengths: of the sentences, (B,), where these come as a padded or flat tensor; None for a corpus or lists.
        :param estimate: how expected counts become weights; by default 0.1 is added to each.
        """
        return self._start(split_marginals, sentences, lengths, estimate)

    def uniform_start(self, sentences: Any, lengths: Any = None, estimate: Estimate | None = None) -> Start:
        """The same if all trees are alike. Those are more balanced than the trees of most languages.

        :param sentences: those to be learned from.
        :param lengths: of the sentences, (B,), where these come as a padded or flat tensor; None for a corpus or lists.
        :param estimate: how expected counts become weights, see :meth:`split_start`.
        """
        return self._start(uniform_marginals, sentences, lengths, estimate)

    def _start(
        self, marginals: Callable[[Tensor], Tensor], sentences: Any, lengths: Any, estimate: Estimate | None
    ) -> Start:
        def start(declarations: Mapping[str, Declaration], generator: torch.Generator) -> dict[str, Tensor]:
            spans = self.index(sentences, lengths)
            inside, weights = marginals(spans.lengths), {}
            for column, (name, declaration) in enumerate(self._tables.items()):
                cells, size = spans.cells[:, column], declaration.layout.shape.numel() // 2
                rows = [torch.bincount(cells, p, minlength=size) for p in (1 - inside, inside)]
                rows[0] += torch.bincount(self.gap_columns(name, spans), minlength=size)
                counts = torch.stack(rows).reshape(declaration.layout.shape)
                if estimate is None:
                    weights[name] = declaration.layout.normalise((counts + START_SMOOTHING).log())
                else:
                    weights[name] = estimate.weights(declaration, counts, declaration.layout.uniform())
            return weights

        return start

    def gap_columns(self, name: str, spans: Spans) -> Tensor:  # (gaps,)
        """The columns of a table that empty spans use."""
        if name == "yield":
            return spans.gaps[:0] if self._empty is None else torch.full_like(spans.gaps, self._empty)
        return spans.gaps

    def gibbs_state(self) -> type[SpanState]:
        """What :class:`.CollapsedGibbs` moves: trees of sentences under this model, its tables integrated out."""
        from .gibbs_brackets import SpanState

        return SpanState

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """What it takes to build this model again: plain values, and tensors."""
        prior = {name: list(pair) for name, pair in self.pairs.items()}
        plain = {
            "vocab": plain_names(self.vocab),
            "variant": self.variant,
            "prior": prior,
            "empty_spans": self.empty_spans,
        }
        return plain, {"yields": self.inventory.yields, "contexts": self.inventory.contexts}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> CCM:
        """Build a model from its :meth:`settings`."""
        check_settings(plain, "vocab", "variant", "prior", "empty_spans")
        inventory = Inventory(size_of(plain["vocab"]), tensors["yields"], tensors["contexts"])
        prior = {name: tuple(pair) for name, pair in plain["prior"].items()}
        return cls(plain["vocab"], inventory, plain["variant"], prior, plain["empty_spans"])

    def __repr__(self) -> str:
        known = f"{len(self.inventory.yields)} yields, {len(self.inventory.contexts)} contexts"
        extra = ", empty_spans=True" if self.empty_spans else ""
        return f"CCM(vocab={self.symbols}, {known}, variant={self.variant}{extra})"


def _pair(prior: Pair) -> tuple[float, float]:
    constituents, distituents = (float(x) for x in (prior if isinstance(prior, tuple) else (prior, prior)))
    if not (0 < constituents < torch.inf and 0 < distituents < torch.inf):
        raise StructureError(f"the Dirichlet prior must be positive and finite, actual {(constituents, distituents)}")
    return constituents, distituents


def _concentration(pair: tuple[float, float], layout: Layout) -> Tensor:
    rows = torch.tensor(pair[::-1], dtype=torch.float64)  # distituents come first
    return rows.repeat_interleave(layout.shape.numel() // 2) if layout.row_lengths is not None else rows.unsqueeze(-1)
