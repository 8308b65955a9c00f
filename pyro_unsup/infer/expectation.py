"""The E step of any Pyro model: its log marginal, and the gradient of that, which is everything EM needs.

Discrete latent variables are enumerated (Pyro's ``TraceEnum_ELBO`` contracts them), structured distributions have
summed theirs out already, and tables are leaves of the gradient. Two gradients of one number come out:

* in the log-weights of a table: its expected counts;
* in the log-probability tensor of a site: the posterior probability of each of its cells. Weighted by those, the
  log-probabilities under *new* parameters add up to the expected complete log-likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyro.poutine as poutine
import torch
from pyro.distributions import TorchDistribution, constraints
from pyro.infer import TraceEnum_ELBO, config_enumerate
from pyro.ops import packed
from pyro.poutine.messenger import Messenger
from torch import Tensor

from ..distributions import Structure
from ..errors import FitError, UnsupError, as_raised
from ..estimate.closed_forms import NoClosedForm
from ..handlers import Counting, GivenMessenger
from ..tables import Declaration, LazyTable
from .closed_form import Plan, make_plan, new_values, tried
from .leaves import Leaf, leaves_of
from .parameters import Parameters
from .replay import Recorder
from .stock import refuse_stock_categorical

Factor = tuple[str, str]  #: a site, and which of its weights


@dataclass
class Expectation:
    """What one E step found.

    :param log_marginal: log p(data), plus the log prior of the point-estimated latent variables, if there are any.
    :param counts: expected counts by table, full-sized unless only the touched part was asked for.
    :param factors: by site and weight, the posterior probability (times the site's scale) of each cell.
    """

    log_marginal: float
    counts: dict[str, Tensor]
    factors: dict[Factor, Tensor]
    touched: dict[str, Tensor | None] = field(default_factory=dict)  # columns or cells of a part; None for all
    trouble: str = ""  # why the log marginal is not finite, if it is not
    fallbacks: int = 0  # examples in which a constraint left nothing
    plan: Plan | None = None  # parameters that have a closed form,
    leaves: list[Leaf] = field(default_factory=list)  # the observations that it takes,
    values: dict[str, Tensor] = field(default_factory=dict)  # and the values that these parameters have
    slopes: dict[str, Tensor] = field(
        default_factory=dict
    )  # the gradient in unconstrained parameters, if it was wanted
    full: set[str] = field(default_factory=set)  # tables all of whose counts are above zero, once they are checked

    def check(self, iteration: int) -> None:
        """Raise if the counts cannot be counts."""
        for name, counts in self.counts.items():
            if not counts.numel():
                continue
            lowest, highest = (float(x) for x in torch.aminmax(counts))
            if not (math.isfinite(lowest) and math.isfinite(highest)):
                raise FitError(f"iteration {iteration}: table '{name}' got NaN or infinite counts")
            if lowest > 0:
                self.full.add(name)
            if lowest < -1e-6:
                raise FitError(
                    f"iteration {iteration}: table '{name}' got negative counts, so the model uses it other than as "
                    "weights. Use its log-weights in pyro_unsup.Categorical or in a structured distribution only"
                )


@contextmanager
def at_iteration(iteration: int, has_parameters: bool = False) -> Iterator[None]:
    """Let errors of a model run say when they happened.

    :param has_parameters: whether the M step moves parameters of the model. One that runs to the edge of its
        constraint, such as a scale that collapses to zero, makes a distribution refuse it.
    """
    try:
        yield
    except FitError:
        raise
    except ValueError as error:  # the library's own errors are ValueErrors too
        original = as_raised(error)
        if isinstance(original.__cause__, UnsupError):  # Pyro says at which site, and the cause says what
            original = original.__cause__
        said = [line for line in str(original).splitlines() if line.strip()][:2]
        hint, ours = "", isinstance(original, UnsupError)
        if has_parameters and not isinstance(original, UnsupError):
            hint = (
                " (a parameter that runs to the edge of its constraint needs a prior, or a constraint with room: "
                "constraints.greater_than(1e-3) for a scale)"
            )
        # Of an error in the user's own program, the shapes of all sites tell most.
        shapes = [] if ours else [line for line in str(error).splitlines() if line.strip()][len(said) :]
        raise FitError("\n".join([f"iteration {iteration}: {' '.join(said)}{hint}", *shapes])) from error


class Marginal:
    """The log marginal of a model as a differentiable function of its tables and other parameters."""

    def __init__(self, model: Callable[..., Any], parameters: Parameters, dtype: torch.dtype, plates: int) -> None:
        self.model = config_enumerate(model, "parallel")
        self.parameters = parameters
        self._recorder = Recorder(model, parameters.active)
        self._sum = _TracedSum(dtype, plates)
        self.plates = plates
        self._checked = False
        self._plan: Plan | None = None

    def expect(
        self,
        weights: Mapping[str, Tensor | LazyTable],
        args: Any,
        kwargs: Any,
        others: bool = False,
        whole: bool = True,
        first: int = 0,
    ) -> Expectation:
        """One E step.

        :param others: whether there are parameters besides tables, so that factors are needed.
        :param whole: whether counts are wanted full-sized, or only for the part of each table that the data touch.
        :param first: the number of the first example, if these are not all.
        """
        record = self._recorder.replay(args, kwargs)
        if record is not None:
            values = self.parameters.values() if others else {}
            total, counts, leaves = record.expect(weights, parameters=values)
            if math.isfinite(total):  # else the model has to run, to tell why it is not
                found = self._found(total, counts, record.found, whole)
                found.plan, found.leaves, found.values = record.plan, leaves, values
                return found
        self._sum.forget()
        with _Apart() if others else nullcontext(), Counting(weights) as counting:
            log_marginal = self._log_marginal(args, kwargs)
        if not self._checked:
            refuse_stock_categorical(self._sum.trace, counting.leaves)
            self._checked = True
        factors: dict[Factor, Tensor] = {}
        if others:  # both at once: a second gradient would run the kernels again
            known = dict(self.last_factors())
            both = [*counting.leaves.values(), *known.values()]
            grads = torch.autograd.grad(log_marginal, both, allow_unused=True, materialize_grads=True)
            counts = dict(zip(counting.leaves, grads, strict=False))
            factors = dict(zip(known, grads[len(counts) :], strict=True))
        else:
            counts = counting.counts(log_marginal)
            self._recorder.see(args, kwargs, self._sum.trace, counting)
        total = float(log_marginal.detach())
        result = self._found(total, counts, counting.found, whole)
        result.factors, result.trouble = factors, "" if math.isfinite(total) else self.trouble(first)
        if factors and math.isfinite(total):
            result.plan, result.leaves = self._planned(factors)
            if result.plan is not None:
                result.values = {name: self._sum.trace.nodes[name]["value"].detach() for name in result.plan.names}
                if result.plan.names == self.parameters.leaves.keys() and not self.parameters.points.transforms:
                    self._recorder.see(args, kwargs, self._sum.trace, counting, result.plan)
        return result

    def slopes(self, weights: Mapping[str, Tensor | LazyTable], args: Any, kwargs: Any) -> Expectation:
        """log p(data), counts, and its gradient in the unconstrained parameters (``slopes``)."""
        self._sum.forget()
        with Counting(weights) as counting:
            log_marginal = self._log_marginal(args, kwargs)
        leaves = {name: x for name, x in self.parameters.leaves.items() if x.requires_grad}
        both = [*counting.leaves.values(), *leaves.values()]
        grads = torch.autograd.grad(log_marginal, both, allow_unused=True, materialize_grads=True)
        counts = dict(zip(counting.leaves, grads, strict=False))
        result = self._found(float(log_marginal.detach()), counts, counting.found, whole=True)
        result.slopes = dict(zip(leaves, grads[len(counts) :], strict=True))
        result.trouble = "" if math.isfinite(result.log_marginal) else self.trouble()
        return result

    @property
    def last_trace(self) -> Any:
        """Of the last run of the model."""
        return self._sum.trace

    def _planned(self, factors: Mapping[Factor, Tensor]) -> tuple[Plan | None, list[Leaf]]:
        """Which parameters have a closed form, found out in the first run; and the observations of this one."""
        trace, points = self._sum.trace, self.parameters.points.transforms
        if self._plan is not None and not self._plan.groups:
            return None, []
        try:
            leaves, known = leaves_of(trace, factors, points)
        except NoClosedForm:
            return None, []
        if self._plan is None:
            others = [x for key, x in self.last_factors() if key not in known and key[0] not in points]
            values = {name: trace.nodes[name]["value"] for name in self.parameters.leaves if name in trace.nodes}
            # A prior that is scaled or masked is another prior than its distribution says: it fits no formula.
            plain = {name: trace.nodes[name]["scale"] == 1 and trace.nodes[name]["mask"] is None for name in points}
            priors = {name: trace.nodes[name]["fn"] if plain[name] else None for name in points}
            plan = make_plan(leaves, values, others, priors)
            supports = {name: self.parameters.support(name) for name in plan.names}
            with torch.no_grad():
                now = {name: x.detach() for name, x in values.items()}
                self._plan = tried(plan, leaves, now, supports, {k: priors[k] for k in plan.names & priors.keys()})
        return self._plan, leaves

    def closed_form(self, found: Expectation) -> dict[str, Tensor]:
        """New values of the parameters that have a closed form, in the space that L-BFGS moves the others in."""
        if found.plan is None:
            return {}
        names, points = found.plan.names, self.parameters.points.transforms
        supports = {name: self.parameters.support(name) for name in names}
        priors = {name: self._sum.trace.nodes[name]["fn"] for name in names & points.keys()}
        with torch.no_grad():
            try:
                new = new_values(found.plan, found.leaves, found.values, supports, priors)
            except NoClosedForm:
                return {}
            return {name: self.parameters.transform(name).inv(x) for name, x in new.items()}

    def _found(
        self, total: float, counts: dict[str, Tensor], declared: Mapping[str, Declaration], whole: bool
    ) -> Expectation:
        """What an E step found, counts full-sized or not."""
        if whole:
            parts = {name: declared[name] for name in counts if declared[name].touched is not None}
            return Expectation(total, {**counts, **{name: d.whole(counts[name]) for name, d in parts.items()}}, {})
        return Expectation(total, counts, {}, {name: d.touched for name, d in declared.items()})

    def expected_complete(
        self, tables: Mapping[str, Tensor | LazyTable], factors: Mapping[Factor, Tensor], args: Any, kwargs: Any
    ) -> Tensor:
        """Expected complete log-likelihood of the parameters as they are now, under the posterior of an E step.

        Only the terms that depend on them: tables are held fixed.
        """
        with GivenMessenger(tables), self.parameters.active(), _Unsummed() as structures:
            self._sum.run(self.model, args, kwargs)
        for name, fn in structures.found.items():
            self._sum.trace.nodes[name]["fn"] = fn
        total = torch.zeros((), dtype=torch.float64)
        for key, factor in self.last_factors():
            if key not in factors:
                raise FitError(f"site '{key[0]}' appeared between two runs of the model: EM needs a fixed structure")
            weight = factors[key]
            # An impossible cell has posterior 0 and log-probability -inf: their product is 0.
            total = total + torch.where(weight != 0, weight * factor, 0.0).sum().double()
        return total

    def log_marginal(self, weights: Mapping[str, Tensor | LazyTable], args: Any, kwargs: Any) -> float:
        """log p(data) without counts."""
        if (record := self._recorder.replay(args, kwargs)) is not None:
            total = record.expect(weights, counted=False, parameters=self.parameters.values())[0]
            if math.isfinite(total):
                return total
        with torch.no_grad(), GivenMessenger(weights):
            return float(self._log_marginal(args, kwargs))

    def trouble(self, first: int = 0) -> str:
        """What the last run found impossible or not a number, in words: the first item of the data that shows it."""

        def item(places: Tensor) -> int:  # (found, dims)
            return first + int(places[0, -1]) if places.numel() else first

        for name, site in self._sum.trace.nodes.items():
            if site["type"] != "sample" or "unscaled_log_prob" not in site:
                continue
            log_p = site["unscaled_log_prob"].detach()
            if bool(log_p.isnan().any()):
                return f"item {item(log_p.isnan().nonzero())} of site '{name}' gives NaN"
            if (
                log_p.dim() > self.plates
            ):  # enumerated axes lie to the left: impossible only if it is under every choice
                log_p = log_p.flatten(0, log_p.dim() - self.plates - 1).amax(0)
            dead = (log_p == -torch.inf).nonzero()
            if len(dead) and site["is_observed"]:
                return f"item {item(dead)} of site '{name}' has probability zero"
        return "the data as a whole have probability zero"

    def _log_marginal(self, args: Any, kwargs: Any) -> Tensor:
        with self.parameters.active():
            return self._sum.log_marginal(self.model, args, kwargs)

    def last_factors(self) -> Iterator[tuple[Factor, Tensor]]:
        """The tensors of the last run that carry its dependence on parameters, at the level where EM is exact."""
        for name, site in self._sum.trace.nodes.items():
            if site["type"] != "sample":
                continue
            if isinstance(site["fn"], Structure):
                yield from (((name, key), w) for key, w in site["fn"].factors().items() if w.requires_grad)
            elif site["unscaled_log_prob"].requires_grad:
                yield (name, ""), site["unscaled_log_prob"]


class _Apart(Messenger):
    """Gives every weight of a structured distribution a node of its own in the graph.

    One weight may be computed from another: a stationary start from the transitions. The posterior uses of each are
    partial derivatives.
    """

    def _pyro_sample(self, msg: Any) -> None:
        if isinstance(msg["fn"], Structure):
            msg["fn"] = msg["fn"].with_tables({k: w.clone() for k, w in msg["fn"].weights.items() if w.requires_grad})


class _Unsummed(Messenger):
    """Leaves out the sums of structured distributions, where only their weights and densities are wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, Structure] = {}

    def _pyro_post_sample(self, msg: Any) -> None:
        fn = msg["fn"]
        if isinstance(fn, Structure):
            fn.prepare(msg["value"])
            self.found[msg["name"]] = fn
            msg["fn"] = _Nothing(fn.batch_shape, fn.event_shape, validate_args=False)


class _Nothing(TorchDistribution):
    """A distribution that gives every value the log-probability 0."""

    arg_constraints: ClassVar[dict[str, Any]] = {}
    support = constraints.real

    def log_prob(self, value: Tensor) -> Tensor:
        return torch.zeros(self.batch_shape, dtype=torch.float64)


class _TracedSum(TraceEnum_ELBO):
    """TraceEnum_ELBO without a guide, that keeps its trace and does its sums in one dtype.

    It overrides two private methods of Pyro's: ``_get_trace``, because no public one hands out the trace before it is
    summed, and ``_get_traces``, which enumerates. ``tests/infer/test_expectation.py`` notices if they change.
    """

    trace: poutine.Trace

    def __init__(self, dtype: torch.dtype, plates: int) -> None:
        super().__init__(max_plate_nesting=plates, strict_enumeration_warning=False)
        self.dtype = dtype

    def forget(self) -> None:
        """Drop the trace, and the counts behind its gradient, so that they are gone before the next are made."""
        self.trace = poutine.Trace()

    def _get_trace(self, model: Any, guide: Any, args: Any, kwargs: Any) -> Any:
        self.trace, guide_trace = super()._get_trace(model, guide, args, kwargs)
        for site in self.trace.nodes.values():
            if site["type"] == "sample":
                site["packed"] = {key: self._cast(x) for key, x in site["packed"].items()}
                _leave_masked_out(site)
        return self.trace, guide_trace

    def _cast(self, x: Any) -> Any:
        if not isinstance(x, Tensor) or not x.is_floating_point() or x.dtype == self.dtype:
            return x
        return _like(x.to(self.dtype), x)

    def run(self, model: Any, args: Any, kwargs: Any) -> None:
        """Trace the model, enumerated, without summing anything."""
        next(iter(self._get_traces(model, _no_guide, args, kwargs)))

    def log_marginal(self, model: Any, args: Any, kwargs: Any) -> Tensor:
        if not torch.is_grad_enabled():
            return torch.tensor(-self.loss(model, _no_guide, *args, **kwargs), dtype=torch.float64)
        try:
            result: Tensor = -self.differentiable_loss(model, _no_guide, *args, **kwargs)
        except ValueError:
            sites = [site for site in self.trace.nodes.values() if site["type"] == "sample"]
            if not sites or any(site["log_prob"].requires_grad for site in sites):
                raise  # the model itself failed, or Pyro did
            raise FitError(
                "the data do not depend on anything that the model could learn: does it use its tables?"
            ) from None
        return result


def _leave_masked_out(site: Any) -> None:
    """Make the masked cells of an enumerated site count for nothing.

    Pyro's sum leaves them in, which is harmless as long as a variable's weights sum to one. Ours need not: masked cells
    get weights that do, and that no table stands behind.
    """
    mask = site["packed"].get("mask")
    if site["infer"].get("_enumerate_dim") is None or mask is None or mask is True:
        return
    log_p = site["packed"]["unscaled_log_prob"]
    evenly = math.log(len(site["fn"].enumerate_support(expand=False)))
    kept = packed.scale_and_mask(_like(log_p + evenly, log_p), mask=mask)
    site["packed"]["unscaled_log_prob"] = _like(kept - evenly, kept)


def _like(x: Tensor, labelled: Tensor) -> Tensor:
    """Give a tensor the axis names that Pyro's packed tensors carry."""
    x._pyro_dims = labelled._pyro_dims  # type: ignore[attr-defined]
    return x


def _no_guide(*args: Any, **kwargs: Any) -> None:
    """Nothing is approximated, so nothing is guided."""
