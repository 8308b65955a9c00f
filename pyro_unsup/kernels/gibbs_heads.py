"""One sweep of collapsed Gibbs sampling over dependency trees, a sentence at a time.

The draws of a tree: a root, an attachment for every other word, and on both sides of every word a decision to continue
for each child and one to stop. Proposals are drawn by the recursion of :mod:`.dependency_pass`, in scaled real
numbers, and in logs where these are not exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .dependency_pass import fill_arcs, inside, trace
from .gibbs_urns import Urns, lift, put_back, settle, weigh
from .limits import LIMIT
from .ring import LOG, REAL, compiled, copy, longest_of

Array = Any
MOST = LIMIT[np.dtype(np.float64)]


class Places(NamedTuple):
    """Where the tables begin among all cells, and among all rows. Those of the root are the first."""

    K: int  # tags
    V: int  # valences: 2 if the first child of a head on a side is drawn from a row of its own
    attach: int
    attach_row: int
    stop: int
    stop_row: int


class Room(NamedTuple):
    """Room for the longest sentence, of N words."""

    root: Array  # (K,)
    arcs: Array  # (V N (N + 1),)
    more: Array  # (V N (N + 1),)
    extra: Array  # (N (N + 1), 1)
    ends: Array  # (N, 2, 2, 2)
    best: Array  # (N, 2)
    kinds: Array  # (N,)
    chart: Array  # (8, N, N)
    ways: Array  # (N,)
    todo: Array  # (2 N + 2, 3)
    children: Array  # (N, 2)
    nearest: Array  # (N, 2)


@njit(cache=True, nogil=True)
def make_room(N: int, places: Places) -> Room:
    size = N * (N + 1)
    return Room(
        np.empty(places.K), np.empty(places.V * size), np.empty(places.V * size), np.empty((size, 1)),
        np.empty((N, 2, 2, 2)), np.empty((N, 2)), np.arange(N), np.empty((8, N, N)), np.empty(N),
        np.empty((2 * N + 2, 3), np.int64), np.empty((N, 2), np.int64), np.empty((N, 2), np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def cells_of_heads(tags: Array, heads: Array, places: Places, room: Room, cells: Array) -> int:
    """The draws that a tree makes; how many: 4 n - 1."""
    n, used = len(tags), 0
    children, nearest = room.children, room.nearest
    children[:n] = 0
    for c in range(n):
        h = heads[c] - 1
        if h < 0:
            continue
        side = int(h < c)
        # From the left to the right, the last child on the left is the nearest, and the first on the right.
        if side == 0 or children[h, side] == 0:
            nearest[h, side] = c
        children[h, side] += 1
    for c in range(n):
        h = heads[c] - 1
        if h < 0:
            cells[used] = tags[c]
        else:
            side = int(h < c)
            valence = places.V - 1 if nearest[h, side] != c else 0
            cells[used] = places.attach + ((tags[h] * 2 + side) * places.V + valence) * places.K + tags[c]
        used += 1
        for side in range(2):
            first = places.stop + (tags[c] * 2 + side) * 4  # adjacent: stop, continue; beyond: stop, continue
            many = children[c, side]
            cells[used] = first if many == 0 else first + 1
            used += 1
            for _ in range(many - 1):
                cells[used] = first + 3
                used += 1
            if many > 0:
                cells[used] = first + 2
                used += 1
    return used


@njit(cache=True, nogil=True)
def weigh_words(tags: Array, places: Places, urns: Urns, room: Room) -> None:
    """Logs of decisions, with the whole of the row that a child is then drawn from; and of roots."""
    K, V = places.K, places.V
    for k in range(K):
        room.root[k] = urns.logs[k] - urns.whole[0]
    for i in range(len(tags)):
        for side in range(2):
            row = tags[i] * 2 + side
            for some in range(2):
                cell, whole = places.stop + (row * 2 + some) * 2, urns.whole[places.stop_row + row * 2 + some]
                room.ends[i, side, some, 0] = urns.logs[cell] - whole
                attached = urns.whole[places.attach_row + row * V + min(some, V - 1)]
                room.ends[i, side, some, 1] = urns.logs[cell + 1] - whole - attached


@compiled
def scale_words(n: int, room: Room) -> None:
    """Decisions as real numbers, shares of the better adjacency; the better way to continue goes to the arcs."""
    for i in range(n):
        for side in range(2):
            for decision in range(2):
                best = max(room.ends[i, side, 0, decision], room.ends[i, side, 1, decision])
                for some in range(2):
                    room.ends[i, side, some, decision] = np.exp(room.ends[i, side, some, decision] - best)
                if decision == 1:
                    room.best[i, side] = best
    for c in range(n):
        room.extra[c * (n + 1), 0] = 0.0
        for h in range(n):
            room.extra[c * (n + 1) + h + 1, 0] = room.best[h, int(h < c)]


@compiled
def draw_heads(tags: Array, places: Places, urns: Urns, room: Room, uniforms: Array, heads: Array) -> bool:
    """Draw a tree in proportion to its weight; False if all weights vanish."""
    n, K, V = len(tags), places.K, places.V
    attach = urns.logs[places.attach : places.attach + K * 2 * V * K].reshape(K, 2, V, K)
    arc = room.arcs[: V * n * (n + 1)].reshape(V, n, n + 1)
    weigh_words(tags, places, urns, room)
    scale_words(n, room)
    fill_arcs(REAL, room.root, attach, room.extra, tags, 0, room.more, arc)
    whole = inside(REAL, n, arc, room.ends, room.kinds, room.chart)
    if 1 / MOST < whole < MOST:
        trace(REAL, n, arc, room.chart, uniforms, room.ways, room.todo, heads)
        return True
    weigh_words(tags, places, urns, room)
    fill_arcs(LOG, room.root, attach, room.extra[:0], tags, 0, room.more, arc)
    whole = inside(LOG, n, arc, room.ends, room.kinds, room.chart)
    if not whole > -np.inf:
        return False
    trace(LOG, n, arc, room.chart, uniforms, room.ways, room.todo, heads)
    return True


@njit(cache=True, nogil=True)
def sweep(
    tags: Array,  # (tokens,) int64
    offsets: Array,  # (B + 1,)
    heads: Array,  # (tokens,) int64: 0 for the root, k for the k-th word of the sentence
    places: Places,
    urns: Urns,
    uniforms: Array,  # (tokens, 2)
    decisions: Array,  # (B,) uniform
) -> tuple[int, int]:
    """Propose a new tree for each sentence, in order. How many proposals there were, and how many were accepted."""
    longest = longest_of(offsets, np.arange(len(offsets) - 1))
    room = make_room(longest, places)
    found, old, new = np.empty(longest, np.int64), np.empty(4 * longest, np.int64), np.empty(4 * longest, np.int64)
    weigh(urns)
    proposed, accepted = 0, 0
    for s in range(len(offsets) - 1):
        lo, hi = offsets[s], offsets[s + 1]
        n = hi - lo
        if n < 2:  # one tree at most
            continue
        proposed += 1
        mine = tags[lo:hi]
        before = old[: cells_of_heads(mine, heads[lo:hi], places, room, old)]
        lift(before, urns)
        if not draw_heads(mine, places, urns, room, uniforms[lo:hi], found[:n]):
            put_back(before, urns)
            continue
        after = new[: cells_of_heads(mine, found[:n], places, room, new)]
        if settle(before, after, urns, decisions[s]):
            accepted += 1
            copy(found[:n], heads[lo:hi])
    return proposed, accepted


@njit(cache=True, nogil=True)
def count_heads(tags: Array, offsets: Array, heads: Array, places: Places, n: Array) -> None:
    """How often trees draw every cell."""
    longest = longest_of(offsets, np.arange(len(offsets) - 1))
    room, cells = make_room(longest, places), np.empty(4 * longest, np.int64)
    n[:] = 0
    for s in range(len(offsets) - 1):
        lo, hi = offsets[s], offsets[s + 1]
        for k in cells[: cells_of_heads(tags[lo:hi], heads[lo:hi], places, room, cells)]:
            n[k] += 1
