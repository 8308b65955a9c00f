"""Normal densities of every observation in every state, and weighted moments: one pass over the data each.

Tables lie (D, K), so that the inner loop goes over states side by side. A coordinate that is NaN is left out.
"""

from __future__ import annotations

import numpy as np

from ..array import Array
from .plumbing import in_shards
from .ring import compiled
from .room import room
from .threads import in_parts, threads_for

#: Numbers that take as long as a token of a chain, by which threads are counted.
CELLS_A_TOKEN = 16


@compiled
def _densities(x, mean, precision, constant, first, last, out):  # (N, D), (D, K) x 3, (N, K) out
    K = mean.shape[1]
    for t in range(first, last):
        row = out[t]
        for k in range(K):
            row[k] = 0.0
        for d in range(x.shape[1]):
            y = x[t, d]
            if np.isnan(y):
                continue
            m, p, c = mean[d], precision[d], constant[d]
            for k in range(K):
                z = (y - m[k]) * p[k]
                row[k] += c[k] - 0.5 * z * z


@compiled
def _moments(x, w, centre, first, last, n, s1, s2):  # (N, D), (N, K), (D, K); added to: (D, K) x 3
    K = w.shape[1]
    for t in range(first, last):
        weights = w[t]
        for d in range(x.shape[1]):
            y = x[t, d]
            if np.isnan(y):
                continue
            c, a, b, e = centre[d], n[d], s1[d], s2[d]
            for k in range(K):
                away = y - c[k]
                a[k] += weights[k]
                b[k] += weights[k] * away
                e[k] += weights[k] * away * away


def densities(x: Array, mean: Array, scale: Array) -> Array:  # (N, D), (K, D), (K, D) -> (N, K)
    """log N(x; mean, scale), summed over coordinates."""
    N, K = len(x), len(mean)
    out = room(N * K).reshape(N, K)
    constant = np.ascontiguousarray(-np.log(scale.T) - 0.5 * np.log(2 * np.pi))
    tables = np.ascontiguousarray(mean.T), np.ascontiguousarray(1 / scale.T), constant
    in_parts(lambda a, b: _densities(x, *tables, a, b, out), N, N * K * x.shape[1] // CELLS_A_TOKEN)
    return out


def moments(x: Array, w: Array, centre: Array) -> tuple[Array, Array, Array]:  # (N, D), (N, K), (K, D) -> (K, D) x 3
    """Weighted sums of 1, of distances from a centre, and of their squares, by state and coordinate."""
    N, (K, D) = len(x), centre.shape
    at = np.ascontiguousarray(centre.T)

    def run(a: int, b: int, *sums: Array) -> None:
        _moments(x, w, at, a, b, *sums)

    # All observations take the same time: as many parts as there are threads, each of which is one piece of work.
    parts = threads_for(N * K * D // CELLS_A_TOKEN)
    cuts = N * np.arange(parts + 1) // parts
    found = in_shards(lambda a, b, *sums: run(cuts[a], cuts[b], *sums), np.ones(parts), parts << 20, [(D, K)] * 3)
    return found[0].T, found[1].T, found[2].T
