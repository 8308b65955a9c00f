"""Forward-backward over the segmentations of a sentence, in scaled real space.

``ahead[t]`` sums over the ways to cut up the first t symbols, ``behind[t]`` over those of the rest. Both shrink with
every symbol, so now and then the latest messages are multiplied by a power of two, which loses no digit, and on the way
back the same powers are taken out again. Thus ``ahead[t] * behind[t]`` is the probability of a cut after t symbols, and
the largest of neighbouring ``ahead`` stays near 1.

What underflows on the way was below ``tiny`` (the smallest normal number), and would have added at most ``tiny`` times
what it is multiplied by to a probability: messages and weights. Hence, if the product of the largest of those is within
a limit, the probability lost is below ``tiny * limit`` a segment, far under the rounding error. A sentence that breaks
the limit is done again in log space (:mod:`.segmentation_log`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from .limits import FAST

Array = np.ndarray[Any, Any]

#: Messages outside this range are brought back to 1: wide, so that it seldom happens; far from the ends of float64.
LOW, HIGH = 2.0**-200, 2.0**200
TINY = float(np.finfo(np.float64).tiny)
LOG_2 = math.log(2.0)


@njit(cache=True, nogil=True, fastmath=FAST)
def scaled_pass(
    segments: Array,  # (S + 1,) weights; the last is 0, for what cannot be a segment (number -1)
    length: Array,  # (L + 1,) weights, with the weight of going on put in
    log_stop: float,
    cells: Array,  # (symbols, L)
    offsets: Array,  # (B + 1,)
    first: int,  # which sentences
    last: int,
    limit: float,
    scale: Array,  # (B,) how much the counts of each sentence weigh; empty if only log Z is wanted
    log_z: Array,  # (B,) out
    trouble: Array,  # (B,) out: do this one again in log space
    n_segments: Array,  # (S + 1,) added to
    n_length: Array,  # (L + 1,) added to
    n_stop: Array,  # (2,) added to
) -> None:
    L = len(length) - 1
    longest = 0
    for b in range(first, last):
        longest = max(longest, offsets[b + 1] - offsets[b])
    ahead = np.empty(longest + 1)
    behind = np.empty(longest + 1)
    moved = np.empty(longest + 1, np.int64)  # by what power of two messages were multiplied here
    share = np.empty((longest + 1, L + 1))  # of each segment, by its end and its length: its weight, then its posterior
    heavy = max(1.0, segments.max()) * max(1.0, length.max())

    for b in range(first, last):
        begin, n = offsets[b], offsets[b + 1] - offsets[b]
        log_z[b] = 0.0
        trouble[b] = False
        if n == 0:
            continue
        ahead[0] = 1.0
        powers, exact = 0, True
        for t in range(1, n + 1):
            row = cells[begin + t - 1]
            total = 0.0
            for w in range(min(L, t), 0, -1):  # the latest message comes in last, so that others need not wait for it
                share[t, w] = segments[row[w - 1]] * length[w]
                total += ahead[t - w] * share[t, w]
            ahead[t] = total
            moved[t] = 0
            if (0 < total < LOW) or (HIGH < total < np.inf):
                top = ahead[max(0, t - L) : t + 1].max()  # a cut here may be unlikely beside others
                if not (LOW <= top <= HIGH):
                    moved[t] = -math.frexp(top)[1]
                    powers += moved[t]
                    for i in range(max(0, t - L), t + 1):
                        there = math.ldexp(ahead[i], int(moved[t]))
                        exact &= ahead[i] == 0 or there >= TINY  # else it could not be moved back
                        ahead[i] = there
        total = ahead[n]
        if not exact or not (0 < total < np.inf) or not (log_stop > -np.inf):
            trouble[b] = True
            continue
        log_z[b] = math.log(total) - powers * LOG_2 + log_stop

        behind[:n] = 0.0
        behind[n] = 1 / total
        worst = 0.0
        for t in range(n, 0, -1):
            mass = behind[t]
            worst = max(worst, mass)
            for w in range(1, min(L, t) + 1):
                step = share[t, w] * mass
                behind[t - w] += step
                share[t, w] = ahead[t - w] * step
            if moved[t] != 0:
                for i in range(max(0, t - L), t):
                    worst = max(worst, behind[i])
                    behind[i] = math.ldexp(behind[i], int(moved[t]))
                    ahead[i] = math.ldexp(ahead[i], -int(moved[t]))
        if not (max(worst, behind[0]) * HIGH * heavy <= limit):
            trouble[b] = True
            continue
        if len(scale) > 0 and scale[b] != 0:
            count_segments(share, cells, begin, n, scale[b], n_segments, n_length, n_stop)


@njit(cache=True, nogil=True)
def count_segments(
    share: Array,  # (n + 1, L + 1) posterior of each segment, by its end and its length
    cells: Array,  # (symbols, L)
    begin: int,
    n: int,
    scale: float,
    n_segments: Array,  # (S + 1,) added to
    n_length: Array,  # (L + 1,) added to
    n_stop: Array,  # (2,) added to
) -> None:
    """Turn the posteriors of one sentence's segments into counts of what they use."""
    L = len(n_length) - 1
    total = 0.0
    for t in range(1, n + 1):
        row = cells[begin + t - 1]
        for w in range(1, min(L, t) + 1):
            count = share[t, w] * scale
            n_segments[row[w - 1]] += count
            n_length[w] += count
            total += count
    n_stop[0] += total
    n_stop[1] += scale
