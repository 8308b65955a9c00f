"""The hidden structure of given data, as a distribution of its own."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from pyro.distributions import TorchDistribution, constraints
from torch import Size, Tensor

from .posterior import Posterior
from .structure import Structure


class Hidden(TorchDistribution):
    """What a structured distribution has summed out: the posterior of the structure y of some data x,

    .. math:: q(y) = \\frac{p(x, y)}{\\sum_{y'} p(x, y')}.

    A value is one structure of the whole batch, as :meth:`.Posterior.sample` draws it, and its log-probability is that
    of all its examples together.

    :param base: with one set of weights, which need not be normalised.
    :param data: x.

    Two trees explain a sentence of two words, here with the same weight::

        >>> import torch
        >>> from pyro_unsup.distributions import Dependency, Hidden
        >>> trees = Dependency(torch.zeros(1), torch.zeros(1, 2, 1), torch.zeros(1, 2, 2, 2), torch.tensor([2]))
        >>> Hidden(trees, torch.tensor([0, 0])).log_prob(torch.tensor([0, 1])).exp()  # the first word is the root
        tensor(0.5000)
    """

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012
    support = constraints.integer

    def __init__(self, base: Structure, data: Tensor) -> None:
        self.base, self.data = base, data
        super().__init__(validate_args=False)

    @cached_property
    def posterior(self) -> Posterior:
        """All that there is to know about the structure."""
        return self.base.posterior(self.data)

    @property
    def event_shape(self) -> Size:
        return self._one.shape

    @cached_property
    def _one(self) -> Tensor:  # every kind of structure lies as it likes: only one of them can tell how
        return self.posterior.sample(generator=torch.Generator().manual_seed(0))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Hidden:
        new = Hidden(self.base, self.data)
        new.posterior, new._batch_shape = self.posterior, Size(batch_shape)
        return new

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Exact draws, (*sample_shape, *batch, *event)."""
        shape = Size((*sample_shape, *self.batch_shape))
        return self.posterior.sample(shape)

    def log_prob(self, structure: Tensor) -> Tensor:  # (*batch, *event) -> (*batch,)
        batch = structure.shape[: structure.dim() - len(self.event_shape)]
        each = torch.stack([self._log_prob(one) for one in structure.reshape(-1, *self.event_shape)])
        return each.reshape(batch).expand(torch.broadcast_shapes(batch, self.batch_shape))

    def _log_prob(self, structure: Tensor) -> Tensor:
        log_z = self.posterior.log_partition
        each = self.base.score(self.data, structure) - log_z
        return torch.where(log_z > -torch.inf, each, -torch.inf).sum()  # impossible data have no structure
