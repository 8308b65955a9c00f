"""Inside-outside over the headed binary trees of a sentence, and decoding: one recursion for several semirings.

There is one such tree for each dependency tree. It has one arc above every word, two stops a word, and one constituent
an arc, whatever the tree. So in real numbers one factor a word, one a stop and one a constituent, chosen for each
sentence, keep all numbers small: the best arc above a word becomes 4/27, the better way to stop and the largest ratio
of a constituent 1, and then no sum over the ways to build a span exceeds 1, because there are fewer than (27/4)^m
dependency trees with m arcs. Why that is exact, and when a sentence is done again in logs, is said in
:mod:`.dependency_pass`.

The recursion is that of :class:`pyro_unsup.distributions.HeadedBracketing`. Words are 0 .. n - 1 and spans go between
fenceposts 0 .. n; inner loops run along rows of heads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..array import Array
from .bracketing_pass import log_ratios, scale_down, settle
from .choice import choose
from .dependency_pass import fill_arcs
from .ring import (
    LOG,
    MAX,
    NOTHING,
    REAL,
    add,
    as_log,
    compiled,
    inlined,
    longest_of,
    one,
    times,
    total,
)


@compiled
def turn(arc: Array, ends: Array, ratio: Array, n: int) -> None:
    """A sentence in a mirror, in place: left for right. Twice is nothing.

    Heads take the children on their right first here; in a mirror they take those on their left first.

    :param arc: (n, n + 1) by child and head, the root first.
    :param ends: (n, 2, 2, 2) by head, direction, adjacency, decision.
    :param ratio: (n, n + 1) by fenceposts.
    """
    for c in range((n + 1) // 2):  # cell by cell, as arrays that are assigned take numba a second more to compile
        other = n - 1 - c
        if c < other:
            arc[c, 0], arc[other, 0] = arc[other, 0], arc[c, 0]
        for h in range(n if c < other else n // 2):
            arc[c, 1 + h], arc[other, n - h] = arc[other, n - h], arc[c, 1 + h]
        for side in range(2 if c < other else 1):
            for a in range(2):
                for b in range(2):
                    x = ends[c, side, a, b]
                    ends[c, side, a, b] = ends[other, 1 - side, a, b]
                    ends[other, 1 - side, a, b] = x
    for i in range(n):
        for j in range(i + 1, n + 1):
            if i + j < n:
                ratio[i, j], ratio[n - j, n - i] = ratio[n - j, n - i], ratio[i, j]


@compiled
def spread(flat: Array, n: int, grid: Array) -> None:
    """Numbers of spans that lie by width, then by start, as a grid by fenceposts."""
    m = 0
    for w in range(1, n + 1):
        for i in range(n - w + 1):
            grid[i, i + w] = flat[m]
            m += 1


@compiled
def put(
    arc: Array,  # (n, n + 1) posteriors
    decided: Array,  # (n, 2, 2, 2) expected decisions
    span: Array,  # (n, n + 1) posteriors
    n: int,
    arcs: Array,  # (n (n + 1),) out
    decisions: Array,  # (n, 2, 2, 2) out
    spans: Array,  # (n (n + 1) / 2,) out
) -> None:
    """What is known of one sentence, where it belongs."""
    for c in range(n):
        for h in range(n + 1):
            arcs[c * (n + 1) + h] = min(arc[c, h], 1.0)
        for side in range(2):
            for adjacency in range(2):
                for decision in range(2):
                    decisions[c, side, adjacency, decision] = decided[c, side, adjacency, decision]
    m = 0
    for w in range(1, n + 1):
        for i in range(n - w + 1):
            spans[m] = min(span[i, i + w], 1.0)
            m += 1


@compiled
def prepare(
    mode: int,
    b: int,  # which sentence
    tables: tuple[Any, ...],
    where: tuple[Any, ...],
    cells: Array,  # (2, at least n (n + 1)) room
    arc: Array,  # (n, n + 1) out: weights by child and head
    stop: Array,  # (N, 2, 2, 2) out: weights of decisions
    ratio: Array,  # (N, N + 1) out: weights of constituents
) -> tuple[float, bool]:
    """The weights of one sentence, perhaps in a mirror.

    :param tables: root, attach, ends, stops and extra, as the passes of :mod:`.dependency_pass` have them; yields,
        contexts, node and tree, as those of :mod:`.bracketing_pass` do.
    :param where: tags and types (tokens,), spans (spans, 2), the first token, cell and span of each sentence, (B + 1,)
        each, and whether heads take the children on their left first.
    :return: the log of what all trees share and of what real numbers were divided by; whether some span must be in the
        tree.
    """
    root, attach, ends, stops, extra, yields, contexts, node, tree = tables
    tags, types, spans, offsets, corners, edges, mirror = where
    at, n, size = offsets[b], offsets[b + 1] - offsets[b], edges[b + 1] - edges[b]
    words, kinds, logs = tags[at : at + n], types[at : at + n], cells[0, :size]
    shift, top, forced = log_ratios(yields, contexts, node, spans, edges[b], n, logs)
    shift += tree[n]
    if mode == REAL:
        flat = cells[1, :size]
        shift += scale_down(n, logs, top, 1.0, flat)
        spread(flat, n, ratio)
        for c in range(n):
            shift += stops[kinds[c]]
    else:
        spread(logs, n, ratio)
    shift += fill_arcs(mode, root, attach, extra, words, corners[b], cells[0], arc.reshape(1, n, n + 1))
    for c in range(n):
        for side in range(2):
            for adjacency in range(2):
                for decision in range(2):
                    stop[c, side, adjacency, decision] = ends[kinds[c], side, adjacency, decision]
    if mirror:
        turn(arc, stop, ratio, n)
    return shift, forced


@inlined
def add_at(mode: int, tops: Array, rests: Array, h: int, x: float) -> None:
    """One more term of one of a row of long sums."""
    if mode == REAL:
        rests[h] += x
    else:
        tops[h], rests[h] = add(mode, tops[h], rests[h], x)


@inlined
def inside(
    mode: int,
    n: int,
    arc: Array,  # (n, n + 1) by child and head
    stop: Array,  # (N, 2, 2, 2) by head, direction, adjacency, decision
    ratio: Array,  # (N, N + 1) by fenceposts
    narrow: Array,  # (2, N, N + 1) out: sums over the ways to build spans whose head is the first word
    chart: Array,  # (4, N, N + 1, N) out: and with any head; the last, with the arc to it from a head outside of it
    tops: Array,  # (N,) room
) -> float:
    """The sum over all trees."""
    right, right_open, left, left_open, full, below = narrow[0], narrow[1], chart[0], chart[1], chart[2], chart[3]
    for w in range(1, n + 1):
        for i in range(n - w + 1):
            j, some, found = i + w, int(w > 1), NOTHING
            for k in range(i + 1, j):
                found = add(mode, *found, times(mode, right_open[i, k], below[k, j, i]))
            right[i, j] = times(mode, total(mode, *found), ratio[i, j]) if w > 1 else one(mode)
            right_open[i, j] = times(mode, right[i, j], stop[i, 1, some, 1])
            # Sums of a row of heads are long ones: a top and a rest for each.
            row = left[i, j]
            row[i] = times(mode, right[i, j], stop[i, 1, some, 0])
            row[i + 1 : j] = 0.0
            if mode != REAL:
                tops[i + 1 : j] = -np.inf
            for k in range(i + 1, j):
                for h in range(k, j):
                    add_at(mode, tops, row, h, times(mode, below[i, k, h], left_open[k, j, h]))
            full[i, j, i] = times(mode, row[i], stop[i, 0, 0, 0])
            left_open[i, j, i] = times(mode, row[i], stop[i, 0, 0, 1])
            for h in range(i + 1, j):
                row[h] = times(mode, total(mode, tops[h], row[h]), ratio[i, j])
                full[i, j, h] = times(mode, row[h], stop[h, 0, 1, 0])
                left_open[i, j, h] = times(mode, row[h], stop[h, 0, 1, 1])
            if w == n:
                break
            row = below[i, j]
            row[:n] = 0.0
            if mode != REAL:
                tops[:n] = -np.inf
            for c in range(i, j):
                for h in range(n):
                    if mode == REAL or h < i or h >= j:  # in real numbers, a longer row is faster than a choice
                        add_at(mode, tops, row, h, times(mode, full[i, j, c], arc[c, h + 1]))
            if mode != REAL:
                for h in range(n):
                    row[h] = total(mode, tops[h], row[h])
    whole = NOTHING
    for r in range(n):
        whole = add(mode, *whole, times(mode, full[0, n, r], arc[r, 0]))
    return float(total(mode, *whole))


# On the way down an item has an outside sum, in real numbers. In logs it has its posterior probability instead, as a
# real number: one exponential tells which share of it goes to each way to build the item, and nothing overflows.


@compiled
def handed(mode: int, mass: float, rest: float, part: float, item: float) -> float:
    """What an item hands on to a part of it, in a way to build it that weighs ``part`` times ``rest``."""
    if mode == REAL:
        return mass * rest
    return mass * math.exp(part + rest - item) if mass > 0 else 0.0


@compiled
def probability(mode: int, mass: float, item: float) -> float:
    """Of an item."""
    return mass * item if mode == REAL else mass


@compiled
def either(mode: int, sealed: float, opened: float, decision: Array) -> float:
    """What an item gets from what it becomes by one decision, and by the other."""
    return sealed * decision[0] + opened * decision[1] if mode == REAL else sealed + opened


@compiled
def without(mode: int, mass: float, item: float, factor: float) -> tuple[float, float]:
    """The same item before its weight was multiplied by a factor: what it gets, and its weight, which logs need."""
    return (mass * factor, item) if mode == REAL else (mass, item - factor)


@inlined
def outside(
    mode: int,
    n: int,
    arc: Array,  # (n, n + 1)
    stop: Array,  # (N, 2, 2, 2)
    ratio: Array,  # (N, N + 1)
    whole: float,  # the sum over all trees
    narrow: Array,  # (2, N, N + 1)
    chart: Array,  # (4, N, N + 1, N)
    o_narrow: Array,  # (N, N + 1) room for outside sums
    outer: Array,  # (2, N, N + 1, N) the same
    rows: Array,  # (3, N) the same
    posterior: Array,  # (N, N + 1) out: of arcs
    decided: Array,  # (N, 2, 2, 2) out: expected decisions
    known: Array,  # (N, N + 1) out: posteriors of spans
) -> float:
    """Posteriors of arcs, decisions and spans; gives the largest outside sum, if there are such."""
    right, right_open, left, left_open, full, below = narrow[0], narrow[1], chart[0], chart[1], chart[2], chart[3]
    o_right_open, o_left_open, o_below, o_full, o_left, item = o_narrow, outer[0], outer[1], rows[0], rows[1], rows[2]
    o_right_open[:n, : n + 1] = 0.0
    outer[:, :n, : n + 1, :n] = 0.0
    posterior[:n, : n + 1] = 0.0
    decided[:n] = 0.0
    worst = 0.0
    for w in range(n, 0, -1):
        for i in range(n - w + 1):
            j, some = i + w, int(w > 1)
            if w == n:
                for h in range(n):
                    o_full[h] = handed(mode, 1 / whole if mode == REAL else 1.0, arc[h, 0], full[0, n, h], whole)
                    posterior[h, 0] = probability(mode, o_full[h], full[0, n, h])
            else:
                for c in range(i, j):
                    mass = 0.0
                    for h in range(n):
                        if mode == REAL or h < i or h >= j:
                            way = handed(mode, o_below[i, j, h], arc[c, h + 1], full[i, j, c], below[i, j, h])
                            mass += way
                            posterior[c, h + 1] += probability(mode, way, full[i, j, c])
                    o_full[c] = mass
                for h in range(n):
                    worst = max(worst, o_below[i, j, h])
            yes = 0.0
            for h in range(i, j):
                beyond = int(h > i)
                sealed, opened = o_full[h], o_left_open[i, j, h]
                decided[h, 0, beyond, 0] += probability(mode, sealed, full[i, j, h])
                decided[h, 0, beyond, 1] += probability(mode, opened, left_open[i, j, h])
                mass = either(mode, sealed, opened, stop[h, 0, beyond])
                worst = max(worst, sealed, opened)
                if h > i:
                    yes += probability(mode, mass, left[i, j, h])
                    mass, item[h] = without(mode, mass, left[i, j, h], ratio[i, j])
                o_left[h] = mass
            for k in range(i + 1, j):
                for h in range(k, j):
                    child, head = below[i, k, h], left_open[k, j, h]
                    o_below[i, k, h] += handed(mode, o_left[h], head, child, item[h])
                    o_left_open[k, j, h] += handed(mode, o_left[h], child, head, item[h])
            sealed, opened = o_left[i], o_right_open[i, j]
            decided[i, 1, some, 0] += probability(mode, sealed, left[i, j, i])
            decided[i, 1, some, 1] += probability(mode, opened, right_open[i, j])
            mass = either(mode, sealed, opened, stop[i, 1, some])
            worst = max(worst, mass)
            known[i, j] = yes + probability(mode, mass, right[i, j])
            mass, bare = without(mode, mass, right[i, j], ratio[i, j])
            for k in range(i + 1, j):
                head, child = right_open[i, k], below[k, j, i]
                o_right_open[i, k] += handed(mode, mass, child, head, bare)
                o_below[k, j, i] += handed(mode, mass, head, child, bare)
    return float(worst)


def _both(mode: int) -> Any:
    @compiled
    def run(
        tables: tuple[Any, ...],  # as :func:`prepare` has them
        where: tuple[Any, ...],
        todo: Array,  # which sentences
        limit: float,
        log_z: Array,  # (B,) out
        trouble: Array,  # (B,) out: do this one again in logs
        arcs: Array,  # (cells,) out: posteriors; empty if only log Z is wanted
        decisions: Array,  # (tokens, 2, 2, 2) out
        known: Array,  # (spans,) out
    ) -> None:
        """log Z of some sentences, and posteriors."""
        _, _, spans, offsets, corners, edges, mirror = where
        N = longest_of(offsets, todo)
        cells, room = np.empty((2, N * (N + 1))), np.empty(N * (N + 1))
        stop, ratio = np.empty((N, 2, 2, 2)), np.empty((N, N + 1))
        narrow, chart, o_narrow = np.empty((2, N, N + 1)), np.empty((4, N, N + 1, N)), np.empty((N, N + 1))
        outer, rows = np.empty((2, N, N + 1, N)), np.empty((3, N))
        posterior, decided, grid = np.empty((N, N + 1)), np.empty((N, 2, 2, 2)), np.empty((N, N + 1))
        for b in todo:
            at, end, cell, edge = offsets[b], offsets[b + 1], corners[b], edges[b]
            n = end - at
            log_z[b] = 0.0
            trouble[b] = False
            if n == 0:
                continue
            arc = room[: n * (n + 1)].reshape(n, n + 1)
            shift, forced = prepare(mode, b, tables, where, cells, arc, stop, ratio)
            whole = inside(mode, n, arc, stop, ratio, narrow, chart, rows[0])
            if mode == REAL and (not (whole > 1 / limit) or not (shift > -np.inf)):
                trouble[b] = True
                continue
            log_z[b] = shift + as_log(mode, whole)
            if len(arcs) == 0:
                continue
            mine = arcs[cell : corners[b + 1]], decisions[at:end], known[edge : edges[b + 1]]
            if log_z[b] == -np.inf:  # impossible: it counts for nothing
                mine[0][:] = 0.0
                mine[1][:] = 0.0
                mine[2][:] = 0.0
                continue
            worst = outside(
                mode, n, arc, stop, ratio, whole, narrow, chart, o_narrow, outer, rows, posterior, decided, grid
            )
            if mode == REAL and not (worst <= limit):
                trouble[b] = True
                continue
            if mirror:
                turn(posterior, decided, grid, n)
            put(posterior, decided, grid, n, *mine)
            settle(tables[5], tables[6], spans, edge, n, forced, known)

    return run


scaled_pass, log_pass = _both(REAL), _both(LOG)


@compiled
def decode_pass(
    tables: tuple[Any, ...],  # as :func:`prepare` has them, in logs
    where: tuple[Any, ...],
    first: int,  # which sentences
    last: int,
    uniforms: Array,  # (tokens, 2) float64 in [0, 1), or empty
    heads: Array,  # (tokens,) out: 0 for the root, -1 where there is no tree at all
) -> None:
    """The best tree of every sentence (``uniforms`` empty), or a draw in proportion to the weight of trees."""
    draw, offsets, mirror = len(uniforms) > 0, where[3], where[6]
    N = longest_of(offsets, np.arange(first, last))
    cells, room = np.empty((2, N * (N + 1))), np.empty(N * (N + 1))
    stop, ratio = np.empty((N, 2, 2, 2)), np.empty((N, N + 1))
    narrow, chart, ways = np.empty((2, N, N + 1)), np.empty((4, N, N + 1, N)), np.empty(N + 1)
    todo = np.empty((N + 1, 3), np.int64)
    for b in range(first, last):
        at, n = offsets[b], offsets[b + 1] - offsets[b]
        if n == 0:
            continue
        mine, arc = heads[at : at + n], room[: n * (n + 1)].reshape(n, n + 1)
        shared, _ = prepare(LOG, b, tables, where, cells, arc, stop, ratio)
        if draw:
            whole = inside(LOG, n, arc, stop, ratio, narrow, chart, ways)
        else:
            whole = inside(MAX, n, arc, stop, ratio, narrow, chart, ways)
        if shared + whole == -np.inf:
            mine[:] = -1
            continue
        chances = uniforms[at : at + n] if draw else uniforms
        trace(LOG if draw else MAX, n, arc, narrow, chart, chances, ways, todo, mirror, mine)


@compiled
def trace(
    mode: int,
    n: int,
    arc: Array,  # (n, n + 1) weights by child and head
    narrow: Array,  # (2, N, N + 1) as :func:`inside` fills it
    chart: Array,  # (4, N, N + 1, N) the same
    uniforms: Array,  # (n, 2) float64 in [0, 1); empty in maxima
    ways: Array,  # (N + 1,) room
    todo: Array,  # (N + 1, 3) room: full spans: first and last fencepost, head
    mirror: bool,  # the sentence was turned
    heads: Array,  # (n,) out
) -> None:
    """The best tree of a sentence, or one that is drawn, from the top down."""
    right_open, left_open, full, below = narrow[1], chart[1], chart[2], chart[3]
    used, one, other = 0, 0.0, 0.0
    if mode != MAX:
        one = uniforms[0, 0]
    for r in range(n):
        ways[r] = times(mode, full[0, n, r], arc[r, 0])
    r = choose(mode, ways[:n], one)
    heads[r] = 0
    todo[0, 0], todo[0, 1], todo[0, 2] = 0, n, r
    size = 1
    while size > 0:
        size -= 1
        i, j, h = todo[size, 0], todo[size, 1], todo[size, 2]
        while j - i > 1:  # take the child away that was attached last
            used += 1
            if mode != MAX:
                one, other = uniforms[used, 0], uniforms[used, 1]
            if i < h:
                for k in range(i + 1, h + 1):
                    ways[k] = times(mode, below[i, k, h], left_open[k, j, h])
                k = i + 1 + choose(mode, ways[i + 1 : h + 1], one)
                a, z, i = i, k, k
            else:
                for k in range(i + 1, j):
                    ways[k] = times(mode, right_open[i, k], below[k, j, i])
                k = i + 1 + choose(mode, ways[i + 1 : j], one)
                a, z, j = k, j, k
            for c in range(a, z):
                ways[c] = times(mode, full[a, z, c], arc[c, h + 1])
            c = a + choose(mode, ways[a:z], other)
            heads[c] = h + 1
            todo[size, 0], todo[size, 1], todo[size, 2] = a, z, c
            size += 1
    if mirror:
        for c in range(n // 2):
            heads[c], heads[n - 1 - c] = heads[n - 1 - c], heads[c]
        for c in range(n):
            if heads[c] > 0:
                heads[c] = n + 1 - heads[c]
