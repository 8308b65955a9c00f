"""Stepwise EM of grammars with factored rules, mini-batch after mini-batch (see :mod:`.stepwise`)."""

from __future__ import annotations

import numpy as np

from .grammar_stepwise import LOW, NODE, add_words, read_column, weigh_roots, weigh_words
from .ring import REAL, longest_of
from .simple_pcfg_pass import inside, outside
from .stepwise import BOUND, most_rows, row_units, stepping


@stepping
def read_parts(cells, extra, units, beta, N, first, wide, narrow, column, sums):  # (2 N, N), (2 N, P) out
    """Rules of left or of right parts as real numbers; gives the largest.

    :param first: their first row, 0 or N.
    :param sums: (N,) of each row, out.
    """
    top = 0.0
    sums[:] = 0.0
    for c in range(N + narrow.shape[1]):
        top = max(top, read_column(cells, extra, units, beta, c, column))
        for a in range(N):
            sums[a] += column[a]
            if c < N:
                wide[first + a, c] = column[a]
            else:
                narrow[first + a, c - N] = column[a]
    return top


@stepping
def divide(N, wide, narrow, left_sums, right_sums, by_part):  # (2 N, N), (2 N, P)
    """Divide rules so that no sum over trees exceeds 1, and right parts of a label sum to 1; gives the log of what by.

    :param by_part: (M,) room.
    """
    P, most = narrow.shape[1], 0.0
    for a in range(N):
        unit = 1.0 / right_sums[a] if right_sums[a] > 0 else 0.0
        for c in range(N):
            wide[N + a, c] *= unit
            wide[a, c] *= right_sums[a]
        for p in range(P):
            narrow[N + a, p] *= unit
            narrow[a, p] *= right_sums[a]
        most = max(most, left_sums[a] * right_sums[a])
    for side in range(2):  # sums over the label above and one part
        by_part[:] = 0.0
        for a in range(N):
            weight = 1.0 if side == 0 else left_sums[a] * right_sums[a]
            for c in range(N):
                by_part[c] += weight * wide[side * N + a, c]
            for p in range(P):
                by_part[N + p] += weight * narrow[side * N + a, p]
        most = max(most, by_part.max())
    most /= NODE
    wide[:N] *= 1.0 / most
    narrow[:N] *= 1.0 / most
    return np.log(most)


@stepping
def add_parts(cells, sums, N, first, gain, wide, narrow, n_wide, n_narrow):
    """Add how often rules are expected; counts are still to be multiplied by the rules."""
    for c in range(N + narrow.shape[1]):
        for a in range(N):
            if c < N:
                count = gain * wide[first + a, c] * n_wide[first + a, c]
            else:
                count = gain * narrow[first + a, c - N] * n_narrow[first + a, c - N]
            cells[c * N + a] += count
            sums[a] += count


@stepping
def stepwise_pass(
    tables,  # root, left, right and emission
    data,  # words (tokens,), offsets (B + 1,)
    beta,
    order,  # (n,) examples, mini-batch by mini-batch
    batch_size,
    steps,  # (mini-batches,) step sizes
    scale,
    floor,  # the smallest scale
    log_z,  # (mini-batches,) out: log-likelihood of each, before its update
):
    """How many mini-batches were done, and the scale after them."""
    (root, root_sum, root_more, root_extra), (left, left_sums, left_more, left_extra), rest, last = tables
    (right, right_sums, right_more, right_extra), (emit, emit_sums, emit_more, emit_extra) = rest, last
    words, offsets = data
    N, P, T, room = len(root), len(emit_sums), longest_of(offsets, order), most_rows(offsets, order, batch_size)
    spans = T * (T + 1) // 2
    wide, narrow, n_wide, n_narrow = (
        np.empty((2 * N, N)),
        np.empty((2 * N, P)),
        np.empty((2 * N, N)),
        np.empty((2 * N, P)),
    )
    units, emit_units, column, by_part = np.empty(N), np.empty(P), np.empty(N), np.empty(N + P)
    lefts, rights = np.empty(N), np.empty(N)
    top, above, n_root, n_words = np.empty(N), np.empty(N), np.empty(N), np.empty((room, P))
    weights, around_words, none = np.empty((T, P)), np.empty((T, P)), np.empty((0, N))
    sides, around_sides = np.empty((spans, 2 * N)), np.empty((spans, 2 * N))
    chart, around = np.empty((spans - T, N)), np.empty((spans - T, N))

    for batch in range(len(steps)):
        mine = order[batch * batch_size : (batch + 1) * batch_size]
        after, over = scale * (1.0 - steps[batch]), 1.0 / scale
        if not (after >= floor):
            return batch, scale
        row_units(emit_sums, emit_more, over, emit_units)
        row_units(left_sums, left_more, over, units)
        best = read_parts(left, left_extra * over, units, beta, N, 0, wide, narrow, column, lefts)
        row_units(right_sums, right_more, over, units)
        best = min(best, read_parts(right, right_extra * over, units, beta, N, N, wide, narrow, column, rights))
        if not (best > LOW):
            return batch, scale
        node = divide(N, wide, narrow, lefts, rights, by_part)
        start = weigh_roots(root, root_extra * over, 1.0 / (root_sum[0] + root_more[0] * over), beta, top)
        n_wide[:] = 0.0
        n_narrow[:] = 0.0
        n_root[:] = 0.0
        total, at = 0.0, 0
        for b in mine:
            sentence, n = words[offsets[b] : offsets[b + 1]], offsets[b + 1] - offsets[b]
            if n == 0:
                continue
            word, around_word, inner = weights[:n], around_words[:n], n * (n - 1) // 2
            shift = start + weigh_words(emit, emit_extra * over, emit_units, beta, sentence, word) + (n - 1) * node
            if n < 2 or not (shift > -np.inf):  # the root is a nonterminal, and has two parts
                return batch, scale
            here = sides[: n + inner]
            whole = inside(REAL, n, word, none, top, wide, narrow, here, chart)
            if not (whole > 1 / BOUND):
                return batch, scale
            outside(
                REAL, n, word, none, top, wide, narrow, whole, here, chart, around_sides[: n + inner], around,
                around_word, above, 1.0, n_wide, n_narrow, True,
            )  # fmt: skip
            for i in range(n):
                for p in range(P):
                    n_words[at + i, p] = word[i, p] * around_word[i, p]
            for a in range(N):
                n_root[a] += chart[inner - 1, a] * around[inner - 1, a]
            total += shift + np.log(whole)
            at += n

        log_z[batch] = total / beta
        scale = after
        gain, at = steps[batch] / scale, 0
        for a in range(N):
            root[a] += gain * n_root[a]
            root_sum[0] += gain * n_root[a]
        add_parts(left, left_sums, N, 0, gain, wide, narrow, n_wide, n_narrow)
        add_parts(right, right_sums, N, N, gain, wide, narrow, n_wide, n_narrow)
        for b in mine:
            n = offsets[b + 1] - offsets[b]
            add_words(emit, emit_sums, words[offsets[b] : offsets[b + 1]], gain, n_words[at : at + n])
            at += n
    return len(steps), scale
