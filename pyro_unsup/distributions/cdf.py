"""Distribution functions of the families that torch gives none for, and of vectors coordinate by coordinate."""

from __future__ import annotations

from copy import copy
from typing import Any

import scipy  # it loads its parts when they are first used, and statistics are large
import torch
from torch import Tensor

from ..errors import StructureError
from .emission import Joint


def cdf(fn: Any, value: Tensor) -> Tensor:  # (*batch, *event) -> (*batch, *event)
    """P(X <= x); of a vector, for each of its coordinates on its own.

    >>> import torch
    >>> import pyro.distributions as dist
    >>> from pyro_unsup.distributions.cdf import cdf
    >>> cdf(dist.Poisson(torch.tensor(2.0)), torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.0000, 0.1353, 0.4060])
    """
    if isinstance(fn, torch.distributions.Independent):
        return cdf(fn.base_dist, value)
    if isinstance(fn, Joint):
        each = [cdf(part, x) for part, x in zip(fn.parts, fn.split(value), strict=True)]
        wide = [x if part.event_shape else x.unsqueeze(-1) for x, part in zip(each, fn.parts, strict=True)]
        return torch.cat(wide, -1)
    if isinstance(fn, torch.distributions.MultivariateNormal):
        normal: Tensor = torch.special.ndtr((value - fn.loc) / fn.variance.sqrt())
        return normal
    if isinstance(fn, torch.distributions.MixtureSameFamily):
        event = len(fn.event_shape)  # the axis of components comes before it
        weights = fn.mixture_distribution.probs
        weights = weights.reshape(*weights.shape, *(1,) * event)
        return (weights * cdf(fn.component_distribution, value.unsqueeze(-1 - event))).sum(-1 - event)
    for kind, function in _OWN.items():
        if isinstance(fn, kind):
            return function(fn, value)  # type: ignore[no-any-return]
    low, high = (getattr(fn.support, f"{side}_bound", None) for side in ("lower", "upper"))
    inside = fn.support.check(value)
    try:  # outside of the support any value inside of it will do
        found: Tensor = unchecked(fn).cdf(value if bool(inside.all()) else torch.where(inside, value, _some_value(fn)))
    except NotImplementedError:
        raise StructureError(
            f"a {type(fn).__name__} has no distribution function: give its class a method cdf(value)"
        ) from None
    if low is not None:
        found = torch.where(~inside & (value <= low), 0.0, found)
    if high is not None:
        found = torch.where(~inside & (value >= high), 1.0, found)
    return found


def unchecked(fn: Any) -> Any:
    """The same distribution, which takes any value. Inside of a transformed one, rounding makes values impossible."""
    found = copy(fn)
    found._validate_args = False
    if hasattr(found, "base_dist"):
        found.base_dist = unchecked(found.base_dist)
    return found


def _some_value(fn: Any) -> Tensor:
    """Of the support of each cell."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        found: Tensor = fn.sample()
    return found


def steps_up(fn: Any) -> bool:
    """Whether a distribution function rises in steps, at whole numbers."""
    if isinstance(fn, Joint):
        each = {steps_up(part) for part in fn.parts}
        if len(each) > 1:
            raise StructureError("residuals need parts that are all whole numbers or all not: take them one by one")
        return each.pop()
    found: bool = fn.support.is_discrete
    return found


def _whole(value: Tensor, found: Tensor) -> Tensor:
    return torch.where(value < 0, 0.0, found)


def _poisson(fn: Any, value: Tensor) -> Tensor:
    at = value.floor().clamp(min=0)
    return _whole(
        value, torch.special.gammaincc(at + 1, fn.rate.expand(torch.broadcast_shapes(at.shape, fn.rate.shape)))
    )


def _bernoulli(fn: Any, value: Tensor) -> Tensor:
    return torch.where(value >= 1, torch.ones_like(fn.probs), _whole(value, 1 - fn.probs))


def _geometric(fn: Any, value: Tensor) -> Tensor:
    return _whole(value, 1 - (1 - fn.probs) ** (value.floor() + 1))


def _by_scipy(name: str, *parameters: str) -> Any:
    """Without gradients, by scipy's distribution of this name."""

    def found(fn: Any, value: Tensor) -> Tensor:
        given = [getattr(fn, p).detach().cpu().numpy() for p in parameters]
        return torch.as_tensor(getattr(scipy.stats, name).cdf(value.detach().cpu().numpy(), *given)).to(fn.mean)

    return found


def _negative_binomial(fn: Any, value: Tensor) -> Tensor:
    found = scipy.stats.nbinom.cdf(
        value.detach().numpy(), fn.total_count.detach().numpy(), 1 - fn.probs.detach().numpy()
    )
    return torch.as_tensor(found).to(fn.probs)


def _von_mises(fn: Any, value: Tensor) -> Tensor:
    kappa, loc = fn.concentration.detach().numpy(), fn.loc.detach().numpy()
    found = scipy.stats.vonmises.cdf(value.detach().numpy(), kappa, loc) - scipy.stats.vonmises.cdf(
        -torch.pi, kappa, loc
    )
    return torch.as_tensor(found).to(fn.loc)


_OWN = {
    torch.distributions.Poisson: _poisson,
    torch.distributions.Bernoulli: _bernoulli,
    torch.distributions.Geometric: _geometric,
    torch.distributions.Binomial: _by_scipy("binom", "total_count", "probs"),
    torch.distributions.NegativeBinomial: _negative_binomial,
    torch.distributions.StudentT: _by_scipy("t", "df", "loc", "scale"),
    torch.distributions.VonMises: _von_mises,
}
