"""Rows of probabilities that are likely for some counts and mostly zero: c log x, less a smooth count of what is not 0.

A row x of probabilities is worth ``sum_k c_k log x_k - a sum_k (1 - exp(-x_k / b))``. The second part, minus included,
is convex: it lies above its tangent at any y. With the tangent in its place, the worth is concave, and largest at
``x_k = c_k / (m + d_k)``, with d the slopes of the tangent over the least of them, and m such that the row adds up to
1. That x is worth at least as much as y: steps of this kind never go down.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..array import Array

compiled = njit(cache=True, nogil=True)

#: Steps for one row; for its multiplier; and how little a step must change before it is the last.
STEPS, SEARCH, CLOSE = 200, 60, 1e-12


@compiled
def worth(c: Array, x: Array, strength: float, width: float) -> float:
    """What a row of probabilities is worth."""
    found = 0.0
    for k in range(len(c)):
        if c[k] > 0:
            if not x[k] > 0:
                return -np.inf
            found += c[k] * math.log(x[k])
        found += strength * math.expm1(-x[k] / width)
    return found


@compiled
def multiplier(c: Array, d: Array) -> float:
    """m, at which ``sum c / (m + d)`` is 1. One over that sum is concave in m: Newton's steps from below stay below."""
    m = -np.inf
    for k in range(len(c)):
        if c[k] > 0:
            m = max(m, c[k] - d[k])  # one term is 1 there, so the sum is not less
    for _ in range(SEARCH):
        total, slope = 0.0, 0.0
        for k in range(len(c)):
            if c[k] > 0:
                part = c[k] / (m + d[k])
                total += part
                slope += part / (m + d[k])
        step = total * (total - 1) / slope
        if not step > 1e-15 * abs(m):
            break
        m += step
    return m


@compiled
def climb(c: Array, x: Array, d: Array, strength: float, width: float) -> None:
    """Steps from one row of probabilities to a better one, in place, until they change nothing."""
    for _ in range(STEPS):
        top = 0.0
        for k in range(len(c)):
            if c[k] > 0:
                top = max(top, x[k])
        least = strength / width * math.exp(-top / width)
        for k in range(len(c)):
            # The difference of two exponentials, without loss where they are nearly the same or both tiny.
            far = (top - x[k]) / width
            d[k] = least * math.expm1(far) if far < 30 else strength / width * math.exp(-x[k] / width) - least
        m = multiplier(c, d)
        total = 0.0
        for k in range(len(c)):
            if c[k] > 0:
                total += c[k] / (m + d[k])
        change = 0.0
        for k in range(len(c)):
            new = c[k] / (m + d[k]) / total if c[k] > 0 else 0.0
            change = max(change, abs(new - x[k]))
            x[k] = new
        if change <= CLOSE:
            break


@compiled
def sparse_rows(
    counts: Array,  # (cells,) row by row
    offsets: Array,  # (rows + 1,) where each row begins
    shares: Array,  # (cells,) relative frequencies in, a place to start; what was found out
    old: Array,  # (cells,) rows from before: nothing that is worth less is taken
    strength: float,
    width: float,
) -> None:
    """Make every row as good as it gets from the best of three starts. Rows without counts stay as they are."""
    longest = 0
    for r in range(len(offsets) - 1):
        longest = max(longest, offsets[r + 1] - offsets[r])
    slopes, other = np.empty(longest), np.empty(longest)
    for r in range(len(offsets) - 1):
        a, b = offsets[r], offsets[r + 1]
        c, x, y, before = counts[a:b], shares[a:b], other[: b - a], old[a:b]
        if not c.max() > 0:
            continue
        climb(c, x, slopes, strength, width)
        reached, known = worth(c, x, strength, width), worth(c, before, strength, width)
        y[:] = 0.0
        y[c.argmax()] = 1.0  # all other outcomes are cheap from here
        climb(c, y, slopes, strength, width)
        if worth(c, y, strength, width) > reached:
            x[:] = y
            reached = worth(c, x, strength, width)
        if reached < known:
            y[:] = before
            climb(c, y, slopes, strength, width)
            x[:] = y if worth(c, y, strength, width) >= known else before
