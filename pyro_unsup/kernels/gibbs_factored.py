"""One sweep of collapsed Gibbs sampling over labelled trees of factored rules, a sentence at a time.

The draws of a tree: the label of the whole sentence, the labels of the left and of the right part for every constituent
of two words or more, and a word for every preterminal. Proposals are drawn by the recursion of
:mod:`.simple_pcfg_pass`, in scaled real numbers, and in logs where these are not exact. Rules lie in the two blocks of
that recursion, rows for left parts above rows for right parts. What both draws of a label are divided by, the wholes of
its two rows, is the same for all of its rules: it goes to the labels of spans.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .gibbs_labels import MOST, NODE, parts_of, weigh_words
from .gibbs_urns import Urns, lift, put_back, settle, weigh
from .ring import LOG, REAL, compiled, copy, longest_of
from .simple_pcfg_decode import trace
from .simple_pcfg_pass import inside

Array = Any


class Places(NamedTuple):
    """Where the tables begin among all cells: first the root, N of them, then parts by the label above, then words.

    The first row is the root's. Then come those of left parts, N, those of right parts, and those of P preterminals.
    """

    N: int
    P: int
    narrow: int  # (2 N, P) parts of one word; those of wider parts, (2 N, N), lie before
    emit: int  # (V, P)


class Room(NamedTuple):
    """Room for the longest sentence, of T words."""

    word: Array  # (T, P)
    label: Array  # (T (T - 1) / 2, N)
    top: Array  # (N,)
    real: Array  # (cells before emissions,) parts as real numbers, by what their row weighed at first
    first: Array  # (2 N,) the log of that
    sides: Array  # (T (T + 1) / 2, 2 N)
    chart: Array  # (T (T - 1) / 2, N)
    ways: Array
    stack: Array  # (T + 1, 3)


@njit(cache=True, nogil=True)
def make_room(T: int, places: Places) -> Room:
    N, P, inner = places.N, places.P, T * (T - 1) // 2
    return Room(
        np.empty((T, P)), np.empty((inner, N)), np.empty(N), np.empty(places.emit), np.empty(2 * N),
        np.empty((T + inner, 2 * N)), np.empty((inner, N)), np.empty(max(N, P, T)), np.empty((T + 1, 3), np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def part(row: int, label: int, places: Places) -> int:
    """The cell of a part.

    :param row: the label above, and N more for a right part.
    """
    if label < places.N:
        return places.N + row * places.N + label
    return places.narrow + row * places.P + label - places.N


@njit(cache=True, nogil=True)
def cells_of_labels(words: Array, structure: Array, places: Places, cells: Array) -> int:
    """The draws that a tree makes; how many: 3 n - 1.

    :param structure: (n (n + 1) / 2,) the label of each constituent, -1 for other spans.
    """
    n, N = len(words), places.N
    for i in range(n):
        cells[i] = places.emit + words[i] * places.P + structure[i] - N
    cells[n] = structure[len(structure) - 1]
    used, at = n + 1, n
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            a = structure[at]
            at += 1
            if a >= 0:
                b, c = parts_of(structure, n, i, w)
                cells[used], cells[used + 1] = part(a, b, places), part(N + a, c, places)
                used += 2
    return used


@njit(cache=True, nogil=True)
def weigh_parts(places: Places, urns: Urns, room: Room) -> None:
    """All parts as real numbers."""
    for row in range(2 * places.N):
        room.first[row] = urns.whole[1 + row]
    for k in range(places.N, places.emit):
        room.real[k] = np.exp(urns.logs[k] - room.first[urns.row[k] - 1])


@njit(cache=True, nogil=True)
def refresh_parts(cells: Array, places: Places, urns: Urns, room: Room) -> None:
    """The same of those that a sentence changed."""
    for k in cells:
        if places.N <= k < places.emit:
            room.real[k] = np.exp(urns.logs[k] - room.first[urns.row[k] - 1])


@njit(cache=True, nogil=True)
def weigh_sentence(mode: int, words: Array, places: Places, urns: Urns, room: Room) -> None:
    """The weights of words and of labels, as real numbers that are scaled, or as logs."""
    n, N, P = len(words), places.N, places.P
    weigh_words(mode, words, places.emit, 1 + 2 * N, urns, room.word)
    # Powers below 1 make rows weigh more than 1, at most as much as rows of equal weights.
    spread = np.log(NODE) - 2 * max(0.0, 1 - urns.power) * np.log(N + P)
    for a in range(N):
        root = urns.logs[a] - urns.whole[0]
        here = -urns.whole[1 + a] - urns.whole[1 + N + a]
        if mode == REAL:
            here = np.exp(room.first[a] + room.first[N + a] + here + spread)
            room.top[a] = here * np.exp(root)
        else:
            room.top[a] = here + root
        room.label[: n * (n - 1) // 2, a] = here


@compiled
def draw_labels(words: Array, places: Places, urns: Urns, room: Room, uniforms: Array, structure: Array) -> bool:
    """Draw a labelled tree in proportion to its weight; False if all weights vanish."""
    n, N, P, narrow = len(words), places.N, places.P, places.narrow
    inner = n * (n - 1) // 2
    word, label, sides, chart = room.word[:n], room.label[:inner], room.sides[: n + inner], room.chart[:inner]
    structure[:] = -1
    weigh_sentence(REAL, words, places, urns, room)
    wide, short = room.real[N:narrow].reshape(2 * N, N), room.real[narrow:].reshape(2 * N, P)
    whole = inside(REAL, n, word, label, room.top, wide, short, sides, chart)
    if 1 / MOST < whole < MOST:
        trace(REAL, n, word, wide, short, sides, chart, uniforms, room.ways, room.stack, structure)
        return True
    weigh_sentence(LOG, words, places, urns, room)
    wide, short = urns.logs[N:narrow].reshape(2 * N, N), urns.logs[narrow : places.emit].reshape(2 * N, P)
    whole = inside(LOG, n, word, label, room.top, wide, short, sides, chart)
    if not whole > -np.inf:
        return False
    trace(LOG, n, word, wide, short, sides, chart, uniforms, room.ways, room.stack, structure)
    return True


@njit(cache=True, nogil=True)
def sweep(
    words: Array,  # (tokens,) int64
    offsets: Array,  # (B + 1,)
    edges: Array,  # (B + 1,) of the spans
    structure: Array,  # (spans,) int64: the label of each constituent, -1 for other spans
    places: Places,
    urns: Urns,
    uniforms: Array,  # (3 tokens,)
    decisions: Array,  # (B,) uniform
) -> tuple[int, int]:
    """Propose a new tree for each sentence, in order. How many proposals there were, and how many were accepted."""
    longest = longest_of(offsets, np.arange(len(offsets) - 1))
    room, size = make_room(longest, places), longest * (longest + 1) // 2
    found, old, new = np.empty(size, np.int64), np.empty(3 * longest, np.int64), np.empty(3 * longest, np.int64)
    weigh(urns)
    weigh_parts(places, urns, room)
    proposed, accepted = 0, 0
    for s in range(len(offsets) - 1):
        lo, hi, at, end = offsets[s], offsets[s + 1], edges[s], edges[s + 1]
        if hi - lo < 2:
            continue
        proposed += 1
        mine, tree = words[lo:hi], found[: end - at]
        before = old[: cells_of_labels(mine, structure[at:end], places, old)]
        lift(before, urns)
        refresh_parts(before, places, urns, room)
        if draw_labels(mine, places, urns, room, uniforms[3 * lo : 3 * hi], tree):
            after = new[: cells_of_labels(mine, tree, places, new)]
            if settle(before, after, urns, decisions[s]):
                accepted += 1
                copy(tree, structure[at:end])
            refresh_parts(after, places, urns, room)
        else:
            put_back(before, urns)
        refresh_parts(before, places, urns, room)
    return proposed, accepted


@njit(cache=True, nogil=True)
def count_labels(words: Array, offsets: Array, edges: Array, structure: Array, places: Places, n: Array) -> None:
    """How often trees draw every cell."""
    longest = longest_of(offsets, np.arange(len(offsets) - 1))
    cells = np.empty(3 * longest, np.int64)
    n[:] = 0
    for s in range(len(offsets) - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if hi - lo < 2:
            continue
        for k in cells[: cells_of_labels(words[lo:hi], structure[edges[s] : edges[s + 1]], places, cells)]:
            n[k] += 1
