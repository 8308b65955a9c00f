"""The normal density by a kernel: the same numbers and gradients as Pyro's, in one pass over the observations."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyro.distributions as dist
import torch
from torch import Tensor

from .. import kernels


def normal_density(emission: Any, value: Tensor, observed: Tensor | None) -> Tensor | None:  # (rows, K)
    """log-densities of observations under a normal emission; None if the kernel does not apply.

    :param emission: Normal of batch shape (K,), or independent coordinates, (K) and (D).
    :param value: (rows,) or (rows, D).
    :param observed: False for what is missing.
    """
    event = len(emission.event_shape)
    inside = emission.base_dist if isinstance(emission, torch.distributions.Independent) else emission
    plain = type(inside) in (dist.Normal, torch.distributions.Normal) and len(inside.batch_shape) == 1 + event
    if not plain or event > 1 or value.dim() != 1 + event or value.requires_grad or not kernels.enabled():
        return None
    if any(x.dtype != torch.float64 or not x.is_cpu for x in (value, inside.loc, inside.scale)):
        return None
    if observed is not None:
        value = torch.where(observed, value, torch.nan)
    if not (torch.is_grad_enabled() and (inside.loc.requires_grad or inside.scale.requires_grad)):
        return _densities(value if event else value.unsqueeze(-1), inside.loc, inside.scale)
    found: Tensor = _NormalDensity.apply(value if event else value.unsqueeze(-1), inside.loc, inside.scale)
    return found


def _densities(x: Tensor, loc: Tensor, scale: Tensor) -> Tensor:  # (rows, D), (K,) or (K, D) -> (rows, K)
    return torch.from_numpy(_kernel().densities(_array(x), _wide(loc), _wide(scale)))


@cache
def _kernel() -> Any:
    """The compiled code, which is imported when it is first used."""
    from ..kernels import normal

    return normal


class _NormalDensity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, loc: Tensor, scale: Tensor) -> Tensor:
        ctx.save_for_backward(x, loc, scale)
        return _densities(x, loc, scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, loc, scale = ctx.saved_tensors
        if torch.is_grad_enabled():  # a gradient of the gradient is wanted: go through the definition
            seen = ~x.isnan()
            y = torch.where(seen, x, 0.0).unsqueeze(1)
            wide = (loc, scale) if loc.dim() == 2 else (loc.unsqueeze(-1), scale.unsqueeze(-1))
            each = torch.where(seen.unsqueeze(1), dist.Normal(*wide, validate_args=False).log_prob(y), 0.0).sum(-1)
            return None, *torch.autograd.grad(each, (loc, scale), grad, create_graph=True)
        n, s1, s2 = torch.from_numpy(_kernel().moments(_array(x), _array(grad), _wide(loc))).reshape(3, *loc.shape)
        return None, s1 / scale**2, s2 / scale**3 - n / scale


def _array(x: Tensor) -> Any:
    return np.ascontiguousarray(x.detach().numpy())


def _wide(x: Tensor) -> Any:  # (K,) or (K, D) -> (K, D)
    return np.ascontiguousarray(x.detach().numpy().reshape(len(x), -1))
