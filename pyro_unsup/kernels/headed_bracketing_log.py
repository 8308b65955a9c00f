"""Headed binary trees in log space: for sentences that scaled arithmetic cannot hold, and for decoding. All float64.

The recursion is that of :class:`pyro_unsup.distributions.HeadedBracketing`. On the way down, each item
hands its posterior probability on to the ways it was built, in proportion to their weights: no outside sums are needed,
and nothing overflows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .bracketing_scaled import log_ratios, settle
from .dependency_log import choose
from .dependency_scaled import fill_arcs
from .headed_bracketing_scaled import put, spread, turn
from .log_sum import log_sum

Array = np.ndarray[Any, Any]

#: Planes of a chart by first fencepost, last fencepost and head: children only to the right yet, and going on to
#: another or not; then the same to the left; both sides done; and that below a head outside.
RIGHT, RIGHT_OPEN, LEFT, LEFT_OPEN, FULL, BELOW = range(6)


@njit(cache=True, nogil=True)
def _prepare(
    root: Array,
    attach: Array,
    stop: Array,
    extra: Array,
    yields: Array,
    contexts: Array,
    node: Array,
    words: Array,
    kinds: Array,
    spans: Array,
    cell: int,
    edge: int,
    mirror: bool,
    arc: Array,
    ends: Array,
    ratio: Array,
) -> tuple[float, bool]:
    """The log-weights of one sentence, perhaps in a mirror; what all its trees share, and whether spans are forced."""
    n = len(words)
    flat = np.empty(n * (n + 1) // 2)
    shared, _, forced = log_ratios(yields, contexts, node, spans, edge, n, flat)
    spread(flat, n, ratio)
    fill_arcs(root, attach, extra, words, cell, arc)
    for i in range(n):
        ends[i] = stop[kinds[i]]
    if mirror:
        turn(arc, ends, ratio, n)
    return shared, forced


@njit(cache=True, nogil=True)
def _over(ways: Array, best: bool) -> float:
    return float(ways.max()) if best else log_sum(ways)


@njit(cache=True, nogil=True)
def _fill(arc: Array, ends: Array, ratio: Array, n: int, best: bool, chart: Array, ways: Array) -> None:
    """Sums over the ways to build every item, or (``best``) the weight of the best one.

    :param arc: (n, n + 1) by child and head.
    :param ends: (n, 2, 2, 2) by head, direction, adjacency, decision.
    :param ratio: (n, n + 1) by fenceposts.
    :param chart: (6, n, n + 1, n) out.
    """
    for w in range(1, n + 1):
        for i in range(n - w + 1):
            j, some = i + w, int(w > 1)
            for k in range(i + 1, j):
                ways[k] = chart[RIGHT_OPEN, i, k, i] + chart[BELOW, k, j, i]
            found = _over(ways[i + 1 : j], best) + ratio[i, j] if w > 1 else 0.0
            chart[RIGHT, i, j, i] = found
            chart[RIGHT_OPEN, i, j, i] = found + ends[i, 1, some, 1]
            chart[LEFT, i, j, i] = found + ends[i, 1, some, 0]
            for h in range(i + 1, j):
                for k in range(i + 1, h + 1):
                    ways[k] = chart[BELOW, i, k, h] + chart[LEFT_OPEN, k, j, h]
                chart[LEFT, i, j, h] = _over(ways[i + 1 : h + 1], best) + ratio[i, j]
            for h in range(i, j):
                for plane, decision in ((FULL, 0), (LEFT_OPEN, 1)):
                    chart[plane, i, j, h] = chart[LEFT, i, j, h] + ends[h, 0, int(h > i), decision]
            for h in range(n):
                if h < i or h >= j:
                    for c in range(i, j):
                        ways[c] = chart[FULL, i, j, c] + arc[c, h + 1]
                    chart[BELOW, i, j, h] = _over(ways[i:j], best)


@njit(cache=True, nogil=True)
def _share(mass: float, way: float, total: float) -> float:
    """What of a probability goes to one way to build an item."""
    return float(mass * np.exp(way - total)) if mass > 0 and way > -np.inf else 0.0


@njit(cache=True, nogil=True)
def _descend(
    arc: Array, ends: Array, ratio: Array, n: int, total: float, chart: Array, mass: Array, decided: Array, known: Array
) -> None:
    """Posteriors of arcs, in place of their log-weights, of decisions, and of spans, from the chart of sums.

    :param mass: (6, n, n + 1, n) room for the posterior of every item.
    """
    mass[:, :n, : n + 1, :n] = 0.0
    decided[:n] = 0.0
    posterior = np.zeros((n, n + 1))
    for h in range(n):
        posterior[h, 0] = mass[FULL, 0, n, h] = _share(1.0, chart[FULL, 0, n, h] + arc[h, 0], total)
    for w in range(n, 0, -1):
        for i in range(n - w + 1):
            j, some = i + w, int(w > 1)
            for h in range(n):
                for c in range(i, j):
                    way = chart[FULL, i, j, c] + arc[c, h + 1]
                    p = _share(mass[BELOW, i, j, h], way, chart[BELOW, i, j, h])
                    posterior[c, h + 1] += p
                    mass[FULL, i, j, c] += p
            known[i, j] = 0.0
            for h in range(i, j):
                beyond = int(h > i)
                decided[h, 0, beyond, 0] += mass[FULL, i, j, h]
                decided[h, 0, beyond, 1] += mass[LEFT_OPEN, i, j, h]
                p = mass[FULL, i, j, h] + mass[LEFT_OPEN, i, j, h]
                if h == i:
                    decided[i, 1, some, 0] += p
                    decided[i, 1, some, 1] += mass[RIGHT_OPEN, i, j, i]
                    p += mass[RIGHT_OPEN, i, j, i]
                known[i, j] += p
                if h > i:
                    for k in range(i + 1, h + 1):
                        way = chart[BELOW, i, k, h] + chart[LEFT_OPEN, k, j, h] + ratio[i, j]
                        q = _share(p, way, chart[LEFT, i, j, h])
                        mass[BELOW, i, k, h] += q
                        mass[LEFT_OPEN, k, j, h] += q
                else:
                    for k in range(i + 1, j):
                        way = chart[RIGHT_OPEN, i, k, i] + chart[BELOW, k, j, i] + ratio[i, j]
                        q = _share(p, way, chart[RIGHT, i, j, i])
                        mass[BELOW, k, j, i] += q
                        mass[RIGHT_OPEN, i, k, i] += q
    arc[:n, : n + 1] = posterior


@njit(cache=True, nogil=True)
def log_pass(
    root: Array,  # (K,) log-weights
    attach: Array,  # (K, 2, K)
    stop: Array,  # (K, 2, 2, 2)
    extra: Array,  # (cells,) or empty
    yields: Array,  # (Y, 2) as distituent, as constituent
    contexts: Array,  # (X, 2)
    node: Array,  # (W + 1,)
    tree: Array,  # (W + 1,)
    tags: Array,  # (tokens,)
    types: Array,  # (tokens,) the row of ``stop`` that each word has
    spans: Array,  # (spans, 2)
    offsets: Array,  # (B + 1,) of the tokens
    corners: Array,  # (B + 1,) of the cells
    edges: Array,  # (B + 1,) of the spans
    mirror: bool,  # children on the left first
    todo: Array,  # which sentences
    log_z: Array,  # (B,) out
    arcs: Array,  # (cells,) out; empty if only log Z is wanted
    decisions: Array,  # (tokens, 2, 2, 2) out
    inside: Array,  # (spans,) out
) -> None:
    N = 0
    for b in todo:
        N = max(N, offsets[b + 1] - offsets[b])
    arc, ends, ratio, ways = np.empty((N, N + 1)), np.empty((N, 2, 2, 2)), np.empty((N, N + 1)), np.empty(N + 1)
    chart, mass = np.empty((6, N, N + 1, N)), np.empty((6, N, N + 1, N))
    decided, known = np.empty((N, 2, 2, 2)), np.empty((N, N + 1))
    for b in todo:
        at, cell, edge = offsets[b], corners[b], edges[b]
        n = offsets[b + 1] - at
        words, kinds = tags[at : at + n], types[at : at + n]
        shared, forced = _prepare(
            root, attach, stop, extra, yields, contexts, node, words, kinds, spans, cell, edge, mirror,
            arc, ends, ratio,
        )  # fmt: skip
        _fill(arc, ends, ratio, n, False, chart, ways)
        for r in range(n):
            ways[r] = chart[FULL, 0, n, r] + arc[r, 0]
        total = log_sum(ways[:n])
        log_z[b] = shared + tree[n] + total
        if len(arcs) == 0:
            continue
        if log_z[b] == -np.inf:  # impossible: it counts for nothing
            arcs[cell : corners[b + 1]] = 0.0
            decisions[at : at + n] = 0.0
            inside[edge : edges[b + 1]] = 0.0
            continue
        _descend(arc, ends, ratio, n, total, chart, mass, decided, known)
        if mirror:
            turn(arc, decided, known, n)
        mine = arcs[cell : corners[b + 1]], decisions[at : at + n], inside[edge : edges[b + 1]]
        put(arc, decided, known, n, *mine)
        settle(yields, contexts, spans, edge, n, forced, inside)


@njit(cache=True, nogil=True)
def decode_pass(
    root: Array,  # (K,) log-weights
    attach: Array,  # (K, 2, K)
    stop: Array,  # (K, 2, 2, 2)
    extra: Array,  # (cells,) or empty
    yields: Array,  # (Y, 2) as distituent, as constituent
    contexts: Array,  # (X, 2)
    node: Array,  # (W + 1,)
    tree: Array,  # (W + 1,)
    tags: Array,  # (tokens,)
    types: Array,  # (tokens,) the row of ``stop`` that each word has
    spans: Array,  # (spans, 2)
    offsets: Array,  # (B + 1,) of the tokens
    corners: Array,  # (B + 1,) of the cells
    edges: Array,  # (B + 1,) of the spans
    mirror: bool,  # children on the left first
    first: int,  # which sentences
    last: int,
    uniforms: Array,  # (tokens, 2) float64 in [0, 1), or empty
    heads: Array,  # (tokens,) out: 0 for the root, -1 where there is no tree at all
) -> None:
    """The best tree of every sentence (``uniforms`` empty), or a draw in proportion to the weight of trees."""
    draw = len(uniforms) > 0
    N = 0
    for b in range(first, last):
        N = max(N, offsets[b + 1] - offsets[b])
    arc, ends, ratio, ways = np.empty((N, N + 1)), np.empty((N, 2, 2, 2)), np.empty((N, N + 1)), np.empty(N + 1)
    chart, todo, chance = np.empty((6, N, N + 1, N)), np.empty((N + 1, 3), np.int64), np.zeros(2)
    for b in range(first, last):
        at, n = offsets[b], offsets[b + 1] - offsets[b]
        if n == 0:
            continue
        words, kinds, mine = tags[at : at + n], types[at : at + n], heads[at : at + n]
        shared, _ = _prepare(
            root, attach, stop, extra, yields, contexts, node, words, kinds, spans, corners[b], edges[b], mirror,
            arc, ends, ratio,
        )  # fmt: skip
        _fill(arc, ends, ratio, n, not draw, chart, ways)
        for r in range(n):
            ways[r] = chart[FULL, 0, n, r] + arc[r, 0]
        if shared + tree[n] + ways[:n].max() == -np.inf:
            mine[:] = -1
            continue
        used = at
        if draw:
            chance[:] = uniforms[used]
        r = choose(ways[:n], draw, chance[0])
        mine[r] = 0
        todo[0, 0], todo[0, 1], todo[0, 2] = 0, n, r  # full spans: first and last fencepost, head
        size = 1
        while size > 0:
            size -= 1
            i, j, h = todo[size, 0], todo[size, 1], todo[size, 2]
            while j - i > 1:  # take the child away that was attached last
                used += 1
                if draw:
                    chance[:] = uniforms[used]
                if i < h:
                    for k in range(i + 1, h + 1):
                        ways[k] = chart[BELOW, i, k, h] + chart[LEFT_OPEN, k, j, h]
                    k = i + 1 + choose(ways[i + 1 : h + 1], draw, chance[0])
                    a, z, i = i, k, k
                else:
                    for k in range(i + 1, j):
                        ways[k] = chart[RIGHT_OPEN, i, k, i] + chart[BELOW, k, j, i]
                    k = i + 1 + choose(ways[i + 1 : j], draw, chance[0])
                    a, z, j = k, j, k
                for c in range(a, z):
                    ways[c] = chart[FULL, a, z, c] + arc[c, h + 1]
                c = a + choose(ways[a:z], draw, chance[1])
                mine[c] = h + 1
                todo[size, 0], todo[size, 1], todo[size, 2] = a, z, c
                size += 1
        if mirror:
            mine[:] = mine[::-1].copy()
            for c in range(n):
                if mine[c] > 0:
                    mine[c] = n + 1 - mine[c]
