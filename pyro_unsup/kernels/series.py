"""Time series on CPU: log Z, the posterior of the states and counts of steps, from weights of every observation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from .chain_series import backward_series, count_series, decode_series, forward_series, less_the_highest, log_series
from .exp_log import exp_possible
from .limits import LEAST, LIMIT, kept_exp
from .plumbing import in_shards
from .room import room
from .threads import NUMBERS_A_TOKEN, in_parts, threads_for

FLOAT = np.dtype(np.float64)


class Series:
    """Log-weights of first-order chains whose observations all have weights of their own.

    :param start: (K,).
    :param trans: (1, K, K), or (N, K, K) for each position that it leads to.
    :param stop: (K,).
    :param emit: (N, K).
    :param offsets: (B + 1,) where series begin, and where the last one ends.
    """

    def __init__(self, start: Tensor, trans: Tensor, stop: Tensor, emit: Tensor, offsets: Array) -> None:
        self.start, self.trans, self.stop, self.emit = (
            np.ascontiguousarray(x.detach().double().numpy()) for x in (start, trans, stop, emit)
        )
        self.offsets = offsets

    def sums(self, scale: Array | None, want: bool) -> tuple[Tensor, dict[str, Tensor]]:
        """log Z of every series, (B,), and expected counts: ``start``, ``trans``, ``stop``, and ``states``, (N, K)."""
        N, K = self.emit.shape
        B, lengths = len(self.offsets) - 1, np.diff(self.offsets)
        scale = np.ones(B) if scale is None else scale
        start, start_top = _scaled(self.start)
        trans, trans_top = _scaled(self.trans)
        stop, stop_top = _scaled(self.stop)
        emit, top = self._emissions()
        ahead, back = room(N * K).reshape(N, K), room(N * K).reshape(N, K)
        norm, tops, log_z = room(N), room(N), np.zeros(B)
        trouble, other = np.zeros(B, bool), np.zeros(B, bool)
        n_start, n_stop = np.zeros(K), np.zeros(K)
        n_trans = np.zeros((1, K, K)) if len(trans) == 1 else np.zeros(trans.shape)
        limit, least, threads = LIMIT[FLOAT], LEAST[FLOAT], threads_for(N)

        def forward(first: int, last: int) -> None:
            forward_series(start, trans, emit, self.offsets, first, last, limit, ahead, norm, log_z, trouble)

        def backward(first: int, last: int) -> None:
            backward_series(trans, stop, emit, self.offsets, first, last, limit, least, back, tops, other)

        def count(first: int, last: int, begin: int, end: int, into: Array, a: Array, z: Array) -> None:
            where = (emit, stop, self.offsets, first, last, begin, end, scale, limit)
            count_series(*where, ahead, norm, tops, back, log_z, trouble, a, into, z)

        if threads > 1 and 2 * threads > B and lengths.max(initial=0) * threads > N:
            # Few long series: one thread goes forwards, one backwards. Then each counts half of the positions.
            with ThreadPoolExecutor(2) as pool:
                ways = [pool.submit(forward, 0, B), pool.submit(backward, 0, B)]
                for way in ways:
                    way.result()
            trouble |= other
            cuts = np.linspace(0, N, threads + 1).astype(int)
            own = [n_trans if len(trans) > 1 else np.zeros((1, K, K)) for _ in range(threads)]
            with ThreadPoolExecutor(threads) as pool:
                sums = [(np.zeros(K), np.zeros(K)) for _ in range(threads)]
                jobs = [
                    pool.submit(count, 0, B, cuts[i], cuts[i + 1], own[i], sums[i][0], sums[i][1])
                    for i in range(threads)
                ]
                for job in jobs:
                    job.result()
            n_start, n_stop = sum(x for x, _ in sums), sum(x for _, x in sums)  # type: ignore[assignment]
            n_trans = n_trans if len(trans) > 1 else sum(own)  # type: ignore[assignment]
            if trouble.any():  # a half may have been counted before the other found trouble: count again in logs
                n_start[:], n_stop[:], n_trans[:] = 0, 0, 0
                trouble[:] = True
        else:

            def run(first: int, last: int, *sums: Array) -> None:
                forward(first, last)
                backward(first, last)
                trouble[first:last] |= other[first:last]
                into = n_trans if len(trans) > 1 else sums[1]
                count(first, last, 0, N, into, sums[0], sums[2])

            shapes = [(K,), (1, K, K), (K,)]
            found = in_shards(run, lengths, N, shapes)
            n_start, n_stop = found[0], found[2]
            n_trans = n_trans if len(trans) > 1 else found[1]
        n_trans *= trans
        log_z += np.where(lengths > 0, start_top + stop_top + (lengths - 1) * trans_top, 0.0)
        log_z += np.add.reduceat(np.append(top, 0.0), self.offsets[:-1]) * (lengths > 0) if B else 0.0
        log_z[lengths == 0] = 0.0
        again = np.flatnonzero(trouble & (lengths > 0))
        if len(again):
            for s in again:  # what the broken pass left
                back[self.offsets[s] : self.offsets[s + 1]] = 0.0
                if len(trans) > 1:
                    n_trans[self.offsets[s] : self.offsets[s + 1]] = 0.0
            logs = (self.start, self.trans, self.stop, self.emit, self.offsets, again, scale, want)
            log_series(*logs, log_z, n_start, n_trans, n_stop, back)
        if not want:
            return torch.from_numpy(log_z), {}
        named = {"start": n_start, "trans": n_trans, "stop": n_stop, "states": back}
        return torch.from_numpy(log_z), {name: torch.from_numpy(x) for name, x in named.items()}

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
        if trouble.any():
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
    """Real weights with a maximum of 1, and the log of what was divided out. What is possible never becomes zero."""
    top = float(logs.max(initial=-np.inf))
    top = 0.0 if top == -np.inf else top
    return kept_exp(logs - top), top
