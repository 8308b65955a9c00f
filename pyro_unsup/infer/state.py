"""The state of a run: all that the next step needs. A checkpoint keeps it, and a run is resumed from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..tables import LazyTable
from .problem import Problem

#: What a fit keeps of a state, by the names that :class:`.Fit` has for it.
Saved = dict[str, dict[str, Any]]


@dataclass
class State:
    """Where a run is. An engine makes one by ``init``, and the next one by ``step``.

    A state belongs to one run: engines for mini-batches change their running counts in place.

    :param problem: the model on its data. It is not saved.
    :param seed: of the start.
    :param tables: log-weights by table, or running counts that stand for them.
    :param memory: what estimators remember, such as the weights of features.
    :param unconstrained: parameters and latent variables that are not tables, in the space that L-BFGS moves them in.
    :param iteration: updates made before it.
    :param stage: of a schedule. Objectives can be compared within one.
    :param unvisited: by table, rows that no data reached.

    >>> import pyro_unsup as pu
    >>> engine = pu.EM(pu.models.Tagger(tags=2, vocab=2))
    >>> state = engine.init([[0, 1], [1, 1]])
    >>> state, info = engine.step(state)
    >>> state.iteration, info.iteration, sorted(state.weights)
    (1, 0, ['emission', 'start', 'transition'])
    """

    problem: Problem = field(repr=False, compare=False)
    seed: int
    tables: dict[str, Tensor | LazyTable]
    memory: dict[str, Tensor] = field(default_factory=dict)
    unconstrained: dict[str, Tensor] = field(default_factory=dict)
    iteration: int = 0
    stage: int = 0
    unvisited: dict[str, int] = field(default_factory=dict)

    @property
    def weights(self) -> dict[str, Tensor]:
        """Log-weights by table, whole tables."""
        return {name: w.log_weights() if isinstance(w, LazyTable) else w for name, w in self.tables.items()}

    def log_prior(self) -> float:
        """What the estimators add to the log-likelihood."""
        return self.problem.estimation.log_prior(self.weights, self.memory)

    def own(self) -> dict[str, Tensor]:
        """What the algorithm itself keeps, to be saved. Copies, where it changes in place."""
        return {}

    def saved(self) -> Saved:
        """What a fit keeps of it."""
        params, points = self.problem.parameters.constrained(self.unconstrained)
        return {
            "weights": self.weights,
            "memory": dict(self.memory),
            "features": self.problem.estimation.names(),
            "points": points,
            "params": params,
            "unconstrained": dict(self.unconstrained),
            "state": self.own(),
        }
