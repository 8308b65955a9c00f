"""Restaurants of words after words: the seats of the bigram Dirichlet process, and how tokens take and leave them.

Every word that stands before another, and the start of a sentence, has a restaurant. A token of the word w after l
sits down at a table of the restaurant of l that has w, or at a new one. A new table has its word from the lexicon: it
is a customer of the restaurant G of all words. With m customers at t tables in all of the restaurant of l, of these
m_w at t_w tables that have w, discount d and concentration e,

    p(w | l) = ((m_w - d t_w) + (d t + e) G(w)) / (m + e)

The end of a sentence is an outcome of every restaurant, too. Whether a new table has the end or a word is told by an
urn with one ball of each kind to begin with.
"""

from __future__ import annotations

from math import log

import numpy as np
from numba import njit

from .records import ENDS, FREE, FRESH, Array, Grammar, Lattice, Pairs, Seats, Text, uniform
from .seats import link, unlink


@njit(cache=True, nogil=True)
def find(keys: Array, left: int, right: int, side: int) -> int:
    """The slot of a pair, or the free one where it would be: -1 - slot. A record costs more to pass than an array.

    :param keys: what :attr:`Pairs.key` is.
    :param side: S + 1.
    """
    key, mask = left * side + right, len(keys) - 1
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    k = int(np.int64(mixed >> np.uint64(32))) & mask
    while keys[k] != key:
        if keys[k] < 0:
            return -1 - k
        k = (k + 1) & mask
    return k


@njit(cache=True, nogil=True, inline="always")
def follows(p: Pairs, left: int, right: int, base: float, power: float, d: float, e: float) -> float:
    """p(right | left), where a new table has ``right`` with probability ``base``; times ``power``."""
    found = (d * p.all_tables[left] + e) * base
    if p.all_customers[left] > 0:
        k = find(p.key, left, right, len(p.all_customers))
        if k >= 0:
            found += (p.customers[k] - d * p.tables[k]) * power
    return found / (p.all_customers[left] + e)


@njit(cache=True, nogil=True)
def spelling(g: Grammar) -> tuple[int, int, int, int]:
    """How words are spelled: the class of their symbols, the unit that repeats, its rule that ends, the one that goes
    on. The last three are -1 where words have one symbol."""
    inside = g.left[g.first[g.symbol[0]]]
    if g.klass[inside] >= 0:
        return g.klass[inside], -1, -1, -1
    r = g.first[inside]
    ends = r if g.right[r] < 0 else r + 1
    return g.klass[g.left[ends]], inside, ends, 2 * r + 1 - ends


@njit(cache=True, nogil=True, inline="always")
def spelled(g: Grammar, s: Seats, words: Array, i: int, j: int, scale: float) -> float:
    """The probability that a new word is spelled as the text from i to j, symbol after symbol; times scale^(j - i)."""
    c, A, ends, on = spelling(g)
    found = 1.0 if A >= 0 or j == i + 1 else 0.0
    total = s.shown_of[c] + g.members[c]
    for k in range(i, j):
        v, seen = words[k], 1.0
        for m in range(i, k):
            if words[m] == v:
                seen += 1.0
        found *= scale * (s.shown[c, v] + seen) / (total + k - i) if g.member[c, v] else 0.0
    if A >= 0:
        for k in range(j - i - 1):
            found *= (s.rules[on] + k + 1.0) / (s.rules_of[A] + k + 2.0)
        found *= (s.rules[ends] + 1.0) / (s.rules_of[A] + j - i + 1.0)
    return found


@njit(cache=True, nogil=True)
def spell(g: Grammar, s: Seats, text: Text, at: int, n: int, by: int) -> None:
    """Count the spelling of a word of the lexicon once more (``by`` = 1), or once less (-1)."""
    c, A, ends, on = spelling(g)
    for i in range(at, at + n):
        s.shown[c, text.words[i]] += by
    s.shown_of[c] += by * n
    if A >= 0:
        s.rules[on] += by * (n - 1)
        s.rules[ends] += by
        s.rules_of[A] += by * n


@njit(cache=True, nogil=True, inline="always")
def share_of_ends(s: Seats, p: Pairs) -> float:
    """The probability that a new table has the end of a sentence."""
    return (p.used[ENDS] + 1.0) / (p.used[ENDS] + s.all_customers[0] + 2.0)


@njit(cache=True, nogil=True, inline="always")
def known(s: Seats, string: int, a: float) -> float:
    """The weight of the tables of the lexicon that have a string."""
    return s.customers[string, 0] - a * s.tables[string, 0]


@njit(cache=True, nogil=True, inline="always")
def token(
    g: Grammar, s: Seats, p: Pairs, f: Lattice, text: Text, left: int, i: int, j: int, discount: Array, strength: Array
) -> tuple[float, float, float]:
    """What the next token is worth now: p(word from i to j | left), and of this G(word) and its spelling; all times
    scale to the width. Where i = j it is the end of the sentence.

    :param i: where it begins in the whole text.
    """
    if i == j:
        base = share_of_ends(s, p)
        return follows(p, left, len(text.place), base, 1.0, discount[1], strength[1]), base, 0.0
    n, string = j - i, text.cells[j - 1, j - i - 1]
    new = spelled(g, s, text.words, i, j, f.power[1])
    b, power = strength[0], f.power[n]
    base = known(s, string, discount[0]) * power + (discount[0] * s.all_tables[0] + b) * new
    base *= (1.0 - share_of_ends(s, p)) / (s.all_customers[0] + b)
    return follows(p, left, string, base, power, discount[1], strength[1]), base, new


@njit(cache=True, nogil=True)
def link_pair(p: Pairs, table: int, left: int, right: int) -> None:
    """A table comes, without customers yet."""
    k = find(p.key, left, right, len(p.all_customers))
    if k < 0:
        k = -1 - k
        p.key[k] = left * len(p.all_customers) + right
        p.customers[k], p.tables[k], p.head[k] = 0, 0, -1
    after = p.head[k]
    p.slot[table], p.after[table], p.ahead[table], p.size[table] = k, after, -1, 0
    if after >= 0:
        p.ahead[after] = table
    p.head[k] = table
    p.tables[k] += 1
    p.all_tables[left] += 1


@njit(cache=True, nogil=True, inline="always")
def unlink_pair(p: Pairs, table: int, left: int) -> None:
    """An empty table goes."""
    k, ahead, after = p.slot[table], p.ahead[table], p.after[table]
    if ahead >= 0:
        p.after[ahead] = after
    else:
        p.head[k] = after
    if after >= 0:
        p.ahead[after] = ahead
    p.tables[k] -= 1
    p.all_tables[left] -= 1


@njit(cache=True, nogil=True, inline="always")
def look_up(
    g: Grammar, s: Seats, p: Pairs, f: Lattice, text: Text, i: int, j: int, new_word: float, a: float, b: float,
    state: Array,
) -> int:  # fmt: skip
    """A table of the lexicon for the word from i to j: one that has it, or a new one."""
    string, n = text.cells[j - 1, j - i - 1], j - i
    old = known(s, string, a) * f.power[n]
    u = uniform(state) * (old + (a * s.all_tables[0] + b) * new_word)
    table = -1
    if u < old:
        left, k = u / f.power[n], s.head[string, 0]
        while k >= 0:
            table = k
            left -= s.size[k] - a
            if left < 0.0:
                break
            k = s.after[k]
    if table < 0:
        if s.used[FREE] > 0:
            s.used[FREE] -= 1
            table = s.free[s.used[FREE]]
        else:
            table = s.used[FRESH]
            s.used[FRESH] += 1
        s.size[table], s.string[table], s.room[table] = 0, string, 0
    return table


@njit(cache=True, nogil=True, inline="always")
def sit(
    g: Grammar,
    s: Seats,
    p: Pairs,
    f: Lattice,
    text: Text,
    left: int,
    i: int,
    j: int,
    table: int,  # the seat that is given, or -1: then one is drawn
    discount: Array,
    strength: Array,
    state: Array,
) -> tuple[int, float]:
    """Seat a token; its table, and log p(token | left) before it was seated, times scale to the width.

    A seat is drawn from its exact conditional given the token, so a proposal need not answer for it.
    """
    worth, base, new_word = token(g, s, p, f, text, left, i, j, discount, strength)
    right = text.cells[j - 1, j - i - 1] if j > i else len(text.place)
    drawn = table < 0
    if drawn:
        old, k = 0.0, find(p.key, left, right, len(p.all_customers))
        if k >= 0:
            old = p.customers[k] - discount[1] * p.tables[k]
        new = (discount[1] * p.all_tables[left] + strength[1]) * base / f.power[j - i]
        u = uniform(state) * (old + new)
        if u < old:
            t = p.head[k]
            while t >= 0:
                table = t
                u -= p.size[t] - discount[1]
                if u < 0.0:
                    break
                t = p.after[t]
    fresh = table < 0 or p.size[table] == 0
    if fresh:
        if drawn:
            if p.used[FREE] > 0:
                p.used[FREE] -= 1
                table = p.free[p.used[FREE]]
            else:
                table = p.used[FRESH]
                p.used[FRESH] += 1
            p.parent[table] = -1
            if j > i:
                p.parent[table] = look_up(g, s, p, f, text, i, j, new_word, discount[0], strength[0], state)
        link_pair(p, table, left, right)
        if j == i:
            p.used[ENDS] += 1
        else:
            parent = p.parent[table]
            if s.size[parent] == 0:
                link(s, parent)
                spell(g, s, text, i, j - i, 1)
            s.size[parent] += 1
            s.customers[right, 0] += 1
            s.all_customers[0] += 1
    p.size[table] += 1
    p.customers[p.slot[table]] += 1
    p.all_customers[left] += 1
    return table, log(worth) if worth > 0.0 else -np.inf


@njit(cache=True, nogil=True, inline="always")
def rise(g: Grammar, s: Seats, p: Pairs, text: Text, left: int, i: int, j: int, table: int) -> tuple[bool, bool]:
    """A token leaves its table: whether this is gone, and with it its table of the lexicon."""
    p.size[table] -= 1
    p.customers[p.slot[table]] -= 1
    p.all_customers[left] -= 1
    if p.size[table] > 0:
        return False, False
    unlink_pair(p, table, left)
    if i == j:
        p.used[ENDS] -= 1
        return True, False
    parent = p.parent[table]
    s.size[parent] -= 1
    s.customers[s.string[parent], 0] -= 1
    s.all_customers[0] -= 1
    if s.size[parent] > 0:
        return True, False
    unlink(s, parent)
    spell(g, s, text, i, j - i, -1)
    return True, True
