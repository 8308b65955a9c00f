"""Segmentations on CPU: log Z and expected counts in one pass over a flat ragged corpus, and decoding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .limits import LIMIT
from .segmentation_log import decode_pass, log_pass, score_pass
from .segmentation_scaled import scaled_pass
from .threads import even_cuts, map_threads, threads_for

Array = np.ndarray[Any, Any]

#: So many symbols take the time of one token of a chain, by which :func:`.threads_for` counts.
SYMBOLS_A_TOKEN = 16

_Result = TypeVar("_Result")


@dataclass
class SegmentationTables:
    """Log-weights, or counts laid out in the same way.

    :param segments: (S,) of each type of segment.
    :param length: (L + 1,) of a segment of w symbols, by w.
    :param stop: (2,) of going on with another segment, and of stopping.
    """

    segments: Tensor
    length: Tensor
    stop: Tensor

    def logs(self) -> tuple[Array, Array, float]:
        """As the passes want them: float64, one more type that is impossible, and going on as part of every length."""
        go, stop = self.stop.double().tolist()
        segments = np.append(self.segments.double().numpy(), -np.inf)
        return segments, self.length.double().numpy() + go, stop


def segmentation_pass(
    weights: SegmentationTables,
    cells: Array,  # (symbols, L) int32
    offsets: Array,  # (B + 1,) int64
    scale: Array | None = None,  # (B,) how much the counts of each sentence weigh; 1 if not given
    want_counts: bool = True,
) -> tuple[Tensor, SegmentationTables | None]:
    """log Z of each sentence, (B,), and how often each weight is expected to be used."""
    segments, length, stop = weights.logs()
    size = len(offsets) - 1
    weigh = np.empty(0) if not want_counts else np.ones(size) if scale is None else scale
    log_z, trouble = np.zeros(size), np.zeros(size, bool)
    with np.errstate(over="ignore"):  # which the passes notice
        real = np.exp(segments), np.exp(length)
    limit = LIMIT[np.dtype(np.float64)]

    def work(first: int, last: int) -> list[Array]:
        counts = [np.zeros(len(segments)), np.zeros(len(length)), np.zeros(2)]
        scaled_pass(*real, stop, cells, offsets, first, last, limit, weigh, log_z, trouble, *counts)
        return counts

    counts, *others = _in_shards(work, offsets)
    for more in others:  # always in the same order
        for into, one in zip(counts, more, strict=True):
            into += one
    again = np.flatnonzero(trouble)
    if len(again):
        log_pass(segments, length, stop, cells, offsets, again, weigh, log_z, *counts)
    if not want_counts:
        return torch.from_numpy(log_z), None
    found = [torch.from_numpy(x).to(weights.segments.dtype) for x in (counts[0][:-1], *counts[1:])]
    return torch.from_numpy(log_z), SegmentationTables(*found)


def segmentation_scores(weights: SegmentationTables, cells: Array, offsets: Array) -> Array:  # (symbols, L)
    """The log-weight of every segment, by its end and its length, going on included."""
    segments, length, _ = weights.logs()
    score = np.empty(cells.shape)
    score_pass(segments, length, cells, offsets, score)
    return score


def segmentation_decode(score: Array, offsets: Array, uniforms: Array | None = None) -> Tensor:  # (symbols,)
    """Where segments end in the segmentation with the highest score, or in one drawn by uniform numbers.

    :param score: (symbols, L) what each segment adds; -inf for what cannot be one.
    :param uniforms: (symbols,) float64 in [0, 1): draw in proportion to exp(score).
    """
    structure = np.empty(len(score), np.int64)
    decode_pass(score, offsets, np.empty(0) if uniforms is None else uniforms, structure)
    return torch.from_numpy(structure)


def _in_shards(work: Callable[[int, int], _Result], offsets: Array) -> list[_Result]:
    """Run a pass over ranges of the sentences, one thread each."""
    symbols = np.diff(offsets) if len(offsets) > 1 else np.zeros(1, np.int64)
    shards = min(threads_for(int(offsets[-1]) // SYMBOLS_A_TOKEN), len(symbols))
    cuts = np.minimum(even_cuts(symbols, shards), len(offsets) - 1)
    return map_threads(lambda shard: work(cuts[shard], cuts[shard + 1]), range(len(cuts) - 1))
