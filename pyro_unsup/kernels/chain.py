"""The chain on CPU: log Z and counts in one pass over a flat ragged corpus, choosing the pass that fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from .chain_dense import dense_pass
from .chain_draw import best_dense_pass, draw_pass
from .chain_pass import best_pass, draw_log_pass, draw_scaled_pass, log_pass, sparse_pass
from .exp_log import scaled_rows
from .limits import LEAST, LIMIT, keep_possible, tiny
from .plumbing import OnePass, in_shards, uniform_numbers
from .room import room
from .series import Series
from .threads import NUMBERS_A_TOKEN, in_parts

#: start, trans, stop, emit (V, K), and the logs of what was divided out of its rows (V,)
Tables = tuple[Array, Array, Array, Array, Array]

#: Sequences that advance in step in the dense pass: enough for good matrix products, few enough to stay in cache.
BLOCK = 48
#: Tokens in a block of long sequences, for the same reason.
BLOCK_TOKENS = 16_384
#: The log of the smallest ratio of weights that scaled sums are trusted with.
RANGE = {torch.float64: -500.0, torch.float32: -60.0}
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


#: Added potentials are not taken beside the weights: then the pass starts from potentials.
TAKES: tuple[str, ...] = ()


def sums(dist: Any, weights: dict[str, Tensor], value: Tensor, wanted: frozenset[str]) -> OnePass:
    """log Z and expected counts, from weights."""
    if _as_series(dist):
        return _series_sums(dist, weights, value, wanted)
    tables, words, offsets = _tables(weights), value.contiguous().numpy(), dist.rows.offsets.numpy()

    def run(scale: Array | None, want: bool) -> tuple[Tensor, dict[str, Tensor]]:
        log_z, counts = chain_pass(tables, words, offsets, scale, want)
        return log_z, {} if counts is None else _named(counts, weights)

    return OnePass(run, bool(wanted))


def decode(
    dist: Any, weights: dict[str, Tensor], value: Tensor, draw: bool, generator: torch.Generator | None
) -> Tensor:
    """The best states, or drawn ones, from weights."""
    uniforms = uniform_numbers(draw, len(value), generator=generator)
    if _as_series(dist):
        return _series(dist, weights, value).decode(uniforms)
    return chain_decode(_tables(weights), value.contiguous().numpy(), dist.rows.offsets.numpy(), uniforms)


def forward(dist: Any, weights: dict[str, Tensor], value: Tensor) -> tuple[Tensor, Tensor] | None:
    """log p(x_t | past), (rows,), and P(state | observations up to it), (rows, K), of a first-order chain.

    None if numbers do not suffice.
    """
    return _series(dist, weights, value).forward()


def solve(dist: Any, potentials: dict[str, Tensor], scale: Tensor | None) -> tuple[Tensor, dict[str, Tensor]]:
    """log Z and marginals, from potentials."""
    weigh = None if scale is None else scale.contiguous().numpy()
    if not dist.second_order:
        log_z, found = _potential_series(dist, potentials).sums(weigh, True)
        steps = found["trans"].unsqueeze(1) if dist.by_step else found["trans"]
        return log_z, {"states": found["states"], "steps": steps, "ends": found["stop"].unsqueeze(0)}
    log_z, counts = chain_pass(*_own_words(dist, potentials), weigh)
    assert counts is not None
    return log_z, {"states": counts.emit.T, "steps": counts.trans, "ends": counts.stop}


def pick(dist: Any, potentials: dict[str, Tensor], draw: bool, generator: torch.Generator | None) -> Tensor:
    """The best states, or drawn ones, from potentials."""
    uniforms = uniform_numbers(draw, len(potentials["states"]), generator=generator)
    if not dist.second_order:
        return _potential_series(dist, potentials).decode(uniforms)
    return chain_decode(*_own_words(dist, potentials), uniforms)


def _as_series(dist: Any) -> bool:
    """Whether every observation has weights of its own, of emission or of transition."""
    return (dist.own_words or dist.by_step) and not dist.second_order


def _every_column(dist: Any, weights: dict[str, Tensor], value: Tensor) -> bool:
    """Whether the observations are the columns of the emission table, one after another."""
    return dist.own_words and len(value) == weights["emission"].shape[-1]


def _series(dist: Any, weights: dict[str, Tensor], value: Tensor) -> Series:
    """The weights of every observation."""
    start, trans, emit = (weights[name].numpy() for name in ("start", "transition", "emission"))
    K, emit = len(start), emit.T if _every_column(dist, weights, value) else emit.T[value.numpy()]
    stop = trans[..., K] if trans.shape[-1] > K else np.zeros(K)
    trans = trans[..., :K] if dist.by_step else trans[None, :, :K]
    return Series(start, trans, stop, emit, dist.rows.offsets.numpy())


def _series_sums(dist: Any, weights: dict[str, Tensor], value: Tensor, wanted: frozenset[str]) -> OnePass:
    series, stops = _series(dist, weights, value), weights["transition"].shape[-1] > len(weights["start"])

    def run(scale: Array | None, want: bool) -> tuple[Tensor, dict[str, Tensor]]:
        log_z, found = series.sums(scale, want)
        if not want:
            return log_z, {}
        trans, states = found["trans"] if dist.by_step else found["trans"][0], found["states"].T
        if stops:
            trans = torch.cat([trans, found["stop"].unsqueeze(-1)], -1)
        if not _every_column(dist, weights, value):
            states = states.new_zeros(weights["emission"].shape).index_add_(-1, value, states)
        return log_z, {"start": found["start"], "transition": trans, "emission": states}

    return OnePass(run, bool(wanted))


def _potential_series(dist: Any, potentials: dict[str, Tensor]) -> Series:
    states = potentials["states"]
    K = states.shape[-1]
    nothing = states.new_zeros(K)
    steps = potentials.get("steps", states.new_zeros(1, K, K))
    steps = steps.squeeze(1) if steps.dim() == 4 else steps  # (N or 1, K, K)
    ends = potentials["ends"].reshape(K) if "ends" in potentials else nothing
    return Series(nothing.numpy(), steps.numpy(), ends.numpy(), states.numpy(), dist.rows.offsets.numpy())


def _own_words(dist: Any, potentials: dict[str, Tensor]) -> tuple[ChainTables, Array, Array]:
    """A chain in which every token is a word of its own, whose emission weights are the potentials of its states."""
    states, steps, ends = potentials["states"], potentials["steps"], potentials["ends"]
    tables = ChainTables(states.new_zeros(states.shape[-1]), steps, ends, states.contiguous().T)
    return tables, np.arange(len(states)), dist.rows.offsets.numpy()


def _tables(weights: dict[str, Tensor]) -> ChainTables:
    K, full = len(weights["start"]), weights["transition"].unsqueeze(0)
    if "second" in weights:
        full = torch.cat([full[0], weights["second"].unsqueeze(0)])
    stop = full[..., K] if full.shape[-1] > K else full.new_zeros(full.shape[:-1])
    return ChainTables(weights["start"], full[..., :K], stop, weights["emission"])


def _named(counts: ChainTables, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The way back from :func:`_tables`."""
    stops = weights["transition"].shape[-1] > len(weights["start"])
    full = torch.cat([counts.trans, counts.stop.unsqueeze(-1)], -1) if stops else counts.trans
    found = {"start": counts.start, "transition": full[0], "emission": counts.emit}
    return {**found, "transition": full[:-1], "second": full[-1]} if "second" in weights else found


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
    # The certificate that nothing was lost comes with the way back. Even weights do without.
    both_ways = want_counts or not _even(weights, RANGE[weights.emit.dtype])
    job = _Job(
        words, offsets, lengths, np.ones(B) if scale is None else scale, both_ways, np.zeros(B), np.zeros(B, bool)
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
            np.inf,
            0.0,
            job.log_z,
            job.trouble,
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
    uniforms: Array,  # (tokens,) float64 in [0, 1), or (0,)
) -> Tensor:  # (tokens,)
    """States of every token: the best, or a draw if uniform numbers are given; -1 where a sequence is impossible."""
    states, lengths = np.empty(len(words), np.int64), np.diff(offsets)
    tables: tuple[Array, ...]
    if not len(uniforms) and len(weights.trans) == 1 and not _few_allowed(weights.emit, words):
        start, (trans,), (stop,) = _logs(weights)
        emit = weights.emit.T.double().contiguous().numpy()
        dense = (start, trans, np.ascontiguousarray(trans.T), stop, emit, words, offsets)
        in_shards(lambda a, b: best_dense_pass(*dense, np.arange(a, b), states), lengths, len(words))
        return torch.from_numpy(states)
    if len(uniforms) and _even(weights, RANGE[torch.float64]):
        start, trans, stop = (_scaled(w.double())[0] for w in (weights.start, weights.trans, weights.stop))
        emit, emit_top, allowed = _scaled_rows(weights.emit.T.double().numpy())
        if len(trans) == 1 and not _few(allowed, words, len(start)):
            run, tables = draw_pass, (start, trans[0], np.ascontiguousarray(trans[0].T), stop[0], emit)
        else:
            support = _Support(weights.emit)
            emissions = support.at, support.states, support.pick(emit), emit_top
            run, tables = draw_scaled_pass, (start, trans, stop, *emissions)
    else:
        run = draw_log_pass if len(uniforms) else best_pass
        tables = (*_logs(weights), *_Support(weights.emit).logs(weights))

    in_shards(lambda a, b: run(*tables, words, offsets, np.arange(a, b), uniforms, states), lengths, len(words))
    return torch.from_numpy(states)


def _even(weights: ChainTables, lowest: float) -> bool:
    """Whether scaled sums forwards cannot lose a state that matters later.

    If every state leads to every other, the shares of two states of one position differ by no more than the smallest
    weights on the last step do: far less than numbers can hold. With pairs of states, it is the last two steps.
    """
    steps = 1 if len(weights.trans) == 1 else 2
    smallest = float(weights.trans.amin()) - float(weights.trans.amax())
    emit = weights.emit.double()
    rows = torch.where(emit > -torch.inf, emit, torch.inf).amin(0) - emit.amax(0)  # +inf: a word that no state allows
    starts = weights.start[weights.start > -torch.inf]
    span = float(starts.amin() - starts.amax()) if len(starts) else 0.0
    finite = rows[rows.isfinite()]
    return steps * (min(smallest, span) + (float(finite.amin()) if len(finite) else 0.0)) > lowest


def _logs(weights: ChainTables) -> list[Array]:
    return [w.double().contiguous().numpy() for w in (weights.start, weights.trans, weights.stop)]


def _scaled(log_weights: Tensor) -> tuple[Array, float]:
    """Real weights with a maximum of 1, and the log of what was divided out.

    What is possible never becomes zero: then a path that is lost would be lost forwards and backwards, where the
    certificate cannot see it. The least normal number in its place is seen, if it matters.
    """
    top = float(log_weights.amax())
    top = 0.0 if top == -np.inf else top
    real = (log_weights - top).exp().clamp(min=torch.finfo(log_weights.dtype).tiny)
    return torch.where(log_weights > -np.inf, real, 0.0).contiguous().numpy(), top


def _scaled_rows(log_weights: Array) -> tuple[Array, Array, Array]:  # (V, K) -> (V, K), (V,), (V,)
    """The same for each row, and how many of its weights are not zero."""
    V, K = log_weights.shape
    rows, top, positive = room(V * K, log_weights.dtype).reshape(V, K), np.empty(V), np.empty(V, np.int64)
    lies, least = log_weights.flags.c_contiguous, tiny(log_weights.dtype)

    def work(first: int, last: int) -> None:
        part = slice(first, last)
        if not lies:  # what comes out takes the place of a copy
            rows[part] = log_weights[part]
        scaled_rows(log_weights[part] if lies else rows[part], rows[part], top[part], positive[part])
        keep_possible(log_weights[part], rows[part], least)

    in_parts(work, V, V * K // NUMBERS_A_TOKEN)
    return rows, top, positive


def _few(allowed: Array, words: Array, K: int) -> bool:
    """Whether the words allow so few of the states that it pays to go through these only."""
    return bool((allowed < K).any()) and len(words) > 0 and float(allowed[words].mean()) < DENSE_SHARE * K


def _few_allowed(emit: Tensor, words: Array) -> bool:  # (K, V)
    """The same, from the logs of the emissions."""
    possible = emit > -torch.inf
    return not bool(possible.all()) and _few(possible.sum(0).numpy(), words, len(emit))


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

    def logs(self, weights: ChainTables) -> tuple[Array, Array, Array, Array]:
        """What a pass in logs wants to know of the emissions, of which nothing was divided out."""
        return self.at, self.states, self.pick(weights.emit.T.double().numpy()), np.zeros(len(self.at) - 1)


def _dense(tables: Tables, job: _Job) -> list[Array]:
    start, trans, stop, emit, emit_top = tables
    order = np.argsort(-job.lengths, kind="stable")
    blocks = _blocks(job.lengths[order])
    sizes = np.add.reduceat(job.lengths[order], blocks[:-1]) if len(order) else np.zeros(0, np.int64)
    K = len(start)

    def run(first: int, last: int, *sums: Array) -> None:
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
            *_bounds(start),
            job.log_z,
            job.trouble,
            *sums,
        )

    shapes = [(K,), (K, K), (K,), emit.shape if job.want_counts else (0, 0)]
    sums = in_shards(run, sizes, int(job.lengths.sum()), shapes, blas=True)
    return [sums[0], sums[1][None], sums[2][None], sums[3]]


def _sparse(tables: Tables, support: _Support, job: _Job) -> list[Array]:
    start, trans, stop, emit, emit_top = tables
    cells = support.pick(emit)

    def run(first: int, last: int, *sums: Array) -> None:
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
            *_bounds(start),
            job.log_z,
            job.trouble,
            *sums,
        )

    return in_shards(run, job.lengths, int(job.lengths.sum()), [start.shape, trans.shape, stop.shape, cells.shape])


def _blocks(lengths: Array) -> Array:  # (B,), longest first -> (blocks + 1,)
    """Where to cut sequences into blocks that advance in step: at most `BLOCK`, and not too many tokens at once."""
    longest = int(lengths[0]) if len(lengths) else 0
    if BLOCK * longest <= BLOCK_TOKENS:
        return np.append(np.arange(0, len(lengths), BLOCK), len(lengths))
    cuts = [0]
    while cuts[-1] < len(lengths):
        cuts.append(cuts[-1] + min(BLOCK, max(1, BLOCK_TOKENS // max(int(lengths[cuts[-1]]), 1))))
    return np.array([min(cut, len(lengths)) for cut in cuts])


def _bounds(like: Array) -> tuple[np.floating[Any], np.floating[Any]]:
    """The limit, and the least, of messages in this dtype."""
    return like.dtype.type(LIMIT[like.dtype]), like.dtype.type(LEAST[like.dtype])
