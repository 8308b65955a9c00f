"""What stepwise EM refuses, and how it says so."""

from __future__ import annotations

import warnings
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import FitError, StepwiseEM
from pyro_unsup.infer.examples import Examples
from pyro_unsup.models import Tagger

from .stepwise_cases import corpus, mixture


@pytest.mark.parametrize("power", [0.3, 0.0, 1.1, -1.0, float("nan")])
def test_powers_without_convergence_are_refused(power: float) -> None:
    with pytest.raises(FitError, match=r"power must lie in \(0.5, 1\], so that step sizes add up to infinity"):
        StepwiseEM(Tagger(2, 2), power=power)


def test_the_power_of_the_paper_warns() -> None:
    with pytest.warns(UserWarning, match=r"power 0.5: Liang & Klein \(2009\) use it too, but convergence is only"):
        StepwiseEM(Tagger(2, 2), power=0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StepwiseEM(Tagger(2, 2), power=0.51)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size must be a whole number, 1 or more, actual 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number, 1 or more, actual 2.5"),
        ({"order_seed": -1}, "order_seed must be a whole number, 0 or more, actual -1"),
        ({"mass": 0.0}, "the mass of the initial counts must be positive and finite, actual 0.0"),
        ({"dtype": torch.float16}, "dtype must be torch.float64 or torch.float32"),
    ],
)
def test_impossible_settings_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(FitError, match=message):
        StepwiseEM(Tagger(2, 2), **options)


def test_a_step_size_outside_the_unit_interval_is_refused() -> None:
    with pytest.raises(FitError, match=r"update 0: a step size must lie in \[0, 1\], actual 2.0"):
        StepwiseEM(Tagger(2, 4), schedule=lambda k: 2.0).session().step(corpus())


def test_parameters_without_a_formula_are_refused() -> None:
    def with_latent(x: Tensor) -> None:
        share, mean = pu.table("share", 2), pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("x", dist.Normal(mean + z, 1.0), obs=x)

    engine = StepwiseEM(with_latent).session()
    for _ in range(2):
        with pytest.raises(FitError, match="needs a formula for every parameter, and 'mean' has none"):
            engine.step(torch.zeros(3))


def test_parameters_that_vary_by_step_are_refused() -> None:
    def regression(x: Tensor) -> None:
        start, moves = pu.table("start", 2), pu.table("moves", 2, 2)
        slope = pyro.param("slope", lambda: torch.ones(2).double())
        loc = slope + torch.zeros(len(x), 1).double()
        pyro.sample("x", pu.Chain(start, moves, dist.Normal(loc, 1.0), len(x)), obs=x)

    with pytest.raises(FitError, match="distributions that are the same for all observations: expected a batch shape"):
        StepwiseEM(regression).session().step(torch.randn(5).double())


def test_data_without_examples_are_refused() -> None:
    with pytest.raises(FitError, match="no examples: expected at least one"):
        Examples.of(mixture, (torch.zeros(0),), {})
    with pytest.raises(FitError, match=r"cannot tell the examples of these data apart \(Tensor, int\): give the model"):
        StepwiseEM(mixture).run(torch.tensor([1, 2]), 1, progress=False)


def test_data_that_forgetting_made_impossible_say_so() -> None:
    engine = StepwiseEM(Tagger(1, 2), schedule=lambda k: 0.999).session()
    engine.start([[0]])
    for _ in range(160):
        engine.step([[0]])
    with pytest.raises(FitError, match=r"has probability zero: smooth \(AddLambda\), forget more slowly"):
        engine.step([[1]])
