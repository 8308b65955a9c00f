"""Hidden chains by enumeration of all paths in plain loops, and families of emissions to try them with."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution
from torch import Tensor
from torch.distributions import constraints

import pyro_unsup as pu


class Triangle(TorchDistribution):
    """A user's own distribution: a triangle over (centre - 1, centre + 1)."""

    arg_constraints = {"centre": constraints.real}  # noqa: RUF012
    support = constraints.real

    def __init__(self, centre: Tensor) -> None:
        self.centre = centre
        super().__init__(centre.shape, validate_args=False)

    def log_prob(self, value: Tensor) -> Tensor:
        return (1 - (value - self.centre).abs() / 4).log() - torch.tensor(4.0).log()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = torch.Size((*sample_shape, *self.centre.shape))
        return self.centre + 4 * (torch.rand(shape) + torch.rand(shape) - 1)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Triangle:
        return Triangle(self.centre.expand(batch_shape))


@dataclass(frozen=True)
class Kind:
    """A family of emissions.

    :param build: from parameters to the distribution.
    :param parameters: from a shape of batches to one parameter, and how many axes it has behind the states.
    :param values: a number of observations.
    """

    build: Callable[..., TorchDistribution]
    parameters: Mapping[str, tuple[Callable[..., Tensor], int]]
    values: Callable[[int], Tensor]

    def draw(self, *batch: int) -> dict[str, Tensor]:
        """Random parameters, each with a gradient."""
        return {name: make(batch).requires_grad_() for name, (make, _) in self.parameters.items()}

    def one(self, parameters: Mapping[str, Tensor], *place: int) -> TorchDistribution:
        """The distribution of one cell of the batch. Axes that are missing or of size 1 are the same everywhere."""
        own = {}
        for name, (_, block) in self.parameters.items():
            x = parameters[name]
            axes = x.dim() - block
            own[name] = x[tuple(i if n > 1 else 0 for i, n in zip(place[len(place) - axes :], x.shape, strict=False))]
        return self.build(**own)


def _real(shape: Any, *block: int) -> Tensor:
    return torch.randn(*shape, *block)


def _positive(shape: Any, *block: int) -> Tensor:
    return 0.5 + 2 * torch.rand(*shape, *block)


def _share(shape: Any, *block: int) -> Tensor:
    return 0.1 + 0.8 * torch.rand(*shape, *block)


def _lower(shape: Any) -> Tensor:
    return torch.randn(*shape, 2, 2).tril(-1) + torch.diag_embed(0.5 + torch.rand(*shape, 2))


def _counts(n: int) -> Tensor:
    return torch.poisson(torch.full((n,), 2.0))


def _truth(n: int) -> Tensor:
    return (torch.rand(n) < 0.5).double()


KINDS: dict[str, Kind] = {
    "normal": Kind(dist.Normal, {"loc": (_real, 0), "scale": (_positive, 0)}, torch.randn),
    "student": Kind(dist.StudentT, {"df": (_positive, 0), "loc": (_real, 0), "scale": (_positive, 0)}, torch.randn),
    "log normal": Kind(dist.LogNormal, {"loc": (_real, 0), "scale": (_positive, 0)}, lambda n: torch.randn(n).exp()),
    "gamma": Kind(
        dist.Gamma, {"concentration": (_positive, 0), "rate": (_positive, 0)}, lambda n: torch.rand(n) * 3 + 0.1
    ),
    "exponential": Kind(dist.Exponential, {"rate": (_positive, 0)}, lambda n: torch.rand(n) * 3 + 0.1),
    "von Mises": Kind(
        dist.VonMises, {"loc": (_real, 0), "concentration": (_positive, 0)}, lambda n: 6 * torch.rand(n) - 3
    ),
    "poisson": Kind(dist.Poisson, {"rate": (_positive, 0)}, _counts),
    "bernoulli": Kind(dist.Bernoulli, {"probs": (_share, 0)}, _truth),
    "geometric": Kind(dist.Geometric, {"probs": (_share, 0)}, _counts),
    "negative binomial": Kind(dist.NegativeBinomial, {"total_count": (_positive, 0), "probs": (_share, 0)}, _counts),
    "multivariate normal": Kind(
        lambda loc, scale_tril: dist.MultivariateNormal(loc, scale_tril=scale_tril),
        {"loc": (lambda shape: _real(shape, 2), 1), "scale_tril": (_lower, 2)},
        lambda n: torch.randn(n, 2),
    ),
    "independent": Kind(
        lambda loc, scale: dist.Normal(loc, scale).to_event(1),
        {"loc": (lambda shape: _real(shape, 2), 1), "scale": (lambda shape: _positive(shape, 2), 1)},
        lambda n: torch.randn(n, 2),
    ),
    "joint": Kind(
        lambda loc, rate, tril: pu.Joint(
            dist.Normal(loc, 1.0), dist.Poisson(rate), dist.MultivariateNormal(tril[..., 0], scale_tril=tril)
        ),
        {"loc": (_real, 0), "rate": (_positive, 0), "tril": (_lower, 2)},
        lambda n: torch.cat([torch.randn(n, 1), _counts(n)[:, None], torch.randn(n, 2)], -1),
    ),
    "mixture": Kind(
        lambda logits, loc: dist.MixtureSameFamily(dist.Categorical(logits=logits), dist.Normal(loc, 0.7)),
        {"logits": (lambda shape: _real(shape, 2), 1), "loc": (lambda shape: _real(shape, 2), 1)},
        torch.randn,
    ),
    "matrix": Kind(
        lambda loc: dist.Normal(loc, 1.0).to_event(2),
        {"loc": (lambda shape: _real(shape, 2, 3), 2)},
        lambda n: torch.randn(n, 2, 3),
    ),
    "own": Kind(Triangle, {"centre": (lambda shape: 0.5 * _real(shape), 0)}, lambda n: torch.rand(n) - 0.5),
}


@dataclass
class Enumerated:
    """All paths of one series.

    :param start: (K,) log-weights.
    :param steps: (T, K, K) log-weights of the steps to each position; that of the first is not used.
    :param density: (T, K) log-densities.
    :param stop: (K,) log-weights of the end.
    :param second: (K, K, K) log-weights of a state given the two before it, from the third position on.
    """

    start: Tensor
    steps: Tensor
    density: Tensor
    stop: Tensor | None = None
    second: Tensor | None = None
    stop_second: Tensor | None = None  # (K, K), after two or more

    def __post_init__(self) -> None:
        T, K = self.density.shape
        self.length, self.states = T, K
        self.paths = list(itertools.product(range(K), repeat=T))
        scores = []
        for path in self.paths:
            total = self.weight(path, T)
            if self.stop_second is not None and T > 1:
                total = total + self.stop_second[path[-2], path[-1]]
            elif self.stop is not None:
                total = total + self.stop[path[-1]]
            scores.append(total)
        self.scores = torch.stack(scores) if T else torch.zeros(1)
        self.log_z = torch.logsumexp(self.scores, 0)
        self.posterior = (self.scores - self.log_z).exp().detach()  # (paths,)

    def weight(self, path: tuple[int, ...], n: int) -> Tensor:
        """Of the first n positions of a path, without the end."""
        total = self.start[path[0]] + self.density[0, path[0]] if n else torch.zeros(())
        for t in range(1, n):
            if self.second is not None and t > 1:
                step = self.second[path[t - 2], path[t - 1], path[t]]
            else:
                step = self.steps[t, path[t - 1], path[t]]
            total = total + step + self.density[t, path[t]]
        return total

    def beginnings(self, n: int) -> tuple[Tensor, Tensor]:
        """The log of the sum over all paths of n positions, and the shares of their last states, (K,)."""
        by_state = [
            torch.stack([self.weight((*path, k), n) for path in itertools.product(range(self.states), repeat=n - 1)])
            for k in range(self.states)
        ]
        each = torch.stack([torch.logsumexp(x, 0) for x in by_state]).detach()
        whole = torch.logsumexp(each, 0)
        return whole, (each - whole).exp()

    @property
    def filtered(self) -> Tensor:  # (T, K)
        return torch.stack([self.beginnings(n)[1] for n in range(1, self.length + 1)])

    @property
    def step_log_likelihood(self) -> Tensor:  # (T,)
        found = [torch.zeros(()), *(self.beginnings(n)[0] for n in range(1, self.length + 1))]
        return torch.stack(found).diff()

    @property
    def predicted(self) -> Tensor:  # (T, K)
        found = [self.start.softmax(-1).detach()]
        for t in range(1, self.length):
            found.append(self.filtered[t - 1] @ self.steps[t].softmax(-1).detach())
        return torch.stack(found)

    @property
    def smoothed(self) -> Tensor:  # (T, K)
        found = torch.zeros(self.length, self.states)
        for path, p in zip(self.paths, self.posterior, strict=True):
            for t, k in enumerate(path):
                found[t, k] += p
        return found

    @property
    def pairwise(self) -> Tensor:  # (T, K, K)
        found = torch.zeros(self.length, self.states, self.states)
        for path, p in zip(self.paths, self.posterior, strict=True):
            for t in range(1, self.length):
                found[t, path[t - 1], path[t]] += p
        return found

    @property
    def mode(self) -> Tensor:  # (T,)
        return torch.tensor(self.paths[int(self.posterior.argmax())], dtype=torch.long)

    @property
    def entropy(self) -> Tensor:
        return torch.special.entr(self.posterior).sum()
