"""Products of pairs of vectors, for ragged tables, which have too few cells to multiply everything by everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

#: Numbers of gathered vectors that are held at a time.
ROOM = 1 << 22


def dot_pairs(left: Tensor, right: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """left[rows[i]] . right[columns[i]] for every i. The gathered vectors are never held all at once.

    :param left: (R, D)
    :param right: (V, D)
    :param rows: (cells,)
    :param columns: (cells,)
    :return: (cells,)

    >>> import torch
    >>> from pyro_unsup.estimate.neural.pairs import dot_pairs
    >>> left, right = torch.eye(2), torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> dot_pairs(left, right, torch.tensor([0, 1, 1]), torch.tensor([1, 0, 1]))
    tensor([3., 2., 4.])
    """
    found: Tensor = _DotPairs.apply(left, right, rows, columns)
    return found


class _DotPairs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        ctx.save_for_backward(left, right, rows, columns)
        found = left.new_empty(len(rows))
        for part in _parts(len(rows), left.shape[-1]):
            found[part] = (left[rows[part]] * right[columns[part]]).sum(-1)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        left, right, rows, columns = ctx.saved_tensors
        to_left, to_right = torch.zeros_like(left), torch.zeros_like(right)
        for part in _parts(len(rows), left.shape[-1]):
            each = grad[part][:, None]
            to_left.index_add_(0, rows[part], each * right[columns[part]])
            to_right.index_add_(0, columns[part], each * left[rows[part]])
        return to_left, to_right, None, None


def _parts(cells: int, size: int) -> Iterator[slice]:
    step = max(1, ROOM // size)
    return (slice(i, i + step) for i in range(0, cells, step))
