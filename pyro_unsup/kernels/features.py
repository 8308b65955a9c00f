"""Products with sparse feature matrices, and what becomes of their rows.

Cells of a table lie flat, row after row. In a factored block every pair of a context value and a decision value has a
weight: ``logits += C W' D'``, with C and D the incidence of values on rows and outcomes; no cell is ever spelled out.
Transposed products go through cells in order, on one thread, so that sums do not depend on how many there are.
"""

from __future__ import annotations

import numpy as np
import torch
from numba import njit

from ..array import Array
from .plumbing import in_shards
from .threads import in_parts


def add_factored(
    row_starts: Array,  # (R + 1,)
    row_ids: Array,
    starts: Array,  # (V + 1,)
    ids: Array,
    weights: Array,  # (decisions, contexts)
    plain: bool,  # each row has one context, its own
    logits: Array,  # (R, V), added to
) -> None:
    """Add a factored block's products to the logits."""
    given = (row_starts, row_ids, starts, ids, weights, plain, logits)
    in_parts(lambda first, last: _add_factored(*given, first, last), logits.shape[1], logits.size)


def add_sparse(starts: Array, ids: Array, weights: Array, logits: Array) -> None:  # (cells + 1,), (n,), (F,), (cells,)
    """Add to each cell the weights of its features."""
    in_parts(lambda first, last: _add_sparse(starts, ids, weights, logits, first, last), len(logits), len(logits))


def normalise(logits: Array, rows: Array) -> None:  # (cells,), (R + 1,)
    """Make logits log-probabilities, row by row, in place."""

    def work(first: int, last: int) -> None:
        _centre(logits, rows, first, last)
        _scale(logits, _exp(logits[rows[first] : rows[last]]), rows, first, last)

    in_shards(work, np.diff(rows), int(rows[-1]))


def expected(logits: Array, rows: Array, counts: Array) -> tuple[float, Array]:  # (cells,), (R + 1,), (cells,)
    """Counts times log-probabilities of these logits, and the gradient in the logits. The logits are moved.

    The gradient of a cell is its count minus its probability times the counts of its row.
    """
    values, gradient = np.empty(len(rows) - 1), np.empty_like(logits)

    def work(first: int, last: int) -> None:
        _centre(logits, rows, first, last)
        _expected(logits, _exp(logits[rows[first] : rows[last]]), rows, counts, values, gradient, first, last)

    in_shards(work, np.diff(rows), int(rows[-1]))
    return float(values.sum()), gradient


@njit(cache=True, nogil=True)
def add_factored_back(
    row_starts: Array,
    row_ids: Array,
    starts: Array,
    ids: Array,
    plain: bool,
    cells: Array,  # (R, V)
    weights: Array,  # (decisions, contexts), added to
) -> None:
    """The transposed product of :func:`add_factored`."""
    rows, outcomes = cells.shape
    contexts = weights.shape[1]
    mine = np.empty(contexts)
    for o in range(outcomes):
        if starts[o] == starts[o + 1]:
            continue
        if plain:
            for r in range(rows):
                mine[r] = cells[r, o]
        else:
            mine[:] = 0.0
            for r in range(rows):
                x = cells[r, o]
                for j in range(row_starts[r], row_starts[r + 1]):
                    mine[row_ids[j]] += x
        for k in range(starts[o], starts[o + 1]):
            v = ids[k]
            for c in range(contexts):
                weights[v, c] += mine[c]


@njit(cache=True, nogil=True)
def add_sparse_back(starts: Array, ids: Array, cells: Array, weights: Array) -> None:
    """The transposed product of :func:`add_sparse`."""
    for i in range(len(cells)):
        for k in range(starts[i], starts[i + 1]):
            weights[ids[k]] += cells[i]


@njit(cache=True, nogil=True)
def number_pairs(
    rows: Array,  # (R + 1,) where the cells of each row begin
    columns: Array,  # (cells,)
    row_starts: Array,  # (R + 1,)
    row_ids: Array,
    starts: Array,  # (V + 1,)
    ids: Array,
    decisions: int,
    cell_starts: Array,  # (cells + 1,)
    codes: Array,  # (fired,) out
) -> None:
    """Spell out the pairs of context and decision values of every cell, as one number each."""
    for r in range(len(rows) - 1):
        for i in range(rows[r], rows[r + 1]):
            at = cell_starts[i]
            for j in range(row_starts[r], row_starts[r + 1]):
                for k in range(starts[columns[i]], starts[columns[i] + 1]):
                    codes[at] = row_ids[j] * decisions + ids[k]
                    at += 1


def _exp(x: Array) -> Array:
    # Torch has vector instructions for it.
    found: Array = torch.exp(torch.from_numpy(x)).numpy()
    return found


@njit(cache=True, nogil=True)
def _add_factored(
    row_starts: Array,
    row_ids: Array,
    starts: Array,
    ids: Array,
    weights: Array,
    plain: bool,
    logits: Array,
    first: int,
    last: int,
) -> None:
    rows, contexts = logits.shape[0], weights.shape[1]
    mine = np.empty(contexts)
    for o in range(first, last):
        if starts[o] == starts[o + 1]:
            continue
        mine[:] = 0.0
        for k in range(starts[o], starts[o + 1]):
            v = ids[k]
            for c in range(contexts):
                mine[c] += weights[v, c]
        for r in range(rows):
            if plain:
                logits[r, o] += mine[r]
            else:
                for j in range(row_starts[r], row_starts[r + 1]):
                    logits[r, o] += mine[row_ids[j]]


@njit(cache=True, nogil=True)
def _add_sparse(starts: Array, ids: Array, weights: Array, logits: Array, first: int, last: int) -> None:
    for i in range(first, last):
        for k in range(starts[i], starts[i + 1]):
            logits[i] += weights[ids[k]]


@njit(cache=True, nogil=True)
def _centre(logits: Array, rows: Array, first: int, last: int) -> None:
    """Subtract the largest of each row."""
    for r in range(first, last):
        top = -np.inf
        for i in range(rows[r], rows[r + 1]):
            top = max(top, logits[i])
        for i in range(rows[r], rows[r + 1]):
            logits[i] -= top


@njit(cache=True, nogil=True)
def _scale(logits: Array, exps: Array, rows: Array, first: int, last: int) -> None:
    """Divide each row by its sum; ``exps`` are those of these rows alone."""
    at = rows[first]
    for r in range(first, last):
        total = 0.0
        for i in range(rows[r], rows[r + 1]):
            total += exps[i - at]
        total = np.log(total)
        for i in range(rows[r], rows[r + 1]):
            logits[i] -= total


@njit(cache=True, nogil=True)
def _expected(
    logits: Array, exps: Array, rows: Array, counts: Array, values: Array, gradient: Array, first: int, last: int
) -> None:
    at = rows[first]
    for r in range(first, last):
        total, mass, value = 0.0, 0.0, 0.0
        for i in range(rows[r], rows[r + 1]):
            total += counts[i]
            mass += exps[i - at]
        log_mass, share = np.log(mass), total / mass
        for i in range(rows[r], rows[r + 1]):
            if counts[i] > 0:
                value += counts[i] * (logits[i] - log_mass)
            gradient[i] = counts[i] - share * exps[i - at]
        values[r] = value
