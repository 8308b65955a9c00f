"""Dependency trees in log space: for sentences that scaled arithmetic cannot hold, and for decoding. All float64.

Halves lie as [first word, last word]; the recursion is that of :class:`pyro_unsup.distributions.Dependency`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .dependency_scaled import count, fill_arcs
from .log_sum import log_sum

Array = np.ndarray[Any, Any]

#: Planes of a chart: halves that are sealed, open, or end in the child attached last; to the right, then to the left.
RIGHT, RIGHT_OPEN, RIGHT_HALF, LEFT, LEFT_OPEN, LEFT_HALF = range(6)


@njit(cache=True, nogil=True)
def _fill(arc: Array, ends: Array, n: int, best: bool, chart: Array, ways: Array) -> None:
    """Sums over the ways to build every half, or (``best``) the weight of the best one.

    :param arc: (n, n + 1) by child and head.
    :param ends: (n, 2, 2, 2) by head, direction, adjacency, decision.
    :param chart: (6, n, n) out.
    """
    for i in range(n):
        chart[RIGHT, i, i], chart[RIGHT_OPEN, i, i] = ends[i, 1, 0, 0], ends[i, 1, 0, 1]
        chart[LEFT, i, i], chart[LEFT_OPEN, i, i] = ends[i, 0, 0, 0], ends[i, 0, 0, 1]
    for w in range(1, n):
        for i in range(n - w):
            j = i + w
            for k in range(w):
                ways[k] = chart[RIGHT_OPEN, i, i + k] + chart[LEFT, i + k + 1, j]
            chart[RIGHT_HALF, i, j] = _over(ways[:w], best) + arc[j, i + 1]
            for k in range(w):
                ways[k] = chart[RIGHT, i, i + k] + chart[LEFT_OPEN, i + k + 1, j]
            chart[LEFT_HALF, i, j] = _over(ways[:w], best) + arc[i, j + 1]
            for k in range(w):
                ways[k] = chart[RIGHT_HALF, i, i + k + 1] + chart[RIGHT, i + k + 1, j]
            whole = _over(ways[:w], best)
            chart[RIGHT, i, j], chart[RIGHT_OPEN, i, j] = whole + ends[i, 1, 1, 0], whole + ends[i, 1, 1, 1]
            for k in range(w):
                ways[k] = chart[LEFT, i, i + k] + chart[LEFT_HALF, i + k, j]
            whole = _over(ways[:w], best)
            chart[LEFT, i, j], chart[LEFT_OPEN, i, j] = whole + ends[j, 0, 1, 0], whole + ends[j, 0, 1, 1]


@njit(cache=True, nogil=True)
def _over(ways: Array, best: bool) -> float:
    return float(ways.max()) if best else log_sum(ways)


@njit(cache=True, nogil=True)
def _add(into: Array, x: float) -> None:
    """Add to a number that is held as its log, (1,)."""
    if x > -np.inf:
        top = max(into[0], x)
        into[0] = top + np.log(np.exp(into[0] - top) + np.exp(x - top))


@njit(cache=True, nogil=True)
def log_pass(
    root: Array,  # (K,) log-weights
    attach: Array,  # (K, 2, K)
    stop: Array,  # (K, 2, 2, 2)
    arcs: Array,  # (cells,) or empty
    tags: Array,  # (tokens,)
    types: Array,  # (tokens,) the row of ``stop`` that each word has
    offsets: Array,  # (B + 1,) of the tokens
    corners: Array,  # (B + 1,) of the cells
    todo: Array,  # which sentences
    scale: Array,  # (B,), or empty if only log Z is wanted
    log_z: Array,  # (B,) out
    n_root: Array,  # (K,) added to
    n_attach: Array,  # (K, 2, K) added to
    n_stop: Array,  # (K, 2, 2, 2) added to
    marginals: Array,  # (cells,) out, or empty
    decisions: Array,  # (tokens, 2, 2, 2) out, or empty
) -> None:
    N = 0
    for b in todo:
        N = max(N, offsets[b + 1] - offsets[b])
    arc, ends, ways = np.empty((N, N + 1)), np.empty((N, 2, 2, 2)), np.empty(N)
    chart, outer, decided = np.empty((6, N, N)), np.empty((6, N, N)), np.empty((N, 2, 2, 2))
    for b in todo:
        at, cell = offsets[b], corners[b]
        n = offsets[b + 1] - at
        words, kinds = tags[at : at + n], types[at : at + n]
        fill_arcs(root, attach, arcs, words, cell, arc)
        for i in range(n):
            ends[i] = stop[kinds[i]]
        _fill(arc, ends, n, False, chart, ways)
        for r in range(n):
            ways[r] = arc[r, 0] + chart[LEFT, 0, r] + chart[RIGHT, r, n - 1]
        log_z[b] = log_sum(ways[:n])
        if len(scale) == 0:
            continue
        if log_z[b] == -np.inf:  # impossible: it counts for nothing
            if len(marginals) > 0:
                marginals[cell : corners[b + 1]] = 0.0
                decisions[at : at + n] = 0.0
            continue
        _outside(arc, ends, n, log_z[b], chart, outer, decided)
        count(words, kinds, at, cell, scale[b], arc, decided, n_root, n_attach, n_stop, marginals, decisions)


@njit(cache=True, nogil=True)
def _outside(arc: Array, ends: Array, n: int, total: float, chart: Array, outer: Array, decided: Array) -> None:
    """Posteriors of arcs, in place of their log-weights, and of decisions, from the chart of inside sums."""
    outer[:, :n, :n] = -np.inf
    decided[:n] = 0.0
    for r in range(n):
        outer[LEFT, 0, r] = arc[r, 0] + chart[RIGHT, r, n - 1] - total
        outer[RIGHT, r, n - 1] = arc[r, 0] + chart[LEFT, 0, r] - total
        arc[r, 0] = np.exp(outer[LEFT, 0, r] + chart[LEFT, 0, r])
    for w in range(n - 1, -1, -1):
        for i in range(n - w):
            j = i + w
            beyond = int(w > 0)
            for plane, head, side in ((RIGHT, i, 1), (LEFT, j, 0)):
                decided[head, side, beyond, 0] += np.exp(outer[plane, i, j] + chart[plane, i, j])
                decided[head, side, beyond, 1] += np.exp(outer[plane + 1, i, j] + chart[plane + 1, i, j])
            if w == 0:
                arc[i, i + 1] = 0.0
                continue
            mass = np.full(1, outer[RIGHT, i, j] + ends[i, 1, 1, 0])
            _add(mass, outer[RIGHT_OPEN, i, j] + ends[i, 1, 1, 1])
            for k in range(i + 1, j + 1):
                _add(outer[RIGHT_HALF, i, k : k + 1], mass[0] + chart[RIGHT, k, j])
                _add(outer[RIGHT, k, j : j + 1], mass[0] + chart[RIGHT_HALF, i, k])
            mass[0] = outer[LEFT, i, j] + ends[j, 0, 1, 0]
            _add(mass, outer[LEFT_OPEN, i, j] + ends[j, 0, 1, 1])
            for k in range(i, j):
                _add(outer[LEFT_HALF, k, j : j + 1], mass[0] + chart[LEFT, i, k])
                _add(outer[LEFT, i, k : k + 1], mass[0] + chart[LEFT_HALF, k, j])
            mass[0] = outer[RIGHT_HALF, i, j] + arc[j, i + 1]
            other = outer[LEFT_HALF, i, j] + arc[i, j + 1]
            for k in range(i, j):
                _add(outer[RIGHT_OPEN, i, k : k + 1], mass[0] + chart[LEFT, k + 1, j])
                _add(outer[LEFT, k + 1, j : j + 1], mass[0] + chart[RIGHT_OPEN, i, k])
                _add(outer[RIGHT, i, k : k + 1], other + chart[LEFT_OPEN, k + 1, j])
                _add(outer[LEFT_OPEN, k + 1, j : j + 1], other + chart[RIGHT, i, k])
            arc[j, i + 1] = np.exp(outer[RIGHT_HALF, i, j] + chart[RIGHT_HALF, i, j])
            arc[i, j + 1] = np.exp(outer[LEFT_HALF, i, j] + chart[LEFT_HALF, i, j])


@njit(cache=True, nogil=True)
def decode_pass(
    root: Array,  # (K,) log-weights
    attach: Array,  # (K, 2, K)
    stop: Array,  # (K, 2, 2, 2)
    arcs: Array,  # (cells,) or empty
    tags: Array,  # (tokens,)
    types: Array,  # (tokens,) the row of ``stop`` that each word has
    offsets: Array,  # (B + 1,) of the tokens
    corners: Array,  # (B + 1,) of the cells
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
    arc, ends, ways, chart = np.empty((N, N + 1)), np.empty((N, 2, 2, 2)), np.empty(N), np.empty((6, N, N))
    todo = np.empty((2 * N + 2, 3), np.int64)  # halves with children: side, first word, last word
    chance = np.zeros(2)
    for b in range(first, last):
        at, n = offsets[b], offsets[b + 1] - offsets[b]
        if n == 0:
            continue
        words, kinds = tags[at : at + n], types[at : at + n]
        fill_arcs(root, attach, arcs, words, corners[b], arc)
        for i in range(n):
            ends[i] = stop[kinds[i]]
        _fill(arc, ends, n, not draw, chart, ways)
        for r in range(n):
            ways[r] = arc[r, 0] + chart[LEFT, 0, r] + chart[RIGHT, r, n - 1]
        if ways[:n].max() == -np.inf:
            heads[at : at + n] = -1
            continue
        used = at
        if draw:
            chance[:] = uniforms[used]
        r = choose(ways[:n], draw, chance[0])
        heads[at + r] = 0
        size = _push(todo, 0, 0, 0, r)
        size = _push(todo, size, 1, r, n - 1)
        while size > 0:
            size -= 1
            side, i, j = todo[size, 0], todo[size, 1], todo[size, 2]
            w = j - i
            used += 1
            if draw:
                chance[:] = uniforms[used]
            if side == 1:
                for k in range(w):
                    ways[k] = chart[RIGHT_HALF, i, i + k + 1] + chart[RIGHT, i + k + 1, j]
                c = i + 1 + choose(ways[:w], draw, chance[0])
                heads[at + c] = i + 1
                for k in range(c - i):
                    ways[k] = chart[RIGHT_OPEN, i, i + k] + chart[LEFT, i + k + 1, c]
                k = i + choose(ways[: c - i], draw, chance[1])
                size = _push(todo, size, 1, i, k)
                size = _push(todo, size, 0, k + 1, c)
                size = _push(todo, size, 1, c, j)
            else:
                for k in range(w):
                    ways[k] = chart[LEFT, i, i + k] + chart[LEFT_HALF, i + k, j]
                c = i + choose(ways[:w], draw, chance[0])
                heads[at + c] = j + 1
                for k in range(j - c):
                    ways[k] = chart[RIGHT, c, c + k] + chart[LEFT_OPEN, c + k + 1, j]
                k = c + choose(ways[: j - c], draw, chance[1])
                size = _push(todo, size, 0, i, c)
                size = _push(todo, size, 1, c, k)
                size = _push(todo, size, 0, k + 1, j)


@njit(cache=True, nogil=True)
def _push(todo: Array, size: int, side: int, i: int, j: int) -> int:
    """Put a half on the stack, unless it is a word without children."""
    if i == j:
        return size
    todo[size, 0], todo[size, 1], todo[size, 2] = side, i, j
    return size + 1


@njit(cache=True, nogil=True)
def choose(ways: Array, draw: bool, u: float) -> int:
    """The best way, the first of equals; or one drawn with the uniform number u."""
    best = int(np.argmax(ways))
    if not draw:
        return best
    top, total = ways[best], 0.0
    for way in ways:
        total += np.exp(way - top)
    left = u * total
    for k in range(len(ways)):
        step = np.exp(ways[k] - top)
        if step > 0:
            best = k
            left -= step
            if left < 0:
                break
    return best
