"""From tables of translations to the cells of grids of words and back, in the order of the vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]


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
