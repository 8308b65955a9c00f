"""The books of the bigram Dirichlet process: seats by new numbers, and all counts from the seats alone."""

from __future__ import annotations

import numpy as np
from numba import njit

from .bigram import link_pair, spell, spelling
from .records import ENDS, FREE, FRESH, Array, Grammar, Pairs, Seats, Text
from .seats import link


@njit(cache=True, nogil=True)
def pack(p: Pairs, text: Text) -> tuple[Array, Array]:
    """Seats and parents by new numbers: tables are numbered as tokens come to them, and those of the lexicon as tables
    do. So the same seats always have the same numbers, wherever a chain is interrupted."""
    symbols = len(text.words)
    number, number_of_parent = np.full(p.used[FRESH], -1, np.int32), np.full(len(p.free), -1, np.int32)
    seat, parent = np.full(len(p.seat), -1, np.int32), np.empty(p.used[FRESH], np.int32)
    first, tables, words = len(text.offsets) - 1, 0, 0
    for sentence in range(first):
        for at in range(text.offsets[sentence], text.offsets[sentence + 1] + 1):
            place = at if at < text.offsets[sentence + 1] else symbols + sentence
            old = p.seat[place]
            if old < 0:
                continue
            if number[old] < 0:
                number[old] = tables
                above = p.parent[old]
                if above >= 0:
                    if number_of_parent[above - first] < 0:
                        number_of_parent[above - first] = words
                        words += 1
                    above = number_of_parent[above - first]
                parent[tables] = above
                tables += 1
            seat[place] = number[old]
    return seat, parent[:tables].copy()


@njit(cache=True, nogil=True)
def settle(g: Grammar, s: Seats, p: Pairs, text: Text, seat: Array, parent: Array) -> None:
    """Take over these seats, which :func:`pack` has numbered, and count everything from them alone."""
    for x in (s.rules, s.rules_of, s.shown_of, s.all_customers, s.all_tables):
        x[:] = 0
    s.shown[:], s.customers[:], s.tables[:], s.head[:] = 0, 0, 0, -1
    p.key[:], p.all_customers[:], p.all_tables[:] = -1, 0, 0
    p.seat[:], p.parent[: len(parent)] = seat, -1
    symbols, first, end = len(text.words), len(text.offsets) - 1, len(text.place)
    p.used[FRESH], p.used[FREE], p.used[ENDS] = len(parent), 0, 0
    s.used[FRESH], s.used[FREE] = first, 0
    p.size[: len(parent)] = 0
    for sentence in range(first):
        begin, stop = text.offsets[sentence], text.offsets[sentence + 1]
        left, i = end, begin
        for at in range(begin, stop + 1):
            table = seat[at] if at < stop else seat[symbols + sentence]
            if table < 0:
                continue
            right = text.cells[at, at - i] if at < stop else end
            if p.size[table] == 0:
                link_pair(p, table, left, right)
                if at == stop:
                    p.used[ENDS] += 1
                else:
                    above = first + parent[table]
                    p.parent[table] = above
                    if above == s.used[FRESH]:
                        s.used[FRESH] += 1
                        s.size[above], s.string[above], s.room[above] = 0, right, 0
                        link(s, above)
                        spell(g, s, text, i, at + 1 - i, 1)
                    s.size[above] += 1
                    s.customers[right, 0] += 1
                    s.all_customers[0] += 1
            p.size[table] += 1
            p.customers[p.slot[table]] += 1
            p.all_customers[left] += 1
            left, i = right, at + 1


@njit(cache=True, nogil=True)
def is_sound(g: Grammar, text: Text, seat: Array, parent: Array) -> bool:
    """Whether these can be seats of these sentences, numbered as :func:`pack` does."""
    symbols, first, end = len(text.words), len(text.offsets) - 1, len(text.place)
    c, A, _, _ = spelling(g)
    context, outcome = np.full(len(parent), -1, np.int64), np.full(len(parent), -1, np.int64)
    string = np.full(len(parent), -1, np.int64)
    tables, words = 0, 0
    for sentence in range(first):
        begin, stop = text.offsets[sentence], text.offsets[sentence + 1]
        if begin == stop:
            if seat[symbols + sentence] != -1:
                return False
            continue
        left, i = end, begin
        for at in range(begin, stop + 1):
            table = seat[at] if at < stop else seat[symbols + sentence]
            if at < stop and not g.member[c, text.words[at]]:
                return False
            if table == -1 and at < stop - 1:
                continue
            wide = at - i
            if not (0 <= table <= tables and table < len(parent)):
                return False
            if at < stop and (wide >= text.cells.shape[1] or (A < 0 and wide > 0)):
                return False
            right = text.cells[at, wide] if at < stop else end
            if table == tables:
                context[table], outcome[table] = left, right
                tables += 1
                above = parent[table]
                if at == stop:
                    if above != -1:
                        return False
                elif not (0 <= above <= words and above < len(parent)):
                    return False
                elif above == words:
                    string[above] = right
                    words += 1
                elif string[above] != right:
                    return False
            elif context[table] != left or outcome[table] != right:
                return False
            left, i = right, at + 1
    return tables == len(parent)
