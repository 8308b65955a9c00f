"""One sweep of collapsed Gibbs sampling over labelled trees, a sentence at a time.

The draws of a tree: the label of the whole sentence, a pair of labels for every constituent of two words or more, and a
word for every preterminal. Proposals are drawn by the recursion of :mod:`.pcfg_pass`, in scaled real numbers, and in
logs where these are not exact. Rules lie in the four blocks of that recursion, so that it reads the weights where they
are. What a rule is divided by, the whole of its row, is the same for all rules of a label: it goes to the labels of
spans.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .gibbs_urns import Urns, lift, put_back, settle, weigh
from .limits import LIMIT
from .pcfg_decode import trace
from .pcfg_pass import inside, span_at
from .ring import LOG, REAL, compiled, copy, longest_of

Array = Any
MOST = LIMIT[np.dtype(np.float64)]
#: There are less than 4^m binary trees with m nodes.
NODE = 1 / 4


class Places(NamedTuple):
    """Where the tables begin among all cells: first the root, N of them, then the blocks of rules, then words.

    The first row is the root's; then come those of N nonterminals, then those of P preterminals.
    """

    N: int
    P: int
    left: int  # (P, N, N): of a word and a wider part, by preterminal, parent, label of the other part
    right: int  # (P, N, N): of a wider part and a word, in the same order
    two: int  # (P, N, P): of two words, by the left one, parent, the right one
    emit: int  # (V, P)


class Room(NamedTuple):
    """Room for the longest sentence, of T words."""

    word: Array  # (T, P)
    label: Array  # (T (T - 1) / 2, N)
    top: Array  # (N,)
    real: Array  # (cells before emissions,) rules as real numbers, by what their row weighed at first
    first: Array  # (N,) the log of that
    left: Array  # (T, N N)
    right: Array  # (T, N N)
    two: Array  # (T, N P)
    made: Array  # (T, N)
    pairs: Array  # (T, N N)
    chart: Array  # (T, T + 1, N)
    ways: Array
    stack: Array  # (T + 1, 3)


@njit(cache=True, nogil=True)
def make_room(T: int, places: Places) -> Room:
    N, P = places.N, places.P
    return Room(
        np.empty((T, P)), np.empty((T * (T - 1) // 2, N)), np.empty(N), np.empty(places.emit), np.empty(N),
        np.empty((T, N * N)), np.empty((T, N * N)), np.empty((T, N * P)), np.empty((T, N)), np.empty((T, N * N)),
        np.empty((T, T + 1, N)), np.empty(max(P * P, 2 * P * N + max(T - 3, 0) * N * N, N)),
        np.empty((T + 1, 3), np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def rule(a: int, b: int, c: int, places: Places) -> int:
    """The cell of a rule."""
    N, P = places.N, places.P
    if b < N and c < N:
        return N + (a * N + b) * N + c
    if c < N:
        return places.left + ((b - N) * N + a) * N + c
    if b < N:
        return places.right + ((c - N) * N + a) * N + b
    return places.two + ((b - N) * N + a) * P + c - N


@njit(cache=True, nogil=True)
def parts_of(structure: Array, n: int, i: int, w: int) -> tuple[int, int]:
    """The labels of both parts of a constituent of a sentence of n words, by its start and width."""
    for v in range(1, w):
        left = structure[i] if v == 1 else structure[n + span_at(n, i, v)]
        k = i + v
        right = structure[k] if w - v == 1 else structure[n + span_at(n, k, w - v)]
        if left >= 0 and right >= 0:
            return left, right
    return -1, -1


@njit(cache=True, nogil=True)
def cells_of_labels(words: Array, structure: Array, places: Places, cells: Array) -> int:
    """The draws that a tree makes; how many: 2 n.

    :param structure: (n (n + 1) / 2,) the label of each constituent, -1 for other spans.
    """
    n = len(words)
    for i in range(n):
        cells[i] = places.emit + words[i] * places.P + structure[i] - places.N
    cells[n] = structure[len(structure) - 1]
    used, at = n + 1, n
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            a = structure[at]
            at += 1
            if a >= 0:
                b, c = parts_of(structure, n, i, w)
                cells[used] = rule(a, b, c, places)
                used += 1
    return used


@njit(cache=True, nogil=True)
def weigh_rules(places: Places, urns: Urns, room: Room) -> None:
    """All rules as real numbers."""
    for a in range(places.N):
        room.first[a] = urns.whole[1 + a]
    for k in range(places.N, places.emit):
        room.real[k] = np.exp(urns.logs[k] - room.first[urns.row[k] - 1])


@njit(cache=True, nogil=True)
def refresh_rules(cells: Array, places: Places, urns: Urns, room: Room) -> None:
    """The same of those that a sentence changed."""
    for k in cells:
        if places.N <= k < places.emit:
            room.real[k] = np.exp(urns.logs[k] - room.first[urns.row[k] - 1])


@njit(cache=True, nogil=True)
def weigh_words(mode: int, words: Array, emit: int, row: int, urns: Urns, word: Array) -> None:  # (n,) -> (T, P)
    """The weights of the preterminals of words, as real numbers that are scaled, or as logs.

    :param emit: where the words of preterminals begin among all cells.
    :param row: where preterminals begin among all rows.
    """
    P = word.shape[1]
    for i in range(len(words)):
        best = -np.inf
        for p in range(P):
            word[i, p] = urns.logs[emit + words[i] * P + p] - urns.whole[row + p]
            best = max(best, word[i, p])
        if mode == REAL:
            for p in range(P):
                word[i, p] = np.exp(word[i, p] - best)


@njit(cache=True, nogil=True)
def weigh_sentence(mode: int, words: Array, places: Places, urns: Urns, room: Room) -> None:
    """The weights of words and of labels, as real numbers that are scaled, or as logs."""
    n, N, P = len(words), places.N, places.P
    weigh_words(mode, words, places.emit, 1 + N, urns, room.word)
    # Powers below 1 make rows weigh more than 1, at most as much as rows of equal weights.
    spread = np.log(NODE) - 2 * max(0.0, 1 - urns.power) * np.log(N + P)
    for a in range(N):
        root = urns.logs[a] - urns.whole[0]
        here = -urns.whole[1 + a]
        if mode == REAL:
            here = np.exp(room.first[a] + here + spread)
            room.top[a] = here * np.exp(root)
        else:
            room.top[a] = here + root
        room.label[: n * (n - 1) // 2, a] = here


@compiled
def draw_labels(words: Array, places: Places, urns: Urns, room: Room, uniforms: Array, structure: Array) -> bool:
    """Draw a labelled tree in proportion to its weight; False if all weights vanish."""
    n, N, P = len(words), places.N, places.P
    NN, left, right, two = N * N, places.left, places.right, places.two
    word, label = room.word[:n], room.label[: n * (n - 1) // 2]
    sides = (room.left[:n], room.right[:n], room.two[:n])
    structure[:] = -1
    weigh_sentence(REAL, words, places, urns, room)
    real = room.real
    both, beside = (
        real[N:left].reshape(N, NN),
        (real[left:right].reshape(P, NN), real[right:two].reshape(P, NN), real[two : places.emit].reshape(P, N * P)),
    )
    whole = inside(REAL, n, word, label, room.top, both, beside, sides, room.made, room.pairs, room.chart)
    if 1 / MOST < whole < MOST:
        trace(REAL, n, word, both, beside, room.chart, uniforms, room.ways, room.stack, structure)
        return True
    weigh_sentence(LOG, words, places, urns, room)
    logs = urns.logs
    both, beside = (
        logs[N:left].reshape(N, NN),
        (logs[left:right].reshape(P, NN), logs[right:two].reshape(P, NN), logs[two : places.emit].reshape(P, N * P)),
    )
    whole = inside(LOG, n, word, label, room.top, both, beside, sides, room.made, room.pairs, room.chart)
    if not whole > -np.inf:
        return False
    trace(LOG, n, word, both, beside, room.chart, uniforms, room.ways, room.stack, structure)
    return True


@njit(cache=True, nogil=True)
def sweep(
    words: Array,  # (tokens,) int64
    offsets: Array,  # (B + 1,)
    edges: Array,  # (B + 1,) of the spans
    structure: Array,  # (spans,) int64: the label of each constituent, -1 for other spans
    places: Places,
    urns: Urns,
    uniforms: Array,  # (tokens,)
    decisions: Array,  # (B,) uniform
) -> tuple[int, int]:
    """Propose a new tree for each sentence, in order. How many proposals there were, and how many were accepted."""
    longest = longest_of(offsets, np.arange(len(offsets) - 1))
    room, size = make_room(longest, places), longest * (longest + 1) // 2
    found, old, new = np.empty(size, np.int64), np.empty(2 * longest, np.int64), np.empty(2 * longest, np.int64)
    weigh(urns)
    weigh_rules(places, urns, room)
    proposed, accepted = 0, 0
    for s in range(len(offsets) - 1):
        lo, hi, at, end = offsets[s], offsets[s + 1], edges[s], edges[s + 1]
        if hi - lo < 2:
            continue
        proposed += 1
        mine, tree = words[lo:hi], found[: end - at]
        before = old[: cells_of_labels(mine, structure[at:end], places, old)]
        lift(before, urns)
        refresh_rules(before, places, urns, room)
        if draw_labels(mine, places, urns, room, uniforms[lo:hi], tree):
            after = new[: cells_of_labels(mine, tree, places, new)]
            if settle(before, after, urns, decisions[s]):
                accepted += 1
                copy(tree, structure[at:end])
            refresh_rules(after, places, urns, room)
        else:
            put_back(before, urns)
        refresh_rules(before, places, urns, room)
    return proposed, accepted


@njit(cache=True, nogil=True)
def count_labels(words: Array, offsets: Array, edges: Array, structure: Array, places: Places, n: Array) -> None:
    """How often trees draw every cell."""
    longest = longest_of(offsets, np.arange(len(offsets) - 1))
    cells = np.empty(2 * longest, np.int64)
    n[:] = 0
    for s in range(len(offsets) - 1):
        lo, hi = offsets[s], offsets[s + 1]
        if hi - lo < 2:
            continue
        for k in cells[: cells_of_labels(words[lo:hi], structure[edges[s] : edges[s + 1]], places, cells)]:
            n[k] += 1
