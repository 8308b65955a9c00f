"""Dependency trees on CPU: log Z and expected counts in one pass over a flat ragged corpus, and decoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numba import njit
from torch import Tensor

from .dependency_log import decode_pass, log_pass
from .dependency_scaled import scaled_pass
from .limits import LIMIT
from .threads import even_cuts, map_threads, threads_for

Array = np.ndarray[Any, Any]
_Result = TypeVar("_Result")

#: Steps of the recursion that take the time of one token of a chain, by which :func:`.threads_for` counts.
STEPS_A_TOKEN = 100


@dataclass
class DependencyTables:
    """Log-weights, or counts laid out in the same way.

    :param root: (K,).
    :param attach: (K, 2, K) axes (head, direction, child).
    :param stop: (K, 2, 2, 2) axes (head, direction, adjacency, decision).
    :param arcs: (cells,) of each arc, or empty. As counts, the posteriors of arcs if they were wanted.
    """

    root: Tensor
    attach: Tensor
    stop: Tensor
    arcs: Tensor

    def arrays(self) -> list[Array]:
        """As the passes want them: float64."""
        return [x.double().contiguous().numpy() for x in (self.root, self.attach, self.stop, self.arcs)]


@dataclass
class DependencySums:
    """What a pass finds.

    :param log_z: (B,) float64.
    :param counts: how often each weight is expected to be used, each sentence weighed by its scale.
    :param decisions: (tokens, 2, 2, 2) float64, how often each word is expected to decide so; empty if not wanted.
    """

    log_z: Tensor
    counts: DependencyTables
    decisions: Tensor


def dependency_pass(
    weights: DependencyTables,
    tags: Array,  # (tokens,) int64
    lengths: Array,  # (B,) int64
    scale: Array | None = None,  # (B,) how much the counts of each sentence weigh; 1 if not given
    want_counts: bool = True,
    want_parts: bool = False,
) -> DependencySums:
    """log Z of each sentence, expected counts, and (``want_parts``) the posteriors of arcs and decisions."""
    root, attach, stop, arcs = weights.arrays()
    offsets, corners = _offsets(lengths), _offsets(lengths * (lengths + 1))
    weigh = np.empty(0) if not want_counts else np.ones(len(lengths)) if scale is None else scale
    log_z, trouble = np.zeros(len(lengths)), np.zeros(len(lengths), bool)
    marginals = np.empty(corners[-1] if want_parts else 0)
    decisions = np.empty((len(tags) if want_parts else 0, 2, 2, 2))
    best = stop.max(2)  # (K, 2, 2) by head, direction, decision
    ends = np.exp(stop - np.where(best > -np.inf, best, 0.0)[:, :, None])
    onward = attach + best[:, :, 1, None]
    limit = LIMIT[np.dtype(np.float64)]
    where = (arcs, tags, offsets, corners)

    def work(first: int, last: int) -> list[Array]:
        counts = [np.zeros_like(x) for x in (root, attach, stop)]
        scaled_pass(
            *(root, onward, ends, best[:, :, 0].sum(1)),
            *where,
            *(first, last, limit, weigh, log_z, trouble),
            *counts,
            marginals,
            decisions,
        )
        return counts

    counts, *others = _in_shards(work, lengths)
    for more in others:  # always in the same order
        for into, one in zip(counts, more, strict=True):
            into += one
    again = np.flatnonzero(trouble)
    if len(again):
        log_pass(root, attach, stop, *where, again, weigh, log_z, *counts, marginals, decisions)
    found = [torch.from_numpy(x).to(weights.root.dtype) for x in counts]
    return DependencySums(
        torch.from_numpy(log_z),
        DependencyTables(found[0], found[1], found[2], torch.from_numpy(marginals)),
        torch.from_numpy(decisions),
    )


def dependency_decode(
    weights: DependencyTables,
    tags: Array,  # (tokens,) int64
    lengths: Array,  # (B,) int64
    uniforms: Array | None = None,  # (tokens, 2) float64 in [0, 1)
) -> Tensor:  # (tokens,)
    """The heads of the best tree of each sentence, or of one drawn by uniform numbers; -1 where there is no tree."""
    heads = np.empty(len(tags), np.int64)
    tables, where = weights.arrays(), (_offsets(lengths), _offsets(lengths * (lengths + 1)))
    given = np.empty((0, 2)) if uniforms is None else uniforms
    _in_shards(lambda a, b: decode_pass(*tables, tags, *where, a, b, given, heads), lengths)
    return torch.from_numpy(heads)


def first_bad_tree(heads: Array, lengths: Array) -> int:  # (tokens,), (B,) int64
    """The first sentence whose heads are no projective tree with one root; -1 if all are."""
    return int(_first_bad(heads, _offsets(lengths)))


@njit(cache=True, nogil=True)
def _first_bad(heads: Array, offsets: Array) -> int:
    for b in range(len(offsets) - 1):
        mine = heads[offsets[b] : offsets[b + 1]]
        n, roots = len(mine), 0
        for c in range(n):
            if mine[c] < 0 or mine[c] > n or mine[c] == c + 1:
                return b
            roots += mine[c] == 0
        if n > 0 and roots != 1:
            return b
        for c in range(n):
            # No arc crosses another (the root lies before all words): such heads without a cycle are projective.
            low, high = min(c + 1, mine[c]), max(c + 1, mine[c])
            for k in range(low, high - 1):
                if mine[k] < low or mine[k] > high:
                    return b
            h, steps = mine[c], 0
            while h > 0:
                h = mine[h - 1]
                steps += 1
                if steps > n:
                    return b
    return -1


def _offsets(sizes: Array) -> Array:  # (B,) -> (B + 1,)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _in_shards(work: Callable[[int, int], _Result], lengths: Array) -> list[_Result]:
    """Run a pass over ranges of the sentences, one thread each."""
    # A sentence takes about as long as its pairs of words and what lies between them are many.
    cost = lengths * lengths * (lengths + 10) if len(lengths) else np.zeros(1, np.int64)
    shards = min(threads_for(int(cost.sum()) // STEPS_A_TOKEN), len(cost))
    cuts = np.minimum(even_cuts(cost, shards), len(lengths))
    return map_threads(lambda shard: work(cuts[shard], cuts[shard + 1]), range(len(cuts) - 1))
