"""Semirings over log-weights: one recursion, three readings.

A structure's recursion multiplies weights (adds logs) and sums over choices. What "sums" means decides what the
gradient of the total says (Eisner 2016, "Inside-outside and forward-backward algorithms are just backprop"):

========== ============= ===============================================
semiring   sum           gradient of the total in the potential of a part
========== ============= ===============================================
``LOG``    log-sum-exp   posterior probability of the part
``MAX``    maximum       1 if the best structure has the part, else 0
``SAMPLE`` log-sum-exp   1 if one exact draw has the part, else 0
========== ============= ===============================================

An impossible choice is -inf. It gets gradient 0, even where every choice is impossible.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor
from torch.autograd import Function

Sum = Callable[[Tensor, int], Tensor]  #: sums log-weights over one axis


def LOG(x: Tensor, dim: int) -> Tensor:
    """Log-sum-exp, differentiable to any order."""
    total: Tensor = _LogSumExp.apply(x, dim)
    return total


def MAX(x: Tensor, dim: int) -> Tensor:
    """Maximum. Of equal choices the first has the whole gradient, so that the gradient marks one structure."""
    top = x.max(dim).values
    return torch.where(top == -torch.inf, -torch.inf, top)  # impossible: no gradient


def SAMPLE(generator: Generator | None = None) -> Sum:
    """Log-sum-exp whose gradient marks one choice, drawn in proportion to the weights.

    Autograd visits a sum after everything that uses it, so a structure is drawn from the top down. Ask for the gradient
    in all potentials at once: two calls are two draws.
    """
    return partial(_sample, generator=generator)


def _sample(x: Tensor, dim: int, generator: Generator | None) -> Tensor:
    total: Tensor = _Sample.apply(x, dim, generator)
    return total


def _log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """As ``torch.logsumexp``, in half the time: log-weights are never +inf, so there is no check for it."""
    top = x.amax(dim, keepdim=True)
    top = top.masked_fill_(top == -torch.inf, 0.0)  # -inf minus -inf would be NaN
    return (x - top).exp_().sum(dim).log_().add_(top.squeeze(dim))


class _LogSumExp(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int) -> Tensor:
        total = _log_sum_exp(x, dim)
        ctx.dim = dim
        ctx.save_for_backward(x, total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        x, total = ctx.saved_tensors
        total = total.masked_fill(total == -torch.inf, 0.0)  # -inf minus -inf would be NaN
        return (x - total.unsqueeze(ctx.dim)).exp() * grad.unsqueeze(ctx.dim), None


class _Sample(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, generator: Generator | None) -> Tensor:
        ctx.dim, ctx.generator = dim, generator
        ctx.save_for_backward(x)
        return _log_sum_exp(x, dim)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        used = grad != 0  # few sums are on the way to the structure that is drawn
        choices = x.movedim(ctx.dim, -1)[used]  # (used, choices)
        # The largest of x + Gumbel noise is at i with probability proportional to exp(x[i]).
        noise = torch.empty_like(choices).exponential_(generator=ctx.generator)
        noise = noise.clamp_(min=torch.finfo(noise.dtype).tiny).log_()
        best, chosen = (choices - noise).max(-1, keepdim=True)
        share = grad[used].unsqueeze(-1).masked_fill(best == -torch.inf, 0.0)  # nothing is possible: no choice
        found = torch.zeros_like(x)
        found.movedim(ctx.dim, -1)[used] = torch.zeros_like(choices).scatter(-1, chosen, share)
        return found, None, None
