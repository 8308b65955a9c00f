"""One sweep of collapsed Gibbs sampling over whole sentences, each proposed at once and accepted or not.

A sentence is taken out of the counts and its tags proposed from what is left, held fixed
(:mod:`.gibbs_sentences`). The tables are integrated out, so that in truth counts change within a sentence; the
acceptance ratio of an independence proposal q, pi(new) q(old) / (pi(old) q(new)), makes up for that exactly.
"""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
from numba import njit

from .gibbs_sentences import draw_sentence, row_of

Array = Any


@njit(cache=True, nogil=True)
def step_rows(cells: Array, tag_of: Array, S: int, second: bool, stop: bool, rows: Array, outcomes: Array) -> int:
    """The rows and outcomes that the tags of a sentence use, in order; how many."""
    a, b = S - 1, S - 1
    T = len(cells)
    for t in range(T):
        rows[t], outcomes[t] = row_of(a, b, S, second), tag_of[cells[t]]
        a, b = b, tag_of[cells[t]]
    if not stop:
        return T
    rows[T], outcomes[T] = row_of(a, b, S, second), S - 1
    return T + 1


@njit(cache=True, nogil=True)
def put(cells: Array, rows: Array, outcomes: Array, steps: int, counts: Any, prior: Any) -> float:
    """Count a sentence; the log probability of its tags and words given what had been counted before."""
    n, totals, n_cell, n_tag = counts
    kind, alpha, mass, beta, beta_mass = prior
    found = 0.0
    for t in range(steps):
        r, c = rows[t], outcomes[t]
        p = (n[r, c] + alpha[kind[r]]) / (totals[r] + mass[kind[r]])
        n[r, c] += 1
        totals[r] += 1
        if t < len(cells):
            p *= (n_cell[cells[t]] + beta[c]) / (n_tag[c] + beta_mass[c])
            n_cell[cells[t]] += 1
            n_tag[c] += 1
        found += log(p)
    return found


@njit(cache=True, nogil=True)
def take(cells: Array, rows: Array, outcomes: Array, steps: int, counts: Any) -> None:
    """Take a sentence out of the counts."""
    n, totals, n_cell, n_tag = counts
    for t in range(steps):
        n[rows[t], outcomes[t]] -= 1
        totals[rows[t]] -= 1
        if t < len(cells):
            n_cell[cells[t]] -= 1
            n_tag[outcomes[t]] -= 1


@njit(cache=True, nogil=True)
def refresh(
    cells: Array, rows: Array, outcomes: Array, steps: int, counts: Any, prior: Any, power: float, weights: Any
) -> None:
    """Bring the weights up to date with the counts that a sentence changed."""
    n, totals, n_cell, n_tag = counts
    kind, alpha, mass, beta, beta_mass = prior
    num, inv, num_cell, inv_tag = weights
    for t in range(steps):
        r, c = rows[t], outcomes[t]
        num[r, c] = (n[r, c] + alpha[kind[r]]) ** power
        inv[r] = (totals[r] + mass[kind[r]]) ** -power
        if t < len(cells):
            num_cell[cells[t]] = (n_cell[cells[t]] + beta[c]) ** power
            inv_tag[c] = (n_tag[c] + beta_mass[c]) ** -power


@njit(cache=True, nogil=True)
def log_weight(cells: Array, rows: Array, outcomes: Array, steps: int, weights: Any) -> float:
    num, inv, num_cell, inv_tag = weights
    found = 0.0
    for t in range(steps):
        p = num[rows[t], outcomes[t]] * inv[rows[t]]
        if t < len(cells):
            p *= num_cell[cells[t]] * inv_tag[outcomes[t]]
        found += log(p)
    return found


@njit(cache=True, nogil=True)
def sweep(
    words: Array,  # (tokens,)
    offsets: Array,  # (B + 1,)
    cells: Array,  # (tokens,) int64
    at: Array,  # (V + 1,)
    tag_of: Array,  # (cells,)
    n_cell: Array,
    n_tag: Array,
    n: Array,  # (rows, K + 1) int32
    totals: Array,  # (rows,) int32
    kind: Array,  # (rows,) which alpha a row has
    alpha: Array,
    mass: Array,
    beta: Array,
    beta_mass: Array,
    second: bool,
    stop: bool,
    power: float,
    uniforms: Array,  # (tokens,)
    decisions: Array,  # (B,) uniform
) -> tuple[int, int]:
    """Propose new tags for each sentence, in order. How many proposals there were, and how many were accepted."""
    longest, S = 0, n.shape[1]
    for s in range(len(offsets) - 1):
        longest = max(longest, offsets[s + 1] - offsets[s])
    rows, outcomes = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    new_rows, new_outcomes = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    num, inv = np.empty(n.shape), np.empty(len(totals))
    for r in range(len(totals)):
        inv[r] = (totals[r] + mass[kind[r]]) ** -power
        for c in range(S):
            num[r, c] = (n[r, c] + alpha[kind[r]]) ** power
    num_cell, inv_tag = np.empty(len(n_cell)), np.empty(len(n_tag))
    for j in range(len(n_cell)):
        num_cell[j] = (n_cell[j] + beta[tag_of[j]]) ** power
    for k in range(len(n_tag)):
        inv_tag[k] = (n_tag[k] + beta_mass[k]) ** -power

    proposed, accepted = 0, 0
    for s in range(len(offsets) - 1):
        lo, hi = offsets[s], offsets[s + 1]
        choice = False
        for t in range(lo, hi):
            choice |= at[words[t] + 1] - at[words[t]] > 1
        if not choice:
            continue
        proposed += 1
        w, old, new = words[lo:hi], cells[lo:hi], np.empty(hi - lo, np.int64)
        steps = step_rows(old, tag_of, S, second, stop, rows, outcomes)
        counts = (n, totals, n_cell, n_tag)
        prior = (kind, alpha, mass, beta, beta_mass)
        weights = (num, inv, num_cell, inv_tag)
        take(old, rows, outcomes, steps, counts)
        refresh(old, rows, outcomes, steps, counts, prior, power, weights)
        drawn = draw_sentence(w, at, tag_of, num, inv, num_cell, inv_tag, second, stop, uniforms[lo:hi], new)
        before = put(old, rows, outcomes, steps, counts, prior)
        if drawn:
            step_rows(new, tag_of, S, second, stop, new_rows, new_outcomes)
            take(old, rows, outcomes, steps, counts)
            after = put(new, new_rows, new_outcomes, steps, counts, prior)
            ratio = power * (after - before)
            ratio += log_weight(old, rows, outcomes, steps, weights)
            ratio -= log_weight(new, new_rows, new_outcomes, steps, weights)
            if log(max(decisions[s], 1e-300)) < ratio:
                accepted += 1
                refresh(new, new_rows, new_outcomes, steps, counts, prior, power, weights)
                for t in range(hi - lo):
                    cells[lo + t] = new[t]
                continue
            take(new, new_rows, new_outcomes, steps, counts)
            put(old, rows, outcomes, steps, counts, prior)
        refresh(old, rows, outcomes, steps, counts, prior, power, weights)
    return proposed, accepted
