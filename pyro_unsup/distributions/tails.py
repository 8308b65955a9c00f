"""How likely an observation below or above a value is, in logs: exact far out, where a probability is zero or one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy
import torch
from pyro.distributions import Logistic
from torch import Tensor

from .cdf import cdf, unchecked
from .emission import Joint

Tails = tuple[Tensor, Tensor]


def log_tails(fn: Any, value: Tensor, part: Tensor) -> Tails:  # (*batch, *event) each
    """log P(X < x) and log P(X > x); of a vector, for each of its coordinates on its own. Without gradients.

    :param part: the share of P(X = x) that counts as below, of whole numbers.

    >>> import torch
    >>> import pyro.distributions as dist
    >>> from pyro_unsup.distributions.tails import log_tails
    >>> below, above = log_tails(dist.Normal(0.0, 1.0), torch.tensor(20.0), torch.tensor(0.5))
    >>> round(float(above), 1)
    -203.9
    """
    if isinstance(fn, torch.distributions.Independent):
        return log_tails(fn.base_dist, value, part)
    if isinstance(fn, Joint):
        return _side_by_side(fn, value, part)
    if isinstance(fn, torch.distributions.MixtureSameFamily):
        event = len(fn.event_shape)  # the axis of components comes before it
        weights = fn.mixture_distribution.logits
        weights = weights.reshape(*weights.shape, *(1,) * event)
        each = log_tails(fn.component_distribution, value.unsqueeze(-1 - event), part.unsqueeze(-1 - event))
        below, above = (torch.logsumexp(weights + one, -1 - event) for one in each)
        return below, above
    if isinstance(fn, torch.distributions.MultivariateNormal):
        fn = torch.distributions.Normal(fn.loc, fn.variance.sqrt(), validate_args=False)
    frozen = next((make(fn) for kind, make in _BY_SCIPY.items() if isinstance(fn, kind)), None)
    if frozen is None:
        return _by_cdf(fn, value, part)
    x = value.detach().cpu().numpy()
    below, above = frozen.logcdf(x), frozen.logsf(x)
    if fn.support.is_discrete:
        share, own = part.detach().cpu().numpy(), frozen.logpmf(x)
        with np.errstate(divide="ignore"):
            below, above = (
                np.logaddexp(frozen.logcdf(x - 1), np.log(share) + own),
                np.logaddexp(above, np.log1p(-share) + own),
            )
    return _farther(fn, value, torch.as_tensor(below).to(value), torch.as_tensor(above).to(value))


def quantile_of_log(log_p: Tensor) -> Tensor:
    """The standard normal's quantile of a probability that is given by its log."""
    return torch.as_tensor(scipy.special.ndtri_exp(log_p.detach().cpu().numpy())).to(log_p)


def _side_by_side(fn: Joint, value: Tensor, part: Tensor) -> Tails:
    found = []
    for one, x, p in zip(fn.parts, fn.split(value), fn.split(part), strict=True):
        tails = log_tails(one, x, p)
        found.append(tails if one.event_shape else (tails[0].unsqueeze(-1), tails[1].unsqueeze(-1)))
    below, above = (torch.cat(each, -1) for each in zip(*found, strict=True))
    return below, above


def _by_cdf(fn: Any, value: Tensor, part: Tensor) -> Tails:
    """For any family with a distribution function. Far above, 1 - P has no digits."""
    with torch.no_grad():
        p = cdf(fn, value)
        if fn.support.is_discrete:
            before = cdf(fn, value - 1)
            p = before + part * (p - before)
    return _farther(fn, value, p.log(), torch.log1p(-p))


def _farther(fn: Any, value: Tensor, below: Tensor, above: Tensor) -> Tails:
    """The same, also where a tail is too small for a number.

    So far out, a tail falls like its density f, and is f / |d log f / dx|: of an exponential exactly, and nearly so
    wherever tails are that thin.
    """
    lost = (below == -torch.inf) | (above == -torch.inf)
    if fn.support.is_discrete or not bool(lost.any()):
        return below, above
    with torch.enable_grad():
        x = value.detach().expand(below.shape).clone().requires_grad_()
        log_f = unchecked(fn).log_prob(x)
        slope = torch.autograd.grad(log_f.sum(), x)[0]
    tail = log_f.detach() - slope.abs().log()
    there = tail.isfinite()
    below = torch.where((below == -torch.inf) & there & (slope > 0), tail, below)
    above = torch.where((above == -torch.inf) & there & (slope < 0), tail, above)
    return below, above


def _frozen(name: str, **arguments: Callable[[Any], Tensor]) -> Callable[[Any], Any]:
    def make(fn: Any) -> Any:
        given = {key: np.asarray(get(fn).detach().cpu()) for key, get in arguments.items()}
        return getattr(scipy.stats, name)(**given)

    return make


_FAMILIES = torch.distributions
_BY_SCIPY: dict[type, Callable[[Any], Any]] = {
    _FAMILIES.LogNormal: _frozen("lognorm", s=lambda d: d.scale, scale=lambda d: d.loc.exp()),
    _FAMILIES.Normal: _frozen("norm", loc=lambda d: d.loc, scale=lambda d: d.scale),
    _FAMILIES.Laplace: _frozen("laplace", loc=lambda d: d.loc, scale=lambda d: d.scale),
    _FAMILIES.StudentT: _frozen("t", df=lambda d: d.df, loc=lambda d: d.loc, scale=lambda d: d.scale),
    _FAMILIES.Gamma: _frozen("gamma", a=lambda d: d.concentration, scale=lambda d: 1 / d.rate),
    _FAMILIES.Exponential: _frozen("expon", scale=lambda d: 1 / d.rate),
    _FAMILIES.Beta: _frozen("beta", a=lambda d: d.concentration1, b=lambda d: d.concentration0),
    _FAMILIES.Weibull: _frozen("weibull_min", c=lambda d: d.concentration, scale=lambda d: d.scale),
    _FAMILIES.Gumbel: _frozen("gumbel_r", loc=lambda d: d.loc, scale=lambda d: d.scale),
    _FAMILIES.HalfNormal: _frozen("halfnorm", scale=lambda d: d.scale),
    _FAMILIES.HalfCauchy: _frozen("halfcauchy", scale=lambda d: d.scale),
    _FAMILIES.Cauchy: _frozen("cauchy", loc=lambda d: d.loc, scale=lambda d: d.scale),
    _FAMILIES.InverseGamma: _frozen("invgamma", a=lambda d: d.concentration, scale=lambda d: d.rate),
    Logistic: _frozen("logistic", loc=lambda d: d.loc, scale=lambda d: d.scale),
    _FAMILIES.Poisson: _frozen("poisson", mu=lambda d: d.rate),
    _FAMILIES.Bernoulli: _frozen("bernoulli", p=lambda d: d.probs),
    _FAMILIES.Binomial: _frozen("binom", n=lambda d: d.total_count, p=lambda d: d.probs),
    _FAMILIES.NegativeBinomial: _frozen("nbinom", n=lambda d: d.total_count, p=lambda d: 1 - d.probs),
    _FAMILIES.Geometric: _frozen("geom", p=lambda d: d.probs, loc=lambda d: -torch.ones_like(d.probs)),
}
