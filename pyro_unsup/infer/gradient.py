"""The direct gradient: L-BFGS on the log marginal itself, in the space of feature weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..errors import FitError, TableError
from ..estimate import Differentiable, LogLinear
from ..estimate.features.lbfgs import LBFGS, Point
from ..kernels.threads import plain_torch
from ..results import Fit
from .engine import Engine
from .estimation import Estimate
from .init import Initial
from .loop import Info
from .shares import Data, same_data
from .state import Problem, State, checked


@dataclass(frozen=True, eq=False)
class Evaluated(Point):
    """A point with what was found there."""

    memory: dict[str, Tensor]
    weights: dict[str, Tensor]
    log_marginal: float


class Gradient(Engine):
    """Climbs the log-likelihood (minus the prior on weights) directly, one accepted L-BFGS step an iteration [1].

    An evaluation is one E step, as EM has it, and a product with the feature matrix:

        gradient = F' (expected counts - row totals * theta) - 2 kappa w

    EM climbs a bound that it moves after every M step; the direct gradient climbs the same function without one, by
    steps that know of its curvature. With features it tends to end at better structure [1], and is more fragile: starts
    that end equally high can differ much in structure, so try several (``restarts``).

    :param estimate: :class:`.LogLinear`, one for all tables or by table name. Others then have a feature for each cell
        and no prior, which is also the default for all: the stationary points are then those of EM.
    :param init: only with ``LogLinear(fit_start=True)``; else weights start small and random.
    :param history: steps that L-BFGS remembers.

    Other parameters as for :class:`.EM`. The history has a column ``evaluations``: E steps up to there, a few more than
    iterations. A run ends when the objective's relative change is small, as for EM; L-BFGS may pause, so give a small
    ``tolerance`` (0 goes on until no step leads up).

        >>> import pyro_unsup as pu
        >>> sentences = [[0, 1], [0, 1, 1], [1, 0, 1]]
        >>> fit = pu.Gradient(pu.models.Tagger(tags=2, vocab=2), pu.LogLinear(kappa=0.1)).run(sentences, iterations=20)
        >>> fit.report.iterations <= 20 and int(fit.history.evaluations.iloc[-1]) > fit.report.iterations
        True

    The gradient itself, for another optimiser::

        >>> engine = pu.Gradient(pu.models.Tagger(tags=2, vocab=2), pu.LogLinear(kappa=0.1))
        >>> state = engine.init([[0, 1], [0, 1, 1]])
        >>> {name: tuple(slope.shape) for name, slope in engine.gradient(state).items()}
        {'features': (10,)}

    **References:** [1] T. Berg-Kirkpatrick, A. Bouchard-Côté, J. DeNero and D. Klein (2010) "Painless unsupervised
    learning with features", algorithm 2.
    """

    ITERATIONS = 300

    def __init__(
        self,
        model: Callable[..., Any],
        estimate: Estimate | None = None,
        init: Initial | None = None,
        *,
        history: int = 10,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(model, estimate, init, dtype=dtype)
        if isinstance(history, bool) or not isinstance(history, int) or history < 1:
            raise FitError(f"history must be a whole number, 1 or more, actual {history!r:.80}")
        self.history = history

    def begin(self, state: State) -> GradientState:
        """The state before the first evaluation."""
        self._refuse(state.problem)
        return GradientState(**vars(state))

    def e_step(self, state: GradientState) -> tuple[Info, Evaluated]:
        """The objective here. After a step it is known, for the step evaluated it."""
        if state.here is None:
            here = self._evaluate(state, self._flat(state, state.memory))
            if not math.isfinite(here.value):
                checked(state.problem.expect(state.tables, {}, state.iteration), state.iteration)
                raise FitError(f"iteration {state.iteration}: the objective is {here.value}")
            state.here = here
        here = state.here
        scores = {"evaluations": float(state.evaluations)}
        return Info(state.iteration, here.value, here.log_marginal, scores=scores), here

    def m_step(self, state: GradientState, found: Evaluated) -> GradientState:
        """One step uphill, as many evaluations as it takes."""
        state = replace(state)  # counts its evaluations itself
        climber = LBFGS(state.steps, size=self.history)
        there = climber.step(found, lambda x: self._evaluate(state, x))
        moved = replace(state, steps=climber.history, iteration=state.iteration + 1)
        if there is None:
            return replace(moved, stuck=True)
        assert isinstance(there, Evaluated)
        self._check(state, there)
        return replace(moved, here=there, memory=there.memory, tables={**there.weights})

    def converged(self, state: GradientState, rows: Sequence[Info], tolerance: float) -> bool:
        return state.stuck or super().converged(state, rows, tolerance)

    def config(self, state: GradientState) -> dict[str, Any]:
        """What a fit tells of how it was trained."""
        return {"history": self.history, "evaluations": state.evaluations}

    def gradient(self, state: GradientState) -> dict[str, Tensor]:
        """The gradient of the objective where the weights are now, by their names in the memory."""
        here = self._evaluate(state, self._flat(state, state.memory))
        return self._split(state, torch.from_numpy(here.gradient))

    # -- one evaluation

    def _evaluate(self, state: GradientState, x: Array) -> Evaluated:
        estimation, memory = state.problem.estimation, self._split(state, torch.from_numpy(x))
        with plain_torch():
            weights = estimation.tables(memory, self.dtype)
        found = state.problem.expect(weights, {}, state.iteration)
        state.evaluations += 1
        if not math.isfinite(found.log_marginal):  # a step too far
            return Evaluated(x, -math.inf, np.full_like(x, np.nan), memory, weights, found.log_marginal)
        gradient: dict[str, Tensor] = {}
        with plain_torch():
            for group in estimation.groups:
                assert isinstance(group.how, Differentiable)
                own = (group.counts(found.counts), group.counts(weights), group.of(memory))
                gradient |= group.named(group.how.gradient(group.declarations, *own))
            value = found.log_marginal + estimation.log_prior(weights, memory)
        return Evaluated(x, value, self._flat(state, gradient), memory, weights, found.log_marginal)

    def _check(self, state: GradientState, there: Evaluated) -> None:
        """Raise if weights run away."""
        for group in state.problem.estimation.groups:
            assert isinstance(group.how, Differentiable)
            try:
                group.how.check(group.declarations, group.of(there.memory))
            except TableError as error:
                raise FitError(f"iteration {state.iteration}: {error}") from None

    def _flat(self, state: GradientState, memory: Mapping[str, Tensor]) -> Array:
        parts = [memory[key].double().reshape(-1) for key in state.memory]
        found: Array = (parts[0] if len(parts) == 1 else torch.cat(parts)).numpy()
        return found

    def _split(self, state: GradientState, x: Tensor) -> dict[str, Tensor]:
        shapes = {key: now.shape for key, now in state.memory.items()}
        parts = x.split([shape.numel() for shape in shapes.values()])
        return {key: part.reshape(shape) for (key, shape), part in zip(shapes.items(), parts, strict=True)}

    def _refuse(self, problem: Problem) -> None:
        """Raise if this is no model for it."""
        others = [f"parameter '{name}'" for name in problem.parameters.names]
        others += [f"latent variable '{name}'" for name in problem.parameters.points.unconstrained]
        if others:
            raise FitError(
                f"Gradient learns tables only, and the model also has {', '.join(others)}: train it with EM, or with "
                "pyro.infer.SVI"
            )
        estimation = problem.estimation
        wrong = {name: repr(how) for name, how in estimation.plain.items()}
        wrong |= {n: repr(g.how) for g in estimation.groups if not isinstance(g.how, Differentiable)
                  for n in g.declarations}  # fmt: skip
        if wrong:
            name, how = next(iter(wrong.items()))
            raise FitError(f"Gradient climbs in the weights of LogLinear tables, and table '{name}' has {how}: use EM")
        if not problem.exact:
            raise FitError(
                "the counts of this model are a heuristic, not the gradient of its objective, so there is nothing to "
                "climb by: use EM (an Aligner has agreement=None and '2008', which are exact)"
            )

    # -- what there is to know, and to keep

    def default_estimator(self) -> LogLinear:
        return LogLinear()

    def load_state(self, state: GradientState, fit: Fit) -> GradientState:
        loaded: GradientState = super().load_state(state, fit)
        numbers = {int(key.split(".")[1]) for key in fit.state if key.startswith("history.")}
        pairs = [[fit.state[f"history.{i}.{what}"].numpy() for what in ("moved", "lost")] for i in sorted(numbers)]
        if any(x.shape != self._flat(loaded, loaded.memory).shape for pair in pairs for x in pair):
            raise FitError("the fit to go on from remembers steps of other weights: resume with its own templates")
        loaded.steps = [(moved, lost) for moved, lost in pairs][-self.history :]
        # Where it ended is evaluated again, and counted once.
        loaded.evaluations = max(int(fit.state.get("evaluations", torch.tensor(0))) - 1, 0)
        return loaded

    def on(self, state: GradientState, data: Data) -> GradientState:
        if same_data(state.problem.data, data):
            return state
        fresh: GradientState = super().on(state, data)
        return replace(fresh, steps=[], here=None, stuck=False)  # those were of another function


@dataclass
class GradientState(State):
    """Where the climb is.

    :param steps: (place moved, gradient lost) of the last steps, which L-BFGS learns curvature from.
    :param here: what was found where the weights are now.
    :param evaluations: E steps so far.
    :param stuck: whether no step leads up.
    """

    steps: list[tuple[Array, Array]] = field(default_factory=list)
    here: Evaluated | None = None
    evaluations: int = 0
    stuck: bool = False

    def own(self) -> dict[str, Tensor]:
        kept = {
            f"history.{i}.{what}": torch.from_numpy(x)
            for i, pair in enumerate(self.steps)
            for what, x in zip(("moved", "lost"), pair, strict=True)
        }
        return {"evaluations": torch.tensor(self.evaluations), **kept}
