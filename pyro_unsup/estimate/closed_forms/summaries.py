"""A few weighted observations in the place of many, with the same sufficient statistics.

An M step by formula takes weighted observations, and depends on nothing but their sufficient statistics. So two points,
one standard deviation to either side of the mean, are as good for a normal distribution as all observations that they
stand for. This is how stepwise EM remembers what it has seen: it needs no second formula for each family.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from .cells import ratio

#: Points and their weights, (points, *cells, *event) and (points, *cells).
Points = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Summary:
    """Of one family.

    :param of_data: from observations, (rows, *cells, *event), and weights, (rows, *cells), to points.
    :param of_distribution: from a distribution of batch shape (*cells) to points that have its own statistics. Their
        weights add up to 1.

    >>> import torch
    >>> import pyro.distributions as dist
    >>> from pyro_unsup.estimate.closed_forms import summary_of
    >>> how = summary_of(dist.Normal)
    >>> x, weight = torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([[1.0], [1.0], [2.0]])
    >>> points, weights = how.of_data(x, weight)
    >>> (weights * points).sum() / weights.sum()  # (1 + 2 + 2 * 6) / 4
    tensor(3.7500)
    >>> how.of_distribution(dist.Normal(torch.tensor([5.0]), 2.0))[0].squeeze()
    tensor([3., 7.])
    """

    of_data: Callable[[Tensor, Tensor], Points]
    of_distribution: Callable[[Any], Points]


_summaries: dict[type, Summary] = {}


def register_summary(kind: type, summary: Summary) -> None:
    """Say how observations of a family are summed up."""
    _summaries[kind] = summary


def summary_of(kind: type) -> Summary | None:
    """How observations of a family are summed up; None if there is no way, or nobody said it."""
    return next((_summaries[base] for base in kind.__mro__ if base in _summaries), None)


def _average(x: Tensor, w: Tensor) -> Tensor:
    """Weighted means over rows; 1, which every family here can emit, where there is no weight."""
    return ratio((w * x).sum(0), w.expand(torch.broadcast_shapes(w.shape, x.shape)).sum(0), 1.0)


def _ones(x: Tensor) -> Tensor:
    return torch.full((1, *x.shape), 1.0, dtype=x.dtype, device=x.device)


def _either_side(middle: Tensor, away: Tensor, weight: Tensor) -> Points:
    return torch.stack([middle - away, middle + away]), torch.stack([weight, weight]) / 2


# -- a mean is enough


def _mean_of_data(x: Tensor, w: Tensor) -> Points:
    return _average(x, w).unsqueeze(0), w.sum(0, keepdim=True)


MEAN = Summary(_mean_of_data, lambda d: (d.mean.unsqueeze(0), _ones(d.mean)))


# -- a mean and a standard deviation


def _spread_of_data(x: Tensor, w: Tensor) -> Points:
    mean = _average(x, w)
    return _either_side(mean, _average((x - mean) ** 2, w).sqrt() * (w.sum(0) > 0), w.sum(0))


def _spread_of(d: Any) -> Points:
    return _either_side(d.mean, d.stddev, _ones(d.mean)[0])


def _logs_of_data(x: Tensor, w: Tensor) -> Points:
    points, weights = _spread_of_data(x.log(), w)
    return points.exp(), weights


def _logs_of(d: Any) -> Points:
    points, weights = _either_side(d.loc, d.scale, _ones(d.loc)[0])
    return points.exp(), weights


# -- a mean, and a mean of logs: m (1 - r) and m (1 + r) have the mean log m + log(1 - r^2) / 2 of logs


def _with_mean_log(mean: Tensor, log: Tensor, weight: Tensor) -> Points:
    r = (-torch.expm1(2 * (log - mean.log()))).clamp(0.0, 1.0).sqrt()
    return _either_side(mean, mean * r, weight)


def _gamma_of_data(x: Tensor, w: Tensor) -> Points:
    mean = _average(x, w)
    return _with_mean_log(mean, torch.where(w.sum(0) > 0, _average(x.log(), w), mean.log()), w.sum(0))


def _gamma_of(d: Any) -> Points:
    return _with_mean_log(d.mean, torch.digamma(d.concentration) - d.rate.log(), _ones(d.mean)[0])


# -- a direction and a resultant length: both sides of the direction, as far away as the length says


def _angle_of_data(x: Tensor, w: Tensor) -> Points:
    sine, cosine = (w * x.sin()).sum(0), (w * x.cos()).sum(0)
    length = ratio(torch.hypot(sine, cosine), w.sum(0), 1.0).clamp(max=1.0)
    return _wrapped(_either_side(torch.atan2(sine, cosine), length.acos(), w.sum(0)))


def _angle_of(d: Any) -> Points:
    length = torch.special.i1e(d.concentration) / torch.special.i0e(d.concentration)
    return _wrapped(_either_side(d.loc, length.acos(), _ones(d.loc)[0]))


def _wrapped(points: Points) -> Points:
    return (points[0] + math.pi) % (2 * math.pi) - math.pi, points[1]


# -- how often each outcome


def _outcomes(number: int, like: Tensor) -> Tensor:  # (number, *cells)
    values = torch.arange(number, dtype=like.dtype, device=like.device)
    return values.reshape(-1, *(1,) * like.dim()).expand(number, *like.shape)


def _counts_of_data(x: Tensor, w: Tensor) -> Points:
    each = one_hot(x.long().expand(w.shape)).to(w) * w.unsqueeze(-1)
    weights = each.sum(0).movedim(-1, 0)
    return _outcomes(len(weights), weights[0]), weights


def _counts_of(d: Any) -> Points:
    weights = d.probs.movedim(-1, 0)
    return _outcomes(len(weights), weights[0]), weights


# -- a mean vector and a covariance: both sides of the mean along the columns of its root


def _vectors(mean: Tensor, root: Tensor, weight: Tensor) -> Points:  # (*cells, D), (*cells, D, D), (*cells)
    D = mean.shape[-1]
    away = root.mT.movedim(-2, 0) * math.sqrt(D)  # (D, *cells, D)
    weights = (weight / (2 * D)).expand(2 * D, *weight.shape)
    return torch.cat([mean - away, mean + away]), weights


def _vectors_of_data(x: Tensor, w: Tensor) -> Points:
    mean = _average(x, w.unsqueeze(-1))  # (*cells, D)
    away = (x - mean) * w.unsqueeze(-1).sqrt()
    scatter = (
        torch.einsum("r...i,r...j->...ij", away, away) / w.sum(0).clamp(min=torch.finfo(w.dtype).tiny)[..., None, None]
    )
    values, vectors = torch.linalg.eigh(scatter)  # it may be singular
    return _vectors(mean, vectors * values.clamp(min=0.0).sqrt().unsqueeze(-2), w.sum(0))


def _vectors_of(d: Any) -> Points:
    return _vectors(d.loc, d.scale_tril, _ones(d.loc[..., 0])[0])


_FAMILIES = torch.distributions
for _family in (
    _FAMILIES.Poisson,
    _FAMILIES.Exponential,
    _FAMILIES.Bernoulli,
    _FAMILIES.Binomial,
    _FAMILIES.Geometric,
    _FAMILIES.NegativeBinomial,
):
    register_summary(_family, MEAN)
register_summary(_FAMILIES.Normal, Summary(_spread_of_data, _spread_of))
register_summary(_FAMILIES.LogNormal, Summary(_logs_of_data, _logs_of))
register_summary(_FAMILIES.Gamma, Summary(_gamma_of_data, _gamma_of))
register_summary(_FAMILIES.VonMises, Summary(_angle_of_data, _angle_of))
register_summary(_FAMILIES.Categorical, Summary(_counts_of_data, _counts_of))
register_summary(_FAMILIES.MultivariateNormal, Summary(_vectors_of_data, _vectors_of))
