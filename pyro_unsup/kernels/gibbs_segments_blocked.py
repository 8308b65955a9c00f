"""One sweep of collapsed Gibbs sampling over sentences: all cuts of one are proposed at once, and accepted or not.

A sentence is taken out of the counts. What is left, held fixed, gives every segment s a weight

    w(s) = (n(s) + beta) / (N + M beta) * (N + alpha) / (N + T + 2 alpha) * v(|s|)

(see :mod:`.gibbs_segments`), and cuts are drawn in proportion to the product of the weights: forward sums f(t) over all
ways to cut what comes before t, then backwards p(width of the segment that ends at t) ~ f(t - width) w(s). In truth
counts change within a sentence; the acceptance ratio of an independence proposal makes up for that exactly. All sums
are of logs: the penalties and low temperatures leave the range of floats.
"""

from __future__ import annotations

from math import exp, inf, log, log1p
from typing import Any

import numpy as np
from numba import njit

Array = Any


@njit(cache=True, nogil=True)
def put(
    cells: Array,
    lo: int,
    hi: int,
    ends: Array,
    n: Array,
    total: int,
    sentences: int,
    log_penalty: Array,
    alpha: float,
    beta: float,
) -> float:
    """Count the segments of a sentence; their log probability given what had been counted before."""
    found, first = 0.0, lo
    for t in range(lo, hi):
        if ends[t]:
            s = cells[t, t - first]
            p = (n[s] + beta) / (total + len(n) * beta) * (total + alpha) / (total + sentences + 2 * alpha)
            found += log(p) + log_penalty[t - first + 1]
            n[s] += 1
            total += 1
            first = t + 1
    return found


@njit(cache=True, nogil=True)
def take(cells: Array, lo: int, hi: int, ends: Array, n: Array) -> int:
    """Take the segments of a sentence out of the counts; how many there were."""
    found, first = 0, lo
    for t in range(lo, hi):
        if ends[t]:
            n[cells[t, t - first]] -= 1
            found += 1
            first = t + 1
    return found


@njit(cache=True, nogil=True)
def weigh(
    cells: Array,
    lo: int,
    hi: int,
    n: Array,
    common: float,  # the log of what all weights have in common
    log_penalty: Array,
    beta: float,
    power: float,
    weights: Array,  # (T, L) out: log w to the power
    sums: Array,  # (T + 1,) out: log f
) -> None:
    """Weights of all segments of a sentence, and the forward sums."""
    sums[0] = 0.0
    for t in range(hi - lo):
        widest, top = min(t + 1, cells.shape[1]), -inf
        for width in range(1, widest + 1):
            w = power * (log(n[cells[lo + t, width - 1]] + beta) + common + log_penalty[width])
            weights[t, width - 1] = w
            top = max(top, sums[t + 1 - width] + w)
        rest = 0.0
        for width in range(1, widest + 1):
            rest += exp(sums[t + 1 - width] + weights[t, width - 1] - top)
        sums[t + 1] = top + log(rest)


@njit(cache=True, nogil=True)
def draw(weights: Array, sums: Array, uniforms: Array, ends: Array) -> None:
    """Cuts of a sentence of ``len(ends)`` symbols, from its end to its beginning."""
    t = len(ends)
    for k in range(t):
        ends[k] = 0
    while t > 0:
        ends[t - 1] = 1
        widest, left, chosen = min(t, weights.shape[1]), uniforms[t - 1], 1
        for width in range(1, widest + 1):
            p = exp(sums[t - width] + weights[t - 1, width - 1] - sums[t])
            if p > 0.0:
                chosen = width  # so that rounding of the last sum chooses something that can be
            left -= p
            if left < 0.0:
                break
        t -= chosen


@njit(cache=True, nogil=True)
def log_weight(weights: Array, ends: Array) -> float:
    """The log of the product of the weights of the segments of a sentence."""
    found, first = 0.0, 0
    for t in range(len(ends)):
        if ends[t]:
            found += weights[t, t - first]
            first = t + 1
    return found


@njit(cache=True, nogil=True)
def sweep(
    cells: Array,  # (symbols, L) int32, the type of the segment that ends at each symbol, by its length
    offsets: Array,  # (B + 1,)
    ends: Array,  # (symbols,) int32, in and out
    n: Array,  # (M,) int32
    total: int,
    sentences: int,  # those with a symbol
    log_penalty: Array,  # (L + 1,) log v by length
    alpha: float,
    beta: float,
    power: float,  # one over the temperature
    uniforms: Array,  # (symbols,)
    decisions: Array,  # (B,) uniform
) -> tuple[int, int, int]:
    """Propose new cuts for each sentence, in order: how many segments there are now, proposals, and those accepted."""
    longest = 1
    for s in range(len(offsets) - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    weights, sums, new = np.empty((longest, cells.shape[1])), np.empty(longest + 1), np.empty(len(ends), np.int32)
    proposed, accepted = 0, 0
    for s in range(len(offsets) - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if hi - lo < 2:
            continue
        proposed += 1
        total -= take(cells, lo, hi, ends, n)
        common = log((total + alpha) / (total + sentences + 2 * alpha) / (total + len(n) * beta))
        weigh(cells, lo, hi, n, common, log_penalty, beta, power, weights, sums)
        draw(weights, sums[: hi - lo + 1], uniforms[lo:hi], new[lo:hi])
        rest = (n, total, sentences, log_penalty, alpha, beta)
        before = put(cells, lo, hi, ends, *rest)
        take(cells, lo, hi, ends, n)
        after = put(cells, lo, hi, new, *rest)
        ratio = power * (after - before) + log_weight(weights, ends[lo:hi]) - log_weight(weights, new[lo:hi])
        if log1p(-decisions[s]) < ratio:
            accepted += 1
            ends[lo:hi] = new[lo:hi]
        else:
            take(cells, lo, hi, new, n)
            put(cells, lo, hi, ends, *rest)
        for t in range(lo, hi):
            total += ends[t]
    return total, proposed, accepted
