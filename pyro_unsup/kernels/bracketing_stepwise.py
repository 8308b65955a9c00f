"""Stepwise EM of bracketings, mini-batch after mini-batch (see :mod:`.stepwise`).

Weights are read as real numbers, and multiplied as such: spans need neither logs nor exponentials. A span whose weights
come near the end of the range ends the pass, and so does one that must be in the tree.
"""

from __future__ import annotations

import numpy as np

from .bracketing_pass import NODE, inside, outside
from .ring import REAL
from .stepwise import BOUND, row_units, stepping

#: What a span weighs as a distituent at least; and as a constituent, if that is possible.
LOW, LOWEST = 1e-150, 1e-290


@stepping
def longest_and_most(lengths, order, batch_size):  # (B,), (n,)
    """Words of the longest sentence, and the spans of the largest mini-batch."""
    longest, most = 0, 0
    for begin in range(0, len(order), batch_size):
        spans = 0
        for b in order[begin : begin + batch_size]:
            longest = max(longest, lengths[b])
            spans += lengths[b] * (lengths[b] + 1) // 2
        most = max(most, spans)
    return longest, most


@stepping
def ratios(
    yields,  # counts of the table, and what is added to each
    yield_extra,
    yield_units,  # (rows,)
    contexts,
    context_extra,
    context_units,
    spans,  # (spans, 2) the cells of yield and context as a distituent
    rows,  # (spans,) the row of that yield; empty if there is one row for all
    gaps,  # how far the cell and the row of a constituent are from those of a distituent: of yields, then of contexts
    at,  # the first span of the sentence
    n,
    beta,
    largest,  # what the largest ratio shall be
    ratio,  # (n (n + 1) / 2,) out: what each constituent multiplies the weight of a tree by, in real numbers
):
    """The log of what ratios were divided by together, and of what all trees share; -inf if they are out of range."""
    yield_gap, yield_rows, context_gap, context_rows = gaps
    last, product, shared, top = n * (n + 1) // 2 - 1, 1.0, 0.0, 0.0
    for m in range(last + 1):
        y, x = spans[at + m, 0], spans[at + m, 1]
        row = rows[at + m] if len(rows) > 0 else 0
        within = (yields[y + yield_gap] + yield_extra) * yield_units[row + yield_rows]
        within *= (contexts[x + context_gap] + context_extra) * context_units[context_rows]
        if m < n or m == last:
            ratio[m], common = 1.0, within
        else:
            common = (yields[y] + yield_extra) * yield_units[row] * (contexts[x] + context_extra) * context_units[0]
            if within < LOWEST and within > 0:
                return -np.inf
            if (
                within == 0
                and yields[y + yield_gap] + yield_extra > 0
                and contexts[x + context_gap] + context_extra > 0
            ):
                return -np.inf
            ratio[m] = within / common
            top = max(top, ratio[m])
        if not (common >= LOW):
            return -np.inf
        product *= common
        if product < LOW:
            shared += np.log(product)
            product = 1.0
    shared = beta * (shared + np.log(product))
    if n < 3:
        return shared
    if not (top > 0 and top < np.inf):
        return -np.inf
    unit = 1.0 / top
    for m in range(n, last):
        found = ratio[m] * unit
        ratio[m] = largest * (found if beta == 1.0 else found**beta)
    return shared + (n - 2) * (beta * np.log(top) - np.log(largest))


@stepping
def add_spans(
    yields, yield_sums, contexts, context_sums, spans, rows, gaps, at, gain, marginals
):  # (spans of the sentence,)
    """Add the posteriors of spans as constituents and as distituents."""
    yield_gap, yield_rows, context_gap, context_rows = gaps
    all_yes, all_no = 0.0, 0.0
    for m in range(len(marginals)):
        y, x, yes = spans[at + m, 0], spans[at + m, 1], gain * marginals[m]
        no = gain - yes
        yields[y + yield_gap] += yes
        yields[y] += no
        contexts[x + context_gap] += yes
        contexts[x] += no
        if len(rows) > 0:
            yield_sums[rows[at + m] + yield_rows] += yes
            yield_sums[rows[at + m]] += no
        all_yes += yes
        all_no += no
    if len(rows) == 0:
        yield_sums[yield_rows] += all_yes
        yield_sums[0] += all_no
    context_sums[context_rows] += all_yes
    context_sums[0] += all_no


@stepping
def stepwise_pass(
    tables,  # yields and contexts
    data,  # spans (spans, 2), rows (spans,) or none, gaps, log-weights of trees, lengths (B,), offsets (B + 1,)
    beta,
    order,  # (n,) examples, mini-batch by mini-batch
    batch_size,
    steps,  # (mini-batches,) step sizes
    scale,
    floor,  # the smallest scale
    log_z,  # (mini-batches,) out: log-likelihood of each, before its update
):
    """How many mini-batches were done, and the scale after them."""
    (yields, yield_sums, yield_more, y_extra), (contexts, context_sums, context_more, x_extra) = tables
    spans, rows, gaps, tree, lengths, offsets = data
    N, room = longest_and_most(lengths, order, batch_size)
    ratio, marginals = np.empty(N * (N + 1) // 2), np.empty(room)
    chart, mirror = np.empty((N + 1, N + 1)), np.empty((N + 1, N + 1))
    around, around_mirror = np.empty((N + 1, N + 1)), np.empty((N + 1, N + 1))
    yield_units, context_units = np.empty(len(yield_sums)), np.empty(len(context_sums))

    for batch in range(len(steps)):
        mine = order[batch * batch_size : (batch + 1) * batch_size]
        after, over = scale * (1.0 - steps[batch]), 1.0 / scale
        if not (after >= floor):
            return batch, scale
        row_units(yield_sums, yield_more, over, yield_units)
        row_units(context_sums, context_more, over, context_units)
        total, used = 0.0, 0
        for b in mine:
            n, at = lengths[b], offsets[b]
            if n == 0:
                continue
            found = marginals[used : used + n * (n + 1) // 2]
            used += len(found)
            shift = beta * tree[n] + ratios(
                yields, y_extra * over, yield_units, contexts, x_extra * over, context_units,
                spans, rows, gaps, at, n, beta, NODE, ratio,
            )  # fmt: skip
            if not (shift > -np.inf):
                return batch, scale
            whole = inside(REAL, n, ratio, chart, mirror)
            if not (whole > 1 / BOUND):
                return batch, scale
            worst = outside(REAL, n, ratio, whole, chart, mirror, around, around_mirror, found)
            if not (worst <= BOUND):
                return batch, scale
            found[:n] = 1.0
            found[len(found) - 1] = 1.0
            total += shift + np.log(whole)

        log_z[batch] = total / beta
        scale = after
        gain, used = steps[batch] / scale, 0
        for b in mine:
            size = offsets[b + 1] - offsets[b]
            found = marginals[used : used + size]
            used += size
            add_spans(yields, yield_sums, contexts, context_sums, spans, rows, gaps, offsets[b], gain, found)
    return len(steps), scale
