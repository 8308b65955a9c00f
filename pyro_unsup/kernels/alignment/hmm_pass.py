"""The links of a pair of sentences: one recursion, for sums in real numbers and in logs, for draws, and for the best.

The words that choose come one after the other. What is known before each of them is the place of the last link, 0 if
there was none yet: a word without a link (the null word's) leaves it where it is, so links and null words share one
message a place. In real numbers ``ahead`` is kept at a sum of 1, ``behind`` so that their products add up to 1
(:mod:`..limits`); logs are left as they are.

Jumps of less than W are weighed one by one, as a sum of shifted messages; those of W and more share one weight among
the places that far, and are added up along the way. Hence O(W) for each pair of words.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...array import Array
from ..choice import choose
from ..ring import LOG, MAX, REAL, add, as_log, as_real, compiled, inverse, kept_times, one, plus, times, total, zero
from .cells import load, load_logs, store


@compiled
def room_of(place: int, size: int, W: int) -> int:
    """The number of a place by the room that is left around it: 0 is before the first word, -1 behind the last."""
    if place == 0:
        return (W + 1) * (W + 1) + min(size, W) - 1
    if place == -1:
        return (W + 1) * (W + 1) + W + min(size + 1, W) - 1
    return min(place - 1, W) * (W + 1) + min(size - place, W)


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


@compiled
def weigh_jumps(
    mode: int,
    jump: Array,  # (3, 2 W + 1): to the first link, from link to link, from the last one to the end
    room: Array,  # ((W + 1)^2 + 2 W,)
    share: Array,  # (most,) by how many places share a weight
    S: int,
    by_place: Array,  # (5, at least S + 1) out
) -> None:
    """What jumps weigh by place: all that start there, those of W and more to the right, and those to the left; the
    jump to the first link, by where it leads; and the jump to the end, by where it starts."""
    W = (jump.shape[1] - 1) // 2
    free, more, less, into, out = by_place
    begin, end = room[room_of(0, S, W)] if S > 0 else zero(mode), room[room_of(-1, S, W)]
    for m in range(1, S + 1):
        free[m] = room[room_of(m, S, W)]
        into[m] = kept_times(mode, jump[0, W + min(m, W)], kept_times(mode, begin, share[S - W if m >= W else 0]))
        more[m] = kept_times(mode, jump[1, 2 * W], share[S - m - W]) if S - m >= W else zero(mode)
        less[m] = kept_times(mode, jump[1, 0], share[m - W - 1]) if m > W else zero(mode)
    for m in range(S + 1):
        there = kept_times(mode, end, share[S - W + 1 if S + 1 - m >= W else 0])
        out[m] = kept_times(mode, jump[2, W + min(S + 1 - m, W)], there)


def forward_pass(mode: int) -> Any:
    """The way forwards through one pair."""

    @compiled
    def forward(
        e: Array,  # (T, S + 1) what each choice of each word weighs
        near: Array,  # (2 W + 1,) weights of jumps
        by_place: Array,  # (5, at least S + 1)
        limit: float,
        here: Array,  # room for a message with W places on either side
        sums: Array,  # (2, at least S) room for sums
        ahead: Array,  # (T + 1, at least S + 1) out
        links: Array,  # (T, at least S + 1) out: all ways to link a word to a place
        norm: Array,  # (T,) out: what messages were divided by
    ) -> float:
        """log of all norms together; -inf where the pair is impossible, or beyond the limit of real numbers."""
        (T, S), W, z = (e.shape[0], e.shape[1] - 1), (len(near) - 1) // 2, 0.0
        free, more, less, into, _ = by_place
        tops, rests = sums
        here[: S + 1 + 2 * W] = zero(mode)
        ahead[0, : S + 1] = zero(mode)
        ahead[0, 0] = one(mode)
        for t in range(T):
            old, new, alone = ahead[t], ahead[t + 1], e[t, 0]
            for m in range(1, S + 1):
                here[W + m] = times(mode, old[m], free[m])
                top, rest = add(mode, -np.inf, 0.0, times(mode, old[0], into[m]))
                tops[m - 1], rests[m - 1] = add(mode, top, rest, times(mode, near[W], here[W + m]))
            for d in range(1, min(W, S)):  # from the left and from the right
                u, left = near[W + d], here[W + 1 - d : W + 1 - d + S]
                v, right = near[W - d], here[W + 1 + d : W + 1 + d + S]
                for m in range(S):
                    top, rest = add(mode, tops[m], rests[m], times(mode, u, left[m]))
                    tops[m], rests[m] = add(mode, top, rest, times(mode, v, right[m]))
            run = zero(mode)
            for m in range(W + 1, S + 1):
                run = plus(mode, run, times(mode, more[m - W], here[m]))
                tops[m - 1], rests[m - 1] = add(mode, tops[m - 1], rests[m - 1], run)
            run = zero(mode)
            for m in range(S - W, 0, -1):
                run = plus(mode, run, times(mode, less[m + W], here[m + 2 * W]))
                tops[m - 1], rests[m - 1] = add(mode, tops[m - 1], rests[m - 1], run)
            new[0] = times(mode, alone, old[0])
            whole = new[0]
            for m in range(1, S + 1):
                links[t, m] = times(mode, e[t, m], total(mode, tops[m - 1], rests[m - 1]))
                new[m] = plus(mode, links[t, m], times(mode, alone, old[m]))
                if mode == REAL:
                    whole += new[m]
            norm[t] = whole if mode == REAL else one(mode)
            if mode == REAL:
                if not (whole > 1 / limit):
                    return -np.inf
                z += math.log(whole)
                for m in range(S + 1):
                    new[m] /= whole
        return z

    return forward


forward_real, forward_log, forward_max = forward_pass(REAL), forward_pass(LOG), forward_pass(MAX)


def sum_pass(mode: int) -> Any:
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
        null: Array,  # (B,) weight of no link; real weights are at most 1
        word: Array,  # (B,) of a link
        jump: Array,  # (3, 2 W + 1)
        room: Array,  # ((W + 1)^2 + 2 W,)
        share: Array,  # (most,)
        todo: Array,  # which pairs
        limit: float,
        least: float,  # what a message backwards is at least in real numbers, where it is possible
        want: bool,
        scale: Array,  # (B,) how much the jumps of each pair count
        log_z: Array,  # (B,) out
        trouble: Array,  # (B,) out: do this one again in logs
        n_null: Array,  # (B,) out: expected words without a link
        n_jump: Array,  # (3, 2 W + 1) added to
        n_room: Array,  # added to
        n_share: Array,  # added to
    ) -> None:
        W = (jump.shape[1] - 1) // 2
        most_t, most_s = most_words(offsets, widths, turned, todo)
        weights, norm = np.empty(most_t * (most_s + 1)), np.empty(most_t)
        links, ahead = np.empty((most_t, most_s + 1)), np.empty((most_t + 1, most_s + 1))
        behind, by_place, sums = np.empty(most_s + 1), np.empty((5, most_s + 1)), np.empty((2, most_s))
        here, pull = np.empty(most_s + 1 + 2 * W), np.empty(most_s + 1 + 2 * W)
        used, mine = np.empty((3, most_s + 1)), np.empty((3, 2 * W + 1))
        near = np.array([kept_times(mode, x, share[0]) for x in jump[1]])
        free, more, less, into, out = by_place
        tops, rests = sums
        along, onward, back = used

        for b in todo:
            T, S = shape_of(offsets, widths, turned, b)
            log_z[b] = n_null[b] = 0.0
            trouble[b] = False
            if T == 0:
                continue
            e, rows = weights[: T * (S + 1)].reshape(T, S + 1), order[offsets[b] : offsets[b + 1]]
            weigh_jumps(mode, jump, room, share, S, by_place)
            if mode == REAL:
                load(emit, starts, rows, turned, e)
                for t in range(T):
                    e[t, 0] = kept_times(mode, e[t, 0], null[b])
                    for m in range(1, S + 1):
                        e[t, m] = kept_times(mode, e[t, m], word[b])
                z = forward_real(e, near, by_place, limit, here, sums, ahead, links, norm)
            else:
                load_logs(table, cells, starts, rows, turned, null[b], word[b], e)
                z = forward_log(e, near, by_place, limit, here, sums, ahead, links, norm)
            top, rest = -np.inf, 0.0
            if z > -np.inf:
                for m in range(S + 1):
                    top, rest = add(mode, top, rest, times(mode, ahead[T, m], out[m]))
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
            used[:, : S + 1] = 0.0
            pull[: S + 1 + 2 * W] = zero(mode)
            worst = inverse(mode, whole)
            for m in range(S + 1):
                behind[m] = times(mode, out[m], inverse(mode, whole))
                mine[2, W + min(S + 1 - m, W)] += as_real(mode, times(mode, ahead[T, m], behind[m]))
            for t in range(T - 1, -1, -1):
                part = inverse(mode, norm[t])
                alone = kept_times(mode, e[t, 0], part)
                top, rest = -np.inf, 0.0
                for m in range(S + 1):
                    worst = max(worst, times(mode, behind[m], part))
                    top, rest = add(mode, top, rest, times(mode, ahead[t, m], behind[m]))
                e[t, 0] = as_real(mode, times(mode, total(mode, top, rest), alone))
                n_null[b] += e[t, 0]
                for m in range(1, S + 1):
                    reach = times(mode, behind[m], part)
                    here[W + m] = times(mode, ahead[t, m], free[m])
                    pull[W + m] = kept_times(mode, e[t, m], reach)
                    e[t, m] = as_real(mode, times(mode, links[t, m], reach))
                    step = times(mode, near[W], pull[W + m])
                    tops[m - 1], rests[m - 1] = add(mode, -np.inf, 0.0, step)
                    mine[1, W] += as_real(mode, times(mode, here[W + m], step))
                top, rest = -np.inf, 0.0
                for m in range(1, S + 1):
                    step = times(mode, into[m], pull[W + m])
                    top, rest = add(mode, top, rest, step)
                    mine[0, W + min(m, W)] += as_real(mode, times(mode, ahead[t, 0], step))
                begun = total(mode, top, rest)
                middle = here[W + 1 : W + 1 + S]
                for d in range(1, min(W, S)):  # to the right and to the left
                    u, right = near[W + d], pull[W + 1 + d : W + 1 + d + S]
                    v, left = near[W - d], pull[W + 1 - d : W + 1 - d + S]
                    p, q = 0.0, 0.0
                    for m in range(S):
                        step, other = times(mode, u, right[m]), times(mode, v, left[m])
                        top, rest = add(mode, tops[m], rests[m], step)
                        tops[m], rests[m] = add(mode, top, rest, other)
                        p += as_real(mode, times(mode, middle[m], step))
                        q += as_real(mode, times(mode, middle[m], other))
                    mine[1, W + d] += p
                    mine[1, W - d] += q
                far = zero(mode)
                for m in range(S - W, 0, -1):
                    far = plus(mode, far, pull[m + 2 * W])
                    step = times(mode, more[m], far)
                    tops[m - 1], rests[m - 1] = add(mode, tops[m - 1], rests[m - 1], step)
                    onward[m] += as_real(mode, times(mode, here[W + m], step))
                far = zero(mode)
                for m in range(W + 1, S + 1):
                    far = plus(mode, far, pull[m])
                    step = times(mode, less[m], far)
                    tops[m - 1], rests[m - 1] = add(mode, tops[m - 1], rests[m - 1], step)
                    back[m] += as_real(mode, times(mode, here[W + m], step))
                along[0] += as_real(mode, times(mode, ahead[t, 0], begun))
                for m in range(S + 1):
                    step = begun if m == 0 else times(mode, free[m], total(mode, tops[m - 1], rests[m - 1]))
                    if m > 0:
                        along[m] += as_real(mode, times(mode, ahead[t, m], step))
                    found = plus(mode, times(mode, alone, behind[m]), step)
                    if mode == REAL and found < least:
                        stays = alone > 0 and behind[m] > 0
                        found = least if stays or jumps_on(m, S, near, by_place, pull) else found
                    behind[m] = found
            if mode == REAL and not (worst <= limit):
                trouble[b] = True
                continue
            if want:
                store(e, starts, rows, turned, emit)
                count_jumps(mine, used, S, scale[b], n_jump, n_room, n_share)

    return run


@compiled
def jumps_on(
    m: int,  # a place
    S: int,
    near: Array,  # (2 W + 1,)
    by_place: Array,  # (5, at least S + 1)
    pull: Array,  # what a link to each place weighs, with W places on either side
) -> bool:
    """Whether some jump from a place to a link is possible, however unlikely."""
    W, (free, more, less, into, _) = (len(near) - 1) // 2, by_place
    if m > 0 and not free[m] > 0:
        return False
    for k in range(1, S + 1):
        edge = into[k] if m == 0 else more[m] if k - m >= W else less[m] if m - k >= W else near[W + k - m]
        if edge > 0 and pull[W + k] > 0:
            return True
    return False


@compiled
def count_jumps(
    mine: Array,  # (3, 2 W + 1) jumps of one pair, but for those of W and more from link to link
    used: Array,  # (3, at least S + 1) from each place: all jumps, far ones onwards, far ones back
    S: int,
    scale: float,
    n_jump: Array,  # (3, 2 W + 1) added to
    n_room: Array,  # added to
    n_share: Array,  # added to
) -> None:
    """Turn the jumps of one pair into counts of what they use."""
    W = (n_jump.shape[1] - 1) // 2
    along, onward, back = used
    for m in range(1, S + 1):
        mine[1, 2 * W] += onward[m]
        mine[1, 0] += back[m]
        n_room[room_of(m, S, W)] += scale * along[m]
        if S - m >= W:
            n_share[S - m - W] += scale * onward[m]
        if m > W:
            n_share[m - W - 1] += scale * back[m]
    if S > 0:
        n_room[room_of(0, S, W)] += scale * along[0]
    n_room[room_of(-1, S, W)] += scale
    if S >= W:
        n_share[S - W] += scale * mine[0, 2 * W]
    if S + 1 >= W:
        n_share[S - W + 1] += scale * mine[2, 2 * W]
    for kind in range(3):
        for k in range(2 * W + 1):
            n_jump[kind, k] += scale * mine[kind, k]
            if 0 < k < 2 * W or (kind != 1 and k == 0):
                n_share[0] += scale * mine[kind, k]


def decode_pass(mode: int) -> Any:
    """The best links of every pair (MAX), or a draw of them (LOG)."""

    @compiled
    def run(
        table: Array,  # (C,) log-weights, as are all here
        cells: Array,
        starts: Array,
        order: Array,
        offsets: Array,
        widths: Array,
        turned: bool,
        null: Array,
        word: Array,
        jump: Array,
        room: Array,
        share: Array,
        todo: Array,
        uniforms: Array,  # (B + words,) in [0, 1): one for each pair, then for each word that chooses; any for the best
        words: Array,  # (B + 1,) where the words of each pair begin among those that choose
        found: Array,  # (cells,) out: 1 for what is chosen, 0 elsewhere; -1 throughout a pair that has no links at all
    ) -> None:
        W = (jump.shape[1] - 1) // 2
        most_t, most_s = most_words(offsets, widths, turned, todo)
        weights, norm = np.empty(most_t * (most_s + 1)), np.empty(most_t)
        links, ahead = np.empty((most_t, most_s + 1)), np.empty((most_t + 1, most_s + 1))
        by_place, sums, here = np.empty((5, most_s + 1)), np.empty((2, most_s)), np.empty(most_s + 1 + 2 * W)
        near, options = jump[1] + share[0], np.empty(most_s + 2)
        free, more, less, into, out = by_place
        for b in todo:
            T, S = shape_of(offsets, widths, turned, b)
            if T == 0:
                continue
            e, rows = weights[: T * (S + 1)].reshape(T, S + 1), order[offsets[b] : offsets[b + 1]]
            load_logs(table, cells, starts, rows, turned, null[b], word[b], e)
            weigh_jumps(mode, jump, room, share, S, by_place)
            if mode == MAX:
                forward_max(e, near, by_place, np.inf, here, sums, ahead, links, norm)
            else:
                forward_log(e, near, by_place, np.inf, here, sums, ahead, links, norm)
            final = ahead[T, : S + 1] + out[: S + 1]
            if final.max() == -np.inf:
                for k in rows:
                    found[starts[k] : starts[k + 1]] = -1
                continue
            at = choose(mode, final, 0.0 if mode == MAX else uniforms[b])
            chosen = np.zeros((T, S + 1), found.dtype)
            for t in range(T - 1, -1, -1):  # no link, or the places that a link may have jumped from: none lead to 0
                options[0], ways = e[t, 0] + ahead[t, at], 1
                if at:
                    options[1], ways = e[t, at] + into[at] + ahead[t, 0], S + 2
                    low, high = max(1, at - W + 1), min(S, at + W - 1)  # where jumps are near
                    for m in range(1, S + 1):
                        options[1 + m] = e[t, at] + free[m] + ahead[t, m]
                    for m in range(1, low):
                        options[1 + m] += more[m]
                    for m in range(low, high + 1):
                        options[1 + m] += near[W + at - m]
                    for m in range(high + 1, S + 1):
                        options[1 + m] += less[m]
                u = 0.0 if mode == MAX else uniforms[len(widths) + words[b] + t]
                k = choose(mode, options[:ways], u)
                chosen[t, at if k else 0] = 1
                at = k - 1 if k else at
            store(chosen, starts, rows, turned, found)

    return run


scaled_pass, log_pass = sum_pass(REAL), sum_pass(LOG)
best_pass, draw_pass = decode_pass(MAX), decode_pass(LOG)
