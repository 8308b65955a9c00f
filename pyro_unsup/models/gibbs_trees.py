"""Hidden trees of sentences under a model whose tables are integrated out: what all models of trees share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..distributions import Posterior
from ..tables import Layout

#: What labels are: heads of words, or 1 for every constituent among spans, or the label of every constituent.
HEADS, SPANS, LABELLED_SPANS = "heads", "spans", "labelled spans"


class TreeState(ABC):
    """A tree for each sentence, and how often everything is drawn.

    Trees are moved a sentence at a time: proposed given the counts of all others, and accepted by Metropolis-Hastings.
    The target is the posterior of the Pyro program, its Dirichlet tables integrated out. At a temperature T it is that
    to the power of 1 / T.

    Chains start from trees that are drawn given the tables which the model's usual start has.

    :param model: a model of trees.
    :param data: what the model accepts as data.
    :param words: (tokens,) its words or tags.
    :param lengths: (B,) of the sentences.
    :param kinds: for each table, the number of its concentration, or (distituents, constituents).
    :param at: for some tables, in which order the kernel has their cells; the others have theirs as they are declared.
    """

    ways = ("blocked",)
    #: How concentrations are treated.
    learns: ClassVar[tuple[str, ...]] = ("fixed", "shared")
    structure: ClassVar[str]
    tables: tuple[tuple[str, ...], str]
    concentrations: tuple[Array, Array]
    labels: Array
    K: int

    def __init__(
        self,
        model: Any,
        data: Any,
        words: Tensor,
        lengths: Tensor,
        kinds: Mapping[str, int | Sequence[int]],
        at: Mapping[str, Array] | None = None,
    ) -> None:
        self._model, self._given = model, data
        self.words = words.long().contiguous().numpy()
        self.lengths = lengths.long().numpy()
        self.offsets = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)
        layouts = {name: one.layout for name, one in model.declarations().items()}
        self._at, first = {}, 0
        for name, layout in layouts.items():
            size = layout.shape.numel()
            self._at[name] = first + (np.arange(size) if at is None or name not in at else at[name]).reshape(
                layout.shape
            )
            first += size
        self.row = np.empty(first, np.int64)
        self.kind, rows = np.zeros(0, np.int64), 0
        for name, layout in layouts.items():
            own, many = rows_of(layout)
            self.row[self._at[name].reshape(-1)] = rows + own
            mine = np.atleast_1d(kinds[name])
            self.kind = np.concatenate([self.kind, np.repeat(mine, many // len(mine))])
            rows += many
        self.outcomes = np.bincount(self.row, minlength=rows)
        self.n, self.totals = np.zeros(first, np.int64), np.zeros(rows, np.int64)

    @property
    def data(self) -> dict[str, Array]:
        """What tells these sentences from others."""
        return {"words": self.words, "offsets": self.offsets}

    def table_counts(self) -> dict[str, Array]:
        """How often the trees use every cell of the model's tables."""
        return {name: self.n[at] for name, at in self._at.items()}

    def log_choices(self, alpha: Array) -> float:
        """Log probability of all draws from the tables that alpha is the concentration of."""
        return float(self._log_rows(alpha, np.ones(len(self.concentrations[1])))[: len(alpha)].sum())

    def log_emissions(self, beta: Array) -> Array:
        """The same of beta, a number for each."""
        return self._log_rows(np.ones(len(self.concentrations[0])), beta)[-len(beta) :]

    def _log_rows(self, alpha: Array, beta: Array) -> Array:  # (kinds,)
        from ..kernels.gibbs_urns import log_rows

        a = np.concatenate([alpha, beta])
        found = np.empty(len(a))
        log_rows(self.n, self.totals, self.row, self.kind, self.outcomes, a, found)
        return found

    def _counted(self, n: Array) -> None:
        self.n = n
        self.totals = np.bincount(self.row, n, minlength=len(self.totals)).astype(np.int64)

    def _urns(self, alpha: Array, beta: Array, power: float) -> Any:
        from ..kernels.gibbs_urns import Urns

        a = np.concatenate([alpha, beta]).astype(np.float64)[self.kind]
        room = np.empty(len(self.n)), np.empty(len(self.totals))
        return Urns(self.n, self.totals, self.row, a, a * self.outcomes, *room, float(power))

    def draw_start(self, rng: np.random.Generator) -> None:
        """A tree for each sentence, given the tables of the model's usual start."""
        generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        with torch.no_grad():
            weights = self._start()(self._model.declarations(), generator)
            self.labels = self.posterior(weights).sample(generator=generator).numpy()

    @abstractmethod
    def posterior(self, weights: Mapping[str, Tensor]) -> Posterior:
        """The trees of these sentences given log-weights of the model's tables."""

    @abstractmethod
    def _start(self) -> Any:
        """The model's usual start for these sentences."""

    def sweep(self, how: str, alpha: Array, beta: Array, power: float, rng: np.random.Generator) -> float:
        """Propose a new tree for each sentence. What share of the proposals was accepted."""
        proposed, accepted = self._sweep(self._urns(alpha, beta, power), rng)
        return accepted / proposed if proposed else 1.0

    @abstractmethod
    def _sweep(self, urns: Any, rng: np.random.Generator) -> tuple[int, int]:
        """How many trees were proposed, and how many accepted."""


def rows_of(layout: Layout) -> tuple[Array, int]:
    """The row of each cell of a table, its cells end to end, and how many rows there are."""
    if layout.row_lengths is not None:
        sizes = layout.row_lengths.numpy()
        return np.repeat(np.arange(len(sizes)), sizes), len(sizes)
    many = layout.shape.numel() // layout.shape[-1]
    return np.repeat(np.arange(many), layout.shape[-1]), many
