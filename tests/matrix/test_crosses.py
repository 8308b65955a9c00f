"""The three axes crossed: how structure is weighed, how counts are pooled, how they become weights."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import pyro_unsup as pu

from .algorithms import SMOOTH, features, learns, reference
from .cells import PARAMETERS
from .models import MODELS, Model

WEIGHED: dict[str, Callable[[Model], Any]] = {
    "as is": lambda m: m.make(),
    "temper": lambda m: pu.temper(m.make(), 0.5),
    "skew": lambda m: pu.skew(m.make(), 0.5, reference(m)),
    "harden": lambda m: pu.harden(m.make()),
    "constrain": lambda m: pu.constrain(m.make(), m.component),
}
POOLED: dict[str, Callable[[Any, Any, Model], Any]] = {
    "batch": lambda model, how, m: pu.EM(model, how),
    "incremental": lambda model, how, m: pu.IncrementalEM(model, how, batch_size=4),
    "stepwise": lambda model, how, m: pu.StepwiseEM(model, how, batch_size=4, exact=True),
    "anneal": lambda model, how, m: pu.Anneal(model, how, schedule=[0.5, 1.0], steps=1),
    "gradient": lambda model, how, m: pu.Gradient(model, how),
    "mixture": lambda model, how, m: pu.MixtureEM(model, [m.component], how),
}
ESTIMATED: dict[str, Callable[[Model], Any]] = {
    "add": lambda m: SMOOTH,
    "MAP": lambda m: pu.DirichletMAP(),
    "VB": lambda m: pu.DirichletVB(),
    "fitted VB": lambda m: pu.EmpiricalDirichlet(),
    "logistic normal": lambda m: pu.LogisticNormal(),
    "features": features,
}


def crosses() -> Iterator[Any]:
    for name, weighed, pooled, estimated in itertools.product(MODELS, WEIGHED, POOLED, ESTIMATED):
        climbs = pooled != "gradient" or estimated == "features"  # in weights of features
        parts = not MODELS[name].hidden or (weighed != "constrain" and pooled != "mixture")
        if climbs and parts and name not in PARAMETERS:  # of which some engines learn the tables only
            cross = (name, weighed, pooled, estimated)
            yield pytest.param(*cross, id=", ".join(cross))


@pytest.mark.deep
@pytest.mark.parametrize(("name", "weighed", "pooled", "estimated"), [*crosses()])
def test_cross(name: str, weighed: str, pooled: str, estimated: str, tmp_path: Path) -> None:
    def build(model: Model) -> Any:
        return POOLED[pooled](WEIGHED[weighed](model), ESTIMATED[estimated](model), model)

    learns(build)(MODELS[name], tmp_path)
