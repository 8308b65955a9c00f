"""Chain of first or second order over the states that each word allows, in scaled real space.

The message at position t lives on pairs (a, b): b ranges over the states allowed at t, and a over those at t - 1
(second order), over the start pad (position 0), or over nothing (first order: one dummy a = 0). The next message is

    first order    new[0, c] = emit[c] * sum_b  old[0, b] * trans[0, b, c]
    second order   new[b, c] = emit[c] * sum_a  old[a, b] * trans[a, b, c]

so that a step costs the product of the supports it joins, never K cubed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .limits import FAST


@njit(cache=True, nogil=True)
def message_sizes(second, tokens, support_at, words, begin, at):  # at: (T + 1,) out
    """Lay the messages of one sequence end to end; ``at[t]`` is where the message of position t begins."""
    at[0] = 0
    before = 1
    for t in range(tokens):
        w = words[begin + t]
        here = support_at[w + 1] - support_at[w]
        at[t + 1] = at[t] + (before if second else 1) * here
        before = here


@njit(cache=True, nogil=True)
def pad_of(second, t, K):
    """The state that stands for "before the sequence", if position t has one; -1 if it does not."""
    if not second:
        return 0
    return K if t == 0 else -1


@njit(cache=True, nogil=True, fastmath=FAST)
def sparse_pass(
    start,  # (K,) weights, real space, each table scaled to a maximum of 1
    trans,  # (1, K, K) first order; (K + 1, K, K) second order, the last block being that of the start pad
    stop,  # (1, K) or (K + 1, K); ones where there is no stop event
    support_at,  # (V + 1,) range of each word in the next two
    support,  # (cells,) states
    emit,  # (cells,) their weights
    emit_top,  # (V,) what was divided out, in logs
    words,  # (tokens,)
    offsets,  # (B + 1,)
    todo,  # (n,) which sequences
    scale,  # (B,) how much the counts of each sequence weigh
    want_counts,
    limit,
    log_z,  # (B,) out
    trouble,  # (B,) out: do this one again in log space
    n_start,  # (K,) float64, added to
    n_trans,  # as trans, float64, added to; still to be multiplied by trans
    n_stop,  # as stop, float64, added to
    n_emit,  # (cells,) float64, added to
):
    K = len(start)
    second = len(trans) > 1
    T = 0
    for s in todo:
        T = max(T, offsets[s + 1] - offsets[s])
    at = np.empty(T + 1, np.int64)
    norm = np.empty(T, start.dtype)
    room = 0
    for s in todo:
        message_sizes(second, offsets[s + 1] - offsets[s], support_at, words, offsets[s], at)
        room = max(room, at[offsets[s + 1] - offsets[s]])
    ahead = np.empty(room, start.dtype)
    back = np.empty(room if want_counts else 0, start.dtype)
    pull = np.empty(room if want_counts else 0, start.dtype)
    zero, one = start.dtype.type(0.0), start.dtype.type(1.0)

    for s in todo:
        begin, T = offsets[s], offsets[s + 1] - offsets[s]
        log_z[s] = 0.0
        trouble[s] = False
        if T == 0:
            continue
        message_sizes(second, T, support_at, words, begin, at)

        for t in range(T):
            w = words[begin + t]
            s0, nc = support_at[w], support_at[w + 1] - support_at[w]
            here, size = at[t], at[t + 1] - at[t]
            if t == 0:
                for c in range(nc):
                    ahead[c] = start[support[s0 + c]]
            else:
                for i in range(size):
                    ahead[here + i] = zero
                v = words[begin + t - 1]
                p0, nb = support_at[v], support_at[v + 1] - support_at[v]
                na = (at[t] - at[t - 1]) // max(nb, 1)
                pad = pad_of(second, t - 1, K)
                a0 = support_at[words[begin + t - 2]] if pad < 0 else 0
                for a in range(na):
                    i = pad if pad >= 0 else support[a0 + a]
                    for b in range(nb):
                        mass = ahead[at[t - 1] + a * nb + b]
                        j = support[p0 + b]
                        row = here + (b * nc if second else 0)
                        if nc == K:  # all states: no indirection, so that the loop is vectorised
                            for c in range(K):
                                ahead[row + c] += mass * trans[i, j, c]
                        else:
                            for c in range(nc):
                                ahead[row + c] += mass * trans[i, j, support[s0 + c]]
            total = zero
            for row in range(size // max(nc, 1)):
                for c in range(nc):
                    ahead[here + row * nc + c] *= emit[s0 + c]
                    total += ahead[here + row * nc + c]
            if not (total > 1 / limit):
                trouble[s] = True
                break
            norm[t] = total
            log_z[s] += np.log(total) + emit_top[w]
            shrink = one / total
            for i in range(size):
                ahead[here + i] *= shrink
        if trouble[s]:
            continue

        w = words[begin + T - 1]
        s0, nb = support_at[w], support_at[w + 1] - support_at[w]
        na = (at[T] - at[T - 1]) // nb
        pad = pad_of(second, T - 1, K)
        a0 = support_at[words[begin + T - 2]] if pad < 0 else 0
        total = zero
        for a in range(na):
            i = pad if pad >= 0 else support[a0 + a]
            for b in range(nb):
                total += ahead[at[T - 1] + a * nb + b] * stop[i, support[s0 + b]]
        if not (total > 1 / limit):
            trouble[s] = True
            continue
        log_z[s] += np.log(total)
        if not want_counts:
            continue
        for a in range(na):
            i = pad if pad >= 0 else support[a0 + a]
            for b in range(nb):
                back[at[T - 1] + a * nb + b] = stop[i, support[s0 + b]] / total

        for t in range(T - 1, -1, -1):
            w = words[begin + t]
            s0, nc = support_at[w], support_at[w + 1] - support_at[w]
            shrink = one / norm[t]
            top = zero
            for row in range((at[t + 1] - at[t]) // nc):
                for c in range(nc):
                    reach = back[at[t] + row * nc + c] * shrink
                    top = max(top, reach)
                    pull[at[t] + row * nc + c] = reach * emit[s0 + c]
            if not (top <= limit):
                trouble[s] = True
                break
            if t == 0:
                break
            v = words[begin + t - 1]
            p0, nb = support_at[v], support_at[v + 1] - support_at[v]
            na = (at[t] - at[t - 1]) // nb
            pad = pad_of(second, t - 1, K)
            a0 = support_at[words[begin + t - 2]] if pad < 0 else 0
            for a in range(na):
                i = pad if pad >= 0 else support[a0 + a]
                for b in range(nb):
                    j = support[p0 + b]
                    row = at[t] + (b * nc if second else 0)
                    mass = zero
                    if nc == K:
                        for c in range(K):
                            mass += trans[i, j, c] * pull[row + c]
                    else:
                        for c in range(nc):
                            mass += trans[i, j, support[s0 + c]] * pull[row + c]
                    back[at[t - 1] + a * nb + b] = mass
        if trouble[s]:
            continue

        weight = start.dtype.type(scale[s])
        for t in range(T):
            w = words[begin + t]
            s0, nb = support_at[w], support_at[w + 1] - support_at[w]
            na = (at[t + 1] - at[t]) // nb
            pad = pad_of(second, t, K)
            a0 = support_at[words[begin + t - 1]] if pad < 0 else 0
            for a in range(na):
                i = pad if pad >= 0 else support[a0 + a]
                for b in range(nb):
                    j = support[s0 + b]
                    mass = ahead[at[t] + a * nb + b] * weight
                    here = mass * back[at[t] + a * nb + b]
                    n_emit[s0 + b] += here
                    if t == 0:
                        n_start[j] += here
                    if t == T - 1:
                        n_stop[i, j] += here
                    elif mass != 0:
                        x = words[begin + t + 1]
                        c0, nc = support_at[x], support_at[x + 1] - support_at[x]
                        row = at[t + 1] + (b * nc if second else 0)
                        if nc == K:
                            for c in range(K):
                                n_trans[i, j, c] += mass * pull[row + c]
                        else:
                            for c in range(nc):
                                n_trans[i, j, support[c0 + c]] += mass * pull[row + c]
