"""Time series on CPU: log Z, the posterior of the states and counts of steps, from weights of every observation."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from .chain_series import (
    add_tops,
    are_points,
    backward_series,
    count_series,
    decode_series,
    forward_is_certain,
    forward_series,
    less_the_highest,
    log_series,
    scaled,
    sum_points,
    sum_series,
)
from .exp_log import exp_possible
from .limits import LEAST, LIMIT
from .plumbing import in_shards
from .room import room
from .threads import NUMBERS_A_TOKEN, in_parts, map_threads, threads_for

FLOAT = np.dtype(np.float64)
#: Of starts, (K,), of transitions, (1 or N, K, K), and of stops, (K,).
Counts = tuple[Array, Array, Array]


class Series:
    """Log-weights of first-order chains whose observations all have weights of their own.

    :param start: (K,).
    :param trans: (1, K, K), or (N, K, K) for each position that it leads to.
    :param stop: (K,).
    :param emit: (N, K).
    :param offsets: (B + 1,) where series begin, and where the last one ends.
    """

    def __init__(self, start: Array, trans: Array, stop: Array, emit: Array, offsets: Array) -> None:
        self.start, self.trans, self.stop, self.emit = (
            np.ascontiguousarray(x, FLOAT) for x in (start, trans, stop, emit)
        )
        self.offsets = offsets

    def sums(self, scale: Array | None, want: bool) -> tuple[Tensor, dict[str, Tensor]]:
        """log Z of every series, (B,), and expected counts: ``start``, ``trans``, ``stop``, and ``states``, (N, K)."""
        N, K = self.emit.shape
        B, threads = len(self.offsets) - 1, threads_for(N)
        scale = np.ones(B) if scale is None else scale
        states, log_z = room(N * K).reshape(N, K), np.empty(B)
        counts, trouble = (np.zeros(K), np.zeros(self.trans.shape), np.zeros(K)), np.zeros(B, bool)
        if N == B and are_points(self.offsets):
            found = self._points(scale, log_z, counts, states)
        elif threads == 1:
            found = sum_series(
                self.start, self.trans, self.stop, self.emit, self.offsets, scale, LIMIT[FLOAT], LEAST[FLOAT],
                room(N * (2 * K + 3)), log_z, *counts, states, trouble,
            )  # fmt: skip
        else:
            found = self._on_threads(threads, scale, log_z, counts, states, trouble)
        if found:
            self._in_logs(np.flatnonzero(trouble), scale, want, log_z, counts, states)
        if not want:
            return torch.from_numpy(log_z), {}
        named = {"start": counts[0], "trans": counts[1], "stop": counts[2], "states": states}
        return torch.from_numpy(log_z), {name: torch.from_numpy(x) for name, x in named.items()}

    def _points(self, scale: Array, log_z: Array, counts: Counts, states: Array) -> int:
        """The same as :func:`.sum_series` where every series is one observation."""
        N, K = self.emit.shape

        def run(first: int, last: int, n: Array) -> None:
            sum_points(self.start, self.stop, self.emit, scale, first, last, states, log_z, n)

        (n,) = in_shards(run, scale, N * K // NUMBERS_A_TOKEN * 4, [(K,)])
        counts[0][:], counts[2][:] = n, n
        return 0

    def _on_threads(self, threads: int, scale: Array, log_z: Array, counts: Counts, back: Array, trouble: Array) -> int:
        """The same as :func:`.sum_series` by several threads; ``back`` becomes the posterior of the states."""
        N, K = self.emit.shape
        B, lengths = len(self.offsets) - 1, np.diff(self.offsets)
        start, start_top = _scaled(self.start)
        trans, trans_top = _scaled(self.trans)
        stop, stop_top = _scaled(self.stop)
        emit, top = self._emissions()
        ahead, norm, tops = room(N * K).reshape(N, K), room(N), room(N)
        other = np.zeros(B, bool)
        limit, least, varies = LIMIT[FLOAT], LEAST[FLOAT], len(trans) > 1
        shapes = [(K,), (0, K, K) if varies else (1, K, K), (K,)]  # transitions that vary are nobody else's

        def forward(first: int, last: int) -> None:
            forward_series(start, trans, emit, self.offsets, first, last, limit, ahead, norm, log_z, trouble)

        def backward(first: int, last: int) -> None:
            backward_series(trans, stop, emit, self.offsets, first, last, limit, least, back, tops, other)

        def count(first: int, last: int, begin: int, end: int, *sums: Array) -> None:
            where = (emit, stop, self.offsets, first, last, begin, end, scale, limit)
            into = (sums[0], counts[1] if varies else sums[1], sums[2])
            count_series(*where, ahead, norm, tops, back, log_z, trouble, *into)

        def run(first: int, last: int, *sums: Array) -> None:
            forward(first, last)
            backward(first, last)
            trouble[first:last] |= other[first:last]
            count(first, last, 0, N, *sums)

        if 2 * threads > B and lengths.max(initial=0) * threads > N:
            # Few long series: one thread goes forwards, one backwards. Then each counts half of the positions.
            map_threads(lambda way: way(0, B), [forward, backward])
            trouble |= other
            cuts = np.linspace(0, N, threads + 1).astype(int)
            found = in_shards(lambda a, b, *sums: count(0, B, cuts[a], cuts[b], *sums), np.ones(threads), N, shapes)
            if trouble.any():  # a half may have been counted before the other found trouble: count all again
                trouble[:] = True
                found = [np.zeros_like(x) for x in found]
        else:
            found = in_shards(run, lengths, N, shapes)
        for into, one in zip(counts, found, strict=True):
            into[: len(one)] += one
        counts[1][:] *= trans
        add_tops(start_top, trans_top, stop_top, top, self.offsets, log_z)
        return int(trouble.sum())

    def _in_logs(self, series: Array, scale: Array, want: bool, log_z: Array, counts: Counts, states: Array) -> None:
        """Do some series again in logs, and add them to the counts."""
        series = series[np.diff(self.offsets)[series] > 0]
        for s in series:  # what the broken pass left
            states[self.offsets[s] : self.offsets[s + 1]] = 0.0
            if len(self.trans) > 1:
                counts[1][self.offsets[s] : self.offsets[s + 1]] = 0.0
        logs = (self.start, self.trans, self.stop, self.emit, self.offsets, series, scale, want)
        log_series(*logs, log_z, *counts, states)

    def forward(self) -> tuple[Tensor, Tensor] | None:
        """log p(x_t | past), (N,), and filtered probabilities, (N, K); None if numbers do not suffice."""
        N, K = self.emit.shape
        B, lengths = len(self.offsets) - 1, np.diff(self.offsets)
        tables = [_scaled(x) for x in (self.start, self.trans)]
        emit, top = self._emissions()
        ahead, norm, log_z, trouble = np.empty((N, K)), np.empty(N), np.zeros(B), np.zeros(B, bool)

        def run(first: int, last: int) -> None:
            where = (self.offsets, first, last, LIMIT[FLOAT])
            forward_series(tables[0][0], tables[1][0], emit, *where, ahead, norm, log_z, trouble)

        in_shards(run, lengths, N)
        if trouble.any() or not forward_is_certain(tables[0][0], tables[1][0], emit, self.offsets, ahead):
            return None
        each = np.log(norm) + top + tables[1][1]
        each[self.offsets[:-1][lengths > 0]] += tables[0][1] - tables[1][1]
        return torch.from_numpy(each), torch.from_numpy(ahead)

    def decode(self, uniforms: Array) -> Tensor:  # (N,)
        """The best states, or drawn ones if there are uniform numbers, (N,)."""
        states = np.empty(len(self.emit), np.int64)
        tables = (self.start, self.trans, self.stop, self.emit, self.offsets)
        in_shards(lambda a, b: decode_series(*tables, a, b, uniforms, states), np.diff(self.offsets), len(states))
        return torch.from_numpy(states)

    def _emissions(self) -> tuple[Array, Array]:  # (N, K), (N,)
        """Real weights whose largest is 1 for each observation, and the logs of what was divided out."""
        N, K = self.emit.shape
        rows, top = room(N * K).reshape(N, K), np.empty(N)

        def work(first: int, last: int) -> None:
            less_the_highest(self.emit, first, last, rows, top)
            exp_possible(rows[first:last].reshape(-1))  # side by side, so that several are done at a time

        in_parts(work, N, N * K // NUMBERS_A_TOKEN)
        return rows, top


def _scaled(logs: Array) -> tuple[Array, float]:
    """Real weights with a maximum of 1, and the log of what was divided out."""
    real = np.empty(logs.shape)
    return real, scaled(logs.reshape(-1), real.reshape(-1))
