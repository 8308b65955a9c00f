"""What the worked examples of hidden Markov models share: maximum likelihood by direct search, and how it is shown."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from pyro.distributions import constraints
from torch import Tensor
from torch.distributions import transform_to

import pyro_unsup as pu

from .experiment import Column, Found

Parameters = dict[str, Tensor]
Build = Callable[[Mapping[str, Tensor]], pu.Chain]

#: What parameters may be; others are real numbers.
SUPPORTS: dict[str, Any] = {
    "rate": constraints.positive,
    "scale": constraints.positive,
    "probs": constraints.unit_interval,
    "gamma": constraints.simplex,
    "delta": constraints.simplex,
}
NLL = Column("nll", "-l", 4)
CRITERIA = (NLL, Column("aic", "AIC", 4), Column("bic", "BIC", 4), Column("estimates", "estimates"))
SEARCH = {"max_iter": 500, "tolerance_grad": 1e-6, "tolerance_change": 1e-10, "history_size": 20}


def doubles(values: Mapping[str, Any]) -> Parameters:
    return {name: torch.as_tensor(np.asarray(x, dtype=np.float64)) for name, x in values.items()}


def maximum(build: Build, begin: Mapping[str, Any], value: Tensor) -> tuple[float, Parameters]:
    """The log-likelihood at its maximum, and where that is: L-BFGS in a space without constraints.

    :param build: from parameters to the chain.
    """
    maps = {name: transform_to(SUPPORTS.get(name, constraints.real)) for name in begin}
    leaves = {name: maps[name].inv(x).clone().requires_grad_() for name, x in doubles(begin).items()}
    search = torch.optim.LBFGS(list(leaves.values()), line_search_fn="strong_wolfe", **SEARCH)  # type: ignore[arg-type]

    def now() -> Parameters:
        return {name: maps[name](x) for name, x in leaves.items()}

    def loss() -> Tensor:
        search.zero_grad()
        found = -build(now()).log_prob(value).sum()
        found.backward()
        return found

    search.step(loss)
    with torch.no_grad():
        found = now()
        return float(build(found).log_prob(value).sum()), found


def best(build: Build, starts: Sequence[Mapping[str, Any]], value: Tensor) -> tuple[float, Parameters]:
    """The highest of several searches. One that runs out of numbers does not count."""
    found = []
    for start in starts:
        with contextlib.suppress(ValueError):
            found.append(maximum(build, start, value))
    return max(found, key=lambda one: one[0])


def moves(states: int, leave: float = 0.1) -> Tensor:  # (K, K)
    """Transitions that leave a state with the same probability to every other one."""
    found = torch.full((states, states), leave, dtype=torch.float64)
    return found.fill_diagonal_(1 - leave * (states - 1))


def logs(gamma: Tensor) -> Tensor:
    return gamma.clamp(min=torch.finfo(gamma.dtype).tiny).log()


def criteria(log_likelihood: float, parameters: int, rows: int, **shown: Any) -> Found:
    """-l, AIC, BIC, and estimates in words."""
    said = "; ".join(f"{name} {listed(x)}" for name, x in shown.items())
    found: Found = {"nll": -log_likelihood, "aic": 2 * (parameters - log_likelihood)}
    return {**found, "bic": math.log(rows) * parameters - 2 * log_likelihood, "estimates": said}


def listed(x: Any, digits: int = 4) -> str:
    """Numbers side by side, rows of a matrix with a stroke between them."""
    found = torch.as_tensor(x)
    if found.dim() < 2:
        return " ".join(f"{one:.{digits}g}" for one in found.reshape(-1).tolist())
    return " / ".join(listed(row, digits) for row in found)


def by_mean(mean: Tensor, gamma: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """States in the order of their means: the order, the means and the transitions."""
    order = mean.argsort()
    return order, mean[order], gamma[order][:, order]
