"""Lazily normalised rows: counts under exponential forgetting, at the price of the cells an update touches."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..errors import TableError
from .layout import Layout
from .op import take


class LazyTable:
    """A table that holds running counts and answers with their normalised logs.

    Each update forgets by a step size and adds fresh counts, as stepwise EM does:

        counts <- (1 - eta) counts + eta fresh

    Instead of shrinking every cell, the table keeps ``counts = scale * unscaled``: forgetting multiplies one number,
    and fresh counts go in as ``eta / scale`` with the scale *after* forgetting. Normalised weights are
    ``unscaled / row_sums``, in which the scale cancels. When the scale nears underflow (or a step of 1 forgets all) it
    is folded into every cell once.

    >>> table = LazyTable(Layout.dense(1, 3), torch.tensor([[1.0, 1.0, 2.0]]))
    >>> table.update(torch.tensor([[2.0]]), step=0.5, touched=torch.tensor([0]))
    >>> table.log_weights().exp()
    tensor([[0.5000, 0.1667, 0.3333]])
    """

    def __init__(self, layout: Layout, counts: Tensor) -> None:  # layout.shape
        if bool((counts < 0).any()):
            raise TableError(f"counts must not be negative, actual smallest = {counts.min().item()}")
        layout.check("counts", counts.log())
        self.layout = layout
        self.unscaled = counts.clone()
        self.row_sums = layout.row_sum(counts)  # layout.rows
        self.scale = 1.0
        self._ends = None if layout.row_lengths is None else layout.row_lengths.cumsum(0)

    def log_weights(self, touched: Tensor | None = None) -> Tensor:
        """Log-weights of the touched columns (dense) or cells (ragged), normalised over their whole rows.

        :raises TableError: if one of those rows has no counts left.
        """
        totals = self._spread(self.row_sums, touched)
        if not bool((totals > 0).all()):
            raise TableError("a row has no counts: start with counts in every row, and keep step sizes below 1")
        return take(self.unscaled, touched).log() - totals.log()

    def counts(self) -> Tensor:  # layout.shape
        """The running counts, every cell of them: for saving and for tests, not for hot loops."""
        return self.unscaled * self.scale

    def update(self, fresh: Tensor, step: float, touched: Tensor | None = None) -> None:
        """Forget by ``step`` and add ``step * fresh``, given for the touched columns or cells (no repeats)."""
        if fresh.numel() and float(fresh.min()) < 0:
            raise TableError(f"counts must not be negative, actual smallest = {float(fresh.min()):g}")
        if self.layout.support is not None:
            fresh = fresh * take(self.layout.support, touched)  # structural zeros stay
        if not 0 <= step <= 1:
            raise TableError(f"a step size must lie in [0, 1], actual = {step}")
        self.scale *= 1 - step
        if self.scale < self._floor():  # before fresh counts are divided by it: they might overflow
            self.unscaled *= self.scale
            self.row_sums *= self.scale
            self.scale = 1.0
        fresh = fresh * (step / self.scale)
        if touched is None:
            self.unscaled += fresh
            self.row_sums += self.layout.row_sum(fresh)
        else:
            self.unscaled.index_add_(-1, touched, fresh)
            if self._ends is None:
                self.row_sums += fresh.sum(-1)
            else:
                self.row_sums.index_add_(0, self._rows_of(touched), fresh)

    def _floor(self) -> float:
        # Half the exponent range: unscaled counts may grow as far up as the scale goes down.
        return math.sqrt(torch.finfo(self.unscaled.dtype).tiny)

    def _spread(self, per_row: Tensor, touched: Tensor | None) -> Tensor:
        if self._ends is None or touched is None:
            return self.layout.spread(per_row)
        return per_row[self._rows_of(touched)]

    def _rows_of(self, cells: Tensor) -> Tensor:
        assert self._ends is not None
        return torch.searchsorted(self._ends, cells, right=True)
