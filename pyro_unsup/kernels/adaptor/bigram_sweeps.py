"""Sweeps of the bigram Dirichlet process: every sentence gets new words, which are accepted or not.

The chart of a sentence goes over pairs of words next to each other, with the seats of all other sentences held fixed:

    reach(i, j) = sum over k < i of reach(k, i) p(word from i to j | word from k to i)

What a table of the lexicon gives a word after l is the same for all l, so only pairs that occur cost a term of their
own. Words are drawn from the last to the first. Then they are seated one after the other, and every seat changes the
weights of the next; Metropolis and Hastings ask for the quotient, of the new words and of the old ones, of

    product of p(word | word before, all seats up to here)  /  product of p(word | word before) in the chart
"""

from __future__ import annotations

from math import exp, log

import numpy as np
from numba import njit

from .bigram import find, follows, known, rise, share_of_ends, sit, spelling
from .bigram import token as worth_of
from .records import FREE, Array, Grammar, Lattice, Pairs, Seats, Text, uniform
from .seats import give_back
from .sweeps import AGAIN, BLANK


@njit(cache=True, nogil=True)
def fill(
    g: Grammar, s: Seats, p: Pairs, f: Lattice, text: Text, at: int, n: int, discount: Array, strength: Array,
    blank: bool,
) -> float:  # fmt: skip
    """Fill the chart of a sentence; the weight of all ways to cut it.

    :param blank: as if nothing had been counted yet: for the start of a chain.
    """
    side, end, longest = n + 1, len(text.place), text.cells.shape[1]
    keys, cells, reach, word, power, seen, ahead = p.key, text.cells, f.reach, f.word, f.power, s.customers, f.known
    c, A, stop, _ = spelling(g)
    ends, goes = 1.0, 0.0
    if A >= 0:
        ends = 0.5 if blank else (s.rules[stop] + 1.0) / (s.rules_of[A] + 2.0)
        goes = 1.0 - ends
    for i in range(n):
        v = text.words[at + i]
        f.show[i] = 0.0
        if g.member[c, v]:
            f.show[i] = f.power[1] * (1.0 if blank else s.shown[c, v] + 1.0)
            f.show[i] /= g.members[c] if blank else s.shown_of[c] + g.members[c]
    a, b, d, e = discount[0], strength[0], discount[1], strength[1]
    words = 0.5 if blank else (1.0 - share_of_ends(s, p)) / (s.all_customers[0] + b)
    for i in range(n):
        spelled, near = ends, 0
        last = min(n, i + longest)
        for j in range(i + 1, last + 1):
            spelled *= f.show[j - 1] * (goes if j > i + 1 else 1.0)
            if blank:
                word[i * side + j] = words * spelled
            else:
                string = cells[at + j - 1, j - i - 1]
                old = 0.0
                if seen[string, 0] > 0:
                    old = known(s, string, a) * power[j - i]
                    ahead[near] = j
                    near += 1
                word[i * side + j] = words * (old + (a * s.all_tables[0] + b) * spelled)
            reach[i * side + j] = 0.0
        back = 0.0  # what new tables give, whatever word is before
        for k in range(-1 if i == 0 else max(0, i - longest), max(i, 0)):
            left = end if i == 0 else cells[at + i - 1, i - k - 1]
            x = 1.0 if i == 0 else reach[k * side + i]
            if blank:
                back += x
                continue
            x /= p.all_customers[left] + e
            back += x * (d * p.all_tables[left] + e)
            if x == 0.0 or p.all_customers[left] == 0:
                continue
            for m in range(near):
                j = ahead[m]
                pair = find(keys, left, cells[at + j - 1, j - i - 1], end + 1)
                if pair >= 0:
                    reach[i * side + j] += x * (p.customers[pair] - d * p.tables[pair]) * power[j - i]
        for j in range(i + 1, last + 1):
            reach[i * side + j] += back * word[i * side + j]
    total = 0.0
    for i in range(max(0, n - longest), n):
        total += f.reach[i * side + n] * step(s, p, f, text, at, n, i, n, n, d, e, blank)
    return total


@njit(cache=True, nogil=True, inline="always")
def step(
    s: Seats, p: Pairs, f: Lattice, text: Text, at: int, n: int, k: int, i: int, j: int, d: float, e: float, blank: bool
) -> float:
    """What the chart gives the word from i to j after that from k to i, if nothing has been seated since.

    Where i = j it is the end of the sentence, and where k < 0 the word before is its start.
    """
    end = len(text.place)
    left = end if k < 0 else text.cells[at + i - 1, i - k - 1]
    if i == j:
        return 0.5 if blank else follows(p, left, end, share_of_ends(s, p), 1.0, d, e)
    base = f.word[i * (n + 1) + j]
    return base if blank else follows(p, left, text.cells[at + j - 1, j - i - 1], base, f.power[j - i], d, e)


@njit(cache=True, nogil=True)
def draw(
    s: Seats, p: Pairs, f: Lattice, text: Text, at: int, n: int, total: float, d: float, e: float, blank: bool,
    state: Array,
) -> None:  # fmt: skip
    """Draw the words of a sentence from the last to the first; where they end goes to ``f.new``."""
    longest, side = text.cells.shape[1], n + 1
    many, i, j = 0, n, n  # the present outcome: first the end
    while i > 0:
        left, chosen, again = uniform(state) * total, -1, 0.0
        for k in range(max(0, i - longest), i):
            x = f.reach[k * side + i]
            if x > 0.0:
                chosen, again = k, x
                left -= x * step(s, p, f, text, at, n, k, i, j, d, e, blank)
                if left < 0.0:
                    break
        f.new[many] = i
        many += 1
        total, i, j = again, chosen, i
    for k in range(many // 2):
        f.new[k], f.new[many - 1 - k] = f.new[many - 1 - k], f.new[k]
    f.new[n] = many


@njit(cache=True, nogil=True)
def weigh(s: Seats, p: Pairs, f: Lattice, text: Text, at: int, n: int, cuts: Array, d: float, e: float) -> float:
    """Log of the weight that these words have in the chart."""
    k, i, found = -1, 0, 0.0
    for m in range(cuts[n]):
        found += log(step(s, p, f, text, at, n, k, i, cuts[m], d, e, False))
        k, i = i, cuts[m]
    return found + log(step(s, p, f, text, at, n, k, n, n, d, e, False))


@njit(cache=True, nogil=True)
def seat(
    g: Grammar, s: Seats, p: Pairs, f: Lattice, text: Text, at: int, n: int, sentence: int, cuts: Array, given: bool,
    discount: Array, strength: Array, state: Array,
) -> float:  # fmt: skip
    """Seat the words of a sentence and its end, where they sat (``f.seat``) or anew; log of their probability."""
    symbols = len(text.words)
    p.seat[at : at + n] = -1
    left, i, found = len(text.place), 0, 0.0
    for m in range(cuts[n] + 1):
        j = cuts[m] if m < cuts[n] else n
        table = f.seat[m] if given else -1
        table, x = sit(g, s, p, f, text, left, at + i, at + j, table, discount, strength, state)
        found += x
        if j == i:
            p.seat[symbols + sentence] = table
        else:
            p.seat[at + j - 1] = table
            left, i = text.cells[at + j - 1, j - i - 1], j
    return found


@njit(cache=True, nogil=True)
def leave(
    g: Grammar, s: Seats, p: Pairs, f: Lattice, text: Text, at: int, n: int, sentence: int, cuts: Array, keep: bool,
    discount: Array, strength: Array,
) -> tuple[float, int, int]:  # fmt: skip
    """Take a sentence out of all counts, from its end to its first word; log of its probability, given the others.

    After each token has left, the counts are those that it found when it came.

    :param keep: note the tables in ``f.seat``.
    """
    found, gone, words, j = 0.0, 0, 0, n
    for m in range(cuts[n], -1, -1):
        i = n if m == cuts[n] else 0 if m == 0 else cuts[m - 1]
        before = 0 if m < 2 else cuts[m - 2]  # where the word before begins
        left = len(text.place) if m == 0 else text.cells[at + i - 1, i - before - 1]
        place = len(text.words) + sentence if m == cuts[n] else at + j - 1
        table = p.seat[place]
        if keep:
            f.seat[m] = table
        empty, unused = rise(g, s, p, text, left, at + i, at + j, table)
        if empty:
            f.gone[gone] = table
            gone += 1
        if unused:
            f.gone_words[words] = p.parent[table]
            words += 1
        found += log(worth_of(g, s, p, f, text, left, at + i, at + j, discount, strength)[0])
        j = i
    return found, gone, words


@njit(cache=True, nogil=True)
def release(s: Seats, p: Pairs, f: Lattice, gone: int, words: int) -> None:
    """The numbers of empty tables may be used again."""
    for k in range(gone):
        p.free[p.used[FREE]] = f.gone[k]
        p.used[FREE] += 1
    give_back(s, f.gone_words, words)


@njit(cache=True, nogil=True)
def renew(
    g: Grammar, s: Seats, p: Pairs, f: Lattice, text: Text, at: int, n: int, sentence: int, how: int, discount: Array,
    strength: Array, state: Array,
) -> int:  # fmt: skip
    """New words of a sentence: 1 if they were accepted, 0 if the old ones stay, -1 if there are none at all."""
    d, e = discount[1], strength[1]
    gone, words, ratio = 0, 0, 0.0
    if how == AGAIN:
        f.old[n] = 0
        for j in range(n):
            if p.seat[at + j] >= 0:
                f.old[f.old[n]] = j + 1
                f.old[n] += 1
        ratio, gone, words = leave(g, s, p, f, text, at, n, sentence, f.old, True, discount, strength)
    total = fill(g, s, p, f, text, at, n, discount, strength, how == BLANK)
    if not (total > 0.0 and total < np.inf):
        return -1
    draw(s, p, f, text, at, n, total, d, e, how == BLANK, state)
    if how != AGAIN:
        seat(g, s, p, f, text, at, n, sentence, f.new, False, discount, strength, state)
        return 1
    ratio -= weigh(s, p, f, text, at, n, f.old, d, e)
    chart = weigh(s, p, f, text, at, n, f.new, d, e)
    found = seat(g, s, p, f, text, at, n, sentence, f.new, False, discount, strength, state) - chart
    if uniform(state) < exp(min(found - ratio, 0.0)):
        release(s, p, f, gone, words)
        return 1
    _, gone, words = leave(g, s, p, f, text, at, n, sentence, f.new, False, discount, strength)
    release(s, p, f, gone, words)
    seat(g, s, p, f, text, at, n, sentence, f.old, True, discount, strength, state)
    return 0


@njit(cache=True, nogil=True)
def over_sentences(
    g: Grammar, s: Seats, p: Pairs, f: Lattice, text: Text, order: Array, how: int, discount: Array, strength: Array,
    state: Array, accepted: Array,
) -> int:  # fmt: skip
    """New words of all sentences, in this order: how many there were, or -1 - k if sentence k has none."""
    for k in order:
        at, n = text.offsets[k], text.offsets[k + 1] - text.offsets[k]
        if n > 0:
            done = renew(g, s, p, f, text, at, n, k, how, discount, strength, state)
            if done < 0:
                return -1 - k
            accepted[0] += 1
            accepted[1] += done
    return len(order)
