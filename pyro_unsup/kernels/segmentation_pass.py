"""The segmentations of a sentence: one recursion, for sums in real numbers and in logs, for draws, and for the best.

``ahead[t]`` sums over the ways to cut up the first t symbols, ``behind[t]`` over those of the rest. In real numbers
both shrink with every symbol. So now and then the latest messages are multiplied by a power of two, which loses no
digit, and on the way back the same powers are taken out again. Thus ``ahead[t] * behind[t]`` is the probability of a
cut after t symbols, and the largest of neighbouring ``ahead`` stays near 1.

What underflows on the way was below ``tiny`` (the smallest normal number), and would have added at most ``tiny`` times
what it is multiplied by to a probability: messages and weights. Hence, if the product of the largest of those is within
a limit, the probability lost is below ``tiny * limit`` a segment, far under the rounding error. Messages backwards that
are possible never become zero, so that they tell of what was lost forwards (:mod:`.limits`). A sentence that breaks the
limit is done again in logs, where nothing needs to be scaled.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..array import Array
from .choice import choose
from .ring import (
    LOG,
    MAX,
    REAL,
    TINY,
    add,
    as_log,
    as_real,
    compiled,
    inverse,
    kept_times,
    longest_of,
    one,
    plus,
    times,
    total,
    zero,
)

#: Messages outside this range are brought back to 1: wide, so that it seldom happens; far from the ends of float64.
LOW, HIGH = 2.0**-200, 2.0**200
LOG_2 = math.log(2.0)


def forward_pass(mode: int) -> Any:
    """The way forwards through one sentence."""

    @compiled
    def forward(
        segments: Array,  # (S + 1,) weights; the last is zero, for what cannot be a segment (number -1)
        length: Array,  # (L + 1,) weights, with the weight of going on put in
        cells: Array,  # (n, L)
        ahead: Array,  # (n + 1,) out
        share: Array,  # (n + 1, L + 1) out: the weight of each segment, by its end and its length
        moved: Array,  # (n + 1,) out: by what power of two messages were multiplied here
    ) -> tuple[int, bool]:
        """The sum of the powers, and whether each message could be multiplied without loss."""
        L, powers, exact = len(length) - 1, 0, True
        ahead[0] = one(mode)
        for t in range(1, len(cells) + 1):
            row, top, rest = cells[t - 1], -np.inf, 0.0
            for w in range(min(L, t), 0, -1):  # the latest message comes in last, so that others need not wait for it
                share[t, w] = kept_times(mode, segments[row[w - 1]], length[w])
                top, rest = add(mode, top, rest, times(mode, ahead[t - w], share[t, w]))
            ahead[t] = here = total(mode, top, rest)
            if mode != REAL:
                continue
            moved[t] = 0
            if (0 < here < LOW) or (HIGH < here < np.inf):
                most = ahead[max(0, t - L) : t + 1].max()  # a cut here may be unlikely beside others
                if not (LOW <= most <= HIGH):
                    moved[t] = -math.frexp(most)[1]
                    powers += moved[t]
                    for i in range(max(0, t - L), t + 1):
                        there = math.ldexp(ahead[i], int(moved[t]))
                        exact &= ahead[i] == 0 or there >= TINY  # else it could not be moved back
                        ahead[i] = there
        return powers, exact

    return forward


forward_real, forward_log, forward_max = forward_pass(REAL), forward_pass(LOG), forward_pass(MAX)


def sum_pass(mode: int) -> Any:
    """log Z and counts. In logs a sentence of weight zero has log Z = -inf and no counts."""

    @compiled
    def run(
        segments: Array,  # (S + 1,)
        length: Array,  # (L + 1,)
        log_stop: float,
        cells: Array,  # (symbols, L)
        offsets: Array,  # (B + 1,)
        todo: Array,  # which sentences
        limit: float,
        least: float,  # what a message backwards is at least in real numbers, where it is possible
        scale: Array,  # (B,) how much the counts of each sentence weigh; empty if only log Z is wanted
        log_z: Array,  # (B,) out
        trouble: Array,  # (B,) out: do this one again in logs
        n_segments: Array,  # (S + 1,) added to
        n_length: Array,  # (L + 1,) added to
        n_stop: Array,  # (2,) added to
    ) -> None:
        L, longest = len(length) - 1, longest_of(offsets, todo)
        ahead, behind, moved = np.empty(longest + 1), np.empty(longest + 1), np.empty(longest + 1, np.int64)
        share = np.empty((longest + 1, L + 1))  # of each segment: its weight, then its posterior
        heavy = max(1.0, segments.max()) * max(1.0, length.max())
        for b in todo:
            begin, n = offsets[b], offsets[b + 1] - offsets[b]
            log_z[b], trouble[b] = 0.0, False
            if n == 0:
                continue
            here = cells[begin : begin + n]
            if mode == REAL:
                powers, exact = forward_real(segments, length, here, ahead, share, moved)
            else:
                powers, exact = forward_log(segments, length, here, ahead, share, moved)
            if mode == REAL and (not exact or not (0 < ahead[n] < np.inf) or not (log_stop > -np.inf)):
                trouble[b] = True
                continue
            log_z[b] = as_log(mode, ahead[n]) - powers * LOG_2 + log_stop
            if mode == LOG and (len(scale) == 0 or log_z[b] == -np.inf):
                continue

            behind[:n] = zero(mode)
            behind[n] = inverse(mode, ahead[n])
            worst = 0.0
            for t in range(n, 0, -1):
                mass = behind[t]
                if mode == REAL and mass < least and goes_on(segments, length, here, behind, t):
                    mass = behind[t] = least
                worst = max(worst, mass)
                for w in range(1, min(L, t) + 1):
                    step = times(mode, share[t, w], mass)
                    behind[t - w] = plus(mode, behind[t - w], step)
                    share[t, w] = as_real(mode, times(mode, ahead[t - w], step))
                if mode == REAL and moved[t] != 0:
                    for i in range(max(0, t - L), t):
                        worst = max(worst, behind[i])
                        behind[i] = math.ldexp(behind[i], int(moved[t]))
                        ahead[i] = math.ldexp(ahead[i], -int(moved[t]))
            if mode == REAL and not (max(worst, behind[0]) * HIGH * heavy <= limit):
                trouble[b] = True
                continue
            if len(scale) > 0 and scale[b] != 0:
                count_segments(share, cells, begin, n, scale[b], n_segments, n_length, n_stop)

    return run


@compiled
def goes_on(segments: Array, length: Array, cells: Array, behind: Array, t: int) -> bool:
    """Whether some segment may begin after t symbols, however unlikely."""
    for w in range(1, min(len(length) - 1, len(cells) - t) + 1):
        if segments[cells[t + w - 1, w - 1]] > 0 and length[w] > 0 and behind[t + w] > 0:
            return True
    return False


@compiled
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
    segments = 0.0
    for t in range(1, n + 1):
        row = cells[begin + t - 1]
        for w in range(1, min(L, t) + 1):
            count = share[t, w] * scale
            n_segments[row[w - 1]] += count
            n_length[w] += count
            segments += count
    n_stop[0] += segments
    n_stop[1] += scale


def decode_pass(mode: int) -> Any:
    """The best segmentation of every sentence (MAX), or a draw in proportion to its weight (LOG)."""

    @compiled
    def run(
        segments: Array,  # (S + 1,) logs
        length: Array,  # (L + 1,) logs
        cells: Array,  # (symbols, L)
        offsets: Array,  # (B + 1,)
        todo: Array,  # which sentences
        uniforms: Array,  # (symbols,) float64 in [0, 1); any, if the best is wanted
        structure: Array,  # (symbols,) out: 1 where a segment ends, 0 inside one, -1 where there is no segmentation
    ) -> None:
        L, longest = len(length) - 1, longest_of(offsets, todo)
        ahead, share, moved = np.empty(longest + 1), np.empty((longest + 1, L + 1)), np.empty(0, np.int64)
        terms = np.empty(L)
        for b in todo:
            begin, n = offsets[b], offsets[b + 1] - offsets[b]
            here = cells[begin : begin + n]
            if mode == MAX:
                forward_max(segments, length, here, ahead, share, moved)
            else:
                forward_log(segments, length, here, ahead, share, moved)
            possible = ahead[n] > -np.inf
            structure[begin : begin + n] = 0 if possible else -1
            t = n if possible else 0
            while t > 0:
                structure[begin + t - 1] = 1
                reach = min(L, t)
                for w in range(1, reach + 1):
                    terms[w - 1] = ahead[t - w] + share[t, w]
                t -= choose(mode, terms[:reach], 0.0 if mode == MAX else uniforms[begin + t - 1]) + 1

    return run


scaled_pass, log_pass = sum_pass(REAL), sum_pass(LOG)
best_pass, draw_pass = decode_pass(MAX), decode_pass(LOG)
