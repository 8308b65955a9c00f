"""Stepwise EM of a first-order chain: mini-batch after mini-batch, E step and update, without leaving compiled code.

Counts live in real space with a scale that all tables share (see :mod:`pyro_unsup.kernels.running`), so that an update
costs the states squared and the words of the mini-batch. Forward-backward is that of the dense pass, one sequence after
the other. A mini-batch that scaled arithmetic cannot do exactly (:mod:`pyro_unsup.kernels.limits`), or whose update
needs the scale to be folded into the tables, is left to the caller, nothing of it done.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .limits import FAST, leads_on

#: States are padded to a multiple of this many with weight zero, so that no loop over them has a remainder.
WIDTH = 8
#: A product of likelihoods becomes a log where it leaves this range.
LOW, HIGH = 1e-100, 1e100


@njit(cache=True, nogil=True, fastmath=FAST)
def product(row, matrix, out):  # (K,), (K, K), (K,)
    """``out = row @ matrix``, for K a multiple of `WIDTH`."""
    K = len(row)
    for j in range(K):
        out[j] = 0.0
    for i in range(0, K, 4):  # four rows at a time: `out` is read and written a quarter as often
        a, b, c, d = row[i], row[i + 1], row[i + 2], row[i + 3]
        for j in range(K):
            out[j] += a * matrix[i, j] + b * matrix[i + 1, j] + c * matrix[i + 2, j] + d * matrix[i + 3, j]


@njit(cache=True, nogil=True, fastmath=FAST)
def stepwise_pass(
    start,  # (K,) counts over the scale, changed in place, as are all tables and their sums
    start_sum,  # (1,)
    trans,  # (K [+ 1], K) axes (new, old); the last row is the stop event, if there is one
    trans_sums,  # (K,)
    emit,  # (V, K)
    emit_sums,  # (K,)
    extra,  # (3,) pseudo-counts of a cell of start, trans, emit
    beta,  # the power that posteriors are raised to
    words,  # (tokens,)
    offsets,  # (B + 1,)
    order,  # (n,) sequences, mini-batch by mini-batch
    batch_size,
    steps,  # (mini-batches,) step sizes
    scale,
    floor,  # the smallest scale
    limit,
    least,  # what a backward message is at least, where it is possible
    log_z,  # (mini-batches,) out: log-likelihood of each, before its update
):
    """How many mini-batches were done, and the scale after them."""
    K, V = len(emit_sums), len(emit)
    has_stop = len(trans) > K
    tempered = beta != 1.0
    room = 0
    for batch in range(len(steps)):
        tokens = 0
        for i in range(batch * batch_size, min((batch + 1) * batch_size, len(order))):
            tokens += offsets[order[i] + 1] - offsets[order[i]]
        room = max(room, tokens)
    P = (K + WIDTH - 1) // WIDTH * WIDTH
    weight = np.zeros((room, P))  # emission weights of each word, summing to 1
    ahead = np.empty((room, P))  # forward messages, summing to 1
    back = np.empty((room, P))  # backward messages
    pull = np.empty((room, P))  # the same over their norm, times the emission
    norm = np.empty(room)
    first = np.zeros(P)
    step_on = np.zeros((P, P))  # (old, new)
    step_back = np.zeros((P, P))  # (new, old)
    stop = np.zeros(P)
    stop[:K] = 1.0
    shrink = np.empty(K)
    pairs = np.empty((P, P))
    n_first, n_stop, n_emit = np.empty(P), np.empty(P), np.empty(P)

    for batch in range(len(steps)):
        begin, end = batch * batch_size, min((batch + 1) * batch_size, len(order))
        eta = steps[batch]
        after = scale * (1.0 - eta)
        if not (after >= floor):
            return batch, scale

        x_start, x_trans, x_emit = extra[0] / scale, extra[1] / scale, extra[2] / scale
        total = 1.0 / (start_sum[0] + K * x_start)
        for k in range(K):
            first[k] = (start[k] + x_start) * total
            shrink[k] = 1.0 / (trans_sums[k] + len(trans) * x_trans)
        for j in range(K):
            for i in range(K):
                step_back[j, i] = (trans[j, i] + x_trans) * shrink[i]
        if has_stop:
            for i in range(K):
                stop[i] = (trans[K, i] + x_trans) * shrink[i]
        for k in range(K):
            shrink[k] = 1.0 / (emit_sums[k] + V * x_emit)
        if tempered:
            for j in range(K):
                first[j] = first[j] ** beta
                stop[j] = stop[j] ** beta
                for i in range(K):
                    step_back[j, i] = step_back[j, i] ** beta
        for j in range(K):
            for i in range(K):
                step_on[i, j] = step_back[j, i]

        fine = True
        rows = 0
        likelihood, shared = 0.0, 1.0
        n_first[:] = 0.0
        n_stop[:] = 0.0
        for at in range(begin, end):
            s = order[at]
            T = offsets[s + 1] - offsets[s]
            if T == 0:
                continue
            r0 = rows
            rows += T
            for t in range(T):
                w, r = words[offsets[s] + t], r0 + t
                whole = 0.0  # a sum takes less time than the largest
                for k in range(K):
                    weight[r, k] = (emit[w, k] + x_emit) * shrink[k]
                    whole += weight[r, k]
                if not (whole > 0.0):
                    fine = False
                    break
                over = 1.0 / whole
                for k in range(K):
                    weight[r, k] *= over
                if tempered:
                    for k in range(K):
                        weight[r, k] = weight[r, k] ** beta
                    whole = whole**beta
                if t == 0:
                    for k in range(P):
                        ahead[r, k] = first[k]
                else:
                    product(ahead[r - 1], step_on, ahead[r])
                total = 0.0
                for k in range(P):
                    ahead[r, k] *= weight[r, k]
                    total += ahead[r, k]
                if not (total > 1.0 / limit):
                    fine = False
                    break
                norm[r] = total
                more = shared * whole * total  # of products there are fewer logs to take
                if not (LOW < more < HIGH):
                    likelihood += np.log(shared) + np.log(whole) + np.log(total)
                    more = 1.0
                shared = more
                over = 1.0 / total
                for k in range(P):
                    ahead[r, k] *= over
            if not fine:
                break

            r = rows - 1
            total = 0.0
            for k in range(P):
                total += ahead[r, k] * stop[k]
            if not (total > 1.0 / limit):
                fine = False
                break
            likelihood += np.log(total)
            for k in range(P):
                back[r, k] = stop[k] / total
                n_stop[k] += ahead[r, k] * back[r, k]
            for t in range(T - 1, -1, -1):
                r = r0 + t
                over, beyond, below = 1.0 / norm[r], 0.0, 0.0
                for k in range(P):
                    reach = back[r, k] * over
                    beyond += 0.0 if reach <= limit else 1.0
                    pull[r, k] = reach * weight[r, k]
                if beyond > 0.0:
                    fine = False
                    break
                if t > 0:
                    product(pull[r], step_back, back[r - 1])
                    for k in range(K):
                        below += 1.0 if back[r - 1, k] < least else 0.0
                if below > 0.0:
                    for k in range(K):
                        if back[r - 1, k] < least and leads_on(step_on[k, :K], weight[r, :K], back[r, :K]):
                            back[r - 1, k] = least
            if not fine:
                break
            for k in range(P):
                n_first[k] += ahead[r0, k] * back[r0, k]
                pull[r0, k] = 0.0  # nothing leads from one sequence into the next
        if not fine:
            return batch, scale

        log_z[batch] = (likelihood + np.log(shared)) / beta
        scale = after
        gain = eta / scale
        if rows == 0:
            continue
        total = 0.0
        for k in range(K):
            start[k] += gain * n_first[k]
            total += n_first[k]
        start_sum[0] += gain * total
        if rows > 1:
            np.dot(pull[1:rows].T, ahead[: rows - 1], pairs)  # (new, old)
            for j in range(K):
                for i in range(K):
                    more = gain * pairs[j, i] * step_back[j, i]
                    trans[j, i] += more
                    trans_sums[i] += more
        if has_stop:
            for i in range(K):
                more = gain * n_stop[i]
                trans[K, i] += more
                trans_sums[i] += more
        n_emit[:] = 0.0
        r = 0
        for at in range(begin, end):
            s = order[at]
            for position in range(offsets[s], offsets[s + 1]):
                w = words[position]
                for k in range(K):
                    more = gain * ahead[r, k] * back[r, k]
                    emit[w, k] += more
                    n_emit[k] += more
                r += 1
        for k in range(K):
            emit_sums[k] += n_emit[k]
    return len(steps), scale
