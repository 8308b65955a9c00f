"""The direct gradient: L-BFGS on the log marginal itself, in the space of feature weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FitError, TableError
from ..estimate import Differentiable, LogLinear
from ..estimate.features.lbfgs import LBFGS, Array, Point
from ..kernels.threads import plain_torch
from ..results import Fit
from .engine import Engine
from .estimation import Estimate
from .init import Initial
from .loop import Info
from .outcome import State


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
        >>> {name: tuple(slope.shape) for name, slope in engine.gradient([[0, 1], [0, 1, 1]]).items()}
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
        self.evaluations = 0
        self._climber = LBFGS(size=history)
        self._here: Evaluated | None = None
        self._stuck = False
        self._seen: tuple[Any, ...] = ()

    def start(self, *args: Any, seed: int = 0, **kwargs: Any) -> None:
        fresh = self._marginal is None
        super().start(*args, seed=seed, **kwargs)
        if fresh:
            try:
                self._refuse()
            except FitError:
                self._marginal = None
                raise
        data = (*args, *kwargs.values())
        if len(data) != len(self._seen) or any(a is not b for a, b in zip(data, self._seen, strict=True)):
            self._climber.history = []  # of another function
            self._here, self._stuck, self._seen = None, False, data

    def look(self) -> Info:
        """The objective here. It was evaluated when the step was taken."""
        if self._here is None:
            self._here = self._evaluate(self._flat(self.remembered))
            if not math.isfinite(self._here.value):
                self._checked(self._expect(self.weights))
                raise FitError(f"iteration {self.iteration}: the objective is {self._here.value}")
        here = self._here
        scores = {"evaluations": float(self.evaluations)}
        return Info(self.iteration, here.value, here.log_marginal, scores=scores)

    def move(self) -> None:
        """One step uphill, as many evaluations as it takes."""
        assert self._here is not None
        there = self._climber.step(self._here, self._evaluate)
        if there is None:
            self._stuck = True
        else:
            assert isinstance(there, Evaluated)
            self._check(there)
            self._here = there
            self.remembered, self.weights = there.memory, there.weights
        self.iteration += 1

    def settled(self, info: Info, tolerance: float) -> bool:
        """Whether the objective has stopped rising."""
        return self._stuck or super().settled(info, tolerance)

    def described(self) -> dict[str, Any]:
        """What a fit tells of how it was trained."""
        return {"history": self.history, "evaluations": self.evaluations}

    def gradient(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """The gradient of the objective on these data where the weights are now, by their names in the memory."""
        self.start(*args, **kwargs)
        return self._split(torch.from_numpy(self._evaluate(self._flat(self.remembered)).gradient))

    # -- one evaluation

    def _evaluate(self, x: Array) -> Evaluated:
        memory = self._split(torch.from_numpy(x))
        with plain_torch():
            weights = self.estimation.tables(memory, self.dtype)
        found = self._expect(weights)
        self.evaluations += 1
        if not math.isfinite(found.log_marginal):  # a step too far
            return Evaluated(x, -math.inf, np.full_like(x, np.nan), memory, weights, found.log_marginal)
        gradient: dict[str, Tensor] = {}
        with plain_torch():
            for group in self.estimation.groups:
                assert isinstance(group.how, Differentiable)
                own = (group.counts(found.counts), group.counts(weights), group.of(memory))
                gradient |= group.named(group.how.gradient(group.declarations, *own))
            value = found.log_marginal + self.estimation.log_prior(weights, memory)
        return Evaluated(x, value, self._flat(gradient), memory, weights, found.log_marginal)

    def _check(self, there: Evaluated) -> None:
        """Raise if weights run away."""
        for group in self.estimation.groups:
            check = getattr(group.how, "check", None)
            try:
                if check is not None:
                    check(group.declarations, group.of(there.memory))
            except TableError as error:
                raise FitError(f"iteration {self.iteration}: {error}") from None

    def _flat(self, memory: Mapping[str, Tensor]) -> Array:
        parts = [memory[key].double().reshape(-1) for key in self.remembered]
        found: Array = (parts[0] if len(parts) == 1 else torch.cat(parts)).numpy()
        return found

    def _split(self, x: Tensor) -> dict[str, Tensor]:
        shapes = {key: now.shape for key, now in self.remembered.items()}
        parts = x.split([shape.numel() for shape in shapes.values()])
        return {key: part.reshape(shape) for (key, shape), part in zip(shapes.items(), parts, strict=True)}

    def _refuse(self) -> None:
        """Raise if this is no model for it."""
        others = [f"parameter '{name}'" for name in self._params]
        others += [f"latent variable '{name}'" for name in self._points.unconstrained]
        if others:
            raise FitError(
                f"Gradient learns tables only, and the model also has {', '.join(others)}: train it with EM, or with "
                "pyro.infer.SVI"
            )
        wrong = {name: repr(how) for name, how in self.estimation.plain.items()}
        wrong |= {n: repr(g.how) for g in self.estimation.groups if not isinstance(g.how, Differentiable)
                  for n in g.declarations}  # fmt: skip
        if wrong:
            name, how = next(iter(wrong.items()))
            raise FitError(f"Gradient climbs in the weights of LogLinear tables, and table '{name}' has {how}: use EM")
        if not self._exact:
            raise FitError(
                "the counts of this model are a heuristic, not the gradient of its objective, so there is nothing to "
                "climb by: use EM (an Aligner has agreement=None and '2008', which are exact)"
            )

    # -- what there is to know, and to keep

    def _usual(self) -> LogLinear:
        return LogLinear()

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("model", "estimate", "init", "history", "dtype")}

    def _state(self) -> State:
        kept = {
            f"history.{i}.{what}": torch.from_numpy(x)
            for i, pair in enumerate(self._climber.history)
            for what, x in zip(("moved", "lost"), pair, strict=True)
        }
        return {**super()._state(), "state": {"evaluations": torch.tensor(self.evaluations), **kept}}

    def _adopt(self, fit: Fit, args: Any, kwargs: Any) -> None:
        super()._adopt(fit, args, kwargs)
        steps = {int(key.split(".")[1]) for key in fit.state if key.startswith("history.")}
        pairs = [[fit.state[f"history.{i}.{what}"].numpy() for what in ("moved", "lost")] for i in sorted(steps)]
        if any(x.shape != self._flat(self.remembered).shape for pair in pairs for x in pair):
            raise FitError("the fit to go on from remembers steps of other weights: resume with its own templates")
        self._climber.history = [(moved, lost) for moved, lost in pairs][-self.history :]
        self._here, self._stuck = None, False
        # Where it ended is evaluated again, and counted once.
        self.evaluations = max(int(fit.state.get("evaluations", torch.tensor(0))) - 1, 0)
