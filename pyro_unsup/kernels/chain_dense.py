"""First-order chain, every state allowed at every position: forward-backward as matrix products.

Sequences are taken in blocks of similar length and advance in step, so that each step is one (block x K) by (K x K)
product. Rows are packed time after time, without padding: step t holds only the sequences longer than t.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .limits import FAST, leads_on


@njit(cache=True, nogil=True, fastmath=FAST)
def dense_pass(
    start,  # (K,) weights, real space, each table scaled to a maximum of 1
    trans,  # (K, K) (old, new)
    trans_t,  # (K, K) its transpose
    stop,  # (K,) ones where there is no stop event
    emit,  # (V, K)
    emit_top,  # (V,) what was divided out of each row, in logs
    words,  # (tokens,)
    offsets,  # (B + 1,)
    order,  # (B,) sequences, longest first
    blocks,  # (blocks + 1,) ranges of `order` done together
    scale,  # (B,) how much the counts of each sequence weigh
    want_counts,
    limit,
    least,  # what a backward message is at least, where it is possible
    log_z,  # (B,) out
    trouble,  # (B,) out: do this one again in log space
    n_start,  # (K,) float64, added to
    n_trans,  # (K, K) float64, added to; still to be multiplied by trans
    n_stop,  # (K,) float64, added to
    n_emit,  # (V, K) float64, added to
):
    K = len(start)
    room = 0
    widest = 0
    for block in range(len(blocks) - 1):
        tokens = 0
        for i in range(blocks[block], blocks[block + 1]):
            tokens += offsets[order[i] + 1] - offsets[order[i]]
        room = max(room, tokens)
        widest = max(widest, blocks[block + 1] - blocks[block])
    ahead = np.empty((room, K), start.dtype)  # forward messages, times their norm
    back = np.empty((room if want_counts else 0, K), start.dtype)  # backward messages, in the end over their norm
    pull = np.empty((room if want_counts else 0, K), start.dtype)  # the same times the emission
    norm = np.empty(room, start.dtype)
    outer = np.empty((K, K), start.dtype)
    zero, one = start.dtype.type(0.0), start.dtype.type(1.0)

    for block in range(len(blocks) - 1):
        first, width = blocks[block], blocks[block + 1] - blocks[block]
        T = offsets[order[first] + 1] - offsets[order[first]]
        at = np.empty(T + 1, np.int64)  # first row of each step
        active = np.empty(T + 1, np.int64)
        n, row = width, 0
        for t in range(T):
            while n > 0 and offsets[order[first + n - 1] + 1] - offsets[order[first + n - 1]] <= t:
                n -= 1
            at[t], active[t] = row, n
            row += n
        at[T], active[T] = row, 0

        for t in range(T):
            r0, n = at[t], active[t]
            if t > 0:
                np.dot(ahead[at[t - 1] : at[t - 1] + n], trans, ahead[r0 : r0 + n])
            for i in range(n):
                s = order[first + i]
                w = words[offsets[s] + t]
                shrink = one
                if t == 0:
                    log_z[s] = 0.0
                    trouble[s] = False
                    for k in range(K):
                        ahead[i, k] = start[k]
                else:
                    shrink = one / norm[at[t - 1] + i]
                total = zero
                for k in range(K):
                    ahead[r0 + i, k] *= emit[w, k] * shrink
                    total += ahead[r0 + i, k]
                if not (total > 1 / limit):
                    trouble[s] = True
                    total = one
                norm[r0 + i] = total
                log_z[s] += np.log(total) + emit_top[w]

        for i in range(width):
            s = order[first + i]
            T_s = offsets[s + 1] - offsets[s]
            if T_s == 0:
                log_z[s] = 0.0
                trouble[s] = False
                continue
            r = at[T_s - 1] + i
            total = zero
            for k in range(K):
                total += ahead[r, k] * stop[k]
            total /= norm[r]
            if not (total > 1 / limit):
                trouble[s] = True
                total = one
            log_z[s] += np.log(total)
            if want_counts:
                for k in range(K):
                    back[r, k] = stop[k] / total
        if not want_counts:
            continue

        for t in range(T - 1, -1, -1):
            r0, n, longer = at[t], active[t], active[t + 1]
            if longer > 0:
                np.dot(pull[at[t + 1] : at[t + 1] + longer], trans_t, back[r0 : r0 + longer])
            for i in range(n):
                s = order[first + i]
                w = words[offsets[s] + t]
                mine, pulled, weights = back[r0 + i], pull[r0 + i], emit[w]
                low = 0
                for k in range(K):
                    low += mine[k] < least
                if low > 0 and i < longer:
                    onward, next_weights = back[at[t + 1] + i], emit[words[offsets[s] + t + 1]]
                    for k in range(K):
                        if mine[k] < least and leads_on(trans[k], next_weights, onward):
                            mine[k] = least
                shrink = one / norm[r0 + i]
                # Messages forwards meet the transitions before they are divided by their norm.
                most = limit * norm[at[t - 1] + i] if t > 0 else limit
                beyond = 0
                for k in range(K):
                    reach = mine[k] * shrink
                    beyond += not (reach <= most)
                    mine[k] = reach
                    pulled[k] = reach * weights[k]
                if beyond > 0:
                    trouble[s] = True

        for t in range(T):
            for i in range(active[t]):
                s, r = order[first + i], at[t] + i
                w = words[offsets[s] + t]
                if trouble[s]:  # its messages may be NaN or infinite, and must not touch the sums
                    for k in range(K):
                        ahead[r, k] = pull[r, k] = zero
                    continue
                weight = start.dtype.type(scale[s])
                shrink = weight / norm[r]
                if t == 0:
                    for k in range(K):
                        n_start[k] += ahead[r, k] * back[r, k] * weight
                if t == offsets[s + 1] - offsets[s] - 1:
                    for k in range(K):
                        n_stop[k] += ahead[r, k] * back[r, k] * weight
                for k in range(K):
                    n_emit[w, k] += ahead[r, k] * back[r, k] * weight
                    ahead[r, k] *= shrink
        t = 0
        while t + 1 < T:
            # Steps between which no sequence ends lie side by side, and make one large product.
            n, last = active[t + 1], t + 1
            while active[t] == n and last + 1 < T and active[last + 1] == n:
                last += 1
            np.dot(ahead[at[t] : at[last - 1] + n].T, pull[at[t + 1] : at[last] + n], outer)
            for i in range(K):
                for j in range(K):
                    n_trans[i, j] += outer[i, j]
            t = last
