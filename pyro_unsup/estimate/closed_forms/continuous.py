"""Families of numbers that are not whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Set
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import kernels
from ...kernels.normal import mean_and_scale, moments
from .cells import Cells, ratio, spread_or_zero, weighted_sum, weights_of
from .registry import register

#: The least variance, as a share of the squares that it is the difference of, that has digits enough.
DIGITS = 1e-6


@register(torch.distributions.Normal)
def normal(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """Weighted mean and standard deviation. A mean may have a normal prior."""
    new: dict[str, Tensor] = {}
    if wanted == {"loc", "scale"} and not cells.priors and (found := _by_state(cells)) is not None:
        return found
    if "loc" in wanted:
        above = cells.total("loc", lambda x, w, d: w * x / d.scale**2)
        below = cells.total("loc", lambda x, w, d: w / d.scale**2)
        if "loc" in cells.priors:
            prior = cells.priors["loc"]
            above, below = above + prior.loc / prior.scale**2, below + 1 / prior.scale**2
        new["loc"] = ratio(above, below)
    if "scale" in wanted:
        loc = cells.now(new, "loc")
        squares = cells.total("scale", lambda x, w, d: w * (x - loc(d)) ** 2)
        sizes = cells.total("scale", lambda x, w, d: w * x**2)
        new["scale"] = spread_or_zero(squares, cells.total("scale", weights_of), sizes).sqrt()
    return new


def _by_state(cells: Cells) -> dict[str, Tensor] | None:
    """The same by one pass of a kernel, where every state has a mean and a scale of its own; else None."""
    site, shape = cells.sites[0], cells.shapes["loc"]
    if len(cells.sites) > 1 or any(x is not None for x in site.index.values()) or cells.shapes["scale"] != shape:
        return None
    x, w, wide = site.value, site.weight, len(shape) > 1
    if not kernels.enabled() or len(shape) > 2 or x.dim() != 1 + len(shape) or w.shape != (len(x), *shape):
        return None
    if x.shape[1] != 1 or any(y.dtype != torch.float64 or not y.is_cpu for y in (x, w)):
        return None
    if wide and w.stride(-1) != 0 and shape[1] > 1:  # coordinates that are missing have weights of their own
        return None
    shares, centre, data = (y.detach().numpy() for y in (w, site.dist.loc, x))
    shares = np.ascontiguousarray(shares[..., 0] if wide else shares)
    centre, data = (np.ascontiguousarray(y.reshape(len(y), -1)) for y in (centre, data))
    mean, scale = np.empty_like(centre), np.empty_like(centre)
    # Of a difference of large numbers, or a state on one observation, distances from the new mean tell more.
    if not mean_and_scale(moments(data, shares, centre), centre, DIGITS, mean, scale):
        return None
    return {"loc": torch.from_numpy(mean).reshape(shape), "scale": torch.from_numpy(scale).reshape(shape)}


@register(torch.distributions.LogNormal)
def log_normal(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """A normal distribution of the logs."""
    new: dict[str, Tensor] = {}
    if "loc" in wanted:
        above = cells.total("loc", lambda x, w, d: w * x.log() / d.scale**2)
        new["loc"] = ratio(above, cells.total("loc", lambda x, w, d: w / d.scale**2))
    if "scale" in wanted:
        loc = cells.now(new, "loc")
        squares = cells.total("scale", lambda x, w, d: w * (x.log() - loc(d)) ** 2)
        new["scale"] = ratio(squares, cells.total("scale", weights_of)).sqrt()
    return new


@register(torch.distributions.Laplace)
def laplace(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """The mean distance. Only the scale has a simple formula; a location is a weighted median."""
    distance = cells.total("scale", lambda x, w, d: w * (x - d.loc).abs())
    return {"scale": ratio(distance, cells.total("scale", weights_of))} if wanted == {"scale"} else {}


@register(torch.distributions.Exponential)
def exponential(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """One over the mean. A rate may have a gamma prior."""
    above, below = cells.total("rate", weights_of), cells.total("rate", weighted_sum)
    if "rate" in cells.priors:
        prior = cells.priors["rate"]
        above, below = above + prior.concentration - 1, below + prior.rate
    return {"rate": ratio(above, below)}


@register(torch.distributions.Gamma)
def gamma(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """The rate from the mean, and the shape by Newton's method on ``log a - digamma(a) = log mean - mean of logs``."""
    new: dict[str, Tensor] = {}
    if wanted == {"concentration", "rate"} and cells.shapes["concentration"] == cells.shapes["rate"]:
        n, sums = cells.total("rate", weights_of), cells.total("rate", weighted_sum)
        logs = cells.total("rate", lambda x, w, d: w * x.log())
        gap = (ratio(sums, n).log() - ratio(logs, n)).clamp(min=torch.finfo(n.dtype).eps)
        shape = (3 - gap + ((gap - 3) ** 2 + 24 * gap).sqrt()) / (12 * gap)
        for _ in range(20):
            slope = 1 / shape - torch.polygamma(1, shape)
            # Newton's method for 1 / a, where the function is nearly straight.
            shape = 1 / (1 / shape + (shape.log() - torch.digamma(shape) - gap) / (shape**2 * slope))
        return {"concentration": shape, "rate": shape / ratio(sums, n)}
    if wanted == {"rate"}:
        above = cells.total("rate", lambda x, w, d: w * d.concentration)
        new["rate"] = ratio(above, cells.total("rate", weighted_sum))
    return new


#: Degrees of freedom after which a Student t is normal for all purposes.
MANY = 1e4


@register(torch.distributions.StudentT)
def student_t(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """A normal distribution whose precision varies: an EM step of its own, that averages over the precisions.

    Expected precisions are ``u = (df + 1) / (df + ((x - loc) / scale)^2)``.
    """

    def precision(x: Tensor, d: Any) -> Tensor:
        found: Tensor = (d.df + 1) / (d.df + ((x - d.loc) / d.scale) ** 2)
        return found

    new: dict[str, Tensor] = {}
    if "loc" in wanted:
        above = cells.total("loc", lambda x, w, d: w * precision(x, d) * x / d.scale**2)
        new["loc"] = ratio(above, cells.total("loc", lambda x, w, d: w * precision(x, d) / d.scale**2))
    if "scale" in wanted:
        loc = cells.now(new, "loc")
        squares = cells.total("scale", lambda x, w, d: w * precision(x, d) * (x - loc(d)) ** 2)
        new["scale"] = ratio(squares, cells.total("scale", weights_of)).sqrt()
    if "df" in wanted:

        def known(x: Tensor, w: Tensor, d: Any) -> Tensor:
            u, half = precision(x, d), (d.df + 1) / 2
            found: Tensor = w * (u.log() - u + torch.digamma(half) - half.log() + 1)
            return found

        level = ratio(cells.total("df", known), cells.total("df", weights_of))
        found = _root(lambda df: (df / 2).log() - torch.digamma(df / 2) + level, level, 0.05, MANY)
        # Without heavy tails more is always better. Then it ends here, unless it has come further by another way.
        old = ratio(cells.total("df", lambda x, w, d: w * d.df), cells.total("df", weights_of), 0.0)
        new["df"] = torch.where(found > 0.999 * MANY, torch.maximum(found, old), found)
    return new


@register(torch.distributions.VonMises)
def von_mises(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """The mean direction, and the concentration by its mean resultant length: ``I1(k) / I0(k) = R``."""
    new: dict[str, Tensor] = {}
    if "loc" in wanted:
        sines = cells.total("loc", lambda x, w, d: w * d.concentration * x.sin())
        cosines = cells.total("loc", lambda x, w, d: w * d.concentration * x.cos())
        new["loc"] = torch.atan2(sines, cosines)
    if "concentration" in wanted:
        loc = cells.now(new, "loc")
        along = cells.total("concentration", lambda x, w, d: w * (x - loc(d)).cos())
        length = ratio(along, cells.total("concentration", weights_of)).clamp(1e-6, 1 - 1e-9)

        def missing(k: Tensor) -> Tensor:
            found: Tensor = length - torch.special.i1e(k) / torch.special.i0e(k)
            return found

        new["concentration"] = _root(missing, length, 1e-6, 1e9)
    return new


def _root(function: Callable[[Tensor], Tensor], like: Tensor, low: float, high: float) -> Tensor:
    """Where a falling function of each element is zero, by bisection of the logs; the nearer end if it nowhere is."""
    below, above = torch.full_like(like, math.log(low)), torch.full_like(like, math.log(high))
    for _ in range(200):
        middle = (below + above) / 2
        up = function(middle.exp()) > 0
        below, above = torch.where(up, middle, below), torch.where(up, above, middle)
    return ((below + above) / 2).exp()
