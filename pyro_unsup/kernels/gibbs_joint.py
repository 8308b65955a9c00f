"""The log joint probability of tags and words, tables integrated out, from their counts.

A row of counts n_1 .. n_m under a symmetric Dirichlet(a) has the probability

    Gamma(m a) / Gamma(m a + n)  *  prod_j Gamma(a + n_j) / Gamma(a).

Most counts are small, so the logs of their factors are looked up; what is left is one pass over integers.
"""

from __future__ import annotations

from math import lgamma, log, log1p
from typing import Any

import numpy as np
from numba import njit

Array = Any

#: Counts below this are looked up.
SMALL = 64
#: Above this, the next term of Stirling's series is lost in rounding.
LARGE = 1e4


@njit(cache=True, nogil=True)
def rising(a: float, n: int) -> float:
    """log Gamma(a + n) / Gamma(a), also where a is so large that the two would cancel."""
    if n < SMALL:
        total = 0.0
        for j in range(n):
            total += log(a + j)
        return total
    if a > LARGE:  # Stirling's series, the difference taken term by term
        return (a - 0.5) * log1p(n / a) + n * (log(a + n) - 1.0) + (1.0 / (a + n) - 1.0 / a) / 12.0
    return lgamma(a + n) - lgamma(a)


@njit(cache=True, nogil=True)
def log_choices(
    cells: Array,  # (rows, outcomes) int32
    totals: Array,  # (rows,) int32
    kind: Array,  # (rows,) which alpha a row has
    alpha: Array,  # (kinds,)
    mass: Array,  # (kinds,) times the number of outcomes
) -> float:
    small = np.zeros((len(alpha), SMALL))
    for k in range(len(alpha)):
        for n in range(1, SMALL):
            small[k, n] = small[k, n - 1] + log(alpha[k] + (n - 1))
    found = 0.0
    for r in range(len(totals)):
        if totals[r] == 0:
            continue
        k = kind[r]
        found -= rising(mass[k], totals[r])
        for c in range(cells.shape[1]):
            n = cells[r, c]
            found += small[k, n] if n < SMALL else rising(alpha[k], n)
    return found


@njit(cache=True, nogil=True)
def log_emissions(
    n_cell: Array,  # (cells,) int32
    tag_of: Array,  # (cells,) int32
    n_tag: Array,  # (K,) int32
    types: Array,  # (K,) how many words each tag may have
    beta: Array,  # (K,)
) -> Array:  # (K,)
    K = len(n_tag)
    small = np.zeros((K, SMALL))
    found = np.zeros(K)
    for k in range(K):
        for n in range(1, SMALL):
            small[k, n] = small[k, n - 1] + log(beta[k] + (n - 1))
        found[k] = -rising(types[k] * beta[k], n_tag[k])
    for j in range(len(n_cell)):
        n, k = n_cell[j], tag_of[j]
        found[k] += small[k, n] if n < SMALL else rising(beta[k], n)
    return found
