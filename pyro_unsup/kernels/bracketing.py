"""Binary trees on CPU: log Z and span posteriors in one pass over a flat ragged corpus, and counts from those."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from .bracketing_pass import count_pass, decode_pass, log_pass, scaled_pass, within
from .limits import LIMIT
from .plumbing import Tables, in_shards, offsets, uniform_numbers


@dataclass
class Spans:
    """Log-weights as the passes want them, and the spans that use them.

    :param tables: yields (Y, 2) and contexts (X, 2), as distituent and constituent; node (W + 1,) and tree (W + 1,).
    :param spans: (spans, 2) the yield and the context of each.
    :param lengths: (B,).
    """

    tables: tuple[Array, Array, Array, Array]
    spans: Array
    lengths: Array

    @staticmethod
    def of_weights(dist: Any, weights: Tables, value: Tensor) -> Spans:
        yields, contexts = (np.stack([*weights[name].double().numpy()], 1) for name in ("yields", "contexts"))
        none = np.zeros(dist.rows.longest + 1)
        node, tree = (
            weights[name].double().contiguous().numpy() if name in weights else none for name in ("node", "tree")
        )
        return Spans((yields, contexts, node, tree), value.contiguous().numpy(), dist.rows.lengths.numpy())

    @staticmethod
    def of_potentials(dist: Any, potentials: Tables) -> Spans:
        """Every span is a type of its own, and sentences weigh nothing."""
        inside = potentials["constituents"].numpy()
        outside = potentials["distituents"].numpy() if "distituents" in potentials else np.zeros_like(inside)
        both = np.stack([outside, inside], 1)
        none, number = np.zeros(dist.rows.longest + 1), np.arange(len(both))
        spans = np.stack([number, np.zeros_like(number)], 1)
        return Spans((both, np.zeros((1, 2)), none, none), spans, dist.rows.lengths.numpy())

    @property
    def offsets(self) -> Array:  # (B + 1,)
        """The first span of each sentence."""
        return offsets(self.lengths * (self.lengths + 1) // 2)

    @property
    def cost(self) -> Array:  # (B,)
        """A sentence takes about as long as its spans and their splits are many."""
        found: Array = self.lengths * (self.lengths + 1) * (self.lengths + 20)
        return found


class Trees:
    """log Z, and counts from the posteriors of spans that the same pass found."""

    def __init__(self, data: Spans, names: tuple[str, ...], dtype: torch.dtype, wanted: bool) -> None:
        self._data, self._names, self._dtype = data, names, dtype
        log_z, self._marginals = bracketing_pass(data, wanted)
        self.log_z = torch.from_numpy(log_z)

    def counts(self, scale: Tensor) -> Tables:
        weigh = torch.where(self.log_z > -torch.inf, scale, 0.0).contiguous().numpy()
        found = bracketing_counts(self._data, self._marginals, weigh)
        return {name: x.to(self._dtype) for name, x in found.items() if name in self._names}


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> Trees:
    """log Z and expected counts, from weights."""
    return Trees(Spans.of_weights(dist, weights, value), tuple(weights), weights["yields"].dtype, bool(wanted))


def solve(dist: Any, potentials: Tables, scale: Tensor | None) -> tuple[Tensor, Tables]:
    """log Z and marginals, from potentials."""
    log_z, marginals = bracketing_pass(Spans.of_potentials(dist, potentials), True)
    found, yes = torch.from_numpy(log_z), torch.from_numpy(marginals)
    found = torch.where(dist.skipped, found, found + potentials["trees"])
    possible = found > -torch.inf
    there = (possible & ~dist.skipped).to(yes.dtype)
    yes = yes * there[dist.span_cells.owner]
    return found, {"constituents": yes, "distituents": there[dist.span_cells.owner] - yes, "trees": there}


def marginals(dist: Any, weights: Tables, value: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and posteriors of constituents, from weights."""
    log_z, found = bracketing_pass(Spans.of_weights(dist, weights, value), True)
    return torch.from_numpy(log_z), torch.from_numpy(found)


def decode(dist: Any, weights: Tables, value: Tensor, draw: bool, generator: torch.Generator | None) -> Tensor:
    """Constituents (1) and distituents (0) of the best tree, or of a drawn one, from weights."""
    return bracketing_decode(Spans.of_weights(dist, weights, value), draw, generator)


def pick(dist: Any, potentials: Tables, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The same from potentials."""
    return bracketing_decode(Spans.of_potentials(dist, potentials), draw, generator)


def spans_within(spans: Tensor, yields: int, contexts: int) -> bool:  # (spans, 2)
    """Whether every span has a yield and a context below these numbers."""
    return bool(within(spans.contiguous().numpy(), yields, contexts))


def bracketing_pass(data: Spans, want_marginals: bool) -> tuple[Array, Array]:
    """log Z of each sentence, (B,), and the posterior of each span, (spans,): 0 where a sentence has no tree at all."""
    B, starts, lengths = len(data.lengths), data.offsets, data.lengths
    log_z, trouble = np.zeros(B), np.zeros(B, bool)
    marginals = np.empty(len(data.spans) if want_marginals else 0)
    limit = LIMIT[np.dtype(np.float64)]

    given, out = (*data.tables, data.spans, lengths, starts), (limit, log_z, trouble, marginals)

    def run(first: int, last: int) -> None:
        scaled_pass(*given, np.arange(first, last), *out)

    in_shards(run, data.cost, int(lengths.sum()))
    again = np.flatnonzero(trouble)
    if len(again):
        log_pass(*given, again, *out)
    return log_z, marginals


def bracketing_counts(data: Spans, marginals: Array, scale: Array) -> Tables:  # (spans,), (B,)
    """How often each weight is expected to be used, each sentence weighed by its scale; 0 leaves a sentence out."""

    def run(first: int, last: int, *counts: Array) -> None:
        count_pass(data.spans, data.lengths, data.offsets, first, last, scale, marginals, *counts)

    counts = in_shards(run, data.cost, int(data.lengths.sum()), [x.shape for x in data.tables])
    names = ("yields", "contexts", "node", "tree")
    return {name: torch.from_numpy(np.ascontiguousarray(x.T)) for name, x in zip(names, counts, strict=True)}


def bracketing_decode(data: Spans, draw: bool, generator: torch.Generator | None) -> Tensor:  # (spans,)
    """The tree with the highest weight, or a drawn one: 1 for constituents, 0 for others; -1 where there is none."""
    structure, words = np.empty(len(data.spans), np.int64), int(data.lengths.sum())
    uniforms = uniform_numbers(draw, words, generator=generator)
    given = (*data.tables, data.spans, data.lengths, data.offsets, offsets(data.lengths))

    def run(first: int, last: int) -> None:
        decode_pass(*given, first, last, uniforms, structure)

    in_shards(run, data.cost, words)
    return torch.from_numpy(structure)
