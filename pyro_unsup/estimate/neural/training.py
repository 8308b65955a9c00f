"""Ways to train networks on expected counts: Adam, and L-BFGS."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ...array import Array
from ..features.lbfgs import LBFGS, Point

#: What is climbed, as a differentiable function of the weights: (F,) -> ().
Objective = Callable[[Tensor], Tensor]


def adam(objective: Objective, start: Tensor, rate: float, steps: int, tolerance: float) -> Tensor:
    """Weights after some steps of Adam. They may be worse than those it started from.

    :param objective: may draw chance numbers (dropout).
    :param start: (F,) where to begin.
    :param rate: the learning rate.
    :param steps: the most.
    :param tolerance: relative change of the objective in a step that ends them.
    """
    w = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([w], lr=rate)
    before = math.inf
    for _ in range(steps):
        value, w.grad = slope(objective, w)
        w.grad.neg_()  # Adam goes down
        optimiser.step()
        if not abs(float(value) - before) > tolerance * abs(float(value)):
            break
        before = float(value)
    return w.detach()


def lbfgs(objective: Objective, start: Tensor, steps: int, tolerance: float) -> Tensor:
    """Weights after some steps of L-BFGS, each of which leads up.

    :param start: (F,)
    :param tolerance: relative rise of the objective in a step that ends them.
    """

    def evaluate(x: Array) -> Point:
        value, gradient = slope(objective, torch.from_numpy(x))
        return Point(x, float(value), gradient.numpy())

    here, climber = evaluate(start.numpy()), LBFGS()
    for _ in range(steps):
        there = climber.step(here, evaluate)
        if there is None:
            break
        rise, here = there.value - here.value, there
        if rise <= tolerance * abs(here.value):
            break
    return torch.from_numpy(here.x)


def slope(objective: Objective, w: Tensor) -> tuple[Tensor, Tensor]:  # (F,) -> (), (F,)
    """The value of a function, and its gradient."""
    leaf = w.detach().clone().requires_grad_()
    with torch.enable_grad():
        value = objective(leaf)
        (gradient,) = torch.autograd.grad(value, leaf)
    return value.detach(), gradient
