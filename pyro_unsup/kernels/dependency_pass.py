"""Inside-outside over the dependency trees of a sentence, and decoding: one recursion, compiled for several semirings.

The recursion is that of :class:`pyro_unsup.distributions.Dependency`. An arc may have two weights: one where its child
is the first of its head on that side, the nearest, and one where it is a later one. Charts that inner loops run through
by the last word of a half are kept the other way round, as [last, first] (``_back``), so that all loops run along rows.

``scaled_pass`` works in real numbers that are scaled. Every word has one arc above it and stops twice, whatever the
tree. So one factor a word and one a stop, chosen for each sentence, keep all numbers small: the best arc above a word
becomes 4/27, the better way to stop 1, and then no sum over the ways to build a half exceeds 1, because there are fewer
than (27/4)^m trees with m arcs. Nothing overflows, and what underflows was below ``tiny`` (the smallest normal number):
it would have added at most ``tiny`` times its outside weight, as a share of the total. Hence, if no outside weight
exceeds a limit, the share lost is below ``tiny * limit`` a number, far under the rounding error. A sentence that breaks
the limit is done again in logs, by ``log_pass``.
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
    as_real,
    compiled,
    inlined,
    inverse,
    longest_of,
    plus,
    times,
    total,
    zero,
)

ARC = 4 / 27


@compiled
def fill_arcs(
    mode: int,
    root: Array,  # (K,) log-weights
    attach: Array,  # (K, 2, V, K)
    extra: Array,  # (cells, 1 or V), or no cells
    tags: Array,  # (n,) of this sentence
    cell: int,  # its first cell
    room: Array,  # (at least V n (n + 1),)
    arc: Array,  # (V, n, n + 1) out: by child and head, head 0 being the root; as the first child, and as a later one
) -> float:
    """The weights of all arcs of a sentence: logs, or real numbers that are scaled.

    :return: the log of what real numbers were divided by; 0 in logs.
    """
    n, V, shift = len(tags), len(arc), 0.0
    flat = arc.reshape(arc.size)
    # Exponentials of all arcs at once, and not in place, are computed several at a time.
    logs = room[: arc.size] if mode == REAL else flat
    for c in range(n):
        top = -np.inf
        for v in range(V):
            row = logs[(v * n + c) * (n + 1) : (v * n + c + 1) * (n + 1)]
            row[0] = root[tags[c]]
            for h in range(n):
                row[h + 1] = -np.inf if h == c else attach[tags[h], int(h < c), v, tags[c]]
            if len(extra) > 0:
                column = min(v, extra.shape[1] - 1)
                for h in range(n + 1):
                    row[h] += extra[cell + c * (n + 1) + h, column]
            if mode == REAL:
                for h in range(n + 1):
                    top = max(top, row[h])
        if mode == REAL and top > -np.inf:
            shift += top
            for v in range(V):
                row = logs[(v * n + c) * (n + 1) : (v * n + c + 1) * (n + 1)]
                for h in range(n + 1):
                    row[h] -= top
    if mode == REAL:
        exp_below(logs, 0.0, flat)
        for m in range(len(flat)):
            flat[m] *= ARC
        shift -= n * np.log(ARC)
    return shift


@inlined
def inside(
    mode: int,
    n: int,
    arc: Array,  # (V, n, n + 1) by child and head
    ends: Array,  # (T, 2, 2, 2) by type, direction, adjacency, decision
    kinds: Array,  # (n,) the type of each word
    chart: Array,  # (8, N, N) out: sums over the ways to build each half
) -> float:
    """The sum over all trees."""
    first, later, apart = arc[0], arc[-1], int(len(arc) > 1)
    right, right_back, right_open, right_half = chart[0], chart[1], chart[2], chart[3]
    left, left_back, left_open_back, left_half_back = chart[4], chart[5], chart[6], chart[7]
    for c in range(n):
        end = ends[kinds[c]]
        right[c, c] = right_back[c, c] = end[1, 0, 0]
        right_open[c, c] = end[1, 0, 1]
        left[c, c] = left_back[c, c] = end[0, 0, 0]
        left_open_back[c, c] = end[0, 0, 1]
    for w in range(1, n):
        for i in range(n - w):
            j = i + w
            to_right, to_left = NOTHING, NOTHING
            for k in range(i + apart, j):
                to_right = add(mode, *to_right, times(mode, right_open[i, k], left_back[j, k + 1]))
                to_left = add(mode, *to_left, times(mode, right[i, k - apart], left_open_back[j, k + 1 - apart]))
            right_half[i, j] = times(mode, total(mode, *to_right), later[j, i + 1])
            left_half_back[j, i] = times(mode, total(mode, *to_left), later[i, j + 1])
            if apart:  # a head that is open over itself alone has no child yet
                alone = times(mode, times(mode, right_open[i, i], left_back[j, i + 1]), first[j, i + 1])
                right_half[i, j] = plus(mode, right_half[i, j], alone)
                alone = times(mode, times(mode, right[i, j - 1], left_open_back[j, j]), first[i, j + 1])
                left_half_back[j, i] = plus(mode, left_half_back[j, i], alone)
            to_right, to_left = NOTHING, NOTHING
            for k in range(i, j):
                to_right = add(mode, *to_right, times(mode, right_half[i, k + 1], right_back[j, k + 1]))
                to_left = add(mode, *to_left, times(mode, left[i, k], left_half_back[j, k]))
            found, from_i = total(mode, *to_right), ends[kinds[i], 1, 1]
            right[i, j] = right_back[j, i] = times(mode, found, from_i[0])
            right_open[i, j] = times(mode, found, from_i[1])
            found, from_j = total(mode, *to_left), ends[kinds[j], 0, 1]
            left[i, j] = left_back[j, i] = times(mode, found, from_j[0])
            left_open_back[j, i] = times(mode, found, from_j[1])
    whole = NOTHING
    for r in range(n):
        whole = add(mode, *whole, times(mode, first[r, 0], times(mode, left[0, r], right_back[n - 1, r])))
    return float(total(mode, *whole))


@inlined
def outside(
    mode: int,
    n: int,
    arc: Array,  # (V, n, n + 1) weights by child and head; out: their posteriors
    ends: Array,  # (T, 2, 2, 2)
    kinds: Array,  # (n,)
    whole: float,  # the sum over all trees
    chart: Array,  # (8, N, N)
    outer: Array,  # (8, N, N) room for the outside sums of the same
    decided: Array,  # (n, 2, 2, 2) out: expected decisions
) -> float:
    """Posteriors of arcs and decisions; gives the largest outside sum."""
    first, later, apart = arc[0], arc[-1], int(len(arc) > 1)
    right, right_back, right_open, right_half = chart[0], chart[1], chart[2], chart[3]
    left, left_back, left_open_back, left_half_back = chart[4], chart[5], chart[6], chart[7]
    o_right, o_right_back, o_right_open, o_right_half = outer[0], outer[1], outer[2], outer[3]
    o_left, o_left_back, o_left_open_back, o_left_half_back = outer[4], outer[5], outer[6], outer[7]
    outer[:, :n, :n] = zero(mode)
    decided[:n] = 0.0
    worst = zero(mode)
    for r in range(n):
        around = times(mode, first[r, 0], inverse(mode, whole))
        o_left[0, r] = times(mode, around, right_back[n - 1, r])
        o_right_back[n - 1, r] = times(mode, around, left[0, r])
        later[r, 0] = 0.0
        first[r, 0] = as_real(mode, times(mode, o_left[0, r], left[0, r]))
    for w in range(n - 1, 0, -1):
        for i in range(n - w):
            j = i + w
            from_i, from_j = ends[kinds[i], 1, 1], ends[kinds[j], 0, 1]
            sealed, opened = plus(mode, o_right[i, j], o_right_back[j, i]), o_right_open[i, j]
            worst = max(worst, sealed, opened)
            decided[i, 1, 1, 0] += as_real(mode, times(mode, sealed, right[i, j]))
            decided[i, 1, 1, 1] += as_real(mode, times(mode, opened, right_open[i, j]))
            mass = plus(mode, times(mode, sealed, from_i[0]), times(mode, opened, from_i[1]))
            for k in range(i + 1, j + 1):
                o_right_half[i, k] = plus(mode, o_right_half[i, k], times(mode, mass, right_back[j, k]))
                o_right_back[j, k] = plus(mode, o_right_back[j, k], times(mode, mass, right_half[i, k]))
            sealed, opened = plus(mode, o_left[i, j], o_left_back[j, i]), o_left_open_back[j, i]
            worst = max(worst, sealed, opened)
            decided[j, 0, 1, 0] += as_real(mode, times(mode, sealed, left[i, j]))
            decided[j, 0, 1, 1] += as_real(mode, times(mode, opened, left_open_back[j, i]))
            mass = plus(mode, times(mode, sealed, from_j[0]), times(mode, opened, from_j[1]))
            for k in range(i, j):
                o_left_half_back[j, k] = plus(mode, o_left_half_back[j, k], times(mode, mass, left[i, k]))
                o_left[i, k] = plus(mode, o_left[i, k], times(mode, mass, left_half_back[j, k]))
            worst = max(worst, o_right_half[i, j], o_left_half_back[j, i])
            mass, other = (
                times(mode, o_right_half[i, j], later[j, i + 1]),
                times(mode, o_left_half_back[j, i], later[i, j + 1]),
            )
            right_later, left_later = 0.0, 0.0
            for k in range(i + apart, j):
                away = times(mode, mass, left_back[j, k + 1])
                o_right_open[i, k] = plus(mode, o_right_open[i, k], away)
                o_left_back[j, k + 1] = plus(mode, o_left_back[j, k + 1], times(mode, mass, right_open[i, k]))
                if apart:
                    right_later += as_real(mode, times(mode, away, right_open[i, k]))
            for k in range(i, j - apart):
                away = times(mode, other, right[i, k])
                o_right[i, k] = plus(mode, o_right[i, k], times(mode, other, left_open_back[j, k + 1]))
                o_left_open_back[j, k + 1] = plus(mode, o_left_open_back[j, k + 1], away)
                if apart:
                    left_later += as_real(mode, times(mode, away, left_open_back[j, k + 1]))
            if apart:
                mass = times(mode, o_right_half[i, j], first[j, i + 1])
                alone = times(mode, mass, left_back[j, i + 1])
                o_right_open[i, i] = plus(mode, o_right_open[i, i], alone)
                o_left_back[j, i + 1] = plus(mode, o_left_back[j, i + 1], times(mode, mass, right_open[i, i]))
                first[j, i + 1] = as_real(mode, times(mode, alone, right_open[i, i]))
                mass = times(mode, o_left_half_back[j, i], first[i, j + 1])
                alone = times(mode, mass, right[i, j - 1])
                o_left_open_back[j, j] = plus(mode, o_left_open_back[j, j], alone)
                o_right[i, j - 1] = plus(mode, o_right[i, j - 1], times(mode, mass, left_open_back[j, j]))
                first[i, j + 1] = as_real(mode, times(mode, alone, left_open_back[j, j]))
                later[j, i + 1], later[i, j + 1] = right_later, left_later
            else:
                first[j, i + 1] = as_real(mode, times(mode, o_right_half[i, j], right_half[i, j]))
                first[i, j + 1] = as_real(mode, times(mode, o_left_half_back[j, i], left_half_back[j, i]))
    for i in range(n):
        later[i, i + 1] = first[i, i + 1] = 0.0
        sealed, opened = plus(mode, o_right[i, i], o_right_back[i, i]), o_right_open[i, i]
        decided[i, 1, 0, 0] = as_real(mode, times(mode, sealed, right[i, i]))
        decided[i, 1, 0, 1] = as_real(mode, times(mode, opened, right_open[i, i]))
        sealed, opened = plus(mode, o_left[i, i], o_left_back[i, i]), o_left_open_back[i, i]
        decided[i, 0, 0, 0] = as_real(mode, times(mode, sealed, left[i, i]))
        decided[i, 0, 0, 1] = as_real(mode, times(mode, opened, left_open_back[i, i]))
    return float(worst)


def _both(mode: int) -> Any:
    @compiled
    def run(
        root: Array,  # (K,) log-weights
        attach: Array,  # (K, 2, V, K) log-weights; in real numbers, the better way to continue is included
        ends: Array,  # (T, 2, 2, 2) by type, direction, adjacency, decision: logs, or shares of the better adjacency
        stops: Array,  # (T,) log-weights of the better ways to stop, left and right together; in real numbers only
        extra: Array,  # (cells, 1 or V) log-weights of arcs, or no cells
        tags: Array,  # (tokens,)
        types: Array,  # (tokens,) the row of ``ends`` and ``stops`` that each word has
        offsets: Array,  # (B + 1,) of the tokens
        corners: Array,  # (B + 1,) of the cells
        todo: Array,  # which sentences
        limit: float,
        scale: Array,  # (B,) how much the counts of each sentence weigh; empty if only log Z is wanted
        log_z: Array,  # (B,) out
        trouble: Array,  # (B,) out: do this one again in logs
        n_root: Array,  # (K,) added to
        n_attach: Array,  # (K, 2, V, K) added to
        n_stop: Array,  # (T, 2, 2, 2) added to
        marginals: Array,  # (cells, V) out, or no cells
        decisions: Array,  # (tokens, 2, 2, 2) out, or empty: how often each word is expected to decide so
    ) -> None:
        """log Z of some sentences, and what is expected of them."""
        N, V = longest_of(offsets, todo), attach.shape[2]
        cells, room, decided = np.empty(V * N * (N + 1)), np.empty(V * N * (N + 1)), np.empty((N, 2, 2, 2))
        chart, outer = np.empty((8, N, N)), np.empty((8, N, N))
        for b in todo:
            at, cell, n = offsets[b], corners[b], offsets[b + 1] - offsets[b]
            log_z[b] = 0.0
            trouble[b] = False
            if n == 0:
                continue
            words, kinds = tags[at : at + n], types[at : at + n]
            arc = cells[: V * n * (n + 1)].reshape(V, n, n + 1)
            shift = fill_arcs(mode, root, attach, extra, words, cell, room, arc)
            whole = inside(mode, n, arc, ends, kinds, chart)
            if mode == REAL:
                for c in range(n):
                    shift += stops[kinds[c]]
                if not (whole > 1 / limit) or not (shift > -np.inf):
                    trouble[b] = True
                    continue
                log_z[b] = shift + np.log(whole)
            else:
                log_z[b] = whole
            if len(scale) == 0:
                continue
            if log_z[b] == -np.inf:  # impossible: it counts for nothing
                if len(marginals) > 0:
                    marginals[cell : corners[b + 1]] = 0.0
                    decisions[at : at + n] = 0.0
                continue
            worst = outside(mode, n, arc, ends, kinds, whole, chart, outer, decided)
            if mode == REAL and not (worst <= limit):
                trouble[b] = True
                continue
            count(words, kinds, at, cell, scale[b], arc, decided, n_root, n_attach, n_stop, marginals, decisions)

    return run


@compiled
def count(
    words: Array,  # (n,)
    kinds: Array,  # (n,)
    at: int,  # first token
    cell: int,  # first cell
    scale: float,
    arc: Array,  # (V, n, n + 1) posteriors
    decided: Array,  # (n, 2, 2, 2) expected decisions
    n_root: Array,  # (K,) added to
    n_attach: Array,  # (K, 2, V, K) added to
    n_stop: Array,  # (T, 2, 2, 2) added to
    marginals: Array,  # (cells, V) out, or no cells
    decisions: Array,  # (tokens, 2, 2, 2) out, or empty
) -> None:
    """Put what is expected of one sentence where it belongs."""
    n = len(words)
    for c in range(n):
        tag = words[c]
        n_root[tag] += scale * arc[0, c, 0]
        for v in range(len(arc)):
            for h in range(n):
                if h != c:
                    n_attach[words[h], int(h < c), v, tag] += scale * arc[v, c, h + 1]
        for side in range(2):
            for adjacency in range(2):
                for decision in range(2):
                    n_stop[kinds[c], side, adjacency, decision] += scale * decided[c, side, adjacency, decision]
                    if len(decisions) > 0:
                        decisions[at + c, side, adjacency, decision] = decided[c, side, adjacency, decision]
    if len(marginals) > 0:
        for v in range(len(arc)):
            for c in range(n):
                for h in range(n + 1):
                    marginals[cell + c * (n + 1) + h, v] = min(arc[v, c, h], 1.0)


scaled_pass, log_pass = _both(REAL), _both(LOG)


@compiled
def decode_pass(
    root: Array,  # (K,) log-weights
    attach: Array,  # (K, 2, V, K)
    stop: Array,  # (T, 2, 2, 2)
    extra: Array,  # (cells, 1 or V), or no cells
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
    N, V = longest_of(offsets, np.arange(first, last)), attach.shape[2]
    cells, ways, chart = np.empty(V * N * (N + 1)), np.empty(N), np.empty((8, N, N))
    todo = np.empty((2 * N + 2, 3), np.int64)
    for b in range(first, last):
        at, n = offsets[b], offsets[b + 1] - offsets[b]
        if n == 0:
            continue
        words, kinds, arc = tags[at : at + n], types[at : at + n], cells[: V * n * (n + 1)].reshape(V, n, n + 1)
        fill_arcs(LOG, root, attach, extra, words, corners[b], cells, arc)
        whole = inside(LOG, n, arc, stop, kinds, chart) if draw else inside(MAX, n, arc, stop, kinds, chart)
        if whole == -np.inf:
            heads[at : at + n] = -1
            continue
        chances = uniforms[at : at + n] if draw else uniforms
        trace(LOG if draw else MAX, n, arc, chart, chances, ways, todo, heads[at : at + n])


@compiled
def trace(
    mode: int,
    n: int,
    arc: Array,  # (V, n, n + 1) weights by child and head
    chart: Array,  # (8, N, N) as :func:`inside` fills it
    uniforms: Array,  # (n, 2) float64 in [0, 1); empty in maxima
    ways: Array,  # (N,) room
    todo: Array,  # (2 N + 2, 3) room: halves with children: side, first word, last word
    heads: Array,  # (n,) out
) -> None:
    """The best tree of a sentence, or one that is drawn, from the top down."""
    right, right_back, right_open, right_half = chart[0], chart[1], chart[2], chart[3]
    left, left_back, left_open_back, left_half_back = chart[4], chart[5], chart[6], chart[7]
    V, used, one, other = len(arc), 0, 0.0, 0.0
    if mode != MAX:
        one = uniforms[0, 0]
    for r in range(n):
        ways[r] = times(mode, times(mode, arc[0, r, 0], left[0, r]), right_back[n - 1, r])
    r = choose(mode, ways[:n], one)
    heads[r] = 0
    size = _push(todo, 0, 0, 0, r)
    size = _push(todo, size, 1, r, n - 1)
    while size > 0:
        size -= 1
        side, i, j = todo[size, 0], todo[size, 1], todo[size, 2]
        used += 1
        if mode != MAX:
            one, other = uniforms[used, 0], uniforms[used, 1]
        # The child attached last, and where the words below its head end and those below itself begin.
        for k in range(i, j):
            if side == 1:
                ways[k] = times(mode, right_half[i, k + 1], right_back[j, k + 1])
            else:
                ways[k] = times(mode, left[i, k], left_half_back[j, k])
        c = i + side + choose(mode, ways[i:j], one)
        a, z = (i, c) if side == 1 else (c, j)
        head = i if side == 1 else j
        for k in range(a, z):
            if side == 1:
                ways[k] = times(mode, right_open[i, k], left_back[c, k + 1])
            else:
                ways[k] = times(mode, right[c, k], left_open_back[j, k + 1])
            if V > 1:
                alone = k == i if side == 1 else k + 1 == j
                ways[k] = times(mode, ways[k], arc[0 if alone else 1, c, head + 1])
        k = a + choose(mode, ways[a:z], other)
        heads[c] = head + 1
        if side == 0:
            size = _push(todo, size, 0, i, c)
        size = _push(todo, size, 1, a, k)
        size = _push(todo, size, 0, k + 1, z)
        if side == 1:
            size = _push(todo, size, 1, c, j)


@compiled
def _push(todo: Array, size: int, side: int, i: int, j: int) -> int:
    """Put a half on the stack, unless it is a word without children."""
    if i == j:
        return size
    todo[size, 0], todo[size, 1], todo[size, 2] = side, i, j
    return size + 1
