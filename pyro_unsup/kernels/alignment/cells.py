"""From tables of translations to the cells of grids of words and back, in the order of the vocabulary; and from the
cells of a pair of sentences to a table of choices and back."""

from __future__ import annotations

import numpy as np
from numba import njit
from torch import Tensor

from ...array import Array


def cells_of(value: Tensor) -> Array:  # (cells,)
    """Numbers of cells in 32 bits, if these are enough: so passes are compiled for one kind of number."""
    cells: Array = value.contiguous().numpy()
    narrow = cells.dtype == np.int32 or cells.max(initial=0) > np.iinfo(np.int32).max
    return cells if narrow else cells.astype(np.int32)


@njit(cache=True, nogil=True)
def gather(
    table: Array,  # (C,)
    cells: Array,  # (cells,)
    starts: Array,
    is_null: Array,
    turned: bool,
    first: int,  # which rows
    last: int,
    emit: Array,  # (cells,) out, 0 where this direction has no choice
) -> None:
    for k in range(first, last):
        if turned and is_null[k]:
            emit[starts[k] : starts[k + 1]] = 0
            continue
        if not turned:
            emit[starts[k]] = 0
        for c in range(starts[k] + (not turned), starts[k + 1]):
            emit[c] = table[cells[c]]


@njit(cache=True, nogil=True)
def gather_logs(
    table: Array,  # (C,) logs
    more: Array,  # (cells,) logs that are added
    cells: Array,
    starts: Array,
    is_null: Array,
    turned: bool,
    first: int,
    last: int,
    logs: Array,  # (cells,) out, -inf where this direction has no choice
) -> None:
    for k in range(first, last):
        if turned and is_null[k]:
            logs[starts[k] : starts[k + 1]] = -np.inf
            continue
        if not turned:
            logs[starts[k]] = -np.inf
        for c in range(starts[k] + (not turned), starts[k + 1]):
            logs[c] = table[cells[c]] + more[c]


@njit(cache=True, nogil=True)
def count(
    posterior: Array,  # (cells,)
    scale: Array,  # (B,)
    cells: Array,
    starts: Array,
    pair: Array,
    is_null: Array,
    turned: bool,
    first: int,
    last: int,
    counts: Array,  # (C,) added to
) -> None:
    for k in range(first, last):
        if turned and is_null[k]:
            continue
        for c in range(starts[k] + (not turned), starts[k + 1]):
            counts[cells[c]] += scale[pair[k]] * posterior[c]


@njit(cache=True, nogil=True)
def count_agreed(
    forward: Array,  # (cells,)
    backward: Array,
    scale: Array,  # (B,)
    cells: Array,
    starts: Array,
    pair: Array,
    is_null: Array,
    shared: int,
    first: int,
    last: int,
    counts: Array,  # (C,) added to
    turned: Array,  # (C' - shared,) added to: the null cells of the other way
) -> None:
    for k in range(first, last):
        at = starts[k]
        if is_null[k]:
            for c in range(at + 1, starts[k + 1]):
                counts[cells[c]] += scale[pair[k]] * forward[c]
            continue
        turned[cells[at] - shared] += scale[pair[k]] * backward[at]
        for c in range(at + 1, starts[k + 1]):
            counts[cells[c]] += scale[pair[k]] * forward[c] * backward[c]


@njit(cache=True, nogil=True)
def load(
    emit: Array,  # (cells,) one number a cell
    starts: Array,  # (rows + 1,)
    rows: Array,  # (I + 1,) the rows of one pair, that of the null word first
    turned: bool,
    into: Array,  # (T, S + 1) out: the same by the word that chooses and what it chooses
) -> None:
    T, S = into.shape[0], into.shape[1] - 1
    if turned:
        for t in range(T):
            at = starts[rows[t + 1]]
            for s in range(S + 1):
                into[t, s] = emit[at + s]
    else:
        for s in range(S + 1):
            at = starts[rows[s]] + 1
            for t in range(T):
                into[t, s] = emit[at + t]


@njit(cache=True, nogil=True)
def store(into: Array, starts: Array, rows: Array, turned: bool, emit: Array) -> None:
    """The way back; cells that this direction has no use for stay as they are."""
    T, S = into.shape[0], into.shape[1] - 1
    if turned:
        for t in range(T):
            at = starts[rows[t + 1]]
            for s in range(S + 1):
                emit[at + s] = into[t, s]
    else:
        for s in range(S + 1):
            at = starts[rows[s]] + 1
            for t in range(T):
                emit[at + t] = into[t, s]


@njit(cache=True, nogil=True)
def load_logs(
    table: Array,  # (C,)
    cells: Array,  # (cells,)
    starts: Array,
    rows: Array,  # (I + 1,)
    turned: bool,
    null: float,
    word: float,
    e: Array,  # (T, S + 1) out
) -> None:
    """The log-weight of every choice of every word."""
    T, S = e.shape[0], e.shape[1] - 1
    which = np.empty((T, S + 1), np.int64)
    load(cells, starts, rows, turned, which)
    for t in range(T):
        for s in range(S + 1):
            e[t, s] = table[which[t, s]] + (word if s else null)
