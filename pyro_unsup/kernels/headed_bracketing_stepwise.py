"""Stepwise EM of headed bracketings, mini-batch after mini-batch (see :mod:`.stepwise`): weights are those of
:mod:`.dependency_stepwise` and :mod:`.bracketing_stepwise`."""

from __future__ import annotations

import numpy as np

from .bracketing_stepwise import add_spans, longest_and_most, ratios
from .dependency_stepwise import add_arcs, add_decisions, weigh_arcs, weigh_decisions
from .headed_bracketing_pass import inside, outside, put, spread, turn
from .ring import REAL
from .stepwise import BOUND, most_rows, row_units, stepping


@stepping
def stepwise_pass(
    tables,  # root, attach, stop, yields and contexts
    data,  # words (tokens,), offsets (B + 1,), whether sentences are read in a mirror; and what a bracketing has
    beta,
    order,  # (n,) examples, mini-batch by mini-batch
    batch_size,
    steps,  # (mini-batches,) step sizes
    scale,
    floor,  # the smallest scale
    log_z,  # (mini-batches,) out: log-likelihood of each, before its update
):
    """How many mini-batches were done, and the scale after them."""
    (root, root_sum, root_more, root_extra), (attach, attach_sums, attach_more, attach_extra) = tables[0], tables[1]
    stop, stop_sums, stop_more, stop_extra = tables[2]
    (yields, yield_sums, yield_more, y_extra), (contexts, context_sums, context_more, x_extra) = tables[3], tables[4]
    (words, starts, mirror), (spans, rows, gaps, tree, lengths, edges) = data
    (N, room), K, tokens = longest_and_most(lengths, order, batch_size), len(root), most_rows(starts, order, batch_size)
    # Posteriors of a mini-batch.
    arcs, decided, known = np.empty(tokens * (N + 1)), np.empty((tokens, 2, 2, 2)), np.empty(room)
    # Weights of a sentence, sums over its parts, and what is known of it.
    arc_room, flat = np.empty(N * (N + 1)), np.empty(N * (N + 1) // 2)
    ends, stops, onward, seen = np.empty((K, 2, 2, 2)), np.empty(K), np.empty((K, 2)), np.full(K, -1)
    yield_units, context_units = np.empty(len(yield_sums)), np.empty(len(context_sums))
    decisions, ratio = np.empty((N, 2, 2, 2)), np.empty((N, N + 1))
    narrow, o_narrow, chart = np.empty((2, N, N + 1)), np.empty((N, N + 1)), np.empty((4, N, N + 1, N))
    outer, heads = np.empty((2, N, N + 1, N)), np.empty((3, N))
    posterior, grid, decides = np.empty((N, N + 1)), np.empty((N, N + 1)), np.empty((N, 2, 2, 2))

    for batch in range(len(steps)):
        mine = order[batch * batch_size : (batch + 1) * batch_size]
        after, over = scale * (1.0 - steps[batch]), 1.0 / scale
        if not (after >= floor):
            return batch, scale
        row_units(yield_sums, yield_more, over, yield_units)
        row_units(context_sums, context_more, over, context_units)
        total, at, used = 0.0, 0, 0
        for b in mine:
            sentence, n = words[starts[b] : starts[b + 1]], lengths[b]
            if n == 0:
                continue
            for tag in sentence:
                if seen[tag] != batch:
                    weigh_decisions(stop, stop_sums, stop_more, stop_extra, tag, over, beta, ends, stops, onward)
                    seen[tag] = batch
            arc = arc_room[: n * (n + 1)].reshape(n, n + 1)
            shift = beta * tree[n] + weigh_arcs(
                root, root_sum, root_more, root_extra, attach, attach_sums, attach_more, attach_extra,
                sentence, over, beta, stops, onward, arc.reshape(1, n, n + 1),
            )  # fmt: skip
            shift += ratios(
                yields, y_extra * over, yield_units, contexts, x_extra * over, context_units,
                spans, rows, gaps, edges[b], n, beta, 1.0, flat,
            )  # fmt: skip
            if not (shift > -np.inf):
                return batch, scale
            spread(flat, n, ratio)
            for i in range(n):
                decisions[i] = ends[sentence[i]]
            if mirror:
                turn(arc, decisions, ratio, n)
            whole = inside(REAL, n, arc, decisions, ratio, narrow, chart, heads[0])
            if not (whole > 1 / BOUND):
                return batch, scale
            worst = outside(
                REAL, n, arc, decisions, ratio, whole, narrow, chart, o_narrow, outer, heads, posterior, decides, grid
            )
            if not (worst <= BOUND):
                return batch, scale
            if mirror:
                turn(posterior, decides, grid, n)
            size = n * (n + 1) // 2
            first, found = at * (N + 1), known[used : used + size]
            put(posterior, decides, grid, n, arcs[first : first + n * (n + 1)], decided[at : at + n], found)
            found[:n] = 1.0
            found[size - 1] = 1.0
            total += shift + np.log(whole)
            at += n
            used += size

        log_z[batch] = total / beta
        scale = after
        gain, at, used = steps[batch] / scale, 0, 0
        for b in mine:
            sentence, n = words[starts[b] : starts[b + 1]], lengths[b]
            first, size = at * (N + 1), n * (n + 1) // 2
            below = arcs[first : first + n * (n + 1)].reshape(1, n, n + 1)
            add_arcs(root, root_sum, attach, attach_sums, sentence, gain, below)
            for i in range(n):
                add_decisions(stop, stop_sums, sentence[i], gain, decided[at + i])
            found = known[used : used + size]
            add_spans(yields, yield_sums, contexts, context_sums, spans, rows, gaps, edges[b], gain, found)
            at += n
            used += size
    return len(steps), scale
