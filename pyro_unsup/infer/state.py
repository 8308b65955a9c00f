"""A model on its data, and the state of a run on it: all that the next step needs, and what a checkpoint keeps."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from pyro import poutine
from pyro.infer import config_enumerate
from torch import Tensor

from ..distributions import Structure
from ..errors import FitError, without_shapes
from ..estimate import Estimator, Parametric, posterior_of
from ..handlers import DeclaredMessenger
from ..handlers.temper import weighs_structure
from ..kernels.threads import plain_torch
from ..tables import Declaration, LazyTable
from .estimation import Estimate, Estimation
from .expectation import Expectation, Marginal, at_iteration
from .parameters import Parameters
from .shares import Data, Share, Total, check_splits, summed

#: Relative fall of the objective that rounding explains.
MAY_FALL = {torch.float64: 1e-9, torch.float32: 2e-5}

#: What a fit keeps of a state, by the names that :class:`.Fit` has for it.
Saved = dict[str, dict[str, Any]]


#: More enumerated variables than these are worth a warning.
MANY = 100


class SlowEnumeration(UserWarning):
    """A model enumerates many variables one by one, where a structured distribution would sum them out in one pass.

    >>> import pyro_unsup as pu
    >>> issubclass(pu.infer.SlowEnumeration, UserWarning)
    True
    """


def _warn_of_long_enumeration(sites: Iterable[Any]) -> None:
    hidden = [
        site["name"]
        for site in sites
        if site["type"] == "sample"
        and not site["is_observed"]
        and site["infer"].get("enumerate")
        and weighs_structure(site)
    ]
    if len(hidden) > MANY:
        warnings.warn(
            f"the model enumerates {len(hidden)} variables one by one ('{hidden[0]}', '{hidden[1]}', ...): an E step "
            "takes seconds or minutes. If each depends on the one before it (pyro.markov), write one observed site, "
            "pyro.sample('x', pu.Chain(start, transition, emission, len(x)), obs=x), whose kernel takes milliseconds",
            SlowEnumeration,
            stacklevel=2,
        )


@dataclass(eq=False)
class Problem:
    """What engines ask of a model and its data. It never changes during a run.

    :param model: as the user gave it.
    :param wrapped: with the engine's own handlers around it.
    :param share: the data of this process.
    :param marginal: the log marginal of the wrapped model.
    :param exact: whether counts are the gradient of the objective, so that it cannot fall.
    :param by_kernel: whether compiled code does all sums.
    :param whole: whether one process evaluates all data at once.
    """

    model: Callable[..., Any]
    wrapped: Callable[..., Any]
    share: Share
    dtype: torch.dtype
    declarations: dict[str, Declaration]
    estimation: Estimation
    parameters: Parameters
    marginal: Marginal
    exact: bool
    by_kernel: bool
    whole: bool

    @staticmethod
    def of(
        model: Callable[..., Any],
        wrapped: Callable[..., Any],
        share: Share,
        estimate: Estimate,
        default: Callable[[], Estimator | Parametric],
        dtype: torch.dtype,
        seed: int,
    ) -> Problem:
        """Run the model once, to see its tables, parameters and sites.

        :param default: makes the estimator of tables that ``estimate`` does not name.
        :param seed: of parameters that start at random.
        """
        (args, kwargs), examples = share.sample()
        parameters = Parameters()
        with torch.random.fork_rng(devices=[]), DeclaredMessenger(dtype) as tables, parameters.active():
            torch.manual_seed(seed)
            with without_shapes():
                trace = poutine.trace(config_enumerate(wrapped)).get_trace(*args, **kwargs)
        sites = trace.nodes.values()
        _warn_of_long_enumeration(sites)
        parameters.names = [site["name"] for site in sites if site["type"] == "param"]
        declarations = tables.found
        if not (declarations or parameters.leaves):
            raise FitError("the model has nothing to learn: no tables, no pyro.param, no latent variables")
        if examples is not None:
            check_splits(model, trace, examples, parameters.leaves)
            declarations = {name: d.touching(None) for name, d in declarations.items()}
        plates = (f.dim for site in sites for f in site.get("cond_indep_stack", ()) if f.vectorized)
        structured = (site for site in sites if site["type"] == "sample" and weighs_structure(site))
        return Problem(
            model,
            wrapped,
            share,
            dtype,
            declarations,
            Estimation(estimate, declarations, default),
            parameters,
            Marginal(wrapped, parameters, dtype, max((-dim for dim in plates), default=0)),
            exact=all(getattr(site.get("fn"), "exact", True) for site in sites),
            by_kernel=all(isinstance(site["fn"], Structure) for site in structured),
            whole=share.whole,
        )

    @property
    def data(self) -> Data:
        """The model's arguments."""
        return self.share.data

    def on(self, data: Data) -> Problem:
        """The same model on other data."""
        share = Share.of(self.model, data)
        return replace(self, share=share, whole=share.whole)

    def expect(
        self,
        tables: Mapping[str, Tensor | LazyTable],
        unconstrained: Mapping[str, Tensor],
        iteration: int,
        marginal: Marginal | None = None,
        noted: Callable[[Expectation], Expectation] = lambda part: part,
    ) -> Expectation:
        """The E step on all data.

        :param unconstrained: values of parameters that are not tables.
        :param marginal: of another model with the same tables.
        :param noted: adds what else the engine wants to know of a part of the data.
        """
        marginal = self.marginal if marginal is None else marginal
        if unconstrained:
            self.parameters.write(unconstrained)
        with at_iteration(iteration, bool(unconstrained)), self.threads():
            if self.whole:
                found = noted(marginal.expect(tables, *self.share.data, others=bool(unconstrained)))
            else:
                found = Total(self.declarations, self.dtype).gather(
                    noted(marginal.expect(tables, *data, whole=False, first=first)) for first, data in self.share
                )
        return found

    def threads(self) -> AbstractContextManager[None]:
        """Where kernels do the sums, torch has only small things to do, and one thread for them."""
        return plain_torch() if self.by_kernel else nullcontext()

    def log_likelihood(
        self,
        tables: Mapping[str, Tensor | LazyTable],
        unconstrained: Mapping[str, Tensor],
        marginal: Marginal | None = None,
    ) -> float:
        """log p of all data, without counts."""
        found = self.marginal if marginal is None else marginal
        self.parameters.write(unconstrained)
        return summed(self.share, lambda data: found.log_marginal(tables, *data))

    @property
    def may_fall(self) -> float:
        """How far the objective may fall, relative to its size, in the coarsest dtype: parameters may be float32."""
        dtypes = [self.dtype, *(leaf.dtype for leaf in self.parameters.leaves.values())]
        return MAY_FALL[torch.float32 if torch.float32 in dtypes else torch.float64] if self.exact else math.inf


@dataclass
class State:
    """Where a run is. An engine makes one by ``init``, and the next one by ``step``.

    A step leaves the state that it starts from as it is. (A session steps a mini-batch at a time. It changes the
    running counts of its own state in place, so that a step costs what its mini-batch touches.)

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
        return {name: _whole(w) for name, w in self.tables.items()}

    def log_prior(self) -> float:
        """What the estimators add to the log-likelihood."""
        estimation = self.problem.estimation
        weights = {name: _whole(w) for name, w in self.tables.items() if estimation.has_prior(name)}
        return estimation.log_prior(weights, self.memory)

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
            "estimators": dict(self.problem.estimation.by_table),
            "posteriors": {name: posterior_of(how) for name, how in self.problem.estimation.by_table.items()},
            "points": points,
            "params": params,
            "unconstrained": dict(self.unconstrained),
            "state": self.own(),
        }


def checked(found: Expectation, iteration: int) -> Expectation:
    """What an E step found. Raises if the data are impossible, or the counts cannot be counts."""
    if math.isnan(found.log_marginal):
        raise FitError(f"iteration {iteration}: the log marginal is NaN: {found.trouble}")
    if found.log_marginal == -math.inf:
        raise FitError(
            f"iteration {iteration}: {found.trouble}: smooth (AddLambda), or widen the support that forbids it"
        )
    found.check(iteration)
    return found


def _whole(weights: Tensor | LazyTable) -> Tensor:
    return weights.log_weights() if isinstance(weights, LazyTable) else weights
