"""Sweeps of Gibbs sampling over the links of words, translations integrated out.

A word f that chooses the word e at place i, all counts without its old link, has

    p(i) ~ (n(e, f) + beta) / (n(e) + beta * outcomes) * choice(i) * jump(i' -> i) * jump(i -> i'') * fertility(e)

where i' and i'' are the places of the links before and after it. Model 1 has no jumps. With fertility, each place has
as many links as words choose it. The numbers of links of all places with the same word e are drawn from one row, which
is integrated out too: a place that has k links gets one more with ``(m(e, k + 1) + a) / (m(e, k) + a)``, m counting the
other places of e.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..array import Array

compiled = njit(cache=True, nogil=True)


@compiled
def sweep(
    cells: Array,  # (cells,) of the table of translations, pair by pair, source words down and target words across
    starts: Array,  # (B + 1,) where the cells of each pair begin
    sizes: Array,  # (2, B) how many words choose, and among how many
    turned: bool,  # source words choose
    at: Array,  # (2, B) where the words of each pair begin, of those that choose and those that are chosen
    rows: Array,  # (words that are chosen,) the row of the table that each has; the last row is the null word's
    labels: Array,  # (words that choose,) int32, in and out: the place that each chose, from 1; 0 is the null word
    n: Array,  # (C,) int32, in and out: how often each cell is used
    totals: Array,  # (R,) int32, in and out: the same of each row
    beta: float,
    mass: Array,  # (R,) beta times the outcomes of each row
    choice: Array,  # (2, B) weights of the null word, and of each place
    jumps: Array,  # (lengths, P + 1, P + 1) by place and next place; next place 0 is the end. Empty: no jumps
    length: Array,  # (B,) which of those lengths each pair has
    fertile: Array,  # (R, F) int32, in and out: how many places of each row have so many links. Empty: no fertility
    links: Array,  # (words that are chosen,) int32, in and out: how many links each has
    a: float,  # concentration of fertilities
    power: float,  # one over the temperature
    uniforms: Array,  # (words that choose,)
) -> None:
    """Draw a new link for each word, in order."""
    hops, counted = len(jumps) > 0, len(fertile) > 0
    last = fertile.shape[1] - 1
    null = len(totals) - 1
    inverse = 1 / (totals + mass)
    widest = 0
    for b in range(sizes.shape[1]):
        widest = max(widest, sizes[0, b], sizes[1, b])
    weights, ahead = np.empty(widest + 1), np.empty(widest + 1, np.int64)
    for b in range(sizes.shape[1]):
        T, S = sizes[0, b], sizes[1, b]
        down, across = (1, S + 1) if turned else (T + 1, 1)  # from place to place, and from word to word
        own, places = labels[at[0, b] : at[0, b] + T], rows[at[1, b] : at[1, b] + S]
        many = links[at[1, b] : at[1, b] + S] if counted else links
        follows = 0
        for t in range(T - 1, -1, -1):
            ahead[t] = follows
            follows = own[t] if own[t] > 0 else follows
        before = 0
        for t in range(T):
            base, old = starts[b] + (t + 1) * across, own[t]
            row = places[old - 1] if old else null
            n[cells[base + old * down]] -= 1
            totals[row] -= 1
            inverse[row] = 1 / (totals[row] + mass[row])
            if counted and old:
                k = many[old - 1]
                many[old - 1] = k - 1
                fertile[row, min(k, last)] -= 1
                fertile[row, min(k - 1, last)] += 1
            w = (n[cells[base]] + beta) * inverse[null] * choice[0, b]
            if hops:
                w *= jumps[length[b], before, ahead[t]]
            weights[0] = w
            for i in range(1, S + 1):
                r = places[i - 1]
                w = (n[cells[base + i * down]] + beta) * inverse[r] * choice[1, b]
                if hops:
                    w *= jumps[length[b], before, i] * jumps[length[b], i, ahead[t]]
                if counted and many[i - 1] < last:
                    k = many[i - 1]
                    w *= (fertile[r, k + 1] + a) / (fertile[r, k] - 1 + a)
                weights[i] = w
            new = _choose(weights[: S + 1], power, uniforms[at[0, b] + t])
            own[t] = new
            row = places[new - 1] if new else null
            n[cells[base + new * down]] += 1
            totals[row] += 1
            inverse[row] = 1 / (totals[row] + mass[row])
            if counted and new:
                k = many[new - 1]
                many[new - 1] = k + 1
                fertile[row, min(k, last)] -= 1
                fertile[row, min(k + 1, last)] += 1
            before = new if new else before


@compiled
def _choose(weights: Array, power: float, uniform: float) -> int:
    """One of the places, by its weight."""
    total = 0.0
    if power != 1.0:
        top = weights.max()
        for i in range(len(weights)):
            weights[i] = (weights[i] / top) ** power
    for i in range(len(weights)):
        total += weights[i]
    left, found = uniform * total, -1
    for i in range(len(weights)):
        if weights[i] > 0:
            found = i
            left -= weights[i]
            if left < 0:
                break
    return found


@compiled
def count_links(
    cells: Array, starts: Array, sizes: Array, turned: bool, at: Array, rows: Array, labels: Array,
    n: Array, totals: Array, links: Array,
) -> None:  # fmt: skip
    """Count what links use: cells, rows, and links of each place, on top of what is there."""
    null = len(totals) - 1
    for b in range(sizes.shape[1]):
        T, S = sizes[0, b], sizes[1, b]
        down, across = (1, S + 1) if turned else (T + 1, 1)
        for t in range(T):
            i = labels[at[0, b] + t]
            n[cells[starts[b] + (t + 1) * across + i * down]] += 1
            totals[rows[at[1, b] + i - 1] if i else null] += 1
            if i:
                links[at[1, b] + i - 1] += 1


@compiled
def count_jumps(sizes: Array, at: Array, labels: Array, length: Array, found: Array) -> None:
    """Count jumps by length of the sentence, place and next place, 0 being the end."""
    for b in range(sizes.shape[1]):
        before = 0
        for t in range(sizes[0, b]):
            new = labels[at[0, b] + t]
            if new:
                found[length[b], before, new] += 1
                before = new
        if sizes[0, b]:
            found[length[b], before, 0] += 1


@compiled
def log_rows(n: Array, totals: Array, beta: float, mass: Array) -> float:
    """log-probability of drawing so often, one after the other, from rows that are integrated out."""
    found, one = 0.0, math.lgamma(beta)
    for k in n:
        if k:
            found += math.lgamma(k + beta) - one
    for r in range(len(totals)):
        if totals[r]:
            found -= math.lgamma(totals[r] + mass[r]) - math.lgamma(mass[r])
    return found
