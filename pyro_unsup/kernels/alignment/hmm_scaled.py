"""Forward-backward over the links of a pair of sentences, in scaled real space.

The words that choose come one after the other. What is known before each of them is the place of the last link, 0 if
there was none yet: a word without a link (the null word's) leaves it where it is, so links and null words share one
message a place. ``ahead`` is kept at a sum of 1, ``behind`` so that their products add up to 1 (:mod:`.limits`).

Jumps of less than W are weighed one by one, as a sum of shifted messages; those of W and more share one weight among
the places that far, and are added up along the way. Hence O(W) for each pair of words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ..limits import FAST
from .cells import load, store

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True)
def room_of(place: int, size: int, W: int) -> int:
    """The number of a place by the room that is left around it: 0 is before the first word, -1 behind the last."""
    if place == 0:
        return (W + 1) * (W + 1) + min(size, W) - 1
    if place == -1:
        return (W + 1) * (W + 1) + W + min(size + 1, W) - 1
    return min(place - 1, W) * (W + 1) + min(size - place, W)


@njit(cache=True, nogil=True, fastmath=FAST)
def scaled_pass(
    emit: Array,  # (cells,) weights in; the posterior of each choice out, if wanted
    starts: Array,  # (rows + 1,) where the cells of each row begin
    order: Array,  # (rows,) rows pair by pair, by their place
    offsets: Array,  # (B + 1,) where the rows of each pair begin among those
    widths: Array,  # (B,) target words
    turned: bool,
    null: Array,  # (B,) weight of no link, at most 1 as all weights
    word: Array,  # (B,) of a link
    jump: Array,  # (3, 2 W + 1): to the first link, from link to link, from the last one to the end
    room: Array,  # ((W + 1)^2 + 2 W,)
    share: Array,  # (most,) by how many places share a weight
    first: int,  # which pairs
    last: int,
    limit: float,
    want: bool,
    scale: Array,  # (B,) how much the jumps of each pair count
    log_z: Array,  # (B,) out
    trouble: Array,  # (B,) out: do this one again in log space
    n_null: Array,  # (B,) out: expected words without a link
    n_jump: Array,  # (3, 2 W + 1) added to
    n_room: Array,  # added to
    n_share: Array,  # added to
) -> None:
    W = (jump.shape[1] - 1) // 2
    most_t, most_s = 0, 0
    for b in range(first, last):
        height, width = offsets[b + 1] - offsets[b] - 1, widths[b]
        most_t, most_s = max(most_t, height if turned else width), max(most_s, width if turned else height)
    weights = np.empty(most_t * (most_s + 1))
    links = np.empty((most_t, most_s + 1))
    ahead = np.empty((most_t + 1, most_s + 1))
    norm = np.empty(most_t)
    behind, arrive, leave = np.empty(most_s + 1), np.empty(most_s + 1), np.empty(most_s + 1)
    into, out, more, less = np.empty(most_s + 1), np.empty(most_s + 1), np.empty(most_s + 1), np.empty(most_s + 1)
    free, used, onward, back = np.empty(most_s + 1), np.empty(most_s + 1), np.empty(most_s + 1), np.empty(most_s + 1)
    here, pull = np.zeros(most_s + 1 + 2 * W), np.zeros(most_s + 1 + 2 * W)  # with W zeros on either side
    mine = np.empty((3, 2 * W + 1))

    for b in range(first, last):
        height, width = offsets[b + 1] - offsets[b] - 1, widths[b]
        T, S = (height, width) if turned else (width, height)
        log_z[b] = n_null[b] = 0.0
        trouble[b] = False
        if T == 0:
            continue
        e = weights[: T * (S + 1)].reshape(T, S + 1)
        rows = order[offsets[b] : offsets[b + 1]]
        load(emit, starts, rows, turned, e)
        for t in range(T):
            e[t, 0] *= null[b]
            for m in range(1, S + 1):
                e[t, m] *= word[b]
        begin, end = room[room_of(0, S, W)] if S > 0 else 0.0, room[room_of(-1, S, W)]
        for m in range(1, S + 1):
            free[m] = room[room_of(m, S, W)]
            into[m] = jump[0, W + min(m, W)] * begin * share[S - W if m >= W else 0]
            more[m] = jump[1, 2 * W] * share[S - m - W] if S - m >= W else 0.0
            less[m] = jump[1, 0] * share[m - W - 1] if m > W else 0.0
        for m in range(S + 1):
            out[m] = jump[2, W + min(S + 1 - m, W)] * end * share[S - W + 1 if S + 1 - m >= W else 0]
        here[: S + 1 + 2 * W] = 0.0
        pull[: S + 1 + 2 * W] = 0.0

        ahead[0, 0] = 1.0
        ahead[0, 1 : S + 1] = 0.0
        fine = True
        z = 0.0
        for t in range(T):
            alone = e[t, 0]
            for m in range(1, S + 1):
                here[W + m] = ahead[t, m] * free[m]
                arrive[m] = ahead[t, 0] * into[m]
            for d in range(1 - W, W):
                u = jump[1, W + d] * share[0]
                for m in range(1, S + 1):
                    arrive[m] += u * here[W + m - d]
            run = 0.0
            for m in range(W + 1, S + 1):
                run += more[m - W] * here[m]
                arrive[m] += run
            run = 0.0
            for m in range(S - W, 0, -1):
                run += less[m + W] * here[m + 2 * W]
                arrive[m] += run
            ahead[t + 1, 0] = alone * ahead[t, 0]
            total = ahead[t + 1, 0]
            for m in range(1, S + 1):
                links[t, m] = e[t, m] * arrive[m]
                ahead[t + 1, m] = links[t, m] + alone * ahead[t, m]
                total += ahead[t + 1, m]
            if not (total > 1 / limit):
                fine = False
                break
            norm[t] = total
            z += np.log(total)
            for m in range(S + 1):
                ahead[t + 1, m] /= total
        total = 0.0
        if fine:
            for m in range(S + 1):
                total += ahead[T, m] * out[m]
        if not (total > 1 / limit):
            trouble[b] = True
            continue
        log_z[b] = z + np.log(total)

        mine[:] = 0.0
        for m in range(S + 1):
            used[m] = onward[m] = back[m] = 0.0
        for m in range(S + 1):
            behind[m] = out[m] / total
            mine[2, W + min(S + 1 - m, W)] += ahead[T, m] * behind[m]
        worst, nulls = 1 / total, 0.0
        for t in range(T - 1, -1, -1):
            part = 1 / norm[t]
            alone = e[t, 0] * part
            without = 0.0
            for m in range(S + 1):
                worst = max(worst, behind[m] * part)
                without += ahead[t, m] * behind[m]
            e[t, 0] = without * alone
            nulls += e[t, 0]
            begun = 0.0
            for m in range(1, S + 1):
                here[W + m] = ahead[t, m] * free[m]
                pull[W + m] = e[t, m] * behind[m] * part
                e[t, m] = links[t, m] * behind[m] * part
                leave[m] = 0.0
            for m in range(1, S + 1):
                step = into[m] * pull[W + m]
                begun += step
                mine[0, W + min(m, W)] += ahead[t, 0] * step
            for d in range(1 - W, W):
                u = jump[1, W + d] * share[0]
                dot = 0.0
                for m in range(1, S + 1):
                    leave[m] += u * pull[W + m + d]
                    dot += here[W + m] * pull[W + m + d]
                mine[1, W + d] += u * dot
            run = 0.0
            for m in range(S - W, 0, -1):
                run += pull[m + 2 * W]
                step = more[m] * run
                leave[m] += step
                onward[m] += here[W + m] * step
            run = 0.0
            for m in range(W + 1, S + 1):
                run += pull[m]
                step = less[m] * run
                leave[m] += step
                back[m] += here[W + m] * step
            used[0] += ahead[t, 0] * begun
            behind[0] = alone * behind[0] + begun
            for m in range(1, S + 1):
                step = free[m] * leave[m]
                used[m] += ahead[t, m] * step
                behind[m] = alone * behind[m] + step
        if not (worst <= limit):
            trouble[b] = True
            continue
        if not want:
            continue
        n_null[b] = nulls
        store(e, starts, rows, turned, emit)
        for m in range(1, S + 1):
            mine[1, 2 * W] += onward[m]
            mine[1, 0] += back[m]
            n_room[room_of(m, S, W)] += scale[b] * used[m]
            if S - m >= W:
                n_share[S - m - W] += scale[b] * onward[m]
            if m > W:
                n_share[m - W - 1] += scale[b] * back[m]
        if S > 0:
            n_room[room_of(0, S, W)] += scale[b] * used[0]
        n_room[room_of(-1, S, W)] += scale[b]
        if S >= W:
            n_share[S - W] += scale[b] * mine[0, 2 * W]
        if S + 1 >= W:
            n_share[S - W + 1] += scale[b] * mine[2, 2 * W]
        for kind in range(3):
            for k in range(2 * W + 1):
                n_jump[kind, k] += scale[b] * mine[kind, k]
                if 0 < k < 2 * W or (kind != 1 and k == 0):
                    n_share[0] += scale[b] * mine[kind, k]
