"""One of several weights: the largest, or one that is drawn."""

from __future__ import annotations

import math

import numpy as np

from ..array import Array
from .ring import LOG, MAX, REAL, compiled


@compiled
def choose(mode: int, weights: Array, u: float) -> int:  # (n,)
    """The index of the largest weight, the lowest of equals (MAX); or of one drawn in proportion, from reals or logs.

    :param u: a uniform number, by which to draw.
    """
    top, best, total = -np.inf, 0, 0.0
    if mode != REAL:
        for i in range(len(weights)):
            top = max(top, weights[i])
    if mode == MAX:
        while best < len(weights) and weights[best] < top:
            best += 1
    if mode == MAX or (mode == LOG and top == -np.inf):
        return best
    for i in range(len(weights)):
        total += weights[i] if mode == REAL else math.exp(weights[i] - top)
    left = u * total
    for i in range(len(weights)):
        step = weights[i] if mode == REAL else math.exp(weights[i] - top)
        if step > 0:
            best = i
            left -= step
            if left < 0:
                break
    return best
