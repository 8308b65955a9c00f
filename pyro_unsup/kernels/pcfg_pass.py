"""Inside-outside over the labelled trees of a sentence, and decoding: one recursion, compiled for several semirings.

Rules come in four blocks, by whether their left and right parts are words. What a word and a rule do together does not
depend on the other part, so it is summed once a word (``beside``). Two parts of several words each are summed over
their splits first, and then over rules: O(n^3 N^2 + n^2 N^3 + n N P (N + P)) in all. In real numbers the sums over
rules are matrix products.

``scaled_pass`` works in real numbers that are scaled. Each tree over n words has n - 1 rules, n words and one root, so
that dividing all rules by one number, the labels of a word by their largest, and those of the root by theirs, changes
all trees alike. Rules are divided so that none of their sums, over two of the three labels, exceeds 1/4. As there are
less than 4^m binary trees with m nodes, no sum over the trees of a span then exceeds 1, and none over the trees around
a span. What underflows was below ``tiny`` (the smallest normal number), and would have added at most ``tiny / whole``
as a share of the total. So a sentence whose total is above ``1 / limit`` is exact far beyond rounding. Others are done
again in logs, by ``log_pass``.

Spans of a sentence lie by width, then by start: (0,1) (1,2) .. (0,2) (1,3) .. (0,n).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array
from .exp_log import exp_below
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


@compiled
def span_at(n: int, i: int, w: int) -> int:
    """Where a span of at least two words lies among those of its sentence, single words left out."""
    return (w - 1) * n - (w - 1) * (w - 2) // 2 + i - n


@inlined
def products(mode: int, left: Array, right: Array, out: Array) -> None:  # (m, k), (k, n) -> (m, n)
    """The product of two matrices."""
    if mode == REAL:
        np.dot(left, right, out)
    else:
        for x in range(left.shape[0]):
            for y in range(right.shape[1]):
                found = NOTHING
                for k in range(left.shape[1]):
                    found = add(mode, *found, times(mode, left[x, k], right[k, y]))
                out[x, y] = total(mode, *found)


@inlined
def pair_sums(mode: int, n: int, w: int, chart: Array, pairs: Array) -> None:  # (T, T + 1, N) -> (n - w + 1, N N)
    """Pairs of labels of two parts of several words each, summed over the splits of every span of a width."""
    N = chart.shape[2]
    for i in range(n - w + 1):
        j = i + w
        if mode == REAL:  # along rows
            pairs[i] = 0.0
            for k in range(i + 2, j - 1):
                for b in range(N):
                    x = chart[i, k, b]
                    for c in range(N):
                        pairs[i, b * N + c] += x * chart[k, j, c]
        else:
            for b in range(N):
                for c in range(N):
                    found = NOTHING
                    for k in range(i + 2, j - 1):
                        found = add(mode, *found, times(mode, chart[i, k, b], chart[k, j, c]))
                    pairs[i, b * N + c] = total(mode, *found)


@inlined
def inside(
    mode: int,
    n: int,  # words, at least 2
    word: Array,  # (n, P)
    label: Array,  # (spans - n, N), or no rows: more for the labels of wider spans, the whole left out
    top: Array,  # (N,) for the label of the whole
    both: Array,  # (N, N N) rules of two wider parts: parent, left, right
    beside: tuple[Array, Array, Array],  # (P, N N) of a word and a wider part, of a wider part and a word, and (P, N P)
    sides: tuple[Array, Array, Array],  # (n, ...) out: the same for each word
    made: Array,  # (n, N) room
    pairs: Array,  # (n, N N) room
    chart: Array,  # (T, T + 1, N) out, by start and end
) -> float:
    """Fill a chart with sums over the trees of each span, by its label; gives the sum over all trees."""
    N, P = len(top), word.shape[1]
    for side in range(3):
        products(mode, word, beside[side], sides[side])
    left, right, two = sides
    for w in range(2, n + 1):
        S = n - w + 1
        if w > 3:
            pair_sums(mode, n, w, chart, pairs)
            products(mode, pairs[:S], both.T, made[:S])
        for i in range(S):
            j, m = i + w, span_at(n, i, w)
            for a in range(N):
                found = NOTHING
                if w == 2:
                    for q in range(P):
                        found = add(mode, *found, times(mode, two[i, a * P + q], word[i + 1, q]))
                else:
                    for c in range(N):
                        found = add(mode, *found, times(mode, left[i, a * N + c], chart[i + 1, j, c]))
                    for b in range(N):
                        found = add(mode, *found, times(mode, right[j - 1, a * N + b], chart[i, j - 1, b]))
                x = total(mode, *found)
                if w > 3:
                    x = plus(mode, x, made[i, a])
                if w == n:
                    x = times(mode, x, top[a])
                elif len(label) > 0:
                    x = times(mode, x, label[m, a])
                chart[i, j, a] = x
    found = NOTHING
    for a in range(N):
        found = add(mode, *found, chart[0, n, a])
    return float(total(mode, *found))


@inlined
def outside(
    mode: int,
    n: int,
    word: Array,  # (n, P)
    label: Array,  # (spans - n, N), or no rows
    top: Array,  # (N,)
    both: Array,  # (N, N N)
    beside: tuple[Array, Array, Array],
    sides: tuple[Array, Array, Array],  # (n, ...)
    whole: float,  # the sum over all trees
    pairs: Array,  # (n, N N) room
    chart: Array,  # (T, T + 1, N)
    around: Array,  # (T, T + 1, N) room for sums over the trees around each span
    around_pairs: Array,  # (n, N N) room
    around_sides: tuple[Array, Array, Array],  # (n, ...) room
    around_word: Array,  # (n, P) out: sums around words
    above: Array,  # (n, N) room
    scale: float,  # how much the counts of the sentence weigh
    n_both: Array,  # (N, N N) added to; in real numbers, still to be multiplied by the rules
    n_beside: tuple[Array, Array, Array],  # added to in the same way
    count: bool,
) -> None:
    """Sums over all there is around each span, as shares of the whole; and how often each rule is expected."""
    N, P = len(top), word.shape[1]
    left, right, two = sides
    to_left, to_right, to_two = around_sides
    for x in (to_left, to_right, to_two, around_word):
        x[:] = zero(mode)
    around[:n, : n + 1] = zero(mode)
    around[0, n] = inverse(mode, whole)
    for w in range(n, 1, -1):
        S = n - w + 1
        for i in range(S):
            j, m = i + w, span_at(n, i, w)
            for a in range(N):
                x = around[i, j, a]
                if w == n:
                    x = times(mode, x, top[a])
                elif len(label) > 0:
                    x = times(mode, x, label[m, a])
                above[i, a] = x
                if w == 2:
                    for q in range(P):
                        at = a * P + q
                        to_two[i, at] = times(mode, x, word[i + 1, q])
                        around_word[i + 1, q] = plus(mode, around_word[i + 1, q], times(mode, x, two[i, at]))
                    continue
                for c in range(N):
                    at = a * N + c
                    to_left[i, at] = plus(mode, to_left[i, at], times(mode, x, chart[i + 1, j, c]))
                    around[i + 1, j, c] = plus(mode, around[i + 1, j, c], times(mode, x, left[i, at]))
                for b in range(N):
                    at = a * N + b
                    to_right[j - 1, at] = plus(mode, to_right[j - 1, at], times(mode, x, chart[i, j - 1, b]))
                    around[i, j - 1, b] = plus(mode, around[i, j - 1, b], times(mode, x, right[j - 1, at]))
        if w < 4:
            continue
        products(mode, above[:S], both, around_pairs[:S])
        for i in range(S):
            j = i + w
            for k in range(i + 2, j - 1):
                for b in range(N):
                    y, found = chart[i, k, b], NOTHING
                    for c in range(N):
                        x = around_pairs[i, b * N + c]
                        found = add(mode, *found, times(mode, x, chart[k, j, c]))
                        around[k, j, c] = plus(mode, around[k, j, c], times(mode, x, y))
                    around[i, k, b] = plus(mode, around[i, k, b], total(mode, *found))
        if count:
            pair_sums(mode, n, w, chart, pairs)
            count_products(mode, scale, above[:S], both, pairs[:S], n_both)
    for side in range(3):
        if mode == REAL:
            around_word += np.dot(around_sides[side], beside[side].T)
        else:
            for i in range(n):
                for p in range(P):
                    found = NOTHING
                    for at in range(beside[side].shape[1]):
                        found = add(mode, *found, times(mode, around_sides[side][i, at], beside[side][p, at]))
                    around_word[i, p] = plus(mode, around_word[i, p], total(mode, *found))
        if count:
            count_products(mode, scale, word, beside[side], around_sides[side], n_beside[side])


@inlined
def count_products(
    mode: int, scale: float, given: Array, rules: Array, rest: Array, counts: Array
) -> None:  # (rows, m), (m, k), (rows, k) -> (m, k)
    """Add up how often rules are expected: the sum over rows of ``given * rules * rest``, in real numbers without the
    rules, which are the same for all."""
    if mode == REAL:
        counts += np.dot((scale * given).T, rest)
    else:
        for x in range(given.shape[0]):
            for a in range(given.shape[1]):
                for at in range(rest.shape[1]):
                    counts[a, at] += scale * np.exp(given[x, a] + rules[a, at] + rest[x, at])


@compiled
def weigh_words(mode: int, emit: Array, types: Array, word: Array) -> float:  # (types, P), (n,) -> (n, P)
    """Weights of the preterminals of each word; gives the log of what they were divided by, in real numbers."""
    shift = 0.0
    for i in range(len(types)):
        row = emit[types[i]]
        if mode == REAL:
            highest = row.max()
            if highest == -np.inf:
                return -np.inf
            exp_below(row, highest, word[i])
            shift += highest
        else:
            copy(row, word[i])
    return shift


@compiled
def weigh_labels(
    mode: int, n: int, root: Array, labels: Array, label: Array, top: Array
) -> float:  # (N,), (spans - n, N) -> (spans - n, N), (N,)
    """Weights of the labels of wider spans; gives the log of what they were divided by, in real numbers."""
    last = len(labels) - 1
    copy(root, top)
    if last >= 0:
        top += labels[last]
    if mode != REAL:
        for m in range(len(labels)):
            copy(labels[m], label[m])
        return 0.0
    highest = top.max()
    shift = highest
    if highest == -np.inf:
        return -np.inf
    exp_below(top.copy(), highest, top)
    if last > 0:
        highest = -np.inf
        for m in range(last):
            highest = max(highest, labels[m].max())
        if highest == -np.inf:
            return -np.inf
        for m in range(last):
            exp_below(labels[m], highest, label[m])
        shift += (n - 2) * highest
    return float(shift)


@inlined
def count_labels(
    mode: int,
    n: int,
    word: Array,  # (n, P)
    around_word: Array,  # (n, P) sums around words
    types: Array,  # (n,)
    scale: float,
    n_emit: Array,  # (types, P) added to, if counts are wanted
    marginals: Array,  # (spans of the sentence, N + P) out, the first n rows of it; no rows if not wanted
    count: bool,
) -> None:
    """How often each word has each preterminal."""
    P = word.shape[1]
    for i in range(n):
        for p in range(P):
            x = min(as_real(mode, times(mode, word[i, p], around_word[i, p])), 1.0)
            if count:
                n_emit[types[i], p] += scale * x
            if len(marginals) > 0:
                marginals[i, marginals.shape[1] - P + p] = x


def _both(mode: int) -> Any:
    @compiled
    def run(
        root: Array,  # (1 or B, N) log-weights: one set for all sentences, or one for each; so of all tables
        rules: tuple[Array, Array, Array, Array],  # scaled real numbers, or logs: (1 or B, N, N N), (.., P, N N) twice
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
        n_rules: tuple[Array, Array, Array, Array],  # added to; in real numbers, still to be multiplied by the rules
        n_emit: Array,  # (types, P) added to
    ) -> None:
        """log Z of some sentences, expected counts, and the posteriors of the labels of their spans."""
        T, N, P = longest_of(offsets, todo), root.shape[1], emit.shape[1]
        count, want = len(weigh) > 0, len(marginals) > 0
        back = T if count or want else 0
        words, around_words = np.empty((T, P)), np.empty((back, P))
        sides = (np.empty((T, N * N)), np.empty((T, N * N)), np.empty((T, N * P)))
        around_sides = (np.empty((back, N * N)), np.empty((back, N * N)), np.empty((back, N * P)))
        made, above, pairs, around_pairs = (
            np.empty((T, N)),
            np.empty((back, N)),
            np.empty((T, N * N)),
            np.empty((back, N * N)),
        )
        chart, around = np.empty((T, T + 1, N)), np.empty((back, back + 1, N))
        room, top = np.empty((T * (T - 1) // 2 if len(labels) > 0 else 0, N)), np.empty(N)
        for b in todo:
            at, n, edge = offsets[b], offsets[b + 1] - offsets[b], edges[b]
            log_z[b], trouble[b] = 0.0, False
            if want:
                marginals[edge : edges[b + 1]] = 0.0
            if n < 2:  # the root is a nonterminal, and has two parts
                log_z[b] = 0.0 if n == 0 else -np.inf
                continue
            mine = labels[edge - at : edge - at + n * (n - 1) // 2] if len(labels) > 0 else labels
            label, word = room[: max(len(mine) - 1, 0)], words[:n]
            shift = weigh_words(mode, emit, types[at : at + n], word)
            shift += weigh_labels(mode, n, root[min(b, len(root) - 1)], mine, room, top)
            own = min(b, len(unit) - 1)
            both, beside = rules[0][own], (rules[1][own], rules[2][own], rules[3][own])
            here = (sides[0][:n], sides[1][:n], sides[2][:n])
            whole = zero(mode)
            if shift > -np.inf:
                whole = inside(mode, n, word, label, top, both, beside, here, made, pairs, chart)
            if mode == REAL and not (whole > 1 / limit):
                trouble[b] = True
                continue
            log_z[b] = shift + (n - 1) * unit[own] + as_log(mode, whole)
            if log_z[b] == -np.inf or not (count or want):  # what is impossible counts for nothing
                continue
            scale, around_word = weigh[b] if count else 0.0, around_words[:n]
            there = (around_sides[0][:n], around_sides[1][:n], around_sides[2][:n])
            mine_counted = own if count else 0
            n_beside = (n_rules[1][mine_counted], n_rules[2][mine_counted], n_rules[3][mine_counted])
            outside(
                mode, n, word, label, top, both, beside, here, whole, pairs, chart, around, around_pairs, there,
                around_word, above, scale, n_rules[0][mine_counted], n_beside, count,
            )  # fmt: skip
            found = marginals[edge : edges[b + 1]] if want else marginals
            count_labels(mode, n, word, around_word, types[at : at + n], scale, n_emit, found, count)
            if count:
                for a in range(N):
                    n_root[min(b, len(n_root) - 1), a] += scale * as_real(
                        mode, times(mode, chart[0, n, a], around[0, n, a])
                    )
            if want:
                for w in range(2, n + 1):
                    for i in range(n - w + 1):
                        for a in range(N):
                            x = as_real(mode, times(mode, chart[i, i + w, a], around[i, i + w, a]))
                            found[n + span_at(n, i, w), a] = min(x, 1.0)

    return run


scaled_pass, log_pass = _both(REAL), _both(LOG)
