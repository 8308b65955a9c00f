"""Gibbs sampling of a whole model: hidden structure, tables and parameters in turn, as a kernel of Pyro's MCMC."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from pyro.infer.mcmc.mcmc_kernel import MCMCKernel
from torch import Tensor
from torch.distributions import Bernoulli, Beta, Exponential, Gamma, IndependentTransform, Normal, Poisson

from ..errors import FitError
from ..estimate import Normalise
from ..estimate.closed_forms import Cells, Observations
from ..handlers.harden import harden
from ..results.sample_tables import dirichlet_rows
from ..tables import Declaration
from .closed_form import Plan, Use, maker, unwrapped, use_of
from .leaves import Leaf, leaves_of
from .shares import Share
from .slice_sampling import slice_sample
from .state import Problem


class BlockedGibbs(MCMCKernel):
    """Samples all that a model does not know, one block after the other:

    1. the hidden structure of every example, exactly, given tables and parameters;
    2. every row of every table, from its Dirichlet posterior given the structure;
    3. every parameter with a prior, given all else. A normal mean with a normal prior, rates of Poisson and exponential
       distributions with a gamma prior, and probabilities with a beta prior are drawn from their conjugate posteriors.
       Any other number, such as a scale, is drawn by slice sampling [2].

    It works for every model of the library, and for programs of your own with :func:`.table`, structured distributions
    or enumerated variables. A parameter must be one parameter of one family, element by element: ``Normal(mean,
    scale)`` with a state an element. NUTS samples all others.

    Compared with NUTS, a sweep costs one pass over the data, where NUTS takes tens to hundreds for a draw. Its draws
    depend more on each other.

    :param model: a Pyro program.

    >>> import torch
    >>> import pyro, pyro.distributions as dist
    >>> from pyro.infer import MCMC
    >>> import pyro_unsup as pu
    >>> counts = torch.tensor([3.0, 4.0, 2.0, 11.0, 12.0, 9.0, 3.0, 4.0])
    >>> model = pu.models.HMM(2, "poisson", prior={"rate": dist.Gamma(2.0, 0.3)})
    >>> pyro.set_rng_seed(0)
    >>> mcmc = MCMC(pu.BlockedGibbs(model), num_samples=50, warmup_steps=50, disable_progbar=True)
    >>> mcmc.run(counts)
    >>> sorted(mcmc.get_samples()), mcmc.get_samples()["rate"].shape
    (['rate', 'start', 'transition'], torch.Size([50, 2]))

    **References:**

    [1] S. Scott (2002) "Bayesian methods for hidden Markov models".
    [2] R. Neal (2003) "Slice sampling".
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._drawn = harden(model, draw=True)
        self.transforms: dict[str, Any] = {}
        self._problem: Problem | None = None
        self._given: dict[str, Tensor] = {}

    # -- what Pyro's MCMC asks of a kernel

    def setup(self, warmup_steps: int, *args: Any, **kwargs: Any) -> None:
        """Begin a chain on these data, at a draw from the priors."""
        share = Share.of(self.model, (args, kwargs))
        self._problem = problem = Problem.of(
            self.model, self._drawn, share, Normalise(), Normalise, torch.float64, int(torch.randint(2**31, ()))
        )
        if problem.parameters.names:
            raise FitError(
                f"BlockedGibbs samples what has a prior, and pyro.param has none: "
                f"{', '.join(problem.parameters.names)}. Give each of them a prior by pyro.sample, or train the model "
                "with EM"
            )
        # Logs, which stay finite where a small concentration makes a weight underflow.
        self._tables = {name: dirichlet_rows(d.layout, _prior(d)) for name, d in problem.declarations.items()}
        self._uses: dict[str, Use] | None = None
        self._run()  # shows the priors of points
        trace = problem.marginal.last_trace
        with torch.no_grad():
            for name, how in problem.parameters.points.transforms.items():
                problem.parameters.points.unconstrained[name].copy_(how.inv(trace.nodes[name]["fn"].sample()))
        self._log_joint = torch.nan
        self._begin_at(self._given)

    @property
    def initial_params(self) -> dict[str, Tensor]:
        return self._params()

    @initial_params.setter
    def initial_params(self, params: Mapping[str, Tensor]) -> None:  # which MCMC sets before it calls setup
        self._given = dict(params)

    def _begin_at(self, params: Mapping[str, Tensor]) -> None:
        assert self._problem is not None
        points = self._problem.parameters.points
        for name, x in params.items():
            own = self._tables.get(name, points.unconstrained.get(name))
            if own is None:
                known = sorted({*self._tables, *points.unconstrained})
                raise FitError(f"initial_params has '{name}', expected some of {known}")
            if name in self._tables:
                self._tables[name] = x.detach().double().reshape(own.shape).log()
            else:
                with torch.no_grad():
                    own.copy_(points.transforms[name].inv(x.detach()))

    def sample(self, params: Any) -> dict[str, Tensor]:
        """One sweep. The chain goes on from where it is, which is what ``params`` tell of."""
        leaves = self._run()
        for name, declaration in self._problem.declarations.items():  # type: ignore[union-attr]
            self._tables[name] = dirichlet_rows(declaration.layout, _prior(declaration) + self._counts[name])
        if self._uses:
            self._draw_points(leaves)
        return self._params()

    def logging(self) -> OrderedDict[str, str]:
        return OrderedDict([("log joint", f"{self._log_joint:.1f}")])

    def diagnostics(self) -> dict[str, Any]:
        """None: all draws are accepted."""
        return {"divergences": [], "acceptance rate": 1.0}

    # -- one sweep

    def _params(self) -> dict[str, Tensor]:
        assert self._problem is not None
        points = self._problem.parameters.points
        values = {name: how(points.unconstrained[name].detach()) for name, how in points.transforms.items()}
        return {**{name: x.exp() for name, x in self._tables.items()}, **values}

    def _run(self) -> list[Leaf]:
        """Draw hidden structure. Keeps its counts, and returns observations with the states that were drawn."""
        problem = self._problem
        assert problem is not None
        marginal, points = problem.marginal, problem.parameters.points
        found = marginal.expect(self._tables, *problem.data, others=bool(points.unconstrained))
        found.check(0)
        self._counts, self._log_joint = {k: x.clamp(min=0) for k, x in found.counts.items()}, found.log_marginal
        if not points.unconstrained:
            return []
        trace = marginal.last_trace
        leaves, known = leaves_of(trace, found.factors, points.transforms)
        # Where a variable was drawn, which parameter an observation has is another one in every sweep.
        if self._uses is None or self._drawn.enumerated:
            others = [x for key, x in marginal.last_factors() if key not in known and key[0] not in points.transforms]
            others += [x for name in points.transforms for x in _tensors(trace.nodes[name]["fn"])]  # of other priors
            self._uses = {}
            for name in points.transforms:
                use = use_of(trace.nodes[name]["value"], leaves, others)
                if use is None or use.block:
                    raise FitError(
                        f"BlockedGibbs samples parameters of families, element by element, and '{name}' is used in "
                        "another way: sample the model with pyro.infer.NUTS"
                    )
                self._uses[name] = use
        self._priors = {name: unwrapped(trace.nodes[name]["fn"]) for name in points.transforms}
        return leaves

    @torch.no_grad()
    def _draw_points(self, leaves: list[Leaf]) -> None:
        assert self._problem is not None
        assert self._uses is not None
        points = self._problem.parameters.points
        values = {name: how(points.unconstrained[name].detach()) for name, how in points.transforms.items()}
        plan = Plan([{name: use} for name, use in self._uses.items()])
        own = [{(0, name): where for (j, name), where in plan.at.items() if j == i} for i in range(len(leaves))]
        makers = [maker(leaf.dist, at) for leaf, at in zip(leaves, own, strict=True)]
        for name, use in self._uses.items():
            prior, u = self._priors[name], points.unconstrained[name]

            def total(term: Any, name: str = name, use: Use = use) -> Tensor:
                sites = [
                    Observations(makers[i](values), leaves[i].value, leaves[i].weight, {use.argument: place})
                    for i, place in use.places
                ]
                return Cells(sites, {use.argument: values[name].shape}).total(use.argument, term)

            conjugate = _CONJUGATE.get((use.family, use.argument, _family_of(prior)))
            if conjugate is not None:
                values[name] = conjugate(prior, total).expand(values[name].shape).to(values[name])
                u.copy_(points.transforms[name].inv(values[name]))
                continue

            def log_density(at: Tensor, name: str = name, prior: Any = prior, total: Any = total) -> Tensor:
                how = _each(points.transforms[name])
                values[name] = how(at)
                own = prior.log_prob(values[name]) + how.log_abs_det_jacobian(at, values[name])
                found: Tensor = own + total(_complete)
                return found

            u.copy_(slice_sample(log_density, u.detach().clone()))
            values[name] = points.transforms[name](u.detach())


def _each(transform: Any) -> Any:
    """The same transform with a Jacobian for every element, where that of a vector is one number for all."""
    while isinstance(transform, IndependentTransform):
        transform = transform.base_transform
    return transform


def _complete(x: Tensor, w: Tensor, d: Any) -> Tensor:
    return torch.where(w > 0, w * d.log_prob(x), 0.0)


def _prior(declaration: Declaration) -> Tensor:
    return declaration.concentration(torch.float64)


def _tensors(fn: Any) -> list[Tensor]:
    return [x for x in vars(unwrapped(fn)).values() if isinstance(x, Tensor) and x.requires_grad]


def _family_of(prior: Any) -> type | None:
    return next((kind for kind in (Normal, Gamma, Beta) if isinstance(prior, kind)), None)


# -- conjugate posteriors: from a prior, and a function that adds something up over the data


def _normal_mean(prior: Any, total: Any) -> Tensor:
    precision = 1 / prior.scale**2 + total(lambda x, w, d: w / d.scale**2)
    mean = (prior.loc / prior.scale**2 + total(lambda x, w, d: w * x / d.scale**2)) / precision
    found: Tensor = mean + torch.randn_like(mean) / precision.sqrt()
    return found


def _gamma_rate(prior: Any, total: Any) -> Tensor:  # of a Poisson distribution
    shape = prior.concentration + total(lambda x, w, d: w * x)
    found: Tensor = torch._standard_gamma(shape) / (prior.rate + total(lambda x, w, d: w + 0 * x))
    return found


def _exponential_rate(prior: Any, total: Any) -> Tensor:
    shape = prior.concentration + total(lambda x, w, d: w + 0 * x)
    found: Tensor = torch._standard_gamma(shape) / (prior.rate + total(lambda x, w, d: w * x))
    return found


def _probability(prior: Any, total: Any) -> Tensor:
    ones, all_ = total(lambda x, w, d: w * x), total(lambda x, w, d: w + 0 * x)
    found: Tensor = Beta(prior.concentration1 + ones, prior.concentration0 + all_ - ones).sample()
    return found


_CONJUGATE: dict[Any, Callable[[Any, Any], Tensor]] = {
    (Normal, "loc", Normal): _normal_mean,
    (Poisson, "rate", Gamma): _gamma_rate,
    (Exponential, "rate", Gamma): _exponential_rate,
    (Bernoulli, "probs", Beta): _probability,
}
