"""Deterministic annealing, and its skewed form: EM on a posterior that goes from flat (or a reference) to its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import FitError
from ..handlers import Handled, SkewMessenger, TemperMessenger
from ..results import Fit
from .em import EM
from .estimation import Estimate
from .expectation import Marginal
from .init import Initial, shaken
from .loop import Info
from .schedules import check_schedule, geometric


class Anneal(EM):
    """EM at one beta after another: at each until it has converged, and the last is 1, where EM maximises likelihood.

    Near beta = 0 all structures are alike and the objective has one maximum; raising beta follows it into the landscape
    of the likelihood. With ``toward`` the posterior starts at a reference instead of flat (skewed annealing), so that a
    good start is not forgotten.

    :param schedule: the betas, a list (see :mod:`pyro_unsup.infer.schedules`); by default ``geometric()``. Its end may
        lie above 1 (quenching).
    :param toward: what to skew toward, see :class:`.SkewMessenger`: log-weights by table, a fit, or the name of a
        structure's own reference (``"split"`` for trees).
    :param steps: the most E steps at a beta before the last; 1 raises beta after every E step.
    :param early: tolerance at the betas before the last, a number or a function of beta; by default that of the run.
    :param jitter: noise on the weights (those of features, if there are) after each raise. Where states are
        interchangeable (a tagger without a dictionary, clusters) the point where all are alike is a fixed point of EM
        at every beta, and only noise gets away from it. Small noise takes long to grow, and until it has, a beta looks
        converged. With 0 there is none, which suits models whose states differ by what they may be (trees, a
        dictionary).

    Other parameters as for :class:`.EM`; the default start is nearly uniform.

    The objective is that of Smith & Eisner (2004), equation 2, or 4 with ``toward``, plus the estimators' log priors;
    at beta = 1 it is that of EM. It never falls within a beta. The history has a row for each E step, with its
    ``beta``; ``log_likelihood`` in it is the objective without priors, a log-likelihood at beta = 1 only. (At small
    betas it is large, log(structures) / beta, and a relative tolerance is soon met: a schedule spends its steps late.)

        >>> import pyro_unsup as pu
        >>> sentences = [[0, 1], [0, 1, 1], [1, 0, 1]]
        >>> fit = pu.Anneal(pu.models.Tagger(tags=2, vocab=2), schedule=pu.schedules.geometric(0.1, 2)).run(sentences)
        >>> fit.history.beta.unique().tolist()
        [0.1, 0.2, 0.4, 0.8, 1.0]

    In a loop of your own, say when to raise beta::

        >>> engine = pu.Anneal(pu.models.Tagger(tags=2, vocab=2), schedule=[0.5, 1.0])
        >>> engine.start([[0, 1], [0, 1, 1]])
        >>> before = engine.look().beta
        >>> engine.advance()
        >>> engine.move()
        >>> before, engine.beta
        (0.5, 1.0)

    **References:** [1] N. A. Smith and J. Eisner (2004) "Annealing techniques for unsupervised statistical language
    learning".
    """

    ITERATIONS, NOISE = 10_000, 1e-3

    def __init__(
        self,
        model: Callable[..., Any],
        estimate: Estimate | None = None,
        init: Initial | None = None,
        *,
        schedule: Sequence[float] | None = None,
        toward: Mapping[str, Tensor] | str | Any = None,
        steps: int | None = None,
        early: float | Callable[[float], float] | None = None,
        jitter: float = 0.1,
        dtype: torch.dtype = torch.float64,
        lbfgs_iterations: int = 20,
    ) -> None:
        super().__init__(model, estimate, init, dtype=dtype, lbfgs_iterations=lbfgs_iterations)
        self.schedule = check_schedule(geometric() if schedule is None else schedule)
        if steps is not None and steps < 1:
            raise FitError(f"steps at a beta must be at least 1, actual {steps}")
        if not 0 <= jitter < float("inf"):
            raise FitError(f"jitter must be finite and not negative, actual {jitter}")
        if early is not None and not callable(early) and not 0 <= early < float("inf"):
            raise FitError(f"early must be a tolerance, finite and not negative, or a function of beta, actual {early}")
        self.toward, self.steps, self.early, self.jitter = toward, steps, early, jitter
        self.stage = 0
        self._since = 0  # the iteration at which this beta began
        self._raise = False
        self._change = float("inf")  # of the step before
        first = self.schedule[0]
        self._handler = TemperMessenger(first) if toward is None else SkewMessenger(first, toward)
        self._reference: tuple[Any, float] | None = None

    @property
    def beta(self) -> float:
        """Where the schedule is."""
        return self.schedule[self.stage]

    def advance(self) -> None:
        """Raise beta after the next update, if there is a beta to raise it to. (:meth:`run` does so by itself.)"""
        self._raise = self.stage + 1 < len(self.schedule)

    def look(self) -> Info:
        """The E step at the current beta."""
        self._handler.beta = self.beta
        info = super().look()
        constant = self._log_reference() * (1 - self.beta) / self.beta
        info.objective, info.log_likelihood = info.objective - constant, info.log_likelihood - constant
        info.beta, info.stage = self.beta, self.stage
        return info

    def move(self) -> None:
        """The M step, and the next beta if this one is done with."""
        super().move()
        if self._raise:
            self.stage, self._since, self._raise = self.stage + 1, self.iteration, False
            self._change = float("inf")
            self._perturb()

    def settled(self, info: Info, tolerance: float) -> bool:
        """Whether the last beta has converged. One before it that has is left after the next update."""
        growing = info.change > self._change  # away from a point where all states are alike
        self._change = info.change
        if self.stage == len(self.schedule) - 1:
            return info.change <= tolerance and not growing
        enough = self.steps is not None and self.iteration - self._since + 1 >= self.steps
        early = tolerance if self.early is None else self.early(self.beta) if callable(self.early) else self.early
        if enough or (info.change <= early and not growing):
            self.advance()
        return False

    def run(self, *args: Any, **kwargs: Any) -> Fit:
        fit = super().run(*args, **kwargs)
        last = fit.rows[-1]
        if last.get("stage", 0) < len(self.schedule) - 1:
            warnings.warn(
                f"annealing ended at beta = {last['beta']:g}, before its schedule did ({self.schedule[-1]:g}): "
                f"{fit.report.reason}. Allow more iterations, or fewer steps at each beta",
                stacklevel=2,
            )
        return fit

    run.__doc__ = EM.run.__doc__

    def described(self) -> dict[str, Any]:
        toward = {} if self.toward is None else {"toward": self.toward if isinstance(self.toward, str) else "weights"}
        early = {} if self.early is None else {"early": self.early if not callable(self.early) else "a function"}
        steps = {} if self.steps is None else {"steps": self.steps}
        return {"schedule": self.schedule, "jitter": self.jitter, **toward, **early, **steps}

    def _posed(self) -> Callable[..., Any]:
        return Handled(self.model, self._handler)

    def _settings(self) -> dict[str, Any]:
        own = ("schedule", "toward", "steps", "early", "jitter")
        return {**super()._settings(), **{name: getattr(self, name) for name in own}}

    def _adopt(self, fit: Fit, args: Any, kwargs: Any) -> None:
        super()._adopt(fit, args, kwargs)
        stage = int(fit.rows[-1].get("stage", 0))
        if stage >= len(self.schedule) or fit.rows[-1].get("beta", self.schedule[stage]) != self.schedule[stage]:
            raise FitError(
                f"the fit to go on from is at beta = {fit.rows[-1].get('beta', 1.0):g}, which is not in its place in "
                "this schedule: resume with the schedule it was trained by"
            )
        self.stage = stage
        here = [row for row in fit.rows if row.get("stage", 0) == stage]
        self._since = min(int(row["iteration"]) for row in here)
        self._change = here[-2]["change"] if len(here) > 1 else float("inf")  # the last row is looked at again

    def _perturb(self) -> None:
        """Noise of its own for each beta, so that a run can be resumed anywhere."""
        if not self.jitter:
            return
        generator = torch.Generator().manual_seed((self.seed * 1_000_003 + self.stage) % 2**63)
        for name in self.estimation.plain:
            w = shaken(self.declarations[name], self.weights[name], self.jitter, generator)
            self.weights[name] = w.to(self.dtype)
        self.remembered = self.estimation.shaken(self.remembered, self.jitter, generator)
        self.weights |= self.estimation.tables(self.remembered, self.dtype)

    def _log_reference(self) -> float:
        """log-probability of the data under the weights skewed toward, which normalises the reference posterior."""
        toward = getattr(self._handler, "toward", None)
        if toward is None or isinstance(toward, str) or self.beta >= 1:
            return 0.0
        if self._reference is None or self._reference[0] is not self._data:
            assert self._marginal is not None
            plain = Marginal(self.model, self._points, self.dtype, self._marginal.plates)
            weights = {name: toward[name].to(self.dtype) for name in self.declarations}
            self._reference = (self._data, self._log_likelihood(weights, plain))
        return self._reference[1]
