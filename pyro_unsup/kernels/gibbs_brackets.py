"""One sweep of collapsed Gibbs sampling over binary trees, a sentence at a time.

Every span draws its yield and its context, as a constituent or as a distituent. Single words and whole sentences are
constituents of every tree, and what they draw never changes: it stays in the counts, and sentences are moved given it.
Proposals are drawn by the recursion of :mod:`.bracketing_pass`, in scaled real numbers, and in logs where these are not
exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .bracketing_pass import NODE, inside, scale_down, trace
from .gibbs_urns import Urns, lift, put_back, settle, weigh
from .limits import LIMIT
from .ring import LOG, REAL, compiled

Array = Any
MOST = LIMIT[np.dtype(np.float64)]


class Columns(NamedTuple):
    """What every span draws, by its number among all cells, and how far from that is the same for a constituent."""

    yields: Array  # (spans,) as a distituent
    contexts: Array  # (spans,)
    yield_step: int
    context_step: int


class Room(NamedTuple):
    """Room for the longest sentence, of N words."""

    logs: Array  # (N (N + 1) / 2,)
    ratio: Array  # (N (N + 1) / 2,)
    chart: Array  # (N + 1, N + 1)
    mirror: Array  # (N + 1, N + 1)
    ways: Array  # (N + 1,)
    todo: Array  # (N + 1, 2)


@njit(cache=True, nogil=True)
def make_room(N: int) -> Room:
    size = N * (N + 1) // 2
    return Room(
        np.empty(size), np.empty(size), np.empty((N + 1, N + 1)), np.empty((N + 1, N + 1)), np.empty(N + 1),
        np.empty((N + 1, 2), np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def cells_of_brackets(n: int, at: int, structure: Array, columns: Columns, cells: Array) -> int:
    """The draws of all spans with a choice; how many.

    :param at: the first span of the sentence.
    :param structure: (n (n + 1) / 2,) 1 for a constituent, 0 for a distituent.
    """
    used = 0
    for m in range(n, len(structure) - 1):
        kind = structure[m]
        cells[used] = columns.yields[at + m] + kind * columns.yield_step
        cells[used + 1] = columns.contexts[at + m] + kind * columns.context_step
        used += 2
    return used


@njit(cache=True, nogil=True)
def weigh_spans(n: int, at: int, columns: Columns, urns: Urns, logs: Array) -> float:
    """What each constituent multiplies the weight of a tree by, in logs; the largest of them."""
    top, last = -np.inf, n * (n + 1) // 2 - 1
    logs[:n] = 0.0
    for m in range(n, last):
        y, x = columns.yields[at + m], columns.contexts[at + m]
        other, around = y + columns.yield_step, x + columns.context_step
        found = urns.logs[other] - urns.whole[urns.row[other]] + urns.logs[around] - urns.whole[urns.row[around]]
        found -= urns.logs[y] - urns.whole[urns.row[y]] + urns.logs[x] - urns.whole[urns.row[x]]
        logs[m] = found
        top = max(top, found)
    logs[last] = 0.0
    return top


@compiled
def draw_brackets(n: int, at: int, columns: Columns, urns: Urns, room: Room, uniforms: Array, structure: Array) -> bool:
    """Draw a tree in proportion to its weight; False if all weights vanish."""
    size = n * (n + 1) // 2
    top = weigh_spans(n, at, columns, urns, room.logs)
    scale_down(n, room.logs[:size], top, NODE, room.ratio[:size])
    whole = inside(REAL, n, room.ratio, room.chart, room.mirror)
    if 1 / MOST < whole < MOST:
        trace(REAL, n, room.chart, room.mirror, uniforms, room.ways, room.todo, structure)
        return True
    whole = inside(LOG, n, room.logs, room.chart, room.mirror)
    if not whole > -np.inf:
        return False
    trace(LOG, n, room.chart, room.mirror, uniforms, room.ways, room.todo, structure)
    return True


@njit(cache=True, nogil=True)
def sweep(
    lengths: Array,  # (B,)
    edges: Array,  # (B + 1,) of the spans
    structure: Array,  # (spans,) int64: 1 for a constituent, 0 for a distituent
    columns: Columns,
    urns: Urns,
    uniforms: Array,  # (tokens,)
    decisions: Array,  # (B,) uniform
) -> tuple[int, int]:
    """Propose a new tree for each sentence, in order. How many proposals there were, and how many were accepted."""
    longest = lengths.max()
    room, size = make_room(longest), longest * (longest + 1)
    found, old, new = np.empty(size // 2, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    weigh(urns)
    proposed, accepted, word = 0, 0, 0
    for s in range(len(lengths)):
        n, at, end = lengths[s], edges[s], edges[s + 1]
        chances = uniforms[word : word + n]
        word += n
        if n < 3:  # one tree at most
            continue
        proposed += 1
        before = old[: cells_of_brackets(n, at, structure[at:end], columns, old)]
        lift(before, urns)
        if not draw_brackets(n, at, columns, urns, room, chances, found[: end - at]):
            put_back(before, urns)
            continue
        after = new[: cells_of_brackets(n, at, found[: end - at], columns, new)]
        if settle(before, after, urns, decisions[s]):
            accepted += 1
            structure[at:end] = found[: end - at]
    return proposed, accepted
