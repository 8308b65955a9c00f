"""One sweep of collapsed Gibbs sampling over the cuts of sentences into segments, the lexicon integrated out.

At a place inside a sentence, with a cut on either side of it, s is what lies between those two, l and r what is left
and right of the place. All counts without these, N segments in all and T sentences, the number of types M,

    p(no cut) ~ (n(s) + beta) v(|s|)
    p(cut)    ~ (n(l) + beta) (n(r) + [l = r] + beta) / (N + 1 + M beta)
                * (N + 1 + alpha) / (N + 1 + T + 2 alpha) * v(|l|) v(|r|)

where v is the penalty of a length, and alpha the concentration of going on and stopping: one more segment is one more
decision to go on.
"""

from __future__ import annotations

from math import exp, inf, log
from typing import Any

from numba import njit

Array = Any


@njit(cache=True, nogil=True)
def draw_start(ends: Array, offsets: Array, longest: int, uniforms: Array) -> None:
    """Cuts after every symbol with probability one half, and where a segment would become too long."""
    for s in range(len(offsets) - 1):
        width = 0
        for t in range(offsets[s], offsets[s + 1]):
            width += 1
            ends[t] = 1 if t == offsets[s + 1] - 1 or width == longest or uniforms[t] < 0.5 else 0
            if ends[t]:
                width = 0


@njit(cache=True, nogil=True)
def log_odds(
    whole: int,  # types of the segments; -1 for a whole that is too long
    left: int,
    right: int,
    n: Array,  # (M,) int32, without these
    total: int,
    sentences: int,
    log_penalty: float,  # of the two, less that of the whole
    alpha: float,
    beta: float,
) -> float:
    """Log odds of a cut. Penalties may underflow, so they stay in logs."""
    if whole < 0:
        return inf
    cut = (n[left] + beta) * (n[right] + (1 if left == right else 0) + beta) / (total + 1 + len(n) * beta)
    cut *= (total + 1 + alpha) / (total + 1 + sentences + 2 * alpha)
    return log(cut / (n[whole] + beta)) + log_penalty


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
) -> int:
    """Draw every place anew, in order; how many segments there are now."""
    L = cells.shape[1]
    for s in range(len(offsets) - 1):
        first = offsets[s]  # where the segment that holds the present symbol begins
        for t in range(offsets[s], offsets[s + 1] - 1):
            last = t + 1  # where the next segment ends
            while ends[last] == 0:
                last += 1
            wide = last - first + 1
            left, right = cells[t, t - first], cells[last, last - t - 1]
            whole = cells[last, wide - 1] if wide <= L else -1
            if ends[t]:
                n[left] -= 1
                n[right] -= 1
                total -= 2
            else:
                n[whole] -= 1
                total -= 1
            v = log_penalty[t - first + 1] + log_penalty[last - t] - log_penalty[min(wide, L)]
            x = power * log_odds(whole, left, right, n, total, sentences, v, alpha, beta)
            if uniforms[t] * (1.0 + exp(-x)) < 1.0:
                ends[t] = 1
                n[left] += 1
                n[right] += 1
                total += 2
                first = t + 1
            else:
                ends[t] = 0
                n[whole] += 1
                total += 1
    return total
