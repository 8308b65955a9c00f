"""EM on a user's own models: densities, masks, parameters, networks and points beside tables."""

from __future__ import annotations

import warnings
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import EM, FitError
from pyro_unsup.models import Tagger

from .em_cases import corpus


def test_an_m_step_of_densities_above_one_is_kept() -> None:
    """In small units densities exceed 1 and log-likelihoods are positive: nothing may depend on their sign."""
    x = torch.cat([0.01 * torch.randn(40), 0.5 + 0.01 * torch.randn(40)])

    def model(x: Tensor) -> None:
        share = pu.table("share", 2)
        centre = pyro.param("centre", torch.tensor([0.1, 0.3]))
        scale = pyro.param("scale", torch.tensor(0.1), constraint=dist.constraints.greater_than(1e-4))
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", dist.Normal(centre[k], scale), obs=x)

    fit = EM(model).run(x, iterations=50)
    assert fit.objective > 0
    torch.testing.assert_close(fit.params["centre"], torch.stack([x[:40].mean(), x[40:].mean()]), atol=1e-6, rtol=0)
    assert fit.log_likelihood(x) == pytest.approx(fit.objective, rel=1e-9)
    assert fit.predict(x)["k"].tolist() == [0] * 40 + [1] * 40


def test_later_runs_do_not_change_an_earlier_fit() -> None:
    def model(x: Tensor) -> None:
        share = pu.table("share", 2)
        centre = pyro.param("centre", torch.tensor([-1.0, 1.0]))
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", dist.Normal(centre[k], 1.0), obs=x)

    x = torch.randn(30)
    em = EM(model)
    first = em.run(x, iterations=2, tolerance=0)
    before = first.params["centre"].clone()
    em.run(x, iterations=3, tolerance=0, resume=first)
    assert torch.equal(first.params["centre"], before)


def test_masked_positions_of_an_enumerated_chain_are_not_counted() -> None:
    lengths = torch.tensor([3, 1, 2])
    words = torch.tensor([[0, 1, 2], [2, 0, 0], [1, 1, 0]])
    tables = {"start": (2,), "transition": (2, 2), "emission": (2, 3)}
    unnormalised = {name: torch.randn(shape) for name, shape in tables.items()}

    def model(words: Tensor) -> None:
        start, transition, emission = (pu.table(name, *shape) for name, shape in tables.items())
        with pyro.plate("sentences", 3):
            z = None
            for t in pyro.markov(range(3)):
                with pyro.poutine.mask(mask=t < lengths):
                    z = pyro.sample(f"z_{t}", pu.Categorical(start if z is None else transition[z]))
                    pyro.sample(f"x_{t}", pu.Categorical(emission[z]), obs=words[:, t])

    em = EM(model, init=lambda declarations, generator: unnormalised)
    state = em.init(words)
    info, expected = em.e_step(state)
    chain = pu.Chain(*unnormalised.values(), lengths).posterior(words)
    assert info.objective == pytest.approx(float(chain.log_partition.sum()), rel=1e-12)
    for name, counts in expected.counts.items():
        torch.testing.assert_close(counts, chain.counts[name])


def test_continuous_latents_are_estimated_at_their_mode() -> None:
    x = torch.tensor([0.9, 1.1, 1.3])

    def model(x: Tensor) -> None:
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("data", len(x)):
            pyro.sample("x", dist.Normal(mean, 1.0), obs=x)

    fit = EM(model).run(x)
    assert float(fit.points["mean"]) == pytest.approx(float(x.sum()) / 4, abs=1e-6)


def test_restarts_begin_anew_and_each_with_its_own_network() -> None:
    fit = EM(Tagger(2, 4)).run(corpus(), iterations=1)
    with pytest.raises(FitError, match="restarts begin anew"):
        EM(Tagger(2, 4)).run(corpus(), restarts=2, resume=fit)
    x = torch.randn(20)
    net = torch.nn.Linear(1, 2)

    def model(x: Tensor) -> None:
        share = pu.table("share", 2)
        centre = pyro.module("net", net)(torch.ones(1))
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", dist.Normal(centre[k], 1.0), obs=x)

    with pytest.warns(pu.infer.SameRestarts, match="all 2 restarts began at the same place"):
        many = EM(model, init=pu.init.uniform()).run(
            x, iterations=2, tolerance=0, restarts=2, processes=1, progress=False
        )
    first, second = many.report.restarts
    assert first == pytest.approx(second, rel=1e-12)  # the same start twice, not the second going on from the first


def test_a_long_chain_that_is_enumerated_is_told_of_the_quick_way() -> None:
    def model(x: Tensor) -> None:
        start, moves, mean = (
            pu.table("start", 2),
            pu.table("moves", 2, 2),
            pyro.param("mean", lambda: torch.tensor([0.0, 1.0])),
        )
        z: Any = None
        for t in pyro.markov(range(len(x))):
            z = pyro.sample(f"z{t}", pu.Categorical(start if z is None else moves[z]))
            pyro.sample(f"x{t}", dist.Normal(mean[z], 1.0), obs=x[t])

    with pytest.warns(
        pu.infer.SlowEnumeration, match=r"enumerates 101 variables one by one \('z0', 'z1', \.\.\.\).*pu\.Chain"
    ):
        pu.EM(model).init(torch.randn(101))
    with warnings.catch_warnings():
        warnings.simplefilter("error", pu.infer.SlowEnumeration)
        pu.EM(model).init(torch.randn(20))
