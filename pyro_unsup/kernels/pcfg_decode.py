"""Labelled trees from the top down: the best one of a sentence, or one that is drawn.

A label is chosen for the whole sentence, and then for each span, given its label, its split and the labels of both
parts together. Draws go by scaled real numbers, as in :mod:`.pcfg_pass`, and by logs where these are not exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array
from .choice import choose
from .pcfg_pass import inside, span_at, weigh_labels, weigh_words
from .ring import LOG, MAX, REAL, compiled, inlined, longest_of, times, zero


@compiled
def best_way(ways: Array, n: int, i: int, j: int) -> int:
    """The best of some ways to go on. Equals are chosen from as if at random, but always in the same way: the first of
    them would make branching trees of sentences that a grammar knows nothing about. The choice goes with the length of
    the sentence, not with its number, so that no sentence's tree depends on its neighbours."""
    top, ties = -np.inf, 0
    for k in range(len(ways)):
        if ways[k] > top:
            top, ties = ways[k], 1
        elif ways[k] == top:
            ties += 1
    mixed = ((n * 1009 + i) * 1013 + j) * 40503 + 12345
    mixed ^= mixed >> 7
    left = (mixed * 2654435761 % 4294967296 >> 11) % ties
    for k in range(len(ways)):
        if ways[k] == top:
            if left == 0:
                return k
            left -= 1
    return 0


@inlined
def _weigh_ways(
    mode: int,
    i: int,
    j: int,
    a: int,  # the label of the span
    word: Array,  # (n, P)
    both: Array,  # (N, N N)
    beside: tuple[Array, Array, Array],
    chart: Array,  # (T, T + 1, N)
    ways: Array,  # out
) -> int:
    """The weight of each split of a span with each pair of labels; gives how many there are.

    A word and the rest come first, then the rest and a word, then two wider parts, split by split. Of two words, all
    pairs of preterminals."""
    N, P, m = len(both), word.shape[1], 0
    left, right, two = beside
    if j - i == 2:
        for p in range(P):
            for q in range(P):
                ways[m] = times(mode, times(mode, word[i, p], two[p, a * P + q]), word[i + 1, q])
                m += 1
        return m
    for p in range(P):
        for c in range(N):
            ways[m] = times(mode, times(mode, word[i, p], left[p, a * N + c]), chart[i + 1, j, c])
            m += 1
    for b in range(N):
        for p in range(P):
            ways[m] = times(mode, times(mode, chart[i, j - 1, b], right[p, a * N + b]), word[j - 1, p])
            m += 1
    for k in range(i + 2, j - 1):
        for b in range(N):
            for c in range(N):
                ways[m] = times(mode, times(mode, chart[i, k, b], both[a, b * N + c]), chart[k, j, c])
                m += 1
    return m


@compiled
def _parts(found: int, i: int, j: int, N: int, P: int) -> tuple[int, int, int]:
    """The split and both labels of one of the ways."""
    if j - i == 2:
        return i + 1, N + found // P, N + found % P
    if found < P * N:
        return i + 1, N + found // N, found % N
    found -= P * N
    if found < P * N:
        return j - 1, found // P, N + found % P
    found -= P * N
    return i + 2 + found // (N * N), found // N % N, found % N


@inlined
def trace(
    mode: int,
    n: int,
    word: Array,  # (n, P)
    both: Array,  # (N, N N)
    beside: tuple[Array, Array, Array],
    chart: Array,  # (T, T + 1, N)
    uniforms: Array,  # (n,) float64 in [0, 1); empty in maxima
    ways: Array,  # room
    stack: Array,  # (T + 1, 3) room: spans still to be split, and their labels
    structure: Array,  # (n (n + 1) / 2,) out: labels of constituents; others stay as they are
) -> None:
    """The best tree of a sentence, or one that is drawn, from the top down."""
    N, P, used = len(both), word.shape[1], 0
    for a in range(N):
        ways[a] = chart[0, n, a]
    a = best_way(ways[:N], n, 0, n) if mode == MAX else choose(mode, ways[:N], uniforms[used])
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, a
    size = 1
    while size > 0:
        size -= 1
        i, j, a = stack[size, 0], stack[size, 1], stack[size, 2]
        if j - i == 1:
            structure[i] = a
            continue
        structure[n + span_at(n, i, j - i)] = a
        m = _weigh_ways(mode, i, j, a, word, both, beside, chart, ways)
        used += 1
        found = best_way(ways[:m], n, i, j) if mode == MAX else choose(mode, ways[:m], uniforms[used])
        k, b_label, c_label = _parts(found, i, j, N, P)
        stack[size, 0], stack[size, 1], stack[size, 2] = i, k, b_label
        stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2] = k, j, c_label
        size += 2


def _decode(mode: int) -> Any:
    @compiled
    def run(
        root: Array,  # (1 or B, N) log-weights: one set for all sentences, or one for each; so of all tables
        rules: tuple[Array, Array, Array, Array],  # by blocks: scaled real numbers, or logs
        emit: Array,  # (types, P) log-weights
        types: Array,  # (tokens,)
        labels: Array,  # (spans of two words or more, N), or no rows
        offsets: Array,  # (B + 1,) of the tokens
        edges: Array,  # (B + 1,) of the spans
        todo: Array,  # which sentences
        limit: float,
        uniforms: Array,  # (tokens,) float64 in [0, 1), or empty
        trouble: Array,  # (B,) out: do this one again in logs
        structure: Array,  # (spans,) out: labels of constituents, -1 for others, and where there is no tree at all
    ) -> None:
        """The best tree of every sentence, or a draw in proportion to the weight of trees."""
        T, N, P = longest_of(offsets, todo), root.shape[1], emit.shape[1]
        words, made, pairs = np.empty((T, P)), np.empty((T, N)), np.empty((T, N * N))
        sides = (np.empty((T, N * N)), np.empty((T, N * N)), np.empty((T, N * P)))
        chart, top = np.empty((T, T + 1, N)), np.empty(N)
        room = np.empty((T * (T - 1) // 2 if len(labels) > 0 else 0, N))
        ways = np.empty(max(P * P, 2 * P * N + max(T - 3, 0) * N * N, N))
        stack = np.empty((T + 1, 3), np.int64)
        for b in todo:
            at, n, edge = offsets[b], offsets[b + 1] - offsets[b], edges[b]
            structure[edge : edges[b + 1]] = -1
            trouble[b] = False
            if n < 2:
                continue
            mine = labels[edge - at : edge - at + n * (n - 1) // 2] if len(labels) > 0 else labels
            label, word = room[: max(len(mine) - 1, 0)], words[:n]
            shift = weigh_words(mode, emit, types[at : at + n], word)
            shift += weigh_labels(mode, n, root[min(b, len(root) - 1)], mine, room, top)
            own = min(b, len(rules[0]) - 1)
            both, beside = rules[0][own], (rules[1][own], rules[2][own], rules[3][own])
            here, whole = (sides[0][:n], sides[1][:n], sides[2][:n]), zero(mode)
            if shift > -np.inf:
                whole = inside(mode, n, word, label, top, both, beside, here, made, pairs, chart)
            if mode == REAL and not (whole > 1 / limit):
                trouble[b] = True
                continue
            if whole == -np.inf:
                continue
            chances = uniforms if mode == MAX else uniforms[at : at + n]
            trace(mode, n, word, both, beside, chart, chances, ways, stack, structure[edge : edges[b + 1]])

    return run


scaled_draw, log_draw, best_trees = _decode(REAL), _decode(LOG), _decode(MAX)
