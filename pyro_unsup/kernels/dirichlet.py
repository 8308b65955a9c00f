"""Dirichlet rows from their expected logs: the digamma function inverted, row by row."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..array import Array
from .plumbing import in_shards

#: Steps of a search that has long found what there is to be found.
STEPS = 100


def concentrations(offsets: Array, logs: Array, rounding: float) -> Array:  # (rows + 1,), (cells,) -> (cells,)
    """The concentration of every cell, given its expected log; cells of -inf have none.

    Rows sum to less than one, each by more than rounding.
    """
    found = np.zeros_like(logs)
    if not len(logs):
        return found
    in_shards(lambda a, b: _concentrations(offsets, logs, rounding, found, a, b), np.diff(offsets), len(logs))
    return found


@njit(cache=True, nogil=True)
def _concentrations(offsets: Array, logs: Array, rounding: float, alpha: Array, first: int, last: int) -> None:
    for r in range(first, last):
        a, b = offsets[r], offsets[r + 1]
        cells, total, lowest = 0, 0.0, math.inf
        for i in range(a, b):
            if logs[i] > -math.inf:
                cells += 1
                total += math.exp(logs[i])
                lowest = min(lowest, logs[i])
        if cells == 0:
            continue
        s = max(cells - 1, 1) / (2 * max(1 - total, rounding))
        low, high, change = 0.0, math.inf, math.inf
        for _ in range(STEPS):
            psi = digamma(s)
            added, lost, slopes = 0.0, 0.0, 0.0  # what a sum of many cells loses to rounding would move s by far more
            least = _inverse(lowest + psi, 0.0)  # cells that no data reach are all alike, and may be most of a row
            for i in range(a, b):
                if logs[i] == -math.inf:
                    continue
                near = alpha[i] if change < 1e-3 else 0.0
                alpha[i] = least if logs[i] == lowest else _inverse(logs[i] + psi, near)
                term = alpha[i] - lost
                lost = (added + term - added) - term
                added += term
                slopes += 1 / trigamma(alpha[i])
            excess = added - s
            if excess > 0:
                low = s
            elif excess < 0:
                high = s
            if abs(excess) <= rounding * s:
                break
            new = s - excess / (trigamma(s) * slopes - 1)
            if not low < new < high:
                new = low * 8 if high == math.inf else (math.sqrt(low * high) if low > 0 else high / 8)
            change = abs(new - s) / s
            s = new
            if change <= rounding:
                break


@njit(cache=True, nogil=True)
def _inverse(y: float, near: float) -> float:
    """x with digamma(x) = y, by Newton's method from what is near, or from T. Minka (2000), appendix C."""
    x, steps = near, 2
    if near <= 0:
        x, steps = math.exp(min(y, 700.0)) + 0.5 if y >= -2.22 else -1 / (y + 0.5772156649015329), 5
    for _ in range(steps):
        new = x - (digamma(x) - y) / trigamma(x)
        x = new if new > 0 else x / 8
    return x


@njit(cache=True, nogil=True)
def digamma(x: float) -> float:
    """Of a positive number: shifted up, then by Stirling's series."""
    found = 0.0
    while x < 8:
        found -= 1 / x
        x += 1
    y = 1 / (x * x)
    tail = 1 / 12 - y * (
        1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * (691 / 32760 - y * (1 / 12 - y * 3617 / 8160)))))
    )
    return found + math.log(x) - 0.5 / x - y * tail


@njit(cache=True, nogil=True)
def trigamma(x: float) -> float:
    """The trigamma function of a positive number, to ten digits, computed as above. Newton's method needs no more."""
    found = 0.0
    while x < 8:
        found += 1 / (x * x)
        x += 1
    y = 1 / (x * x)
    return found + 1 / x + 0.5 * y + y / x * (1 / 6 - y * (1 / 30 - y * (1 / 42 - y / 30)))
