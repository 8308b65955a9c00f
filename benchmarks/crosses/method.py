"""A row of a table: how to learn, and how what was learned is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import pyro_unsup as pu
from pyro_unsup.handlers import bare

Found = dict[str, float]
Run = Callable[[Any, int], Found]
Engine = Callable[..., Any]

QUIET: dict[str, Any] = {"progress": False}


@dataclass(frozen=True)
class Method:
    """A row.

    :param origin: the paper that has it for this task, or "new".
    :param measure: what its objective is.
    :param run: from data and a seed to scores, ``log_likelihood`` a token and ``objective``.
    :param random: whether seeds make a difference.
    """

    name: str
    origin: str
    measure: str
    run: Run
    random: bool = True


def log_likelihood(model: Any, weights: Mapping[str, torch.Tensor], data: Any) -> float:
    """Of the data, under normalised tables."""
    tables = {name: table.layout.normalise(weights[name].double()) for name, table in model.declarations().items()}
    return -pu.EM(model, init=pu.init.from_weights(tables)).evaluate_loss(data)


def judged(fit: pu.Fit, data: Any, score: str) -> Found:
    likelihood = log_likelihood(bare(fit.model), fit.weights, data) / data.tokens
    return {score: 100 * fit.evaluate(data)[score], "log_likelihood": likelihood, "objective": fit.objective}


def seeds(engine: Any, seed: int) -> dict[str, int]:
    """Of the start and, where examples come in an order, of that."""
    return {"seed": seed} | ({"order_seed": seed} if isinstance(engine, pu.StepwiseEM) else {})
