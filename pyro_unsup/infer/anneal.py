"""Deterministic annealing, and its skewed form: EM on a posterior that goes from flat (or a reference) to its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import FitError
from ..handlers import Handled, SkewMessenger, TemperMessenger
from ..results import Fit
from .em import EM
from .estimation import Estimate
from .expectation import Expectation, Marginal
from .init import Initial, perturbed
from .loop import Info
from .schedules import check_schedule, geometric
from .shares import Data
from .state import State

#: States whose parameters are this much closer than they were at the start have become alike.
ALIKE = 0.1


class Anneal(EM):
    """EM at one beta after another: at each until it has converged, and the last is 1, where EM maximises likelihood.

    Near beta = 0 all structures are alike and the objective has one maximum; raising beta follows it into the landscape
    of the likelihood. With ``toward`` the posterior starts at a reference instead of flat (skewed annealing), so that a
    good start is not forgotten.

    :param schedule: the betas, a list (see :mod:`pyro_unsup.infer.schedules`); by default ``geometric()``. Its end may
        lie above 1 (quenching). It may fall: ``schedule=[4, 2, 1], steps=1, jitter=0`` begins with sharp posteriors.
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
        >>> state = engine.init([[0, 1], [0, 1, 1]])
        >>> state, info = engine.step(state)
        >>> state = engine.next_stage(state)
        >>> info.beta, engine.beta(state), engine.has_next_stage(state)
        (0.5, 1.0, False)

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
        self._handler()  # which refuses what it cannot skew toward

    def beta(self, state: State) -> float:
        """Where the schedule is."""
        return self.schedule[state.stage]

    def begin(self, state: State) -> AnnealState:
        """The state at the first beta."""
        spread = {name: float(x.std()) for name, x in state.unconstrained.items() if x.numel() > 1}
        return AnnealState(**vars(state), spread=spread, start=dict(state.unconstrained))

    def e_step(self, state: AnnealState) -> tuple[Info, Expectation]:  # type: ignore[override]
        """The E step at the current beta."""
        beta = self.beta(state)
        state.problem.wrapped.handler.beta = beta  # type: ignore[attr-defined]
        info, found = super().e_step(state)
        constant = self._log_reference(state) * (1 - beta) / beta
        info.objective, info.log_likelihood = info.objective - constant, info.log_likelihood - constant
        info.beta, info.stage = beta, state.stage
        return info, found

    def converged(self, state: AnnealState, rows: Sequence[Info], tolerance: float) -> bool:
        # At this beta, or it has had its steps.
        here = [row for row in rows if row.stage == state.stage]
        growing = len(here) > 1 and here[-1].change > here[-2].change  # away from a point where all states are alike
        if self.has_next_stage(state):
            if self.steps is not None and len(here) >= self.steps:
                return True
            early = self.early(self.beta(state)) if callable(self.early) else self.early
            tolerance = tolerance if early is None else early
        return here[-1].change <= tolerance and not growing

    def has_next_stage(self, state: AnnealState) -> bool:
        """Whether there is a beta to raise it to."""
        return state.stage + 1 < len(self.schedule)

    def next_stage(self, state: AnnealState) -> AnnealState:
        """The next beta, with noise on the weights. Each beta has noise of its own, so that runs can be resumed."""
        if not self.has_next_stage(state):
            raise FitError(f"beta = {self.beta(state):g} is the last of the schedule")
        raised = replace(state, stage=state.stage + 1)
        if not self.jitter:
            return raised
        problem, weights = state.problem, state.weights
        generator = torch.Generator().manual_seed((state.seed * 1_000_003 + raised.stage) % 2**63)
        for name in problem.estimation.plain:
            w = perturbed(problem.declarations[name], weights[name], self.jitter, generator)
            weights[name] = w.to(self.dtype)
        memory = problem.estimation.perturbed(state.memory, self.jitter, generator)
        # Parameters of states that have become alike never part by themselves: their noise is a share of how far apart
        # they were at the start.
        moved = dict(state.unconstrained)
        for name, spread in state.spread.items():
            x = moved[name]
            moved[name] = x + self.jitter * spread * torch.randn(x.shape, generator=generator, dtype=x.dtype)
        if not self.has_next_stage(raised) and alike(state.unconstrained, state.start):
            # Components that learn their own scales are alike at every beta below 1, and noise does not grow from
            # there. So the last beta begins with the parameters of the start.
            moved = dict(state.start)
        tables: dict[str, Any] = {**weights, **problem.estimation.tables(memory, self.dtype)}
        return replace(raised, tables=tables, memory=memory, unconstrained=moved)

    def run(self, *args: Any, **kwargs: Any) -> Fit:
        fit = super().run(*args, **kwargs)
        last = fit.rows[-1] if fit.rows else {}
        if last.get("stage", 0) < len(self.schedule) - 1:
            warnings.warn(
                f"annealing ended at beta = {last.get('beta', self.schedule[0]):g}, before its schedule did "
                f"({self.schedule[-1]:g}): {fit.report.reason}. Allow more iterations, or fewer steps at each beta",
                UnfinishedSchedule,
                stacklevel=2,
            )
        apart: Mapping[str, float] = fit.config.get("apart", {})
        if apart and all(_apart(fit.unconstrained[name]) <= ALIKE * one for name, one in apart.items()):
            names = ", ".join(f"'{name}'" for name in apart)
            warnings.warn(
                f"the elements of {names} have become alike, so that all states or components are one. Start them "
                "further apart, try other starts (restarts=10), or use fewer of them",
                AlikeStates,
                stacklevel=2,
            )
        return fit

    run.__doc__ = EM.run.__doc__

    def config(self, state: AnnealState) -> dict[str, Any]:
        toward = {} if self.toward is None else {"toward": self.toward if isinstance(self.toward, str) else "weights"}
        early = {} if self.early is None else {"early": self.early if not callable(self.early) else "a function"}
        steps = {} if self.steps is None else {"steps": self.steps}
        far = far_apart(state.start)
        apart = {"apart": far} if far else {}
        return {"schedule": self.schedule, "jitter": self.jitter, **toward, **early, **steps, **apart}

    def wrapped_model(self) -> Handled:
        return Handled(self.model, self._handler())

    def load_state(self, state: AnnealState, fit: Fit) -> AnnealState:
        loaded: AnnealState = super().load_state(state, fit)
        last, stage = fit.rows[-1], loaded.stage
        if stage >= len(self.schedule) or last.get("beta", self.schedule[stage]) != self.schedule[stage]:
            raise FitError(
                f"the fit to go on from is at beta = {last.get('beta', 1.0):g}, which is not in its place in "
                "this schedule: resume with the schedule it was trained by"
            )
        return loaded

    def on(self, state: AnnealState, data: Data) -> AnnealState:
        fresh: AnnealState = super().on(state, data)
        return replace(fresh, log_reference=None)

    def _handler(self) -> TemperMessenger | SkewMessenger:
        first = self.schedule[0]
        return TemperMessenger(first) if self.toward is None else SkewMessenger(first, self.toward)

    def _log_reference(self, state: AnnealState) -> float:
        """log-probability of the data under the weights skewed toward, which normalises the reference posterior."""
        problem = state.problem
        toward = getattr(problem.wrapped.handler, "toward", None)  # type: ignore[attr-defined]
        if toward is None or isinstance(toward, str) or self.beta(state) >= 1:
            return 0.0
        if state.log_reference is None:
            plain = Marginal(self.model, problem.parameters, self.dtype, problem.marginal.plates)
            weights = {name: toward[name].to(self.dtype) for name in problem.declarations}
            state.log_reference = problem.log_likelihood(weights, state.unconstrained, plain)
        return state.log_reference


@dataclass
class AnnealState(State):
    """Where annealing is: ``stage`` counts betas.

    :param log_reference: of the data, under the weights skewed toward. It is computed when it is needed first.
    :param spread: by parameter, the standard deviation of its elements at the start.
    :param start: the parameters at the start, unconstrained.
    """

    log_reference: float | None = None
    spread: dict[str, float] = field(default_factory=dict)
    start: dict[str, Tensor] = field(default_factory=dict)


def _apart(x: Tensor) -> float:
    """How far the elements along the first axis, those of states or components, lie apart."""
    return float((x - x.mean(0, keepdim=True)).square().mean().sqrt()) if x.dim() and len(x) > 1 else 0.0


def far_apart(start: Mapping[str, Tensor]) -> dict[str, float]:
    """By parameter whose elements differ at the start, how far they lie apart."""
    return {name: far for name, x in start.items() if (far := _apart(x)) > 0}


def alike(now: Mapping[str, Tensor], start: Mapping[str, Tensor]) -> bool:
    """Whether all parameters that told states apart at the start tell them apart no more."""
    far = far_apart(start)
    return bool(far) and all(_apart(now[name]) <= ALIKE * one for name, one in far.items())


class AlikeStates(UserWarning):
    """Annealing ended where all states or components are the same.

    >>> import pyro_unsup as pu
    >>> issubclass(pu.infer.AlikeStates, UserWarning)
    True
    """


class UnfinishedSchedule(UserWarning):
    """A run of annealing ended before its schedule did.

    >>> import warnings, pyro_unsup as pu
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", pu.infer.UnfinishedSchedule)
    ...     fit = pu.Anneal(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1]], iterations=1)
    """
