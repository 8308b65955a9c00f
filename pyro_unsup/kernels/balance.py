"""One step of the search for balanced expectations (:mod:`pyro_unsup.distributions.balance`), example by example."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..array import Array

#: How far a step goes at most, of the way to where each part on its own would be balanced.
LONGEST = 0.8
#: By how much the dual may rise by rounding, relative to its size.
ROUNDING = 1e-12
#: Added to the diagonal of least squares, relative to its mean.
RIDGE = 1e-10
#: No logit is taken of more than one less this.
EPS = float(np.finfo(np.float64).eps)
#: No sum of squares is divided by less.
TINY = float(np.finfo(np.float64).tiny)


@njit(cache=True, nogil=True)
def step(
    one: Array,  # (parts,) expectations under what was tried, example after example
    other: Array,  # (parts,)
    signs: Array,  # (parts,) 0 where there is nothing to balance
    dual: Array,  # (B,) under what was tried
    offsets: Array,  # (B + 1,) where the parts of each example begin
    tolerance: float,
    first: int,
    last: int,
    at: Array,  # (parts,) tried multipliers, in and out
    best: Array,  # (parts,) the best so far; +inf where one side has nothing
    residual: Array,  # (parts,) how far each part alone would go from there
    curvature: Array,  # (parts,) of the dual there
    moves: Array,  # (memory, parts) the last few moves
    turns: Array,  # (memory, parts) what they did to the residual
    lowest: Array,  # (B,) the dual at the best
    length: Array,  # (B,) of steps
    stored: Array,  # (B,) how many moves are remembered
    newest: Array,  # (B,) the place for the next one
    apart: Array,  # (B,) the largest difference of two expectations
    going: Array,  # (B,) whether the search goes on
) -> None:
    """Keep what was tried if the dual is not higher, and choose what to try next."""
    memory = len(moves)
    for b in range(first, last):
        if not going[b]:
            continue
        begin, end = offsets[b], offsets[b + 1]
        if dual[b] == -np.inf:  # of the data as they are others will say so; or else the two sides contradict
            apart[b] = 0.0 if lowest[b] == np.inf and not at[begin:end].any() else np.inf
            going[b] = False
            continue
        if dual[b] <= lowest[b] + ROUNDING * (1 + abs(dual[b])):
            known = lowest[b] < np.inf
            slot, worst, barred = newest[b], 0.0, False
            for c in range(begin, end):
                p, q = one[c], other[c]
                if signs[c] == 0 or best[c] == np.inf:
                    continue
                if (p == 0) != (q == 0):
                    # What one side holds impossible is so for both: only a multiplier without end brings that about.
                    best[c], residual[c], curvature[c], barred = np.inf, 0.0, 0.0, True
                    moves[:, c], turns[:, c] = 0.0, 0.0
                    continue
                r = 0.0
                if p > 0:
                    r = 0.5 * np.log(p * max(1 - q, EPS) / (q * max(1 - p, EPS)))
                if known:
                    moves[slot, c], turns[slot, c] = at[c] - best[c], r - residual[c]
                best[c], residual[c], curvature[c] = at[c], r, p * (1 - p) + q * (1 - q)
                worst = max(worst, abs(p - q))
            if known:
                stored[b], newest[b] = min(stored[b] + 1, memory), (slot + 1) % memory
            lowest[b], apart[b] = (np.inf, np.inf) if barred else (dual[b], worst)
            length[b] = min(2 * length[b], LONGEST)
            going[b] = apart[b] > tolerance
        elif stored[b] > 0:  # earlier moves were no guide
            stored[b], newest[b] = 0, 0
        else:
            length[b] /= 2
        if going[b]:
            _move(best, residual, curvature, moves, turns, begin, end, stored[b], length[b], at)


@njit(cache=True, nogil=True)
def _move(
    best: Array,
    residual: Array,
    curvature: Array,
    moves: Array,
    turns: Array,
    begin: int,
    end: int,
    stored: int,
    length: float,
    at: Array,
) -> None:
    """Go along the residual, less the combination of earlier moves that would have left the least of it."""
    gram, wanted = np.zeros((stored, stored)), np.zeros(stored)
    for i in range(stored):
        for k in range(i + 1):
            total = 0.0
            for c in range(begin, end):
                total += curvature[c] * turns[i, c] * turns[k, c]
            gram[i, k] = gram[k, i] = total
        for c in range(begin, end):
            wanted[i] += curvature[c] * turns[i, c] * residual[c]
    ridge = TINY
    for i in range(stored):
        ridge += RIDGE * gram[i, i] / stored
    for i in range(stored):
        gram[i, i] += ridge
    for i in range(stored):  # Gaussian elimination of a positive definite matrix
        for k in range(i + 1, stored):
            factor = gram[k, i] / gram[i, i]
            for j in range(i, stored):
                gram[k, j] -= factor * gram[i, j]
            wanted[k] -= factor * wanted[i]
    for i in range(stored - 1, -1, -1):
        for k in range(i + 1, stored):
            wanted[i] -= gram[i, k] * wanted[k]
        wanted[i] /= gram[i, i]
    for c in range(begin, end):
        at[c] = best[c] + length * residual[c]
    for i in range(stored):
        for c in range(begin, end):
            at[c] -= wanted[i] * (moves[i, c] + length * turns[i, c])
