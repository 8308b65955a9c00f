"""Sweeps over the rows of grids of words, in scaled real space (:mod:`.alignment`).

What a word's choices add up to is a plain sum of weights. Weights are at most 1, so nothing overflows; what underflows
was below ``tiny`` (the smallest normal number). Hence a total above a limit has lost far less than the rounding error,
and a pair of sentences with a smaller one is done again in logs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .limits import FAST, LIMIT

Array = np.ndarray[Any, Any]

#: A total above this has lost nothing that counts to underflow.
ENOUGH = 1 / LIMIT[np.dtype(np.float64)]


@njit(cache=True, nogil=True)
def multiply(x: Array, by: Array, first: int, last: int) -> None:  # (C,), (C,)
    """In place: a part of a table times a part of another."""
    for c in range(first, last):
        x[c] *= by[c]


@njit(cache=True, nogil=True, fastmath=FAST)
def add_columns(
    table: Array,  # (C,)
    null: Array,  # (B,)
    word: Array,  # (B,)
    cells: Array,  # (cells,) int
    starts: Array,
    pair: Array,
    is_null: Array,
    targets: Array,
    first: int,
    last: int,
    total: Array,  # (target words,) added to
) -> None:
    for k in range(first, last):
        b = pair[k]
        at, size, t = starts[k] + 1, starts[k + 1] - starts[k] - 1, targets[b]
        g = null[b] if is_null[k] else word[b]
        for j in range(size):
            total[t + j] += g * table[cells[at + j]]


@njit(cache=True, nogil=True, fastmath=FAST)
def count_columns(
    share: Array,  # (target words,) what a unit of weight is worth there
    null: Array,
    word: Array,
    cells: Array,
    starts: Array,
    pair: Array,
    is_null: Array,
    targets: Array,
    first: int,
    last: int,
    counts: Array,  # (C,) added to; still to be multiplied by the table
) -> None:
    for k in range(first, last):
        b = pair[k]
        at, size, t = starts[k] + 1, starts[k + 1] - starts[k] - 1, targets[b]
        g = null[b] if is_null[k] else word[b]
        for j in range(size):
            counts[cells[at + j]] += g * share[t + j]


@njit(cache=True, nogil=True, fastmath=FAST)
def add_rows(
    table: Array,
    null: Array,
    word: Array,
    cells: Array,
    starts: Array,
    pair: Array,
    is_null: Array,
    first: int,
    last: int,
    total: Array,  # (rows,) out; 1 for a row that has nothing to choose
) -> None:
    for k in range(first, last):
        total[k] = 1.0
        if is_null[k]:
            continue
        b = pair[k]
        found = 0.0
        for c in range(starts[k] + 1, starts[k + 1]):
            found += table[cells[c]]
        total[k] = word[b] * found + null[b] * table[cells[starts[k]]]


@njit(cache=True, nogil=True, fastmath=FAST)
def count_rows(
    share: Array,  # (rows,)
    null: Array,
    word: Array,
    cells: Array,
    starts: Array,
    pair: Array,
    is_null: Array,
    first: int,
    last: int,
    counts: Array,
) -> None:
    for k in range(first, last):
        if is_null[k]:
            continue
        b = pair[k]
        counts[cells[starts[k]]] += null[b] * share[k]
        each = word[b] * share[k]
        for c in range(starts[k] + 1, starts[k + 1]):
            counts[cells[c]] += each


@njit(cache=True, nogil=True, fastmath=FAST)
def count_agreed(
    columns: Array,  # (target words,) what a unit of weight is worth, one way
    rows: Array,  # (rows,) and the other way
    scale: Array,  # (B,)
    one: tuple[Array, Array],  # null, word; one way
    other: tuple[Array, Array],
    shared: int,
    cells: Array,
    starts: Array,
    pair: Array,
    is_null: Array,
    targets: Array,
    first: int,
    last: int,
    counts: Array,  # (C,) added to; cells below `shared` still to be multiplied by both tables, the others by one
    turned: Array,  # (C' - shared,) the null cells of the other way, likewise
) -> None:
    for k in range(first, last):
        b = pair[k]
        at, size, t = starts[k] + 1, starts[k + 1] - starts[k] - 1, targets[b]
        if is_null[k]:
            g = one[0][b] * scale[b]
        else:
            turned[cells[at - 1] - shared] += other[0][b] * rows[k] * scale[b]
            g = one[1][b] * other[1][b] * rows[k] * scale[b]
        for j in range(size):
            counts[cells[at + j]] += g * columns[t + j]


@njit(cache=True, nogil=True)
def log_columns(total: Array, targets: Array, shift: Array, log_z: Array, trouble: Array) -> None:
    for b in range(len(log_z)):
        z = 0.0
        for t in range(targets[b], targets[b + 1]):
            if not total[t] > ENOUGH:
                trouble[b] = True
                break
            z += np.log(total[t]) + shift[b]
        log_z[b] = z


@njit(cache=True, nogil=True)
def log_rows(total: Array, pair: Array, is_null: Array, shift: Array, log_z: Array, trouble: Array) -> None:
    for k in range(len(pair)):
        if is_null[k]:
            continue
        b = pair[k]
        if not total[k] > ENOUGH:
            trouble[b] = True
        else:
            log_z[b] += np.log(total[k]) + shift[b]


@njit(cache=True, nogil=True)
def cells_within(cells: Array, starts: Array, is_null: Array, size: int, turned: bool) -> bool:
    """Whether every cell that a direction uses is one of a table of this size."""
    fine = True
    for k in range(len(is_null)):
        if turned and is_null[k]:
            continue
        for c in range(starts[k] + (not turned), starts[k + 1]):
            fine &= 0 <= cells[c] < size
    return fine
