"""Headed binary trees on CPU: log Z and posteriors in one pass over a flat ragged corpus, counts, and decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from ..array import Array
from .bracketing import Spans, bracketing_counts
from .dependency import Sentences, dependency_decode, scaled_ends
from .dependency_pass import count
from .headed_bracketing_pass import decode_pass, log_pass, scaled_pass
from .limits import LIMIT
from .plumbing import Tables, in_shards, offsets, uniform_numbers

#: Log-weights of single arcs may come beside the tables.
TAKES = ("arcs",)


@dataclass
class Headed:
    """Sentences with the weights of arcs, decisions and spans.

    :param left_first: heads take the children on their left first.
    """

    words: Sentences
    spans: Spans
    left_first: bool

    @staticmethod
    def of_weights(dist: Any, weights: Tables, value: Tensor) -> Headed:
        spans = Spans.of_weights(dist, weights, dist.spans)
        return Headed(Sentences.of_weights(dist, weights, value), spans, dist.order == "left")

    @staticmethod
    def of_potentials(dist: Any, potentials: Tables) -> Headed:
        spans = Spans.of_potentials(dist, potentials)
        return Headed(Sentences.of_potentials(dist, potentials), spans, dist.order == "left")

    def arrays(self) -> tuple[Any, ...]:
        """As the passes want them: with the first word, cell of arcs and span of each sentence."""
        words, spans = self.words, self.spans
        return words.tags, words.types, spans.spans, *words.places, spans.offsets, self.left_first

    @property
    def cost(self) -> Array:  # (B,)
        n = self.words.lengths
        found: Array = n * n * (n * n + 50)
        return found

    @property
    def tokens(self) -> int:
        return int(self.words.lengths.sum())


@dataclass
class HeadedSums:
    """What a pass finds, all float64. Posteriors are 0 where a sentence has no tree at all, and empty if not wanted.

    :param log_z: (B,).
    :param arcs: (cells,) posterior of each arc.
    :param decisions: (tokens, 2, 2, 2) how often each word is expected to decide so.
    :param spans: (spans,) posterior of each span.
    """

    log_z: Array
    arcs: Array
    decisions: Array
    spans: Array


class HeadedTrees:
    """log Z, and counts from the posteriors that the same pass found."""

    def __init__(self, data: Headed, names: tuple[str, ...], dtype: torch.dtype, wanted: bool) -> None:
        self._data, self._names, self._dtype = data, names, dtype
        self._found = headed_pass(data, wanted)
        self.log_z = torch.from_numpy(self._found.log_z)

    def counts(self, scale: Tensor) -> Tables:
        weigh = torch.where(self.log_z > -torch.inf, scale, 0.0).contiguous().numpy()
        found = {**self._of_words(weigh), **bracketing_counts(self._data.spans, self._found.spans, weigh)}
        return {name: x.to(self._dtype) for name, x in found.items() if name in self._names}

    def _of_words(self, scale: Array) -> Tables:  # (B,)
        data, found = self._data.words, self._found
        starts, corners = data.places
        given = data.tags, starts, corners, scale, found.arcs, found.decisions

        def run(first: int, last: int, *counts: Array) -> None:
            _count_pass(*given, first, last, *counts)

        shapes = [x.shape for x in (data.root, data.attach, data.stop)]
        counts = in_shards(run, self._data.cost, self._data.tokens, shapes)
        arcs = found.arcs * np.repeat(scale, data.lengths * (data.lengths + 1))
        names = ("root", "attach", "stop", "arcs")
        counts[1] = counts[1][:, :, 0]
        return {name: torch.from_numpy(x) for name, x in zip(names, (*counts, arcs), strict=True)}


def sums(dist: Any, weights: Tables, value: Tensor, wanted: frozenset[str]) -> HeadedTrees:
    """log Z and expected counts, from weights."""
    return HeadedTrees(Headed.of_weights(dist, weights, value), tuple(weights), weights["root"].dtype, bool(wanted))


def solve(dist: Any, potentials: Tables, scale: Tensor | None) -> tuple[Tensor, Tables]:
    """log Z and marginals, from potentials."""
    found = headed_pass(Headed.of_potentials(dist, potentials), True)
    log_z = torch.from_numpy(found.log_z)
    log_z = torch.where(dist.skipped, log_z, log_z + potentials["trees"])
    there = ((log_z > -torch.inf) & ~dist.skipped).double()
    in_cell, in_span, in_word = (there[x] for x in (dist.arc_cells.owner, dist.span_cells.owner, dist.rows.owner))
    yes = torch.from_numpy(found.spans) * in_span
    return log_z, {
        "arcs": torch.from_numpy(found.arcs) * in_cell,
        "decisions": torch.from_numpy(found.decisions) * in_word[:, None, None, None],
        "constituents": yes,
        "distituents": in_span - yes,
        "trees": there,
    }


def marginals(dist: Any, weights: Tables, value: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and posteriors of arcs, from weights."""
    found = headed_pass(Headed.of_weights(dist, weights, value), True)
    return torch.from_numpy(found.log_z), torch.from_numpy(found.arcs)


def decode(dist: Any, weights: Tables, value: Tensor, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The heads of the best tree of each sentence, or of a drawn one, from weights; -1 where there is no tree."""
    return headed_decode(Headed.of_weights(dist, weights, value), draw, generator)


def pick(dist: Any, potentials: Tables, draw: bool, generator: torch.Generator | None) -> Tensor:
    """The same from potentials."""
    if "constituents" not in potentials:  # without them, trees are those of dependencies
        return dependency_decode(Sentences.of_potentials(dist, potentials), draw, generator)
    return headed_decode(Headed.of_potentials(dist, potentials), draw, generator)


def headed_pass(data: Headed, want_posteriors: bool) -> HeadedSums:
    """log Z of each sentence, and the posteriors of its arcs, decisions and spans."""
    words, where, B = data.words, data.arrays(), len(data.words.lengths)
    log_z, trouble = np.zeros(B), np.zeros(B, bool)
    sizes = (len(words.tags), words.places[1][-1], len(data.spans.spans)) if want_posteriors else (0, 0, 0)
    found = np.empty(sizes[1]), np.empty((sizes[0], 2, 2, 2)), np.empty(sizes[2])
    best, ends, stops = scaled_ends(words.stop)
    onward = words.attach if len(words.best) else words.attach + best[:, :, 1, None, None]
    extra = words.best if len(words.best) else words.arcs
    scaled = words.root, onward, ends, stops, extra, *data.spans.tables
    limit = LIMIT[np.dtype(np.float64)]

    def run(first: int, last: int) -> None:
        scaled_pass(scaled, where, np.arange(first, last), limit, log_z, trouble, *found)

    in_shards(run, data.cost, data.tokens)
    again = np.flatnonzero(trouble)
    if len(again):
        tables = words.root, words.attach, words.stop, stops, words.arcs, *data.spans.tables
        log_pass(tables, where, again, limit, log_z, trouble, *found)
    return HeadedSums(log_z, *found)


def headed_decode(data: Headed, draw: bool, generator: torch.Generator | None) -> Tensor:  # (tokens,)
    """The heads of the best tree of each sentence, or of a drawn one; -1 where there is no tree."""
    words = data.words
    heads = np.empty(len(words.tags), np.int64)
    uniforms = uniform_numbers(draw, len(heads), 2, generator=generator)
    tables = words.root, words.attach, words.stop, np.empty(0), words.arcs, *data.spans.tables
    where = data.arrays()

    def run(first: int, last: int) -> None:
        decode_pass(tables, where, first, last, uniforms, heads)

    in_shards(run, data.cost, data.tokens)
    return torch.from_numpy(heads)


def brackets_of_heads(heads: Array, lengths: Array, left_first: bool) -> Tensor:  # (tokens,), (B,) -> (spans,)
    """The spans of the binary trees that go with heads: 1 in the tree, 0 not in it; -1 where heads are."""
    found = np.zeros(int((lengths * (lengths + 1) // 2).sum()), np.int64)
    _brackets(heads, offsets(lengths), offsets(lengths * (lengths + 1) // 2), left_first, found)
    return torch.from_numpy(found)


@njit(cache=True, nogil=True)
def _brackets(heads: Array, starts: Array, edges: Array, left_first: bool, found: Array) -> None:
    for b in range(len(starts) - 1):
        mine, n = heads[starts[b] : starts[b + 1]], starts[b + 1] - starts[b]
        here = found[edges[b] : edges[b + 1]]
        if n > 0 and mine.min() < 0:
            here[:] = -1
            continue
        spans_of_heads(mine, left_first, here)


@njit(cache=True, nogil=True)
def spans_of_heads(heads: Array, left_first: bool, found: Array) -> None:  # (n,), (n (n + 1) / 2,)
    """Mark the constituents of the tree that goes with the heads of a sentence; others stay as they are."""
    n = len(heads)
    start, end = np.arange(n), np.arange(n) + 1  # of the span of a word with all below it
    for c in range(n):
        h = heads[c]
        while h > 0:
            start[h - 1], end[h - 1] = min(start[h - 1], c), max(end[h - 1], c + 1)
            h = heads[h - 1]
    for c in range(n):
        found[c] = 1
        h = heads[c] - 1
        if h < 0:
            continue
        # The child goes to a head that has all of the other side already, or nothing of it yet.
        if left_first:
            i, j = (start[c], h + 1) if c < h else (start[h], end[c])
        else:
            i, j = (h, end[c]) if c > h else (start[c], end[h])
        w = j - i
        found[(w - 1) * n - (w - 1) * (w - 2) // 2 + i] = 1


@njit(cache=True, nogil=True)
def _count_pass(
    tags: Array,  # (tokens,)
    starts: Array,  # (B + 1,) of the tokens
    corners: Array,  # (B + 1,) of the cells
    scale: Array,  # (B,)
    arcs: Array,  # (cells,)
    decisions: Array,  # (tokens, 2, 2, 2)
    first: int,  # which sentences
    last: int,
    n_root: Array,  # (K,) added to
    n_attach: Array,  # (K, 2, 1, K) added to
    n_stop: Array,  # (K, 2, 2, 2) added to
) -> None:
    none, nothing = np.empty((0, 1)), np.empty((0, 2, 2, 2))
    for b in range(first, last):
        at, end = starts[b], starts[b + 1]
        arc = arcs[corners[b] : corners[b + 1]].reshape(1, end - at, end - at + 1)
        words = tags[at:end]
        count(words, words, 0, 0, scale[b], arc, decisions[at:end], n_root, n_attach, n_stop, none, nothing)
