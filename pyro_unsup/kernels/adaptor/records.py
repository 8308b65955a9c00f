"""What the passes of the sampler share: the grammar, the restaurants, and room to work in, each as one record."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

Array = Any

#: Places of :attr:`Seats.used`: the first number that no table has had, the end of the pool, how many numbers are free,
#: and how many seatings there have been.
FRESH, POOL, FREE, SEATING = 0, 1, 2, 3
#: A place of :attr:`Pairs.used`, beside those of seats: how many tables have the end of a sentence.
ENDS = 3
#: An entry of an analysis is a rule and the width of its left part, so many bits apart.
SHIFT = 12


class Grammar(NamedTuple):
    """Rules by number: those of a symbol lie side by side, and its parts have lower numbers than the symbol."""

    first: Array  # (M + 1,) the rules of each symbol
    left: Array  # (rules,)
    right: Array  # (rules,) -1 in a rule with one part
    pair_left: Array  # (pairs,) the left parts of the rules with two parts, in order
    pair_right: Array  # (pairs,)
    before: Array  # (M + 1,) how many of those have a parent below this symbol
    kind: Array  # (M,) the restaurant of a symbol, or -1
    symbol: Array  # (R,) the symbol of a restaurant
    klass: Array  # (M,) the class of symbols that a symbol stands for, or -1
    member: Array  # (C, V) whether a class has a symbol of the text
    members: Array  # (C,) how many it has
    word: Array  # (M,) whether it is a word
    rigid: Array  # (R,) whether there is just one analysis of each string


class Text(NamedTuple):
    """Sentences end to end, and all their substrings by number."""

    words: Array  # (symbols,)
    offsets: Array  # (B + 1,)
    cells: Array  # (symbols, L) the string that ends at a symbol, by its length
    place: Array  # (S,) where a string begins, once
    width: Array  # (S,)


class Seats(NamedTuple):
    """The restaurants: who sits where. The first B numbers are those of the sentences, the others those of tables.

    A table stands for one analysis of a string, and the analysis lies in the pool, from its top down and from left to
    right: for a rule, the rule and the width of its left part; for a unit that is remembered, its table.
    """

    customers: Array  # (S, R) of each string
    tables: Array  # (S, R)
    head: Array  # (S, R) the first table of a string, or -1
    all_customers: Array  # (R,)
    all_tables: Array  # (R,)
    size: Array  # (capacity,) customers of a table
    after: Array  # (capacity,) the next table of the same string, or -1
    ahead: Array  # (capacity,) the one before, or -1
    string: Array  # (capacity,)
    room: Array  # (capacity,) the restaurant
    start: Array  # (capacity,) where the analysis begins in the pool
    entries: Array  # (capacity,) how many entries it has
    made: Array  # (capacity,) the seating in which the table was made
    added: Array  # (capacity,) customers that came in the present seating
    pool: Array
    free: Array  # (capacity,) numbers of tables that are gone
    used: Array  # (4,)
    rules: Array  # (rules,) how often each is used
    rules_of: Array  # (M,) the sum of those of a symbol
    shown: Array  # (C, V) how often a class shows a symbol
    shown_of: Array  # (C,)


class Work(NamedTuple):
    """Room for one sentence. A span from i to j of a sentence of n symbols has the row i (n + 1) + j."""

    inside: Array  # ((n + 1)^2, M) weights of all analyses, times scale to the width
    base: Array  # ((n + 1)^2, R) the same of new tables' analyses alone
    old: Array  # ((n + 1)^2, R) the weight of tables that are there
    sums: Array  # (pairs,)
    active: Array  # ((n + 1)^2, pairs) pairs whose left part has some weight on a span
    actives: Array  # ((n + 1)^2,) how many
    prob: Array  # (rules,) before the sentence is seated
    show: Array  # (C, n)
    customers: Array  # (R,) before the sentence is seated
    tables: Array  # (R,)
    power: Array  # (longest unit + 1,) scale to the power of a width
    stack: Array  # (depth, 3) symbol, i, j
    queue: Array  # (many, 3) owner of an analysis, i, j
    gone: Array  # (many,) tables that the old analysis leaves behind
    touched: Array  # (many,) tables that got a customer


class Pairs(NamedTuple):
    """The restaurants of words after words. The end of a sentence has the number S, one after the last string."""

    key: Array  # (slots,) a word and what comes after it, as one number; -1 in a slot that is free
    customers: Array  # (slots,) of each pair
    tables: Array  # (slots,)
    head: Array  # (slots,) the first table of a pair, or -1
    all_customers: Array  # (S + 1,) of the restaurant of a word; of S, that of the start of a sentence
    all_tables: Array  # (S + 1,)
    size: Array  # (capacity,) customers of a table
    after: Array  # (capacity,) the next table of the same pair, or -1
    ahead: Array  # (capacity,) the one before, or -1
    slot: Array  # (capacity,) of its pair
    parent: Array  # (capacity,) the table of the lexicon that it has its word from; -1 for the end of a sentence
    free: Array  # (capacity,) numbers of tables that are gone
    used: Array  # (4,)
    seat: Array  # (symbols + B,) the table of the word that ends at a symbol, or -1; then that of each sentence's end


class Lattice(NamedTuple):
    """Room for one sentence. A span from i to j of a sentence of n symbols has the place i (n + 1) + j."""

    word: Array  # ((n + 1)^2,) what the lexicon gives a span, times scale to the width
    reach: Array  # ((n + 1)^2,) the weight of all ways to cut what is before j, the last word being from i to j
    show: Array  # (n,) of a symbol
    power: Array  # (longest word + 1,) scale to the power of a width
    known: Array  # (n + 1,) where the words end that begin at one symbol and that the lexicon has
    old: Array  # (n + 1,) where words end, and the number of words in front
    new: Array  # (n + 1,)
    seat: Array  # (n + 1,) the tables of the old words and of the end
    gone: Array  # (n + 1,) tables that became empty
    gone_words: Array  # (n + 1,) tables of the lexicon that became empty


@njit(cache=True, nogil=True, inline="always")
def uniform(state: Array) -> float:
    """A number between 0 and 1 (splitmix64)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)
