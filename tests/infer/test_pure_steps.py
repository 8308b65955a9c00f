"""A step leaves the state that it starts from as it is, so it can be made again, to the same result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from tests.matrix.models import TAGS, VERBS, WORDS

TAGGER = pu.models.Tagger(2, WORDS.vocab)
DMV = pu.models.DMV.of(TAGS)

ENGINES: dict[str, tuple[Callable[[], Any], Any]] = {
    "EM": (lambda: pu.EM(TAGGER), WORDS),
    "VB": (lambda: pu.EM(TAGGER, pu.DirichletVB()), WORDS),
    "features": (lambda: pu.EM(TAGGER, pu.LogLinear(kappa=1.0)), WORDS),
    "annealing": (lambda: pu.Anneal(TAGGER), WORDS),
    "incremental": (lambda: pu.IncrementalEM(TAGGER, batch_size=2), WORDS),
    "stepwise, compiled": (lambda: pu.StepwiseEM(TAGGER, batch_size=2), WORDS),
    "stepwise": (lambda: pu.StepwiseEM(DMV, batch_size=2), TAGS),
    "stepwise with features": (lambda: pu.StepwiseEM(DMV, pu.LogLinear(kappa=1.0), batch_size=2), TAGS),
    "gradient": (lambda: pu.Gradient(TAGGER, pu.LogLinear(kappa=1.0)), WORDS),
    "mixture": (lambda: pu.MixtureEM(DMV, [VERBS], pu.LogisticNormal()), TAGS),
    "hierarchical": (lambda: pu.HierarchicalEM(DMV), TAGS),
}


def snapshot(state: Any) -> dict[str, torch.Tensor]:
    return {
        **{f"weights {name}": w.clone() for name, w in state.weights.items()},
        **{f"memory {name}": w.clone() for name, w in state.memory.items()},
        **{f"own {name}": w.clone() for name, w in state.own().items()},
    }


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, x in one.items():
        assert torch.equal(x, other[name]), name


@pytest.mark.parametrize("name", ENGINES)
def test_a_step_can_be_made_again(name: str) -> None:
    make, data = ENGINES[name]
    engine = make()
    state = engine.init(data, seed=1)
    for _ in range(3):
        engine.e_step(state)  # what an E step keeps for the next one is no change
        before = snapshot(state)
        first, info = engine.step(state)
        equal(before, snapshot(state))
        again, repeated = engine.step(state)
        equal(snapshot(first), snapshot(again))
        assert info.objective == repeated.objective
        state = first
