"""Sweeps over sentences and tables: each gets a new analysis, which is accepted or not."""

from __future__ import annotations

import numpy as np
from numba import njit

from .chart import fill, freeze
from .records import FREE, FRESH, POOL, SHIFT, Array, Grammar, Seats, Text, Work, uniform
from .seats import MASK, give_back, leave, seat

#: What a sentence can do: it has no analysis yet, and gets one as if all units were new, or given what is there; or it
#: has one.
BLANK, FIRST, AGAIN = 0, 1, 2
#: Entries of an analysis for each symbol and symbol of the grammar, at most.
ENTRIES = 2


@njit(cache=True, nogil=True)
def renew(
    g: Grammar,
    s: Seats,
    w: Work,
    text: Text,
    at: int,
    n: int,
    owner: int,
    top: int,
    how: int,
    discount: Array,
    strength: Array,
    state: Array,
) -> int:
    """A new analysis of n symbols from ``at`` on, which belongs to ``owner``: 1 if it was accepted, 0 if the old one
    stays, -1 if there is none at all."""
    old, blank, gone = s.start[owner], how == BLANK, 0
    if how == AGAIN:
        gone = leave(g, s, w, text, at, n, owner, top, old)
    freeze(g, s, w, text, at, n, top, discount, strength, blank)
    total = fill(g, s, w, text, at, n, top, discount, blank)
    if not (total > 0.0 and total < np.inf):
        return -1
    ratio = 0.0
    if how == AGAIN:
        ratio = seat(g, s, w, text, at, n, owner, top, True, False, discount, strength, state)
        leave(g, s, w, text, at, n, owner, top, old)
    new = s.used[POOL]
    found = seat(g, s, w, text, at, n, owner, top, False, blank, discount, strength, state)
    entries = w.queue[0, 1]
    if how != AGAIN or uniform(state) * ratio < found:
        give_back(s, w.gone, gone)
        s.start[owner], s.entries[owner] = new, entries
        return 1
    gone = leave(g, s, w, text, at, n, owner, top, new)
    give_back(s, w.gone, gone)
    seat(g, s, w, text, at, n, owner, top, True, False, discount, strength, state)
    return 0


@njit(cache=True, nogil=True)
def has_room(g: Grammar, s: Seats, n: int) -> bool:
    """Whether the arrays have room for whatever an analysis of n symbols may need."""
    most = 2 * n * len(g.symbol)
    tables = len(s.size) - s.used[FRESH] + s.used[FREE]
    return tables > most and len(s.pool) - s.used[POOL] > ENTRIES * n * len(g.klass) + most


@njit(cache=True, nogil=True)
def over_sentences(
    g: Grammar,
    s: Seats,
    w: Work,
    text: Text,
    order: Array,  # (B,) in which order
    first: int,  # where to begin in it
    how: int,
    discount: Array,
    strength: Array,
    state: Array,
    accepted: Array,  # (2,) adds proposals, and those accepted
) -> int:
    """New analyses of the sentences: how far it came before the arrays were full; -1 - k if sentence k has none."""
    root = len(g.klass) - 1
    for step in range(first, len(order)):
        k = order[step]
        at, n = text.offsets[k], text.offsets[k + 1] - text.offsets[k]
        if n == 0:
            continue
        if not has_room(g, s, n):
            return step
        done = renew(g, s, w, text, at, n, k, root, how, discount, strength, state)
        if done < 0:
            return -1 - k
        accepted[0] += 1
        accepted[1] += done
    return len(order)


@njit(cache=True, nogil=True)
def over_tables(
    g: Grammar,
    s: Seats,
    w: Work,
    text: Text,
    first: int,
    last: int,
    discount: Array,
    strength: Array,
    state: Array,
    accepted: Array,
) -> int:
    """New analyses of the strings of tables: how far it came before the arrays were full."""
    for k in range(first, last):
        if s.size[k] == 0 or g.rigid[s.room[k]]:
            continue
        n = text.width[s.string[k]]
        if not has_room(g, s, n):
            return k
        top = g.symbol[s.room[k]]
        done = renew(g, s, w, text, text.place[s.string[k]], n, k, top, AGAIN, discount, strength, state)
        accepted[0] += 1
        accepted[1] += done
    return last


@njit(cache=True, nogil=True)
def cuts(g: Grammar, s: Seats, w: Work, text: Text, ends: Array) -> None:
    """1 where a word of the present analyses ends."""
    root, queue, stack = len(g.klass) - 1, w.queue, w.stack
    for sentence in range(len(text.offsets) - 1):
        at, n = text.offsets[sentence], text.offsets[sentence + 1] - text.offsets[sentence]
        ends[at : at + n] = 0
        if n == 0:
            continue
        queue[0, 0], queue[0, 1], queue[0, 2] = sentence, 0, n
        many, q = 1, 0
        while q < many:
            who = queue[q, 0]
            c = s.start[who]
            stack[0, 0] = root if q == 0 else g.symbol[s.room[who]]
            stack[0, 1], stack[0, 2] = queue[q, 1], queue[q, 2]
            depth, first = 1, True
            q += 1
            while depth > 0:
                depth -= 1
                A, i, j = stack[depth, 0], stack[depth, 1], stack[depth, 2]
                if g.word[A] and not (first and q > 1):
                    ends[at + j - 1] = 1
                if g.klass[A] >= 0:
                    continue
                entry = s.pool[c]
                c += 1
                if g.kind[A] >= 0 and not first:
                    if not g.word[A]:
                        queue[many, 0], queue[many, 1], queue[many, 2] = entry, i, j
                        many += 1
                    continue
                first = False
                r, k = entry >> SHIFT, i + (entry & MASK)
                if g.right[r] >= 0:
                    stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.right[r], k, j
                    depth += 1
                    stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.left[r], i, k
                else:
                    stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.left[r], i, j
                depth += 1


@njit(cache=True, nogil=True)
def pack(g: Grammar, s: Seats, text: Text, into: Array) -> tuple[int, int]:
    """Number the tables anew without gaps, and lay all analyses end to end: how many tables, and entries.

    The order stays, so the same chain always comes to the same numbers, wherever it is interrupted.

    :param into: room for the entries.
    """
    many = len(text.offsets) - 1
    last = s.used[FRESH]
    for k in range(many, last):
        if s.size[k] > 0:
            s.made[k] = many  # the new number, until all entries have it
            many += 1
    end = 0
    for k in range(last):
        if k >= len(text.offsets) - 1 and s.size[k] == 0:
            continue
        new = k if k < len(text.offsets) - 1 else s.made[k]
        at, entries = s.start[k], s.entries[k]
        rename(g, s, s.pool[at : at + entries], into[end : end + entries], k, text)
        s.start[new], s.entries[new] = end, entries
        if new != k:
            s.size[new], s.string[new], s.room[new] = s.size[k], s.string[k], s.room[k]
        end += entries
    return many, end


@njit(cache=True, nogil=True)
def rename(g: Grammar, s: Seats, old: Array, new: Array, owner: int, text: Text) -> None:
    """Copy an analysis, its tables by their new numbers."""
    stack = np.empty(len(old) * 2 + 2, np.int64)
    sentences = len(text.offsets) - 1
    stack[0] = len(g.klass) - 1 if owner < sentences else g.symbol[s.room[owner]]
    depth, c, first = 1, 0, True
    while depth > 0:
        depth -= 1
        A = stack[depth]
        if g.klass[A] >= 0:
            continue
        if g.kind[A] >= 0 and not first:
            new[c] = s.made[old[c]]
            c += 1
            continue
        first = False
        new[c] = old[c]
        r = old[c] >> SHIFT
        c += 1
        if g.right[r] >= 0:
            stack[depth] = g.right[r]
            depth += 1
        stack[depth] = g.left[r]
        depth += 1


@njit(cache=True, nogil=True)
def settle(g: Grammar, s: Seats, w: Work, text: Text, tables: int, entries: int) -> None:
    """Count everything from the analyses alone, and link the tables of each string."""
    for A in (s.rules, s.rules_of, s.shown_of, s.all_customers, s.all_tables):
        A[:] = 0
    s.shown[:] = 0
    sentences = len(text.offsets) - 1
    s.used[FRESH], s.used[POOL], s.used[FREE] = tables, entries, 0
    for k in range(sentences, tables):
        s.size[k], s.made[k], s.added[k] = 0, 0, 0
        from_string = s.string[k]
        s.head[from_string, s.room[k]] = -1
        s.customers[from_string, s.room[k]] = 0
        s.tables[from_string, s.room[k]] = 0
    for k in range(sentences, tables):
        string, room = s.string[k], s.room[k]
        after = s.head[string, room]
        s.after[k], s.ahead[k] = after, -1
        if after >= 0:
            s.ahead[after] = k
        s.head[string, room] = k
        s.tables[string, room] += 1
        s.all_tables[room] += 1
    stack = w.stack
    for k in range(tables):
        if k < sentences:
            at, n = text.offsets[k], text.offsets[k + 1] - text.offsets[k]
            top = len(g.klass) - 1
        else:
            at, n = text.place[s.string[k]], text.width[s.string[k]]
            top = g.symbol[s.room[k]]
        if n == 0:
            continue
        c, depth, first = s.start[k], 1, True
        stack[0, 0], stack[0, 1], stack[0, 2] = top, 0, n
        while depth > 0:
            depth -= 1
            A, i, j = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            if g.klass[A] >= 0:
                s.shown[g.klass[A], text.words[at + i]] += 1
                s.shown_of[g.klass[A]] += 1
                continue
            entry = s.pool[c]
            c += 1
            if g.kind[A] >= 0 and not first:
                s.size[entry] += 1
                s.customers[s.string[entry], g.kind[A]] += 1
                s.all_customers[g.kind[A]] += 1
                continue
            first = False
            r, m = entry >> SHIFT, i + (entry & MASK)
            s.rules[r] += 1
            s.rules_of[A] += 1
            if g.right[r] >= 0:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.right[r], m, j
                depth += 1
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.left[r], i, m
            else:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.left[r], i, j
            depth += 1


@njit(cache=True, nogil=True)
def is_sound(g: Grammar, text: Text, string: Array, room: Array, start: Array, entries: Array, pool: Array) -> bool:
    """Whether these are analyses of the sentences, and of the strings of their tables, as the kernels need them."""
    sentences, tables = len(text.offsets) - 1, len(room)
    stack = np.empty((2 * text.cells.shape[0] + len(g.klass) + 8, 3), np.int64)
    for k in range(tables):
        if start[k] < 0 or entries[k] < 0 or start[k] + entries[k] > len(pool):
            return False
        if k < sentences:
            at, n, top = text.offsets[k], text.offsets[k + 1] - text.offsets[k], len(g.klass) - 1
            if n == 0:
                continue
        else:
            if not (0 <= string[k] < len(text.place) and 0 <= room[k] < len(g.symbol)):
                return False
            at, n, top = text.place[string[k]], text.width[string[k]], g.symbol[room[k]]
        c, last, depth, first = start[k], start[k] + entries[k], 1, True
        stack[0, 0], stack[0, 1], stack[0, 2] = top, 0, n
        while depth > 0:
            depth -= 1
            A, i, j = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            if g.klass[A] >= 0:
                if j != i + 1 or not g.member[g.klass[A], text.words[at + i]]:
                    return False
                continue
            if c >= last:
                return False
            entry = pool[c]
            c += 1
            if g.kind[A] >= 0 and not first:
                if not (sentences <= entry < tables and j - i <= text.cells.shape[1]):
                    return False
                if room[entry] != g.kind[A] or string[entry] != text.cells[at + j - 1, j - i - 1]:
                    return False
                continue
            first = False
            r, m = entry >> SHIFT, i + (entry & MASK)
            if not g.first[A] <= r < g.first[A + 1]:
                return False
            if g.right[r] >= 0:
                if not i < m < j:
                    return False
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.right[r], m, j
                depth += 1
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.left[r], i, m
            else:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.left[r], i, j
            depth += 1
        if c != last:
            return False
    return True
