"""Where grids of words lie, for kernels, and how to go through them on several threads.

A grid is a pair of sentences; its rows are source words and its columns target words, the first of each being the null
word. Rows may lie in any order. In the order of their words, the part of the table that a row uses is in the cache from
the row before: a sweep then costs what its cells cost, not a trip to memory for each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ...array import Array
from ..plumbing import offsets
from ..room import room
from ..threads import even_cuts, on_threads, threads_for
from .cells import count, gather_logs

#: Cells in a run of pairs. Sums are made run by run, so that they do not depend on the number of threads.
RUN = 1 << 18
MOST_RUNS = 64


@dataclass(frozen=True)
class Rows:
    """Where the rows of all grids lie.

    :param starts: (rows + 1,) int64, where the cells of each row begin, null column first.
    :param pair: (rows,) int64, the pair of sentences that each belongs to.
    :param null: (rows,) bool, whether it is the row of the null word.
    :param targets: (B + 1,) int64, where the target words of each pair begin.
    :param cuts: (shards + 1,) int64, runs of rows that have no cell of the table in common.
    """

    starts: Array
    pair: Array
    null: Array
    targets: Array
    cuts: Array

    @staticmethod
    def of(grid: Any) -> Rows:
        """From a :class:`pyro_unsup.distributions.alignment.grid.Grid`."""
        null = (grid.place == 0).numpy()
        return Rows(grid.starts.numpy(), grid.pair.numpy(), null, grid.targets.numpy(), grid.cuts.numpy())

    @cached_property
    def words(self) -> Lines:
        """The rows of words."""
        kept = (~self.null).nonzero()[0]
        pair = self.pair[kept].astype(np.int32)
        size = np.diff(self.targets).astype(np.int32)[pair]
        column = self.targets.astype(np.int32 if self.targets[-1] < 2**31 else np.int64)[pair]
        return Lines(self.starts[kept] + 1, size, column, pair, np.searchsorted(kept, self.cuts))

    @cached_property
    def null_at(self) -> Array:  # (B,)
        """Where the cells of target words begin in the row of each pair's null word."""
        rows, at = self.null.nonzero()[0], np.empty(len(self.targets) - 1, np.int64)
        at[self.pair[rows]] = self.starts[rows] + 1
        return at

    @cached_property
    def lengths(self) -> Array:  # (B,)
        """How many source words each pair has."""
        return np.bincount(self.words.pair, minlength=len(self.targets) - 1)


@dataclass(frozen=True)
class Lines:
    """Rows without their null column.

    :param at: (n,) int64, where the cells of each begin.
    :param size: (n,) int32, how many there are.
    :param column: (n,) where the target words above them begin.
    :param pair: (n,) int32, the pair of sentences that each belongs to.
    :param cuts: (shards + 1,) runs that have no cell of the table in common.
    """

    at: Array
    size: Array
    column: Array
    pair: Array
    cuts: Array


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

    @staticmethod
    def of(grid: Any) -> Trellises:
        order, _ = grid._by_pair
        return Trellises(grid.rows, order.numpy(), offsets(grid.source_lengths.numpy() + 1))

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

    def choosers(self, turned: bool) -> Array:  # (B,)
        """How many words of each pair choose."""
        return np.diff(self.words(turned))

    @property
    def places(self) -> tuple[Array, Array, Array, Array]:
        return self.rows.starts, self.order, self.offsets, self.widths


def in_row_shards(work: Callable[[int, int, int], None], rows: Rows, cuts: Array) -> None:
    """Do runs of rows that have no cell of the table in common, on several threads: (shard, first, last).

    :param cuts: (shards + 1,) of all rows, or of the rows of words.
    """
    shards = len(cuts) - 1
    threads = min(shards, threads_for(int(rows.starts[-1])))

    def share(thread: int) -> None:
        for s in range(thread, shards, threads):
            work(s, cuts[s], cuts[s + 1])

    on_threads(share, threads)


def cell_logs(table: Array, more: Array, cells: Array, rows: Rows, turned: bool) -> Array:  # (cells,)
    """What every cell of the grids weighs, as if each were a cell of the table."""
    logs, where = room(len(cells)), (cells, rows.starts, rows.null, turned)
    in_row_shards(lambda s, a, b: gather_logs(table, more, *where, a, b, logs), rows, rows.cuts)
    return logs


def add_up(posterior: Array, scale: Array, cells: Array, rows: Rows, turned: bool, counts: Array) -> None:
    """Add what is expected of cells to the cells of the table, each pair weighed by its scale."""
    where = (cells, rows.starts, rows.pair, rows.null, turned)
    in_row_shards(lambda s, a, b: count(posterior, scale, *where, a, b, counts), rows, rows.cuts)


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
