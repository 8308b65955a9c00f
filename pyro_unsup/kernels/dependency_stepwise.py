"""Stepwise EM of dependency trees, mini-batch after mini-batch (see :mod:`.stepwise`).

Weights are read as real numbers, so that arcs need neither logs nor exponentials. What underflows is below ``tiny``
over the largest weight of an arc to the same word, and that is at least `LOW`.
"""

from __future__ import annotations

import numpy as np

from .dependency_pass import ARC, inside, outside
from .ring import REAL, longest_of
from .stepwise import BOUND, most_rows, stepping

#: What the likeliest arc to a word has to weigh, and the likelier way to stop.
LOW = 1e-40


@stepping
def weigh_decisions(
    stop,  # outcomes of (K, 2, 2): the table, the sums of its rows, and pseudo-counts of these
    sums,
    more,
    extra,
    tag,
    over,
    beta,
    ends,  # (K, 2, 2, 2) out: as shares of the better adjacency
    stops,  # (K,) out: the better ways to stop, on both sides together
    onward,  # (K, 2) out: the better way to go on
):
    """What the decisions of a tag weigh."""
    rows = len(sums)
    stops[tag] = 1.0
    for side in range(2):
        for decision in range(2):
            best = 0.0
            for adjacency in range(2):
                row = (tag * 2 + side) * 2 + adjacency
                weight = (stop[decision * rows + row] + extra * over) / (sums[row] + more[row] * over)
                weight = weight if beta == 1.0 else weight**beta
                ends[tag, side, adjacency, decision] = weight
                best = max(best, weight)
            shrink = 1.0 / best if best > 0 else 0.0
            for adjacency in range(2):
                ends[tag, side, adjacency, decision] *= shrink
            if decision == 0:
                stops[tag] *= best
            else:
                onward[tag, side] = best


@stepping
def weigh_arcs(
    root,  # (K,) and the rest of the table
    root_sum,
    root_more,
    root_extra,
    attach,  # outcomes of (K, 2, V)
    sums,
    more,
    extra,
    words,  # (n,)
    over,
    beta,
    stops,  # (K,)
    onward,  # (K, 2)
    arc,  # (V, n, n + 1) out: by child and head, the largest one to each child being the same
):
    """The weights of all arcs of a sentence; and the log of what they were divided by, ways to stop included."""
    V, n, rows = len(arc), len(words), len(sums)
    for h in range(n):
        for v in range(V):
            arc[v, h, h + 1] = 0.0
            for side in range(2):
                row = (words[h] * 2 + side) * V + v
                shrink = 1.0 / (sums[row] + more[row] * over)
                begin, end = (h + 1, n) if side == 1 else (0, h)
                for c in range(begin, end):
                    weight = (attach[words[c] * rows + row] + extra * over) * shrink
                    weight = weight if beta == 1.0 else weight**beta
                    arc[v, c, h + 1] = weight * onward[words[h], side]
    shift, shrink = -n * np.log(ARC), 1.0 / (root_sum[0] + root_more[0] * over)
    for c in range(n):
        weight = (root[words[c]] + root_extra * over) * shrink
        weight = weight if beta == 1.0 else weight**beta
        top = 0.0
        for v in range(V):
            arc[v, c, 0] = weight
            for h in range(n + 1):
                top = max(top, arc[v, c, h])
        if not (top > LOW and stops[words[c]] > LOW):
            return -np.inf
        shift += np.log(top * stops[words[c]])
        unit = ARC / top
        for v in range(V):
            for h in range(n + 1):
                arc[v, c, h] *= unit
    return shift


@stepping
def add_arcs(root, root_sum, attach, sums, words, gain, arc):  # (n,), (V, n, n + 1)
    """Add the posteriors of all arcs of a sentence."""
    V, n, rows = len(arc), len(words), len(sums)
    for c in range(n):
        root[words[c]] += gain * arc[0, c, 0]
        root_sum[0] += gain * arc[0, c, 0]
    for h in range(n):
        for v in range(V):
            for side in range(2):
                row, whole = (words[h] * 2 + side) * V + v, 0.0
                begin, end = (h + 1, n) if side == 1 else (0, h)
                for c in range(begin, end):
                    count = gain * arc[v, c, h + 1]
                    attach[words[c] * rows + row] += count
                    whole += count
                sums[row] += whole


@stepping
def add_decisions(stop, sums, tag, gain, decided):  # (2, 2, 2) by direction, adjacency, decision
    """Add how often a word is expected to decide so."""
    rows = len(sums)
    for side in range(2):
        for adjacency in range(2):
            row = (tag * 2 + side) * 2 + adjacency
            for decision in range(2):
                count = gain * decided[side, adjacency, decision]
                stop[decision * rows + row] += count
                sums[row] += count


@stepping
def stepwise_pass(
    tables,  # root, attach and stop
    data,  # words (tokens,), offsets (B + 1,), how many valences there are
    beta,
    order,  # (n,) examples, mini-batch by mini-batch
    batch_size,
    steps,  # (mini-batches,) step sizes
    scale,
    floor,  # the smallest scale
    log_z,  # (mini-batches,) out: log-likelihood of each, before its update
):
    """How many mini-batches were done, and the scale after them."""
    (root, root_sum, root_more, root_extra), (attach, attach_sums, attach_more, attach_extra), rest = tables
    stop, stop_sums, stop_more, stop_extra = rest
    words, offsets, V = data
    K, N, room = len(root), longest_of(offsets, order), most_rows(offsets, order, batch_size)
    arcs, decided = np.empty(V * room * (N + 1)), np.empty((room, 2, 2, 2))
    chart, outer = np.empty((8, N, N)), np.empty((8, N, N))
    ends, stops, onward, known = np.empty((K, 2, 2, 2)), np.empty(K), np.empty((K, 2)), np.full(K, -1)

    for batch in range(len(steps)):
        mine = order[batch * batch_size : (batch + 1) * batch_size]
        after, over = scale * (1.0 - steps[batch]), 1.0 / scale
        if not (after >= floor):
            return batch, scale
        total, at = 0.0, 0
        for b in mine:
            sentence, n = words[offsets[b] : offsets[b + 1]], offsets[b + 1] - offsets[b]
            if n == 0:
                continue
            for tag in sentence:
                if known[tag] != batch:
                    weigh_decisions(stop, stop_sums, stop_more, stop_extra, tag, over, beta, ends, stops, onward)
                    known[tag] = batch
            arc = arcs[V * at * (N + 1) :][: V * n * (n + 1)].reshape(V, n, n + 1)
            shift = weigh_arcs(
                root, root_sum, root_more, root_extra, attach, attach_sums, attach_more, attach_extra,
                sentence, over, beta, stops, onward, arc,
            )  # fmt: skip
            if not (shift > -np.inf):
                return batch, scale
            whole = inside(REAL, n, arc, ends, sentence, chart)
            if not (whole > 1 / BOUND):
                return batch, scale
            worst = outside(REAL, n, arc, ends, sentence, whole, chart, outer, decided[at : at + n])
            if not (worst <= BOUND):
                return batch, scale
            total += shift + np.log(whole)
            at += n

        log_z[batch] = total / beta
        scale = after
        gain, at = steps[batch] / scale, 0
        for b in mine:
            sentence, n = words[offsets[b] : offsets[b + 1]], offsets[b + 1] - offsets[b]
            arc = arcs[V * at * (N + 1) :][: V * n * (n + 1)].reshape(V, n, n + 1)
            add_arcs(root, root_sum, attach, attach_sums, sentence, gain, arc)
            for i in range(n):
                add_decisions(stop, stop_sums, sentence[i], gain, decided[at + i])
            at += n
    return len(steps), scale
