"""The chain on CPU: log Z and counts in one pass over a flat ragged corpus, choosing the pass that fits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .chain_dense import dense_pass
from .chain_log import decode_pass, log_pass
from .chain_sparse import sparse_pass
from .exp_log import scaled_rows
from .limits import LIMIT
from .parts import in_parts
from .room import room, zeros
from .threads import even_cuts, map_threads, threads_for

Array = np.ndarray[Any, Any]
#: start, trans, stop, emit (V, K), and the logs of what was divided out of its rows (V,)
Tables = tuple[Array, Array, Array, Array, Array]

#: Sequences that advance in step in the dense pass: enough for good matrix products, few enough to stay in cache.
BLOCK = 48
#: Tokens in a block of long sequences, for the same reason.
BLOCK_TOKENS = 16_384
#: The dense pass wins while words allow more than this share of the states.
DENSE_SHARE = 0.4


@dataclass
class ChainTables:
    """Log-weights as the kernels want them, or counts laid out in the same way.

    :param start: (K,).
    :param trans: (1, K, K) first order; (K + 1, K, K) second order, the last block for the pad before the sequence.
    :param stop: (1, K) or (K + 1, K); zeros where there is no stop event.
    :param emit: (K, V), -inf where a state does not allow a word.
    """

    start: Tensor
    trans: Tensor
    stop: Tensor
    emit: Tensor


@dataclass
class _Job:
    """The data of a pass, and what it says of each sequence."""

    words: Array  # (tokens,) int
    offsets: Array  # (B + 1,) int64
    lengths: Array  # (B,)
    scale: Array  # (B,) float64
    want_counts: bool
    log_z: Array  # (B,) out
    trouble: Array  # (B,) out


def chain_pass(
    weights: ChainTables,
    words: Array,  # (tokens,) int
    offsets: Array,  # (B + 1,) int64
    scale: Array | None = None,  # (B,) float64
    want_counts: bool = True,
) -> tuple[Tensor, ChainTables | None]:
    """log Z of each sequence, and the expected counts of all of them (each weighed by ``scale``)."""
    lengths = np.diff(offsets)
    B = len(lengths)
    job = _Job(
        words, offsets, lengths, np.ones(B) if scale is None else scale, want_counts, np.zeros(B), np.zeros(B, bool)
    )

    start, start_top = _scaled(weights.start)
    trans, trans_top = _scaled(weights.trans)
    stop, stop_top = _scaled(weights.stop)
    emit, emit_top, allowed = _scaled_rows(weights.emit.T.numpy())
    tables = (start, trans, stop, emit, emit_top)
    support = _Support(weights.emit) if len(weights.trans) > 1 or _few(allowed, words, len(start)) else None
    counts = _dense(tables, job) if support is None else _sparse(tables, support, job)
    job.log_z += np.where(lengths > 0, start_top + stop_top + (lengths - 1) * trans_top, 0.0)
    counts[1] *= trans  # the passes leave this common factor out

    again = np.flatnonzero(job.trouble)
    if len(again):
        found = support or _Support(weights.emit)
        extra = np.zeros(len(found.states))
        log_pass(
            *_logs(weights),
            *found.logs(weights),
            words,
            offsets,
            again,
            job.scale,
            want_counts,
            job.log_z,
            *counts[:3],
            extra,
        )
        if want_counts:
            counts[3] += extra if support is not None else found.spread(extra)

    log_z = torch.from_numpy(job.log_z)
    if not want_counts:
        return log_z, None
    n_emit = counts[3] if support is None else support.spread(counts[3])  # (V, K)
    found_counts = [torch.from_numpy(n).to(weights.emit.dtype) for n in (*counts[:3], n_emit)]
    return log_z, ChainTables(found_counts[0], found_counts[1], found_counts[2], found_counts[3].T)


def chain_decode(
    weights: ChainTables,
    words: Array,
    offsets: Array,
    uniforms: Array | None = None,  # (tokens,) float64 in [0, 1)
) -> tuple[Tensor, Tensor]:
    """States of every token and the log-weight of each sequence: the best, or a draw if uniform numbers are given."""
    states, log_z = np.empty(len(words), np.int64), np.empty(len(offsets) - 1)
    given = np.empty(0) if uniforms is None else uniforms
    decode_pass(*_logs(weights), *_Support(weights.emit).logs(weights), words, offsets, given, states, log_z)
    return torch.from_numpy(states), torch.from_numpy(log_z)


def _logs(weights: ChainTables) -> list[Array]:
    return [w.double().contiguous().numpy() for w in (weights.start, weights.trans, weights.stop)]


def _scaled(log_weights: Tensor) -> tuple[Array, float]:
    """Real weights with a maximum of 1, and the log of what was divided out."""
    top = float(log_weights.amax())
    top = 0.0 if top == -np.inf else top
    return (log_weights - top).exp().contiguous().numpy(), top


def _scaled_rows(log_weights: Array) -> tuple[Array, Array, Array]:  # (V, K) -> (V, K), (V,), (V,)
    """The same for each row, and how many of its weights are not zero."""
    V, K = log_weights.shape
    rows, top, positive = room(V * K, log_weights.dtype).reshape(V, K), np.empty(V), np.empty(V, np.int64)
    lies = log_weights.flags.c_contiguous

    def work(first: int, last: int) -> None:
        part = slice(first, last)
        if not lies:  # what comes out takes the place of a copy
            rows[part] = log_weights[part]
        scaled_rows(log_weights[part] if lies else rows[part], rows[part], top[part], positive[part])

    in_parts(work, V, V * K)
    return rows, top, positive


def _few(allowed: Array, words: Array, K: int) -> bool:
    """Whether the words allow so few of the states that it pays to go through these only."""
    return bool((allowed < K).any()) and len(words) > 0 and float(allowed[words].mean()) < DENSE_SHARE * K


class _Support:
    """The states each word allows, word after word."""

    def __init__(self, emit: Tensor) -> None:  # (K, V)
        self._mask = (emit > -torch.inf).T  # (V, K)
        self.at = np.concatenate([[0], np.cumsum(self._mask.sum(1).numpy())]).astype(np.int64)  # (V + 1,)
        self.states = self._mask.nonzero()[:, 1].numpy()  # (cells,)

    def pick(self, rows: Array) -> Array:  # (V, K) -> (cells,)
        picked: Array = rows[self._mask.numpy()]
        return picked

    def spread(self, cells: Array) -> Array:  # (cells,) -> (V, K)
        dense = np.zeros(tuple(self._mask.shape))
        dense[self._mask.numpy()] = cells
        return dense

    def logs(self, weights: ChainTables) -> tuple[Array, Array, Array]:
        """What a pass in log space wants to know of the emissions."""
        return self.at, self.states, self.pick(weights.emit.T.double().numpy())


def _dense(tables: Tables, job: _Job) -> list[Array]:
    start, trans, stop, emit, emit_top = tables
    order = np.argsort(-job.lengths, kind="stable")
    blocks = _blocks(job.lengths[order])
    sizes = np.add.reduceat(job.lengths[order], blocks[:-1]) if len(order) else np.zeros(1, np.int64)
    K = len(start)

    def run(first: int, last: int, sums: list[Array]) -> None:
        dense_pass(
            start,
            trans[0],
            np.ascontiguousarray(trans[0].T),
            stop[0],
            emit,
            emit_top,
            job.words,
            job.offsets,
            order,
            blocks[first : last + 1],
            job.scale,
            job.want_counts,
            _limit(start),
            job.log_z,
            job.trouble,
            *sums,
        )

    sums = _in_shards(run, sizes, [(K,), (K, K), (K,), emit.shape if job.want_counts else (0, 0)])
    return [sums[0], sums[1][None], sums[2][None], sums[3]]


def _sparse(tables: Tables, support: _Support, job: _Job) -> list[Array]:
    start, trans, stop, emit, emit_top = tables
    cells = support.pick(emit)

    def run(first: int, last: int, sums: list[Array]) -> None:
        sparse_pass(
            start,
            trans,
            stop,
            support.at,
            support.states,
            cells,
            emit_top,
            job.words,
            job.offsets,
            np.arange(first, last),
            job.scale,
            job.want_counts,
            _limit(start),
            job.log_z,
            job.trouble,
            *sums,
        )

    sizes = job.lengths if len(job.lengths) else np.zeros(1, np.int64)
    return _in_shards(run, sizes, [start.shape, trans.shape, stop.shape, cells.shape])


def _in_shards(
    run: Callable[[int, int, list[Array]], None], sizes: Array, shapes: list[tuple[int, ...]]
) -> list[Array]:
    """Run a pass over ranges of its items, one thread each, and add up what they counted, always in the same order."""
    cuts = even_cuts(sizes, min(threads_for(int(sizes.sum())), len(sizes)))

    # Made here, not in the threads: what a thread allocates may stay with it, though it is not used any more.
    sums_of = [[zeros(math.prod(shape)).reshape(shape) for shape in shapes] for _ in cuts[1:]]
    map_threads(lambda shard: run(cuts[shard], cuts[shard + 1], sums_of[shard]), range(len(cuts) - 1))
    first, *others = sums_of
    for sums in others:
        for into, more in zip(first, sums, strict=True):
            into += more
    return first


def _blocks(lengths: Array) -> Array:  # (B,), longest first -> (blocks + 1,)
    """Where to cut sequences into blocks that advance in step: at most `BLOCK`, and not too many tokens at once."""
    longest = int(lengths[0]) if len(lengths) else 0
    if BLOCK * longest <= BLOCK_TOKENS:
        return np.append(np.arange(0, len(lengths), BLOCK), len(lengths))
    cuts = [0]
    while cuts[-1] < len(lengths):
        cuts.append(cuts[-1] + min(BLOCK, max(1, BLOCK_TOKENS // max(int(lengths[cuts[-1]]), 1))))
    return np.array([min(cut, len(lengths)) for cut in cuts])


def _limit(like: Array) -> np.floating[Any]:
    limit: np.floating[Any] = like.dtype.type(LIMIT[like.dtype])
    return limit
