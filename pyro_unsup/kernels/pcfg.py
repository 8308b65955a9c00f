"""Labelled trees on CPU: log Z and expected counts in one pass over a flat ragged corpus, and decoding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from .dependency import as_array
from .limits import LIMIT
from .pcfg_decode import best_trees, log_draw, scaled_draw
from .pcfg_pass import log_pass, scaled_pass
from .plumbing import OnePass, Tables, in_shards, offsets, uniform_numbers

#: Multiplications of the recursion that take the time of one token of a chain, by which :func:`.threads_for` counts.
STEPS_A_TOKEN = 1000
#: There are less than 4^m binary trees with m nodes.
NODE = 1 / 4

Blocks = tuple[Array, tuple[Array, Array, Array]]


@dataclass
class Grammar:
    """Log-weights as the passes want them, and the words that use them.

    :param root: (N,).
    :param rules: (N, N + P, N + P).
    :param emit: (types, P).
    :param types: (tokens,) among the rows of ``emit``.
    :param labels: (spans of two words or more, N) more for the label of each span, or no rows.
    :param lengths: (B,).
    """

    root: Array
    rules: Array
    emit: Array
    types: Array
    labels: Array
    lengths: Array

    @staticmethod
    def of_weights(dist: Any, weights: Tables, value: Tensor) -> Grammar:
        root, rules, emission = (as_array(weights[name]) for name in ("root", "rules", "emission"))
        types = value.long().contiguous().numpy()
        emit = np.ascontiguousarray(emission.T)
        return Grammar(root, rules, emit, types, np.empty((0, len(root))), dist.rows.lengths.numpy())

    @staticmethod
    def of_potentials(dist: Any, potentials: Tables) -> Grammar:
        """Every word is a type of its own, and the root's weights are among those of labels."""
        labels, N = as_array(potentials["labels"]), dist.sizes["N"]
        M = labels.shape[1]
        rules = as_array(potentials["rules"]) if "rules" in potentials else np.zeros((N, M, M))
        wide = dist.span_cells.width.numpy() > 1
        emit, tokens = np.ascontiguousarray(labels[~wide, N:]), dist.rows.size
        inner = np.ascontiguousarray(labels[wide, :N])
        return Grammar(np.zeros(N), rules, emit, np.arange(tokens), inner, dist.rows.lengths.numpy())

    def blocks(self, rules: Array) -> Blocks:
        """Rules by whether their parts are words: both wider (N, N N); then by the word (P, ...): a word and a wider
        part, a wider part and a word, and two words by the left one."""
        N, P = len(self.root), self.emit.shape[1]
        both = np.ascontiguousarray(rules[:, :N, :N]).reshape(N, N * N)
        left = np.ascontiguousarray(rules[:, N:, :N].transpose(1, 0, 2)).reshape(P, N * N)
        right = np.ascontiguousarray(rules[:, :N, N:].transpose(2, 0, 1)).reshape(P, N * N)
        two = np.ascontiguousarray(rules[:, N:, N:].transpose(1, 0, 2)).reshape(P, N * P)
        return both, (left, right, two)

    def whole(self, both: Array, left: Array, right: Array, two: Array) -> Array:  # (N, N + P, N + P)
        """Blocks as one table again."""
        N, P = len(self.root), self.emit.shape[1]
        found = np.empty((N, N + P, N + P))
        found[:, :N, :N] = both.reshape(N, N, N)
        found[:, N:, :N] = left.reshape(P, N, N).transpose(1, 0, 2)
        found[:, :N, N:] = right.reshape(P, N, N).transpose(1, 2, 0)
        found[:, N:, N:] = two.reshape(P, N, P).transpose(1, 0, 2)
        return found

    @cached_property
    def scaled(self) -> tuple[Array, float]:
        """Rules as real numbers, no sum of which over two of their labels exceeds 1/4; and the log of their divisor."""
        top = self.rules.max() if self.rules.size else -np.inf
        top = float(top) if top > -np.inf else 0.0
        real: Array = np.exp(self.rules - top)
        most = max((float(real.sum(axes).max()) for axes in ((1, 2), (0, 2), (0, 1))), default=0.0) / NODE
        most = most if most > 0 else 1.0
        return real / most, top + float(np.log(most))

    @property
    def places(self) -> tuple[Array, Array]:
        """The first word and the first span of each sentence, (B + 1,) both."""
        return offsets(self.lengths), offsets(self.lengths * (self.lengths + 1) // 2)

    @property
    def cost(self) -> Array:  # (B,)
        """About how many multiplications each sentence takes."""
        N, P, n = len(self.root), self.emit.shape[1], self.lengths.astype(np.float64)
        found: Array = n * n * N * N * (N + n) + n * N * P * (2 * N + P) + 1.0
        return found

    @property
    def work(self) -> int:
        """How much that is in tokens of a chain."""
        return int(self.cost.sum() / STEPS_A_TOKEN)


@dataclass
class GrammarSums:
    """What a pass finds, all float64.

    :param log_z: (B,).
    :param root: (N,) expected counts, each sentence weighed by its scale; so are the next two. Empty if not wanted.
    :param rules: (N, N + P, N + P).
    :param emit: (types, P).
    :param marginals: (spans, N + P) posteriors of labels, no rows if not wanted.
    """

    log_z: Array
    root: Array
    rules: Array
    emit: Array
    marginals: Array


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> OnePass:
    """log Z and expected counts, from weights."""
    data, dtype = Grammar.of_weights(dist, weights, value), weights["root"].dtype

    def run(scale: Array | None, want: bool) -> tuple[Tensor, Tables]:
        found = grammar_pass(data, scale, want, False)
        counts = {"root": found.root, "rules": found.rules, "emission": found.emit.T} if want else {}
        return torch.from_numpy(found.log_z), {name: torch.from_numpy(x).to(dtype) for name, x in counts.items()}

    return OnePass(run, bool(wanted))


def solve(dist: Any, potentials: Tables, scale: Tensor | None) -> tuple[Tensor, Tables]:
    """log Z and marginals, from potentials."""
    weigh = None if scale is None else scale.contiguous().numpy()
    found = grammar_pass(Grammar.of_potentials(dist, potentials), weigh, True, True)
    parts = {"labels": torch.from_numpy(found.marginals), "rules": torch.from_numpy(found.rules)}
    return torch.from_numpy(found.log_z), parts


def marginals(dist: Any, weights: Tables, value: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and posteriors of labels, from weights."""
    found = grammar_pass(Grammar.of_weights(dist, weights, value), None, False, True)
    return torch.from_numpy(found.log_z), torch.from_numpy(found.marginals)


def decode(dist: Any, weights: Tables, value: Tensor, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The labels of the best tree of each sentence, or of a drawn one, from weights; -1 for all that is not in it."""
    return grammar_decode(Grammar.of_weights(dist, weights, value), draw, generator)


def pick(dist: Any, potentials: Tables, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The same from potentials."""
    return grammar_decode(Grammar.of_potentials(dist, potentials), draw, generator)


def grammar_pass(data: Grammar, scale: Array | None, want_counts: bool, want_marginals: bool) -> GrammarSums:
    """log Z of each sentence, expected counts, and the posteriors of labels."""
    starts, edges = data.places
    B, N, P = len(data.lengths), len(data.root), data.emit.shape[1]
    weigh = np.empty(0) if not want_counts else np.ones(B) if scale is None else scale
    log_z, trouble = np.zeros(B), np.zeros(B, bool)
    found = np.empty((edges[-1] if want_marginals else 0, N + P))
    real, unit = data.scaled
    limit, where = LIMIT[np.dtype(np.float64)], (data.emit, data.types, data.labels, starts, edges)
    tables, out = (data.root, *data.blocks(real), unit, *where), (limit, weigh, log_z, trouble, found)

    def run(first: int, last: int, *counts: Array) -> None:
        scaled_pass(*tables, np.arange(first, last), *out, *counts)

    shapes = [(N,), (N, N * N), (P, N * N), (P, N * N), (P, N * P), data.emit.shape]
    shapes = shapes if want_counts else [(0,) * len(shape) for shape in shapes]
    root, *blocks, emit = in_shards(run, data.cost, data.work, shapes, blas=True)
    rules = data.whole(*blocks) * real if want_counts else np.empty(0)
    again = np.flatnonzero(trouble)
    if len(again):
        more = [np.zeros_like(x) for x in blocks]
        both, beside = data.blocks(data.rules)
        log_pass(data.root, both, beside, 0.0, *where, again, *out, root, *more, emit)
        rules = rules + data.whole(*more) if want_counts else rules
    return GrammarSums(log_z, root, rules, emit, found)


def grammar_decode(data: Grammar, draw: bool, generator: torch.Generator | None) -> Tensor:  # (spans,)
    """The labels of the best tree of each sentence, or of a drawn one; -1 for spans that are not in it."""
    starts, edges = data.places
    structure, trouble = np.empty(edges[-1], np.int64), np.zeros(len(data.lengths), bool)
    uniforms = uniform_numbers(draw, len(data.types), generator=generator)
    limit, where = LIMIT[np.dtype(np.float64)], (data.emit, data.types, data.labels, starts, edges)
    logs = (data.root, *data.blocks(data.rules), *where)
    real = (data.root, *data.blocks(data.scaled[0]), *where) if draw else logs
    out = (limit, uniforms, trouble, structure)

    def run(first: int, last: int) -> None:
        (scaled_draw if draw else best_trees)(*real, np.arange(first, last), *out)

    in_shards(run, data.cost, data.work, blas=True)
    again = np.flatnonzero(trouble)
    if len(again):
        log_draw(*logs, again, *out)
    return torch.from_numpy(structure)
