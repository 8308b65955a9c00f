"""What an M step climbs, and ways to climb it: Adam, and L-BFGS."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ...array import Array
from ..base import Tensors
from ..features.lbfgs import LBFGS, Point
from .networks import Networks

#: What is climbed, as a differentiable function of the weights: (F,) -> ().
Objective = Callable[[Tensor], Tensor]


def expected_objective(networks: Networks, counts: Tensors, decay: float) -> Objective:
    """The expected complete log-likelihood, minus the weight decay times the squares of the weights.

    :param counts: by table. What rounding left below zero is zero.
    """
    plain = {name: x.detach().double().clamp(min=0) for name, x in counts.items()}
    return lambda w: networks.expected(w, plain) - decay * (w @ w)


@torch.no_grad()
def value_at(objective: Objective, w: Tensor) -> float:  # (F,)
    """The value alone."""
    return float(objective(w))


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


def seed_of(chance: Tensor, what: str) -> int:  # (2,)
    """A seed of its own for each update and purpose, from the seed of a run and the number of the update."""
    return int(np.random.SeedSequence([*chance.tolist(), *what.encode()]).generate_state(1)[0])
