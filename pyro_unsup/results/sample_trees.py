"""Sampled trees: what most draws say, numbers that sum them up, and how far chains agree."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..distributions.cells import arc_lengths, arcs_of, span_lengths, spans_of
from ..models.gibbs_trees import HEADS, LABELLED_SPANS, TreeState
from .sample_tables import posterior_shapes

if TYPE_CHECKING:
    from .samples import Samples


def structure_of(model: Any) -> str | None:
    """What the labels of a model's sampler are, if they make trees."""
    state = model.gibbs_state() if hasattr(model, "gibbs_state") else None
    return state.structure if isinstance(state, type) and issubclass(state, TreeState) else None


class Trees:
    """Trees of sentences.

    :param model: that they were sampled under.
    :param lengths: (B,) of the sentences.
    """

    def __init__(self, model: Any, lengths: Array) -> None:
        self.model, self.structure = model, structure_of(model)
        n = torch.from_numpy(np.asarray(lengths, np.int64))
        # A grammar's sentences of one word have no tree.
        self.lengths = torch.where(n == 1, 0, n) if self.structure == LABELLED_SPANS else n

    @property
    def units(self) -> int:
        """How many labels there are."""
        return int((self.lengths if self.structure == HEADS else span_lengths(self.lengths)).sum())

    @cached_property
    def _place(self) -> Array:  # (tokens,)
        """Of each word its place in the sentence, from 1."""
        _, head, child = arcs_of(self.lengths)
        return child[head == 0].numpy()

    @cached_property
    def _spans(self) -> tuple[Array, Array, Array]:  # (spans,) each
        """Start and end of every span, and whether it is neither a word nor a sentence."""
        owner, start, end = spans_of(self.lengths)
        inner = (end - start > 1) & (end - start < self.lengths[owner])
        return start.numpy(), end.numpy(), inner.numpy()

    @cached_property
    def _at_end(self) -> Array:  # (spans,)
        owner, _, end = spans_of(self.lengths)
        return (end == self.lengths[owner]).numpy()

    def inside(self, labels: Array) -> Array:  # (..., spans) bool
        """Which spans are constituents."""
        found: Array = labels >= 0 if self.structure == LABELLED_SPANS else labels == 1
        return found

    def numbers(self, labels: Array) -> dict[str, float]:  # (units,)
        """What sums up a tree for each sentence. Of heads: ``arc_length``, how far they are from their words on
        average, and ``left_arcs``, the share of them that stand before. Of spans, words and sentences left out: how
        many words constituents have, ``width``, and which share ends where the sentence ends, ``at_end``."""
        if self.structure == HEADS:
            arcs = labels > 0
            many = max(1, int(arcs.sum()))
            apart = labels[arcs] - self._place[arcs]
            return {"arc_length": float(np.abs(apart).sum() / many), "left_arcs": float((apart < 0).sum() / many)}
        start, end, inner = self._spans
        some = self.inside(labels) & inner
        many = max(1, int(some.sum()))
        return {"width": float((end - start)[some].sum() / many), "at_end": float(self._at_end[some].sum() / many)}

    def in_common(self, one: Array, other: Array) -> float:  # (units,)
        """The share of heads that are the same; or of the constituents of one, words and sentences left out, those that
        the other has."""
        if self.structure == HEADS:
            return float((one == other).mean()) if len(one) else 1.0
        inner = self._spans[2]
        mine, others = (self.inside(x) & inner for x in (one, other))
        return float((mine & others).sum() / mine.sum()) if mine.any() else 1.0

    def vote(self, draws: Array, reference: Array, sentences: Any) -> Array:  # (draws, units) -> (units,)
        """The tree with the most expected right parts: heads, or constituents, or constituents with their labels.

        Labels of constituents are but numbers. Those of each draw are first called as in a reference, with which they
        share the most spans.

        :param sentences: that the trees are of, as the model takes them.
        """
        uniform = {name: one.layout.uniform() for name, one in self.model.declarations().items()}
        with torch.no_grad():
            posterior = self.model.gibbs_state()(self.model, sentences).posterior(uniform)
            found: Array = posterior.mbr(torch.from_numpy(self.shares(draws, reference))).numpy()
        return found

    def shares(self, draws: Array, reference: Array) -> Array:
        """The share of draws that have each arc, (cells,), each span, (spans,), or each label, (spans, labels)."""
        if self.structure == HEADS:
            _, head, _ = arcs_of(self.lengths)
            found, first = np.zeros(int(arc_lengths(self.lengths).sum())), np.flatnonzero(head.numpy() == 0)
            for heads in draws:
                found[first + heads] += 1
        elif self.structure == LABELLED_SPANS:
            K = len(self.model.labels)
            found, spans = np.zeros((draws.shape[1], K)), np.arange(draws.shape[1])
            for labels in draws:
                some = labels >= 0
                found[spans[some], self._renamed(labels, reference, K)[some]] += 1
        else:
            found = np.zeros(draws.shape[1])
            for labels in draws:
                found += labels
        shares: Array = found / max(1, len(draws))
        return shares

    @staticmethod
    def _renamed(labels: Array, reference: Array, K: int) -> Array:
        from scipy.optimize import linear_sum_assignment

        both = (labels >= 0) & (reference >= 0)
        counts = np.bincount(reference[both].astype(np.int64) * K + labels[both], minlength=K * K).reshape(K, K)
        rows, columns = linear_sum_assignment(counts, maximize=True)
        name = np.empty(K, np.int64)
        name[columns] = rows
        return name[labels]


def trees_of(samples: Samples) -> Trees:
    """The trees of samples."""
    return Trees(samples.model, np.diff(samples.data["offsets"]))


def mean_weights(samples: Samples, chain: int) -> dict[str, Tensor]:
    """The mean of all tables given the best trees of a chain, as log-weights, with the concentrations of its last
    draw."""
    model, declared = samples.model, samples.model.declarations()
    state = model.gibbs_state()(model, samples.sentences())
    state.labels = samples.best[chain].astype(np.int64)
    numbers = (samples.draws[name][chain, -1] for name in ("alpha", "beta"))
    shapes = posterior_shapes(declared, state.table_counts(), samples.tables, *numbers)
    return {name: declared[name].layout.normalise(shape.log()) for name, shape in shapes.items()}
