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

A word that may have any tag is weighed as in :mod:`.gibbs_bigram`: by vector instructions first, with the token itself
still in the counts; then those tags again that its own trigrams weigh.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .gibbs_choice import choose

Array = Any


class Counts(NamedTuple):
    """How often everything occurs, in the order in which kernels take it. Trigrams lie in three ways, each with another
    of the three tags last.

    :param n_cell: (cells,) int32, a word with a tag.
    :param n_tag: (K,) int32.
    :param n3: (K + 1, K + 1, K + 1) int32.
    :param middle: the same, [first, last, middle].
    :param first: the same, [middle, last, first].
    :param n2: (K + 1, K + 1) int32, two tags as the context of a counted trigram.
    :param turned: the same, the second tag first.
    """

    n_cell: Array
    n_tag: Array
    n3: Array
    middle: Array
    first: Array
    n2: Array
    turned: Array


def counts_of(n3: Array, n2: Array, n_cell: Array, n_tag: Array) -> Counts:
    """The counts as a sweep wants them."""
    middle, first = np.ascontiguousarray(n3.transpose(0, 2, 1)), np.ascontiguousarray(n3.transpose(1, 2, 0))
    return Counts(n_cell, n_tag, n3, middle, first, n2, np.ascontiguousarray(n2.T))


@njit(cache=True, nogil=True, error_model="numpy")
def repeats(a: int, b: int, c: int, d: int, e: int) -> tuple[int, int, int, int]:
    """The trigrams of this very token that come before in the product: of the second trigram and its context, and of
    the third and its context."""
    same = 1 if b == c and c == d else 0
    second, context = (same if a == b else 0), (1 if a == b and b == c else 0)
    third = (1 if a == c and c == e and b == d else 0) + (same if d == e else 0)
    return second, context, third, (1 if a == c and b == d else 0) + same


@njit(cache=True, nogil=True, error_model="numpy", forceinline=True)
def weight(
    a: int,
    b: int,
    c: int,
    d: int,
    e: int,
    old: int,
    second: int,  # whether the trigrams (b, c, d) and (c, d, e) count
    third: int,
    of_word: int,  # counts of the word with c, of c, of the three trigrams, of the contexts (b, c) and (c, d)
    of_tag: int,
    here: int,
    middle: int,
    last: int,
    context: int,
    next_context: int,
    beta: float,
    beta_mass: float,
    first: float,  # alpha of the three trigrams, and masses of the last two
    alpha: float,
    next_alpha: float,
    mass: float,
    next_mass: float,
) -> float:
    """The formula above, for a token that has the tag ``old`` and is still in all counts."""
    mine = 1 if c == old else 0
    here -= mine + (second if b == a and old == b and d == c else 0) + (third if old == a and d == b and e == c else 0)
    p: float = (of_word - mine + beta) / (of_tag - mine + beta_mass) * (here + first)
    if second:
        again, again_context, again_third, context_third = repeats(a, b, c, d, e)
        middle += again - mine
        middle -= (1 if a == b and b == c and old == d else 0) + (third if old == b and d == c and e == d else 0)
        context += again_context - mine
        context -= (1 if a == b and b == c else 0) + (third if old == b and d == c else 0)
        p *= (middle + alpha) / (context + mass)
        if third:
            last += again_third - mine
            last -= (1 if a == c and b == d and old == e else 0) + (1 if b == c and old == d and d == e else 0)
            next_context += context_third - mine
            next_context -= (1 if a == c and b == d else 0) + (1 if b == c and old == d else 0)
            p *= (last + next_alpha) / (next_context + next_mass)
    return p


# Arrays stay in this function: see gibbs_bigram.
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
    n3: Array,
    middle: Array,
    first: Array,
    n2: Array,
    turned: Array,
    alpha: Array,  # (3,) of transitions, out of the first position, and of starts
    mass: Array,  # (3,) times the number of outcomes
    beta: Array,  # (K,)
    beta_mass: Array,  # (K,) times the number of words that the tag may have
    stop: bool,
    power: float,  # one over the temperature
    uniforms: Array,  # (n,)
    weights: Array,  # (K,) room; in the end the running sums of those of the last token
) -> None:
    """Draw a new tag for each of these tokens, in order."""
    K, x, y = len(n_tag), alpha[0], mass[0]
    again = np.empty(5, np.int64)
    for t in range(len(places)):
        i, w, cell = places[t], words[t], cells[t]
        begin, size = at[w], at[w + 1] - at[w]
        a, b, old, d, e = tags[i - 2], tags[i - 1], tag_of[cell], tags[i + 1], tags[i + 2]
        second, third = 1 if d < K or stop else 0, 1 if d < K and (e < K or stop) else 0
        start = 1 if b == K else 0  # out of the first position of a sentence
        own, onward, m = alpha[start + (1 if a == K else 0)], alpha[start], mass[start]
        quick, some = size == K and third == 1, size
        if quick:
            of_word, here, two, three = n_cell[begin : begin + K], n3[a, b], middle[b, d], first[d, e]
            context, reverse = n2[b], turned[d]
            for c in range(K):
                weights[c] = (
                    (of_word[c] + beta[c])
                    * (here[c] + own)
                    * (two[c] + onward)
                    * (three[c] + x)
                    / ((n_tag[c] + beta_mass[c]) * (context[c] + m) * (reverse[c] + y))
                )
            again[0], some = old, 1
            if a == b or b == d or old in (a, b, d, e):
                for c in (a, b, d, e):
                    if c < K:
                        again[some] = c
                        some += 1
        for k in range(some):
            j = again[k] if quick else k
            c = tag_of[begin + j]
            weights[j] = weight(
                a, b, c, d, e, old, second, third, n_cell[begin + j], n_tag[c], n3[a, b, c], middle[b, d, c],
                first[d, e, c], n2[b, c], turned[d, c], beta[c], beta_mass[c], own, onward, x, m, y,
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
            n3[a, b, c] += sign
            middle[a, c, b] += sign
            first[b, c, a] += sign
            if second:
                n3[b, c, d] += sign
                middle[b, d, c] += sign
                first[c, d, b] += sign
                n2[b, c] += sign
                turned[c, b] += sign
            if third:
                n3[c, d, e] += sign
                middle[c, e, d] += sign
                first[d, e, c] += sign
                n2[c, d] += sign
                turned[d, c] += sign
        cells[t], tags[i] = new, tag_of[new]
