"""Word alignment on CPU, every word choosing alone: what its choices add up to, and counts from that.

One sweep finds log Z, another one the counts. Words that real numbers cannot hold are done in logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ...array import Array
from ..exp_log import exp_below
from ..plumbing import uniform_numbers
from ..room import room, zeros
from ..threads import NUMBERS_A_TOKEN, in_parts
from .cells import cells_of
from .model1_log import choose_pass, log_pass
from .rows import Rows, Trellises, add_up, cell_logs, in_row_shards, in_runs
from .sweeps import (
    ENOUGH,
    add_columns,
    add_rows,
    cells_within,
    close_columns,
    close_rows,
    count_agreed,
    count_columns,
    count_null,
    count_rows,
    multiply,
    shares,
)

Tables = dict[str, Tensor]

TAKES = ("links",)


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> Summed | WeighedSum:
    """log Z, and expected counts by another sweep, from weights; and from log-potentials of links, if there are any."""
    return (WeighedSum if "links" in weights else Summed)(Direction.of(dist, weights, value), wanted)


def solve(dist: Any, potentials: Tables, scale: Tensor | None) -> tuple[Tensor, Tables]:
    """log Z and marginals, from potentials: every cell of the grids is one of the table then."""
    found = Summed(Direction.of(dist, {"translation": potentials["links"]}, dist.grid.numbers), frozenset(("links",)))
    return found.log_z, {"links": found.counts(torch.ones(len(dist.grid), dtype=torch.float64))["translation"]}


def pick(dist: Any, potentials: Tables, draw: bool, generator: Generator | None) -> Tensor:  # (cells,)
    """The best links, or a draw, from potentials."""
    where, scores = dist.grid.trellises, potentials["links"].contiguous().numpy()
    words, found = where.words(dist.turned), np.zeros(len(scores), np.int8)
    uniforms = uniform_numbers(draw, int(words[-1]), generator=generator)
    place = (scores, *where.places, dist.turned)
    in_runs(lambda first, last: choose_pass(*place, first, last, uniforms, words, found), where)
    return torch.from_numpy(found)


def within(grid: Any, value: Tensor, size: int, turned: bool) -> bool:
    """Whether every cell that a direction uses is one of a table of this size."""
    rows: Rows = grid.rows
    return bool(cells_within(cells_of(value), rows.starts, rows.null, size, turned))


@dataclass(frozen=True)
class Direction:
    """Log-weights and data of one direction.

    :param table: (C,) translations.
    :param null: (B,) of choosing the null word.
    :param word: (B,) of choosing any other word.
    :param cells: (cells,) int.
    :param more: (cells,) log-potentials that are added, or none.
    """

    table: Array
    null: Array
    word: Array
    cells: Array
    where: Trellises
    turned: bool
    more: Array | None = None

    @staticmethod
    def of(dist: Any, weights: Tables, value: Tensor) -> Direction:
        table, none = weights["translation"], torch.zeros(len(dist.grid), dtype=torch.float64)
        given = (table, weights.get("null", none), weights.get("word", none))
        (logs, null, word), cells = (x.contiguous().numpy() for x in given), cells_of(value)
        more = weights["links"].expand(len(cells)).contiguous().numpy() if "links" in weights else None
        return Direction(logs, null, word, cells, dist.grid.trellises, dist.turned, more)

    def apart(self) -> Direction:
        """The same with every cell of the grids being one of the table, whose weight takes in what is added."""
        assert self.more is not None
        table = cell_logs(self.table, self.more, self.cells, self.where.rows, self.turned)
        return Direction(table, self.null, self.word, np.arange(len(table), dtype=np.int32), self.where, self.turned)

    def sweep(self) -> tuple[Real, Totals]:
        """Weights in real space, and totals. log Z is right throughout."""
        real = Real.of(self.table, self.null, self.word)
        found = totals(real, self.cells, self.where.rows, self.turned)
        again = np.flatnonzero(found.trouble)
        if len(again):
            self._in_logs(again, False, found.log_z, np.empty(0))
        return real, found

    def posterior(self, pairs: Array) -> Array:  # (n,) -> (cells,)
        """The probability of each choice in some of the pairs, found in logs; 0 elsewhere."""
        found = np.zeros(len(self.cells))
        self._in_logs(pairs, True, np.empty(len(self.null)), found)
        return found

    def _in_logs(self, pairs: Array, want: bool, log_z: Array, posterior: Array) -> None:
        null, word = self.null.astype(np.float64), self.word.astype(np.float64)
        place = (self.table, self.cells, *self.where.places, self.turned)
        log_pass(*place, null, word, pairs, want, log_z, posterior)

    def null_cells(self) -> tuple[Array, Array]:  # (words that choose,), (words that choose,)
        """The cell of the null word for each word, in the order of totals; and its pair."""
        rows = self.where.rows
        if self.turned:
            return rows.words.at - 1, rows.words.pair
        pair = np.repeat(np.arange(len(self.null)), self.where.widths)
        return np.arange(len(pair)) + (rows.null_at - rows.targets[:-1])[pair], pair


class Summed:
    """log Z by one sweep. Counts are another one, if they are asked for."""

    def __init__(self, direction: Direction, wanted: frozenset[str]) -> None:
        self._direction, self._by_pair = direction, bool(wanted & {"null", "word"})
        self._real, self._found = direction.sweep()
        self.log_z = torch.from_numpy(self._found.log_z)

    def counts(self, scale: Tensor) -> Tables:  # (B,)
        """Expected uses of each weight. Those of single pairs are computed only on request."""
        one, real, found = self._direction, self._real, self._found
        rows, weigh = one.where.rows, np.where(found.log_z > -np.inf, scale.numpy(), 0.0)
        table, hard = table_counts(real, one.cells, rows, one.turned, found, weigh), found.trouble
        more = np.empty(0)
        if hard.any():
            more = one.posterior(np.flatnonzero(hard))
            add_up(more, np.where(hard, weigh, 0.0), one.cells, rows, one.turned, table)
        counts = {"translation": torch.from_numpy(table)}
        if self._by_pair:
            null = weigh * _null_counts(one, real, found, more)
            counts["null"] = torch.from_numpy(null)
            counts["word"] = torch.from_numpy(one.where.choosers(one.turned) * weigh - null)
        return counts


class WeighedSum:
    """The same with something added to the potentials of links."""

    def __init__(self, direction: Direction, wanted: frozenset[str]) -> None:
        self._direction, self._apart = direction, Summed(direction.apart(), wanted)
        self.log_z = self._apart.log_z

    def counts(self, scale: Tensor) -> Tables:  # (B,)
        one, found = self._direction, self._apart.counts(scale)
        links, table = found.pop("translation"), zeros(len(one.table))
        add_up(links.numpy(), np.ones(len(one.null)), one.cells, one.where.rows, one.turned, table)
        return {**found, "translation": torch.from_numpy(table), "links": links}


def _null_counts(one: Direction, real: Real, found: Totals, hard: Array) -> Array:  # (cells,) -> (B,)
    """How many words of each pair choose the null word."""
    at, pair = one.null_cells()
    with np.errstate(divide="ignore", invalid="ignore"):
        p = real.null[pair] * real.table[one.cells[at]] / found.total
    if len(hard):
        p = np.where(found.trouble[pair], hard[at], p)
    return np.bincount(pair, p, len(one.null))


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
        in_row_shards(lambda s, a, b: add_rows(*mine, a, b, total), rows, words.cuts)
        close_rows(total, words.pair, rows.lengths, real.shift, log_z, least)
        return Totals(total, log_z, least)
    shards, T = len(rows.cuts) - 1, int(rows.targets[-1])
    parts = room(shards * T).reshape(shards, T)  # always as many, so that sums do not depend on threads
    in_row_shards(lambda s, a, b: add_columns(real.table, *where, words.column, a, b, parts[s]), rows, words.cuts)
    total = np.empty(T)
    weigh = (real.table, real.null, real.word, real.shift)
    edge = (cells, rows.null_at, rows.targets)
    in_parts(lambda a, b: close_columns(parts, *weigh, *edge, a, b, total, log_z, least), B, T)
    return Totals(total, log_z, least)


def table_counts(
    real: Real,
    cells: Array,
    rows: Rows,
    turned: bool,
    found: Totals,
    scale: Array,  # (B,)
) -> Array:  # (C,)
    """How often each cell of the table is expected to be used, each pair weighed by its scale."""
    result, words = zeros(len(real.table)), rows.words
    scale = np.where(found.trouble, 0.0, scale)
    null, word = real.null * scale, real.word * scale
    where = (cells, words.at, words.size)
    if turned:
        mine = (found.total, null, word, *where, words.pair)
        in_row_shards(lambda s, a, b: count_rows(*mine, a, b, result), rows, words.cuts)
    else:
        share = word_shares(found, word, rows)
        in_row_shards(lambda s, a, b: count_columns(share, *where, words.column, a, b, result), rows, words.cuts)
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
    share = word_shares(found[0], one.word * scale, rows)
    weigh = (share, found[1].total, other.null * scale, other.word, shared)
    where = (cells, words.at, words.size, words.column, words.pair)
    in_row_shards(lambda s, a, b: count_agreed(*weigh, *where, a, b, result, rest), rows, words.cuts)
    count_null(found[0].total, one.null * scale, cells, rows.null_at, rows.targets, result)
    in_parts(lambda a, b: multiply(result, one.table, a, b), len(result))
    in_parts(lambda a, b: multiply(result, other.table, a, b), shared)
    turned[:shared] = result[:shared]
    turned[shared:] = rest * other.table[shared:]
    return result, turned


def word_shares(found: Totals, unit: Array, rows: Rows) -> Array:  # (B,) -> (target words,)
    share = np.empty_like(found.total)
    in_parts(
        lambda a, b: shares(found.total, unit, rows.targets, a, b, share), len(unit), len(share) // NUMBERS_A_TOKEN
    )
    return share
