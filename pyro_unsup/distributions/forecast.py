"""States and observations to come."""

from __future__ import annotations

from dataclasses import dataclass

import pyro.distributions as dist
import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from ..errors import StructureError
from .cdf import cdf, steps_up


@dataclass
class Forecast:
    """States and observations to come.

    :param states: (*batch, steps, K) probabilities.
    :param emission: of batch shape (..., K); None for words, which have no distribution here.

    >>> import torch
    >>> import pyro.distributions as dist
    >>> from pyro_unsup.distributions import Forecast
    >>> found = Forecast(torch.tensor([[0.9, 0.1], [0.5, 0.5]]), dist.Poisson(torch.tensor([2.0, 10.0])))
    >>> found.mean, found.quantile(0.5)
    (tensor([2.8000, 6.0000]), tensor([2., 5.]))
    """

    states: Tensor
    emission: TorchDistribution | None

    @property
    def observations(self) -> TorchDistribution:
        """The distribution of each observation to come: a mixture over states, of batch shape (*batch, steps)."""
        if self.emission is None:
            raise StructureError("the emission is a table of words: states @ emission.exp() are their probabilities")
        return dist.MixtureSameFamily(
            dist.Categorical(self.states), self.emission.expand(self.states.shape), validate_args=False
        )

    @property
    def mean(self) -> Tensor:
        """(*batch, steps, *event)."""
        found: Tensor = self.observations.mean
        return found

    @property
    def variance(self) -> Tensor:
        """(*batch, steps, *event)."""
        found: Tensor = self.observations.variance
        return found

    def cdf(self, value: Tensor) -> Tensor:
        """P(observation <= value), for each step."""
        assert self.emission is not None
        wide = self.emission.expand(self.states.shape)
        return (self.states * cdf(wide, torch.as_tensor(value, dtype=self.states.dtype).unsqueeze(-1))).sum(-1)

    def quantile(self, q: float | Tensor) -> Tensor:  # (*q.shape, *batch, steps)
        """The value below which an observation falls with probability q. Of numbers, not of vectors."""
        if self.emission is None or self.emission.event_shape:
            raise StructureError("quantiles are those of observations that are numbers")
        levels = torch.as_tensor(q, dtype=self.states.dtype)
        # Where the mean or the variance is infinite, any numbers will do to begin with.
        mean, spread = self.mean.nan_to_num(0.0, 0.0, 0.0), self.variance.sqrt().nan_to_num(1.0, 1.0, 1.0)
        wide = levels.reshape(*levels.shape, *(1,) * mean.dim())
        low, high = mean - 2 * spread, mean + 2 * spread
        shape = torch.broadcast_shapes(wide.shape, mean.shape)
        low, high = low.expand(shape).clone(), high.expand(shape).clone()
        for _ in range(60):  # until the level lies between
            low = torch.where(self.cdf(low) > wide, low - 2 * (high - low), low)
            high = torch.where(self.cdf(high) < wide, high + 2 * (high - low), high)
        for _ in range(200):
            middle = (low + high) / 2
            below = self.cdf(middle) < wide
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return high.round() if steps_up(self.emission) else high  # at a step, up to rounding
