"""One sweep of collapsed Gibbs sampling over the tags of a bigram hidden Markov model, its tables integrated out.

Tag c after b and before d, of word w, all counts without this token, has the probability

    p(c) ~ (n(c, w) + beta_c) / (n(c) + W_c beta_c) * (n(b, c) + alpha)
           * (n(c, d) + [b = c = d] + alpha) / (n'(c) + [b = c] + m alpha)

where n' counts contexts. See :mod:`.gibbs_trigram` for how tags and pads lie.

A word that may have any tag is weighed by vector instructions. For that, all counts of one conditional lie side by
side, with the token itself still among them. Then the few tags that its own bigrams weigh are weighed again without it:
the tag that it has, and those of its neighbours, where two of the three are the same.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .gibbs_choice import choose

Array = Any


class Counts(NamedTuple):
    """How often everything occurs, in the order in which kernels take it.

    :param n_cell: (cells,) int32, a word with a tag.
    :param n_tag: (K,) int32.
    :param n2: (K + 1, K + 1) int32, a tag before another.
    :param turned: (K + 1, K + 1) the same, the second tag first.
    :param n1: (K + 1,) int32, a tag as the context of a counted bigram.
    """

    n_cell: Array
    n_tag: Array
    n2: Array
    turned: Array
    n1: Array


class Prior(NamedTuple):
    """Concentrations, in the order in which kernels take them.

    :param alpha: (2,) of transitions and of starts.
    :param mass: (2,) times the number of outcomes.
    :param beta: (K,)
    :param beta_mass: (K,) times the number of words that the tag may have.
    :param stop: whether the end of a sentence is an outcome.
    """

    alpha: Array
    mass: Array
    beta: Array
    beta_mass: Array
    stop: bool


def counts_of(n2: Array, n1: Array, n_cell: Array, n_tag: Array) -> Counts:
    """The counts as a sweep wants them: transitions both ways round."""
    return Counts(n_cell, n_tag, n2, np.ascontiguousarray(n2.T), n1)


@njit(cache=True, nogil=True, error_model="numpy")
def repeats(b: int, c: int, d: int) -> tuple[int, int]:
    """The bigram of this very token that comes before in the product: as a bigram, and as a context."""
    return 1 if b == c and c == d else 0, 1 if b == c else 0


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def weight(
    c: int,
    b: int,
    old: int,
    d: int,
    second: int,  # whether the bigram (c, d) counts
    of_word: int,  # counts of the word with c, of c, of (b, c), of (c, d), of the context c
    of_tag: int,
    here: int,
    ahead: int,
    context: int,
    beta: float,
    beta_mass: float,
    first: float,  # alpha of (b, c), and of (c, d) with its mass
    alpha: float,
    mass: float,
) -> float:
    """The formula above, for a token that has the tag ``old`` and is still in all counts."""
    mine = 1 if c == old else 0
    here -= mine + (second if old == b and d == c else 0)
    p: float = (of_word - mine + beta) / (of_tag - mine + beta_mass) * (here + first)
    if second:
        again, again_context = repeats(b, c, d)
        ahead += again - mine - (1 if b == c and old == d else 0)
        context += again_context - mine - (1 if b == c else 0)
        p *= (ahead + alpha) / (context + mass)
    return p


# Arrays stay in this function: numba counts references to those that a call gets, and that takes longer than the sums.
@njit(cache=True, nogil=True, error_model="numpy")
def sweep(
    tags: Array,  # (padded,) int32
    places: Array,  # (n,) where the tokens with a choice are
    words: Array,  # (n,) their words
    cells: Array,  # (n,) int32, which of the cells each has now
    at: Array,  # (V + 1,) range of each word in the next two
    tag_of: Array,  # (cells,) int32
    n_cell: Array,  # counts as those of Counts
    n_tag: Array,
    n2: Array,
    turned: Array,
    n1: Array,
    alpha: Array,  # concentrations as those of Prior
    mass: Array,
    beta: Array,
    beta_mass: Array,
    stop: bool,
    power: float,  # one over the temperature
    uniforms: Array,  # (n,)
    weights: Array,  # (K,) room; in the end the running sums of those of the last token
) -> None:
    """Draw a new tag for each of these tokens, in order."""
    K, x, m = len(n_tag), alpha[0], mass[0]
    share, again = np.empty(K), np.empty(3, np.int64)
    for c in range(K):
        share[c] = 1 / ((n_tag[c] + beta_mass[c]) * (n1[c] + m))
    for t in range(len(places)):
        i, w, cell = places[t], words[t], cells[t]
        begin, size = at[w], at[w + 1] - at[w]
        b, old, d = tags[i - 1], tag_of[cell], tags[i + 1]
        second, first = 1 if d < K or stop else 0, alpha[1 if b == K else 0]
        quick, some = size == K and second == 1, size
        if quick:
            of_word, here, ahead = n_cell[begin : begin + K], n2[b], turned[d]
            for c in range(K):
                weights[c] = (of_word[c] + beta[c]) * (here[c] + first) * (ahead[c] + x) * share[c]
            again[0], some = old, 1
            if old == b and d < K:
                again[some] = d
                some += 1
            if b < K and (old == d or b == d):
                again[some] = b
                some += 1
        for k in range(some):
            j = again[k] if quick else k
            c = tag_of[begin + j]
            weights[j] = weight(
                c, b, old, d, second, n_cell[begin + j], n_tag[c], n2[b, c], turned[d, c], n1[c],
                beta[c], beta_mass[c], first, x, m,
            )  # fmt: skip
        new = begin + choose(weights, size, power, uniforms[t])
        if new == cell:
            continue
        for sign in (-1, 1):
            if sign == 1:
                cell = new
            c = tag_of[cell]
            n_cell[cell] += sign
            n_tag[c] += sign
            n2[b, c] += sign
            turned[c, b] += sign
            if second:
                n2[c, d] += sign
                turned[d, c] += sign
                n1[c] += sign
            share[c] = 1 / ((n_tag[c] + beta_mass[c]) * (n1[c] + m))
        cells[t], tags[i] = new, tag_of[new]
