"""Stepwise EM of words that choose alone, mini-batch after mini-batch (see :mod:`pyro_unsup.kernels.stepwise`)."""

from __future__ import annotations

import numpy as np

from ..stepwise import stepping

#: What the choices of a word add up to at least. What underflows is far below.
LOW = 1e-50


@stepping
def by_pairs(starts, order, offsets, widths, turned, cells, rows, out, lines):
    """Cells pair by pair, as examples come in any order; and the row of the table that each row of a grid uses or,
    turned, each of its columns.

    :param cells: (cells,) those of the table, -1 for one that is none.
    :param rows: (cells,) their rows.
    :param out: (cells,) the same as ``cells``, pair by pair.
    :param lines: of each pair, I + 1 rows or J + 1 columns, the null word's first.
    """
    at, first = 0, 0
    for b in range(len(widths)):
        for i in range(offsets[b + 1] - offsets[b]):
            row = order[offsets[b] + i]
            for j in range(widths[b] + 1):
                c = starts[row] + j
                out[at] = cells[c]
                used = i > 0 if turned else j > 0
                if used and cells[c] >= 0:
                    lines[first + (j if turned else i)] = rows[c]
                at += 1
        first += widths[b] + 1 if turned else offsets[b + 1] - offsets[b]


@stepping
def most_cells(heights, widths, order, batch_size):  # (B,), (B,), (n,)
    """The cells of the largest mini-batch, and the target words of its longest sentence."""
    most, longest = 0, 0
    for begin in range(0, len(order), batch_size):
        cells = 0
        for b in order[begin : begin + batch_size]:
            cells += (heights[b] + 1) * (widths[b] + 1)
            longest = max(longest, widths[b])
        most = max(most, cells)
    return most, longest


@stepping
def choose_rows(table, sums, more, extra, over, beta, cells, lines, null, word, total, out):
    """What each target word of a pair chooses, and the log of its probability; NaN if that is out of range.

    :param cells: (I + 1, J + 1) of the table; that of a null word that chooses may be any.
    :param lines: (I + 1,) the rows of the table.
    :param null: what it weighs to choose the null word; ``word`` the same of any other.
    :param total: (at least J + 1,) room.
    :param out: (I + 1, J + 1) posteriors.
    """
    height, width = cells.shape
    total[:width] = 0.0
    for i in range(height):
        unit = (null if i == 0 else word) / (sums[lines[i]] + more[lines[i]] * over) ** beta
        out[i, 0] = 0.0
        for j in range(1, width):
            c = cells[i, j]
            weight = table[c] + extra if c >= 0 else 0.0
            out[i, j] = weight if beta == 1.0 else weight**beta
            out[i, j] *= unit
            total[j] += out[i, j]
    found, product = 0.0, 1.0
    for j in range(1, width):
        if not (total[j] > LOW):
            return np.nan
        product *= total[j]
        if product < LOW:
            found += np.log(product)
            product = 1.0
        total[j] = 1.0 / total[j]
    for i in range(height):
        for j in range(1, width):
            out[i, j] *= total[j]
    return found + np.log(product)


@stepping
def choose_columns(table, sums, more, extra, over, beta, cells, lines, null, word, units, out):
    """What each source word of a pair chooses, and the log of its probability; NaN if that is out of range.

    :param lines: (J + 1,) the rows of the table.
    :param units: (at least J + 1,) room.
    """
    height, width = cells.shape
    for j in range(width):
        units[j] = (null if j == 0 else word) / (sums[lines[j]] + more[lines[j]] * over) ** beta
        out[0, j] = 0.0
    found, product = 0.0, 1.0
    for i in range(1, height):
        total = 0.0
        for j in range(width):
            c = cells[i, j]
            weight = table[c] + extra if c >= 0 else 0.0
            out[i, j] = weight if beta == 1.0 else weight**beta
            out[i, j] *= units[j]
            total += out[i, j]
        if not (total > LOW):
            return np.nan
        product *= total
        if product < LOW:
            found += np.log(product)
            product = 1.0
        total = 1.0 / total
        for j in range(width):
            out[i, j] *= total
    return found + np.log(product)


@stepping
def add_rows(table, sums, cells, lines, gain, posterior):  # (I + 1, J + 1), (I + 1,)
    """Add what target words choose."""
    for i in range(cells.shape[0]):
        whole = 0.0
        for j in range(1, cells.shape[1]):
            c, count = cells[i, j], gain * posterior[i, j]
            if c >= 0:
                table[c] += count
                whole += count
        sums[lines[i]] += whole


@stepping
def add_columns(table, sums, cells, lines, gain, posterior, totals):  # (I + 1, J + 1), (J + 1,)
    """Add what source words choose.

    :param totals: (at least J + 1,) room.
    """
    height, width = cells.shape
    totals[:width] = 0.0
    for i in range(1, height):
        for j in range(width):
            c, count = cells[i, j], gain * posterior[i, j]
            if c >= 0:
                table[c] += count
            totals[j] += count
    for j in range(width):
        sums[lines[j]] += totals[j]
