"""Stretches of states: one recursion, for sums in real numbers and in logs, for draws, and for the best.

A state that will go on for r more positions is a slot (b, r). Only its entry is a choice: afterwards r counts down, and
at 0 the stretch ends. The last stretch of a series has a slot of its own, ``final``, which never ends. So

    into_t[b]     = sum_a  ended_{t-1}[a] T[a, b]                          start[b] for the first position
    slot_t[b, r]  = (slot_{t-1}[b, r + 1] + into_t[b] entry[b, r]) e_t[b]   ended_t[b] = slot_t[b, 0]
    final_t[b]    = (final_{t-1}[b] + into_t[b] last[b, n - 1 - t]) e_t[b]  and the sum of all is that of final_n

It takes O(n K (K + D)), and of the way forwards only ``into`` and ``ended`` are kept. Entries either are one table, and
another for last stretches; or each position has its own, as potentials have it: that of a stretch that begins there.

In real numbers the messages of each position are divided by their sum, forwards and backwards. So messages forwards sum
to 1, and their product with those backwards is 1. What underflows on the way forwards was below ``tiny`` before it was
divided; on the way backwards, before it was multiplied by a weight, which is at most ``heavy``. Hence, if no message
backwards over its norm, times ``heavy``, exceeds the limit of :mod:`.limits`, nothing that matters was lost. Messages
backwards that are possible never become zero, so that they tell of what was lost forwards. Else the series is done
again in logs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..array import Array
from .choice import choose
from .ring import LOG, MAX, REAL, add, as_real, compiled, longest_of, one, plus, times, total, zero


def forward_pass(mode: int) -> Any:
    """The way forwards through one series."""

    @compiled
    def forward(
        start: Array,  # (K,)
        trans: Array,  # (K, K) axes (old, new)
        entry: Array,  # (2, K, D) of stretches inside and of last ones, or (n, K, D) by the first position
        varies: bool,  # whether it is the second
        emit: Array,  # (n, K)
        limit: float,
        slot: Array,  # (K, D + 1) for use here
        into: Array,  # (n, K) out
        ended: Array,  # (n, K) out
        norm: Array,  # (n,) out
        final: Array,  # (K,) out
    ) -> tuple[float, bool]:
        """The log of all norms, and whether each could be divided by; final sums to 1 then."""
        n, K, D = len(emit), len(start), entry.shape[2]
        z, shrink = 0.0, one(mode)
        slot[:], final[:] = zero(mode), zero(mode)
        for t in range(n):
            left, inside, last = n - 1 - t, entry[t if varies else 0], entry[t if varies else 1]
            reach, whole = min(D, left), 0.0
            for b in range(K):
                if t == 0:
                    begun = start[b]
                else:
                    top, rest = -np.inf, 0.0
                    for a in range(K):
                        top, rest = add(mode, top, rest, times(mode, ended[t - 1, a], trans[a, b]))
                    begun = total(mode, top, rest)
                into[t, b] = begun
                e, here, weights = emit[t, b], slot[b], inside[b]
                for r in range(reach):
                    goes_on = times(mode, here[r + 1], shrink)
                    here[r] = times(mode, plus(mode, goes_on, times(mode, begun, weights[r])), e)
                stays = times(mode, final[b], shrink)
                if left < D:
                    stays = plus(mode, stays, times(mode, begun, last[b, left]))
                final[b] = times(mode, stays, e)
                if mode == REAL:
                    whole += final[b]
                    for r in range(reach):
                        whole += here[r]
            if mode == REAL:
                if not (1 / limit < whole < limit):
                    return z, False
                norm[t], shrink = whole, 1 / whole
                z += math.log(whole)
            for b in range(K):
                ended[t, b] = times(mode, slot[b, 0], shrink) if left > 0 else zero(mode)
        for b in range(K):
            final[b] = times(mode, final[b], shrink)
        return z, True

    return forward


forward_real, forward_log, forward_max = forward_pass(REAL), forward_pass(LOG), forward_pass(MAX)


def sum_pass(mode: int) -> Any:
    """log Z and counts. In logs a series of weight zero has log Z = -inf and no counts."""

    @compiled
    def run(
        start: Array,  # (K,)
        trans: Array,  # (K, K)
        entry: Array,  # (2, K, D) or (N, K, D)
        varies: bool,
        emit: Array,  # (N, K)
        offsets: Array,  # (B + 1,)
        todo: Array,  # which series
        limit: float,
        least: float,  # what a message backwards is at least in real numbers, where it is possible
        heavy: float,  # the largest weight of a step, at least 1
        scale: Array,  # (B,) how much the counts of each series weigh; empty if only log Z is wanted
        each: bool,  # whether entries are counted by position
        log_z: Array,  # (B,) out
        trouble: Array,  # (B,) out: do this one again in logs
        states: Array,  # (N, K) out: how probable each state is, times the scale
        n_start: Array,  # (K,) added to
        n_trans: Array,  # (K, K) added to
        n_entry: Array,  # (2, K, D) added to; by position, (N, K, D) out
    ) -> None:
        K, D, longest = len(start), entry.shape[2], longest_of(offsets, todo)
        into, ended, norm = np.empty((longest, K)), np.empty((longest, K)), np.ones(longest)
        slot, final, reach = np.empty((K, D + 1)), np.empty(K), np.empty(K)
        steps, entries = np.empty((K, K)), np.empty((2, K, D))
        for s in todo:
            begin, n = offsets[s], offsets[s + 1] - offsets[s]
            log_z[s], trouble[s] = 0.0, False
            if n == 0:
                continue
            here, own = emit[begin : begin + n], entry[begin : begin + n] if varies else entry
            if mode == REAL:
                z, exact = forward_real(start, trans, own, varies, here, limit, slot, into, ended, norm, final)
            else:
                z, exact = forward_log(start, trans, own, varies, here, limit, slot, into, ended, norm, final)
                top, rest = -np.inf, 0.0
                for b in range(K):
                    top, rest = add(mode, top, rest, final[b])
                z = total(mode, top, rest)
            log_z[s] = z
            if mode == REAL and not exact:
                trouble[s] = True
                continue
            want, weight = len(scale) > 0, scale[s] if len(scale) > 0 else 0.0
            cover = states[begin : begin + n] if want else states[:0]
            cover[:] = 0.0
            if mode == LOG and (not want or z == -np.inf):
                continue

            # Backwards: slot and final hold messages now. Counts stay apart until nothing was lost.
            steps[:] = 0.0
            found = n_entry[begin : begin + n] if each else entries
            found[:] = 0.0
            slot[:], final[:] = zero(mode), one(mode) if mode == REAL else -z
            for t in range(n - 1, -1, -1):
                left, inside, last = n - 1 - t, own[t if varies else 0], own[t if varies else 1]
                within, at_end = found[t if each else 0], found[t if each else 1]
                shrink, size, most = 1 / norm[t] if mode == REAL else 0.0, min(D, left), 0.0
                for b in range(K):
                    e, back = times(mode, here[t, b], shrink), slot[b]
                    top, rest = -np.inf, 0.0
                    for r in range(size):
                        top, rest = add(mode, top, rest, times(mode, inside[b, r], back[r]))
                    if left < D:
                        top, rest = add(mode, top, rest, times(mode, last[b, left], final[b]))
                    reach[b] = times(mode, total(mode, top, rest), e)
                    if mode == REAL and reach[b] < least and e > 0:
                        begins = possible(inside[b, :size], back[:size])
                        if begins or (left < D and last[b, left] > 0 and final[b] > 0):
                            reach[b] = least
                    if mode == REAL:
                        most += final[b]
                        for r in range(size):
                            most += back[r]
                    if want:
                        begun, column = times(mode, into[t, b], e), cover[t:, b]
                        count_entries(mode, begun, inside[b], back, size, weight, within[b], column)
                        if left < D:
                            p = as_real(mode, times(mode, begun, times(mode, last[b, left], final[b]))) * weight
                            at_end[b, left] += p
                            column += p
                    final[b] = kept(mode, times(mode, final[b], e), final[b] > 0 and e > 0, least)
                    for r in range(min(D - 1, left), 0, -1):
                        back[r] = kept(mode, times(mode, back[r - 1], e), back[r - 1] > 0 and e > 0, least)
                if mode == REAL and not (most * shrink * heavy <= limit):
                    trouble[s] = True
                    break
                for a in range(K):
                    top, rest = -np.inf, 0.0
                    for b in range(K):
                        step = times(mode, trans[a, b], reach[b])
                        top, rest = add(mode, top, rest, step)
                        if t > 0 and want:
                            steps[a, b] += as_real(mode, times(mode, ended[t - 1, a], step))
                    slot[a, 0] = total(mode, top, rest)
                    if mode == REAL and slot[a, 0] < least and possible(trans[a], reach):
                        slot[a, 0] = least
            if want and not trouble[s]:
                for b in range(K):
                    n_start[b] += as_real(mode, times(mode, into[0, b], reach[b])) * weight
                n_trans += steps * weight
                if not each:
                    n_entry += entries

    return run


@compiled
def kept(mode: int, message: float, possible: bool, least: float) -> float:
    """A message that is not lost, if it is possible."""
    return least if mode == REAL and possible and message < least else message


@compiled
def possible(weights: Array, onward: Array) -> bool:  # (n,) each
    """Whether some way on is possible, however unlikely."""
    for k in range(len(weights)):  # noqa: SIM110 (numba compiles loops, not generators)
        if weights[k] > 0 and onward[k] > 0:
            return True
    return False


@compiled
def count_entries(
    mode: int,
    begun: float,
    weights: Array,  # (D,)
    back: Array,  # (D + 1,)
    size: int,
    scale: float,
    within: Array,  # (D,) added to
    cover: Array,  # (n - t,) added to
) -> None:
    """Stretches of one state that begin at one position: their probabilities, and those of the positions they cover."""
    covered = 0.0
    for r in range(size - 1, -1, -1):
        p = as_real(mode, times(mode, begun, times(mode, weights[r], back[r]))) * scale
        within[r] += p
        covered += p
        cover[r] += covered


def decode_pass(mode: int) -> Any:
    """The best stretches of every series (MAX), or a draw in proportion to their weight (LOG)."""

    @compiled
    def run(
        start: Array,  # (K,) logs
        trans: Array,  # (K, K)
        entry: Array,  # (2, K, D) or (N, K, D)
        varies: bool,
        emit: Array,  # (N, K)
        offsets: Array,  # (B + 1,)
        todo: Array,  # which series
        uniforms: Array,  # (N, 2) float64 in [0, 1); any, if the best is wanted
        structure: Array,  # (N, 2) out: states, and 1 where a stretch ends; -1 where a series is impossible
    ) -> None:
        K, D, longest = len(start), entry.shape[2], longest_of(offsets, todo)
        into, ended, norm = np.empty((longest, K)), np.empty((longest, K)), np.empty(0)
        slot, final, terms, before = np.empty((K, D + 1)), np.empty(K), np.empty(D), np.empty(K)
        for s in todo:
            begin, n = offsets[s], offsets[s + 1] - offsets[s]
            here, own = emit[begin : begin + n], entry[begin : begin + n] if varies else entry
            if mode == MAX:
                forward_max(start, trans, own, varies, here, np.inf, slot, into, ended, norm, final)
            else:
                forward_log(start, trans, own, varies, here, np.inf, slot, into, ended, norm, final)
            if n > 0 and final.max() == -np.inf:
                structure[begin : begin + n] = -1
                continue
            before[:] = final
            t = n
            while t > 0:  # a stretch ends before position t
                b = choose(mode, before, 0.0 if mode == MAX else uniforms[begin + t - 1, 0])
                window, size = 0.0, min(D, t)
                for d in range(size):
                    first = t - 1 - d
                    weights = own[first if varies else 1 if t == n else 0, b]
                    window += here[first, b]
                    terms[d] = into[first, b] + weights[d] + window
                lasts = choose(mode, terms[:size], 0.0 if mode == MAX else uniforms[begin + t - 1, 1]) + 1
                structure[begin + t - lasts : begin + t, 0] = b
                structure[begin + t - lasts : begin + t - 1, 1] = 0
                structure[begin + t - 1, 1] = 1
                t -= lasts
                if t > 0:
                    for a in range(K):
                        before[a] = ended[t - 1, a] + trans[a, b]

    return run


scaled_pass, log_pass = sum_pass(REAL), sum_pass(LOG)
best_pass, draw_pass = decode_pass(MAX), decode_pass(LOG)
