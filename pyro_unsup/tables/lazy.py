"""Lazily normalised rows: running counts, at the price of the cells an update touches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from copy import copy

import torch
from torch import Tensor

from ..errors import TableError
from .layout import Layout
from .op import take


class LazyTable:
    """A table that holds running counts and answers with the log-weights they stand for.

    Each update forgets by a step size and adds fresh counts, as stepwise EM does:

        counts <- (1 - eta) counts + eta fresh

    Instead of shrinking every cell, the table keeps ``counts = scale * unscaled``: forgetting multiplies one number,
    and fresh counts go in as ``eta / scale`` with the scale *after* forgetting. When the scale nears underflow it is
    folded into every cell once. Columns lie together in memory, so that an update touches what it changes.

    Weights are relative frequencies, ``unscaled / row_sums``, in which the scale cancels. Pseudo-counts enter when
    weights are read, and so does another link than the logarithm, such as the digamma function of variational Bayes:

        log-weight = link(unit * count + extra) - link(unit * row sum + extra of the row)

    A row that nothing visits keeps its proportions, however much it has forgotten.

    :param extra: pseudo-counts, broadcastable to the layout's shape; structural zeros get none. ``extra_rows`` are
        those of a row together.
    :param unit: what a count is worth against pseudo-counts.

    >>> import torch
    >>> from pyro_unsup.tables import Layout, LazyTable
    >>> table = LazyTable(Layout.dense(1, 3), torch.tensor([[1.0, 1.0, 2.0]]))
    >>> table.update(torch.tensor([[2.0]]), step=0.5, touched=torch.tensor([0]))
    >>> table.log_weights().exp()
    tensor([[0.5000, 0.1667, 0.3333]])
    """

    def __init__(
        self,
        layout: Layout,
        counts: Tensor,  # layout.shape
        extra: Tensor | None = None,
        link: Callable[[Tensor], Tensor] = torch.log,
        unit: float = 1.0,
    ) -> None:
        if bool((counts < 0).any()):
            raise TableError(f"counts must not be negative, actual smallest = {counts.min().item()}")
        layout.check("counts", counts.log())
        self.layout, self.link, self.unit = layout, link, unit
        self.unscaled = _by_column(counts)
        self.row_sums = layout.row_sum(counts)  # layout.rows
        self.scale = 1.0
        self.extra: Tensor | None = None
        self.extra_rows = torch.zeros(())
        if link is not torch.log or (extra is not None and bool((extra != 0).any())):
            extra = torch.zeros(()) if extra is None else extra
            self.extra = extra.to(counts.dtype).expand(layout.shape)
            self.extra_rows = layout.row_sum(self._allowed_extra(None))
        self._ends = None if layout.row_lengths is None else layout.row_lengths.cumsum(0)

    def log_weights(self, touched: Tensor | None = None) -> Tensor:  # (n,) -> (*rows, n)
        """Log-weights of the touched columns (dense) or cells (ragged), normalised over their whole rows.

        :raises TableError: if one of those rows has no counts.
        """
        cells, rows = take(self.unscaled, touched), self.row_sums
        if self.extra is not None:
            worth = self.unit * self.scale
            cells, rows = cells * worth + self._allowed_extra(touched), rows * worth + self.extra_rows
        totals = self._spread(rows, touched)
        if not bool((totals > 0).all()):
            raise TableError("a row has no counts: start with counts in every row")
        return self.link(cells) - self.link(totals)

    def counts(self) -> Tensor:  # layout.shape
        """The running counts, every cell of them: for saving and for tests, not for hot loops."""
        return self.unscaled * self.scale

    def update(self, fresh: Tensor, step: float, touched: Tensor | None = None) -> None:
        """Forget by ``step`` and add ``step * fresh``, given for the touched columns or cells (no repeats)."""
        if fresh.numel() and float(fresh.min()) < 0:
            raise TableError(f"counts must not be negative, actual smallest = {float(fresh.min()):g}")
        if not 0 <= step <= 1:
            raise TableError(f"a step size must lie in [0, 1], actual = {step}")
        scale = self.scale * (1 - step)
        if scale < self.floor:  # before fresh counts are divided by it: they might overflow
            self._fold(scale, self._rows(self._masked(fresh, touched), touched) > 0)
        else:
            self.scale = scale
        self._add(fresh * (step / self.scale), touched)

    def shift(self, change: Tensor, touched: Tensor | None = None) -> None:  # (*rows, n), (n,)
        """Add to the counts, or take away from them, without forgetting.

        What rounding leaves below zero becomes zero, and a row that would lose all of its counts stays as it is.
        """
        before = take(self.unscaled, touched)
        change = (before + change / self.scale).clamp(min=0) - before
        lost = self.row_sums + self._rows(change, touched) <= 0
        self._add(change.masked_fill(self._spread(lost, touched), 0), touched)

    def copy(self) -> LazyTable:
        """The same counts, to be changed apart from these."""
        new = copy(self)
        new.unscaled, new.row_sums = _by_column(self.unscaled), self.row_sums.clone()
        return new

    def tensors(self) -> dict[str, Tensor]:
        """Copies of what it takes to go on from here."""
        numbers = {
            "scale": torch.tensor(self.scale, dtype=torch.float64),
            "unit": torch.tensor(self.unit, dtype=torch.float64),
        }
        return {"unscaled": self.unscaled.contiguous().clone(), "row_sums": self.row_sums.clone(), **numbers}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from :meth:`tensors`."""
        for key, now in self.tensors().items():
            if key not in tensors or tensors[key].shape != now.shape:
                raise TableError(f"expected '{key}' of shape {tuple(now.shape)} among the counts to go on from")
        if not 0 < float(tensors["scale"]) <= 1 or any(not bool((x >= 0).all()) for x in tensors.values()):
            raise TableError("the counts to go on from hold NaN or negative numbers")
        self.unscaled = _by_column(tensors["unscaled"].to(self.unscaled.dtype))
        self.row_sums = tensors["row_sums"].to(self.row_sums.dtype).clone()
        self.scale, self.unit = float(tensors["scale"]), float(tensors["unit"])

    @property
    def floor(self) -> float:
        """The smallest scale: half the exponent range, as unscaled counts may grow as far up as the scale goes down."""
        return math.sqrt(torch.finfo(self.unscaled.dtype).tiny)

    def _add(self, fresh: Tensor, touched: Tensor | None) -> None:
        fresh = self._masked(fresh, touched)
        if touched is None:
            self.unscaled += fresh
            self.row_sums += self.layout.row_sum(fresh)
        else:
            self.unscaled.index_add_(-1, touched, fresh)
            if self._ends is None:
                self.row_sums += fresh.sum(-1)
            else:
                self.row_sums.index_add_(0, self._rows_of(touched), fresh)

    def _fold(self, scale: float, visited: Tensor) -> None:  # visited: layout.rows
        """Multiply every cell by ``scale``. No row becomes empty, unless the scale is 0 and the row is visited."""
        factor = (self.floor / self.row_sums).clamp(min=scale)
        factor = factor.where(~(visited & bool(scale == 0)) & (self.row_sums > 0), 0)
        self.unscaled *= self.layout.spread(factor)
        self.row_sums *= factor
        self.scale = 1.0

    def _masked(self, part: Tensor, touched: Tensor | None) -> Tensor:
        support = self.layout.support  # structural zeros stay
        return part if support is None else part * take(support, touched)

    def _allowed_extra(self, touched: Tensor | None) -> Tensor:
        assert self.extra is not None
        return self._masked(take(self.extra, touched), touched)

    def _rows(self, part: Tensor, touched: Tensor | None) -> Tensor:  # touched part -> layout.rows
        if self._ends is None or touched is None:
            return self.layout.row_sum(part)
        return part.new_zeros(self.row_sums.shape).index_add_(0, self._rows_of(touched), part)

    def _spread(self, per_row: Tensor, touched: Tensor | None) -> Tensor:
        if self._ends is None or touched is None:
            return self.layout.spread(per_row)
        return per_row[self._rows_of(touched)]

    def _rows_of(self, cells: Tensor) -> Tensor:
        assert self._ends is not None
        return torch.searchsorted(self._ends, cells.long(), right=True)


def _by_column(counts: Tensor) -> Tensor:
    """A copy in which each column lies together."""
    return counts.detach().movedim(-1, 0).clone(memory_format=torch.contiguous_format).movedim(0, -1)
