"""Chain of first or second order in log space: for sequences that scaled arithmetic cannot hold, and for decoding.

Messages are laid out as in :mod:`.chain_sparse`. Everything is float64.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .chain_sparse import message_sizes, pad_of
from .log_sum import log_sum


@njit(cache=True, nogil=True)
def _shift(x):
    """Subtract the maximum, unless everything is -inf, and return it."""
    top = -np.inf
    for i in range(len(x)):
        top = max(top, x[i])
    if top == -np.inf:
        return 0.0
    for i in range(len(x)):
        x[i] -= top
    return top


@njit(cache=True, nogil=True)
def _forward(start, trans, support_at, support, emit, words, begin, T, at, ahead, best):
    """Fill the forward messages: sums of all histories, or (``best``) the weight of the best one.

    Every message is shifted to a maximum of 0, so that its digits last however long the sequence; the sum of the shifts
    is returned.
    """
    shifts = 0.0
    K = len(start)
    second = len(trans) > 1
    message_sizes(second, T, support_at, words, begin, at)
    for t in range(T):
        w = words[begin + t]
        s0, nc = support_at[w], support_at[w + 1] - support_at[w]
        new = ahead[at[t] : at[t + 1]]
        if t == 0:
            for c in range(nc):
                new[c] = start[support[s0 + c]] + emit[s0 + c]
            shifts += _shift(new)
            continue
        v = words[begin + t - 1]
        p0, nb = support_at[v], support_at[v + 1] - support_at[v]
        na = (at[t] - at[t - 1]) // max(nb, 1)
        pad = pad_of(second, t - 1, K)
        a0 = support_at[words[begin + t - 2]] if pad < 0 else 0
        old = ahead[at[t - 1] : at[t]]
        new[:] = -np.inf
        for a in range(na):
            i = pad if pad >= 0 else support[a0 + a]
            for b in range(nb):
                edges = trans[i, support[p0 + b]]
                row = b * nc if second else 0
                for c in range(nc):
                    new[row + c] = max(new[row + c], old[a * nb + b] + edges[support[s0 + c]])
        if not best:
            total = np.zeros(len(new))
            for a in range(na):
                i = pad if pad >= 0 else support[a0 + a]
                for b in range(nb):
                    edges = trans[i, support[p0 + b]]
                    row = b * nc if second else 0
                    for c in range(nc):
                        if new[row + c] > -np.inf:
                            total[row + c] += np.exp(old[a * nb + b] + edges[support[s0 + c]] - new[row + c])
            for i in range(len(new)):
                if new[i] > -np.inf:
                    new[i] += np.log(total[i])
        for row in range(len(new) // max(nc, 1)):
            for c in range(nc):
                new[row * nc + c] += emit[s0 + c]
        shifts += _shift(new)
    return shifts


@njit(cache=True, nogil=True)
def _pick(x, u):
    """The index of the largest entry (u < 0), or of one drawn in proportion to exp(x) with the uniform number u."""
    top, best = -np.inf, 0
    for i in range(len(x)):
        if x[i] > top:
            top, best = x[i], i
    if u < 0 or top == -np.inf:
        return best
    total = 0.0
    for i in range(len(x)):
        total += np.exp(x[i] - top)
    left = u * total
    for i in range(len(x)):
        step = np.exp(x[i] - top)
        if step > 0:
            best = i
            left -= step
            if left < 0:
                break
    return best


@njit(cache=True, nogil=True)
def _longest(offsets, todo):
    T = 0
    for s in todo:
        T = max(T, offsets[s + 1] - offsets[s])
    return T


@njit(cache=True, nogil=True)
def _closed(ahead, at, T, trans, stop, support_at, support, words, begin):
    """The last message with the stop weights put in."""
    K = trans.shape[1]
    w = words[begin + T - 1]
    s0, nb = support_at[w], support_at[w + 1] - support_at[w]
    pad = pad_of(len(trans) > 1, T - 1, K)
    a0 = support_at[words[begin + T - 2]] if pad < 0 else 0
    last = ahead[at[T - 1] : at[T]].copy()
    for a in range(len(last) // max(nb, 1)):
        i = pad if pad >= 0 else support[a0 + a]
        for b in range(nb):
            last[a * nb + b] += stop[i, support[s0 + b]]
    return last


@njit(cache=True, nogil=True)
def log_pass(
    start,  # (K,) log-weights, float64
    trans,  # (1, K, K) or (K + 1, K, K)
    stop,  # (1, K) or (K + 1, K)
    support_at,  # (V + 1,)
    support,  # (cells,)
    emit,  # (cells,)
    words,  # (tokens,)
    offsets,  # (B + 1,)
    todo,  # (n,)
    scale,  # (B,)
    want_counts,
    log_z,  # (B,) out
    n_start,  # (K,) added to
    n_trans,  # as trans, added to: here the counts themselves
    n_stop,  # as stop, added to
    n_emit,  # (cells,) added to
):
    """log Z and counts of the sequences in ``todo``. A sequence of weight zero has log Z = -inf and no counts."""
    K = len(start)
    second = len(trans) > 1
    at = np.empty(_longest(offsets, todo) + 1, np.int64)
    for s in todo:
        begin, T = offsets[s], offsets[s + 1] - offsets[s]
        log_z[s] = 0.0
        if T == 0:
            continue
        message_sizes(second, T, support_at, words, begin, at)
        ahead = np.empty(at[T])
        back = np.empty(at[T])
        shifts = _forward(start, trans, support_at, support, emit, words, begin, T, at, ahead, False)
        log_z[s] = shifts + log_sum(_closed(ahead, at, T, trans, stop, support_at, support, words, begin))
        if not want_counts or log_z[s] == -np.inf:
            continue
        for t in range(T - 1, -1, -1):
            w = words[begin + t]
            s0, nb = support_at[w], support_at[w + 1] - support_at[w]
            na = (at[t + 1] - at[t]) // nb
            pad = pad_of(second, t, K)
            a0 = support_at[words[begin + t - 1]] if pad < 0 else 0
            x = words[begin + t + 1] if t < T - 1 else 0
            c0, nc = (support_at[x], support_at[x + 1] - support_at[x]) if t < T - 1 else (0, 0)
            out = np.empty(nc)
            for a in range(na):
                i = pad if pad >= 0 else support[a0 + a]
                for b in range(nb):
                    j = support[s0 + b]
                    if t == T - 1:
                        back[at[t] + a * nb + b] = stop[i, j]
                        continue
                    row = at[t + 1] + (b * nc if second else 0)
                    for c in range(nc):
                        out[c] = trans[i, j, support[c0 + c]] + emit[c0 + c] + back[row + c]
                    back[at[t] + a * nb + b] = log_sum(out)
            whole = log_sum(ahead[at[t] : at[t + 1]] + back[at[t] : at[t + 1]])  # log Z, less the shifts
            for a in range(na):
                i = pad if pad >= 0 else support[a0 + a]
                for b in range(nb):
                    j = support[s0 + b]
                    here = at[t] + a * nb + b
                    if ahead[here] + back[here] == -np.inf:
                        continue
                    mass = scale[s] * np.exp(ahead[here] + back[here] - whole)
                    n_emit[s0 + b] += mass
                    if t == 0:
                        n_start[j] += mass
                    if t == T - 1:
                        n_stop[i, j] += mass
                    row = at[t + 1] + (b * nc if second else 0)
                    for c in range(nc):
                        k = support[c0 + c]
                        step = trans[i, j, k] + emit[c0 + c] + back[row + c]
                        n_trans[i, j, k] += scale[s] * np.exp(ahead[here] + step - whole)
            _shift(back[at[t] : at[t + 1]])


@njit(cache=True, nogil=True)
def decode_pass(start, trans, stop, support_at, support, emit, words, offsets, uniforms, states, log_z):
    """The best states of every sequence (``uniforms`` empty) or a draw of them (one uniform number a token)."""
    second = len(trans) > 1
    draw = len(uniforms) > 0
    todo = np.arange(len(offsets) - 1)
    at = np.empty(_longest(offsets, todo) + 1, np.int64)
    K = len(start)
    for s in todo:
        begin, T = offsets[s], offsets[s + 1] - offsets[s]
        log_z[s] = 0.0
        if T == 0:
            continue
        message_sizes(second, T, support_at, words, begin, at)
        ahead = np.empty(at[T])
        shifts = _forward(start, trans, support_at, support, emit, words, begin, T, at, ahead, not draw)
        last = _closed(ahead, at, T, trans, stop, support_at, support, words, begin)
        log_z[s] = shifts + (log_sum(last) if draw else np.max(np.append(last, -np.inf)))
        if log_z[s] == -np.inf:
            states[begin : begin + T] = -1
            continue
        w = words[begin + T - 1]
        nb = support_at[w + 1] - support_at[w]
        chosen = _pick(last, uniforms[begin + T - 1] if draw else -1.0)
        a, b = chosen // nb, chosen % nb
        for t in range(T - 1, -1, -1):
            w = words[begin + t]
            states[begin + t] = support[support_at[w] + b]
            if t == 0:
                break
            v = words[begin + t - 1]
            p0, np_ = support_at[v], support_at[v + 1] - support_at[v]
            u = uniforms[begin + t - 1] if draw else -1.0
            j = states[begin + t]
            old = ahead[at[t - 1] : at[t]]
            if not second:  # which b came before b
                score = np.empty(np_)
                for p in range(np_):
                    score[p] = old[p] + trans[0, support[p0 + p], j]
                b = _pick(score, u)
            else:  # (a, b) came from (o, a): which o
                pad = pad_of(second, t - 1, K)
                o0 = support_at[words[begin + t - 2]] if pad < 0 else 0
                score = np.empty(len(old) // np_)
                for o in range(len(score)):
                    i = pad if pad >= 0 else support[o0 + o]
                    score[o] = old[o * np_ + a] + trans[i, support[p0 + a], j]
                b, a = a, _pick(score, u)
