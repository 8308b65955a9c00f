"""The brackets of sentences under models of spans whose tables are integrated out: CCM, and its product with the
DMV."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..distributions import Bracketing, HeadedBracketing, Posterior
from ..distributions.bracketing import check_trees
from ..distributions.bracketing_priors import uniform_tree
from ..distributions.cells import span_lengths
from ..distributions.ragged import offsets_of
from .gibbs_heads import HeadState
from .gibbs_trees import SPANS, TreeState
from .sentences import as_parsed
from .spans import Spans

if TYPE_CHECKING:
    from .ccm import CCM
    from .dmv_ccm import DMVCCM


class SpanDraws:
    """What the spans of sentences draw from the tables of a constituent-context model, by cell.

    :param model: it.
    :param spans: the sentences as it sees them.
    :param yields: (2, Y) the number of each cell of ``yield`` among all cells.
    :param contexts: (2, X) the same of ``context``.
    """

    def __init__(self, model: CCM, spans: Spans, yields: Array, contexts: Array) -> None:
        from ..kernels.gibbs_brackets import Columns

        self.cells = spans.cells
        self.edges = offsets_of(span_lengths(spans.lengths)).numpy()
        y, x = spans.cells.numpy().T
        self.columns = Columns(
            yields[0, y], contexts[0, x], int(yields[1, 0] - yields[0, 0]), int(contexts[1, 0] - contexts[0, 0])
        )
        gaps = [model.gap_columns(name, spans).numpy() for name in ("yield", "context")]
        self._gaps = np.concatenate([yields[0, gaps[0]], contexts[0, gaps[1]]])

    def count(self, inside: Array, n: Array) -> None:
        """Add what all spans draw, and the empty ones where they count.

        :param inside: (spans,) 1 for a constituent.
        """
        y, x, by_yield, by_context = self.columns
        drawn = np.concatenate([y + inside * by_yield, x + inside * by_context, self._gaps])
        n += np.bincount(drawn, minlength=len(n))


def span_priors(model: CCM) -> tuple[list[float], list[float]]:
    """The concentrations of yields and of contexts, of distituents and of constituents."""
    yields, contexts = ([*reversed(model.pairs[name])] for name in ("yield", "context"))
    return yields, contexts


class SpanState(TreeState):
    """For every span of a sentence 1 if it is a constituent, else 0, in the order of :func:`.spans_of`. Alpha is the
    concentration of ``yield``, beta that of ``context``, each for distituents and for constituents. Chains start from
    trees that are drawn by the tables of :meth:`.CCM.split_start`.

    :param model: a constituent-context model.
    :param sentences: what the model accepts as data.
    """

    structure = SPANS
    tables = (("yield", "yield"), "context")
    #: A constituent, or none.
    K = 2

    def __init__(self, model: CCM, sentences: Any) -> None:
        words, lengths = as_parsed(sentences, None, model.vocab)
        super().__init__(model, sentences, words, lengths, {"yield": (0, 1), "context": (2, 3)})
        alpha, beta = span_priors(model)
        self.concentrations = np.array(alpha), np.array(beta)
        at = (self._at[name].reshape(2, -1) for name in ("yield", "context"))
        self._spans = SpanDraws(model, model.index(sentences), *at)
        longest = int(self.lengths.max(initial=0))
        self._shared = float(uniform_tree(longest).numpy()[self.lengths].sum())  # all trees are alike
        self._structure = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._spans.cells)

    def log_choices(self, alpha: Array) -> float:
        """Log probability of trees and yields, given alpha."""
        return super().log_choices(alpha) + self._shared

    @property
    def labels(self) -> Array:  # (spans,) int32
        """1 for a constituent."""
        return self._structure.astype(np.int32)

    @labels.setter
    def labels(self, structure: Array) -> None:
        given = torch.from_numpy(np.asarray(structure))
        self._structure = check_trees(given, torch.from_numpy(self.lengths)).numpy().astype(np.int64)
        n = np.zeros_like(self.n)
        self._spans.count(self._structure, n)
        self._counted(n)

    def posterior(self, weights: Mapping[str, Tensor]) -> Posterior:
        yields, contexts = (weights[name].reshape(2, -1) for name in ("yield", "context"))
        return Bracketing(yields, contexts, torch.from_numpy(self.lengths)).posterior(self._spans.cells)

    def _start(self) -> Any:
        return self._model.split_start(self._given)

    def _sweep(self, urns: Any, rng: np.random.Generator) -> tuple[int, int]:
        from ..kernels.gibbs_brackets import sweep

        spans, uniforms, decisions = self._spans, rng.random(len(self.words)), rng.random(len(self.lengths))
        proposed, accepted = sweep(self.lengths, spans.edges, self._structure, spans.columns, urns, uniforms, decisions)
        return proposed, accepted


class HeadedState(HeadState):
    """The head of each word under the product of dependency and constituent-context model: 0 for the root, k for the
    k-th word of its sentence. The brackets are those that go with the heads. Alpha is the concentration of ``root``,
    ``attach``, ``stop``, and of ``yield`` for distituents and for constituents; beta that of ``context`` for the two.
    Chains start from trees that are drawn by the tables of :meth:`.DMVCCM.start`.

    :param model: the product of the two models.
    :param sentences: what the model accepts as data.
    """

    tables = (("root", "attach", "stop", "yield", "yield"), "context")

    def __init__(self, model: DMVCCM, sentences: Any) -> None:
        words, lengths = as_parsed(sentences, None, model.vocab)
        kinds: dict[str, Any] = {"root": 0, "attach": 1, "stop": 2, "yield": (3, 4), "context": (5, 6)}
        TreeState.__init__(self, model, sentences, words, lengths, kinds)
        alpha, beta = span_priors(model.ccm)
        of_heads = [float(one.prior) for one in model.dmv.declarations().values()]
        self.concentrations = np.array([*of_heads, *alpha]), np.array(beta)
        at = (self._at[name].reshape(2, -1) for name in ("yield", "context"))
        self._spans = SpanDraws(model.ccm, model.index(sentences).spans, *at)
        self._left_first = model.order == "left"
        self._begin(model.dmv)

    def _draws(self) -> Array:
        from ..kernels.headed_bracketing import brackets_of_heads

        n = super()._draws()
        self._spans.count(brackets_of_heads(self._heads, self.lengths, self._left_first).numpy(), n)
        return n

    def posterior(self, weights: Mapping[str, Tensor]) -> Posterior:
        root, attach, stop = (weights[name] for name in ("root", "attach", "stop"))
        yields, contexts = (weights[name].reshape(2, -1) for name in ("yield", "context"))
        spans, lengths = self._spans.cells, torch.from_numpy(self.lengths)
        trees = HeadedBracketing(root, attach, stop, yields, contexts, spans, lengths, order=self._model.order)
        return trees.posterior(torch.from_numpy(self.words))

    def _start(self) -> Any:
        return self._model.start(self._given)

    def _sweep(self, urns: Any, rng: np.random.Generator) -> tuple[int, int]:
        from ..kernels.gibbs_headed import sweep

        uniforms, decisions = rng.random((len(self), 2)), rng.random(len(self.lengths))
        where = (self.words, self.offsets, self._spans.edges, self._heads, self._left_first)
        proposed, accepted = sweep(*where, self._places, self._spans.columns, urns, uniforms, decisions)
        return proposed, accepted
