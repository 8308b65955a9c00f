"""Stepwise EM of context-free grammars, mini-batch after mini-batch (see :mod:`.stepwise`)."""

from __future__ import annotations

import numpy as np

from .grammar_stepwise import LOW, NODE, add_words, read_column, weigh_roots, weigh_words
from .pcfg_pass import inside, outside
from .ring import REAL, longest_of
from .stepwise import BOUND, most_rows, row_units, stepping


@stepping
def read_rules(
    cells,  # outcomes of the table (N, M M)
    extra,
    units,  # (N,)
    beta,
    N,
    P,
    rules,  # as the pass wants them, out: (N, N N), (P, N N) twice and (P, N P)
    column,  # (N,) room
    sums,  # (3, M) room: by parent, by left and by right part
):
    """Rules as real numbers that are divided so that no sum over trees exceeds 1; gives the log of what by."""
    both, left, right, two = rules
    M, top = N + P, 0.0
    sums[:] = 0.0
    for b in range(M):
        for c in range(M):
            top = max(top, read_column(cells, extra, units, beta, b * M + c, column))
            whole = 0.0
            for a in range(N):
                whole += column[a]
                sums[0, a] += column[a]
            sums[1, b] += whole
            sums[2, c] += whole
            if b < N and c < N:
                for a in range(N):
                    both[a, b * N + c] = column[a]
            elif b >= N and c < N:
                for a in range(N):
                    left[b - N, a * N + c] = column[a]
            elif c >= N and b < N:
                for a in range(N):
                    right[c - N, a * N + b] = column[a]
            else:
                for a in range(N):
                    two[b - N, a * P + c - N] = column[a]
    if not (top > LOW):
        return -np.inf
    most = sums.max() / NODE
    for x in rules:
        x *= 1.0 / most
    return np.log(most)


@stepping
def add_rules(cells, sums, N, P, gain, rules, counts):
    """Add how often rules are expected; counts are still to be multiplied by the rules."""
    both, left, right, two = rules
    n_both, n_left, n_right, n_two = counts
    M = N + P
    for b in range(M):
        for c in range(M):
            for a in range(N):
                if b < N and c < N:
                    count = gain * both[a, b * N + c] * n_both[a, b * N + c]
                elif b >= N and c < N:
                    count = gain * left[b - N, a * N + c] * n_left[b - N, a * N + c]
                elif c >= N and b < N:
                    count = gain * right[c - N, a * N + b] * n_right[c - N, a * N + b]
                else:
                    count = gain * two[b - N, a * P + c - N] * n_two[b - N, a * P + c - N]
                cells[(b * M + c) * N + a] += count
                sums[a] += count


@stepping
def stepwise_pass(
    tables,  # root, rules and emission
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
    (root, root_sum, root_more, root_extra), (cells, cell_sums, cell_more, cell_extra), rest = tables
    emit, emit_sums, emit_more, emit_extra = rest
    words, offsets = data
    N, P, T, room = len(root), len(emit_sums), longest_of(offsets, order), most_rows(offsets, order, batch_size)
    rules = (np.empty((N, N * N)), np.empty((P, N * N)), np.empty((P, N * N)), np.empty((P, N * P)))
    counts = (np.empty((N, N * N)), np.empty((P, N * N)), np.empty((P, N * N)), np.empty((P, N * P)))
    units, emit_units, column, sums = np.empty(N), np.empty(P), np.empty(N), np.empty((3, N + P))
    top, n_root, n_words = np.empty(N), np.empty(N), np.empty((room, P))
    weights, around_words, none = np.empty((T, P)), np.empty((T, P)), np.empty((0, N))
    sides = (np.empty((T, N * N)), np.empty((T, N * N)), np.empty((T, N * P)))
    around_sides = (np.empty((T, N * N)), np.empty((T, N * N)), np.empty((T, N * P)))
    made, above, pairs, around_pairs = np.empty((T, N)), np.empty((T, N)), np.empty((T, N * N)), np.empty((T, N * N))
    chart, around = np.empty((T, T + 1, N)), np.empty((T, T + 1, N))

    for batch in range(len(steps)):
        mine = order[batch * batch_size : (batch + 1) * batch_size]
        after, over = scale * (1.0 - steps[batch]), 1.0 / scale
        if not (after >= floor):
            return batch, scale
        row_units(cell_sums, cell_more, over, units)
        row_units(emit_sums, emit_more, over, emit_units)
        node = read_rules(cells, cell_extra * over, units, beta, N, P, rules, column, sums)
        start = weigh_roots(root, root_extra * over, 1.0 / (root_sum[0] + root_more[0] * over), beta, top)
        beside = (rules[1], rules[2], rules[3])
        n_beside = (counts[1], counts[2], counts[3])
        for x in counts:
            x[:] = 0.0
        n_root[:] = 0.0
        total, at = 0.0, 0
        for b in mine:
            sentence, n = words[offsets[b] : offsets[b + 1]], offsets[b + 1] - offsets[b]
            if n == 0:
                continue
            word, around_word = weights[:n], around_words[:n]
            shift = start + weigh_words(emit, emit_extra * over, emit_units, beta, sentence, word) + (n - 1) * node
            if n < 2 or not (shift > -np.inf):  # the root is a nonterminal, and has two parts
                return batch, scale
            here = (sides[0][:n], sides[1][:n], sides[2][:n])
            there = (around_sides[0][:n], around_sides[1][:n], around_sides[2][:n])
            whole = inside(REAL, n, word, none, top, rules[0], beside, here, made, pairs, chart)
            if not (whole > 1 / BOUND):
                return batch, scale
            outside(
                REAL, n, word, none, top, rules[0], beside, here, whole, pairs, chart, around, around_pairs, there,
                around_word, above, 1.0, counts[0], n_beside, True,
            )  # fmt: skip
            for i in range(n):
                for p in range(P):
                    n_words[at + i, p] = word[i, p] * around_word[i, p]
            for a in range(N):
                n_root[a] += chart[0, n, a] * around[0, n, a]
            total += shift + np.log(whole)
            at += n

        log_z[batch] = total / beta
        scale = after
        gain, at = steps[batch] / scale, 0
        for a in range(N):
            root[a] += gain * n_root[a]
            root_sum[0] += gain * n_root[a]
        add_rules(cells, cell_sums, N, P, gain, rules, counts)
        for b in mine:
            n = offsets[b + 1] - offsets[b]
            add_words(emit, emit_sums, words[offsets[b] : offsets[b + 1]], gain, n_words[at : at + n])
            at += n
    return len(steps), scale
