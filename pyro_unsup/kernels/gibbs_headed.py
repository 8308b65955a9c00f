"""One sweep of collapsed Gibbs sampling over headed binary trees, a sentence at a time.

A tree draws what its dependencies draw (:mod:`.gibbs_heads`), and what its brackets draw (:mod:`.gibbs_brackets`).
Proposals are drawn by the recursion of :mod:`.headed_bracketing_pass`, in scaled real numbers, and in logs where these
are not exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from . import gibbs_brackets, gibbs_heads
from .bracketing_pass import scale_down
from .dependency_pass import fill_arcs
from .gibbs_brackets import Columns, cells_of_brackets, weigh_spans
from .gibbs_heads import Places, cells_of_heads, scale_words, weigh_words
from .gibbs_urns import Urns, lift, put_back, settle, weigh
from .headed_bracketing import spans_of_heads
from .headed_bracketing_pass import inside, spread, trace, turn
from .limits import LIMIT
from .ring import LOG, REAL, compiled, copy, longest_of

Array = Any
MOST = LIMIT[np.dtype(np.float64)]
make_words, make_spans = gibbs_heads.make_room, gibbs_brackets.make_room


class Room(NamedTuple):
    """Room for the longest sentence, of N words."""

    words: gibbs_heads.Room
    spans: gibbs_brackets.Room
    grid: Array  # (N, N + 1)
    narrow: Array  # (2, N, N + 1)
    chart: Array  # (4, N, N + 1, N)
    tops: Array  # (N,)
    todo: Array  # (N + 1, 3)
    brackets: Array  # (N (N + 1) / 2,)


@njit(cache=True, nogil=True)
def make_room(N: int, places: Places) -> Room:
    return Room(
        make_words(N, places), make_spans(N), np.empty((N, N + 1)), np.empty((2, N, N + 1)), np.empty((4, N, N + 1, N)),
        np.empty(N), np.empty((N + 1, 3), np.int64), np.empty(N * (N + 1) // 2, np.int64),
    )  # fmt: skip


@njit(cache=True, nogil=True)
def cells_of_trees(
    tags: Array, at: int, heads: Array, left_first: bool, places: Places, columns: Columns, room: Room, cells: Array
) -> int:
    """The draws that a tree makes, of spans those with a choice; how many.

    :param at: the first span of the sentence.
    """
    n = len(tags)
    used: int = cells_of_heads(tags, heads, places, room.words, cells)
    brackets = room.brackets[: n * (n + 1) // 2]
    brackets[:] = 0
    spans_of_heads(heads, left_first, brackets)
    used += cells_of_brackets(n, at, brackets, columns, cells[used:])
    return used


@compiled
def draw_trees(
    tags: Array, at: int, left_first: bool, places: Places, columns: Columns, urns: Urns, room: Room, uniforms: Array,
    heads: Array,
) -> bool:  # fmt: skip
    """Draw a tree in proportion to its weight; False if all weights vanish."""
    n, K = len(tags), places.K
    size, words = n * (n + 1) // 2, room.words
    attach = urns.logs[places.attach : places.attach + K * 2 * K].reshape(K, 2, 1, K)
    flat = words.arcs[: n * (n + 1)]
    arc, logs = flat.reshape(n, n + 1), room.spans.logs[:size]
    top = weigh_spans(n, at, columns, urns, room.spans.logs)
    scale_down(n, logs, top, 1.0, room.spans.ratio[:size])
    spread(room.spans.ratio, n, room.grid)
    weigh_words(tags, places, urns, words)
    scale_words(n, words)
    fill_arcs(REAL, words.root, attach, words.extra, tags, 0, words.more, flat.reshape(1, n, n + 1))
    if left_first:
        turn(arc, words.ends, room.grid, n)
    whole = inside(REAL, n, arc, words.ends, room.grid, room.narrow, room.chart, room.tops)
    if 1 / MOST < whole < MOST:
        trace(REAL, n, arc, room.narrow, room.chart, uniforms, room.spans.ways, room.todo, left_first, heads)
        return True
    spread(logs, n, room.grid)
    weigh_words(tags, places, urns, words)
    fill_arcs(LOG, words.root, attach, words.extra[:0], tags, 0, words.more, flat.reshape(1, n, n + 1))
    if left_first:
        turn(arc, words.ends, room.grid, n)
    whole = inside(LOG, n, arc, words.ends, room.grid, room.narrow, room.chart, room.tops)
    if not whole > -np.inf:
        return False
    trace(LOG, n, arc, room.narrow, room.chart, uniforms, room.spans.ways, room.todo, left_first, heads)
    return True


@njit(cache=True, nogil=True)
def sweep(
    tags: Array,  # (tokens,) int64
    offsets: Array,  # (B + 1,)
    edges: Array,  # (B + 1,) of the spans
    heads: Array,  # (tokens,) int64: 0 for the root, k for the k-th word of the sentence
    left_first: bool,
    places: Places,
    columns: Columns,
    urns: Urns,
    uniforms: Array,  # (tokens, 2)
    decisions: Array,  # (B,) uniform
) -> tuple[int, int]:
    """Propose a new tree for each sentence, in order. How many proposals there were, and how many were accepted."""
    longest = longest_of(offsets, np.arange(len(offsets) - 1))
    room, size = make_room(longest, places), 4 * longest + longest * (longest + 1)
    found, old, new = np.empty(longest, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    weigh(urns)
    proposed, accepted = 0, 0
    for s in range(len(offsets) - 1):
        lo, hi, at = offsets[s], offsets[s + 1], edges[s]
        n = hi - lo
        if n < 2:  # one tree at most
            continue
        proposed += 1
        mine = tags[lo:hi]
        before = old[: cells_of_trees(mine, at, heads[lo:hi], left_first, places, columns, room, old)]
        lift(before, urns)
        if not draw_trees(mine, at, left_first, places, columns, urns, room, uniforms[lo:hi], found[:n]):
            put_back(before, urns)
            continue
        after = new[: cells_of_trees(mine, at, found[:n], left_first, places, columns, room, new)]
        if settle(before, after, urns, decisions[s]):
            accepted += 1
            copy(found[:n], heads[lo:hi])
    return proposed, accepted
