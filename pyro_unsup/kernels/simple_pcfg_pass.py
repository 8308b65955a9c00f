"""Inside-outside over the labelled trees of a sentence whose rules are products: matrix products, width by width.

A span is summed over its labels as a left part of each label above it, and as a right part. Both are one product of
matrices for all spans of a width: (spans, N) by (N, 2 N). A wider span then is a sum over its splits, of numbers that
are multiplied label by label. Backwards it is the same: O(n^2 N^2 + n^3 N + n N P) in all.

``scaled_pass`` works in real numbers that are scaled as those of :mod:`.pcfg_pass`, with the same certificate: no sum
over the trees of a span exceeds 1, and none over the trees around a span. As right parts sum to one, no sum over a span
as a part exceeds 1 either. What underflows would have added at most ``tiny / whole`` as a share of the total.

Spans lie by width, then by start. Those of two words or more have a row of labels; all have a row as parts, of 2 N
numbers: as a left part, then as a right part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array
from .pcfg_pass import count_labels, count_products, products, span_at, weigh_labels, weigh_words
from .ring import (
    LOG,
    NOTHING,
    REAL,
    add,
    as_log,
    as_real,
    compiled,
    copy,
    inlined,
    inverse,
    longest_of,
    plus,
    times,
    total,
    zero,
)


@inlined
def inside(
    mode: int,
    n: int,  # words, at least 2
    word: Array,  # (n, P)
    label: Array,  # (spans - n, N), or no rows: more for the labels of wider spans, the whole left out
    top: Array,  # (N,) for the label of the whole
    wide: Array,  # (2 N, N) rules of wider parts
    narrow: Array,  # (2 N, P) of words
    sides: Array,  # (spans, 2 N) out: each span as a left part and as a right part
    chart: Array,  # (spans - n, N) out: sums over the trees of each wider span, by its label
) -> float:
    """Fill a chart, and give the sum over all trees."""
    N = len(top)
    products(mode, word, narrow.T, sides[:n])
    for w in range(2, n + 1):
        S, first = n - w + 1, span_at(n, 0, w)
        for i in range(S):
            row = chart[first + i]
            if mode == REAL:  # along rows
                row[:] = 0.0
                for k in range(1, w):
                    left, right = n + span_at(n, i, k), n + span_at(n, i + k, w - k)
                    for a in range(N):
                        row[a] += sides[left, a] * sides[right, N + a]
            else:
                for a in range(N):
                    found = NOTHING
                    for k in range(1, w):
                        left, right = n + span_at(n, i, k), n + span_at(n, i + k, w - k)
                        found = add(mode, *found, times(mode, sides[left, a], sides[right, N + a]))
                    row[a] = total(mode, *found)
            weigh_row(mode, first + i, label, top, w == n, row)
        if w < n:
            products(mode, chart[first : first + S], wide.T, sides[n + first : n + first + S])
    found = NOTHING
    for a in range(N):
        found = add(mode, *found, chart[span_at(n, 0, n), a])
    return float(total(mode, *found))


@compiled
def weigh_row(mode: int, m: int, label: Array, top: Array, whole: bool, row: Array) -> None:  # (N,)
    """Multiply a row by the weights of the labels of its span."""
    if whole:
        for a in range(len(row)):
            row[a] = times(mode, row[a], top[a])
    elif len(label) > 0:
        for a in range(len(row)):
            row[a] = times(mode, row[a], label[m, a])


@inlined
def outside(
    mode: int,
    n: int,
    word: Array,  # (n, P)
    label: Array,  # (spans - n, N), or no rows
    top: Array,  # (N,)
    wide: Array,  # (2 N, N)
    narrow: Array,  # (2 N, P)
    whole: float,  # the sum over all trees
    sides: Array,  # (spans, 2 N)
    chart: Array,  # (spans - n, N)
    around_sides: Array,  # (spans, 2 N) room
    around: Array,  # (spans - n, N) out: sums over all there is around each span, as shares of the whole
    around_word: Array,  # (n, P) out
    above: Array,  # (N,) room
    scale: float,  # how much the counts of the sentence weigh
    n_wide: Array,  # (2 N, N) added to; in real numbers, still to be multiplied by the rules
    n_narrow: Array,  # (2 N, P) added to in the same way
    count: bool,
) -> None:
    """Sums over all there is around each span, as shares of the whole; and how often each rule is expected."""
    N, last = len(top), span_at(n, 0, n)
    around_sides[:] = zero(mode)
    around[last] = inverse(mode, whole)
    for w in range(n, 1, -1):
        S, first = n - w + 1, span_at(n, 0, w)
        if w < n:
            products(mode, around_sides[n + first : n + first + S], wide, around[first : first + S])
        for i in range(S):
            copy(around[first + i], above)
            weigh_row(mode, first + i, label, top, w == n, above)
            for k in range(1, w):
                left, right = n + span_at(n, i, k), n + span_at(n, i + k, w - k)
                if mode == REAL:
                    for a in range(N):
                        around_sides[left, a] += above[a] * sides[right, N + a]
                    for a in range(N):
                        around_sides[right, N + a] += above[a] * sides[left, a]
                else:
                    for a in range(N):
                        x, y = times(mode, above[a], sides[right, N + a]), times(mode, above[a], sides[left, a])
                        around_sides[left, a] = plus(mode, around_sides[left, a], x)
                        around_sides[right, N + a] = plus(mode, around_sides[right, N + a], y)
    products(mode, around_sides[:n], narrow, around_word)
    if count:
        count_products(mode, scale, around_sides[:n], narrow, word, n_narrow)
        if n > 2:
            count_products(mode, scale, around_sides[n : n + last], wide, chart[:last], n_wide)


def _both(mode: int) -> Any:
    @compiled
    def run(
        root: Array,  # (1 or B, N) log-weights: one set for all sentences, or one for each; so of all tables
        rules: tuple[Array, Array],  # (1 or B, 2 N, N) and (1 or B, 2 N, P): scaled real numbers, or logs
        unit: Array,  # (1 or B,) log of what all rules were divided by
        emit: Array,  # (types, P) log-weights
        types: Array,  # (tokens,) among the rows of emit
        labels: Array,  # (spans of two words or more, N) more log-weights, or no rows
        offsets: Array,  # (B + 1,) of the tokens
        edges: Array,  # (B + 1,) of the spans
        todo: Array,  # which sentences
        limit: float,
        weigh: Array,  # (B,) how much the counts of each sentence weigh; empty if no counts are wanted
        log_z: Array,  # (B,) out
        trouble: Array,  # (B,) out: do this one again in logs
        marginals: Array,  # (spans, N + P) out; no rows if not wanted
        n_root: Array,  # (1 or B, N) added to
        n_rules: tuple[Array, Array],  # added to; in real numbers, still to be multiplied by the rules
        n_emit: Array,  # (types, P) added to
    ) -> None:
        """log Z of some sentences, expected counts, and the posteriors of the labels of their spans."""
        T, N, P = longest_of(offsets, todo), root.shape[1], emit.shape[1]
        count, want = len(weigh) > 0, len(marginals) > 0
        spans = T * (T + 1) // 2
        back = spans if count or want else 0
        words, around_words = np.empty((T, P)), np.empty((T, P))
        sides, around_sides = np.empty((spans, 2 * N)), np.empty((back, 2 * N))
        chart, around = np.empty((spans - T, N)), np.empty((max(back - T, 0), N))
        room, top, above = np.empty((spans - T if len(labels) > 0 else 0, N)), np.empty(N), np.empty(N)
        for b in todo:
            at, n, edge = offsets[b], offsets[b + 1] - offsets[b], edges[b]
            log_z[b], trouble[b] = 0.0, False
            if want:
                marginals[edge : edges[b + 1]] = 0.0
            if n < 2:  # the root is a nonterminal, and has two parts
                log_z[b] = 0.0 if n == 0 else -np.inf
                continue
            inner = n * (n - 1) // 2
            mine = labels[edge - at : edge - at + inner] if len(labels) > 0 else labels
            label, word = room[: max(len(mine) - 1, 0)], words[:n]
            shift = weigh_words(mode, emit, types[at : at + n], word)
            shift += weigh_labels(mode, n, root[min(b, len(root) - 1)], mine, room, top)
            own = min(b, len(unit) - 1)
            wide, narrow = rules[0][own], rules[1][own]
            here, whole = sides[: n + inner], zero(mode)
            if shift > -np.inf:
                whole = inside(mode, n, word, label, top, wide, narrow, here, chart)
            if mode == REAL and not (whole > 1 / limit):
                trouble[b] = True
                continue
            log_z[b] = shift + (n - 1) * unit[own] + as_log(mode, whole)
            if log_z[b] == -np.inf or not (count or want):  # what is impossible counts for nothing
                continue
            scale, around_word, counted = weigh[b] if count else 0.0, around_words[:n], own if count else 0
            outside(
                mode, n, word, label, top, wide, narrow, whole, here, chart, around_sides[: n + inner], around,
                around_word, above, scale, n_rules[0][counted], n_rules[1][counted], count,
            )  # fmt: skip
            found = marginals[edge : edges[b + 1]] if want else marginals
            count_labels(mode, n, word, around_word, types[at : at + n], scale, n_emit, found, count)
            if count:
                for a in range(N):
                    n_root[min(b, len(n_root) - 1), a] += scale * as_real(
                        mode, times(mode, chart[inner - 1, a], around[inner - 1, a])
                    )
            if want:
                for m in range(inner):
                    for a in range(N):
                        found[n + m, a] = min(as_real(mode, times(mode, chart[m, a], around[m, a])), 1.0)

    return run


scaled_pass, log_pass = _both(REAL), _both(LOG)
