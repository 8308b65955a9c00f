"""Word alignment on CPU: what every word's choices add up to, and counts from that, over grids of words that lie flat.

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
import torch

from .alignment_sweeps import (
    ENOUGH,
    add_columns,
    add_rows,
    count_agreed,
    count_columns,
    count_rows,
    log_columns,
    log_rows,
    multiply,
)
from .threads import map_threads, threads_for

Array = np.ndarray[Any, Any]


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

    @cached_property
    def owners(self) -> Array:  # (target words,)
        """The pair of each target word."""
        return np.repeat(np.arange(len(self.targets) - 1), np.diff(self.targets))


@dataclass(frozen=True)
class Real:
    """Weights in real space, scaled so that the largest of a table, and of a pair's two, is 1.

    :param table: (cells of the table,) float64.
    :param null: (B,) of choosing the null word.
    :param word: (B,) of choosing any other word.
    :param shift: (B,) what was divided out of one choice, in logs.
    """

    table: Array
    null: Array
    word: Array
    shift: Array

    @staticmethod
    def of(table: Array, null: Array, word: Array) -> Real:
        """From log-weights of any floating dtype."""
        top = float(table.max(initial=-np.inf))
        top = top if top > -np.inf else 0.0
        real = np.empty(len(table))
        whole, logs = torch.from_numpy(real), torch.from_numpy(table)

        def work(a: int, b: int) -> None:  # torch has a quicker exp than either numpy or compiled loops
            torch.sub(logs[a:b].double(), top, out=whole[a:b])
            whole[a:b].exp_()

        _in_parts(work, len(table))
        base = np.maximum(null, word).astype(np.float64)
        base[base == -np.inf] = 0.0
        return Real(real, np.exp(null - base), np.exp(word - base), base + top)


@dataclass(frozen=True)
class Totals:
    """What the choices of each word add up to.

    :param total: (target words,), or (rows,) where source words choose; real, scaled as the weights are.
    :param log_z: (B,).
    :param trouble: (B,) pairs whose sums went out of range: to be done again in logs.
    """

    total: Array
    log_z: Array
    trouble: Array

    def small(self, owner: Array) -> Array:  # (choosers,) -> (B,)
        """Pairs with a total so small that its inverse times another such may be out of range."""
        return self.trouble | (np.bincount(owner[self.total < np.sqrt(ENOUGH)], minlength=len(self.trouble)) > 0)

    def share(self, scale: Array, owner: Array) -> Array:  # (B,), (choosers,) -> (choosers,)
        """Scale over total: what a unit of weight is worth. 0 in pairs that are done elsewhere."""
        return np.where(self.trouble, 0.0, scale)[owner] / np.where(self.total > 0, self.total, 1.0)


def totals(real: Real, cells: Array, rows: Rows, turned: bool) -> Totals:
    """One sweep: every target word chooses among the rows of its grid; or, turned, every source word among columns."""
    B, where = len(rows.targets) - 1, (rows.starts, rows.pair, rows.null)
    log_z, trouble = np.zeros(B), np.zeros(B, np.bool_)
    weights = (real.table, real.null, real.word, cells, *where)
    if turned:
        total = np.empty(len(rows.pair))
        _in_shards(lambda s, a, b: add_rows(*weights, a, b, total), rows)
        log_rows(total, rows.pair, rows.null, real.shift, log_z, trouble)
        return Totals(total, log_z, trouble)
    parts = np.zeros((len(rows.cuts) - 1, rows.targets[-1]))  # always as many, so that sums do not depend on threads
    _in_shards(lambda s, a, b: add_columns(*weights, rows.targets, a, b, parts[s]), rows)
    total = parts[0] if len(parts) == 1 else parts.sum(0)
    log_columns(total, rows.targets, real.shift, log_z, trouble)
    return Totals(total, log_z, trouble)


def counts(real: Real, cells: Array, rows: Rows, turned: bool, found: Totals, scale: Array) -> Array:  # (B,) -> (C,)
    """How often each cell of the table is expected to be used, each pair weighed by its scale."""
    result = np.zeros(len(real.table))
    where = (real.null, real.word, cells, rows.starts, rows.pair, rows.null)
    if turned:
        share = found.share(scale, rows.pair)
        _in_shards(lambda s, a, b: count_rows(share, *where, a, b, result), rows)
    else:
        share = found.share(scale, rows.owners)
        _in_shards(lambda s, a, b: count_columns(share, *where, rows.targets, a, b, result), rows)
    _in_parts(lambda a, b: multiply(result, real.table, a, b), len(result))
    return result


def agreed_counts(
    reals: tuple[Real, Real],
    cells: Array,
    rows: Rows,
    shared: int,
    found: tuple[Totals, Totals],
    scale: Array,  # (B,) 0 leaves a pair out, as it should those with small totals
) -> tuple[Array, Array]:  # (C,), (C',)
    """The same of both directions, a link counting as often as both choose it; null words as in either direction.

    :param shared: how many cells, the first ones, stand for the same pair of words in both tables.
    """
    one, other = reals
    ones = np.ones(len(scale))
    columns, turned = found[0].share(ones, rows.owners), found[1].share(ones, rows.pair)
    result, rest = np.zeros(len(one.table)), np.zeros(len(other.table) - shared)
    weigh = (columns, turned, scale, (one.null, one.word), (other.null, other.word), shared, cells)
    where = (rows.starts, rows.pair, rows.null, rows.targets)
    _in_shards(lambda s, a, b: count_agreed(*weigh, *where, a, b, result, rest), rows)
    _in_parts(lambda a, b: multiply(result, one.table, a, b), len(result))
    _in_parts(lambda a, b: multiply(result, other.table, a, b), shared)
    rest *= other.table[shared:]
    return result, np.concatenate([result[:shared], rest])


def _in_shards(work: Callable[[int, int, int], None], rows: Rows) -> None:
    shards = len(rows.cuts) - 1
    threads = min(shards, threads_for(int(rows.starts[-1])))

    def share(thread: int) -> None:
        for s in range(thread, shards, threads):
            work(s, rows.cuts[s], rows.cuts[s + 1])

    _on_threads(share, threads)


def _in_parts(work: Callable[[int, int], None], size: int) -> None:
    """Go through a table in as many parts as there are threads."""
    threads = threads_for(size)
    cuts = size * np.arange(threads + 1) // threads
    _on_threads(lambda thread: work(cuts[thread], cuts[thread + 1]), threads)


def _on_threads(work: Callable[[int], None], threads: int) -> None:
    if threads == 1:  # small data come often: no detour
        work(0)
    else:
        map_threads(work, range(threads))
