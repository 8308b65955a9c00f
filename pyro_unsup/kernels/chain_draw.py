"""Exact draws of the states of a first-order chain: sums forwards in scaled real space, one choice a word backwards."""

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
