"""Stepwise EM of a second-order chain, mini-batch after mini-batch (see :mod:`.stepwise`).

Words that allow few states need few of the transitions: then only those are read and written.
"""

from __future__ import annotations

import numpy as np

from .chain_pass import sparse_pass
from .stepwise import BOUND, SMALLEST, most_rows, real, row_units, stepping, summed


@stepping
def weigh_words(cells, extra, units, beta, words, at, states, weights, tops):  # (n,) -> (n + 1,), (.), (.), (n,)
    """The states that each word allows and their weights, the largest being 1; gives whether all allow some.

    :param at: where those of each word begin: ``at[0]`` is given.
    :param tops: the logs of what weights were divided by.
    """
    K = len(units)
    for t in range(len(words)):
        end, top = at[t], 0.0
        for k in range(K):
            weight = real(cells[words[t] * K + k] + extra, units[k], beta)
            if weight > 0:
                states[end], weights[end] = k, weight
                top = max(top, weight)
                end += 1
        if not (top > 0):
            return False
        for i in range(at[t], end):
            weights[i] /= top
        at[t + 1], tops[t] = end, np.log(top)
    return True


@stepping
def read_all(steps, extra, units, beta, trans):  # outcomes of some rows -> (rows, K)
    """Read all transitions."""
    rows = len(units)
    for c in range(trans.shape[1]):
        for row in range(rows):
            trans[row, c] = real(steps[c * rows + row] + extra, units[row], beta)


@stepping
def add_all(steps, sums, gain, trans, counts):
    """Add the counts of all transitions, and clear them."""
    rows = len(sums)
    for c in range(trans.shape[1]):
        for row in range(rows):
            count = gain * trans[row, c] * counts[row, c]
            counts[row, c] = 0.0
            steps[c * rows + row] += count
            sums[row] += count


@stepping
def read_some(first, first_extra, first_units, steps, extra, units, beta, at, states, whole, ends, trans, stop):
    """Read the transitions that one sentence needs, or only those to its end.

    :param at: (n + 1,) where the states of each word begin.
    :param whole: whether all transitions are wanted.
    :param ends: whether there are some to the end.
    :param trans: (K + 1, K, K) out; the last block is that of first words.
    :param stop: (K + 1, K) out.
    """
    K, n = len(first_units), len(at) - 1
    for t in range(1 if whole else n, n + 1 if ends else n):
        for j in range(at[t - 1], at[t]):
            b = states[j]
            if t == 1:
                if t == n:
                    stop[K, b] = real(first[K * K + b] + first_extra, first_units[b], beta)
                    continue
                for k in range(at[t], at[t + 1]):
                    c = states[k]
                    trans[K, b, c] = real(first[c * K + b] + first_extra, first_units[b], beta)
                continue
            for i in range(at[t - 2], at[t - 1]):
                a, row = states[i], states[i] * K + b
                if t == n:
                    stop[a, b] = real(steps[K * K * K + row] + extra, units[row], beta)
                    continue
                for k in range(at[t], at[t + 1]):
                    c = states[k]
                    trans[a, b, c] = real(steps[c * K * K + row] + extra, units[row], beta)


@stepping
def add_some(first, first_sums, steps, sums, at, states, whole, ends, gain, trans, counts, stop):
    """Add the counts of the transitions that one sentence needs, or only of those to its end, and clear them.

    :param counts: (K + 1, K, K), to be multiplied by the transitions.
    :param stop: (K + 1, K) counts of ends.
    """
    K, n = len(first_sums), len(at) - 1
    for t in range(1 if whole else n, n + 1):
        for j in range(at[t - 1], at[t]):
            b = states[j]
            for i in range(at[t - 2] if t > 1 else 0, at[t - 1] if t > 1 else 1):
                a = states[i] if t > 1 else K
                row, more = a * K + b, 0.0
                if t == n:
                    more, stop[a, b] = gain * stop[a, b], 0.0
                    if not ends:
                        continue
                    if a == K:
                        first[K * K + b] += more
                    else:
                        steps[K * K * K + row] += more
                else:
                    for k in range(at[t], at[t + 1]):
                        c = states[k]
                        count = gain * trans[a, b, c] * counts[a, b, c]
                        counts[a, b, c] = 0.0
                        more += count
                        if a == K:
                            first[c * K + b] += count
                        else:
                            steps[c * K * K + row] += count
                if a == K:
                    first_sums[b] += more
                else:
                    sums[row] += more


@stepping
def stepwise_pass(
    tables,  # start, transition, second and emission
    data,  # words (tokens,), offsets (B + 1,)
    beta,
    order,  # (n,) examples, mini-batch by mini-batch
    batch_size,
    sizes,  # (mini-batches,) step sizes
    scale,
    floor,  # the smallest scale
    log_z,  # (mini-batches,) out: log-likelihood of each, before its update
):
    """How many mini-batches were done, and the scale after them."""
    (start, start_sum, start_more, start_extra), (steps, step_sums, step_more, step_extra), rest, last = tables
    (first, first_sums, first_more, first_extra), (emit, emit_sums, emit_more, emit_extra) = rest, last
    text, offsets = data
    K, room = len(start), most_rows(offsets, order, batch_size)
    ends = len(first) > K * K
    trans, stop = np.zeros((K + 1, K, K)), np.ones((K + 1, K))
    n_trans, n_start, n_stop = np.zeros((K + 1, K, K)), np.empty(K), np.zeros((K + 1, K))
    at, states, weights = np.zeros(room + 1, np.int64), np.empty(room * K, np.int64), np.empty(room * K)
    counts, tops, words, where = np.empty(room * K), np.empty(room), np.arange(room), np.zeros(batch_size + 1, np.int64)
    begin, units, first_units, emit_units = np.empty(K), np.empty(K * K), np.empty(K), np.empty(K)
    weigh, todo = np.ones(batch_size), np.arange(batch_size)
    found, trouble = np.empty(batch_size), np.empty(batch_size, np.bool_)

    for batch in range(len(sizes)):
        mine = order[batch * batch_size : (batch + 1) * batch_size]
        after, over = scale * (1.0 - sizes[batch]), 1.0 / scale
        if not (after >= floor):
            return batch, scale
        row_units(step_sums, step_more, over, units)
        row_units(first_sums, first_more, over, first_units)
        row_units(emit_sums, emit_more, over, emit_units)
        unit = 1.0 / (start_sum[0] + start_more[0] * over)
        for k in range(K):
            begin[k] = real(start[k] + start_extra * over, unit, beta)
        work = 0
        for i in range(len(mine)):
            a, n = where[i], offsets[mine[i] + 1] - offsets[mine[i]]
            where[i + 1] = z = a + n
            sentence = text[offsets[mine[i]] : offsets[mine[i] + 1]]
            if not weigh_words(
                emit, emit_extra * over, emit_units, beta, sentence, at[a : z + 1], states, weights, tops[a:z]
            ):
                return batch, scale
            for t in range(a + 2, z):
                work += (at[t + 1] - at[t]) * (at[t] - at[t - 1]) * (at[t - 1] - at[t - 2])
        few = work < K * K * K
        if not few:
            read_all(steps, step_extra * over, units, beta, trans[:K].reshape(K * K, K))
            read_all(first, first_extra * over, first_units, beta, trans[K])
        for i in range(len(mine)):
            if where[i + 1] > where[i]:
                read_some(
                    first, first_extra * over, first_units, steps, step_extra * over, units, beta,
                    at[where[i] : where[i + 1] + 1], states, few, ends, trans, stop,
                )  # fmt: skip
        n_start[:] = 0.0
        counts[: at[where[len(mine)]]] = 0.0
        sparse_pass(
            begin, trans, stop, at, states, weights, tops, words, where, todo[: len(mine)], weigh, True, BOUND,
            SMALLEST, found, trouble, n_start, n_trans, n_stop, counts,
        )  # fmt: skip
        total, fine = summed(found, trouble, len(mine))
        if not fine:
            return batch, scale

        log_z[batch] = total / beta
        scale = after
        gain = sizes[batch] / scale
        for k in range(K):
            start[k] += gain * n_start[k]
            start_sum[0] += gain * n_start[k]
        if not few:
            add_all(steps, step_sums, gain, trans[:K].reshape(K * K, K), n_trans[:K].reshape(K * K, K))
            add_all(first, first_sums, gain, trans[K], n_trans[K])
        for i in range(len(mine)):
            a, z = where[i], where[i + 1]
            if z > a:
                add_some(
                    first, first_sums, steps, step_sums, at[a : z + 1], states, few, ends, gain, trans, n_trans, n_stop
                )
            for t in range(a, z):
                word = text[offsets[mine[i]] + t - a]
                for j in range(at[t], at[t + 1]):
                    count = gain * counts[j]
                    emit[word * K + states[j]] += count
                    emit_sums[states[j]] += count
    return len(sizes), scale
