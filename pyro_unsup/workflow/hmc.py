"""Hamiltonian Monte Carlo of many particles side by side, each with its own momentum and its own temperature."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

#: From positions (S, D) to log densities (S,), which have gradients.
LogDensity = Callable[[Tensor], Tensor]


def hmc_move(
    x: Tensor,  # (S, D)
    log_density: LogDensity,
    step: float,
    scale: Tensor,  # (D,)
    leaps: int,
) -> tuple[Tensor, float]:
    """One move of every particle, which leaves the density invariant; and the mean probability of acceptance.

    :param x: positions of the particles.
    :param step: of leapfrog, times ``scale``.
    :param scale: of every coordinate.
    :param leaps: leapfrog steps. The step is varied by 20 percent at random, the same way for all particles.
    """
    size = step * scale * (0.8 + 0.4 * float(torch.rand(())))
    momentum = torch.randn_like(x)
    before, slope = _with_slope(x, log_density)
    y, p, now = x, momentum, before
    for _ in range(leaps):
        p = p + 0.5 * size * slope
        y = y + size * p
        now, slope = _with_slope(y, log_density)
        p = p + 0.5 * size * slope
    change = now - before - 0.5 * (p.square().sum(-1) - momentum.square().sum(-1))
    chance = torch.where(change.isnan(), torch.zeros_like(change), change.clamp(max=0.0).exp())
    accepted = torch.rand_like(chance) < chance
    return torch.where(accepted[:, None], y, x), float(chance.mean())


def _with_slope(x: Tensor, log_density: LogDensity) -> tuple[Tensor, Tensor]:  # (S,), (S, D)
    """Log densities and their gradients; -inf and 0 where a particle has left the numbers."""
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        # A particle that ran away would stop all others: it is looked at where it cannot, and refused.
        lost = ~leaf.detach().isfinite().all(-1) | (leaf.detach().abs().amax(-1) > 1e4)
        inside = torch.where(lost[:, None], torch.zeros_like(leaf), leaf)
        value = log_density(inside)
        (slope,) = torch.autograd.grad(value.sum(), leaf)
    fine = ~lost & value.detach().isfinite()
    return (
        torch.where(fine, value.detach(), -torch.inf),
        torch.where(fine[:, None], slope, 0.0).nan_to_num(0.0, 0.0, 0.0),
    )
