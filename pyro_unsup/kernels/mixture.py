"""The mixture on CPU: log Z and counts in one pass over bags of words, each a run of (word, times) cells.

The words of a bag are looked up one by one, and all clusters at once, so a word's log-weights lie side by side. A sum
of logs cannot overflow or underflow: there is nothing to scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ..array import Array
from .plumbing import OnePass, Tables, in_shards

#: Bags that are scored before any of them is counted. Weights and counts are tables of the same size: going to and fro
#: between them bag by bag, each would push the other's frequent words out of the cache.
BLOCK = 8192


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> OnePass:
    """log Z and expected counts, from weights."""
    prior, rows = _logs(weights)
    bags, dtype = value.contiguous().numpy(), weights["words"].dtype

    def run(scale: Array | None, want: bool) -> tuple[Tensor, Tables]:
        log_z, (n_cluster, n_words) = mixture_pass(prior, rows, bags, dist.rows.offsets.numpy(), scale, want)
        found = [torch.from_numpy(n).to(dtype) for n in (n_cluster, n_words)]
        return torch.from_numpy(log_z), {"cluster": found[0], "words": found[1].T} if want else {}

    return OnePass(run, bool(wanted))


def marginals(dist: Any, weights: Tables, value: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and posteriors of clusters, from weights."""
    log_z, found = solve(dist, {"clusters": _scores(dist, weights, value)}, None)
    return log_z, found["clusters"]


def decode(dist: Any, weights: Tables, value: Tensor, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The best cluster of each bag, or a drawn one, from weights; -1 where there is none."""
    return pick(dist, {"clusters": _scores(dist, weights, value)}, draw, generator)


def solve(dist: Any, potentials: Tables, scale: Tensor | None) -> tuple[Tensor, Tables]:
    """log Z and marginals, from potentials."""
    scores = potentials["clusters"]
    log_z = torch.logsumexp(scores, -1)
    shift = log_z.masked_fill(log_z == -torch.inf, 0.0).unsqueeze(-1)  # -inf minus -inf would be NaN
    return log_z, {"clusters": (scores - shift).exp()}


def pick(dist: Any, potentials: Tables, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The best cluster of each bag, or a drawn one, from potentials; -1 where there is none."""
    scores = potentials["clusters"]
    impossible = (scores == -torch.inf).all(-1)
    if not draw:
        return scores.argmax(-1).masked_fill(impossible, -1)
    shares = solve(dist, potentials, None)[1]["clusters"].masked_fill(impossible.unsqueeze(-1), 1.0)
    return torch.multinomial(shares, 1, generator=generator).squeeze(-1).masked_fill(impossible, -1)


def _scores(dist: Any, weights: Tables, value: Tensor) -> Tensor:  # (B, K)
    """log p(bag, cluster)."""
    prior, rows = _logs(weights)
    offsets, bags = dist.rows.offsets.numpy(), value.contiguous().numpy()
    scores = np.empty((len(offsets) - 1, len(prior)))

    def run(first: int, last: int) -> None:
        _score(prior, rows, bags, offsets, first, last, scores[first:last])

    in_shards(run, np.diff(offsets) + 1, int(offsets[-1]))
    return torch.from_numpy(scores)


def _logs(weights: Tables) -> tuple[Array, Array]:  # (K,), (V, K)
    # Counts come back word by word too, and so do weights made of them: from the second iteration on nothing moves.
    return weights["cluster"].double().contiguous().numpy(), weights["words"].T.contiguous().numpy()


def mixture_pass(
    prior: Array,  # (K,)
    rows: Array,  # (V, K)
    bags: Array,  # (cells, 2) int: word, times
    offsets: Array,  # (B + 1,) int64
    scale: Array | None,  # (B,) float64
    want_counts: bool,
) -> tuple[Array, list[Array]]:
    """log Z of each bag, and the expected counts of all of them (each weighed by ``scale``)."""
    B = len(offsets) - 1
    log_z, weigh = np.empty(B), np.ones(B) if scale is None else scale

    def run(first: int, last: int, *sums: Array) -> None:
        block = np.empty((min(BLOCK, last - first), len(prior)))
        for start in range(first, last, BLOCK):
            end = min(start + BLOCK, last)
            # One call each: inside of one compiled function the loops over clusters would not become vector code.
            _score(prior, rows, bags, offsets, start, end, block)
            _posteriors(block, weigh, start, end, log_z)
            if want_counts:
                _count(bags, offsets, start, end, block, *sums)

    shapes = [prior.shape, rows.shape if want_counts else (0, 0)]
    return log_z, in_shards(run, np.diff(offsets) + 1, int(offsets[-1]), shapes)


@njit(cache=True, nogil=True)
def bags_within(bags: Array, types: int) -> bool:  # (cells, 2)
    """Whether every cell has a word below this number, at least once."""
    for i in range(len(bags)):  # noqa: SIM110 (numba compiles loops, not generators)
        if bags[i, 0] < 0 or bags[i, 0] >= types or bags[i, 1] < 1:
            return False
    return True


@njit(cache=True, nogil=True)
def _score(prior, rows, bags, offsets, first, last, out):  # type: ignore[no-untyped-def]
    """log p(bag, cluster), (last - first, K)."""
    K = len(prior)
    for b in range(first, last):
        score = out[b - first]
        for k in range(K):
            score[k] = prior[k]
        for i in range(offsets[b], offsets[b + 1]):
            times, row = float(bags[i, 1]), rows[bags[i, 0]]
            for k in range(K):
                score[k] += times * row[k]


@njit(cache=True, nogil=True)
def _posteriors(scores, scale, first, last, log_z):  # type: ignore[no-untyped-def]
    """From log-weights, (last - first, K), to posteriors times the scale of each bag, in place; and log Z, (B,)."""
    for b in range(first, last):
        score = scores[b - first]
        top = -np.inf
        for k in range(len(score)):
            top = max(top, score[k])
        log_z[b] = top
        if top == -np.inf:
            score[:] = 0.0
            continue
        total = 0.0
        for k in range(len(score)):
            score[k] = np.exp(score[k] - top)
            total += score[k]
        for k in range(len(score)):
            score[k] *= scale[b] / total
        log_z[b] += np.log(total)


@njit(cache=True, nogil=True)
def _count(bags, offsets, first, last, posterior, n_cluster, n_words):  # type: ignore[no-untyped-def]
    """Add posteriors, (last - first, K), to the counts of clusters, (K,), and words, (V, K)."""
    K = len(n_cluster)
    for b in range(first, last):
        p = posterior[b - first]
        for k in range(K):
            n_cluster[k] += p[k]
        for i in range(offsets[b], offsets[b + 1]):
            times, row = float(bags[i, 1]), n_words[bags[i, 0]]
            for k in range(K):
                row[k] += times * p[k]
