"""Stepwise EM of two directions of alignment that agree, mini-batch after mini-batch (see
:mod:`pyro_unsup.kernels.stepwise`): a link counts as often as both expect it."""

from __future__ import annotations

import numpy as np

from ..stepwise import stepping
from .stepwise import add_columns, add_rows, choose_columns, choose_rows, most_cells


@stepping
def stepwise_pass(
    tables,  # translations forward and backward
    data,  # where grids lie, and the two directions
    beta,
    order,  # (n,) examples, mini-batch by mini-batch
    batch_size,
    steps,  # (mini-batches,) step sizes
    scale,
    floor,  # the smallest scale
    log_z,  # (mini-batches,) out: log-likelihood of each, before its update
):
    """How many mini-batches were done, and the scale after them."""
    (table, sums, more, cell_extra), (other, other_sums, other_more, other_extra) = tables
    (heights, widths, corners), one_way, other_way = data
    cells, lines, begins, null, word, _ = one_way
    other_cells, other_lines, other_begins, other_null, other_word, _ = other_way
    room, longest = most_cells(heights, widths, order, batch_size)
    forward, backward, line = np.empty(room), np.empty(room), np.empty(longest + 1)

    for batch in range(len(steps)):
        mine = order[batch * batch_size : (batch + 1) * batch_size]
        after, over = scale * (1.0 - steps[batch]), 1.0 / scale
        if not (after >= floor):
            return batch, scale
        total, at = 0.0, 0
        for b in mine:
            size, shape = corners[b + 1] - corners[b], (heights[b] + 1, widths[b] + 1)
            first, second = forward[at : at + size].reshape(shape), backward[at : at + size].reshape(shape)
            total += choose_rows(
                table, sums, more, cell_extra * over, over, beta, cells[corners[b] : corners[b + 1]].reshape(shape),
                lines[begins[b] : begins[b + 1]], np.exp(beta * null[b]), np.exp(beta * word[b]), line, first,
            )  # fmt: skip
            total += choose_columns(
                other, other_sums, other_more, other_extra * over, over, beta,
                other_cells[corners[b] : corners[b + 1]].reshape(shape),
                other_lines[other_begins[b] : other_begins[b + 1]],
                np.exp(beta * other_null[b]), np.exp(beta * other_word[b]), line, second,
            )  # fmt: skip
            for i in range(1, shape[0]):
                for j in range(1, shape[1]):
                    first[i, j] *= second[i, j]
                    second[i, j] = first[i, j]
            at += size
        if np.isnan(total):
            return batch, scale

        log_z[batch] = total / beta
        scale = after
        gain, at = steps[batch] / scale, 0
        for b in mine:
            size, shape = corners[b + 1] - corners[b], (heights[b] + 1, widths[b] + 1)
            grid, other_grid = cells[corners[b] : corners[b + 1]], other_cells[corners[b] : corners[b + 1]]
            own, other_own = lines[begins[b] : begins[b + 1]], other_lines[other_begins[b] : other_begins[b + 1]]
            first, second = forward[at : at + size].reshape(shape), backward[at : at + size].reshape(shape)
            add_rows(table, sums, grid.reshape(shape), own, gain, first)
            add_columns(other, other_sums, other_grid.reshape(shape), other_own, gain, second, line)
            at += size
    return len(steps), scale
