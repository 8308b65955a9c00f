"""Draws of all tables at once, as ``Predictive(parallel=True)`` and ArviZ hand them to a model."""

from __future__ import annotations

import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import Predictive

import pyro_unsup as pu
from tests.matrix.models import MODELS, Model


@pytest.mark.parametrize("draws", [2, 4, 5])  # also as many as there are examples
@pytest.mark.parametrize("model", [m for m in MODELS.values() if not m.hidden], ids=lambda m: m.name)
def test_draws_at_once_are_draws_one_by_one(model: Model, draws: int) -> None:
    program = model.make()
    pyro.set_rng_seed(draws)
    runs = [poutine.trace(program).get_trace(*model.data) for _ in range(draws)]
    tables = {
        name: torch.stack([run.nodes[name]["value"] for run in runs])
        for name in pu.handlers.declared(program, *model.data)
    }
    trace = Predictive(program, posterior_samples=tables).get_vectorized_trace(*model.data)
    for name in runs[0].observation_nodes:
        each, at_once = [run.nodes[name] for run in runs], trace.nodes[name]
        expected = torch.stack([site["fn"].log_prob(site["value"]) for site in each])
        torch.testing.assert_close(at_once["fn"].log_prob(at_once["value"]), expected, rtol=1e-5, atol=1e-5)
