"""Families of emissions by name: their parameters, where these start, and the distribution that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro.distributions as dist
import scipy  # it loads its parts when they are first used
import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Tensor

from ..errors import StructureError

#: Numbers of some observations of one state, (n,), to where its parameters start.
Start = Callable[[Tensor], dict[str, Tensor]]


@dataclass(frozen=True)
class Family:
    """A family of emissions.

    :param build: from parameters to the distribution of a number.
    :param supports: constraint by parameter.
    :param start: from observations of a state to parameters, roughly.
    """

    build: Callable[..., TorchDistribution]
    supports: Mapping[str, Any]
    start: Start


def _spread(x: Tensor) -> Tensor:
    """A standard deviation that is not zero."""
    found = x.std(unbiased=False) if len(x) > 1 else x.new_zeros(())
    return torch.maximum(found, 1e-3 * x.abs().mean() + 1e-6)


def _normal(x: Tensor) -> dict[str, Tensor]:
    return {"loc": x.mean(), "scale": _spread(x)}


def _gamma(x: Tensor) -> dict[str, Tensor]:
    mean, variance = x.mean().clamp(min=1e-6), _spread(x) ** 2
    return {"concentration": mean**2 / variance, "rate": mean / variance}


def _counts(x: Tensor) -> dict[str, Tensor]:
    return {"rate": x.mean().clamp(min=0.1)}


def _negative_binomial(x: Tensor) -> dict[str, Tensor]:
    mean = x.mean().clamp(min=0.1)
    size = (mean**2 / (_spread(x) ** 2 - mean).clamp(min=0.1 * mean)).clamp(0.1, 100.0)
    return {"total_count": size, "probs": mean / (mean + size)}


def _share(x: Tensor) -> dict[str, Tensor]:
    return {"probs": x.mean().clamp(0.05, 0.95)}


def _von_mises(x: Tensor) -> dict[str, Tensor]:
    sine, cosine = x.sin().mean(), x.cos().mean()
    length = (sine**2 + cosine**2).sqrt().clamp(0.05, 0.95)
    return {"loc": torch.atan2(sine, cosine), "concentration": length * (2 - length**2) / (1 - length**2)}


_LOCATION = {"loc": constraints.real, "scale": constraints.positive}

FAMILIES: dict[str, Family] = {
    "normal": Family(dist.Normal, _LOCATION, _normal),
    "student_t": Family(
        dist.StudentT,
        {"df": constraints.greater_than(1.0), **_LOCATION},
        lambda x: {"df": x.new_tensor(5.0), "loc": x.median(), "scale": 0.8 * _spread(x)},
    ),
    "log_normal": Family(dist.LogNormal, _LOCATION, lambda x: _normal(x.clamp(min=1e-12).log())),
    "gamma": Family(dist.Gamma, {"concentration": constraints.positive, "rate": constraints.positive}, _gamma),
    "exponential": Family(
        dist.Exponential, {"rate": constraints.positive}, lambda x: {"rate": 1 / x.mean().clamp(min=1e-6)}
    ),
    "von_mises": Family(dist.VonMises, {"loc": constraints.real, "concentration": constraints.positive}, _von_mises),
    "poisson": Family(dist.Poisson, {"rate": constraints.positive}, _counts),
    "negative_binomial": Family(
        dist.NegativeBinomial,
        {"total_count": constraints.positive, "probs": constraints.unit_interval},
        _negative_binomial,
    ),
    "geometric": Family(
        dist.Geometric, {"probs": constraints.unit_interval}, lambda x: {"probs": 1 / (1 + x.mean().clamp(min=0.05))}
    ),
    "bernoulli": Family(dist.Bernoulli, {"probs": constraints.unit_interval}, _share),
}

#: How the covariance of a normal vector is tied together.
COVARIANCES = ("full", "diagonal", "tied", "spherical")


def groups(values: Tensor, states: int, how: str, seed: int) -> Tensor:  # (N,) or (N, D) -> (N,)
    """A first guess of the state of each observation: -1 where values are missing.

    :param how: ``"kmeans"`` from random centres, or ``"quantiles"`` of the first coordinate.
    """
    seen = ~(values.isnan() if values.dim() == 1 else values.isnan().any(-1))
    found = torch.full((len(values),), -1)
    x = values[seen].reshape(int(seen.sum()), values[0].numel())
    if not len(x):
        raise StructureError("all observations are missing or have missing coordinates: a model starts at whole ones")
    if len(x) < states:
        raise StructureError(f"{states} states need at least as many whole observations, actual {len(x)}")
    if how == "quantiles":
        rank = x[:, 0].argsort().argsort()
        found[seen] = rank * states // len(x)
        return found
    scale = x.std(0, unbiased=False).clamp(min=1e-12) if len(x) > 1 else torch.ones(x.shape[1])
    some = x if len(x) <= 20_000 else x[torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[:20_000]]
    centres = _centres((some / scale).numpy(), states, seed)
    found[seen] = torch.as_tensor(np.argmin(((x / scale).numpy()[:, None] - centres) ** 2 @ np.ones(x.shape[1]), 1))
    return found


def _centres(x: Any, states: int, seed: int) -> Any:
    """Centres of k-means, in the order of their first coordinates. Fewer different values than states are parted."""
    distinct = np.unique(x, axis=0)
    if len(distinct) <= states:
        centres = np.concatenate([distinct, distinct[np.zeros(states - len(distinct), int)]])
    else:
        centres, _ = scipy.cluster.vq.kmeans2(x, states, minit="++", seed=np.random.default_rng(seed))
    return centres[np.lexsort(centres.T[::-1])]


def start_of(family: Family, values: Tensor, group: Tensor, states: int) -> dict[str, Tensor]:
    """Where parameters start: (K,), or (K, D) of vectors, from the observations of each group."""
    wide = values if values.dim() == 2 else values.unsqueeze(-1)
    found: dict[str, list[Tensor]] = {}
    for k in range(states):
        for column in wide.unbind(-1):
            own = column[(group == k) & ~column.isnan()]
            own = own if len(own) else column[~column.isnan()]
            for name, x in family.start(own).items():
                found.setdefault(name, []).append(x)
    shape = (states, wide.shape[-1]) if values.dim() == 2 else (states,)
    return {name: torch.stack(each).reshape(shape) for name, each in found.items()}
