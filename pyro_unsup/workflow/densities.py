"""A model as densities: its log prior and its log-likelihood for many values of its parameters at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.infer import TraceEnum_ELBO, config_enumerate
from pyro.poutine.util import site_is_subsample
from torch import Tensor
from torch.distributions import biject_to

from ..distributions import Structure
from ..errors import UnsupError

Values = Mapping[str, Tensor]

#: How close the densities of draws at once have to be to those one by one, relative to their size.
SAME = 1e-6


@dataclass(frozen=True)
class Site:
    """A latent variable of the model.

    :param shape: of one value.
    :param event_dim: how many of its axes are no plates.
    :param support: where its values lie.
    """

    shape: torch.Size
    event_dim: int
    support: Any

    @property
    def transform(self) -> Any:
        """From all numbers to the support."""
        return biject_to(self.support)


class Densities:
    """p(theta) and p(x | theta) of a Pyro model and some data, for many theta at once.

    Hidden structure is summed out: by the model's structured distributions, or by enumeration. All draws go through
    the model in one run, in a plate to the left of its own. Where the program of the model does not allow that, and
    gives other numbers than draw by draw, it runs once a draw.

    :param model: a Pyro program.
    :param args: its arguments, with the data that it observes.
    :param kwargs: likewise.
    """

    def __init__(self, model: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None):
        self.model, self.args, self.kwargs = model, tuple(args), dict(kwargs or {})
        store = pyro.get_param_store()
        with torch.random.fork_rng(devices=[]), store.scope(store.get_state()):  # a look leaves no parameters behind
            trace = poutine.trace(model).get_trace(*self.args, **self.kwargs)
        sites = [s for s in trace.nodes.values() if s["type"] == "sample" and not site_is_subsample(s)]
        self.nesting = max((-f.dim for s in sites for f in s["cond_indep_stack"] if f.vectorized), default=0)
        hidden = [s for s in sites if not s["is_observed"]]
        #: Parameters without a prior.
        self.points = [s["name"] for s in trace.nodes.values() if s["type"] == "param"]
        self.observed = [s["name"] for s in sites if s["is_observed"]]
        if not self.observed:
            raise UnsupError("the model observes nothing: give it the data, as it takes them")
        self.enumerated = [s["name"] for s in hidden if getattr(s["fn"], "has_enumerate_support", False)]
        self.sites = {
            s["name"]: Site(s["value"].shape, s["fn"].event_dim, s["fn"].support)
            for s in hidden
            if s["name"] not in self.enumerated
        }
        self.dtype = next((s["value"].dtype for s in hidden if s["value"].is_floating_point()), torch.float64)

    # -- draws from the prior

    def prior(self, size: int) -> dict[str, Tensor]:  # (size, *shape) each
        """Draws of the latent variables from their prior, by the global generator."""
        with torch.no_grad():
            found = [self._drawn() for _ in range(size)]
        return {name: torch.stack([one[name] for one in found]) for name in self.sites}

    def _drawn(self) -> dict[str, Tensor]:
        trace = poutine.trace(self.model).get_trace(*self.args, **self.kwargs)
        return {name: trace.nodes[name]["value"] for name in self.sites}

    # -- densities of draws

    def log_prior(self, values: Values) -> Tensor:  # (S, *shape) each -> (S,)
        """The log prior of each draw. The data are not looked at."""
        self._check_all(values)
        if not self.at_once:
            return torch.stack([self._prior_of(one) for one in self._each(values)])
        trace = self._trace_at_once(values)
        trace.compute_log_prob(lambda name, site: name in self.sites)
        return self._prior_by_draw(trace, len(next(iter(values.values()))))

    def log_likelihood(self, values: Values) -> Tensor:  # (S, *shape) each -> (S,)
        """The log-likelihood of all data, of each draw."""
        return self._both(values)[1]

    def both(self, values: Values) -> tuple[Tensor, Tensor]:  # (S,), (S,)
        """Log prior and log-likelihood."""
        return self._both(values)

    def exact(self) -> Tensor:  # ()
        """The log-likelihood of all data, if nothing but hidden structure and enumerated variables is latent."""
        return self._run({})[1].sum()

    def pointwise(self, values: Values) -> Tensor:  # (S, examples)
        """The log-likelihood of each example, of each draw."""
        if self.enumerated:
            raise UnsupError(
                f"the model enumerates {', '.join(self.enumerated)}, which are summed over all examples at once: "
                "pointwise densities need a structured distribution, or an observed site that sums them out"
            )
        self.check(values)
        if not self.at_once:
            return torch.stack([self._run(one)[1].reshape(-1) for one in self._each(values)])
        return self._run_at_once(values)[1]

    def check(self, values: Values) -> None:
        """Raise unless there is a value for every latent variable, of the right shape."""
        if missing := sorted(self.sites.keys() - values.keys()):
            raise UnsupError(
                f"the draws have no values of {', '.join(missing)}: expected {', '.join(self.sites)}, actual "
                f"{', '.join(values) or 'none'}"
            )
        for name, site in self.sites.items():
            if values[name].shape[1:] != site.shape:
                raise UnsupError(
                    f"draws of {name} should have shape (draws, *{tuple(site.shape)}), actual "
                    f"{tuple(values[name].shape)}"
                )

    def _both(self, values: Values) -> tuple[Tensor, Tensor]:
        self._check_all(values)
        if not self.at_once:
            found = [self._run(one) for one in self._each(values)]
            return torch.stack([p for p, _ in found]), torch.stack([x.sum() for _, x in found])
        prior, each = self._run_at_once(values)
        return prior, each.sum(-1)

    def _check_all(self, values: Values) -> None:
        self.check(values)
        if not self.sites:
            raise UnsupError("the model has no latent variables: a point has no prior to weigh it by")

    @cached_property
    def at_once(self) -> bool:
        """Whether all draws may go through the model in one run: it gives the same numbers as one by one."""
        if self.enumerated:
            return False
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            probe = self.prior(3)
            try:
                prior, each = self._run_at_once(probe)
            except (RuntimeError, ValueError, IndexError):  # a program that does not broadcast
                return False
            apart = [self._run(one) for one in self._each(probe)]
        right_prior = torch.stack([p for p, _ in apart])
        right = torch.stack([x.reshape(-1) for _, x in apart])
        return each.shape == right.shape and _same(prior, right_prior) and _same(each, right)

    def _each(self, values: Values) -> list[dict[str, Tensor]]:
        size = len(next(iter(values.values())))
        return [{name: values[name][i] for name in self.sites} for i in range(size)]

    def _run(self, one: Values) -> tuple[Tensor, Tensor]:
        """Of one draw: the log prior, and the log-likelihood of each example (of all, if there is enumeration)."""
        model = poutine.condition(self.model, dict(one))
        if self.enumerated:
            elbo = TraceEnum_ELBO(max_plate_nesting=self.nesting, strict_enumeration_warning=False)
            moving = torch.is_grad_enabled() and any(x.requires_grad for x in one.values())
            loss: Any = elbo.differentiable_loss if moving else elbo.loss
            found = loss(config_enumerate(model), lambda *args, **kwargs: None, *self.args, **self.kwargs)
            total = -torch.as_tensor(found, dtype=self.dtype)
            prior = self._prior_of(one)
            return prior, total - prior
        trace = poutine.trace(model).get_trace(*self.args, **self.kwargs)
        trace.compute_log_prob()
        each = [trace.nodes[name]["log_prob"].reshape(-1) for name in self.observed]
        return self._sum(trace, list(self.sites)), torch.cat(each)

    def _prior_of(self, one: Values) -> Tensor:  # ()
        trace = poutine.trace(poutine.condition(self.model, dict(one))).get_trace(*self.args, **self.kwargs)
        return self._sum(trace, list(self.sites))

    @staticmethod
    def _sum(trace: Any, names: Sequence[str]) -> Tensor:
        trace.compute_log_prob(lambda name, site: name in names)
        return sum((trace.nodes[name]["log_prob"].sum() for name in names), torch.zeros(()))

    def structured(self, values: Values) -> tuple[Structure, Tensor]:
        """The structured distribution of the data, with the weights of every draw, and the value that it observes.

        :raises UnsupError: if the model has none or several of them, or does not run on all draws at once.
        """
        self.check(values)
        if not self.at_once:
            raise UnsupError("this model does not run on all draws at once, so its structures are not known by draw")
        trace = self._trace_at_once(values)
        found = [trace.nodes[name] for name in self.observed if isinstance(trace.nodes[name]["fn"], Structure)]
        if len(found) != 1:
            raise UnsupError(f"expected a model with one structured distribution, actual {len(found)}")
        return found[0]["fn"], found[0]["value"]

    def _trace_at_once(self, values: Values) -> Any:
        size = len(next(iter(values.values())))
        wide = {}
        for name, site in self.sites.items():
            plates = len(site.shape) - site.event_dim
            ones = (1,) * (self.nesting - plates)
            wide[name] = values[name].reshape(size, *ones, *site.shape)
        depth = -1 - self.nesting

        def model(*args: Any, **kwargs: Any) -> Any:
            with pyro.plate("_draws_of_parameters", size, dim=depth):
                return self.model(*args, **kwargs)

        return poutine.trace(poutine.condition(model, wide)).get_trace(*self.args, **self.kwargs)

    def _run_at_once(self, values: Values) -> tuple[Tensor, Tensor]:  # (S,), (S, examples)
        size, trace = len(next(iter(values.values()))), self._trace_at_once(values)
        trace.compute_log_prob()

        return self._prior_by_draw(trace, size), torch.cat([self._by_draw(trace, n, size) for n in self.observed], -1)

    def _prior_by_draw(self, trace: Any, size: int) -> Tensor:  # (S,)
        each = (self._by_draw(trace, name, size).sum(-1) for name in self.sites)
        return sum(each, torch.zeros(size, dtype=self.dtype))

    def _by_draw(self, trace: Any, name: str, size: int) -> Tensor:  # (S, plates)
        found: Tensor = trace.nodes[name]["log_prob"]
        missing = (1,) * (self.nesting + 1 - found.dim())
        found = found.reshape(*missing, *found.shape)
        return found.expand(size, *found.shape[1:]).reshape(size, -1)

    # -- the same in a space without bounds

    def to_unbounded(self, values: Values) -> Tensor:  # (S, D)
        """Values as vectors of numbers without bounds."""
        size = len(next(iter(values.values())))
        return torch.cat([site.transform.inv(values[name]).reshape(size, -1) for name, site in self.sites.items()], -1)

    def to_values(self, unbounded: Tensor) -> tuple[dict[str, Tensor], Tensor]:  # (S, D) -> values, (S,)
        """Values from such vectors, and the log of the volume that the map makes of a unit."""
        values, volume, at = {}, unbounded.new_zeros(len(unbounded)), 0
        for name, site in self.sites.items():
            transform = site.transform
            shape = transform.inverse_shape(site.shape)
            numel = torch.Size(shape).numel()
            flat = unbounded[:, at : at + numel].reshape(len(unbounded), *shape)
            values[name] = transform(flat)
            jacobian = transform.log_abs_det_jacobian(flat, values[name])
            volume = volume + jacobian.reshape(len(unbounded), -1).sum(-1)
            at += numel
        return values, volume


def _same(one: Tensor, other: Tensor) -> bool:
    """Equal up to rounding."""
    if one.shape != other.shape:
        return False
    return bool(torch.allclose(one, other, rtol=SAME, atol=SAME, equal_nan=False))
