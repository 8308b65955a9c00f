"""Stepwise EM of one direction of alignment, mini-batch after mini-batch (see :mod:`pyro_unsup.kernels.stepwise`)."""

from __future__ import annotations

import numpy as np

from ..stepwise import stepping
from .stepwise import add_columns, add_rows, choose_columns, choose_rows, most_cells


@stepping
def stepwise_pass(
    tables,  # translations
    data,  # where grids lie, and a direction: see below
    beta,
    order,  # (n,) examples, mini-batch by mini-batch
    batch_size,
    steps,  # (mini-batches,) step sizes
    scale,
    floor,  # the smallest scale
    log_z,  # (mini-batches,) out: log-likelihood of each, before its update
):
    """How many mini-batches were done, and the scale after them."""
    ((table, sums, more, cell_extra),) = tables
    (heights, widths, corners), (cells, lines, begins, null, word, turned) = data
    room, longest = most_cells(heights, widths, order, batch_size)
    posteriors, line = np.empty(room), np.empty(longest + 1)

    for batch in range(len(steps)):
        mine = order[batch * batch_size : (batch + 1) * batch_size]
        after, over = scale * (1.0 - steps[batch]), 1.0 / scale
        if not (after >= floor):
            return batch, scale
        total, at, extra = 0.0, 0, cell_extra * over
        for b in mine:
            grid = cells[corners[b] : corners[b + 1]].reshape(heights[b] + 1, widths[b] + 1)
            found, own = posteriors[at : at + grid.size].reshape(grid.shape), lines[begins[b] : begins[b + 1]]
            choice = np.exp(beta * null[b]), np.exp(beta * word[b])
            if turned:
                total += choose_columns(table, sums, more, extra, over, beta, grid, own, *choice, line, found)
            else:
                total += choose_rows(table, sums, more, extra, over, beta, grid, own, *choice, line, found)
            at += grid.size
        if np.isnan(total):
            return batch, scale

        log_z[batch] = total / beta
        scale = after
        gain, at = steps[batch] / scale, 0
        for b in mine:
            grid = cells[corners[b] : corners[b + 1]].reshape(heights[b] + 1, widths[b] + 1)
            found, own = posteriors[at : at + grid.size].reshape(grid.shape), lines[begins[b] : begins[b + 1]]
            if turned:
                add_columns(table, sums, grid, own, gain, found, line)
            else:
                add_rows(table, sums, grid, own, gain, found)
            at += grid.size
    return len(steps), scale
