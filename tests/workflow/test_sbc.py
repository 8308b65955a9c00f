"""Calibration passes exact engines and fails wrong ones: biased, overconfident, too careful."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.optim import Adam
from scipy import stats
from torch.distributions import constraints

import pyro_unsup as pu
from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.uniformity import chi_squared, ecdf_band, ecdf_p, holm
from pyro_unsup.infer.hyperparameters import Gamma
from pyro_unsup.workflow import Calibration


def coin(flips: Any = None) -> Any:
    bias = pyro.sample("bias", dist.Beta(2.0, 1.0))
    with pyro.plate("flips", 12):
        return pyro.sample("x", dist.Bernoulli(bias), obs=flips)


class Conjugate:
    """The posterior of the coin, or one that counts every flip several times, or is shifted, or too wide."""

    def __init__(self, times: float = 1.0, shift: float = 0.0, width: float = 1.0) -> None:
        self.times, self.shift, self.width = times, shift, width

    def __call__(self, model: Any) -> Conjugate:
        return self

    def run(self, flips: Any) -> Any:
        heads = self.times * flips.sum() + self.shift
        logits = dist.Beta(2 + heads, 1 + self.times * (12 - flips.sum())).sample((2, 50)).logit()
        return {"bias": (logits.mean() + self.width * (logits - logits.mean())).sigmoid()}


def deviation(simulations: int) -> float:
    """Of the spread of uniform ranks, 12 times the mean of (u - 1/2)^2: that square has variance 1/180."""
    return 12 * np.sqrt(1 / 180 / simulations)


def coin_sbc(engine: Any, simulations: int = 70, **options: Any) -> Any:
    return pu.sbc(coin, engine, None, simulations=simulations, processes=1, progress=False, **options)


def test_the_exact_posterior_passes_and_wrong_ones_fail_in_their_own_ways() -> None:
    right = coin_sbc(Conjugate(), simulations=210)
    assert list(right.ranks) == ["bias", "log_likelihood"]
    assert right.passed()
    assert abs(right.table.loc["bias", "spread"] - 1) < 4 * deviation(210)
    overconfident = coin_sbc(Conjugate(times=4.0))
    assert not overconfident.passed()
    assert overconfident.table.loc["bias", "spread"] > 1 + 4 * deviation(70)
    careful = coin_sbc(Conjugate(width=2.5))
    assert careful.failing()
    assert careful.table.loc["bias", "spread"] < 1 - 4 * deviation(70)
    biased = coin_sbc(Conjugate(shift=5.0))
    assert biased.failing()
    assert biased.table.loc["bias", "mean"] < 0.5 - 4 * np.sqrt(1 / 12 / 70)  # uniform numbers have variance 1/12


def test_the_log_likelihood_sees_an_engine_that_returns_the_prior() -> None:
    """Draws from the prior have uniform ranks of every parameter: only what looks at the data can tell."""

    class Prior:
        def __init__(self, model: Any) -> None:
            pass

        def run(self, flips: Any) -> Any:
            return {"bias": dist.Beta(2.0, 1.0).sample((1, 100))}

    found = coin_sbc(Prior, simulations=300)
    assert found.failing() == ["log_likelihood"]


def test_the_same_seed_the_same_ranks_and_a_run_that_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "ranks.jsonl"
    coin_sbc(Conjugate(), simulations=5, checkpoint=file)
    with file.open("a") as stream:
        stream.write('[5, {"bias": [0.1')  # interrupted
    both = coin_sbc(Conjugate(), simulations=9, checkpoint=file)
    once = coin_sbc(Conjugate(), simulations=9)
    assert both.ranks.equals(once.ranks)
    assert not once.ranks.equals(coin_sbc(Conjugate(), simulations=9, seed=1).ranks)
    with pytest.raises(UnsupError, match="simulations of something else"):
        coin_sbc(Conjugate(), simulations=5, seed=7, checkpoint=file)
    marked = json.loads(file.read_text().splitlines()[1])
    assert marked[0] == 0


@pytest.mark.deep
def test_processes_find_the_same_ranks() -> None:
    apart = pu.sbc(coin, Conjugate(), None, simulations=6, processes=2, progress=False)
    assert apart.ranks.equals(coin_sbc(Conjugate(), simulations=6).ranks)


def test_draws_that_depend_on_each_other_are_thinned() -> None:
    class Sticky(Conjugate):
        def run(self, flips: Any) -> Any:
            return {"bias": super().run(flips)["bias"].repeat_interleave(10, 1)}

    found = coin_sbc(Sticky(), simulations=60)
    assert found.draws["bias"].mean() < 250
    assert found.passed()


def test_quantities_of_ones_own() -> None:
    found = coin_sbc(
        Conjugate(),
        simulations=20,
        quantities={"odds": lambda draws, args: draws["bias"] / (1 - draws["bias"]) + 0 * args[0].sum()},
    )
    np.testing.assert_allclose(found.ranks["odds"], found.ranks["bias"], atol=0.05)  # thinned each by itself
    with pytest.raises(UnsupError, match="axes \\(chain, draw\\)"):
        coin_sbc(Conjugate(), simulations=2, quantities={"mean": lambda draws, args: draws["bias"].mean()})


LENGTHS = torch.tensor([4] * 8)


def test_gibbs_on_a_clusterer_is_calibrated_and_a_wrong_prior_is_not() -> None:
    model = pu.models.Clusterer(2, 4)
    run = {"sweeps": 140, "burn_in": 40}
    options: dict[str, Any] = {"processes": 1, "progress": False, "run": run}
    right = pu.sbc(model, "gibbs", None, LENGTHS, simulations=40, **options)
    assert right.passed()
    assert "words[1, 3]" in right.ranks
    wrong = pu.sbc(model, lambda m: pu.CollapsedGibbs(m, alpha=8.0), None, LENGTHS, simulations=40, **options)
    assert "cluster[0]" in wrong.failing()


def test_variational_bayes_is_overconfident() -> None:
    found = pu.sbc(
        pu.models.Clusterer(2, 4), "vb", None, torch.tensor([2] * 20), simulations=40, processes=1, progress=False
    )
    assert not found.passed()
    assert found.table.loc["cluster[0]", "spread"] > 1 + 4 * deviation(40)


SAMPLERS = [("pointwise", 1), ("pointwise", 2), ("blocked", 1), ("blocked", 2), ("uncollapsed", 1), ("uncollapsed", 2)]


def learned(order: int) -> Any:
    """A tagger whose concentrations are drawn, too."""

    def model(words: Any = None, lengths: Any = None) -> Any:
        alpha, beta = (pyro.sample(name, dist.Gamma(2.0, 1.0)) for name in ("alpha", "beta"))
        tables = ("start", "transition", "second")[: order + 1]
        prior = {**dict.fromkeys(tables, float(alpha)), "emission": float(beta)}
        return pu.models.Tagger(2, 3, order, prior=prior)(words, lengths)

    return model


def learned_sbc(how: Any, order: int, simulations: int, sweeps: int, width: float = 0.5) -> Any:
    def engine(model: Any) -> Any:
        kind = pu.models.Tagger(2, 3, order)
        return pu.CollapsedGibbs(kind, how=how, hyper="shared", hyperprior=Gamma(2.0, 1.0), width=width, hyper_steps=2)

    class Sentences:
        def __init__(self, model: Any) -> None:
            self.engine = engine(model)

        def run(self, words: Any, lengths: Any, seed: int) -> Any:
            data = words.reshape(len(lengths), -1).tolist()
            samples = self.engine.run(data, sweeps=sweeps, burn_in=sweeps // 4, seed=seed, progress=False)
            return {name: getattr(samples, name) for name in ("alpha", "beta")}

    log = {name: lambda draws, args, name=name: draws[name] for name in ("alpha", "beta")}
    return pu.sbc(
        learned(order),
        Sentences,
        None,
        torch.tensor([3] * 4),
        simulations=simulations,
        quantities=log,
        parameters=False,
        processes=1,
        progress=False,
    )


@pytest.mark.parametrize(("how", "order"), SAMPLERS[:4])
def test_learned_concentrations_are_calibrated(how: Any, order: int) -> None:
    assert learned_sbc(how, order, simulations=50, sweeps=120).passed(level=1e-3)


@pytest.mark.long
@pytest.mark.parametrize(("how", "order"), SAMPLERS)
def test_learned_concentrations_are_calibrated_at_length(how: Any, order: int) -> None:
    assert learned_sbc(how, order, simulations=500, sweeps=1200).passed(level=1e-3)


@pytest.mark.deep
@pytest.mark.parametrize(("how", "order"), [("pointwise", 1), ("blocked", 2), ("uncollapsed", 1)])
def test_gibbs_on_a_tagger_is_calibrated(how: Any, order: int) -> None:
    model = pu.models.Tagger(2, 3, order)
    found = pu.sbc(
        model,
        lambda m: pu.CollapsedGibbs(m, how=how),
        None,
        torch.tensor([3] * 6),
        simulations=60,
        processes=1,
        progress=False,
        run={"sweeps": 200, "burn_in": 50},
    )
    assert found.passed()


@pytest.mark.deep
def test_nuts_is_calibrated() -> None:
    def normal(x: Any = None) -> Any:
        loc = pyro.sample("loc", dist.Normal(0.0, 2.0))
        scale = pyro.sample("scale", dist.LogNormal(0.0, 0.5))
        with pyro.plate("data", 8):
            return pyro.sample("x", dist.Normal(loc, scale), obs=x)

    found = pu.sbc(normal, "nuts", None, simulations=30, processes=1, progress=False, run={"draws": 60, "warmup": 80})
    assert found.passed()
    assert set(found.ranks) == {"loc", "scale", "log_likelihood"}
    own = pu.sbc(
        normal,
        lambda m: MCMC(NUTS(m), num_samples=40, warmup_steps=40, disable_progbar=True),
        None,
        simulations=2,
        processes=1,
        progress=False,
    )
    assert len(own.ranks) == 2


def test_a_guide_that_is_trained_by_svi() -> None:
    """Its parameters lie in Pyro's store, which is as empty afterwards as it was before."""

    class Trained:
        def __init__(self, model: Any) -> None:
            self.model = model

        def run(self, flips: Any) -> Any:
            def guide(flips: Any) -> None:
                a, b = (pyro.param(name, torch.tensor(2.0), constraint=constraints.positive) for name in "ab")
                pyro.sample("bias", dist.Beta(a, b))

            svi = SVI(self.model, guide, Adam({"lr": 0.1}), Trace_ELBO(num_particles=5, vectorize_particles=True))
            for _ in range(60):
                svi.step(flips)
            return guide

    found = coin_sbc(Trained, simulations=12)
    assert found.draws["bias"].tolist() == [200] * 12  # independent: nothing is thinned
    assert abs(found.ranks["bias"].mean() - 0.5) < 0.3
    assert not list(pyro.get_param_store())


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: coin_sbc("hmc"), "engine must be one of nuts, gibbs, vb"),
        (lambda: coin_sbc(lambda model: model), "an object with run(data)"),
        (lambda: coin_sbc(Conjugate(), simulations=1), "2 or more"),
        (lambda: coin_sbc(Conjugate(), parameters=False), "nothing to rank"),
        (lambda: pu.sbc(lambda x=None: None, Conjugate(), simulations=2, processes=1), "should return the data"),
    ],
)
def test_refused(call: Any, says: str) -> None:
    with pytest.raises(UnsupError) as error:
        call()
    assert says in str(error.value)


def test_uniform_numbers_pass_as_often_as_they_should() -> None:
    rng = np.random.default_rng(0)
    p = np.array([ecdf_p(rng.random(50)) for _ in range(400)])
    assert stats.binomtest(int((p < 0.05).sum()), 400, 0.05).pvalue > 1e-3
    q = np.array([chi_squared(rng.random(100)) for _ in range(400)])
    assert stats.binomtest(int((q < 0.1).sum()), 400, 0.1).pvalue > 1e-3


def test_the_band_holds_whole_lines_as_often_as_it_says() -> None:
    points, low, high = ecdf_band(80, 0.9)
    u = np.random.default_rng(1).random((800, 80))
    lines = (u[:, None] <= points[:, None]).mean(-1)
    inside = ((lines >= low) & (lines <= high)).all(1)
    assert 0.86 < inside.mean() < 0.96


def test_holms_method() -> None:
    p = np.array([0.04, 0.01, 0.2, 0.03])
    np.testing.assert_allclose(holm(p), [0.09, 0.04, 0.2, 0.09])


def test_pictures() -> None:
    import matplotlib.pyplot as plt
    import pandas

    rng = np.random.default_rng(0)
    ranks = pandas.DataFrame({f"x[{i}]": rng.random(60) for i in range(15)})
    found = Calibration(ranks, 0 * ranks + 50)
    for kind in ("ecdf", "hist"):
        figure = found.plot(kind)  # type: ignore[arg-type]
        assert len(figure.axes) == 12
        figure.canvas.draw()
    assert len(found.plot(names=["x[3]"]).axes) == 1
    assert "calibrated" in repr(found)
    with pytest.raises(UnsupError, match="no ranks to draw"):
        pu.plot.rank_ecdf({})
    plt.close("all")
