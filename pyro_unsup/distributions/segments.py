"""Sums over the rows of a ragged table, stored flat: cells of row r lie side by side."""

from __future__ import annotations

import torch
from torch import Tensor


def row_index(row_lengths: Tensor) -> Tensor:  # (rows,) -> (cells,)
    """The row of each cell.

    >>> import torch
    >>> from pyro_unsup.distributions.segments import row_index
    >>> row_index(torch.tensor([2, 1])).tolist()
    [0, 0, 1]
    """
    return torch.repeat_interleave(torch.arange(len(row_lengths), device=row_lengths.device), row_lengths)


def segment_sum(x: Tensor, rows: Tensor, n: int) -> Tensor:  # (*batch, cells), (cells,) -> (*batch, rows)
    """Sum over each row."""
    return x.new_zeros(*x.shape[:-1], n).index_add(-1, rows, x)


def segment_logsumexp(x: Tensor, rows: Tensor, n: int) -> Tensor:  # (*batch, cells), (cells,) -> (*batch, rows)
    """Log-sum-exp over each row. A row of nothing but -inf gives -inf, with zero gradient rather than NaN."""
    index = rows.expand(x.shape)
    top = x.detach().new_full((*x.shape[:-1], n), -torch.inf).scatter_reduce(-1, index, x.detach(), "amax")
    top = torch.where(top == -torch.inf, torch.zeros_like(top), top)  # exp(-inf - 0) is 0; -inf - -inf would be NaN
    total = segment_sum((x - top.gather(-1, index)).exp(), rows, n)
    alive = total != 0  # NaN counts as alive, so that it shows
    return torch.where(alive, torch.where(alive, total, torch.ones_like(total)).log() + top, -torch.inf)


def segment_log_softmax(x: Tensor, rows: Tensor, n: int) -> Tensor:  # (*batch, cells) -> (*batch, cells)
    """Normalise each row in log space."""
    return x - segment_logsumexp(x, rows, n).gather(-1, rows.expand(x.shape))
