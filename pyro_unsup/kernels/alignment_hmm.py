"""Word alignment with jumps, on CPU: log Z, the posterior of every link, and counts, over grids of words that lie flat.

The table of translations is large, and used row by row in the order of the vocabulary: weights are gathered from it and
counts added to it in that order (:mod:`.alignment`), on threads that share no cell. In between, the weights of each
pair of sentences are turned into posteriors in place, pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .alignment import Rows
from .alignment_hmm_cells import count, count_agreed, gather
from .alignment_hmm_log import decode_pass, log_pass
from .alignment_hmm_scaled import scaled_pass
from .limits import LIMIT
from .parts import on_threads
from .room import room as memory
from .threads import even_cuts, threads_for

Array = np.ndarray[Any, Any]

#: Cells in a run of pairs. Sums are made run by run, so that they do not depend on the number of threads.
RUN = 1 << 18
MOST_RUNS = 64


@dataclass(frozen=True)
class Trellises:
    """Where the rows of each pair of sentences lie.

    :param rows: the rows of all grids, in any order.
    :param order: (rows,) int64, rows pair by pair, by their place.
    :param offsets: (B + 1,) int64, where the rows of each pair begin among those.
    """

    rows: Rows
    order: Array
    offsets: Array

    @cached_property
    def widths(self) -> Array:  # (B,)
        """Target words of each pair."""
        return np.diff(self.rows.targets)

    def words(self, turned: bool) -> Array:  # (B + 1,)
        """Where the words of each pair begin among those that choose."""
        return self.offsets - np.arange(len(self.offsets)) if turned else self.rows.targets

    @cached_property
    def runs(self) -> Array:  # (runs + 1,)
        """Cuts the pairs into runs that take about as long."""
        cost = np.diff(self.offsets) * (self.widths + 1)
        runs = min(len(cost), 1 + int(cost.sum()) // RUN, MOST_RUNS)
        return np.minimum(even_cuts(cost, runs), len(cost)) if runs else np.zeros(1, np.int64)

    @property
    def places(self) -> tuple[Array, Array, Array, Array]:
        return self.rows.starts, self.order, self.offsets, self.widths


@dataclass(frozen=True)
class HMMWeights:
    """Log-weights of one direction, all of one floating dtype.

    :param table: (C,) translations.
    :param null: (B,) of no link.
    :param word: (B,) of a link.
    :param jump: (3, 2 W + 1).
    :param room: ((W + 1)^2 + 2 W,).
    :param share: (most,) by how many places share a weight.
    """

    table: Array
    null: Array
    word: Array
    jump: Array
    room: Array
    share: Array

    def logs(self) -> tuple[Array, ...]:
        """In float64, but for the table, which is large."""
        small = (self.null, self.word, self.jump, self.room, self.share)
        return (self.table, *(x.astype(np.float64) for x in small))

    def zeros(self) -> tuple[Array, Array, Array]:
        """Nothing counted yet of jump, room and share."""
        return np.zeros(self.jump.shape), np.zeros(self.room.shape), np.zeros(self.share.shape)

    def real(self) -> tuple[Array, tuple[Array, ...], Array, float]:
        """Scaled so that nothing exceeds 1: the table; the others; and what was divided out, in logs,
        of each word's choice (B,) and once a pair."""
        W = (self.jump.shape[1] - 1) // 2
        ends = (W + 1) ** 2 + W  # where the room at the end of a sentence begins
        _, null, word, jump, room, share = self.logs()
        top = [_top(jump[:2]), _top(jump[2:])]
        top_room, top_share = [_top(room[:ends]), _top(room[ends:])], _top(share)
        # Not every word jumps: what was divided out of a jump goes to the weight of a link.
        word = word + top[0] + top_room[0] + top_share
        base = np.maximum(null, word)
        base[base == -np.inf] = 0.0
        most = _top(self.table)
        table = memory(len(self.table), self.table.dtype)
        np.subtract(self.table, self.table.dtype.type(most), out=table)
        np.exp(table, out=table)
        small = (
            np.exp(null - base),
            np.exp(word - base),
            np.exp(jump - np.array([top[0], top[0], top[1]])[:, None]),
            np.exp(room - np.repeat(top_room, [ends, W])),
            np.exp(share - top_share),
        )
        return table, small, base + most, top[1] + top_room[1] + top_share


def _top(x: Array) -> float:
    top = float(x.max(initial=-np.inf))
    return top if top > -np.inf else 0.0


@dataclass(frozen=True)
class Swept:
    """What one sweep found.

    :param log_z: (B,) float64.
    :param posterior: (cells,) of each choice; 0 for cells that this direction has no use for. In the dtype of the
        weights. Empty if it was not wanted, as the rest then is.
    :param null: (B,) expected words without a link.
    :param jump: (3, 2 W + 1) expected jumps, pairs weighed by their scale.
    :param room: ((W + 1)^2 + 2 W,) likewise.
    :param share: (most,) likewise.
    """

    log_z: Array
    posterior: Array
    null: Array
    jump: Array
    room: Array
    share: Array


def sweep(
    weights: HMMWeights, cells: Array, where: Trellises, turned: bool, want: bool, scale: Array | None = None
) -> Swept:
    """log Z of every pair, and posteriors if they are wanted.

    :param scale: (B,) how much each pair counts, 1 if not given.
    """
    table, small, shift, once = weights.real()
    rows, B = where.rows, len(where.widths)
    scale = np.ones(B) if scale is None else scale
    emit = memory(len(cells), table.dtype)
    in_shards(lambda a, b: gather(table, cells, rows.starts, rows.null, turned, a, b, emit), rows)
    log_z, trouble, n_null = np.empty(B), np.empty(B, np.bool_), np.empty(B)
    limit, logs, words = LIMIT[emit.dtype], weights.logs(), np.diff(where.words(turned))

    def work(first: int, last: int) -> tuple[Array, ...]:
        found = weights.zeros()
        place = (emit, *where.places, turned)
        scaled_pass(*place, *small, first, last, limit, want, scale, log_z, trouble, n_null, *found)
        some = slice(first, last)
        log_z[some] += words[some] * shift[some] + np.where(words[some] > 0, once, 0.0)
        again = first + np.flatnonzero(trouble[some])
        if len(again):
            log_pass(logs[0], cells, *where.places, turned, *logs[1:], again, want, scale, log_z, emit, n_null, *found)
        return found

    found = weights.zeros()
    for counts in in_runs(work, where):  # always in the same order
        for into, more in zip(found, counts, strict=True):
            into += more
    return Swept(log_z, emit if want else emit[:0], n_null, *found)


def counts(posterior: Array, cells: Array, rows: Rows, turned: bool, scale: Array, size: int) -> Array:  # -> (C,)
    """How often each cell of the table is expected to be used, each pair weighed by its scale."""
    result = np.zeros(size)
    where = (cells, rows.starts, rows.pair, rows.null, turned)
    in_shards(lambda a, b: count(posterior, scale, *where, a, b, result), rows)
    return result


def agreed_counts(
    posteriors: tuple[Array, Array],
    cells: Array,
    rows: Rows,
    shared: int,
    scale: Array,  # (B,)
    sizes: tuple[int, int],
) -> tuple[Array, Array]:  # (C,), (C',)
    """The same of both directions, a link counting as often as both expect it; null words as in either direction.

    :param shared: how many cells, the first ones, stand for the same pair of words in both tables.
    """
    result, rest = np.zeros(sizes[0]), np.zeros(sizes[1] - shared)
    where = (cells, rows.starts, rows.pair, rows.null, shared)
    in_shards(lambda a, b: count_agreed(*posteriors, scale, *where, a, b, result, rest), rows)
    return result, np.concatenate([result[:shared], rest])


def decode(weights: HMMWeights, cells: Array, where: Trellises, turned: bool, uniforms: Array | None) -> Array:
    """The best links, or a draw by uniform numbers: (cells,) int8, 1 for what is chosen; -1 where nothing can be.

    :param uniforms: (B + words that choose,) float64 in [0, 1).
    """
    found = np.zeros(len(cells), np.int8)
    logs = weights.logs()
    place = (logs[0], cells, *where.places, turned, *logs[1:])
    given = np.empty(0) if uniforms is None else uniforms
    in_runs(lambda first, last: decode_pass(*place, first, last, given, where.words(turned), found), where)
    return found


def in_shards(work: Callable[[int, int], None], rows: Rows) -> None:
    """Do runs of rows that have no cell of the table in common, on several threads."""
    shards = len(rows.cuts) - 1
    threads = min(shards, threads_for(int(rows.starts[-1])))

    def share(thread: int) -> None:
        for s in range(thread, shards, threads):
            work(rows.cuts[s], rows.cuts[s + 1])

    on_threads(share, threads)


def in_runs(work: Callable[[int, int], Any], where: Trellises) -> list[Any]:
    """Do runs of pairs, on several threads; results in order."""
    runs = len(where.runs) - 1
    threads = min(runs, threads_for(int(where.rows.starts[-1])))
    results: list[Any] = [None] * runs

    def share(thread: int) -> None:
        for k in range(thread, runs, threads):
            results[k] = work(where.runs[k], where.runs[k + 1])

    if runs:
        on_threads(share, threads)
    return results
