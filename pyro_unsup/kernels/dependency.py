"""Dependency trees on CPU: log Z and expected counts in one pass over a flat ragged corpus, and decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ..array import Array
from .dependency_pass import decode_pass, log_pass, scaled_pass
from .limits import LIMIT
from .plumbing import OnePass, Tables, in_shards, offsets, uniform_numbers

#: Steps of the recursion that take the time of one token of a chain, by which :func:`.threads_for` counts.
STEPS_A_TOKEN = 100

#: Log-weights of single arcs may come beside the tables.
TAKES = ("arcs",)


@dataclass
class Sentences:
    """Log-weights as the passes want them, and the words that use them.

    :param root: (K,).
    :param attach: (K, 2, V, K) axes (head, direction, valence, child).
    :param stop: (T, 2, 2, 2) axes (head, direction, adjacency, decision).
    :param arcs: (cells, 1 or V) more for each arc, or no cells.
    :param best: (cells, 1 or V) the same and the better way to continue of its head, if ``attach`` is without it; or no
        cells.
    :param tags: (tokens,) among the K.
    :param types: (tokens,) among the T.
    :param lengths: (B,).
    """

    root: Array
    attach: Array
    stop: Array
    arcs: Array
    best: Array
    tags: Array
    types: Array
    lengths: Array

    @staticmethod
    def of_weights(dist: Any, weights: Tables, value: Tensor) -> Sentences:
        root, attach, stop = (as_array(weights[name]) for name in ("root", "attach", "stop"))
        attach = attach if dist.valence > 1 else attach[:, :, None]
        arcs = as_array(weights["arcs"])[:, None] if "arcs" in weights else np.empty((0, 1))
        tags = value.long().contiguous().numpy()
        return Sentences(root, attach, stop, arcs, np.empty((0, 1)), tags, tags, dist.rows.lengths.numpy())

    @staticmethod
    def of_potentials(dist: Any, potentials: Tables) -> Sentences:
        """All words have one tag, without weights. Arcs have weights, and every word has its own row of decisions."""
        arcs, cells, tokens = as_array(potentials["arcs"])[:, None], dist.arc_cells, dist.rows.size
        if "valences" in potentials:
            arcs = arcs + as_array(potentials["valences"])
        nothing = np.zeros((1, 2, arcs.shape[1], 1))
        if "decisions" not in potentials:  # all of them are alike
            stop, types = np.zeros((1, 2, 2, 2)), np.zeros(tokens, np.int64)
            none = np.empty((0, 1))
            return Sentences(np.zeros(1), nothing, stop, arcs, none, types, types, dist.rows.lengths.numpy())
        stop = as_array(potentials["decisions"])
        onward = stop.max(2)[..., 1]  # (tokens, 2) the better way to continue
        below = cells.head.numpy() > 0
        best = arcs.copy()
        direction = (cells.head < cells.child).long().numpy()[below]
        best[below] += onward[cells.head_word.numpy()[below], direction][:, None]
        tags, types = np.zeros(tokens, np.int64), np.arange(tokens)
        return Sentences(np.zeros(1), nothing, stop, arcs, best, tags, types, dist.rows.lengths.numpy())

    @property
    def places(self) -> tuple[Array, Array]:
        """The first word and the first cell of each sentence, (B + 1,) both."""
        return offsets(self.lengths), offsets(self.lengths * (self.lengths + 1))

    @property
    def cost(self) -> Array:  # (B,)
        """About how long each sentence takes: its pairs of words times the words between them."""
        found: Array = self.lengths * self.lengths * (self.lengths + 10)
        return found


@dataclass
class DependencySums:
    """What a pass finds, all float64.

    :param log_z: (B,).
    :param counts: of root, attach and stop, each sentence weighed by its scale.
    :param arcs: (cells, V) posterior of each arc, by valence of its head; no cells if not wanted.
    :param decisions: (tokens, 2, 2, 2) how often each word is expected to decide so; empty if not wanted.
    """

    log_z: Array
    counts: list[Array]
    arcs: Array
    decisions: Array


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> OnePass:
    """log Z and expected counts, from weights; and posteriors of arcs, if these have weights of their own."""
    data = Sentences.of_weights(dist, weights, value)

    def run(scale: Array | None, want: bool) -> tuple[Tensor, Tables]:
        found = dependency_pass(data, scale, want, "arcs" in wanted)
        counts = [torch.from_numpy(x).to(weights["root"].dtype) for x in found.counts]
        counts[1] = counts[1] if dist.valence > 1 else counts[1].squeeze(2)
        tables = dict(zip(("root", "attach", "stop"), counts, strict=True))
        if "arcs" in wanted:
            lengths = data.lengths
            arcs = found.arcs.sum(1)
            arcs = arcs if scale is None else arcs * np.repeat(scale, lengths * (lengths + 1))
            tables["arcs"] = torch.from_numpy(arcs)
        return torch.from_numpy(found.log_z), tables

    return OnePass(run, bool(wanted))


def solve(dist: Any, potentials: Tables, scale: Tensor | None) -> tuple[Tensor, Tables]:
    """log Z and marginals, from potentials."""
    found = dependency_pass(Sentences.of_potentials(dist, potentials), None, True, True)
    parts = {"arcs": torch.from_numpy(found.arcs.sum(1)), "decisions": torch.from_numpy(found.decisions)}
    if "valences" in potentials:
        parts["valences"] = torch.from_numpy(found.arcs)
    return torch.from_numpy(found.log_z), parts


def marginals(dist: Any, weights: Tables, value: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and posteriors of arcs, from weights."""
    found = dependency_pass(Sentences.of_weights(dist, weights, value), None, True, True)
    return torch.from_numpy(found.log_z), torch.from_numpy(found.arcs.sum(1))


def decode(dist: Any, weights: Tables, value: Tensor, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The heads of the best tree of each sentence, or of a drawn one, from weights; -1 where there is no tree."""
    return dependency_decode(Sentences.of_weights(dist, weights, value), draw, generator)


def pick(dist: Any, potentials: Tables, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The same from potentials."""
    return dependency_decode(Sentences.of_potentials(dist, potentials), draw, generator)


def dependency_pass(data: Sentences, scale: Array | None, want_counts: bool, want_parts: bool) -> DependencySums:
    """log Z of each sentence, expected counts, and the posteriors of arcs and decisions."""
    starts, corners = data.places
    B = len(data.lengths)
    weigh = np.empty(0) if not want_counts else np.ones(B) if scale is None else scale
    log_z, trouble = np.zeros(B), np.zeros(B, bool)
    marginals = np.empty((corners[-1] if want_parts else 0, data.attach.shape[2]))
    decisions = np.empty((len(data.tags) if want_parts else 0, 2, 2, 2))
    best, ends, stops = scaled_ends(data.stop)
    # Every arc but the root's goes with a decision to continue, whose better way is part of its weight.
    onward = data.attach if len(data.best) else data.attach + best[:, :, 1, None, None]
    extra = data.best if len(data.best) else data.arcs
    limit = LIMIT[np.dtype(np.float64)]
    where = (data.tags, data.types, starts, corners)

    def run(first: int, last: int, *counts: Array) -> None:
        given = (data.root, onward, ends, stops, extra, *where, np.arange(first, last), limit, weigh, log_z, trouble)
        scaled_pass(*given, *counts, marginals, decisions)

    shapes = [data.root.shape, data.attach.shape, data.stop.shape]
    counts = in_shards(run, data.cost, int(data.cost.sum()) // STEPS_A_TOKEN, shapes)
    again = np.flatnonzero(trouble)
    if len(again):
        given = (data.root, data.attach, data.stop, stops, data.arcs, *where, again, limit, weigh, log_z, trouble)
        log_pass(*given, *counts, marginals, decisions)
    return DependencySums(log_z, counts, marginals, decisions)


def dependency_decode(data: Sentences, draw: bool, generator: torch.Generator | None) -> Tensor:  # (tokens,)
    """The heads of the best tree of each sentence, or of a drawn one; -1 where there is no tree."""
    heads = np.empty(len(data.tags), np.int64)
    uniforms = uniform_numbers(draw, len(heads), 2, generator=generator)
    tables = data.root, data.attach, data.stop, data.arcs, data.tags, data.types, *data.places

    def run(first: int, last: int) -> None:
        decode_pass(*tables, first, last, uniforms, heads)

    in_shards(run, data.cost, int(data.cost.sum()) // STEPS_A_TOKEN)
    return torch.from_numpy(heads)


def scaled_ends(stop: Array) -> tuple[Array, Array, Array]:  # (T, 2, 2, 2)
    """Log-weights of the better adjacency, (T, 2, 2), decisions as shares of it, and its stops on both sides, (T,)."""
    best = stop.max(2)  # (T, 2, 2) by head, direction, decision
    ends = np.exp(stop - np.where(best > -np.inf, best, 0.0)[:, :, None])
    return best, ends, best[:, :, 0].sum(1)


def as_array(x: Tensor) -> Array:
    """As the passes want numbers: float64, side by side."""
    return x.detach().double().contiguous().numpy()


def first_bad_tree(heads: Array, lengths: Array) -> int:  # (tokens,), (B,) int64
    """The first sentence whose heads are no projective tree with one root; -1 if all are."""
    return int(_first_bad(heads, offsets(lengths)))


@njit(cache=True, nogil=True)
def _first_bad(heads: Array, starts: Array) -> int:
    for b in range(len(starts) - 1):
        mine = heads[starts[b] : starts[b + 1]]
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
