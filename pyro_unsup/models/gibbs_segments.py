"""The cuts of sentences into segments under a segmenter whose lexicon is integrated out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..array import Array
from ..errors import StructureError

if TYPE_CHECKING:
    from .segmenter import Segmenter


class SegmentState:
    """For every symbol whether a segment ends there, and how often each type of segment occurs.

    The penalty of the model multiplies its probability, as it does everywhere else: the target is the posterior of the
    penalised model.

    :param model: a segmenter. Its ``stop`` table has the concentration alpha, ``segments`` the concentration beta.
    :param sentences: what the model accepts as data.
    """

    ways = ("pointwise", "blocked")
    #: The tables that alpha and beta are the concentrations of.
    tables: tuple[tuple[str, ...], str] = (("stop",), "segments")
    #: Labels: a segment ends, or it does not.
    K = 2

    def __init__(self, model: Segmenter, sentences: Any) -> None:
        found = model.index(sentences)
        self.cells = np.ascontiguousarray(found.cells.numpy(), dtype=np.int32)
        lengths = found.lengths.numpy()
        self.offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._sentences = int((lengths > 0).sum())
        self._last = self.offsets[1:][lengths > 0] - 1
        self._log_penalty = model._length.numpy()
        self.types = len(model.types) + 1  # whatever is no known type counts as one
        declared = model.declarations()
        self.concentrations = (
            np.array([float(declared["stop"].prior)]),
            np.array([float(declared["segments"].prior)]),
        )
        self._settle(np.ones(len(self.cells), np.int32))

    def __len__(self) -> int:
        return len(self.cells)

    @property
    def data(self) -> dict[str, Array]:
        """What tells these sentences from others."""
        return {"cells": self.cells, "offsets": self.offsets}

    @property
    def labels(self) -> Array:  # (symbols,) int32
        """1 where a segment ends."""
        return self._ends.copy()

    @labels.setter
    def labels(self, ends: Array) -> None:
        if ends.shape != (len(self.cells),) or not np.isin(ends, (0, 1)).all() or not ends[self._last].all():
            raise StructureError(
                f"expected {len(self.cells)} numbers, 1 where a segment ends and 0 inside one, with 1 at the end of "
                "every sentence"
            )
        if self._widths(ends).max() > self.cells.shape[1]:
            raise StructureError(f"a segment has more than the {self.cells.shape[1]} symbols that the model allows")
        self._settle(ends.astype(np.int32))

    def _widths(self, ends: Array) -> Array:
        return np.diff(np.flatnonzero(ends), prepend=-1)

    def _settle(self, ends: Array) -> None:
        self._ends, widths = ends, self._widths(ends)
        found = self.cells[np.flatnonzero(ends), widths - 1]
        self.n = np.bincount(found, minlength=self.types).astype(np.int32)
        self.total = len(found)

    def table_counts(self) -> dict[str, Array]:
        """How often the cuts use every cell of the model's tables."""
        return {"segments": self.n, "stop": np.array([self.total, self._sentences])}

    def draw_start(self, rng: np.random.Generator) -> None:
        """A cut at every other place on average."""
        from ..kernels.gibbs_segments import draw_start

        ends = np.empty(len(self), np.int32)
        draw_start(ends, self.offsets, self.cells.shape[1], rng.random(len(self)))
        self._settle(ends)

    def log_choices(self, alpha: Array) -> float:
        """Log probability of going on and stopping so often, given alpha; and the penalties, which no alpha changes."""
        decisions = np.array([[self.total, self._sentences]], np.int32)
        return _row(decisions, alpha[0]) + float(self._log_penalty[self._widths(self._ends)].sum())

    def log_emissions(self, beta: Array) -> Array:  # (1,) -> (1,)
        """log p(segments | beta), the lexicon integrated out."""
        return np.array([_row(self.n[None], beta[0])])

    def sweep(self, how: str, alpha: Array, beta: Array, power: float, rng: np.random.Generator) -> float:
        """Draw every place between two symbols once. What share of the proposals was accepted: all, if one by one."""
        from ..kernels import gibbs_segments, gibbs_segments_blocked

        state = (self.cells, self.offsets, self._ends, self.n, self.total, self._sentences, self._log_penalty)
        prior = (alpha[0], beta[0], power)
        uniforms = rng.random(len(self))
        if how == "pointwise":
            self.total = int(gibbs_segments.sweep(*state, *prior, uniforms))
            return 1.0
        decisions = rng.random(len(self.offsets) - 1)
        self.total, proposed, accepted = map(int, gibbs_segments_blocked.sweep(*state, *prior, uniforms, decisions))
        return accepted / proposed if proposed else 1.0


def _row(counts: Array, concentration: float) -> float:
    from ..kernels.gibbs_joint import log_choices

    a = np.array([concentration])
    return float(log_choices(counts, counts.sum(1), np.zeros(1, np.int64), a, a * counts.shape[1]))
