"""Models of time series under every algorithm, and with E steps that are replayed or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu

from .algorithms import SMOOTH, annealed, features, regularised
from .cells import cells, check
from .models import MODELS, Model

ENGINES: dict[str, Callable[[Model], Any]] = {
    "EM": lambda m: pu.EM(m.make()),
    "Viterbi EM": lambda m: pu.EM(pu.harden(m.make()), SMOOTH),
    "annealing": annealed,
    "features": lambda m: pu.EM(m.make(), features(m)),
    "VB": lambda m: pu.EM(m.make(), pu.DirichletVB()),
    "mixture": lambda m: pu.MixtureEM(m.make(), [m.component], SMOOTH),
    "constrained": lambda m: pu.EM(pu.constrain(m.make(), m.component), SMOOTH),
    "regularised": lambda m: pu.EM(regularised(m), SMOOTH),
}


@cells("HMM, Poisson", "HMM, normal", "HMM, vectors")
def test_cell(model: str, algorithm: str, tmp_path: Path) -> None:
    check(model, algorithm, tmp_path / "cell")


@pytest.mark.parametrize("name", ["HMM, Poisson", "HMM, normal", "HMM, vectors"])
@pytest.mark.parametrize("engine", ENGINES)
def test_replayed_steps_move_parameters_as_others_do(engine: str, name: str) -> None:
    model = MODELS[name]

    def asked() -> Any:
        made = model.make()
        made.replayable = False  # type: ignore[attr-defined]
        return made

    options: dict[str, Any] = {"iterations": 8, "tolerance": 0.0, "progress": False}
    found, expected = (ENGINES[engine](one).run(*model.data, **options) for one in (model, replace(model, make=asked)))
    assert [row["objective"] for row in found.rows] == pytest.approx(
        [row["objective"] for row in expected.rows], rel=1e-12
    )
    for one, other in ((found.params, expected.params), (found.weights, expected.weights)):
        for key, x in one.items():
            torch.testing.assert_close(x, other[key], rtol=1e-9, atol=1e-11)
