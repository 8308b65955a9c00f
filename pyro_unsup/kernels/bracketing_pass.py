"""Inside-outside over the binary trees of a sentence, and decoding: one recursion, compiled for several semirings.

``scaled_pass`` works in real numbers that are scaled. Every binary tree over n words has the same number of
constituents, so one factor a constituent, chosen for each sentence, keeps all numbers small: the largest weight becomes
1/4, and then no sum over the trees of a span exceeds 1, because Catalan(m) < 4^m. Nothing overflows, and what
underflows was below ``tiny`` (the smallest normal number): it would have added at most ``tiny`` times the outside
weight of its span, as a share of the total. Hence, if no outside weight exceeds a limit, the share lost is below ``tiny
* limit`` a span, far under the rounding error. A sentence that breaks the limit is done again in logs, by ``log_pass``.

Spans of a sentence lie by width, then by start: (0,1) (1,2) .. (0,2) (1,3) .. (0,n). A chart has its spans twice, as
[i, j] and, in its mirror, as [j, i], so that inner loops run along rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..array import Array
from .choice import choose
from .exp_log import exp_below
from .ring import (
    LOG,
    MAX,
    NOTHING,
    REAL,
    add,
    as_log,
    as_real,
    compiled,
    inlined,
    inverse,
    one,
    times,
    total,
    zero,
)

NODE = 1 / 4


@compiled
def within(spans: Array, yields: int, contexts: int) -> bool:  # (spans, 2)
    """Whether all yields and contexts exist; one look at each is faster than a general search for the extremes."""
    fine = True
    for s in range(len(spans)):
        fine &= 0 <= spans[s, 0] < yields and 0 <= spans[s, 1] < contexts
    return fine


@compiled
def log_ratios(
    yields: Array,  # (Y, 2) log-weights as distituent, as constituent
    contexts: Array,  # (X, 2)
    node: Array,  # (W + 1,)
    spans: Array,  # (spans, 2) yield and context of each
    at: int,  # first span of the sentence
    n: int,  # words, at least 1
    ratio: Array,  # (n (n + 1) / 2,) out
) -> tuple[float, float, bool]:
    """What each constituent multiplies the weight of a tree by, in logs.

    A span that every tree has (one word, all words) goes into the part that trees share. A span that cannot be a
    distituent must be in the tree. Trees without it are those that have a span across it: those spans get -inf.

    :return: the log-weight that all trees share, the largest ratio, and whether some span must be in the tree.
    """
    shared, top, forced = 0.0, -np.inf, False
    m = 0
    for w in range(1, n + 1):
        for _ in range(n - w + 1):
            y, x = spans[at + m, 0], spans[at + m, 1]
            inside = yields[y, 1] + contexts[x, 1]
            if w > 1:
                inside += node[w]
            ratio[m] = 0.0
            if w == 1 or w == n:
                shared += inside
            else:
                outside = yields[y, 0] + contexts[x, 0]
                ratio[m] = inside
                if outside == -np.inf:
                    forced = True
                else:
                    ratio[m] -= outside
                    shared += outside
                top = max(top, ratio[m])
            m += 1
    if forced:
        top = _forbid_crossing(yields, contexts, spans, at, n, ratio)
    return shared, top, forced


@compiled
def _forbid_crossing(yields: Array, contexts: Array, spans: Array, at: int, n: int, ratio: Array) -> float:
    m = n
    for w in range(2, n):
        for a in range(n - w + 1):
            b = a + w
            if yields[spans[at + m, 0], 0] + contexts[spans[at + m, 1], 0] == -np.inf:
                k = n
                for v in range(2, n):
                    for i in range(n - v + 1):
                        if i < a < i + v < b or a < i < b < i + v:
                            ratio[k] = -np.inf
                        k += 1
            m += 1
    top = -np.inf
    for k in range(n, m):
        top = max(top, ratio[k])
    return top


@inlined
def inside(mode: int, n: int, ratio: Array, chart: Array, mirror: Array) -> float:
    """Fill a chart, (N + 1, N + 1), and its mirror with sums over the trees of each span. A single word weighs 1.

    :return: the sum over all trees.
    """
    for i in range(n):
        chart[i, i + 1] = mirror[i + 1, i] = one(mode)
    m = n
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            j, found = i + w, NOTHING
            for k in range(i + 1, j):
                found = add(mode, *found, times(mode, chart[i, k], mirror[j, k]))
            chart[i, j] = mirror[j, i] = times(mode, total(mode, *found), ratio[m])
            m += 1
    return float(chart[0, n])


@inlined
def outside(
    mode: int,
    n: int,
    ratio: Array,  # (n (n + 1) / 2,)
    whole: float,  # the sum over all trees
    chart: Array,  # (N + 1, N + 1) inside sums
    mirror: Array,
    around: Array,  # (N + 1, N + 1) room for outside sums, with the weight of the span itself
    around_mirror: Array,
    marginals: Array,  # (n (n + 1) / 2,) out
) -> float:
    """The posterior of each span but single words and the whole sentence; gives the largest outside sum."""
    around[0, n] = around_mirror[n, 0] = inverse(mode, whole)
    worst, m = zero(mode), len(marginals) - 1
    for w in range(n - 1, 1, -1):
        for i in range(n - w, -1, -1):
            m -= 1
            j, found = i + w, NOTHING
            for k in range(i):
                found = add(mode, *found, times(mode, around_mirror[j, k], mirror[i, k]))
            for k in range(j + 1, n + 1):
                found = add(mode, *found, times(mode, around[i, k], chart[j, k]))
            mass = total(mode, *found)
            worst = max(worst, mass)
            marginals[m] = min(as_real(mode, times(mode, mass, chart[i, j])), 1.0)
            around[i, j] = around_mirror[j, i] = times(mode, mass, ratio[m])
    return float(worst)


def _both(mode: int) -> Any:
    @compiled
    def run(
        yields: Array,  # (Y, 2) log-weights as distituent, as constituent
        contexts: Array,  # (X, 2)
        node: Array,  # (W + 1,)
        tree: Array,  # (W + 1,)
        spans: Array,  # (spans, 2)
        lengths: Array,  # (B,)
        offsets: Array,  # (B + 1,) of the spans
        todo: Array,  # which sentences
        limit: float,
        log_z: Array,  # (B,) out
        trouble: Array,  # (B,) out: do this one again in logs
        marginals: Array,  # (spans,) out; empty if only log Z is wanted
    ) -> None:
        """log Z of some sentences, and the posteriors of their spans."""
        N = 0
        for b in todo:
            N = max(N, lengths[b])
        room = np.empty((2, N * (N + 1) // 2))
        chart, mirror = np.empty((N + 1, N + 1)), np.empty((N + 1, N + 1))
        around, around_mirror = np.empty((N + 1, N + 1)), np.empty((N + 1, N + 1))
        for b in todo:
            n, at, end = lengths[b], offsets[b], offsets[b + 1]
            log_z[b] = 0.0
            trouble[b] = False
            if n == 0:
                continue
            logs = room[0, : end - at]
            ratio = room[1, : end - at] if mode == REAL else logs  # exponentials are faster if not in place
            shift, top, forced = log_ratios(yields, contexts, node, spans, at, n, logs)
            shift += tree[n]
            if mode == REAL:
                shift += scale_down(n, logs, top, NODE, ratio)
            whole = inside(mode, n, ratio, chart, mirror)
            if mode == REAL and (not (whole > 1 / limit) or not (shift > -np.inf)):
                trouble[b] = True
                continue
            log_z[b] = shift + as_log(mode, whole)
            if len(marginals) == 0:
                continue
            if log_z[b] == -np.inf:  # impossible: it counts for nothing
                marginals[at:end] = 0.0
                continue
            worst = outside(mode, n, ratio, whole, chart, mirror, around, around_mirror, marginals[at:end])
            if mode == REAL and not (worst <= limit):
                trouble[b] = True
                continue
            settle(yields, contexts, spans, at, n, forced, marginals)

    return run


scaled_pass, log_pass = _both(REAL), _both(LOG)


@compiled
def scale_down(n: int, logs: Array, top: float, largest: float, ratio: Array) -> float:
    """Real weights of constituents from their logs, in proportion, so that the largest is as given.

    :return: the log of what they were divided by, for all constituents of a tree.
    """
    last = len(logs) - 1
    top = top if top > -np.inf else 0.0
    exp_below(logs[n:last], top, ratio[n:last])
    for m in range(n, last):
        ratio[m] *= largest
    ratio[last] = 1.0
    return float(max(n - 2, 0) * (top - np.log(largest)))


@compiled
def settle(yields: Array, contexts: Array, spans: Array, at: int, n: int, forced: bool, marginals: Array) -> None:
    """Spans that must be in the tree are there for certain: rounding must not leave a count for what is impossible."""
    last = at + n * (n + 1) // 2 - 1
    marginals[at : at + n] = 1.0
    marginals[last] = 1.0
    if forced:
        for s in range(at + n, last):
            if yields[spans[s, 0], 0] + contexts[spans[s, 1], 0] == -np.inf:
                marginals[s] = 1.0


@compiled
def count_pass(
    spans: Array,  # (spans, 2)
    lengths: Array,  # (B,)
    offsets: Array,  # (B + 1,) of the spans
    first: int,  # which sentences
    last: int,
    scale: Array,  # (B,) how much the counts of each sentence weigh
    marginals: Array,  # (spans,)
    n_yields: Array,  # (Y, 2) added to
    n_contexts: Array,  # (X, 2) added to
    n_node: Array,  # (W + 1,) added to
    n_tree: Array,  # (W + 1,) added to
) -> None:
    """Turn the posteriors of spans into counts of what they use."""
    for b in range(first, last):
        n, s = lengths[b], offsets[b]
        if n == 0 or scale[b] == 0:
            continue
        n_tree[n] += scale[b]
        for w in range(1, n + 1):
            for _ in range(n - w + 1):
                yes = marginals[s] * scale[b]
                no = scale[b] - yes
                n_yields[spans[s, 0], 1] += yes
                n_yields[spans[s, 0], 0] += no
                n_contexts[spans[s, 1], 1] += yes
                n_contexts[spans[s, 1], 0] += no
                if w > 1:
                    n_node[w] += yes
                s += 1


@compiled
def decode_pass(
    yields: Array,  # (Y, 2) log-weights as distituent, as constituent
    contexts: Array,  # (X, 2)
    node: Array,  # (W + 1,)
    tree: Array,  # (W + 1,)
    spans: Array,  # (spans, 2)
    lengths: Array,  # (B,)
    offsets: Array,  # (B + 1,) of the spans
    words: Array,  # (B + 1,) the first word of each sentence
    first: int,  # which sentences
    last: int,
    uniforms: Array,  # (words,) float64 in [0, 1), or empty
    structure: Array,  # (spans,) out: 1 for a constituent, 0 for a distituent, -1 where there is no tree at all
) -> None:
    """The best tree of every sentence (``uniforms`` empty), or a draw in proportion to the weight of trees."""
    draw = len(uniforms) > 0
    N = 0
    for b in range(first, last):
        N = max(N, lengths[b])
    room, ways = np.empty(N * (N + 1) // 2), np.empty(N + 1)
    chart, mirror = np.empty((N + 1, N + 1)), np.empty((N + 1, N + 1))
    todo = np.empty((N + 1, 2), np.int64)
    for b in range(first, last):
        n, at, end, word = lengths[b], offsets[b], offsets[b + 1], words[b]
        if n == 0:
            continue
        ratio = room[: end - at]
        shared, _, _ = log_ratios(yields, contexts, node, spans, at, n, ratio)
        whole = inside(LOG, n, ratio, chart, mirror) if draw else inside(MAX, n, ratio, chart, mirror)
        if shared + tree[n] + whole == -np.inf:
            structure[at:end] = -1
            continue
        chances = uniforms[word : word + n] if draw else uniforms
        trace(LOG if draw else MAX, n, chart, mirror, chances, ways, todo, structure[at:end])


@compiled
def trace(
    mode: int,
    n: int,
    chart: Array,  # (N + 1, N + 1) as :func:`inside` fills it
    mirror: Array,
    uniforms: Array,  # (n,) float64 in [0, 1); empty in maxima
    ways: Array,  # (N + 1,) room
    todo: Array,  # (N + 1, 2) room: spans still to be split
    structure: Array,  # (n (n + 1) / 2,) out: 1 for a constituent, 0 for a distituent
) -> None:
    """The best tree of a sentence, or one that is drawn, from the top down."""
    structure[:] = 0
    structure[:n] = 1
    todo[0, 0], todo[0, 1] = 0, n
    size, used = int(n > 1), 0
    while size > 0:
        size -= 1
        i, j = todo[size, 0], todo[size, 1]
        w = j - i
        structure[(w - 1) * n - (w - 1) * (w - 2) // 2 + i] = 1
        for k in range(i + 1, j):
            ways[k] = times(mode, chart[i, k], mirror[j, k])
        k = _best_split(ways, i, j, n) if mode == MAX else i + 1 + choose(mode, ways[i + 1 : j], uniforms[used])
        used += 1
        for a, z in ((i, k), (k, j)):
            if z - a > 1:
                todo[size, 0], todo[size, 1] = a, z
                size += 1


@compiled
def _best_split(ways: Array, i: int, j: int, n: int) -> int:
    """The best place to split a span. Equals are chosen from as if at random, but always in the same way: the first of
    them, or the last, would make branching trees of sentences that a model knows nothing about. The choice goes with
    the length of the sentence, not with its number, so that no sentence's tree depends on its neighbours."""
    top, ties = -np.inf, 0
    for k in range(i + 1, j):
        if ways[k] > top:
            top, ties = ways[k], 1
        elif ways[k] == top:
            ties += 1
    mixed = ((n * 1009 + i) * 1013 + j) * 40503 + 12345
    mixed ^= mixed >> 7
    left = (mixed * 2654435761 % 4294967296 >> 11) % ties
    for k in range(i + 1, j):
        if ways[k] == top:
            if left == 0:
                return k
            left -= 1
    return i + 1
