"""A Categorical that does not normalise its weights, so that gradients are counts."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints


class Categorical(TorchDistribution):
    """Like :class:`pyro.distributions.Categorical`, but its log-weights are never normalised.

    ``log_prob(x) = logits[x]``, so the gradient of a log marginal in ``logits`` is the expected count of each outcome.
    Pyro's own Categorical subtracts ``logsumexp(logits)`` first, which centres that gradient and breaks EM.
    Looking values up costs memory in proportion to the values, never values x outcomes. Samples are drawn in
    proportion to the weights.

    :param logits: (*batch, outcomes) log-weights.

    >>> import torch
    >>> import pyro_unsup as pu
    >>> pu.Categorical(torch.tensor([0.2, 0.3]).log()).log_prob(torch.tensor(1)).exp()
    tensor(0.3000)
    """

    arg_constraints = {"logits": constraints.independent(constraints.real, 1)}  # noqa: RUF012
    has_enumerate_support = True

    def __init__(self, logits: Tensor, validate_args: bool | None = None) -> None:
        self.logits = logits
        super().__init__(logits.shape[:-1], validate_args=False)  # any weights will do, but not any value
        follow_pyro: bool = getattr(type(self), "_validate_args", False)
        self._validate_args = follow_pyro if validate_args is None else validate_args

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        return constraints.integer_interval(0, self.logits.shape[-1] - 1)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Categorical:
        new = Categorical(self.logits, self._validate_args)  # the logits stay small; log_prob broadcasts
        new._batch_shape = Size(batch_shape)
        return new

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = value.long()
        shape = torch.broadcast_shapes(self._batch_shape, value.shape)
        batch = self.logits.shape[:-1]
        # One index a batch axis, so that the gradient is scattered straight into the (small) logits.
        index = [
            torch.arange(n, device=value.device).reshape(-1, *[1] * (len(batch) - 1 - i)) for i, n in enumerate(batch)
        ]
        return self.logits[(*index, value)].expand(shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(Size(sample_shape))
        rows = [1] * (len(shape) - self.logits.dim() + 1) + list(self.logits.shape[:-1])
        # Axes along which the weights are the same come last: many draws from one row, not a row for each draw.
        order = sorted(range(len(shape)), key=lambda axis: rows[axis] == 1)
        with torch.no_grad():
            probs = torch.softmax(self.logits, -1).reshape(-1, self.logits.shape[-1])
            drawn = torch.multinomial(probs, shape.numel() // len(probs), replacement=True)
        return drawn.reshape([shape[axis] for axis in order]).movedim(list(range(len(shape))), order)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self.logits.shape[-1]
        values = torch.arange(n, device=self.logits.device).reshape(-1, *[1] * len(self._batch_shape))
        return values.expand(-1, *self._batch_shape) if expand else values
