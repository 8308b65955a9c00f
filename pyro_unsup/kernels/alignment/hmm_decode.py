"""The best links of pairs of sentences, or a draw of them, by jumps: from the last word to the first, in logs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...array import Array
from ..choice import choose
from ..ring import LOG, MAX, compiled
from .cells import load_logs, store
from .hmm_jumps import direction, weigh_jumps
from .hmm_pass import (
    WAYS,
    forward_log,
    forward_log_by_way,
    forward_max,
    forward_max_by_way,
    most_words,
    room_for,
    shape_of,
)


def decode_pass(mode: int, D: int) -> Any:
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
        classes: Array,
        first: Array,
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
        W = (jump.shape[1] - 1) // 2
        most_t, most_s = most_words(offsets, widths, turned, todo)
        near, by_place, ends, here, sums, ahead, links, norm = room_for(most_t, most_s, D, W)
        weights, options, final = np.empty(most_t * (most_s + 1)), np.empty(D * most_s + 2), np.empty(D * (most_s + 1))
        (into, out), alike = ends, len(jump) - 2 == D
        for b in todo:
            T, S = shape_of(offsets, widths, turned, b)
            if T == 0:
                continue
            e, rows = weights[: T * (S + 1)].reshape(T, S + 1), order[offsets[b] : offsets[b + 1]]
            load_logs(table, cells, starts, rows, turned, null[b], word[b], e)
            weigh_jumps(mode, jump, room, share, classes[first[b] : first[b] + S], near, by_place, into, out)
            given = (e, near, by_place, into, alike, np.inf, here, sums, ahead, links, norm)
            if D == 1:
                forward_max(*given) if mode == MAX else forward_log(*given)
            else:
                forward_max_by_way(*given) if mode == MAX else forward_log_by_way(*given)
            ways = D * (S + 1)
            for d in range(D):
                for m in range(S + 1):
                    final[d * (S + 1) + m] = ahead[T, d, m] + out[m]
            if final[:ways].max() == -np.inf:
                for k in rows:
                    found[starts[k] : starts[k + 1]] = -1
                continue
            last = choose(mode, final[:ways], 0.0 if mode == MAX else uniforms[b])
            way, at = last // (S + 1), last % (S + 1)
            chosen = np.zeros((T, S + 1), found.dtype)
            for t in range(T - 1, -1, -1):  # no link, or the places that a link may have jumped from: none lead to 0
                options[0], ways = e[t, 0] + ahead[t, way, at], 1
                if at:
                    options[1] = e[t, at] + into[way, at] + ahead[t, 0, 0]
                    ways = 2 + D * S
                    for d in range(D):
                        for m in range(1, S + 1):
                            k = W + max(-W, min(W, at - m))
                            step = near[d, k, W + (1 if alike else m)]
                            if k == 0 or k == 2 * W:
                                step = by_place[d, 1 if k else 2, m]
                            comes = direction(k, W, D) == way
                            weight = e[t, at] + by_place[d, 0, m] + ahead[t, d, m] + step
                            options[2 + d * S + m - 1] = weight if comes else -np.inf
                u = 0.0 if mode == MAX else uniforms[len(widths) + words[b] + t]
                k = choose(mode, options[:ways], u)
                chosen[t, at if k else 0] = 1
                if k == 1:
                    way, at = 0, 0
                elif k > 1:
                    way, at = (k - 2) // S, 1 + (k - 2) % S
            store(chosen, starts, rows, turned, found)

    return run


best_pass, draw_pass = decode_pass(MAX, 1), decode_pass(LOG, 1)
best_pass_by_way, draw_pass_by_way = decode_pass(MAX, WAYS), decode_pass(LOG, WAYS)
