"""Headed binary trees on CPU: log Z and posteriors in one pass over a flat ragged corpus, counts, and decoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numba import njit
from torch import Tensor

from .bracketing import BracketingTables
from .dependency import DependencyTables
from .dependency_scaled import count
from .headed_bracketing_log import decode_pass, log_pass
from .headed_bracketing_scaled import scaled_pass
from .limits import LIMIT
from .threads import even_cuts, map_threads, threads_for

Array = np.ndarray[Any, Any]
_Result = TypeVar("_Result")


@dataclass
class HeadedData:
    """Sentences, and the order in which heads take their children.

    :param tags: (tokens,) int64.
    :param spans: (spans, 2) yield and context of each span.
    :param lengths: (B,) int64.
    :param left_first: heads take the children on their left first.
    """

    tags: Array
    spans: Array
    lengths: Array
    left_first: bool

    def arrays(self) -> tuple[Any, ...]:
        """As the passes want them: with the first word, cell of arcs and span of each sentence."""
        n = self.lengths
        return self.tags, self.spans, _offsets(n), _offsets(n * (n + 1)), _offsets(n * (n + 1) // 2), self.left_first


@dataclass
class HeadedSums:
    """What a pass finds, all float64. Posteriors are 0 where a sentence has no tree at all, and empty if not wanted.

    :param log_z: (B,).
    :param arcs: (cells,) posterior of each arc.
    :param decisions: (tokens, 2, 2, 2) how often each word is expected to decide so.
    :param spans: (spans,) posterior of each span.
    """

    log_z: Tensor
    arcs: Tensor
    decisions: Tensor
    spans: Tensor


def headed_pass(
    dependency: DependencyTables, bracketing: BracketingTables, data: HeadedData, want_posteriors: bool = True
) -> HeadedSums:
    """log Z of each sentence, and the posteriors of its arcs, decisions and spans."""
    (root, attach, stop, extra), tables = dependency.arrays(), bracketing.arrays()
    where, B = data.arrays(), len(data.lengths)
    log_z, trouble = np.zeros(B), np.zeros(B, bool)
    sizes = (len(data.tags), where[3][-1], len(data.spans)) if want_posteriors else (0, 0, 0)
    found = np.empty(sizes[1]), np.empty((sizes[0], 2, 2, 2)), np.empty(sizes[2])
    best = stop.max(2)  # (K, 2, 2) by head, direction, decision
    ends = np.exp(stop - np.where(best > -np.inf, best, 0.0)[:, :, None])
    scaled = root, attach + best[:, :, 1, None], ends, best[:, :, 0].sum(1), extra, *tables, *where
    limit = LIMIT[np.dtype(np.float64)]
    _in_shards(lambda a, b: scaled_pass(*scaled, a, b, limit, log_z, trouble, *found), data.lengths)
    again = np.flatnonzero(trouble)
    if len(again):
        log_pass(root, attach, stop, extra, *tables, *where, again, log_z, *found)
    return HeadedSums(*(torch.from_numpy(x) for x in (log_z, *found)))


def dependency_counts(
    like: DependencyTables, data: HeadedData, sums: HeadedSums, scale: Array
) -> DependencyTables:  # scale: (B,)
    """How often each weight of the dependencies is expected to be used, each sentence weighed by its scale."""
    tags, _, offsets, corners, *_ = data.arrays()
    given = tags, offsets, corners, scale, sums.arcs.numpy(), sums.decisions.numpy()

    def work(first: int, last: int) -> list[Array]:
        counts = [np.zeros(x.shape) for x in (like.root, like.attach, like.stop)]
        _count_pass(*given, first, last, *counts)
        return counts

    counts, *others = _in_shards(work, data.lengths)
    for more in others:  # always in the same order
        for into, one in zip(counts, more, strict=True):
            into += one
    arcs = sums.arcs * torch.from_numpy(np.repeat(scale, data.lengths * (data.lengths + 1)))
    return DependencyTables(*(x.to(like.root.dtype) for x in (*map(torch.from_numpy, counts), arcs)))


def headed_decode(
    dependency: DependencyTables,
    bracketing: BracketingTables,
    data: HeadedData,
    uniforms: Array | None = None,  # (tokens, 2) float64 in [0, 1)
) -> Tensor:  # (tokens,)
    """The heads of the best tree of each sentence, or of one drawn by uniform numbers; -1 where there is no tree."""
    heads = np.empty(len(data.tags), np.int64)
    given = np.empty((0, 2)) if uniforms is None else uniforms
    tables = *dependency.arrays(), *bracketing.arrays(), *data.arrays()
    _in_shards(lambda a, b: decode_pass(*tables, a, b, given, heads), data.lengths)
    return torch.from_numpy(heads)


def brackets_of_heads(heads: Array, lengths: Array, left_first: bool) -> Tensor:  # (tokens,), (B,) -> (spans,)
    """The spans of the binary trees that go with heads: 1 in the tree, 0 not in it; -1 where heads are."""
    found = np.zeros(int((lengths * (lengths + 1) // 2).sum()), np.int64)
    _brackets(heads, _offsets(lengths), _offsets(lengths * (lengths + 1) // 2), left_first, found)
    return torch.from_numpy(found)


@njit(cache=True, nogil=True)
def _brackets(heads: Array, offsets: Array, edges: Array, left_first: bool, found: Array) -> None:
    for b in range(len(offsets) - 1):
        mine, n = heads[offsets[b] : offsets[b + 1]], offsets[b + 1] - offsets[b]
        here = found[edges[b] : edges[b + 1]]
        if n > 0 and mine.min() < 0:
            here[:] = -1
            continue
        start, end = np.arange(n), np.arange(n) + 1  # of the span of a word with all below it
        for c in range(n):
            h = mine[c]
            while h > 0:
                start[h - 1], end[h - 1] = min(start[h - 1], c), max(end[h - 1], c + 1)
                h = mine[h - 1]
        for c in range(n):
            here[c] = 1
            h = mine[c] - 1
            if h < 0:
                continue
            # The child goes to a head that has all of the other side already, or nothing of it yet.
            if left_first:
                i, j = (start[c], h + 1) if c < h else (start[h], end[c])
            else:
                i, j = (h, end[c]) if c > h else (start[c], end[h])
            w = j - i
            here[(w - 1) * n - (w - 1) * (w - 2) // 2 + i] = 1


@njit(cache=True, nogil=True)
def _count_pass(
    tags: Array,  # (tokens,)
    offsets: Array,  # (B + 1,) of the tokens
    corners: Array,  # (B + 1,) of the cells
    scale: Array,  # (B,)
    arcs: Array,  # (cells,)
    decisions: Array,  # (tokens, 2, 2, 2)
    first: int,  # which sentences
    last: int,
    n_root: Array,  # (K,) added to
    n_attach: Array,  # (K, 2, K) added to
    n_stop: Array,  # (K, 2, 2, 2) added to
) -> None:
    none, nothing = np.empty(0), np.empty((0, 2, 2, 2))
    for b in range(first, last):
        at, end = offsets[b], offsets[b + 1]
        arc = arcs[corners[b] : corners[b + 1]].reshape(end - at, end - at + 1)
        count(tags[at:end], 0, 0, scale[b], arc, decisions[at:end], n_root, n_attach, n_stop, none, nothing)


def _offsets(sizes: Array) -> Array:  # (B,) -> (B + 1,)
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _in_shards(work: Callable[[int, int], _Result], lengths: Array) -> list[_Result]:
    """Run a pass over ranges of the sentences, one thread each."""
    cost = lengths * lengths * (lengths * lengths + 50) if len(lengths) else np.zeros(1, np.int64)
    cuts = np.minimum(even_cuts(cost, min(threads_for(int(lengths.sum())), len(cost))), len(lengths))
    return map_threads(lambda shard: work(cuts[shard], cuts[shard + 1]), range(len(cuts) - 1))
