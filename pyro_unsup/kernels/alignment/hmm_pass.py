"""The links of a pair of sentences: one recursion, compiled for real numbers, for logs and for maxima.

The words that choose come one after the other. What is known before each of them is the place of the last link, 0 if
there was none yet, and the direction of the jump that led there, one of D: a word without a link (the null word's)
leaves both as they are, so links and null words share one message a place and direction. In real numbers ``ahead`` is
kept at a sum of 1, ``behind`` so that their products add up to 1 (:mod:`..limits`); logs are left as they are.

Jumps of less than W are weighed one by one, as a sum of shifted messages; those of W and more share one weight among
the places that far, and are added up along the way. Hence O(D W) for each pair of words.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...array import Array
from ..ring import (
    LOG,
    MAX,
    REAL,
    add,
    as_log,
    as_real,
    compiled,
    inverse,
    kept_times,
    one,
    plus,
    times,
    total,
    zero,
)
from .cells import load, load_logs, store
from .hmm_jumps import arrive, count_jumps, direction, jumps_on, leave, ways_of, weigh_jumps


@compiled
def shape_of(offsets: Array, widths: Array, turned: bool, b: int) -> tuple[int, int]:
    """How many words of a pair choose, and among how many."""
    height, width = offsets[b + 1] - offsets[b] - 1, widths[b]
    return (height, width) if turned else (width, height)


@compiled
def most_words(offsets: Array, widths: Array, turned: bool, todo: Array) -> tuple[int, int]:
    most_t, most_s = 0, 0
    for b in todo:
        T, S = shape_of(offsets, widths, turned, b)
        most_t, most_s = max(most_t, T), max(most_s, S)
    return most_t, most_s


def forward_pass(mode: int, D: int) -> Any:
    """The way forwards through one pair, where so many directions of the jump before are told apart."""

    @compiled
    def forward(
        e: Array,  # (T, S + 1) what each choice of each word weighs
        near: Array,  # (D, 2 W + 1, at least S + 1 + 2 W) weights of jumps
        by_place: Array,  # (D, 3, at least S + 1)
        into: Array,  # (D, at least S + 1)
        alike: bool,  # whether near jumps weigh the same wherever they start
        limit: float,
        here: Array,  # (D, ...) room for a message with W places on either side
        sums: Array,  # (D, 2, at least S) room for sums
        ahead: Array,  # (T + 1, D, at least S + 1) out
        links: Array,  # (T, D, at least S + 1) out: all ways to link a word to a place
        norm: Array,  # (T,) out: what messages were divided by
    ) -> float:
        """log of all norms together; -inf where the pair is impossible, or beyond the limit of real numbers."""
        T, S, W, z = e.shape[0], e.shape[1] - 1, (near.shape[1] - 1) // 2, 0.0
        here[:, : S + 1 + 2 * W] = zero(mode)
        ahead[0, :, : S + 1] = zero(mode)
        ahead[0, 0, 0] = one(mode)
        for t in range(T):
            old, new, alone = ahead[t], ahead[t + 1], e[t, 0]
            begun = old[0, 0]
            for d in range(D):
                place, last, free, (tops, rests), onto = here[d], old[d], by_place[d, 0], sums[d], into[d]
                for m in range(1, S + 1):
                    place[W + m] = times(mode, last[m], free[m])
                    tops[m - 1], rests[m - 1] = add(mode, -np.inf, 0.0, times(mode, begun, onto[m]))
            for way in range(D):
                tops, rests = sums[way]
                low, high = ways_of(way, W, S, D)
                for d in range(D):
                    arrive(mode, low, high, S, alike, near[d], here[d], tops, rests)
            for d in range(D):
                if S <= W:
                    break
                place, more, less = here[d], by_place[d, 1], by_place[d, 2]
                tops, rests = sums[direction(2 * W, W, D)]
                run = zero(mode)
                for m in range(W + 1, S + 1):
                    run = plus(mode, run, times(mode, more[m - W], place[m]))
                    tops[m - 1], rests[m - 1] = add(mode, tops[m - 1], rests[m - 1], run)
                tops, rests = sums[direction(0, W, D)]
                run = zero(mode)
                for m in range(S - W, 0, -1):
                    run = plus(mode, run, times(mode, less[m + W], place[m + 2 * W]))
                    tops[m - 1], rests[m - 1] = add(mode, tops[m - 1], rests[m - 1], run)
            whole = 0.0
            for d in range(D):
                tops, rests = sums[d]
                last, here_now, linked, chosen = old[d], new[d], links[t, d], e[t]
                here_now[0] = times(mode, alone, last[0])
                whole += here_now[0]
                for m in range(1, S + 1):
                    linked[m] = times(mode, chosen[m], total(mode, tops[m - 1], rests[m - 1]))
                    here_now[m] = plus(mode, linked[m], times(mode, alone, last[m]))
                    if mode == REAL:
                        whole += here_now[m]
            norm[t] = whole if mode == REAL else one(mode)
            if mode == REAL:
                if not (whole > 1 / limit):
                    return -np.inf
                z += math.log(whole)
                for d in range(D):
                    here_now = new[d]
                    for m in range(S + 1):
                        here_now[m] /= whole
        return z

    return forward


WAYS = 4  #: Directions, where they are told apart.
forward_real, forward_log, forward_max = (forward_pass(mode, 1) for mode in (REAL, LOG, MAX))
forward_real_by_way, forward_log_by_way, forward_max_by_way = (forward_pass(mode, WAYS) for mode in (REAL, LOG, MAX))


@compiled
def room_for(T: int, S: int, D: int, W: int) -> tuple[Any, ...]:
    """Arrays that the passes work in, for pairs of at most so many words."""
    near, by_place = np.zeros((D, 2 * W + 1, S + 1 + 2 * W)), np.empty((D, 3, S + 1))
    ends, here, sums = (np.empty((D, S + 1)), np.empty(S + 1)), np.empty((D, S + 1 + 2 * W)), np.empty((D, 2, S))
    return near, by_place, ends, here, sums, np.empty((T + 1, D, S + 1)), np.empty((T, D, S + 1)), np.empty(T)


def sum_pass(mode: int, D: int) -> Any:
    """log Z, posteriors and counts. In logs a pair of weight zero has log Z = -inf, and posteriors of 0."""

    @compiled
    def run(
        emit: Array,  # (cells,) real weights in, unless those of a table are used; the posterior of each choice out
        table: Array,  # (C,) log-weights, used in logs
        cells: Array,  # (cells,) of the table
        starts: Array,  # (rows + 1,) where the cells of each row begin
        order: Array,  # (rows,) rows pair by pair, by their place
        offsets: Array,  # (B + 1,) where the rows of each pair begin among those
        widths: Array,  # (B,) target words
        turned: bool,
        classes: Array,  # (words that may be chosen,)
        first: Array,  # (B,) where those of each pair begin
        null: Array,  # (B,) weight of no link; real weights are at most 1
        word: Array,  # (B,) of a link
        jump: Array,  # (kinds, 2 W + 1)
        room: Array,  # (rooms,)
        share: Array,  # (most,)
        todo: Array,  # which pairs
        limit: float,
        least: float,  # what a message backwards is at least in real numbers, where it is possible
        want: bool,
        scale: Array,  # (B,) how much the jumps of each pair count
        log_z: Array,  # (B,) out
        trouble: Array,  # (B,) out: do this one again in logs
        n_null: Array,  # (B,) out: expected words without a link
        n_jump: Array,  # (kinds, 2 W + 1) added to
        n_room: Array,  # added to
        n_share: Array,  # added to
    ) -> None:
        W, inner = (jump.shape[1] - 1) // 2, len(jump) - 2
        most_t, most_s = most_words(offsets, widths, turned, todo)
        near, by_place, ends, here, sums, ahead, links, norm = room_for(most_t, most_s, D, W)
        weights, pull, behind = np.empty(most_t * (most_s + 1)), np.empty_like(here), np.empty((D, most_s + 1))
        mine, used = np.empty((3, 2 * W + 1)), np.empty((D, 2 * W + 2, most_s + 2))
        alike = inner == D
        into, out = ends

        for b in todo:
            T, S = shape_of(offsets, widths, turned, b)
            log_z[b] = n_null[b] = 0.0
            trouble[b] = False
            if T == 0:
                continue
            e, rows = weights[: T * (S + 1)].reshape(T, S + 1), order[offsets[b] : offsets[b + 1]]
            own = classes[first[b] : first[b] + S]
            weigh_jumps(mode, jump, room, share, own, near, by_place, into, out)
            if mode == REAL:
                load(emit, starts, rows, turned, e)
                for t in range(T):
                    e[t, 0] = kept_times(mode, e[t, 0], null[b])
                    for m in range(1, S + 1):
                        e[t, m] = kept_times(mode, e[t, m], word[b])
            else:
                load_logs(table, cells, starts, rows, turned, null[b], word[b], e)
            given = (e, near, by_place, into, alike, limit, here, sums, ahead, links, norm)
            if D == 1:
                z = forward_real(*given) if mode == REAL else forward_log(*given)
            else:
                z = forward_real_by_way(*given) if mode == REAL else forward_log_by_way(*given)
            top, rest = -np.inf, 0.0
            if z > -np.inf:
                for d in range(D):
                    for m in range(S + 1):
                        top, rest = add(mode, top, rest, times(mode, ahead[T, d, m], out[m]))
            whole = total(mode, top, rest)
            if mode == REAL and not (whole > 1 / limit):
                trouble[b] = True
                continue
            log_z[b] = z + as_log(mode, whole)
            if mode == LOG and (not want or log_z[b] == -np.inf):
                if want:
                    e[:] = 0.0
                    store(e, starts, rows, turned, emit)
                continue

            mine[:] = 0.0
            used[:, :, : S + 2] = 0.0
            pull[:, : S + 1 + 2 * W] = zero(mode)
            worst = inverse(mode, whole)
            for d in range(D):
                for m in range(S + 1):
                    behind[d, m] = times(mode, out[m], inverse(mode, whole))
                    mine[2, W + min(S + 1 - m, W)] += as_real(mode, times(mode, ahead[T, d, m], behind[d, m]))
            for t in range(T - 1, -1, -1):
                part = inverse(mode, norm[t])
                alone = kept_times(mode, e[t, 0], part)
                top, rest = -np.inf, 0.0
                for d in range(D):
                    later, before = behind[d], ahead[t, d]
                    for m in range(S + 1):
                        worst = max(worst, times(mode, later[m], part))
                        top, rest = add(mode, top, rest, times(mode, before[m], later[m]))
                e[t, 0] = as_real(mode, times(mode, total(mode, top, rest), alone))
                n_null[b] += e[t, 0]
                chosen = e[t]
                for d in range(D):
                    place, toward, later, before = here[d], pull[d], behind[d], ahead[t, d]
                    linked, free, (tops, rests) = links[t, d], by_place[d, 0], sums[d]
                    for m in range(1, S + 1):
                        reach = times(mode, later[m], part)
                        place[W + m] = times(mode, before[m], free[m])
                        toward[W + m] = kept_times(mode, chosen[m], reach)
                        linked[m] = as_real(mode, times(mode, linked[m], reach))
                        tops[m - 1], rests[m - 1] = -np.inf, 0.0
                        if D == 1:
                            chosen[m] = linked[m]
                if D > 1:
                    for m in range(1, S + 1):
                        chosen[m] = 0.0
                        for d in range(D):
                            chosen[m] += links[t, d, m]
                top, rest, before_all, far = -np.inf, 0.0, ahead[t, 0, 0], 0.0
                for way in range(D):
                    onto, toward = into[way], pull[way]
                    for m in range(1, min(W, S + 1)):
                        step = times(mode, onto[m], toward[W + m])
                        top, rest = add(mode, top, rest, step)
                        mine[0, W + m] += as_real(mode, times(mode, before_all, step))
                    for m in range(W, S + 1):
                        step = times(mode, onto[m], toward[W + m])
                        top, rest = add(mode, top, rest, step)
                        far += as_real(mode, times(mode, before_all, step))
                mine[0, 2 * W] += far
                begun = total(mode, top, rest)
                used[0, 2 * W + 1, 0] += as_real(mode, times(mode, before_all, begun))
                for d in range(D):
                    tops, rests = sums[d]
                    middle = here[d, W + 1 : W + 1 + S]
                    for way in range(D):
                        low, high = ways_of(way, W, S, D)
                        leave(mode, low, high, S, alike, near[d], pull[way], middle, tops, rests, used[d])
                    if S > W:
                        more, less, onward, back = by_place[d, 1], by_place[d, 2], used[d, 2 * W], used[d, 0]
                        toward, far = pull[direction(2 * W, W, D)], zero(mode)
                        for m in range(S - W, 0, -1):
                            far = plus(mode, far, toward[m + 2 * W])
                            step = times(mode, more[m], far)
                            tops[m - 1], rests[m - 1] = add(mode, tops[m - 1], rests[m - 1], step)
                            onward[m] += as_real(mode, times(mode, middle[m - 1], step))
                        toward, far = pull[direction(0, W, D)], zero(mode)
                        for m in range(W + 1, S + 1):
                            far = plus(mode, far, toward[m])
                            step = times(mode, less[m], far)
                            tops[m - 1], rests[m - 1] = add(mode, tops[m - 1], rests[m - 1], step)
                            back[m] += as_real(mode, times(mode, middle[m - 1], step))
                    later, before, free, along = behind[d], ahead[t, d], by_place[d, 0], used[d, 2 * W + 1]
                    for m in range(S + 1):
                        step = begun if d == 0 else zero(mode)
                        if m > 0:
                            step = times(mode, free[m], total(mode, tops[m - 1], rests[m - 1]))
                            along[m] += as_real(mode, times(mode, before[m], step))
                        found = plus(mode, times(mode, alone, later[m]), step)
                        if mode == REAL and found < least:
                            stays = alone > 0 and later[m] > 0
                            on = stays or jumps_on(d, m, S, near, by_place, into, alike, pull)
                            found = least if on else found
                        later[m] = found
            if mode == REAL and not (worst <= limit):
                trouble[b] = True
                continue
            if want:
                store(e, starts, rows, turned, emit)
                count_jumps(mine, used, own, inner, scale[b], n_jump, n_room, n_share)

    return run


scaled_pass, log_pass = sum_pass(REAL, 1), sum_pass(LOG, 1)
scaled_pass_by_way, log_pass_by_way = sum_pass(REAL, WAYS), sum_pass(LOG, WAYS)
