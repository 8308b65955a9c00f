"""One sweep of collapsed Gibbs sampling over the tags of a trigram hidden Markov model, its tables integrated out.

Tag c between a, b before it and d, e after it, of word w, all counts without this token, has the probability

    p(c) ~ (n(c, w) + beta_c) / (n(c) + W_c beta_c) * (n(a, b, c) + alpha)
           * (n(b, c, d) + [a = b = c = d] + alpha) / (n(b, c) + [a = b = c] + m alpha)
           * (n(c, d, e) + [a = c = e, b = d] + [b = c = d = e] + alpha)
           / (n(c, d) + [a = c, b = d] + [b = c = d] + m alpha)

The indicators are the trigrams of this very token that come before in the product: they are in the counts by the time
the next one is drawn. They want c = a or c = b, with a = b or b = d, so that most tokens have none of them.

Tags lie end to end with two pads, numbered K, before each sentence and after the last. A trigram whose last tag is a
pad counts where ending is an event, and does not where the boundary is but a context.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = Any


@njit(cache=True, nogil=True)
def onward(
    a: int, b: int, c: int, d: int, e: int, second: bool, third: bool, n3: Array, n2: Array, alpha: Array, mass: Array
) -> float:
    """The factors of the two trigrams that have this token as a context. The context (a, b) is still in ``n2``.

    So [a = b = c] and [a = c, b = d], where (a, b) comes again, need not be added.
    """
    p = 1.0
    if second:
        first = 1 if b == len(n2) - 1 else 0  # out of the first position of a sentence
        repeat = 1 if a == b and b == c and c == d else 0
        p = (n3[b, c, d] + repeat + alpha[first]) / (n2[b, c] + mass[first])
    if third:
        again = (1 if a == c and c == e and b == d else 0) + (1 if b == c and c == d and d == e else 0)
        p *= (n3[c, d, e] + again + alpha[0]) / (n2[c, d] + (1 if b == c and c == d else 0) + mass[0])
    return p


@njit(cache=True, nogil=True)
def choose(weights: Array, size: int, power: float, uniform: float) -> int:
    """Draw one of the first ``size`` places, by weights to a power. The weights are overwritten."""
    if power != 1.0:
        top = 0.0
        for j in range(size):
            top = max(top, weights[j])
        for j in range(size):
            weights[j] = (weights[j] / top) ** power
    total = 0.0
    for j in range(size):
        total += weights[j]
        weights[j] = total
    threshold = uniform * total
    for j in range(size - 1):
        if threshold < weights[j]:
            return j
    return size - 1


@njit(cache=True, nogil=True, inline="always")  # LLVM thinks it too long to inline, and a call costs as much again
def lift(
    i: int,  # where the token is
    begin: int,  # its cells, and which of them it has
    size: int,
    cell: int,
    tags: Array,
    tag_of: Array,
    n_cell: Array,
    n_tag: Array,
    n3: Array,
    n2: Array,
    alpha: Array,
    mass: Array,
    beta: Array,
    beta_mass: Array,
    stop: bool,
    weights: Array,  # out: of its possible tags, not normalised
) -> None:
    """Take a token out of the counts, but for its context (a, b), and weigh the tags that it may have."""
    K = len(n2) - 1
    a, b, d, e = tags[i - 2], tags[i - 1], tags[i + 1], tags[i + 2]
    second = d != K or stop
    third = d != K and (e != K or stop)
    old = tag_of[cell]
    n_cell[cell] -= 1
    n_tag[old] -= 1
    n3[a, b, old] -= 1
    if second:
        n3[b, old, d] -= 1
        n2[b, old] -= 1
    if third:
        n3[old, d, e] -= 1
        n2[old, d] -= 1
    here = alpha[(1 if a == K else 0) + (1 if b == K else 0)]
    if second and third and b != K and a != b and b != d:  # the usual case: no indicator, and no pad but perhaps a
        x, m = alpha[0], mass[0]
        for j in range(size):
            c = tag_of[begin + j]
            weights[j] = (
                (n_cell[begin + j] + beta[c])
                * (n3[a, b, c] + here)
                * (n3[b, c, d] + x)
                * (n3[c, d, e] + x)
                / ((n_tag[c] + beta_mass[c]) * (n2[b, c] + m) * (n2[c, d] + m))
            )
    else:
        for j in range(size):
            c = tag_of[begin + j]
            p = (n_cell[begin + j] + beta[c]) * (n3[a, b, c] + here) / (n_tag[c] + beta_mass[c])
            weights[j] = p * onward(a, b, c, d, e, second, third, n3, n2, alpha, mass)


@njit(cache=True, nogil=True)
def sweep(
    tags: Array,  # (padded,) int32
    places: Array,  # (n,) where the tokens with a choice are
    words: Array,  # (n,) their words
    cells: Array,  # (n,) int32, which of the cells each has now
    at: Array,  # (V + 1,) range of each word in the next two
    tag_of: Array,  # (cells,) int32
    n_cell: Array,  # (cells,) int32, how often the word has the tag
    n_tag: Array,  # (K,) int32
    n3: Array,  # (K + 1, K + 1, K + 1) int32
    n2: Array,  # (K + 1, K + 1) int32, how often two tags are the context of a counted trigram
    alpha: Array,  # (3,) of transitions, out of the first position, and of starts
    mass: Array,  # (3,) times the number of outcomes
    beta: Array,  # (K,)
    beta_mass: Array,  # (K,) times the number of words that the tag may have
    stop: bool,
    power: float,  # one over the temperature
    uniforms: Array,  # (n,)
) -> None:
    """Draw a new tag for each of these tokens, in order."""
    K = len(n2) - 1
    weights = np.empty(K)
    for t in range(len(places)):
        i, w = places[t], words[t]
        begin, size = at[w], at[w + 1] - at[w]
        lift(i, begin, size, cells[t], tags, tag_of, n_cell, n_tag, n3, n2, alpha, mass, beta, beta_mass, stop, weights)
        cell = begin + choose(weights, size, power, uniforms[t])
        a, b, c, d, e = tags[i - 2], tags[i - 1], tag_of[cell], tags[i + 1], tags[i + 2]
        cells[t], tags[i] = cell, c
        n_cell[cell] += 1
        n_tag[c] += 1
        n3[a, b, c] += 1
        if d != K or stop:
            n3[b, c, d] += 1
            n2[b, c] += 1
        if d != K and (e != K or stop):
            n3[c, d, e] += 1
            n2[c, d] += 1
