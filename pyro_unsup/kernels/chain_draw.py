"""The states of a first-order chain in which every word allows every state: the best ones, or exact draws.

Both go forwards once and make one choice a word backwards. Draws sum in scaled real space, the best are found in logs.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .limits import FAST
from .ring import longest_of


@njit(cache=True, nogil=True, fastmath=FAST)
def draw_pass(
    start,  # (K,) real weights, at most 1
    trans,  # (K, K)
    onward,  # (K, K) the same, transposed
    stop,  # (K,)
    emit,  # (V, K) rows at most 1
    words,  # (tokens,)
    offsets,  # (B + 1,)
    todo,  # which sequences
    uniforms,  # (tokens,)
    states,  # (tokens,) out; -1 throughout a sequence that is impossible
):
    K = len(start)
    ahead = np.empty((longest_of(offsets, todo), K))
    share = np.empty(K)
    for s in todo:
        begin, T = offsets[s], offsets[s + 1] - offsets[s]
        alive = True
        for t in range(T):
            new, row = ahead[t], emit[words[begin + t]]
            if t == 0:
                for c in range(K):
                    new[c] = start[c]
            else:
                old = ahead[t - 1]
                for c in range(K):
                    new[c] = 0.0
                for b in range(K):
                    weight, edges = old[b], trans[b]
                    for c in range(K):
                        new[c] += weight * edges[c]
            total = 0.0
            for c in range(K):
                new[c] *= row[c]
                total += new[c]
            if not total > 0.0:
                alive = False
                break
            scale = 1.0 / total
            for c in range(K):
                new[c] *= scale
        for t in range(T - 1, -1, -1):
            if not alive:
                states[begin : begin + T] = -1
                break
            factor = stop if t == T - 1 else onward[states[begin + t + 1]]
            total = 0.0
            for b in range(K):
                share[b] = ahead[t, b] * factor[b]
                total += share[b]
            if not total > 0.0:
                alive = False
                states[begin : begin + T] = -1
                break
            left, chosen = uniforms[begin + t] * total, 0
            for b in range(K):
                if share[b] > 0.0:
                    chosen = b
                    left -= share[b]
                    if left < 0.0:
                        break
            states[begin + t] = chosen


@njit(cache=True, nogil=True, fastmath=FAST)
def _largest(one, other):  # (K,) each
    """The largest sum of two weights, and the first place where it is."""
    top = -np.inf
    for b in range(len(one)):
        both = one[b] + other[b]
        top = both if both > top else top
    for b in range(len(one)):
        if one[b] + other[b] == top:
            return top, b
    return top, 0


@njit(cache=True, nogil=True, fastmath=FAST)
def best_dense_pass(
    start,  # (K,) logs
    trans,  # (K, K)
    onward,  # (K, K) the same, transposed
    stop,  # (K,)
    emit,  # (V, K)
    words,  # (tokens,)
    offsets,  # (B + 1,)
    todo,  # which sequences
    states,  # (tokens,) out; -1 throughout a sequence that is impossible
):
    K = len(start)
    ahead = np.empty((longest_of(offsets, todo), K))
    for s in todo:
        begin, T = offsets[s], offsets[s + 1] - offsets[s]
        if T == 0:
            continue
        top, chosen = -np.inf, 0
        for t in range(T):
            new, row = ahead[t], emit[words[begin + t]]
            if t == 0:
                for c in range(K):
                    new[c] = start[c]
            else:
                # No pointers back: a choice made again for the states of the best path alone costs less. Four rows at a
                # time, as much of the work is to read and write the new message.
                old = ahead[t - 1]
                for c in range(K):
                    new[c] = -np.inf
                whole = K - K % 4
                for b in range(0, whole, 4):
                    b0, b1, b2, b3 = old[b], old[b + 1], old[b + 2], old[b + 3]
                    e0, e1, e2, e3 = trans[b], trans[b + 1], trans[b + 2], trans[b + 3]
                    for c in range(K):
                        best, step = new[c], b0 + e0[c]
                        best = step if step > best else best
                        step = b1 + e1[c]
                        best = step if step > best else best
                        step = b2 + e2[c]
                        best = step if step > best else best
                        step = b3 + e3[c]
                        new[c] = step if step > best else best
                for b in range(whole, K):
                    mass, edges = old[b], trans[b]
                    for c in range(K):
                        step = mass + edges[c]
                        new[c] = step if step > new[c] else new[c]
            top = -np.inf
            for c in range(K):
                new[c] += row[c]
                top = new[c] if new[c] > top else top
            if not top > -np.inf:
                break
            for c in range(K):
                new[c] -= top  # which saves digits
        if top > -np.inf:
            top, chosen = _largest(ahead[T - 1], stop)
        if not top > -np.inf:
            states[begin : begin + T] = -1
            continue
        for t in range(T - 1, -1, -1):
            states[begin + t] = chosen
            if t > 0:
                _, chosen = _largest(ahead[t - 1], onward[chosen])
