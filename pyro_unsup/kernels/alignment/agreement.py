"""Both directions of word alignment on CPU: log Z of the two, and counts of links as often as both expect them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...array import Array
from .cells import count_agreed
from .model1 import Direction, Summed, agreed_counts
from .rows import Rows, in_row_shards

Tables = dict[str, Tensor]

TAKES = ("links",)

WAYS = ("forward", "backward")


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> Agreed | WeighedAgreement:
    """log Z of both directions together, and merged counts by another sweep, from weights; and from log-potentials of
    links, (cells, 2), if there are any."""
    ways = (dist.forward, dist.backward)
    one, other = (Direction.of(way, own_weights(weights, k, len(value)), value) for k, way in enumerate(ways))
    return (WeighedAgreement if "links" in weights else Agreed)((one, other), dist.shared, wanted)


def own_weights(weights: Tables, way: int, cells: int) -> Tables:
    """Those of one direction, and what is added to its links."""
    start = f"{WAYS[way]}."
    found = {name.removeprefix(start): w for name, w in weights.items() if name.startswith(start)}
    more = {"links": weights["links"].expand(cells, 2)[:, way]} if "links" in weights else {}
    return {**found, **more}


class Agreed:
    """log Z by a sweep of each direction. Counts are one more, if they are asked for."""

    def __init__(self, both: tuple[Direction, Direction], shared: int, wanted: frozenset[str]) -> None:
        self._both, self._shared = both, shared
        self._by_pair = any(name.endswith((".null", ".word")) for name in wanted)
        (one, first), (other, second) = (way.sweep() for way in both)
        self._reals, self._found = (one, other), (first, second)
        self.log_z = torch.from_numpy(first.log_z + second.log_z)

    def counts(self, scale: Tensor) -> Tables:  # (B,)
        both, found = self._both, self._found
        weigh = np.where(self.log_z.numpy() > -np.inf, scale.numpy(), 0.0)
        rows, cells, hard = both[0].where.rows, both[0].cells, found[0].small | found[1].small
        tables = agreed_counts(self._reals, cells, rows, self._shared, found, np.where(hard, 0.0, weigh))
        if hard.any():
            p = [one.posterior(np.flatnonzero(hard)) for one in both]
            sizes = (len(tables[0]), len(tables[1]))
            more = merged_counts((p[0], p[1]), cells, rows, self._shared, np.where(hard, weigh, 0.0), sizes)
            tables = (tables[0] + more[0], tables[1] + more[1])
        counts = {f"{way}.translation": torch.from_numpy(x) for way, x in zip(WAYS, tables, strict=True)}
        if not self._by_pair:
            return counts
        forward, backward = (one.posterior(np.arange(len(weigh))) for one in both)
        return {**counts, **_by_pair(forward, backward, rows, weigh)}


class WeighedAgreement:
    """The same with something added to the potentials of links: then every cell has an expectation of its own."""

    def __init__(self, both: tuple[Direction, Direction], shared: int, wanted: frozenset[str]) -> None:
        self._both, self._shared, self._links = both, shared, "links" in wanted
        self._by_pair = any(name.endswith((".null", ".word")) for name in wanted)
        self._each = [Summed(one.apart(), frozenset()) for one in both]
        self.log_z = self._each[0].log_z + self._each[1].log_z

    def counts(self, scale: Tensor) -> Tables:  # (B,)
        one, other = self._both
        weigh = np.where(self.log_z.numpy() > -np.inf, scale.numpy(), 0.0)
        forward, backward = (each.counts(torch.ones_like(self.log_z))["translation"].numpy() for each in self._each)
        sizes, rows = (len(one.table), len(other.table)), one.where.rows
        tables = merged_counts((forward, backward), one.cells, rows, self._shared, weigh, sizes)
        counts = {f"{way}.translation": torch.from_numpy(x) for way, x in zip(WAYS, tables, strict=True)}
        if self._by_pair:
            counts |= _by_pair(forward, backward, rows, weigh)
        return {**counts, "links": merged_links(forward, backward, rows, weigh)} if self._links else counts


def merged_links(forward: Array, backward: Array, rows: Rows, scale: Array) -> Tensor:  # (cells, 2)
    """How often each link counts, forward and backward."""
    links, owner = _inner(rows)
    each = [np.where(links, forward * backward, p) * scale[owner] for p in (forward, backward)]
    return torch.from_numpy(np.stack(each, -1))


def _by_pair(forward: Array, backward: Array, rows: Rows, scale: Array) -> Tables:  # (cells,), (cells,)
    """Counts of the weights of a pair, which may be learnt but seldom are."""
    (links, owner), B = _inner(rows), len(scale)
    # Along the edges there are the null words, of one direction each: the other has a probability of 0 there.
    word = torch.from_numpy(scale * np.bincount(owner[links], (forward * backward)[links], B))
    found = {}
    for way, p in zip(WAYS, (forward, backward), strict=True):
        found[f"{way}.null"] = torch.from_numpy(scale * np.bincount(owner[~links], p[~links], B))
        found[f"{way}.word"] = word
    return found


def _inner(rows: Rows) -> tuple[Array, Array]:  # (cells,) bool, (cells,)
    """The cells of two words, and the pair of every cell."""
    sizes = np.diff(rows.starts)
    links = ~np.repeat(rows.null, sizes)
    links[rows.starts[:-1]] = False
    return links, np.repeat(rows.pair, sizes)


def merged_counts(
    posteriors: tuple[Array, Array],  # (cells,) each
    cells: Array,
    rows: Rows,
    shared: int,
    scale: Array,  # (B,)
    sizes: tuple[int, int],
) -> tuple[Array, Array]:  # (C,), (C',)
    """Counts of both tables, a link counting as often as both expect it; null words as in either direction.

    :param shared: how many cells, the first ones, stand for the same pair of words in both tables.
    """
    result, rest = np.zeros(sizes[0]), np.zeros(sizes[1] - shared)
    where = (cells, rows.starts, rows.pair, rows.null, shared)
    in_row_shards(lambda s, a, b: count_agreed(*posteriors, scale, *where, a, b, result, rest), rows, rows.cuts)
    return result, np.concatenate([result[:shared], rest])
