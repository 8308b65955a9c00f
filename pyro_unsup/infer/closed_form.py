"""M steps in closed form for parameters of a model: which parameters have one, and their new values.

A parameter has a closed form if it reaches the data only as one parameter of one family
(:mod:`pyro_unsup.estimate.closed_forms`), element by element: ``Normal(mean, scale)`` with a state an element,
``Normal(mean[z], 1.0)`` of an enumerated ``z``, one scale for all states. This is found out once, from the graph of a
run, and never by names. All other parameters climb by L-BFGS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from inspect import getattr_static
from itertools import count
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.utils import lazy_property

from ..distributions import Joint
from ..errors import StructureError
from ..estimate.closed_forms import Cells, NoClosedForm, Observations, closed_form
from .leaves import Leaf, leaves_in

#: By family of the data and parameter, the prior that keeps its closed form.
CONJUGATE: dict[tuple[type, str], type] = {
    (torch.distributions.Normal, "loc"): torch.distributions.Normal,
    (torch.distributions.Poisson, "rate"): torch.distributions.Gamma,
    (torch.distributions.Exponential, "rate"): torch.distributions.Gamma,
    (torch.distributions.Bernoulli, "probs"): torch.distributions.Beta,
    (torch.distributions.Categorical, "probs"): torch.distributions.Dirichlet,
}
#: Parameters of families with a closed form that have none themselves.
CLIMBS = {
    (torch.distributions.NegativeBinomial, "total_count"),
    (torch.distributions.Binomial, "total_count"),
    (torch.distributions.Laplace, "loc"),
}
#: Axes of a parameter that belong together.
BLOCKS = {
    (torch.distributions.MultivariateNormal, "loc"): 1,
    (torch.distributions.MultivariateNormal, "covariance_matrix"): 2,
    (torch.distributions.MultivariateNormal, "scale_tril"): 2,
    (torch.distributions.MultivariateNormal, "precision_matrix"): 2,
    (torch.distributions.Categorical, "probs"): 1,
    (torch.distributions.Categorical, "logits"): 1,
}


@dataclass(frozen=True)
class Use:
    """How a parameter of a model is used: as this parameter of the distributions at these places.

    :param family: of these distributions.
    :param argument: its name there.
    :param places: number of the leaf, and the element of the parameter that each element there is (None: the same).
    """

    family: type
    argument: str
    places: tuple[tuple[int, Tensor | None], ...]

    @property
    def block(self) -> int:
        """How many axes of the parameter belong together."""
        return _block(self.family, self.argument)


@dataclass
class Plan:
    """Which parameters are estimated in closed form, in groups that share distributions.

    :param groups: by parameter of the model, its use; the parameters of one group belong to the same distributions.
    """

    groups: list[dict[str, Use]] = field(default_factory=list)

    @cached_property
    def names(self) -> set[str]:
        """The parameters that have a closed form."""
        return {name for group in self.groups for name in group}

    @cached_property
    def at(self) -> dict[tuple[int, str], tuple[str, Tensor | None]]:
        """By leaf and argument, the parameter that is there, and which of its elements."""
        uses = [(name, use) for group in self.groups for name, use in group.items()]
        return {(i, use.argument): (name, place) for name, use in uses for i, place in use.places}


def make_plan(
    leaves: list[Leaf],
    parameters: Mapping[str, Tensor],
    others: list[Tensor],
    priors: Mapping[str, Any],
) -> Plan:
    """Find the parameters that have a closed form.

    :param parameters: constrained values, as tensors of the graph of the run.
    :param others: all that reaches the objective other than through the leaves: log-weights, log-probabilities.
    :param priors: by name, the distributions of those parameters that have one.
    """
    arguments = [(i, name, x) for i, leaf in enumerate(leaves) for name, x in arguments_of(leaf.dist)]
    uses: dict[str, Use] = {}
    moved: list[set[str]] = [set() for _ in leaves]  # by leaf, the parameters that move it
    for name, theta in parameters.items():
        for i, _, x in arguments:
            if _depends(x, theta):
                moved[i].add(name)
        use = use_of(theta, leaves, others)
        if use is None or closed_form(use.family) is None or (use.family, use.argument) in CLIMBS:
            continue
        if name not in priors or _prior_fits(priors[name], use.family, use.argument):
            uses[name] = use
    return Plan(list(_grouped(uses, moved)))


def use_of(theta: Tensor, leaves: list[Leaf], others: list[Tensor]) -> Use | None:
    """How a parameter is used, if it is nothing but one parameter of one family, element by element.

    :param theta: constrained, as a tensor of the graph of the run.
    :param others: all that reaches the objective other than through the leaves.
    """
    if not theta.requires_grad or any(_depends(x, theta) for x in others):
        return None
    arguments = [(i, name, x) for i, leaf in enumerate(leaves) for name, x in arguments_of(leaf.dist)]
    where = [(i, argument, x) for i, argument, x in arguments if _depends(x, theta)]
    kinds = {(_family(type(leaves[i].dist)), argument) for i, argument, _ in where}
    if len(kinds) != 1:
        return None
    (family, argument), places = next(iter(kinds)), []
    for i, _, x in where:
        found = _index(x, theta, _block(family, argument), family is torch.distributions.Categorical)
        if found is False:
            return None
        places.append((i, found))
    return Use(family, argument, tuple(places))  # type: ignore[arg-type]


def _grouped(uses: dict[str, Use], moved: list[set[str]]) -> Iterator[dict[str, Use]]:
    """Parameters by the leaves that they belong to.

    All parameters that move a leaf must be in its group. One that climbs, with the others at their old values, would
    make the M step a part of what it could be.

    :param moved: by leaf, the parameters that move it.
    """
    by_leaves: dict[frozenset[int], dict[str, Use]] = {}
    for name, use in uses.items():
        by_leaves.setdefault(frozenset(i for i, _ in use.places), {})[name] = use
    for places, group in by_leaves.items():
        arguments = [use.argument for use in group.values()]
        if len(set(arguments)) == len(arguments) and all(moved[i] <= group.keys() for i in places):
            yield group


@cache
def _computed(kind: type) -> frozenset[str]:
    """The arguments of a family that it can compute from others, when they are asked for."""
    return frozenset(name for name in dir(kind) if isinstance(getattr_static(kind, name, None), lazy_property))


def arguments_of(fn: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a distribution was made of, by name, without those that it computed from them."""
    # A log-normal distribution keeps its parameters in the normal one inside.
    inside = fn.base_dist if isinstance(fn, torch.distributions.LogNormal) else fn
    # Of ways to say the same (probs and logits), the one that was given is there first; others are kept when computed.
    kind: Any = type(inside)
    ways = [name for name in inside.__dict__ if name in _computed(kind)]
    for name in fn.arg_constraints:
        x = inside.__dict__.get(name)
        if isinstance(x, Tensor) and x.is_floating_point() and name not in ways[1:]:
            yield name, x


def _family(kind: type) -> type:
    """The family of a class of distributions, which Pyro's own classes inherit from."""
    for one in kind.__mro__:
        if closed_form(one) is not None and one.__module__.startswith("torch.distributions"):
            return one
    return kind


def _block(family: type, argument: str) -> int:
    return BLOCKS.get((family, argument), 0)


def _prior_fits(prior: Any, family: type, argument: str) -> bool:
    kind = CONJUGATE.get((family, argument))
    return kind is not None and isinstance(unwrapped(prior), kind)


def unwrapped(prior: Any) -> Any:
    while isinstance(prior, torch.distributions.Independent):
        prior = prior.base_dist
    return prior


def _depends(x: Tensor, theta: Tensor) -> bool:
    if x is theta:
        return True
    if not x.requires_grad:
        return False
    found = torch.autograd.grad(x.sum(), theta, retain_graph=True, allow_unused=True)[0]
    return found is not None


def _index(x: Tensor, theta: Tensor, block: int, simplex: bool) -> Tensor | bool | None:
    """Which element of a parameter each element of a tensor is. None: they are the same. False: some element is none.

    The tensor is a function of the parameter. If its derivative along a random vector r is r at some place, and so it
    is for another r, every element is a copy of one.
    """
    if x.shape == theta.shape and x.data_ptr() == theta.data_ptr() and x.stride() == theta.stride():
        return None
    if simplex and x.shape == theta.shape and torch.allclose(x, theta, rtol=1e-12, atol=0.0):
        return None  # a Categorical divides by the sum, which is 1
    # Axes along which elements are only repeated need one look.
    repeated = [step == 0 and size > 1 for size, step in zip(x.shape, x.stride(), strict=True)]
    x = x[tuple(slice(0, 1) if once else slice(None) for once in repeated)] if any(repeated) else x
    with torch.enable_grad():
        u = torch.zeros_like(x, requires_grad=True)
        back = torch.autograd.grad(x, theta, u, create_graph=True, retain_graph=True, allow_unused=True)[0]
        if back is None or not back.requires_grad:
            return False
        numbers = torch.arange(theta.numel(), dtype=theta.dtype, device=theta.device).reshape(theta.shape)
        along = torch.autograd.grad(back, u, numbers, retain_graph=True)[0]
        generator = torch.Generator().manual_seed(0)
        other = torch.randn(theta.shape, generator=generator, dtype=theta.dtype).to(theta.device)
        check = torch.autograd.grad(back, u, other, retain_graph=True)[0]
    place = along.round().long()
    if bool((place < 0).any()) or bool((place >= max(theta.numel(), 1)).any()):
        return False
    if not torch.equal(other.reshape(-1)[place], check) or not torch.equal(
        theta.detach().reshape(-1)[place], x.detach()
    ):
        return False
    if block:
        size = theta.shape[theta.dim() - block :].numel()
        inner = place.flatten(place.dim() - block)  # (*batch, block elements)
        if not torch.equal(inner - inner[..., :1], torch.arange(size).expand(inner.shape)):
            return False
        place = inner[..., 0] // size
    every = torch.arange(place.numel()).reshape(place.shape)
    return None if place.shape == theta.shape[: theta.dim() - block] and torch.equal(place, every) else place


def new_values(
    plan: Plan, leaves: list[Leaf], old: Mapping[str, Tensor], supports: Mapping[str, Any], priors: Mapping[str, Any]
) -> dict[str, Tensor]:
    """New constrained values of all parameters in a plan.

    :param old: their values now.
    :param supports: by parameter, the constraint on it.
    :raises NoClosedForm: if these data have none.
    """
    new: dict[str, Tensor] = {}
    for group in plan.groups:
        names = {use.argument: name for name, use in group.items()}
        any_use = next(iter(group.values()))
        index: dict[int, dict[str, Tensor | None]] = {i: {} for i, _ in any_use.places}
        for use in group.values():
            for i, place in use.places:
                index[i][use.argument] = place
        family = any_use.family
        cells = Cells(
            [Observations(leaves[i].dist, leaves[i].value, leaves[i].weight, at) for i, at in index.items()],
            {argument: old[name].shape for argument, name in names.items()},
            {argument: _block(family, argument) for argument in names},
            {argument: unwrapped(priors[name]) for argument, name in names.items() if name in priors},
        )
        step = closed_form(family)
        assert step is not None
        found = step(cells, set(names))
        if found.keys() != names.keys():
            raise NoClosedForm
        for argument, name in names.items():
            new[name] = _allowed(name, found[argument], old[name], supports[name])
    return new


def tried(
    plan: Plan, leaves: list[Leaf], values: Mapping[str, Tensor], supports: Mapping[str, Any], priors: Mapping[str, Any]
) -> Plan:
    """The part of a plan whose families do give what is wanted of them: a gamma's shape alone has no formula, say."""
    kept = []
    for group in plan.groups:
        if any(_bounded(supports[name]) for name in group):
            continue  # the best value may lie at an edge, where only climbing knows what to do
        try:
            new_values(Plan([group]), leaves, values, supports, priors)
        except NoClosedForm:
            continue
        except StructureError:
            pass  # a bad start is told in the M step, with its iteration
        kept.append(group)
    return Plan(kept)


def _bounded(support: Any) -> bool:
    """Whether a constraint has two ends, other than those of a probability."""
    return isinstance(support, constraints.interval) and support is not constraints.unit_interval


def _allowed(name: str, new: Tensor, old: Tensor, support: Any) -> Tensor:
    """A new value that its constraint allows. An element that no data reach keeps its old value."""
    bounded = isinstance(support, constraints.greater_than | constraints.greater_than_eq)
    if not bounded or support.lower_bound == 0:
        value = new.to(old)
        if _plainly_allowed(value, support):  # as it nearly always is
            return value
    value = torch.where(new.isnan(), old, new.to(old)).detach()
    if bounded:
        low = torch.as_tensor(support.lower_bound, dtype=value.dtype)
        least = low + torch.finfo(value.dtype).eps * low.abs().clamp(min=1e-3)
        if bool((low > 0).all()):
            value = torch.maximum(value, least.expand_as(value))
        elif bool((value <= low).any()):
            raise StructureError(_degenerate(name, value <= low))
    ok = support.check(value)
    if not bool(ok.all()):
        raise StructureError(_degenerate(name, ~ok))
    return value


def _plainly_allowed(value: Tensor, support: Any) -> bool:
    """Whether a value is one that its constraint allows. NaN is not. Of a few numbers, numpy tells it sooner."""
    if value.is_cpu and support is constraints.real:
        return not np.isnan(value.detach().numpy()).any()
    if value.is_cpu and support is constraints.positive:
        return bool((value.detach().numpy() > 0).all())
    return bool(support.check(value).all())


def _degenerate(name: str, wrong: Tensor) -> str:
    place = wrong.nonzero()[0].tolist()
    element = f"element {place[0] if len(place) == 1 else tuple(place)} of " if place else ""
    return (
        f"{element}parameter '{name}' has run to the edge of its "
        "constraint: a state may have shrunk onto one observation, where the likelihood has no limit. Use fewer "
        "states, other starts (restarts=10), a prior, or a constraint with room, such as constraints.greater_than(0.01)"
    )


#: From values of parameters, constrained, to a distribution.
Maker = Callable[[Mapping[str, Tensor]], Any]


def maker(fn: Any, at: Mapping[tuple[int, str], tuple[str, Tensor | None]]) -> Maker:
    """A function that makes a distribution again, with other values of parameters.

    :param at: by leaf of the distribution, counted from 0, and argument: the parameter, and which of its elements.
    """
    return _maker(fn, at, count())


def fixed_arguments(fn: Any, plan: Plan) -> list[tuple[type, dict[str, Tensor]]] | None:
    """By leaf, its family and the arguments that are no parameters of the plan; None if something else moves them."""
    nothing = fn.batch_shape
    each = leaves_in(fn, torch.zeros(*nothing, *fn.event_shape), torch.zeros(nothing), None)
    found = []
    for i, leaf in enumerate(each):
        fixed = {name: x for name, x in arguments_of(leaf.dist) if (i, name) not in plan.at}
        if any(x.requires_grad for x in fixed.values()):
            return None
        found.append((type(leaf.dist), fixed))
    return found


def _maker(fn: Any, at: Mapping[tuple[int, str], Any], leaves: Iterator[int]) -> Maker:
    if isinstance(fn, torch.distributions.Independent):
        inside = _maker(fn.base_dist, at, leaves)
        return lambda values: _like(fn, {"base_dist": inside(values)})
    if isinstance(fn, Joint):
        parts = [_maker(part, at, leaves) for part in fn.parts]
        return lambda values: Joint(*(part(values) for part in parts))
    i, given = next(leaves), dict(arguments_of(fn))
    moved = {argument: at[i, argument] for argument in given if (i, argument) in at}
    fixed = {argument: x for argument, x in given.items() if argument not in moved}
    blocks = {argument: _block(_family(type(fn)), argument) for argument in moved}
    # Most families keep their arguments as they are, and nothing else. Then a copy with others is the quickest way.
    tensors = {name for name, x in fn.__dict__.items() if isinstance(x, Tensor)}
    plain = tensors == given.keys()

    def make(values: Mapping[str, Tensor]) -> Any:
        new = {}
        for argument, (name, place) in moved.items():
            x = values[name]
            new[argument] = x if place is None else x.reshape(-1, *x.shape[x.dim() - blocks[argument] :])[place]
        if plain and all(x.shape == given[argument].shape for argument, x in new.items()):
            return _like(fn, new)
        return type(fn)(**fixed, **new, validate_args=False)

    return make


def _like(fn: Any, new: Mapping[str, Any]) -> Any:
    """A copy of a distribution with other attributes."""
    found = object.__new__(type(fn))
    found.__dict__.update(fn.__dict__, **new)
    return found
