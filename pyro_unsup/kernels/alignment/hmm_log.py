"""The links of a pair of sentences in log space: sums that real numbers cannot hold, best links, and draws.

The messages are those of :mod:`.hmm_scaled`, with every jump spelled out: O(S) for each pair of words.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ..log_sum import log_sum
from .cells import load_logs, pick_one, store
from .hmm_scaled import room_of

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True)
def _sharing(old: int, new: int, S: int, W: int) -> int:
    """How many places share the weight of a jump; those that the jump to the end may start from, if it is one."""
    if new == S + 1:
        return S - W + 2 if new - old >= W else 1
    if new - old >= W:
        return S - old - W + 1
    return old - W if old - new >= W else 1


@njit(cache=True, nogil=True)
def _load_jumps(
    jump: Array,  # (3, 2 W + 1)
    room: Array,
    share: Array,  # (most,)
    by: Array,  # (S + 1, S + 1) out: from each place to each; nobody goes to 0
    out: Array,  # (S + 1,) out: from each place to the end
) -> None:
    S, W = len(out) - 1, (jump.shape[1] - 1) // 2
    for i in range(S + 1):
        by[i, 0] = -np.inf
        for m in range(1, S + 1):
            weight = jump[min(i, 1), W + min(max(m - i, -W), W)]
            by[i, m] = weight + room[room_of(i, S, W)] + share[_sharing(i, m, S, W) - 1]
        far = S + 1 - i
        out[i] = jump[2, W + min(far, W)] + room[room_of(-1, S, W)] + share[_sharing(i, S + 1, S, W) - 1]


@njit(cache=True, nogil=True)
def _forward(
    e: Array,  # (T, S + 1)
    by: Array,  # (S + 1, S + 1)
    ahead: Array,  # (T + 1, S + 1) out
    arrive: Array,  # (T, S + 1) out: all ways to jump to a place
) -> None:
    T, S = e.shape[0], e.shape[1] - 1
    both = np.empty(2)
    ahead[0] = -np.inf
    ahead[0, 0] = 0.0
    for t in range(T):
        for m in range(S + 1):
            arrive[t, m] = log_sum(ahead[t] + by[:, m])
            both[0], both[1] = e[t, 0] + ahead[t, m], e[t, m] + arrive[t, m]
            ahead[t + 1, m] = log_sum(both) if m else both[0]


@njit(cache=True, nogil=True)
def log_pass(
    table: Array,  # (C,) log-weights
    cells: Array,  # (cells,)
    starts: Array,
    order: Array,
    offsets: Array,
    widths: Array,
    turned: bool,
    null: Array,  # (B,) logs, as all weights here
    word: Array,
    jump: Array,  # (3, 2 W + 1)
    room: Array,
    share: Array,
    pairs: Array,  # which pairs
    want: bool,
    scale: Array,  # (B,)
    log_z: Array,  # (B,) out
    emit: Array,  # (cells,) out: posteriors, if wanted
    n_null: Array,  # (B,) out
    n_jump: Array,  # added to
    n_room: Array,  # added to
    n_share: Array,  # added to
) -> None:
    W = (jump.shape[1] - 1) // 2
    for b in pairs:
        rows = order[offsets[b] : offsets[b + 1]]
        height, width = len(rows) - 1, widths[b]
        T, S = (height, width) if turned else (width, height)
        e, by, out = np.empty((T, S + 1)), np.empty((S + 1, S + 1)), np.empty(S + 1)
        load_logs(table, cells, starts, rows, turned, null[b], word[b], e)
        _load_jumps(jump, room, share, by, out)
        ahead, arrive = np.empty((T + 1, S + 1)), np.empty((T, S + 1))
        _forward(e, by, ahead, arrive)
        z = log_z[b] = log_sum(ahead[T] + out)
        if not want:
            continue
        n_null[b] = 0.0
        posterior = np.zeros((T, S + 1))
        if z > -np.inf:
            behind, before = out - z, np.empty(S + 1)
            for m in range(S + 1):
                p = np.exp(ahead[T, m] + behind[m])
                n_jump[2, W + min(S + 1 - m, W)] += scale[b] * p
                n_share[_sharing(m, S + 1, S, W) - 1] += scale[b] * p
            n_room[room_of(-1, S, W)] += scale[b]
            for t in range(T - 1, -1, -1):
                for m in range(S + 1):
                    posterior[t, 0] += np.exp(e[t, 0] + ahead[t, m] + behind[m])
                    if m:
                        posterior[t, m] = np.exp(e[t, m] + arrive[t, m] + behind[m])
                n_null[b] += posterior[t, 0]
                onward = e[t] + behind
                for i in range(S + 1):
                    leave = by[i] + onward
                    used = 0.0
                    for m in range(1, S + 1):
                        p = np.exp(ahead[t, i] + leave[m])
                        n_jump[min(i, 1), W + min(max(m - i, -W), W)] += scale[b] * p
                        n_share[_sharing(i, m, S, W) - 1] += scale[b] * p
                        used += p
                    if S > 0:
                        n_room[room_of(i, S, W)] += scale[b] * used
                    leave[0] = e[t, 0] + behind[i]  # no link, and the place stays
                    before[i] = log_sum(leave)
                behind[:] = before
        store(posterior, starts, rows, turned, emit)


@njit(cache=True, nogil=True)
def decode_pass(
    table: Array,
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
    first: int,  # which pairs
    last: int,
    uniforms: Array,  # (B + words,) in [0, 1): one for each pair, then for each word that chooses; empty for the best
    words: Array,  # (B + 1,) where the words of each pair begin among those that choose
    found: Array,  # (cells,) out: 1 for what is chosen, 0 elsewhere; -1 throughout a pair that has no links at all
) -> None:
    draw = len(uniforms) > 0
    for b in range(first, last):
        rows = order[offsets[b] : offsets[b + 1]]
        height, width = len(rows) - 1, widths[b]
        T, S = (height, width) if turned else (width, height)
        e, by, out = np.empty((T, S + 1)), np.empty((S + 1, S + 1)), np.empty(S + 1)
        load_logs(table, cells, starts, rows, turned, null[b], word[b], e)
        _load_jumps(jump, room, share, by, out)
        ahead, arrive = np.empty((T + 1, S + 1)), np.empty((T, S + 1))
        chosen = np.zeros((T, S + 1), found.dtype)
        if draw:
            _forward(e, by, ahead, arrive)
        else:
            _best_forward(e, by, ahead)
        final = ahead[T] + out if T > 0 else np.zeros(1)
        if final.max() == -np.inf:
            for k in rows:
                found[starts[k] : starts[k + 1]] = -1
            continue
        at = pick_one(final, uniforms[b]) if draw else final.argmax()
        options = np.empty(S + 2)  # no link, then the places that a link may have jumped from
        for t in range(T - 1, -1, -1):
            options[0] = e[t, 0] + ahead[t, at]
            options[1:] = e[t, at] + by[:, at] + ahead[t]  # none lead to 0
            k = pick_one(options, uniforms[len(widths) + words[b] + t]) if draw else options.argmax()
            chosen[t, at if k else 0] = 1
            at = k - 1 if k else at
        store(chosen, starts, rows, turned, found)


@njit(cache=True, nogil=True)
def _best_forward(e: Array, by: Array, ahead: Array) -> None:
    T, S = e.shape[0], e.shape[1] - 1
    ahead[0] = -np.inf
    ahead[0, 0] = 0.0
    for t in range(T):
        for m in range(S + 1):
            best = e[t, 0] + ahead[t, m]
            if m:
                for i in range(S + 1):
                    best = max(best, e[t, m] + by[i, m] + ahead[t, i])
            ahead[t + 1, m] = best
