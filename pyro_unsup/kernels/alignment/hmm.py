"""Word alignment with jumps, on CPU: log Z, the posterior of every link, and counts, over grids of words that lie flat.

The table of translations is large, and used row by row in the order of the vocabulary: weights are gathered from it and
counts added to it in that order (:mod:`.rows`), on threads that share no cell. In between, the weights of each pair of
sentences are turned into posteriors in place, pair by pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from ...array import Array
from ..limits import LEAST, LIMIT, keep_possible, kept_exp, tiny
from ..plumbing import OnePass, offsets, uniform_numbers
from ..room import room as memory
from .cells import cells_of, gather
from .hmm_decode import best_pass, best_pass_by_way, draw_pass, draw_pass_by_way
from .hmm_pass import log_pass, log_pass_by_way, scaled_pass, scaled_pass_by_way
from .rows import Trellises, add_up, cell_logs, in_row_shards, in_runs

Tables = dict[str, Tensor]

TAKES = ("links",)


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> OnePass:
    """log Z and expected counts, from weights; and from log-potentials of links, if there are any."""
    logs, own = weighed(dist, weights, value)
    cells, where, size = cells_of(value), dist.grid.trellises, len(weights["translation"])

    def run(scale: Array | None, want: bool) -> tuple[Tensor, Tables]:
        found = sweep(logs, own, where, dist.turned, want, scale)
        log_z = torch.from_numpy(found.log_z)
        if not want:
            return log_z, {}
        weigh, table = possible(found.log_z, scale), np.zeros(size)
        add_up(found.posterior, weigh, cells, where.rows, dist.turned, table)
        counts = {"translation": torch.from_numpy(table), **other_counts(found, where, dist.turned, weigh)}
        if "links" in wanted:
            counts["links"] = torch.from_numpy(found.posterior * weigh[dist.grid.owner.numpy()])
        return log_z, counts

    return OnePass(run, bool(wanted))


def decode(
    dist: Any, weights: Tables, value: Tensor, draw: bool, generator: Generator | None
) -> Tensor:  # (cells,) int8
    """The best links, or a draw, from weights."""
    return _links(dist, *weighed(dist, weights, value), draw, generator)


def weighed(dist: Any, weights: Tables, value: Tensor) -> tuple[HMMWeights, Array]:
    """Weights and cells; if potentials of links are added, every cell of the grids is one of the table."""
    logs, cells = HMMWeights.of(dist, weights), cells_of(value)
    if "links" not in weights:
        return logs, cells
    more = weights["links"].expand(len(cells)).contiguous().numpy()
    table = cell_logs(logs.table, more, cells, dist.grid.rows, dist.turned)
    return replace(logs, table=table), dist.grid.numbers.numpy()


def solve(dist: Any, potentials: Tables, scale: Tensor | None) -> tuple[Tensor, Tables]:
    """log Z and marginals, from potentials: every cell of the grids is one of the table then."""
    weigh = None if scale is None else scale.contiguous().numpy()
    found = sweep(
        _own_cells(dist, potentials), dist.grid.numbers.numpy(), dist.grid.trellises, dist.turned, True, weigh
    )
    marginals = {"links": found.posterior, "jump": found.jump, "room": found.room, "share": found.share}
    return torch.from_numpy(found.log_z), {name: torch.from_numpy(x) for name, x in marginals.items()}


def pick(dist: Any, potentials: Tables, draw: bool, generator: Generator | None) -> Tensor:  # (cells,) int8
    """The best links, or a draw, from potentials."""
    return _links(dist, _own_cells(dist, potentials), dist.grid.numbers.numpy(), draw, generator)


def _own_cells(dist: Any, potentials: Tables) -> HMMWeights:
    rest = {name: x for name, x in potentials.items() if name != "links"}
    return HMMWeights.of(dist, {"translation": potentials["links"], **rest})


def _links(dist: Any, weights: HMMWeights, cells: Array, draw: bool, generator: Generator | None) -> Tensor:
    """1 for what is chosen, 0 elsewhere; -1 throughout a pair that has no links at all."""
    where: Trellises = dist.grid.trellises
    words, logs = where.words(dist.turned), weights.logs()
    found = np.zeros(len(cells), np.int8)
    # One number for each pair, then for each word that chooses.
    uniforms = uniform_numbers(draw, len(where.widths) + int(words[-1]), generator=generator)
    own = (dist.turned, *weights.jumpers)
    place = (logs[0], cells, *where.places, *own, *logs[1:])
    if weights.directions == 1:
        run = draw_pass if draw else best_pass
    else:
        run = draw_pass_by_way if draw else best_pass_by_way
    in_runs(lambda first, last: run(*place, np.arange(first, last), uniforms, words, found), where)
    return torch.from_numpy(found)


def possible(log_z: Array, scale: Array | None) -> Array:  # (B,)
    """How much each pair counts."""
    return np.where(log_z > -np.inf, 1.0 if scale is None else scale, 0.0)


def other_counts(found: Swept, where: Trellises, turned: bool, scale: Array) -> Tables:
    """The same of all weights but the table."""
    null = found.null * scale
    counts = {"null": null, "word": where.choosers(turned) * scale - null}
    counts |= {"jump": found.jump, "room": found.room, "share": found.share}
    return {name: torch.from_numpy(x) for name, x in counts.items()}


@dataclass(frozen=True)
class HMMWeights:
    """Log-weights of one direction, all of one floating dtype.

    :param table: (C,) translations.
    :param null: (B,) of no link.
    :param word: (B,) of a link.
    :param jump: (kinds, 2 W + 1).
    :param room: (rooms,).
    :param share: (most,) by how many places share a weight.
    :param jumpers: the classes of words that may be chosen; where those of each pair begin.
    :param directions: how many directions of the jump before are told apart.
    """

    table: Array
    null: Array
    word: Array
    jump: Array
    room: Array
    share: Array
    jumpers: tuple[Array, Array]
    directions: int

    @staticmethod
    def of(dist: Any, tables: Tables) -> HMMWeights:
        """From tables by name; what is not there weighs 1."""
        by_pair = torch.zeros(len(dist.grid), dtype=torch.float64)
        W, inner = (tables["jump"].shape[-1] - 1) // 2, tables["jump"].shape[-2] - 2
        size = inner * (W + 1) ** 2 + 2 * W
        none = {"null": by_pair, "word": by_pair, "room": torch.zeros(size, dtype=torch.float64)}
        names = ("translation", "null", "word", "jump", "room", "share")
        sizes = dist.grid.chosen(dist.turned).numpy()
        first = offsets(sizes)
        classes = np.zeros(first[-1], np.int64) if dist.classes is None else dist.classes.long().contiguous().numpy()
        given = {x: (tables[x] if x in tables else none[x]).contiguous().numpy() for x in names}
        given["table"] = given.pop("translation")
        return HMMWeights(**given, jumpers=(classes, first[:-1]), directions=dist.directions)

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
        W, inner = (self.jump.shape[1] - 1) // 2, len(self.jump) - 2
        ends = inner * (W + 1) ** 2 + W  # where the room at the end of a sentence begins
        _, null, word, jump, room, share = self.logs()
        top = [_top(jump[:-1]), _top(jump[-1:])]
        top_room, top_share = [_top(room[:ends]), _top(room[ends:])], _top(share)
        # Not every word jumps: what was divided out of a jump goes to the weight of a link.
        word = word + top[0] + top_room[0] + top_share
        base = np.maximum(null, word)
        base[base == -np.inf] = 0.0
        most = _top(self.table)
        table = memory(len(self.table), self.table.dtype)
        np.subtract(self.table, self.table.dtype.type(most), out=table)
        np.exp(table, out=table)
        keep_possible(self.table, table, tiny(table.dtype))
        logs = (
            null - base,
            word - base,
            jump - np.repeat(top, [inner + 1, 1])[:, None],
            room - np.repeat(top_room, [ends, W]),
            share - top_share,
        )
        return table, tuple(kept_exp(x) for x in logs), base + most, top[1] + top_room[1] + top_share


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
    :param jump: (kinds, 2 W + 1) expected jumps, pairs weighed by their scale.
    :param room: (rooms,) likewise.
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
    in_row_shards(lambda s, a, b: gather(table, cells, rows.starts, rows.null, turned, a, b, emit), rows, rows.cuts)
    log_z, trouble, n_null = np.empty(B), np.empty(B, np.bool_), np.empty(B)
    bounds, logs, words = (LIMIT[emit.dtype], LEAST[emit.dtype]), weights.logs(), where.choosers(turned)

    alike = weights.directions == 1
    by_scale, by_logs = (scaled_pass, log_pass) if alike else (scaled_pass_by_way, log_pass_by_way)

    def work(first: int, last: int) -> tuple[Array, ...]:
        found = weights.zeros()
        place = (emit, logs[0], cells, *where.places, turned, *weights.jumpers)
        results = (*bounds, want, scale, log_z, trouble, n_null, *found)
        by_scale(*place, *small, np.arange(first, last), *results)
        some = slice(first, last)
        log_z[some] += words[some] * shift[some] + np.where(words[some] > 0, once, 0.0)
        again = first + np.flatnonzero(trouble[some])
        if len(again):
            by_logs(*place, *logs[1:], again, *results)
        return found

    found = weights.zeros()
    for counts in in_runs(work, where):  # always in the same order
        for into, more in zip(found, counts, strict=True):
            into += more
    return Swept(log_z, emit if want else emit[:0], n_null, *found)
