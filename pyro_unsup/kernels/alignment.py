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

from .alignment_sweeps import (
    ENOUGH,
    add_columns,
    add_rows,
    close_columns,
    close_rows,
    count_agreed,
    count_columns,
    count_null,
    count_rows,
    multiply,
    shares,
)
from .exp_log import exp_below
from .parts import in_parts, on_threads
from .room import room, zeros
from .threads import threads_for

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
        tops: list[float] = [-np.inf]
        in_parts(lambda a, b: tops.append(table[a:b].max(initial=-np.inf)), len(table))
        top = float(max(tops)) if max(tops) > -np.inf else 0.0
        real = room(len(table))
        in_parts(lambda a, b: exp_below(table[a:b], top, real[a:b]), len(table))
        base = np.maximum(null, word).astype(np.float64)
        base[base == -np.inf] = 0.0
        return Real(real, np.exp(null - base), np.exp(word - base), base + top)


@dataclass(frozen=True)
class Totals:
    """What the choices of each word add up to.

    :param total: (target words,), or (rows of words,) where source words choose; real, scaled as the weights are.
    :param log_z: (B,), right where there is no trouble.
    :param least: (B,) the smallest total of each pair.
    """

    total: Array
    log_z: Array
    least: Array

    @property
    def trouble(self) -> Array:  # (B,)
        """Pairs whose sums went out of range: to be done again in logs."""
        return np.logical_not(self.least > ENOUGH)  # so that what is not a number is trouble

    @property
    def small(self) -> Array:  # (B,)
        """Pairs with a total so small that its inverse times another such may be out of range."""
        result: Array = np.logical_not(self.least > ENOUGH**0.5)
        return result


def totals(real: Real, cells: Array, rows: Rows, turned: bool) -> Totals:
    """One sweep: every target word chooses among the rows of its grid; or, turned, every source word among columns."""
    B, words = len(rows.targets) - 1, rows.words
    where = (cells, words.at, words.size)
    log_z, least = np.empty(B), np.empty(B)
    if turned:
        total = np.empty(len(words.pair))
        mine = (real.table, real.null, real.word, *where, words.pair)
        _in_shards(lambda s, a, b: add_rows(*mine, a, b, total), rows)
        close_rows(total, words.pair, rows.lengths, real.shift, log_z, least)
        return Totals(total, log_z, least)
    shards, T = len(rows.cuts) - 1, int(rows.targets[-1])
    parts = room(shards * T).reshape(shards, T)  # always as many, so that sums do not depend on threads
    _in_shards(lambda s, a, b: add_columns(real.table, *where, words.column, a, b, parts[s]), rows)
    total = np.empty(T)
    weigh = (real.table, real.null, real.word, real.shift)
    edge = (cells, rows.null_at, rows.targets)
    in_parts(lambda a, b: close_columns(parts, *weigh, *edge, a, b, total, log_z, least), B, T)
    return Totals(total, log_z, least)


def counts(real: Real, cells: Array, rows: Rows, turned: bool, found: Totals, scale: Array) -> Array:  # (B,) -> (C,)
    """How often each cell of the table is expected to be used, each pair weighed by its scale."""
    result, words = zeros(len(real.table)), rows.words
    scale = np.where(found.trouble, 0.0, scale)
    null, word = real.null * scale, real.word * scale
    where = (cells, words.at, words.size)
    if turned:
        mine = (found.total, null, word, *where, words.pair)
        _in_shards(lambda s, a, b: count_rows(*mine, a, b, result), rows)
    else:
        share = _shares(found, word, rows)
        _in_shards(lambda s, a, b: count_columns(share, *where, words.column, a, b, result), rows)
        count_null(found.total, null, cells, rows.null_at, rows.targets, result)
    in_parts(lambda a, b: multiply(result, real.table, a, b), len(result))
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
    (one, other), words = reals, rows.words
    result, turned = zeros(len(one.table)), room(len(other.table))
    rest = np.zeros(len(other.table) - shared)
    share = _shares(found[0], one.word * scale, rows)
    weigh = (share, found[1].total, other.null * scale, other.word, shared)
    where = (cells, words.at, words.size, words.column, words.pair)
    _in_shards(lambda s, a, b: count_agreed(*weigh, *where, a, b, result, rest), rows)
    count_null(found[0].total, one.null * scale, cells, rows.null_at, rows.targets, result)
    in_parts(lambda a, b: multiply(result, one.table, a, b), len(result))
    in_parts(lambda a, b: multiply(result, other.table, a, b), shared)
    turned[:shared] = result[:shared]
    turned[shared:] = rest * other.table[shared:]
    return result, turned


def _shares(found: Totals, unit: Array, rows: Rows) -> Array:  # (B,) -> (target words,)
    share = np.empty_like(found.total)
    in_parts(lambda a, b: shares(found.total, unit, rows.targets, a, b, share), len(unit), len(share))
    return share


def _in_shards(work: Callable[[int, int, int], None], rows: Rows) -> None:
    """Go through the rows of words, shard by shard."""
    cuts, shards = rows.words.cuts, len(rows.cuts) - 1
    threads = min(shards, threads_for(int(rows.starts[-1])))

    def share(thread: int) -> None:
        for s in range(thread, shards, threads):
            work(s, cuts[s], cuts[s + 1])

    on_threads(share, threads)
