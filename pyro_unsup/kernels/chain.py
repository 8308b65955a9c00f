"""The chain on CPU: log Z and counts in one pass over a flat ragged corpus, choosing the pass that fits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .chain_dense import dense_pass
from .chain_log import decode_pass, log_pass
from .chain_sparse import sparse_pass
from .limits import LIMIT
from .threads import even_cuts, map_threads, threads_for

#: Sequences that advance in step in the dense pass: enough for good matrix products, few enough to stay in cache.
BLOCK = 64
#: The dense pass wins while words allow more than this share of the states.
DENSE_SHARE = 0.4


@dataclass
class ChainWeights:
    """Log-weights as the kernels want them.

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
class ChainCounts:
    """Expected counts, laid out as the weights."""

    start: Tensor
    trans: Tensor
    stop: Tensor
    emit: Tensor


def chain_pass(
    weights: ChainWeights,
    words: np.ndarray,  # (tokens,) int
    offsets: np.ndarray,  # (B + 1,) int64
    scale: np.ndarray | None = None,  # (B,) float64
    want_counts: bool = True,
) -> tuple[Tensor, ChainCounts | None]:
    """log Z of each sequence, and the expected counts of all of them (each weighed by ``scale``)."""
    K, V = weights.emit.shape
    lengths = np.diff(offsets)
    if scale is None:
        scale = np.ones(len(lengths))
    log_z, trouble = np.zeros(len(lengths)), np.zeros(len(lengths), bool)
    total = [np.zeros(K), np.zeros(tuple(weights.trans.shape)), np.zeros(tuple(weights.stop.shape))]

    start, start_top = _scaled(weights.start)
    trans, trans_top = _scaled(weights.trans)
    stop, stop_top = _scaled(weights.stop)
    limit = start.dtype.type(LIMIT[start.dtype])
    emit_top = weights.emit.amax(0).clamp(min=torch.finfo(weights.emit.dtype).min)  # (V,)
    emit = (weights.emit - emit_top).exp_()
    tops = emit_top.double().numpy()

    support = _Support(weights.emit) if _is_sparse(weights, words) else None
    if support is None:
        emit_rows = emit.T.contiguous().numpy()  # (V, K): one row a word
        n_emit = _run_dense(
            (start, trans[0], np.ascontiguousarray(trans[0].T), stop[0], emit_rows, tops, words, offsets),
            lengths,
            scale,
            want_counts,
            limit,
            log_z,
            trouble,
            total,
        )
    else:
        cells = support.pick(emit)
        n_emit = _run_sparse(
            (start, trans, stop, support.at, support.states, cells, tops, words, offsets),
            lengths,
            scale,
            want_counts,
            limit,
            log_z,
            trouble,
            total,
        )
    log_z += np.where(lengths > 0, start_top + stop_top + (lengths - 1) * trans_top, 0.0)
    total[1] *= trans.astype(np.float64)  # the passes leave this common factor out

    if trouble.any():
        support = support or _Support(weights.emit)
        extra = np.zeros(len(support.states))
        log_weights = [w.double().contiguous().numpy() for w in (weights.start, weights.trans, weights.stop)]
        log_pass(
            *log_weights,
            support.at,
            support.states,
            support.pick(weights.emit.double()),
            words,
            offsets,
            np.flatnonzero(trouble),
            scale,
            want_counts,
            log_z,
            *total,
            extra,
        )
        if want_counts:
            n_emit += support.put(extra, V, K) if n_emit.ndim == 2 else extra

    if not want_counts:
        return torch.from_numpy(log_z), None
    dense = support.put(n_emit, V, K) if n_emit.ndim == 1 and support is not None else n_emit  # (V, K)
    counts = [torch.from_numpy(n).to(weights.emit.dtype) for n in (*total, dense)]
    return torch.from_numpy(log_z), ChainCounts(counts[0], counts[1], counts[2], counts[3].T)


def chain_decode(
    weights: ChainWeights,
    words: np.ndarray,
    offsets: np.ndarray,
    uniforms: np.ndarray | None = None,  # (tokens,) float64 in [0, 1)
) -> tuple[Tensor, Tensor]:
    """States of every token and the log-weight of each sequence: the best, or a draw if uniform numbers are given."""
    support = _Support(weights.emit)
    states, log_z = np.empty(len(words), np.int64), np.empty(len(offsets) - 1)
    log_weights = [w.double().contiguous().numpy() for w in (weights.start, weights.trans, weights.stop)]
    decode_pass(
        *log_weights,
        support.at,
        support.states,
        support.pick(weights.emit.double()),
        words,
        offsets,
        np.empty(0) if uniforms is None else uniforms,
        states,
        log_z,
    )
    return torch.from_numpy(states), torch.from_numpy(log_z)


def _scaled(log_weights: Tensor) -> tuple[np.ndarray, float]:
    """Real weights with a maximum of 1, and the log of what was divided out."""
    top = float(log_weights.max())
    top = 0.0 if top == -np.inf else top
    return (log_weights - top).exp().contiguous().numpy(), top


def _is_sparse(weights: ChainWeights, words: np.ndarray) -> bool:
    if len(weights.trans) > 1:
        return True
    if float(weights.emit.min()) > -np.inf:
        return False
    sizes = (weights.emit > -torch.inf).sum(0).numpy()
    return len(words) > 0 and float(sizes[words].mean()) < DENSE_SHARE * len(weights.start)


class _Support:
    """The states each word allows, word after word."""

    def __init__(self, emit: Tensor) -> None:  # (K, V)
        self._mask = (emit > -torch.inf).T  # (V, K)
        self.at = np.concatenate([[0], np.cumsum(self._mask.sum(1).numpy())]).astype(np.int64)  # (V + 1,)
        self.states = self._mask.nonzero()[:, 1].numpy()  # (cells,)

    def pick(self, emit: Tensor) -> np.ndarray:  # (K, V) -> (cells,)
        return emit.T[self._mask].numpy()

    def put(self, cells: np.ndarray, V: int, K: int) -> np.ndarray:  # (cells,) -> (V, K)
        dense = np.zeros((V, K))
        dense[self._mask.numpy()] = cells
        return dense


def _run_dense(tables, lengths, scale, want_counts, limit, log_z, trouble, total):  # type: ignore[no-untyped-def]
    order = np.argsort(-lengths, kind="stable")
    blocks = np.append(np.arange(0, len(order), BLOCK), len(order)).astype(np.int64)
    sizes = np.add.reduceat(lengths[order], blocks[:-1]) if len(order) else np.zeros(0, np.int64)
    cuts = (
        even_cuts(sizes, min(threads_for(int(lengths.sum())), max(len(sizes), 1))) if len(sizes) else np.zeros(2, int)
    )
    emit_shape = tables[4].shape if want_counts else (0, 0)

    def work(shard: int):  # type: ignore[no-untyped-def]
        mine = blocks[cuts[shard] : cuts[shard + 1] + 1]
        out = [np.zeros_like(total[0]), np.zeros_like(total[1][0]), np.zeros_like(total[2][0]), np.zeros(emit_shape)]
        dense_pass(*tables, order, mine, scale, want_counts, limit, log_z, trouble, *out)
        return out

    parts = map_threads(work, range(len(cuts) - 1))
    for out in parts:
        total[0] += out[0]
        total[1][0] += out[1]
        total[2][0] += out[2]
    return sum((out[3] for out in parts[1:]), parts[0][3])


def _run_sparse(tables, lengths, scale, want_counts, limit, log_z, trouble, total):  # type: ignore[no-untyped-def]
    cuts = even_cuts(lengths, threads_for(int(lengths.sum()))) if len(lengths) else np.zeros(2, int)
    cells = len(tables[5])

    def work(shard: int):  # type: ignore[no-untyped-def]
        out = [*(np.zeros_like(part) for part in total), np.zeros(cells)]
        todo = np.arange(cuts[shard], cuts[shard + 1])
        sparse_pass(*tables, todo, scale, want_counts, limit, log_z, trouble, *out)
        return out

    parts = map_threads(work, range(len(cuts) - 1))
    for out in parts:
        for into, part in zip(total, out, strict=False):
            into += part
    return sum((out[3] for out in parts[1:]), parts[0][3])
