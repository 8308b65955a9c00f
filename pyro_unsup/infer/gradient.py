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
from .expectation import Expectation, at_iteration
from .init import Initial
from .loop import Info
from .shares import Data, same_data
from .state import Problem, State, checked


@dataclass(frozen=True, eq=False)
class Evaluated(Point):
    """A point with what was found there."""

    memory: dict[str, Tensor]
    weights: dict[str, Tensor]
    unconstrained: dict[str, Tensor]
    log_marginal: float


class Gradient(Engine):
    """Climbs the log-likelihood (minus the prior on weights) directly, one accepted L-BFGS step an iteration [1].

    An evaluation is one E step, as EM has it, and a product with the feature matrix:

        gradient = F' (expected counts - row totals * theta) - 2 kappa w

    Parameters that are not tables (means, rates, networks) climb along with the weights, in the unconstrained space
    that Pyro has for them; their gradient is that of the log-likelihood.

    EM climbs a bound that it moves after every M step; the direct gradient climbs the same function without one, by
    steps that know of its curvature. With features it tends to end at better structure [1], and is more fragile: starts
    that end equally high can differ much in structure, so try several (``restarts``).

    :param estimate: :class:`.LogLinear` or :class:`.Neural`, one for all tables or by table name. Others then have a
        feature for each cell and no prior, which is also the default for all: the stationary points are then those of
        EM.
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
            here = self._evaluate(state, self._here(state))
            if not math.isfinite(here.value):
                checked(state.problem.expect(state.tables, state.unconstrained, state.iteration), state.iteration)
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
        return replace(
            moved, here=there, memory=there.memory, tables={**there.weights}, unconstrained=there.unconstrained
        )

    def converged(self, state: GradientState, rows: Sequence[Info], tolerance: float) -> bool:
        return state.stuck or super().converged(state, rows, tolerance)

    def config(self, state: GradientState) -> dict[str, Any]:
        """What a fit tells of how it was trained."""
        return {"history": self.history, "evaluations": state.evaluations}

    def gradient(self, state: GradientState) -> dict[str, Tensor]:
        """The gradient of the objective where the weights are now, by their names in the memory.

        Parameters that are not tables have their own names, and their gradient is that in unconstrained space.
        """
        here = self._evaluate(state, self._here(state))
        weights, others = self._split(state, torch.from_numpy(here.gradient))
        return {**weights, **others}

    # -- one evaluation

    def _evaluate(self, state: GradientState, x: Array) -> Evaluated:
        estimation, (memory, others) = state.problem.estimation, self._split(state, torch.from_numpy(x))
        with plain_torch():
            weights = estimation.tables(memory, self.dtype)
        found = self._looked(state, weights, others)
        state.evaluations += 1
        nowhere = Evaluated(x, -math.inf, np.full_like(x, np.nan), memory, weights, others, -math.inf)
        if found is None or not math.isfinite(found.log_marginal):  # a step too far
            return nowhere
        gradient: dict[str, Tensor] = {}
        with plain_torch():
            for group in estimation.groups:
                assert isinstance(group.how, Differentiable)
                own = (group.counts(found.counts), group.counts(weights), group.of(memory))
                gradient |= group.named(group.how.gradient(group.declarations, *own))
            value = found.log_marginal + estimation.log_prior(weights, memory)
        slope = self._flat(state, gradient, found.slopes)
        if not np.isfinite(slope).all():
            return nowhere
        return Evaluated(x, value, slope, memory, weights, others, found.log_marginal)

    def _looked(
        self, state: GradientState, weights: dict[str, Tensor], others: dict[str, Tensor]
    ) -> Expectation | None:
        """An E step, with slopes of parameters if there are any; None where parameters are impossible."""
        problem = state.problem
        if not others:
            return problem.expect(weights, {}, state.iteration)
        problem.parameters.write(others)
        try:
            with at_iteration(state.iteration, has_parameters=True), problem.threads():
                return problem.marginal.slopes(weights, *problem.data)
        except FitError:
            if state.evaluations == 0:  # not a step too far, but the start itself
                raise
            return None

    def _check(self, state: GradientState, there: Evaluated) -> None:
        """Raise if weights run away."""
        for group in state.problem.estimation.groups:
            assert isinstance(group.how, Differentiable)
            try:
                group.how.check(group.declarations, group.of(there.memory))
            except TableError as error:
                raise FitError(f"iteration {state.iteration}: {error}") from None

    def _here(self, state: GradientState) -> Array:
        return self._flat(state, state.memory, state.unconstrained)

    def _flat(self, state: GradientState, memory: Mapping[str, Tensor], others: Mapping[str, Tensor]) -> Array:
        """Weights, and parameters that are not tables, end to end. One that is fixed has no slope."""
        parts = [memory[key].double().reshape(-1) for key in state.memory]
        parts += [
            (others[key] if key in others else torch.zeros_like(x)).double().reshape(-1)
            for key, x in state.unconstrained.items()
        ]
        found: Array = (parts[0] if len(parts) == 1 else torch.cat(parts)).numpy()
        return found

    def _split(self, state: GradientState, x: Tensor) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The way back."""
        every = [*state.memory.values(), *state.unconstrained.values()]
        parts = [
            part.reshape(now.shape).to(now.dtype)
            for now, part in zip(every, x.split([now.numel() for now in every]), strict=True)
        ]
        many = len(state.memory)
        memory = dict(zip(state.memory, parts[:many], strict=True))
        return memory, dict(zip(state.unconstrained, parts[many:], strict=True))

    def _refuse(self, problem: Problem) -> None:
        """Raise if this is no model for it."""
        estimation = problem.estimation
        wrong = {name: repr(how) for name, how in estimation.plain.items()}
        wrong |= {n: repr(g.how) for g in estimation.groups if not isinstance(g.how, Differentiable)
                  for n in g.declarations}  # fmt: skip
        if wrong:
            name, how = next(iter(wrong.items()))
            raise FitError(
                f"Gradient climbs in the weights of LogLinear and Neural tables, and table '{name}' has {how}: use EM"
            )
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
        if any(x.shape != self._here(loaded).shape for pair in pairs for x in pair):
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
