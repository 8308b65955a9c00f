"""Stepwise EM of parameters that are not tables: few points stand for all observations, and nothing is lost by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.errors import FitError
from pyro_unsup.estimate.closed_forms import Cells, Observations, Summary, closed_form, summaries, summary_of
from pyro_unsup.models import HMM, Series

K = 3


def positive(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64) + 0.5


def families() -> dict[str, tuple[Any, Tensor]]:
    """By name, a distribution of three states, and observations."""
    torch.manual_seed(0)
    root = torch.eye(2, dtype=torch.float64) + 0.3 * torch.rand(K, 2, 2, dtype=torch.float64).tril()
    return {
        "normal": (dist.Normal(torch.randn(K).double(), positive(K)), torch.randn(50, 1).double()),
        "log_normal": (dist.LogNormal(torch.randn(K).double(), positive(K)), positive(50, 1)),
        "gamma": (dist.Gamma(positive(K), positive(K)), positive(50, 1)),
        "exponential": (dist.Exponential(positive(K)), positive(50, 1)),
        "von_mises": (dist.VonMises(torch.randn(K).double(), positive(K)), 2 * torch.rand(50, 1).double() - 1),
        "poisson": (dist.Poisson(positive(K)), torch.randint(9, (50, 1)).double()),
        "bernoulli": (dist.Bernoulli(positive(K) - 0.5), torch.randint(2, (50, 1)).double()),
        "geometric": (dist.Geometric(positive(K) / 2), torch.randint(9, (50, 1)).double()),
        "binomial": (dist.Binomial(9, positive(K) / 2), torch.randint(9, (50, 1)).double()),
        "categorical": (dist.Categorical(positive(K, 4)), torch.randint(4, (50, 1)).double()),
        "multivariate_normal": (
            dist.MultivariateNormal(torch.randn(K, 2).double(), scale_tril=root),
            torch.randn(50, 1, 2).double(),
        ),
    }


FAMILIES = families()
#: The parameters of each that are estimated.
WANTED = {
    "normal": "loc scale",
    "log_normal": "loc scale",
    "gamma": "concentration rate",
    "exponential": "rate",
    "von_mises": "loc concentration",
    "poisson": "rate",
    "bernoulli": "probs",
    "geometric": "probs",
    "binomial": "probs",
    "categorical": "probs",
    "multivariate_normal": "loc covariance_matrix",
}
BLOCKS = {"categorical": {"probs": 1}, "multivariate_normal": {"loc": 1, "covariance_matrix": 2}}


def m_step(name: str, d: Any, x: Tensor, w: Tensor) -> dict[str, Tensor]:
    wanted = WANTED[name].split()
    seen = Observations(d, x, w, dict.fromkeys(wanted))
    cells = Cells([seen], {one: getattr(d, one).shape for one in wanted}, BLOCKS.get(name, {}))
    step = closed_form(type(d))
    assert step is not None
    return step(cells, set(wanted))


def summary(name: str) -> Summary:
    found = summary_of(type(FAMILIES[name][0]))
    assert found is not None
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_an_m_step_from_the_points_is_that_from_all_observations(name: str) -> None:
    d, x = FAMILIES[name]
    weight = torch.rand(50, K, dtype=torch.float64)
    wide = x.expand(50, K, *x.shape[2:])
    points, weights = summary(name).of_data(wide, weight)
    assert len(points) < 10
    few, all_ = m_step(name, d, points, weights), m_step(name, d, wide, weight)
    for one in all_:
        torch.testing.assert_close(few[one], all_[one], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_points_of_a_distribution_lead_back_to_it(name: str) -> None:
    d, _ = FAMILIES[name]
    points, weights = summary(name).of_distribution(d)
    torch.testing.assert_close(weights.sum(0), torch.ones(K, dtype=torch.float64))
    for one, found in m_step(name, d, points, weights).items():
        torch.testing.assert_close(found, getattr(d, one), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_state_without_weight_disturbs_no_other(name: str) -> None:
    d, x = FAMILIES[name]
    weight = torch.rand(50, K, dtype=torch.float64)
    weight[:, 1] = 0.0
    points, weights = summary(name).of_data(x.expand(50, K, *x.shape[2:]), weight)
    assert bool(points.isfinite().all())
    assert float(weights[:, 1].sum()) == 0.0
    other = torch.tensor([0, 2])
    for one, found in m_step(name, d, points, weights).items():
        assert bool(found[other].isfinite().all()), one


def series(emission: str, number: int = 12) -> Series:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(number):
        z = np.cumsum(rng.random(30) < 0.1) % K
        x = rng.normal(size=30) * (1 + 0.5 * z) + 3 * z
        found.append(
            {"poisson": np.abs(x.round()), "gamma": np.abs(x) + 0.1, "von_mises": np.angle(np.exp(1j * x))}.get(
                emission, x
            )
        )
    return Series.of(found)


EMISSIONS = ["normal", "poisson", "gamma", "von_mises"]


@pytest.mark.parametrize("emission", EMISSIONS)
def test_a_whole_step_on_all_data_is_batch_em(emission: str) -> None:
    data, how = series(emission), {"iterations": 3, "tolerance": 0.0, "seed": 1, "progress": False}
    stepwise = pu.StepwiseEM(HMM(K, emission), batch_size=12, schedule=lambda k: 1.0).run(data, **how)
    batch = pu.EM(HMM(K, emission)).run(data, **how)
    for name, x in batch.params.items():
        torch.testing.assert_close(stepwise.params[name], x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("emission", EMISSIONS)
def test_points_are_as_good_as_keeping_everything(emission: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = series(emission)

    def trained() -> dict[str, Tensor]:
        engine = pu.StepwiseEM(HMM(K, emission), batch_size=3)
        return engine.run(data, iterations=3, tolerance=0.0, seed=1, progress=False).params

    few = trained()
    for kind, how in dict(summaries._summaries).items():
        monkeypatch.setitem(summaries._summaries, kind, Summary(lambda x, w: (x, w), how.of_distribution))
    for name, x in trained().items():
        torch.testing.assert_close(few[name], x, rtol=1e-8, atol=1e-8)


def test_it_learns_as_well_as_batch_em() -> None:
    data = series("normal", 60)
    batch = pu.EM(HMM(K)).run(data, seed=1, progress=False)
    stepwise = pu.StepwiseEM(HMM(K), batch_size=5).run(data, iterations=10, seed=1, progress=False)
    assert stepwise.log_likelihood(data) > batch.objective - 0.005 * abs(batch.objective)


def test_it_resumes_exactly(tmp_path: Path) -> None:
    data, engine = series("normal"), pu.StepwiseEM(HMM(K), batch_size=3)
    whole = engine.run(data, iterations=4, tolerance=0.0, progress=False)
    half = engine.run(data, iterations=2, tolerance=0.0, progress=False)
    half.save(tmp_path / "half")
    rest = engine.run(data, iterations=4, tolerance=0.0, resume=pu.load(tmp_path / "half"), progress=False)
    assert all(torch.equal(rest.params[name], x) for name, x in whole.params.items())
    assert all(torch.equal(rest.weights[name], x) for name, x in whole.weights.items())
    del half.state["seen.0.values"]
    with pytest.raises(FitError, match="what it has seen is not complete"):
        engine.run(data, iterations=4, resume=half, progress=False)


def test_streams_and_sessions() -> None:
    data = series("normal")
    batches = [data.select([i]) for i in range(len(data))]
    stream = pu.StepwiseEM(HMM(K)).run_stream(iter(batches), progress=False)
    session = pu.StepwiseEM(HMM(K)).session()
    losses = [session.step(batch) for batch in batches]
    assert all(np.isfinite(losses))
    for name, x in session.result().params.items():
        assert torch.equal(x, stream.params[name])


def test_a_mean_with_a_prior_is_weighed_as_in_batch_em() -> None:
    data = series("poisson")
    model = HMM(2, "poisson", prior={"rate": dist.Gamma(50.0, 10.0)})
    how = {"iterations": 3, "tolerance": 0.0, "seed": 1, "progress": False}
    stepwise = pu.StepwiseEM(model, batch_size=12, schedule=lambda k: 1.0).run(data, **how)
    batch = pu.EM(model).run(data, **how)
    torch.testing.assert_close(stepwise.points["rate"], batch.points["rate"], rtol=1e-9, atol=1e-9)


def test_what_cannot_be_summed_up_is_refused() -> None:
    with pytest.raises(FitError, match="cannot sum up observations of a StudentT: train the model with EM on all data"):
        pu.StepwiseEM(HMM(2, "student_t")).run(series("normal"), progress=False)


@pytest.mark.parametrize("scale", [torch.ones(2), torch.ones(())], ids=["a scale each", "one scale"])
def test_an_enumerated_mixture(scale: Tensor) -> None:
    torch.manual_seed(0)
    x = torch.cat([torch.randn(100) - 3, torch.randn(80) + 2]).double()[torch.randperm(180)]

    def model(x: Tensor) -> None:
        share, loc = pu.table("share", 2), pyro.param("loc", lambda: torch.tensor([-1.0, 1.0]).double())
        spread = pyro.param("scale", lambda: scale.double(), constraint=dist.constraints.positive)
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("x", dist.Normal(loc[z], spread[z] if spread.dim() else spread), obs=x)

    how = {"iterations": 4, "tolerance": 0.0, "progress": False}
    batch = pu.EM(model).run(x, **how)
    whole = pu.StepwiseEM(model, batch_size=180, schedule=lambda k: 1.0).run(x, **how)
    for name, value in batch.params.items():
        torch.testing.assert_close(whole.params[name], value, rtol=1e-9, atol=1e-9)
    small = pu.StepwiseEM(model, batch_size=20).run(x, iterations=10, progress=False)
    assert small.log_likelihood(x) > batch.objective - 0.01 * abs(batch.objective)


def test_classes_and_vectors() -> None:
    rng = np.random.default_rng(0)
    words = Series.of([rng.integers(4, size=20).astype(float) for _ in range(6)])
    vectors = Series.of([rng.normal(size=(20, 2)) for _ in range(6)])
    how = {"iterations": 2, "tolerance": 0.0, "seed": 1, "progress": False}
    for model, data in (
        (HMM(2, "categorical", categories=4), words),
        (HMM(2, "multivariate_normal", dim=2), vectors),
        (HMM(2, "normal", dim=2), vectors),
    ):
        batch = pu.EM(model).run(data, **how)
        whole = pu.StepwiseEM(model, batch_size=6, schedule=lambda k: 1.0).run(data, **how)
        for name, value in batch.params.items():
            torch.testing.assert_close(whole.params[name], value, rtol=1e-8, atol=1e-8)
