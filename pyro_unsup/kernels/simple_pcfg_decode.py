"""Labelled trees of factored rules from the top down: the best one of a sentence, or one that is drawn.

A label is chosen for the whole sentence. Then, for each span with its label: where it is split, and the labels of both
parts, one after the other. Draws go by scaled real numbers, and by logs where these are not exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array
from .choice import choose
from .pcfg_decode import best_way
from .pcfg_pass import span_at, weigh_labels, weigh_words
from .ring import LOG, MAX, REAL, compiled, inlined, longest_of, times, zero
from .simple_pcfg_pass import inside


@inlined
def _weigh_labels(
    mode: int,
    a: int,  # the row of the rules: the label above, and N more for a right part
    i: int,
    j: int,
    n: int,
    word: Array,  # (n, P)
    wide: Array,  # (2 N, N)
    narrow: Array,  # (2 N, P)
    chart: Array,  # (spans - n, N)
    ways: Array,  # out
) -> tuple[int, int]:
    """The weight of each label of a part; gives how many there are, and the first of them."""
    N, P = wide.shape[1], narrow.shape[1]
    if j - i == 1:
        for p in range(P):
            ways[p] = times(mode, narrow[a, p], word[i, p])
        return P, N
    m = span_at(n, i, j - i)
    for b in range(N):
        ways[b] = times(mode, wide[a, b], chart[m, b])
    return N, 0


@inlined
def trace(
    mode: int,
    n: int,
    word: Array,  # (n, P)
    wide: Array,  # (2 N, N)
    narrow: Array,  # (2 N, P)
    sides: Array,  # (spans, 2 N)
    chart: Array,  # (spans - n, N)
    uniforms: Array,  # (3 n,) float64 in [0, 1); empty in maxima
    ways: Array,  # room
    stack: Array,  # (T + 1, 3) room: spans still to be split, and their labels
    structure: Array,  # (n (n + 1) / 2,) out: labels of constituents; others stay as they are
) -> None:
    """The best tree of a sentence, or one that is drawn, from the top down."""
    N, used = wide.shape[1], 0
    top = chart[span_at(n, 0, n)]
    stack[0, 0], stack[0, 1] = 0, n
    stack[0, 2] = best_way(top, n, 0, n) if mode == MAX else choose(mode, top, uniforms[used])
    size = 1
    while size > 0:
        size -= 1
        i, j, a = stack[size, 0], stack[size, 1], stack[size, 2]
        if j - i == 1:
            structure[i] = a
            continue
        structure[n + span_at(n, i, j - i)] = a
        for k in range(1, j - i):
            left, right = n + span_at(n, i, k), n + span_at(n, i + k, j - i - k)
            ways[k - 1] = times(mode, sides[left, a], sides[right, N + a])
        found = ways[: j - i - 1]
        split = i + 1 + (best_way(found, n, i, j) if mode == MAX else choose(mode, found, uniforms[used + 1]))
        for side in range(2):
            first, last = (split, j) if side else (i, split)
            many, label = _weigh_labels(mode, a + side * N, first, last, n, word, wide, narrow, chart, ways)
            found = ways[:many]
            label += best_way(found, n, first, last) if mode == MAX else choose(mode, found, uniforms[used + 2 + side])
            stack[size, 0], stack[size, 1], stack[size, 2] = first, last, label
            size += 1
        used += 3


def _decode(mode: int) -> Any:
    @compiled
    def run(
        root: Array,  # (1 or B, N) log-weights: one set for all sentences, or one for each; so of all tables
        rules: tuple[Array, Array],  # (1 or B, 2 N, N) and (1 or B, 2 N, P): scaled real numbers, or logs
        emit: Array,  # (types, P) log-weights
        types: Array,  # (tokens,)
        labels: Array,  # (spans of two words or more, N), or no rows
        offsets: Array,  # (B + 1,) of the tokens
        edges: Array,  # (B + 1,) of the spans
        todo: Array,  # which sentences
        limit: float,
        uniforms: Array,  # (3 tokens,) float64 in [0, 1), or empty
        trouble: Array,  # (B,) out: do this one again in logs
        structure: Array,  # (spans,) out: labels of constituents, -1 for others, and where there is no tree at all
    ) -> None:
        """The best tree of every sentence, or a draw in proportion to the weight of trees."""
        T, N, P = longest_of(offsets, todo), root.shape[1], emit.shape[1]
        spans = T * (T + 1) // 2
        words, sides, chart, top = np.empty((T, P)), np.empty((spans, 2 * N)), np.empty((spans - T, N)), np.empty(N)
        room, ways = np.empty((spans - T if len(labels) > 0 else 0, N)), np.empty(max(N, P, T))
        stack = np.empty((T + 1, 3), np.int64)  # spans still to be split, and their labels
        for b in todo:
            at, n, edge = offsets[b], offsets[b + 1] - offsets[b], edges[b]
            structure[edge : edges[b + 1]] = -1
            trouble[b] = False
            if n < 2:
                continue
            inner = n * (n - 1) // 2
            mine = labels[edge - at : edge - at + inner] if len(labels) > 0 else labels
            label, word = room[: max(len(mine) - 1, 0)], words[:n]
            shift = weigh_words(mode, emit, types[at : at + n], word)
            shift += weigh_labels(mode, n, root[min(b, len(root) - 1)], mine, room, top)
            own = min(b, len(rules[0]) - 1)
            wide, narrow = rules[0][own], rules[1][own]
            here, whole = sides[: n + inner], zero(mode)
            if shift > -np.inf:
                whole = inside(mode, n, word, label, top, wide, narrow, here, chart)
            if mode == REAL and not (whole > 1 / limit):
                trouble[b] = True
                continue
            if whole == -np.inf:
                continue
            chances = uniforms if mode == MAX else uniforms[3 * at : 3 * (at + n)]
            trace(mode, n, word, wide, narrow, here, chart, chances, ways, stack, structure[edge : edges[b + 1]])

    return run


scaled_draw, log_draw, best_trees = _decode(REAL), _decode(LOG), _decode(MAX)
