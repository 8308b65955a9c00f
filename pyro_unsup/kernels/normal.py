"""Normal densities of every observation in every state, and weighted moments: one pass over the data each.

Observations are taken some at a time, a coordinate after the other, so that the inner loop goes over observations side
by side. A coordinate that is NaN is left out.
"""

from __future__ import annotations

import math

import numpy as np

from ..array import Array
from .ring import compiled
from .room import room
from .threads import in_parts, on_threads, threads_for

#: Numbers that take as long as a token of a chain, by which threads are counted.
CELLS_A_TOKEN = 16
#: Observations that are taken together.
BLOCK = 32
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@compiled
def _densities(x, mean, scale, first, last, out):  # (N, D), (K, D) x 2, (N, K) out
    (K, D), precision, constant = mean.shape, np.empty_like(scale), np.empty_like(scale)
    for k in range(K):
        for d in range(D):
            precision[k, d] = 1 / scale[k, d] if scale[k, d] != 0.0 else np.inf
            constant[k, d] = -np.log(scale[k, d]) - HALF_LOG_2PI
    y, total = np.empty(BLOCK), np.empty((K, BLOCK))
    for begin in range(first, last, BLOCK):
        n = min(BLOCK, last - begin)
        total[:] = 0.0
        for d in range(D):
            for r in range(n):
                y[r] = x[begin + r, d]
            for k in range(K):
                m, p, c, row = mean[k, d], precision[k, d], constant[k, d], total[k]
                for r in range(n):
                    z = (y[r] - m) * p
                    row[r] += 0.0 if np.isnan(y[r]) else c - 0.5 * z * z
        for r in range(n):
            for k in range(K):
                out[begin + r, k] = total[k, r]


@compiled
def _moments(x, w, centre, first, last, sums):  # (N, D), (N, K), (K, D); (3, K, D) added to
    K, D = centre.shape
    y, weights = np.empty(BLOCK), np.empty((K, BLOCK))
    for begin in range(first, last, BLOCK):
        n = min(BLOCK, last - begin)
        for r in range(n):
            for k in range(K):
                weights[k, r] = w[begin + r, k]
        for d in range(D):
            for r in range(n):
                y[r] = x[begin + r, d]
            for k in range(K):
                c, row = centre[k, d], weights[k]
                s0, s1, s2 = 0.0, 0.0, 0.0
                for r in range(n):
                    gone = np.isnan(y[r])
                    mass, away = 0.0 if gone else row[r], 0.0 if gone else y[r] - c
                    s0 += mass
                    s1 += mass * away
                    s2 += mass * away * away
                sums[0, k, d] += s0
                sums[1, k, d] += s1
                sums[2, k, d] += s2


@compiled
def mean_and_scale(sums, centre, digits, mean, scale):  # (3, K, D), (K, D) -> (K, D) x 2
    """The mean and standard deviation that moments about a centre tell; NaN where there is no weight.

    Says whether all variances have digits enough: each is at least a share of the squares that it is a difference of.
    """
    enough = True
    for k in range(len(mean)):
        for d in range(mean.shape[1]):
            n = sums[0, k, d]
            away = sums[1, k, d] / n if n > 0 else np.nan
            variance = sums[2, k, d] / n - away * away if n > 0 else np.nan
            mean[k, d] = centre[k, d] + away
            scale[k, d] = math.sqrt(variance) if variance > 0 else 0.0 * variance
            enough &= not (variance < digits * max(away * away, digits * mean[k, d] ** 2))
    return enough


def densities(x: Array, mean: Array, scale: Array) -> Array:  # (N, D), (K, D), (K, D) -> (N, K)
    """log N(x; mean, scale), summed over coordinates."""
    N, K = len(x), len(mean)
    out = room(N * K).reshape(N, K)
    in_parts(lambda a, b: _densities(x, mean, scale, a, b, out), N, N * K * x.shape[1] // CELLS_A_TOKEN)
    return out


def moments(x: Array, w: Array, centre: Array) -> Array:  # (N, D), (N, K), (K, D) -> (3, K, D)
    """Weighted sums of 1, of distances from a centre, and of their squares, by state and coordinate."""
    N, (K, D) = len(x), centre.shape
    # All observations take the same time: as many parts as there are threads, each with sums of its own.
    parts = threads_for(N * K * D // CELLS_A_TOKEN)
    sums = np.zeros((parts, 3, K, D))
    on_threads(lambda i: _moments(x, w, centre, N * i // parts, N * (i + 1) // parts, sums[i]), parts)
    found: Array = sums[0] if parts == 1 else sums.sum(0)
    return found
