"""Numbering sequences of symbols: a tree of prefixes, in a hash table.

A node is a shorter node (-1 for none) and one symbol more. The key of that pair is looked up in a table with open
addressing: ``keys`` holds keys (-1 where a slot is free), ``nodes`` the numbers of their nodes.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from ..array import Array

#: 2**64 over the golden ratio: multiplying by it spreads neighbouring keys over the whole range.
SPREAD = uint64(0x9E3779B97F4A7C15)
#: Slots of the first table; it doubles when it is half full.
SMALL = 1 << 12


@njit(cache=True, nogil=True)
def _slot(keys: Array, shift: int, key: int) -> int:
    """Where a key is, or the free slot where it would be."""
    i = np.int64((uint64(key) * SPREAD) >> uint64(shift))
    while keys[i] != key and keys[i] != -1:
        i = (i + 1) & (len(keys) - 1)
    return i  # type: ignore[return-value]  # numba has no other whole numbers


@njit(cache=True, nogil=True)
def _shift(keys: Array) -> int:
    """How far to shift a product down to a slot."""
    bits = 0
    while (1 << bits) < len(keys):
        bits += 1
    return 64 - bits


@njit(cache=True, nogil=True)
def table_of(pairs: Array, size: int, symbols: int) -> tuple[Array, Array, int]:  # (N, 2)
    """A hash table of the first ``size`` nodes, with space for as many more; and the first duplicate, or -1."""
    slots = SMALL
    while slots < 4 * size:
        slots *= 2
    keys, nodes, twice = np.full(slots, -1, np.int64), np.empty(slots, np.int32), -1
    shift = _shift(keys)
    for node in range(size):
        key = (pairs[node, 0] + 1) * symbols + pairs[node, 1]
        i = _slot(keys, shift, key)
        if keys[i] == key and twice < 0:
            twice = node
        keys[i], nodes[i] = key, node
    return keys, nodes, twice


@njit(cache=True, nogil=True)
def grow(
    words: Array,  # (symbols in all,)
    starts: Array,  # (n,) where sequences begin
    ends: Array,  # (n,) where the sentence of each ends
    symbols: int,
    longest: int,
    cells: Array,  # (symbols in all, longest) out: the node of the sequence that ends at a symbol, by its length
) -> Array:
    """All sequences that begin at some places as pairs (N, 2), numbered as they first occur."""
    pairs = np.empty((SMALL, 2), np.int64)
    keys, nodes, _ = table_of(pairs, 0, symbols)
    shift, size = _shift(keys), 0
    for s in range(len(starts)):
        node = -1
        for t in range(starts[s], min(ends[s], starts[s] + longest)):
            key = (node + 1) * symbols + words[t]
            i = _slot(keys, shift, key)
            if keys[i] == -1:
                keys[i], nodes[i] = key, size
                pairs[size, 0], pairs[size, 1] = node, words[t]
                size += 1
                node = size - 1
                if 2 * size == len(keys):
                    more = np.empty((2 * len(pairs), 2), np.int64)
                    for k in range(size):
                        more[k, 0], more[k, 1] = pairs[k, 0], pairs[k, 1]
                    pairs = more
                    keys, nodes, _ = table_of(pairs, size, symbols)
                    shift = _shift(keys)
            else:
                node = nodes[i]
            cells[t, t - starts[s]] = node
    return pairs[:size].copy()


@njit(cache=True, nogil=True)
def look_up(
    keys: Array,  # the table
    nodes: Array,
    number: Array,  # (N,) of each node
    unknown: int,  # the number of what has no node
    words: Array,  # (symbols in all,)
    offsets: Array,  # (B + 1,)
    symbols: int,
    cells: Array,  # (symbols in all, L) out: by last symbol and length; -1 beyond the start of a sentence
) -> None:
    L, shift = cells.shape[1], _shift(keys)
    cells[:] = -1
    for b in range(len(offsets) - 1):
        for s in range(offsets[b], offsets[b + 1]):
            node, known = -1, True
            for t in range(s, min(offsets[b + 1], s + L)):
                known = known and 0 <= words[t] < symbols
                if known:
                    i = _slot(keys, shift, (node + 1) * symbols + words[t])
                    known = keys[i] != -1
                    node = nodes[i]
                cells[t, t - s] = number[node] if known else unknown
