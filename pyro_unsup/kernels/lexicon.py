"""Which words of two languages occur together, and where: one sweep over the rows of all grids, in order of words."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..array import Array
from .ring import copy
from .room import room
from .threads import in_parts

#: Room for this many pairs of words to begin with; it doubles when full.
ROOM = 1 << 16


@njit(cache=True, nogil=True)
def meetings(
    at: Array,  # (V + 1,) where the rows of each source word begin
    pair: Array,  # (rows,) the pair of sentences of each row, rows in the order of their words
    targets: Array,  # (B + 1,)
    words: Array,  # (target words,)
    vocab: int,  # how many target words there are
) -> tuple[Array, Array]:  # (V,), (met,)
    """How many target words each source word meets, and which; each once, in order."""
    seen, mine = np.full(vocab, -1, np.int64), np.empty(vocab, np.int32)
    sizes = np.zeros(len(at) - 1, np.int64)
    found = np.empty(ROOM, np.int32)
    n = 0
    for e in range(len(at) - 1):
        size = 0
        for k in range(at[e], at[e + 1]):
            for t in range(targets[pair[k]], targets[pair[k] + 1]):
                f = words[t]
                if seen[f] != e:
                    seen[f] = e
                    mine[size] = f
                    size += 1
        while n + size > len(found):
            more = np.empty(2 * len(found), np.int32)
            copy(found[:n], more)
            found = more
        copy(np.sort(mine[:size]), found[n : n + size])
        sizes[e] = size
        n += size
    return sizes, found[:n].copy()


@njit(cache=True, nogil=True)
def number_cells(
    at: Array,  # (V + 2,) where the rows of each source word begin; the last are the rows of the null word
    starts: Array,  # (rows + 1,) where the cells of each row begin
    pair: Array,  # (rows,)
    targets: Array,  # (B + 1,)
    words: Array,  # (target words,) the size of their vocabulary for one that is not in it
    offsets: Array,  # (V + 1,) where the target words that each source word meets begin
    met: Array,  # (met,)
    vocab: int,
    cells: Array,  # (cells,) out; -1 where two words have never met
) -> None:
    """The number of every pair of words, source words against the null word, and null words against target words."""
    V, P = len(offsets) - 1, len(met)
    seen, number = np.full(vocab + 1, -1, np.int64), np.empty(vocab + 1, np.int64)
    for e in range(V + 1):
        if at[e] == at[e + 1]:
            continue
        if e < V:
            for p in range(offsets[e], offsets[e + 1]):
                seen[met[p]] = e
                number[met[p]] = p
        else:
            for f in range(vocab):
                seen[f] = e
                number[f] = P + f
        for k in range(at[e], at[e + 1]):
            place = starts[k]
            cells[place] = P + e if e < V else -1
            for t in range(targets[pair[k]], targets[pair[k] + 1]):
                place += 1
                f = words[t]
                cells[place] = number[f] if seen[f] == e else -1


@njit(cache=True, nogil=True)
def turn(met: Array, vocab: int, place: Array) -> Array:  # (met,), (met or more,) out -> (vocab,)
    """How many source words each target word meets; and the place of each meeting when sorted by target words."""
    sizes = np.zeros(vocab, np.int64)
    for p in range(len(met)):
        sizes[met[p]] += 1
    free = np.empty(vocab, np.int64)
    n = 0
    for f in range(vocab):
        free[f] = n
        n += sizes[f]
    for p in range(len(met)):
        place[p] = free[met[p]]
        free[met[p]] += 1
    return sizes


@njit(cache=True)
def renumber(
    cells: Array,  # (cells,)
    starts: Array,  # (rows + 1,)
    is_null: Array,  # (rows,)
    number: Array,  # (P + target + source,) all -1, and again so in the end; hence no other thread may come in between
    target: int,
    used: Array,  # (3, cells) out: the old numbers of two words, of a target word and null, of a source word and null
    new: Array,  # (cells,) out
) -> tuple[int, int, int]:  # how many of each
    """New numbers for the cells at hand, as they come: first those of two words, then those with the null word."""
    n = np.zeros(3, np.int64)
    for k in range(len(is_null)):
        for c in range(starts[k], starts[k + 1]):
            old = cells[c]
            kind = 1 if is_null[k] else 2 if c == starts[k] else 0
            if old < 0:
                new[c] = -1
                continue
            key = old + target if kind == 2 else old
            if number[key] < 0:
                number[key] = n[kind]
                used[kind, n[kind]] = old
                n[kind] += 1
            new[c] = number[key]
    for k in range(len(is_null)):
        for c in range(starts[k], starts[k + 1] if is_null[k] else starts[k] + 1):
            if new[c] >= 0:
                new[c] += n[0]
    for kind in range(3):
        for i in range(n[kind]):
            number[used[kind, i] + (target if kind == 2 else 0)] = -1
    return n[0], n[1], n[2]


@njit(cache=True, nogil=True)
def sort_by(key: Array, groups: int) -> tuple[Array, Array]:  # (n,) -> (n,), (groups + 1,)
    """The items in the order of their keys, 0 .. groups - 1, equals as they come; and where each group begins."""
    at = np.zeros(groups + 1, np.int64)
    for k in range(len(key)):
        at[key[k] + 1] += 1
    for g in range(groups):
        at[g + 1] += at[g]
    free, order = at.copy(), np.empty(len(key), np.int64)
    for k in range(len(key)):
        order[free[key[k]]] = k
        free[key[k]] += 1
    return order, at


def scatter(x: Array, index: Array) -> Array:  # (n,), (n,) -> (n,)
    """A large table in another order, ``found[index] = x``, on several threads."""
    found = room(len(index), x.dtype)
    in_parts(lambda a, b: _scatter(x, index, a, b, found), len(index))
    return found


@njit(cache=True, nogil=True)
def _scatter(x: Array, index: Array, first: int, last: int, found: Array) -> None:
    for k in range(first, last):
        found[np.uint64(index[k])] = x[k]  # unsigned, so that no place is counted from the end


def add(x: Array, y: Array, shared: int) -> tuple[Array, Array]:  # (n,), (m,) -> (n,), (m,)
    """Copies of two large tables, their first cells added up."""
    first, second = room(len(x), x.dtype), room(len(y), y.dtype)
    in_parts(lambda a, b: _add(x, y, a, b, first, second), shared)
    first[shared:], second[shared:] = x[shared:], y[shared:]
    return first, second


@njit(cache=True, nogil=True)
def _add(x: Array, y: Array, begin: int, end: int, first: Array, second: Array) -> None:
    for k in range(begin, end):
        first[k] = second[k] = x[k] + y[k]
