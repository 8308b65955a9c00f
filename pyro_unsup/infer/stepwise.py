"""Stepwise EM: stochastic approximation in the space of sufficient statistics, a mini-batch at a time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..errors import FitError
from ..kernels.threads import plain_torch
from ..results import Fit
from .estimation import Estimate
from .examples import Examples
from .expectation import Expectation, at_iteration
from .init import Initial
from .loop import Callback, Info
from .online import Online, OnlineState
from .seen import Seen
from .shares import Data
from .shortcut import Shortcut
from .state import Problem, State
from .statistics import expect_batch, refuse
from .streaming import follow, portions_of


class StepwiseEM(Online):
    """Online EM that forgets: after every mini-batch, the running counts of all tables move towards its own.

        s   <- expected counts of the mini-batch, summed over its examples
        mu  <- (1 - eta_k) mu + eta_k s,      eta_k = (k + 2)^-power,      k = 0, 1, ... updates

    and the weights are what an estimator makes of mu, which starts as the initial weights, ``mass`` counts a row.
    (Tables are normalised lazily: an update costs what its mini-batch touches. With an estimator that looks at whole
    tables it costs what they hold: :class:`.LogLinear` takes a few L-BFGS steps after each mini-batch, so make those
    large.) With :class:`.DirichletVB` for the estimator this is stochastic variational inference by natural gradients
    [2].

    Parameters that are not tables, such as the means and scales of an HMM of measurements, follow in the same way, if
    they have a formula (:mod:`pyro_unsup.estimate.closed_forms`): their sufficient statistics move towards those of the
    mini-batch. They start as those of the initial distributions, of weight ``mass``.

    In a :class:`.Session` it is a :class:`pyro.infer.SVI` without an optimiser or a loss to choose: ``step(batch)`` and
    ``evaluate_loss(batch)`` return the negative log-likelihood of the batch as the model scales it.
    A subsampling plate makes each step an estimate of the whole data, as under SVI; otherwise counts are sums over the
    mini-batch, and pseudo-counts compare with those.

    ``run(data)`` takes all examples in a fresh order in every pass; the last mini-batch of a pass may be short, and
    counts by its own size. There pseudo-counts mean what they mean to :class:`.EM`: they are weighed against estimates
    for the whole data. The history has one row a pass, with the log-likelihood accumulated during it (of all data, as
    the weights went along); row 0 is that of the start. It need not rise: stopping early on a ``score`` is part of
    the method.

    :param power: how fast step sizes fall, in (0.5, 1]; 0.5 warns, for convergence needs more.
    :param batch_size: examples in a mini-batch of ``run``.
    :param order_seed: orders the examples; ``run(seed=...)`` makes the initial weights.
    :param schedule: another step size, as a function of k, instead of ``power``.
    :param exact: evaluate the exact log-likelihood after each pass. It is then the objective, and the accumulated one a
        column ``online_log_likelihood`` of the history.

    A few passes, and batch EM from there (the hybrid of [1], 4.2)::

        >>> import pyro_unsup as pu
        >>> data, model = [[0, 1], [0, 1, 1], [1, 0, 1], [0, 0, 1]], pu.models.Tagger(tags=2, vocab=2)
        >>> quick = pu.StepwiseEM(model, batch_size=2).run(data, iterations=5)
        >>> fit = pu.EM(model, init=pu.init.from_weights(quick)).run(data)
        >>> fit.objective > quick.log_likelihood(data)
        True

    In a loop of your own, or on a stream::

        >>> engine = pu.StepwiseEM(pu.models.Tagger(tags=2, vocab=2), batch_size=1)
        >>> session = engine.session()
        >>> losses = [session.step([sentence]) for sentence in ([0, 1], [0, 1, 1], [1, 0, 1])]
        >>> session.result().report.iterations, round(engine.step_size(0), 3)
        (3, 0.616)
        >>> state = engine.init([[0, 1], [1, 1, 0]])
        >>> engine.examples_of(state).size, engine.order_of(state), engine.update(state, ([[0, 1]],), {}) < 0
        (2, 0, True)
        >>> later, info = engine.portion_step(state)
        >>> info.log_likelihood < 0, later.portions
        (True, 1)
        >>> fit = engine.run_stream(iter([[[0, 1]], [[1, 1]]]), progress=False)
        >>> sorted(fit.weights)
        ['emission', 'start', 'transition']

    **References:**

    [1] P. Liang and D. Klein (2009) "Online EM for unsupervised models".
    [2] M. Hoffman, D. Blei, C. Wang and J. Paisley (2013) "Stochastic variational inference".
    """

    def __init__(
        self,
        model: Callable[..., Any],
        estimate: Estimate | None = None,
        init: Initial | None = None,
        *,
        power: float = 0.7,
        batch_size: int = 100,
        order_seed: int | None = 0,
        schedule: Callable[[int], float] | None = None,
        mass: float = 1.0,
        exact: bool = False,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(model, estimate, init, batch_size, order_seed, dtype)
        check_power(power)
        if power == 0.5:
            warnings.warn(
                "power 0.5: Liang & Klein (2009) use it too, but convergence is only guaranteed above 0.5",
                SlowForgetting,
                stacklevel=2,
            )
        if not 0 < mass < math.inf:
            raise FitError(f"the mass of the initial counts must be positive and finite, actual {mass}")
        self.power, self.schedule, self.mass, self.exact = power, schedule, mass, exact

    def _check_parameters(self, problem: Problem) -> None:
        """Parameters that have a formula are learned, too. Whether they have shows in the first mini-batch."""

    # -- one update

    def begin(self, state: State) -> StepwiseState:
        """The state before the first update."""
        return self._with_counts(StepwiseState(**vars(state)))

    def step_size(self, update: int) -> float:
        """How much the update with this number, from 0, counts."""
        eta = (update + 2) ** -self.power if self.schedule is None else float(self.schedule(update))
        if not 0 <= eta <= 1:
            raise FitError(f"update {update}: a step size must lie in [0, 1], actual {eta}")
        return eta

    def _step_sizes(self, first: int, last: int) -> Array:  # (last - first,)
        """The step sizes of a run of updates."""
        if self.schedule is not None:
            return np.array([self.step_size(k) for k in range(first, last)])
        sizes: Array = (np.arange(first, last) + 2.0) ** -self.power
        return sizes

    def update(self, state: StepwiseState, args: Any, kwargs: Any) -> float:
        """One update from a mini-batch, in place. Returns its log-likelihood before."""
        problem, others = state.problem, bool(state.unconstrained)
        problem.parameters.write(state.unconstrained)
        found, counts = expect_batch(problem.marginal, state.tables, args, kwargs, state.iteration, others)
        step = self.step_size(state.updates)
        with plain_torch():
            state.statistics.update(counts, step)
            if others:
                self._learn_parameters(state, found, step)
        state.updates += 1
        return found.log_marginal

    def _learn_parameters(self, state: StepwiseState, found: Expectation, step: float) -> None:
        """M step by formula of parameters that are not tables, from all that was seen. In place."""
        missing = state.unconstrained.keys() - (found.plan.names if found.plan is not None else set())
        if missing:
            raise FitError(
                f"StepwiseEM needs a formula for every parameter, and {_quoted(missing)} has none (see "
                "pyro_unsup.estimate.closed_forms): train the model with EM on all data, or with pyro.infer.SVI"
            )
        with at_iteration(state.iteration, has_parameters=True):
            leaves, state.seen = state.seen.with_batch(found.leaves, step, self.mass)
            unit = state.statistics.unit
            found.leaves = [replace(leaf, weight=leaf.weight * unit) for leaf in leaves]  # as priors weigh them
            state.unconstrained = {**state.unconstrained, **state.problem.marginal.closed_form(found)}

    def batch_step(self, state: StepwiseState) -> tuple[StepwiseState, Info]:
        """One update from the data of a state, which are one mini-batch."""
        state.log_likelihood = found = self.update(state, *state.problem.data)
        return state, Info(state.updates - 1, found, found)

    def loss(self, state: StepwiseState) -> float:
        state.problem.parameters.write(state.unconstrained)
        return -state.problem.marginal.log_marginal(state.tables, *state.problem.data)

    def updates(self, state: StepwiseState) -> int:
        return state.updates

    # -- a pass

    def e_step(self, state: StepwiseState) -> tuple[Info, None]:
        """What the pass before found, or what the start is worth."""
        found = state.log_likelihood if state.iteration else None
        scores = {"online_log_likelihood": found} if self.exact and found is not None else {}
        if self.exact or found is None:
            state.problem.parameters.write(state.unconstrained)
            found = state.problem.marginal.log_marginal(state.tables, *state.problem.data)
            refuse(found, state.problem.marginal, state.iteration)
        with plain_torch():
            return Info(state.iteration, found + state.log_prior(), found, scores=scores), None

    def m_step(self, state: StepwiseState, found: None = None) -> StepwiseState:
        """One pass over the examples, in an order of its own."""
        with plain_torch():
            state = state.copy()
        examples = self.examples_of(state)
        total = self._learn(state, examples, examples.order((self.order_of(state), state.iteration)))
        return replace(state, log_likelihood=total, iteration=state.iteration + 1)

    def portion_step(self, state: StepwiseState) -> tuple[StepwiseState, Info]:
        """Mini-batches from the data of a state, which are a portion of all data, in an order of their own."""
        examples = self.examples_of(state)
        found = self._learn(state, examples, examples.order((self.order_of(state), state.portions)))
        state.log_likelihood, state.portions = found, state.portions + 1
        return state, Info(state.updates - 1, found, found)

    def _learn(self, state: StepwiseState, examples: Examples, order: Array) -> float:
        """Updates from all examples in this order, a mini-batch each, in place. Returns what they add up to."""
        m, total, at = self.batch_size, 0.0, 0
        while at < len(order):
            if state.shortcut is not None and state.updates > 0:
                counts = state.statistics.tables
                with plain_torch():
                    gain, done = state.shortcut.advance(counts, order[at:], self._step_sizes, state.updates)
                total, at = total + gain, at + done * m
                state.updates += done
            if at < len(order):
                total += self.update(state, examples.select(order[at : at + m]), {})
                at += m
        return total

    def converged(self, state: StepwiseState, rows: Sequence[Info], tolerance: float) -> bool:
        # Two passes must find the same. What the first one accumulates tells of the start, so it is not enough.
        return (self.exact or state.iteration > 1) and super().converged(state, rows, tolerance)

    def may_fall(self, state: StepwiseState) -> float:
        return math.inf

    def _take_data(self, state: StepwiseState) -> None:
        assert state.examples is not None
        n, m = state.examples.size, self.batch_size
        in_all = n if state.in_all is None else state.in_all
        state.statistics.value(max(1.0, in_all / m))
        plain = state.statistics.all_additive and not state.unconstrained
        tables = state.statistics.tables if plain else None
        state.shortcut = None if tables is None else Shortcut.of(self.model, tables, *state.problem.data, n, m)

    # -- streams

    def run_stream(
        self,
        batches: Iterable[Any],
        *,
        seed: int = 0,
        callbacks: Sequence[Callback] = (),
        progress: bool = True,
        checkpoint: str | PathLike[str] | None = None,
        resume: Fit | None = None,
        cut: bool = False,
    ) -> Fit:
        """Learn from mini-batches as they come, as many as there are: memory does not grow with them.

        The history has a row at updates 1, 2, 4, 8, ... and at the end, with the mean log-likelihood of a mini-batch
        since the row before.

        :param batches: each is what the model is called with.
        :param seed: of the start.
        :param callbacks: called with every row; a true answer ends the run.
        :param progress: show how far it is.
        :param checkpoint: a folder in which to keep the fit as it is so far, written every few seconds and at the end.
        :param resume: a fit to go on from; the batches are then those that it has not seen. Of :class:`.Portions`, give
            all: those that it has seen are left out.
        :param cut: each batch is a large portion of the data, and is cut into mini-batches of ``batch_size``, in an
            order of their own. So data on disk are learned from in one pass:
            ``run_stream(Portions(corpus), cut=True)``.
        """
        return follow(self, batches, seed, callbacks, progress, checkpoint, resume, cut)

    # -- what there is to know, and to keep

    def config(self, state: StepwiseState) -> dict[str, Any]:
        """What a fit tells of how it was trained."""
        how = {"power": self.power} if self.schedule is None else {"schedule": repr(self.schedule)}
        order = {"order_seed": self.order_of(state)}
        return {**how, "batch_size": self.batch_size, **order, "mass": self.mass, "updates": state.updates}

    @property
    def _mass(self) -> float:
        return self.mass

    def load_state(self, state: StepwiseState, fit: Fit) -> StepwiseState:
        kept = fit.state
        odd = next((x for x in ("updates", "found", "portions") if x in kept and kept[x].numel() != 1), None)
        if odd is not None or any(x in kept and not int(kept[x]) >= 0 for x in ("updates", "portions")):
            raise FitError(f"the fit to go on from holds no number of updates: '{odd or 'updates'}' makes no sense")
        loaded: StepwiseState = self._with_counts(super().load_state(state, fit))
        loaded.updates = int(kept["updates"]) if "updates" in kept else 0
        loaded.portions = portions_of(fit)
        loaded.log_likelihood = float(kept["found"]) if "found" in kept else None
        if loaded.updates > 0:
            loaded.statistics.restore(kept)
            loaded.seen = Seen.of(kept)
        return loaded

    def on(self, state: StepwiseState, data: Data) -> StepwiseState:
        fresh: StepwiseState = super().on(state, data)
        return replace(fresh, shortcut=None)


@dataclass
class StepwiseState(OnlineState):
    """Where stepwise EM is.

    :param updates: mini-batches that the weights have seen.
    :param log_likelihood: accumulated in the last pass, or that of the last mini-batch; None before the first.
    :param shortcut: compiled mini-batches, if the model has them.
    :param seen: what parameters other than tables are estimated from.
    :param portions: of a stream of portions, how many were learned from.
    :param in_all: examples in all portions, if that is known.
    """

    updates: int = 0
    log_likelihood: float | None = None
    shortcut: Shortcut | None = None
    seen: Seen = field(default_factory=Seen)
    portions: int = 0
    in_all: int | None = None

    def own(self) -> dict[str, Tensor]:
        found = {} if self.log_likelihood is None else {"found": torch.tensor(self.log_likelihood, dtype=torch.float64)}
        found |= {"portions": torch.tensor(self.portions)} if self.portions else {}
        return {**super().own(), "updates": torch.tensor(self.updates), **found, **self.seen.tensors()}


class SlowForgetting(UserWarning):
    """Step sizes fall so slowly that convergence is not guaranteed.

    >>> import warnings, pyro_unsup as pu
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", pu.infer.SlowForgetting)
    ...     engine = pu.StepwiseEM(pu.models.Tagger(tags=2, vocab=2), power=0.5)
    """


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


def check_power(power: float) -> None:
    """Raise unless step sizes with this power can converge."""
    if isinstance(power, bool) or not isinstance(power, int | float):
        raise FitError(f"power must be a number in (0.5, 1], actual {power!r:.80}")
    if not 0.5 <= power <= 1:
        raise FitError(
            "power must lie in (0.5, 1], so that step sizes add up to infinity and their squares do not, "
            f"actual {power}"
        )
