"""One sweep of collapsed Gibbs sampling over the tags of a bigram hidden Markov model, its tables integrated out.

Tag c after b and before d, of word w, all counts without this token, has the probability

    p(c) ~ (n(c, w) + beta_c) / (n(c) + W_c beta_c) * (n(b, c) + alpha)
           * (n(c, d) + [b = c = d] + alpha) / (n'(c) + [b = c] + m alpha)

where n' counts contexts. See :mod:`.gibbs_trigram` for how tags and pads lie.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .gibbs_trigram import choose

Array = Any


@njit(cache=True, nogil=True, error_model="numpy")
def onward(b: int, c: int, d: int, n2: Array, n1: Array, alpha: Array, mass: Array) -> float:
    """The factor of the bigram that has this token as its context. The context b is still in ``n1``."""
    p: float = (n2[c, d] + (1 if b == c and c == d else 0) + alpha[0]) / (n1[c] + mass[0])
    return p


# LLVM thinks it too long to inline, and a call costs as much again; no denominator is ever zero.
@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def lift(
    i: int,  # where the token is
    begin: int,  # its cells, and which of them it has
    size: int,
    cell: int,
    tags: Array,
    tag_of: Array,
    n_cell: Array,
    n_tag: Array,
    n2: Array,
    n1: Array,
    alpha: Array,
    mass: Array,
    beta: Array,
    beta_mass: Array,
    stop: bool,
    weights: Array,  # out: of its possible tags, not normalised
) -> None:
    """Take a token out of the counts, but for its context b, and weigh the tags that it may have."""
    K = len(n1) - 1
    b, d = tags[i - 1], tags[i + 1]
    second = d != K or stop
    old = tag_of[cell]
    n_cell[cell] -= 1
    n_tag[old] -= 1
    n2[b, old] -= 1
    if second:
        n2[old, d] -= 1
        n1[old] -= 1
    here, x, m = alpha[1 if b == K else 0], alpha[0], mass[0]
    if not second:
        for j in range(size):
            c = tag_of[begin + j]
            weights[j] = (n_cell[begin + j] + beta[c]) * (n2[b, c] + here) / (n_tag[c] + beta_mass[c])
        return
    for j in range(size):  # without the indicator, and with one division
        c = tag_of[begin + j]
        weights[j] = (
            (n_cell[begin + j] + beta[c])
            * (n2[b, c] + here)
            * (n2[c, d] + x)
            / ((n_tag[c] + beta_mass[c]) * (n1[c] + m))
        )
    if b == d:
        for j in range(size):
            c = tag_of[begin + j]
            if c == b:
                p = (n_cell[begin + j] + beta[c]) * (n2[b, c] + here) / (n_tag[c] + beta_mass[c])
                weights[j] = p * onward(b, c, d, n2, n1, alpha, mass)


@njit(cache=True, nogil=True, error_model="numpy")
def sweep(
    tags: Array,  # (padded,) int32
    places: Array,  # (n,) where the tokens with a choice are
    words: Array,  # (n,) their words
    cells: Array,  # (n,) int32, which of the cells each has now
    at: Array,  # (V + 1,) range of each word in the next two
    tag_of: Array,  # (cells,) int32
    n_cell: Array,  # (cells,) int32, how often the word has the tag
    n_tag: Array,  # (K,) int32
    n2: Array,  # (K + 1, K + 1) int32
    n1: Array,  # (K + 1,) int32, how often a tag is the context of a counted bigram
    alpha: Array,  # (2,) of transitions and of starts
    mass: Array,  # (2,) times the number of outcomes
    beta: Array,  # (K,)
    beta_mass: Array,  # (K,) times the number of words that the tag may have
    stop: bool,
    power: float,  # one over the temperature
    uniforms: Array,  # (n,)
) -> None:
    """Draw a new tag for each of these tokens, in order."""
    K = len(n1) - 1
    weights = np.empty(K)
    for t in range(len(places)):
        i, w = places[t], words[t]
        begin, size = at[w], at[w + 1] - at[w]
        lift(i, begin, size, cells[t], tags, tag_of, n_cell, n_tag, n2, n1, alpha, mass, beta, beta_mass, stop, weights)
        cell = begin + choose(weights, size, power, uniforms[t])
        b, c, d = tags[i - 1], tag_of[cell], tags[i + 1]
        cells[t], tags[i] = cell, c
        n_cell[cell] += 1
        n_tag[c] += 1
        n2[b, c] += 1
        if d != K or stop:
            n2[c, d] += 1
            n1[c] += 1
