"""Semi-Markov chains on CPU: log Z and expected counts in one pass over a flat ragged corpus, and decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from .exp_log import scaled_rows
from .limits import LEAST, LIMIT, keep_possible, kept_exp, tiny
from .plumbing import OnePass, Tables, in_shards, uniform_numbers
from .room import room
from .semimarkov_pass import best_pass, draw_pass, log_pass, scaled_pass

FLOAT = np.dtype(np.float64)

#: So many slots of states take the time of one token of a chain, by which :func:`.threads_for` counts.
SLOTS_A_TOKEN = 16
#: Weights of steps above this are left to logs.
HEAVIEST = 1e50
#: A slot takes so many times as long in logs.
LOGS = 8


@dataclass
class Stretches:
    """Log-weights as the passes want them. All float64.

    :param start: (K,).
    :param trans: (K, K) axes (old, new).
    :param entry: (2, K, D) of durations, and of those of last stretches; or (N, K, D) of stretches by where they begin.
    :param emit: (N, K) of every observation.
    :param offsets: (B + 1,).
    """

    start: Array
    trans: Array
    entry: Array
    varies: bool
    emit: Array
    offsets: Array

    @staticmethod
    def of_weights(dist: Any, weights: Tables, value: Tensor) -> Stretches:
        emit = weights["emission"].T
        emit = emit if _every_column(dist, emit, value) else emit[value.long()]
        entry = torch.stack([weights["duration"], weights.get("last", weights["duration"])])
        start, trans = _numbers(weights["start"]), _numbers(weights["transition"])
        return Stretches(start, trans, _numbers(entry), False, _numbers(emit), dist.rows.offsets.numpy())

    @staticmethod
    def of_potentials(dist: Any, potentials: Tables) -> Stretches:
        """Every stretch has a weight of its own. It includes the observations, and the start."""
        parts = potentials["stretches"]  # (N, D, K) by their last position
        N, D, K = parts.shape
        steps = potentials.get("steps")
        trans = np.zeros((K, K)) if steps is None else _numbers(steps)
        entry, at = np.full((N, K, D), -np.inf), parts.numpy()
        for d in range(min(D, N)):  # what would begin in another series is impossible already
            entry[: N - d, :, d] = at[d:, d]
        return Stretches(np.zeros(K), trans, entry, True, np.zeros((N, K)), dist.rows.offsets.numpy())

    @property
    def logs(self) -> tuple[Any, ...]:
        """As a pass in logs takes them."""
        return self.start, self.trans, self.entry, self.varies, self.emit, self.offsets

    @property
    def sizes(self) -> Array:  # (B,)
        return np.diff(self.offsets)

    @property
    def work(self) -> int:
        slots: int = self.emit.size * self.entry.shape[2]
        return slots // SLOTS_A_TOKEN


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> OnePass:
    """log Z and expected counts, from weights."""
    data, like = Stretches.of_weights(dist, weights, value), weights["emission"]

    def run(scale: Array | None, want: bool) -> tuple[Tensor, Tables]:
        log_z, states, (n_start, n_trans, n_entry) = semimarkov_pass(data, scale, want)
        if not want:
            return log_z, {}
        if not _every_column(dist, like.T, value):
            states = states.new_zeros(like.T.shape).index_add(0, value.long(), states)
        durations = {"duration": n_entry[0], "last": n_entry[1]} if dist.censored else {"duration": n_entry.sum(0)}
        counts = {"start": n_start, "transition": n_trans, "emission": states.T, **durations}
        return log_z, {name: x.to(like.dtype) for name, x in counts.items()}

    return OnePass(run, bool(wanted))


def marginals(dist: Any, weights: Tables, value: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and posteriors of stretches, from weights."""
    log_z, _, (_, _, n_entry) = semimarkov_pass(Stretches.of_weights(dist, weights, value), None, True, True)
    return log_z, _by_end(n_entry)


def solve(dist: Any, potentials: Tables, scale: Tensor | None) -> tuple[Tensor, Tables]:
    """log Z and marginals, from potentials."""
    data = Stretches.of_potentials(dist, potentials)
    weigh = None if scale is None else scale.contiguous().numpy()
    log_z, _, (_, n_trans, n_entry) = semimarkov_pass(data, weigh, True, True)
    return log_z, {"stretches": _by_end(n_entry), "steps": n_trans}


def decode(dist: Any, weights: Tables, value: Tensor, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The best states and where they end, or drawn ones, from weights."""
    return semimarkov_decode(Stretches.of_weights(dist, weights, value), draw, generator)


def pick(dist: Any, potentials: Tables, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The same from potentials."""
    return semimarkov_decode(Stretches.of_potentials(dist, potentials), draw, generator)


def semimarkov_pass(
    data: Stretches, scale: Array | None, want: bool, each: bool = False
) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor, Tensor]]:
    """log Z of each series, (B,); how probable states are, (N, K); and counts of starts, transitions and entries.

    :param each: whether entries are counted by position, (N, K, D), or all together, (2, K, D).
    """
    (N, K), B = data.emit.shape, len(data.offsets) - 1
    limit, least = LIMIT[FLOAT], LEAST[FLOAT]
    weigh = np.empty(0) if not want else np.ones(B) if scale is None else scale
    log_z, trouble, states = np.zeros(B), np.ones(B, bool), room(N * K if want else 0).reshape(-1, K)
    out, D = (log_z, trouble, states), data.entry.shape[2]
    own = [np.zeros((N, K, D))] if each else []  # all threads write to it, each to its series
    shapes = [(K,), (K, K)] if each else [(K,), (K, K), (2, K, D)]
    counts = [np.zeros(shape) for shape in shapes]

    def go(run: Any, tables: tuple[Any, ...], heavy: float, todo: Array, work: int) -> None:
        def some(first: int, last: int, *sums: Array) -> None:
            run(*tables, todo[first:last], limit, least, heavy, weigh, each, *out, *sums, *own)

        for into, more in zip(counts, in_shards(some, data.sizes[todo], work, shapes), strict=True):
            into += more

    real = None if data.varies else _Scaled.of(data)  # weights of whole stretches are too far apart to be scaled
    if real is not None:
        tables = (real.start, real.trans, real.entry, False, real.emit, data.offsets)
        go(scaled_pass, tables, real.heavy, np.arange(B), data.work)
        log_z += np.add.reduceat(np.append(real.top, 0.0), data.offsets[:-1]) * (data.sizes > 0) if B else 0.0
    if trouble.any():
        go(log_pass, data.logs, 1.0, np.flatnonzero(trouble), data.work * LOGS)
    n_start, n_trans, n_entry = (torch.from_numpy(x) for x in (*counts, *own))
    return torch.from_numpy(log_z), torch.from_numpy(states), (n_start, n_trans, n_entry)


def semimarkov_decode(data: Stretches, draw: bool, generator: torch.Generator | None) -> Tensor:  # (N, 2)
    """The best states and where they end, or drawn ones."""
    structure = np.empty((len(data.emit), 2), np.int64)
    uniforms, run = uniform_numbers(draw, *structure.shape, generator=generator), draw_pass if draw else best_pass
    in_shards(lambda a, b: run(*data.logs, np.arange(a, b), uniforms, structure), data.sizes, data.work)
    return torch.from_numpy(structure)


@dataclass
class _Scaled:
    """Real weights: those of durations and of observations at most 1. Every stretch has a step and a duration, so that
    what is divided out of one can be put into the other. ``top`` is what was divided out of each observation."""

    start: Array
    trans: Array
    entry: Array
    emit: Array
    top: Array
    heavy: float

    @staticmethod
    def of(data: Stretches) -> _Scaled | None:
        """None if weights are too far apart."""
        most = float(data.entry.max(initial=-np.inf))
        most = 0.0 if most == -np.inf else most
        heaviest = max(float(data.start.max()), float(data.trans.max())) + most
        if heaviest > np.log(HEAVIEST):
            return None
        start, trans, entry = kept_exp(data.start + most), kept_exp(data.trans + most), kept_exp(data.entry - most)
        N, K = data.emit.shape
        rows, top, positive = room(N * K).reshape(N, K), np.empty(N), np.empty(N, np.int64)
        scaled_rows(data.emit, rows, top, positive)
        keep_possible(data.emit, rows, tiny(FLOAT))
        return _Scaled(start, trans, entry, rows, top, max(1.0, float(np.exp(heaviest))))


def _by_end(entries: Tensor) -> Tensor:  # (N, K, D) -> (N, D, K)
    """What is known of stretches by where they begin, by where they end."""
    N, K, D = entries.shape
    parts = entries.new_zeros(N, D, K)
    for d in range(min(D, N)):
        parts[d:, d] = entries[: N - d, :, d]
    return parts


def _every_column(dist: Any, emit: Tensor, value: Tensor) -> bool:  # (V, K)
    """Whether the observations are the rows of a table, one after another."""
    return bool(dist.own_words and len(value) == len(emit))


def _numbers(x: Tensor) -> Array:
    return np.ascontiguousarray(x.detach().double().numpy())
