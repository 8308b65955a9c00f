"""Draw one of several outcomes by their weights."""

from __future__ import annotations

from typing import Any

from numba import njit

Array = Any


@njit(cache=True, nogil=True)
def choose(weights: Array, size: int, power: float, uniform: float) -> int:
    """Draw one of the first ``size`` places, by weights to a power. The weights are overwritten."""
    if power != 1.0:
        top = 0.0
        for j in range(size):
            top = max(top, weights[j])
        for j in range(size):
            weights[j] = (weights[j] / top) ** power
    total = 0.0
    for j in range(size):
        total += weights[j]
        weights[j] = total
    threshold, found = uniform * total, 0
    for j in range(size - 1):  # all of them: a jump out of the loop that nobody can foresee costs more
        found += 1 if weights[j] <= threshold else 0
    return found
