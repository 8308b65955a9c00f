"""Words that choose alone, in log space: sums that real numbers cannot hold, best choices, and draws."""

from __future__ import annotations

import numpy as np

from ...array import Array
from ..choice import choose
from ..ring import LOG, MAX, add, compiled, total
from .cells import load, load_logs, store


@compiled
def log_pass(
    table: Array,  # (C,) log-weights
    cells: Array,  # (cells,)
    starts: Array,
    order: Array,
    offsets: Array,
    widths: Array,
    turned: bool,
    null: Array,  # (B,) logs
    word: Array,  # (B,) logs
    pairs: Array,  # which pairs
    want: bool,
    log_z: Array,  # (B,) out
    posterior: Array,  # (cells,) out, if wanted; cells that this direction has no use for stay as they are
) -> None:
    for b in pairs:
        rows = order[offsets[b] : offsets[b + 1]]
        height, width = len(rows) - 1, widths[b]
        T, S = (height, width) if turned else (width, height)
        e = np.empty((T, S + 1))
        load_logs(table, cells, starts, rows, turned, null[b], word[b], e)
        z = 0.0
        for t in range(T):
            top, rest = -np.inf, 0.0
            for x in e[t]:
                top, rest = add(LOG, top, rest, x)
            whole = total(LOG, top, rest)
            z += whole
            if want and whole > -np.inf:
                e[t] = np.exp(e[t] - whole)
        log_z[b] = z
        if want:
            if z == -np.inf:
                e[:] = 0.0
            store(e, starts, rows, turned, posterior)


@compiled
def choose_pass(
    scores: Array,  # (cells,) logs
    starts: Array,
    order: Array,
    offsets: Array,
    widths: Array,
    turned: bool,
    first: int,  # which pairs
    last: int,
    uniforms: Array,  # (words that choose,) in [0, 1); empty for the best
    words: Array,  # (B + 1,) where the words of each pair begin among those that choose
    found: Array,  # (cells,) out: 1 for what is chosen, 0 elsewhere; -1 throughout a pair that has no links at all
) -> None:
    mode = LOG if len(uniforms) else MAX
    for b in range(first, last):
        rows = order[offsets[b] : offsets[b + 1]]
        height, width = len(rows) - 1, widths[b]
        T, S = (height, width) if turned else (width, height)
        e, chosen = np.empty((T, S + 1)), np.zeros((T, S + 1), found.dtype)
        load(scores, starts, rows, turned, e)
        possible = True
        for t in range(T):  # of equals the null word, then the first word
            best = choose(mode, e[t], uniforms[words[b] + t] if mode == LOG else 0.0)
            possible &= e[t, best] > -np.inf
            chosen[t, best] = 1
        if possible:
            store(chosen, starts, rows, turned, found)
        else:
            for k in rows:
                found[starts[k] : starts[k + 1]] = -1
