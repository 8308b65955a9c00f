"""The shape of a table: which cells exist, and which of them share a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..distributions.segments import row_index, segment_logsumexp, segment_sum
from ..errors import TableError
from ..kernels.room import room
from ..kernels.threads import NUMBERS_A_TOKEN, in_parts


@dataclass(frozen=True, eq=False)
class Layout:
    """Rows of outcomes. Dense rows have one size; a support forbids some cells; ragged rows lie flat, end to end.

    :param shape: of the log-weights: ``(*rows, outcomes)`` if dense, ``(cells,)`` if ragged.
    :param support: bool, of the same shape; False marks a structural zero. Dense tables only.
    :param row_lengths: (rows,) cells in each row. Ragged tables only.

    >>> import torch
    >>> from pyro_unsup.tables import Layout
    >>> layout = Layout.dense(2, 3, support=torch.tensor([[True, True, False], [True, True, True]]))
    >>> layout.uniform().exp()
    tensor([[0.5000, 0.5000, 0.0000],
            [0.3333, 0.3333, 0.3333]], dtype=torch.float64)
    >>> Layout.ragged([1, 3]).row_sum(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([1., 9.])
    """

    shape: torch.Size
    support: Tensor | None = None
    row_lengths: Tensor | None = None

    #: Cells of a table that torch does as fast as a kernel.
    SMALL: ClassVar[int] = 1 << 12

    @staticmethod
    def dense(*shape: int, support: Tensor | None = None) -> Layout:
        """Rows of one size, ``shape = (*rows, outcomes)``, perhaps with structural zeros."""
        if not shape or min(shape) < 1:
            raise TableError(f"a table needs at least one outcome and no empty axis, actual shape = {shape}")
        if support is not None:
            support = torch.as_tensor(support, dtype=torch.bool)
            try:
                support = support.expand(shape)
            except RuntimeError:
                raise TableError(
                    f"a support must broadcast to the table's shape {shape}, actual shape {tuple(support.shape)}"
                ) from None
            empty = (~support.any(-1)).nonzero()
            if len(empty):
                raise TableError(
                    f"row {tuple(empty[0].tolist())} has no allowed outcome: every row of a support needs "
                    "at least one True"
                )
            if bool(support.all()):
                support = None
        return Layout(torch.Size(shape), support)

    @staticmethod
    def ragged(row_lengths: Tensor | Sequence[int]) -> Layout:
        """Rows of different lengths, stored flat; never a dense rectangle."""
        lengths = torch.as_tensor(row_lengths)
        whole = not (lengths.is_floating_point() or lengths.dtype == torch.bool)
        if not whole or lengths.dim() != 1 or len(lengths) == 0 or int(lengths.min()) < 1:
            raise TableError(f"row_lengths must be a non-empty vector of positive integers, actual = {lengths}")
        return Layout(torch.Size([int(lengths.sum())]), None, lengths.long())

    @property
    def rows(self) -> torch.Size:
        """Shape of a quantity that has one value a row."""
        return self.shape[:-1] if self.row_lengths is None else self.row_lengths.shape

    def allowed(self) -> Tensor:  # shape
        """True where a weight may be above zero."""
        return torch.ones(self.shape, dtype=torch.bool) if self.support is None else self.support

    def row_sum(self, x: Tensor) -> Tensor:  # shape -> rows
        """Sum over each row."""
        if self.row_lengths is None:
            return x.sum(-1)
        if _is_plain(x):
            return torch.from_numpy(np.add.reduceat(x.numpy(), self._ends[:-1], dtype=np.float64)).to(x.dtype)
        return segment_sum(x, row_index(self.row_lengths), len(self.row_lengths))

    def empty_rows(self, x: Tensor) -> int:  # shape
        """How many rows have a sum of zero."""
        sums = self.row_sum(x)
        return sums.numel() - int(sums.count_nonzero())

    def row_logsumexp(self, x: Tensor) -> Tensor:  # shape -> rows
        """Log-sum-exp over each row; -inf for a row of structural zeros."""
        if self.row_lengths is None:
            return torch.logsumexp(x, -1)
        return segment_logsumexp(x, row_index(self.row_lengths), len(self.row_lengths))

    def spread(self, x: Tensor) -> Tensor:  # rows -> shape (broadcastable)
        """Give every cell its row's value."""
        if self.row_lengths is None:
            return x.unsqueeze(-1)
        if _is_plain(x):
            return torch.from_numpy(np.repeat(x.numpy(), self.row_lengths.numpy()))
        return x.repeat_interleave(self.row_lengths)

    def as_shares(self, x: Tensor) -> tuple[Tensor, Tensor]:  # shape -> shape, rows
        """log of each cell's share of its row, and the sum of each row."""
        small = x.numel() < self.SMALL and x.shape == self.shape and self.row_lengths is None
        if small and x.dtype == torch.float64 and x.is_cpu and not x.requires_grad:
            sums, shares = np.empty(self.rows), np.empty(self.shape)  # numpy and a kernel take half the time of torch
            n = self.shape[-1]
            _row_shares()(x.numpy().reshape(-1, n), sums.reshape(-1), shares.reshape(-1, n))
            return self.mask(torch.from_numpy(shares)), torch.from_numpy(sums)
        totals = self.row_sum(x)
        return self.log_shares(x, totals), totals

    def log_shares(self, x: Tensor, totals: Tensor) -> Tensor:  # shape, rows -> shape
        """log of each cell's share of its row."""
        if x.shape != self.shape or x.device.type != "cpu" or x.requires_grad or x.numel() < self.SMALL:
            return self.mask(x.log().sub_(self.spread(totals.log())))
        from ..kernels.exp_log import log_shares, log_shares_across

        counts = x.numpy()
        shares = room(x.numel(), counts.dtype)
        if x.dim() == 2 and not x.is_contiguous():
            columns, across = np.ascontiguousarray(counts.T), shares.reshape(counts.T.shape)
            in_parts(
                lambda first, last: log_shares_across(columns[first:last], totals.numpy(), across[first:last]),
                len(columns),
                x.numel() // NUMBERS_A_TOKEN,
            )
            return self.mask(torch.from_numpy(across).T)
        cells, ends = np.ravel(counts), self._ends

        def work(first: int, last: int) -> None:  # the rows that begin in this part of the cells
            rows = np.searchsorted(ends[:-1], [first, last]).tolist()
            log_shares(cells, np.ravel(totals.numpy()), ends, *rows, shares)

        in_parts(work, len(cells))
        return self.mask(torch.from_numpy(shares).view(self.shape))

    @cached_property
    def _ends(self) -> np.ndarray[Any, Any]:  # (rows + 1,)
        if self.row_lengths is None:
            return np.arange(0, self.shape.numel() + 1, self.shape[-1])
        return np.concatenate([[0], self.row_lengths.numpy().cumsum()])

    def mask(self, log_x: Tensor) -> Tensor:  # shape -> shape
        """Put structural zeros in their place."""
        return log_x if self.support is None else log_x.masked_fill(~self.support, -torch.inf)

    def normalise(self, log_x: Tensor) -> Tensor:  # shape -> shape
        """Divide each row by its sum, in logs."""
        log_x = self.mask(log_x)
        return log_x - self.spread(self.row_logsumexp(log_x))

    def uniform(self, dtype: torch.dtype = torch.float64) -> Tensor:  # shape
        """Log-weights that spread each row evenly over its allowed cells."""
        sizes = (self.allowed().sum(-1) if self.row_lengths is None else self.row_lengths).to(dtype)
        return self.mask(self.spread(-sizes.log()).expand(self.shape).clone())

    def check(self, name: str, log_weights: Tensor) -> Tensor:
        """The log-weights themselves, if they fit: right shape, no NaN, no +inf, no weight on a structural zero."""
        if log_weights.shape != self.shape:
            raise TableError(
                f"table '{name}': expected log-weights of shape {tuple(self.shape)}, actual {tuple(log_weights.shape)}"
            )
        if bool(torch.isnan(log_weights).any()) or bool((log_weights == torch.inf).any()):
            raise TableError(f"table '{name}': log-weights must be finite or -inf, found NaN or +inf")
        if self.support is not None and bool((log_weights[~self.support] != -torch.inf).any()):
            raise TableError(f"table '{name}': a structural zero has weight; apply Layout.mask to the weights first")
        return log_weights


@cache
def _row_shares() -> Any:
    """The kernel, which is imported when it is first used."""
    from ..kernels.exp_log import row_shares

    return row_shares


def _is_plain(x: Tensor) -> bool:
    """Whether numpy may do it: on millions of ragged cells it is ten times as fast, but knows neither gradients,
    devices nor batches."""
    return x.dim() == 1 and x.device.type == "cpu" and not x.requires_grad
