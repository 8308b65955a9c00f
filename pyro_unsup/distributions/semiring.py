"""Semirings over log-weights: one recursion, three readings.

A structure's recursion multiplies weights (adds logs) and sums over choices. What "sums" means decides what its
gradient is (Eisner 2016, "Inside-outside and forward-backward algorithms are just backprop"):

========= ===================== ==========================================
semiring  sum over choices      gradient of the total, part by part
========= ===================== ==========================================
``LOG``   log-sum-exp           posterior probability of the part
``MAX``   maximum               1 if the best structure has the part
``SAMPLE`` log-sum-exp          1 if one exact posterior draw has the part
========= ===================== ==========================================

All three treat -inf as an impossible choice, and give it gradient 0 even where everything is impossible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Sum = Callable[[Tensor, int], Tensor]  #: sums a tensor of log-weights over one axis


def LOG(x: Tensor, dim: int) -> Tensor:
    """Log-sum-exp with zero (not NaN) gradient where every entry is -inf; differentiable to any order."""
    top = x.detach().amax(dim, keepdim=True)
    top = torch.where(top == -torch.inf, torch.zeros_like(top), top)
    total = (x - top).exp().sum(dim)
    alive = total != 0  # NaN counts as alive, so that it shows
    safe = torch.where(alive, total, torch.ones_like(total))
    return torch.where(alive, safe.log() + top.squeeze(dim), -torch.inf)


def MAX(x: Tensor, dim: int) -> Tensor:
    """Maximum; ties go to the lowest index."""
    top = x.gather(dim, x.detach().argmax(dim, keepdim=True)).squeeze(dim)
    return torch.where(top == -torch.inf, -torch.inf, top)  # impossible: no gradient


def SAMPLE(x: Tensor, dim: int) -> Tensor:
    """Log-sum-exp whose gradient is one draw in proportion to the weights."""
    result: Tensor = _Sample.apply(x, dim)
    return result


class _Sample(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        total = LOG(x, dim)
        ctx.dim = dim
        ctx.save_for_backward(x, total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, total = ctx.saved_tensors
        weights = torch.where(x > -torch.inf, (x - total.unsqueeze(ctx.dim)).exp(), 0.0).movedim(ctx.dim, -1)
        alive = weights.sum(-1, keepdim=True) > 0
        rows = torch.where(alive, weights, torch.ones_like(weights)).reshape(-1, weights.shape[-1])
        chosen = torch.multinomial(rows, 1).reshape(*weights.shape[:-1], 1)
        one_hot = torch.zeros_like(weights).scatter(-1, chosen, 1.0) * alive
        return one_hot.movedim(-1, ctx.dim) * grad.unsqueeze(ctx.dim), None
