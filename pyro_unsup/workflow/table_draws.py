"""Outcomes drawn from rows of tables, for many draws of the tables at once."""

from __future__ import annotations

import torch
from torch import Tensor


def draw_outcomes(
    table: Tensor,  # (n, C) weights, rows side by side
    first: Tensor,  # (N,) or (n, N) the first cell of the row that each outcome is drawn from
    last: Tensor,  # likewise, one beyond its last cell
) -> Tensor:  # (n, N) cells
    """A cell of a row for each outcome, in proportion to the weights of the row, by the global generator.

    >>> import torch
    >>> from pyro_unsup.workflow.table_draws import draw_outcomes
    >>> table = torch.tensor([[0.0, 1.0, 0.5, 0.0]], dtype=torch.float64)
    >>> draw_outcomes(table, torch.tensor([0, 2]), torch.tensor([2, 4]))
    tensor([[1, 2]])
    """
    sums = torch.nn.functional.pad(table.double().cumsum(-1), (1, 0))  # (n, C + 1)
    n = len(sums)
    first, last = (x.expand(n, x.shape[-1]) for x in (first, last))
    low, high = sums.gather(-1, first), sums.gather(-1, last)
    place = low + torch.rand(low.shape, dtype=torch.float64) * (high - low)
    found = torch.searchsorted(sums[:, 1:].contiguous(), place, right=True)  # which passes cells of weight zero
    return torch.minimum(torch.maximum(found, first), last - 1)
