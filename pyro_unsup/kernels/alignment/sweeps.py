"""Sweeps over the rows of grids of words, in scaled real space (:mod:`.model1`).

What a word's choices add up to is a plain sum of weights. Weights are at most 1, so nothing overflows; what underflows
was below ``tiny`` (the smallest normal number). Hence a total above a limit has lost far less than the rounding error,
and a pair of sentences with a smaller one is done again in logs.

A cell costs a nanosecond or two, so what else is done for it shows. Places in memory are unsigned: with a sign, each
would be checked for counting from the end. Factors that all cells of a word or a pair have in common are left to the
loops over words.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ...array import Array
from ..limits import FAST, LIMIT

#: A total above this has lost nothing that counts to underflow.
ENOUGH = 1 / LIMIT[np.dtype(np.float64)]

#: Totals above this are multiplied as long as the product stays between FLOOR and 1 / FLOOR, which saves logarithms.
EASY, FLOOR = 1e-50, 1e-200

U = np.uint64


@njit(cache=True, nogil=True)
def multiply(x: Array, by: Array, first: int, last: int) -> None:  # (C,), (C,)
    """In place: a part of a table times a part of another."""
    for c in range(first, last):
        x[c] *= by[c]


@njit(cache=True, nogil=True, fastmath=FAST)
def add_columns(
    table: Array,  # (C,)
    cells: Array,  # (cells,) int
    at: Array,  # (n,) where the cells of each row of a word begin
    size: Array,  # (n,) how many
    column: Array,  # (n,) where the target words above them begin
    first: int,
    last: int,
    total: Array,  # (target words,) out
) -> None:
    """What target words find in these rows."""
    total[:] = 0.0
    for k in range(first, last):
        a, t = U(at[k]), U(column[k])
        for j in range(U(size[k])):
            total[t + j] += table[U(cells[a + j])]


@njit(cache=True, nogil=True, fastmath=FAST)
def count_columns(
    share: Array,  # (target words,) what a unit of weight is worth there
    cells: Array,
    at: Array,
    size: Array,
    column: Array,
    first: int,
    last: int,
    counts: Array,  # (C,) added to; still to be multiplied by the table
) -> None:
    for k in range(first, last):
        a, t = U(at[k]), U(column[k])
        for j in range(U(size[k])):
            counts[U(cells[a + j])] += share[t + j]


@njit(cache=True, nogil=True, fastmath=FAST)
def add_rows(
    table: Array,
    null: Array,  # (B,)
    word: Array,  # (B,)
    cells: Array,
    at: Array,
    size: Array,
    pair: Array,  # (n,)
    first: int,
    last: int,
    total: Array,  # (n,) out
) -> None:
    """What source words find in their rows."""
    for k in range(first, last):
        a, b = U(at[k]), U(pair[k])
        found = 0.0
        for j in range(U(size[k])):
            found += table[U(cells[a + j])]
        total[k] = word[b] * found + null[b] * table[U(cells[a - U(1)])]


@njit(cache=True, nogil=True, fastmath=FAST)
def count_rows(
    total: Array,  # (n,)
    null: Array,  # (B,) what a choice of the null word is worth where the total is 1
    word: Array,  # (B,) and of any other word
    cells: Array,
    at: Array,
    size: Array,
    pair: Array,
    first: int,
    last: int,
    counts: Array,
) -> None:
    for k in range(first, last):
        a, b = U(at[k]), U(pair[k])
        unit = 1.0 / total[k] if total[k] > ENOUGH else 0.0  # a smaller one is counted elsewhere
        counts[U(cells[a - U(1)])] += null[b] * unit
        each = word[b] * unit
        for j in range(U(size[k])):
            counts[U(cells[a + j])] += each


@njit(cache=True, nogil=True, fastmath=FAST)
def count_agreed(
    share: Array,  # (target words,) what a unit of weight is worth, one way
    total: Array,  # (n,) of the other way
    null: Array,  # (B,) the other way, scaled
    word: Array,  # (B,) the other way, not scaled: the share is
    shared: int,
    cells: Array,
    at: Array,
    size: Array,
    column: Array,
    pair: Array,
    first: int,
    last: int,
    counts: Array,  # (C,) added to; cells below `shared` still to be multiplied by both tables, the others by one
    turned: Array,  # (C' - shared,) the null cells of the other way, likewise
) -> None:
    for k in range(first, last):
        a, b, t = U(at[k]), U(pair[k]), U(column[k])
        unit = 1.0 / total[k] if total[k] > ENOUGH else 0.0  # a smaller one is counted elsewhere
        turned[cells[a - U(1)] - shared] += null[b] * unit
        each = word[b] * unit
        for j in range(U(size[k])):
            counts[U(cells[a + j])] += each * share[t + j]


@njit(cache=True, nogil=True, fastmath=FAST)
def close_columns(
    parts: Array,  # (shards, target words) what they find in the rows of words
    table: Array,
    null: Array,
    word: Array,
    shift: Array,
    cells: Array,
    null_at: Array,  # (B,) where the cells of the null words' rows begin
    targets: Array,
    first: int,
    last: int,
    total: Array,  # (target words,) out
    log_z: Array,  # (B,) out
    least: Array,  # (B,) out: the smallest total
) -> None:
    """Totals of the target words of these pairs, the null words included, and their logs."""
    for b in range(first, last):
        begin, size, a = U(targets[b]), U(targets[b + 1] - targets[b]), U(null_at[b])
        product, z, low = 1.0, 0.0, np.inf
        for j in range(size):
            found = parts[0, begin + j]
            for s in range(1, len(parts)):
                found += parts[s, begin + j]
            x = word[b] * found + null[b] * table[U(cells[a + j])]
            total[begin + j] = x
            low = x if not x >= low else low
            if x > EASY:
                product *= x
                if not FLOOR < product < 1 / FLOOR:
                    z += np.log(product)
                    product = 1.0
            elif x > 0:
                z += np.log(x)
        log_z[b] = z + np.log(product) + size * shift[b]
        least[b] = low


@njit(cache=True, nogil=True, fastmath=FAST)
def count_null(
    total: Array,  # (target words,)
    null: Array,  # (B,) what a choice of the null word is worth where the total is 1
    cells: Array,
    null_at: Array,
    targets: Array,
    counts: Array,  # (C,) added to
) -> None:
    """How often target words choose the null word."""
    for b in range(len(null)):
        begin, a = U(targets[b]), U(null_at[b])
        for j in range(U(targets[b + 1] - targets[b])):
            if total[begin + j] > 0:
                counts[U(cells[a + j])] += null[b] / total[begin + j]


@njit(cache=True, nogil=True, fastmath=FAST)
def shares(total: Array, unit: Array, targets: Array, first: int, last: int, share: Array) -> None:
    """What a unit of weight is worth to each target word of these pairs: that of the pair over the word's total."""
    for b in range(first, last):
        for t in range(U(targets[b]), U(targets[b + 1])):
            share[t] = unit[b] / total[t] if total[t] > 0 else 0.0


@njit(cache=True, nogil=True)
def close_rows(total: Array, pair: Array, lengths: Array, shift: Array, log_z: Array, least: Array) -> None:
    """The same of source words, whose rows may lie anywhere."""
    log_z[:], least[:] = 0.0, np.inf
    product = np.ones(len(log_z))
    for k in range(len(pair)):
        b, x = pair[k], total[k]
        least[b] = x if not x >= least[b] else least[b]
        if x > EASY:
            product[b] *= x
            if not FLOOR < product[b] < 1 / FLOOR:
                log_z[b] += np.log(product[b])
                product[b] = 1.0
        elif x > 0:
            log_z[b] += np.log(x)
    for b in range(len(log_z)):
        log_z[b] += np.log(product[b]) + lengths[b] * shift[b]


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
