"""Climbing a smooth function by L-BFGS, never ending lower than the start."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def climb(parameters: Sequence[Tensor], objective: Callable[[], Tensor], steps: int) -> None:
    """Move leaf tensors in place towards a maximum of the objective; steps that do not raise it are undone.

    >>> import torch
    >>> from pyro_unsup.infer.climb import climb
    >>> x = torch.tensor(0.0, requires_grad=True)
    >>> climb([x], lambda: -((x - 3) ** 2), steps=20)
    >>> round(x.item(), 6)
    3.0
    """
    before = [p.detach().clone() for p in parameters]
    optimiser = torch.optim.LBFGS(
        parameters, max_iter=steps, tolerance_grad=1e-10, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )
    losses: list[float] = []

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = -objective()
        loss.backward()
        losses.append(float(loss.detach()))
        return loss

    optimiser.step(closure)
    if not -float(objective().detach()) <= losses[0]:
        with torch.no_grad():
            for p, old in zip(parameters, before, strict=True):
                p.copy_(old)
