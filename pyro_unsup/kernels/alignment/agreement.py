"""Both directions of word alignment on CPU: log Z of the two, and counts of links as often as both expect them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .cells import count_agreed
from .model1 import Direction, agreed_counts
from .rows import Rows, in_row_shards

Array = np.ndarray[Any, Any]
Tables = dict[str, Tensor]

#: Added potentials are not taken beside the weights.
TAKES: tuple[str, ...] = ()

WAYS = ("forward", "backward")


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> Agreed:
    """log Z of both directions together; and merged counts by another sweep, from weights."""
    ways = (dist.forward, dist.backward)
    both = [Direction.of(one, own_weights(weights, k), value) for k, one in enumerate(ways)]
    return Agreed((both[0], both[1]), dist.shared, wanted)


def own_weights(weights: Tables, way: int) -> Tables:
    """Those of one direction."""
    start = f"{WAYS[way]}."
    return {name.removeprefix(start): w for name, w in weights.items() if name.startswith(start)}


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
        return {**counts, **self._counts_by_pair(weigh)} if self._by_pair else counts

    def _counts_by_pair(self, scale: Array) -> Tables:
        """Of the weights of a pair, which may be learnt but seldom are."""
        rows, B = self._both[0].where.rows, len(scale)
        forward, backward = (one.posterior(np.arange(B)) for one in self._both)
        sizes = np.diff(rows.starts)
        owner, null = np.repeat(rows.pair, sizes), np.repeat(rows.null, sizes)
        links = ~null
        links[rows.starts[:-1]] = False
        # Along the edges there are the null words, of one direction each: the other has a probability of 0 there.
        word = scale * np.bincount(owner[links], (forward * backward)[links], B)
        alone = [scale * np.bincount(owner[~links], p[~links], B) for p in (forward, backward)]
        found = {
            f"{way}.{name}": x for way, n in zip(WAYS, alone, strict=True) for name, x in (("null", n), ("word", word))
        }
        return {name: torch.from_numpy(x) for name, x in found.items()}


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
