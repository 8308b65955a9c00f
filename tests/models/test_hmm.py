"""The hidden Markov model of series: families, saving, restarts, predictive draws, samplers, handlers and refusals."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import MCMC, NUTS, Predictive
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.errors import FitError, StructureError, UnsupError
from pyro_unsup.models import HMM, Series


def counts(n: int = 60) -> Tensor:
    return torch.cat([torch.poisson(torch.full((n // 2,), 3.0)), torch.poisson(torch.full((n // 2,), 12.0))])


def fitted(model: HMM, x: Any, **options: Any) -> Any:
    return pu.EM(model).run(x, progress=False, **options)


DATA = {
    "log_normal": lambda x: x + 1,
    "gamma": lambda x: x + 0.5,
    "exponential": lambda x: x + 0.5,
    "von_mises": lambda x: (x / 4 - 1.5).clamp(-3, 3),
    "bernoulli": lambda x: (x > 5).double(),
}
FAMILIES = ["normal", "student_t", "log_normal", "gamma", "exponential", "von_mises", "poisson", "negative_binomial",
            "geometric", "bernoulli"]  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("gaps", [False, True], ids=["whole", "gaps"])
def test_every_family_learns_predicts_and_is_drawn(family: str, gaps: bool) -> None:
    x = DATA.get(family, lambda x: x)(counts())
    if gaps:
        x[[0, 7, 59]] = torch.nan
    fit = fitted(HMM(2, family), x, iterations=15)
    assert np.isfinite(fit.objective)
    assert all(p.isfinite().all() for p in fit.params.values())
    states = fit.posterior(x).mode()
    assert states.shape == (60,)
    assert fit.predict(x).tolist() == states.tolist()


@pytest.mark.parametrize("start", ["free", "stationary", "uniform"])
@pytest.mark.parametrize("independent", [False, True])
def test_saved_and_loaded(tmp_path: Path, start: str, independent: bool) -> None:
    if independent and start == "stationary":
        pytest.skip("no transitions to be stationary")
    x = counts()
    fit = fitted(HMM(2, "poisson", start=start, independent=independent), x, iterations=5)
    fit.save(tmp_path / "fit")
    again = pu.load(tmp_path / "fit")
    assert again.params.keys() == fit.params.keys()
    for name, p in fit.params.items():
        assert torch.equal(again.params[name], p)
    assert torch.equal(again.posterior(x).smoothed, fit.posterior(x).smoothed)
    assert repr(again.model) == repr(fit.model)


@pytest.mark.parametrize(
    "settings",
    [
        {"emission": "normal", "dim": 2},
        {"emission": "multivariate_normal", "dim": 2, "covariance": "tied"},
        {"emission": "multivariate_normal", "dim": 2, "covariance": "spherical", "floor": 0.1},
        {"emission": "poisson", "support": "left-to-right"},
        {"emission": "poisson", "support": torch.tensor([[True, True], [True, False]])},
        {"emission": "categorical", "categories": 40},
        {"emission": "poisson", "init": "quantiles"},
    ],
)
def test_settings_are_saved(tmp_path: Path, settings: dict[str, Any]) -> None:
    x = counts()
    data = torch.stack([x, x + torch.randn(60)], -1) if "dim" in settings else x
    fit = fitted(HMM(2, **settings), data, iterations=4)
    fit.save(tmp_path / "fit")
    again = pu.load(tmp_path / "fit")
    assert torch.equal(again.posterior(data).mode(), fit.posterior(data).mode())
    one, other = fit.model.settings(), again.model.settings()
    assert one[0] == other[0]
    assert one[1].keys() == other[1].keys()
    if settings.get("support") == "left-to-right":
        assert (fit.posterior(data).mode().diff() >= 0).all()


def test_a_run_goes_on_bit_for_bit(tmp_path: Path) -> None:
    x = counts()
    whole = fitted(HMM(3, "normal", init="quantiles"), x, iterations=8, tolerance=0.0, seed=3)
    part = fitted(HMM(3, "normal", init="quantiles"), x, iterations=4, tolerance=0.0, seed=3)
    part.save(tmp_path / "half")
    rest = pu.EM(HMM(3, "normal", init="quantiles")).run(
        x, iterations=8, tolerance=0.0, seed=3, resume=pu.load(tmp_path / "half"), progress=False
    )
    for name, p in whole.params.items():
        assert torch.equal(rest.params[name], p)
    assert rest.objective == whole.objective


def test_seeds_and_restarts() -> None:
    x = counts()
    same = [fitted(HMM(3, "poisson"), x, seed=5, iterations=3) for _ in range(2)]
    assert same[0].objective == same[1].objective
    many = fitted(HMM(3, "poisson"), x, restarts=2, iterations=5, processes=1)
    assert len(many.report.restarts) == 2
    assert many.objective == max(many.report.restarts)


def test_several_series_arrays_and_frames() -> None:
    pandas = pytest.importorskip("pandas")
    x = counts().numpy()
    forms = [[x[:20], x[20:]], Series.of(x, [20, 40]), [pandas.Series(x[:20]), pandas.Series(x[20:])],
             [x[:20].tolist(), x[20:].astype(np.float32)]]  # fmt: skip
    found = [fitted(HMM(2, "poisson", init="quantiles"), form, iterations=5).objective for form in forms]
    np.testing.assert_allclose(found, found[0], rtol=1e-12)
    both = fitted(HMM(2, "poisson"), Series.of(x, [20, 40]), iterations=3)
    assert both.posterior([x[:20], x[20:]]).forecast(3).mean.shape == (2, 3)


# -- random parameters

PRIORS = {"rate": dist.Gamma(torch.tensor(2.0).double(), torch.tensor(0.2).double())}


def test_predictive_draws_new_series() -> None:
    model = HMM(2, "poisson", prior=PRIORS)
    for parallel in (False, True):
        drawn = Predictive(model, num_samples=4, parallel=parallel)(lengths=[5, 3])
        assert drawn["x"].reshape(4, -1).shape == (4, 8)
        assert (drawn["x"] >= 0).all()
    vectors = HMM(2, "normal", dim=2, prior={"loc": dist.Normal(0.0, 1.0), "scale": dist.LogNormal(0.0, 0.1)})
    assert Predictive(vectors, num_samples=3)(lengths=[4])["x"].reshape(3, -1).shape == (3, 8)


def test_parallel_draws_give_the_same_density() -> None:
    model, x = HMM(2, "poisson", prior=PRIORS, start="uniform"), counts(10)
    table = torch.tensor([[0.9, 0.1], [0.2, 0.8]]).log()
    rates = torch.tensor([[2.0, 9.0], [3.0, 12.0], [1.0, 4.0]])
    one = [float(pu.Chain(torch.zeros(2) - np.log(2), table, dist.Poisson(rate), len(x)).log_prob(x)) for rate in rates]
    wide = pu.Chain(
        torch.zeros(2) - np.log(2), table, dist.Poisson(rates.reshape(3, 1, 1, 2)), torch.tensor([len(x)]), flat=True
    )
    torch.testing.assert_close(wide.log_prob(x)[:, 0], torch.tensor(one))
    assert model.free_parameters() == 4


def test_nuts() -> None:
    model, x = HMM(2, "poisson", prior=PRIORS | {"transition": 1.0}, start="stationary"), counts(40)
    kernel = NUTS(
        model, init_strategy=lambda site: torch.tensor([3.0, 12.0]) if site["name"] == "rate" else site["fn"].mean
    )
    chains = MCMC(kernel, num_samples=30, warmup_steps=30, disable_progbar=True)
    chains.run(x)
    rate = chains.get_samples()["rate"]
    assert rate.shape == (30, 2)
    assert abs(rate[:, 0].mean() - 3) < 1
    assert abs(rate[:, 1].mean() - 12) < 2


def test_priors_pull_the_mode() -> None:
    x = counts()
    free = fitted(HMM(2, "poisson", init={"rate": [3.0, 12.0]}), x).params["rate"]
    tight = dist.Gamma(torch.tensor(3000.0).double(), torch.tensor(600.0).double())
    fit = fitted(HMM(2, "poisson", prior={"rate": tight}), x)
    pulled = fit.points["rate"] if hasattr(fit, "points") else fit.latents["rate"]
    assert (pulled - 5).abs().max() < (free - 5).abs().min()


# -- handlers


def test_annealing() -> None:
    fit = pu.Anneal(HMM(2, "normal")).run(counts(), progress=False)
    assert abs(fit.params["loc"].sort().values - torch.tensor([3.0, 12.0])).max() < 1.5


def test_heated_hardened_and_constrained() -> None:
    model, x = HMM(2, "poisson", init={"rate": [3.0, 12.0]}), counts()
    hard = fitted(pu.harden(model), x, iterations=10)
    assert abs(hard.params["rate"] - torch.tensor([3.0, 12.0])).max() < 1.5
    warm = fitted(pu.temper(model, 0.5), x, iterations=5)
    assert warm.params["rate"].isfinite().all()
    only = pu.constrain(model, lambda parts: parts.state == 0)
    fit = fitted(only, x, iterations=3)
    torch.testing.assert_close(fit.params["rate"][0], x.mean())


# -- refusals


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"states": 0}, "states must be a whole number, 1 or more, actual 0"),
        ({"states": 2, "emission": "gauss"}, "there is no emission 'gauss': use one of normal"),
        ({"states": 2, "emission": "multivariate_normal"}, "needs dim"),
        ({"states": 2, "emission": "categorical"}, "needs categories"),
        ({"states": 2, "start": "fixed"}, "start must be one of free, stationary, uniform; actual 'fixed'"),
        ({"states": 2, "covariance": "round"}, "covariance must be one of"),
        ({"states": 2, "init": "random"}, "init must be one of kmeans, quantiles"),
        ({"states": 2, "init": {"mean": [0.0, 1.0]}}, "init has 'mean'.*loc, scale"),
        ({"states": 2, "init": {"transition": np.eye(2)}}, "init has 'transition'.*from_weights"),
        ({"states": 2, "prior": {"mean": dist.Normal(0.0, 1.0)}}, "prior has 'mean'.*loc, scale"),
        ({"states": 2, "support": torch.tensor([[True, True], [False, False]])}, "row 1 of support"),
        ({"states": 2, "support": torch.ones(3, 3)}, r"support must have shape \(2, 2\), actual \(3, 3\)"),
        ({"states": 2, "start": "stationary", "support": "left-to-right"}, "leave support out"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(StructureError, match=said):
        HMM(**settings)


@pytest.mark.parametrize(
    ("model", "data", "said"),
    [
        (HMM(2, "normal"), np.zeros((5, 2)), r"expected observations of shape \(N,\), actual \(5, 2\): give HMM dim=2"),
        (HMM(2, "normal", dim=2), np.zeros(5), r"expected observations of shape \(N, 2\), actual \(5,\)"),
        (HMM(2, "poisson"), np.array([1.0, -1.0, 2.0]), "observation 1 is -1, which a Poisson cannot emit"),
        (HMM(2, "poisson"), np.array([1.0, 1.5, 2.0]), "observation 1 is 1.5"),
        (HMM(2, "gamma"), np.array([1.0, 0.0, -2.0]), "observation [12] is"),
        (HMM(3, "normal"), np.array([1.0, 2.0]), "3 states need at least as many whole observations, actual 2"),
        (HMM(2, "normal"), ["a", "b"], "expected numbers"),
        (HMM(2, "normal"), np.zeros((2, 2, 2)), "at least one; actual shape"),
        (HMM(2, "categorical", categories=3), np.array([0.0, 5.0, 1.0]), "whole numbers from 0 to 2, actual 5"),
    ],
)
def test_data_that_cannot_be(model: HMM, data: Any, said: str) -> None:
    with pytest.raises(UnsupError, match=said):
        fitted(model, data)


def test_fewer_different_values_than_states() -> None:
    with pytest.raises(FitError, match="scale"):
        fitted(HMM(3, "normal"), np.array([1.0, 1.0, 2.0, 2.0, 1.0]))
    fit = fitted(HMM(3, "poisson"), np.array([1.0, 1.0, 2.0, 2.0, 1.0]), iterations=3)
    assert fit.params["rate"].isfinite().all()


def test_a_function_is_not_saved(tmp_path: Path) -> None:
    import pyro

    def emission(states: int) -> dist.Normal:
        return dist.Normal(pyro.param("centre", torch.tensor([0.0, 10.0])), 2.0)

    fit = fitted(HMM(2, emission), counts(), iterations=5)
    assert fit.params["centre"].shape == (2,)
    fit.save(tmp_path / "fit")
    with pytest.raises(UnsupError, match=r"model=\.\.\."):
        pu.load(tmp_path / "fit")
    again, x = pu.load(tmp_path / "fit", model=HMM(2, emission)), counts()
    assert torch.equal(again.posterior(x).mode(), fit.posterior(x).mode())


def test_priors_are_saved_if_they_are_numbers(tmp_path: Path) -> None:
    fit = fitted(HMM(2, "poisson", prior={"transition": 2.0}), counts(), iterations=3)
    fit.save(tmp_path / "numbers")
    assert pu.load(tmp_path / "numbers").model.prior == {"transition": 2.0}
    fit = fitted(HMM(2, "poisson", prior=PRIORS), counts(), iterations=3)
    fit.save(tmp_path / "fit")
    with pytest.raises(UnsupError, match=r"model=\.\.\."):
        pu.load(tmp_path / "fit")
    x, again = counts(), pu.load(tmp_path / "fit", model=HMM(2, "poisson", prior=PRIORS))
    assert torch.equal(again.posterior(x).mode(), fit.posterior(x).mode())


def test_starts_of_the_wrong_shape_or_value_are_refused() -> None:
    x = torch.randn(20, dtype=torch.float64)
    with pytest.raises(StructureError, match=r"init of loc must have shape \(2,\), actual \(1,\)"):
        pu.EM(pu.models.HMM(2, init={"loc": [0.0]})).run(x, progress=False)
    with pytest.raises(StructureError, match="init of scale must be"):
        pu.EM(pu.models.HMM(2, init={"scale": [1.0, -1.0]})).run(x, progress=False)
    with pytest.raises(StructureError, match="floor bounds scales"):
        pu.models.HMM(2, "multivariate_normal", dim=2, floor=0.1)


@pytest.mark.parametrize("bad", [0.5, 3.0, -1.0])
def test_categories_are_whole_numbers(bad: float) -> None:
    model = pu.models.HMM(2, "categorical", categories=3)
    with pytest.raises(StructureError, match=rf"whole numbers from 0 to 2, actual {bad:g} at observation 3: number"):
        pu.EM(model).run([0, 1, 2, bad, 1], progress=False)


def test_categories_that_are_missing_are_summed_out() -> None:
    x = np.array([0, 2, 1, np.nan, 2, 2, np.nan, 1])
    fit = pu.EM(pu.models.HMM(2, "categorical", categories=3)).run(x, iterations=5, progress=False)
    tables = {name: w.exp().numpy() for name, w in fit.weights.items()}
    total, smoothed = 0.0, np.zeros((8, 2))
    for path in itertools.product(range(2), repeat=8):
        p = tables["start"][path[0]] * np.prod([tables["transition"][a, b] for a, b in itertools.pairwise(path)])
        p *= np.prod([tables["emission"][k, int(y)] for k, y in zip(path, x, strict=True) if not np.isnan(y)])
        total += p
        smoothed[np.arange(8), path] += p
    assert fit.log_likelihood(x) == pytest.approx(np.log(total), rel=1e-12)
    np.testing.assert_allclose(fit.posterior(x).smoothed, smoothed / total, atol=1e-12)
    # Every engine sees the gaps in the same way, also where compiled code goes through mini-batches by itself.
    again = pu.StepwiseEM(fit.model, init=pu.init.from_weights(fit), batch_size=1)
    state = again.init([x, x[2:]])
    assert again.e_step(state)[0].log_likelihood == pytest.approx(fit.log_likelihood([x, x[2:]]), rel=1e-12)
    state, _ = again.step(state)
    assert state.shortcut is None
    assert state.weights["emission"].shape == (2, 3)
    face = pu.hmm.CategoricalHMM(2, init_params="", n_iter=1)
    face.startprob_, face.transmat_, face.emissionprob_ = (tables[n] for n in ("start", "transition", "emission"))
    assert face.score(x[:, None]) == pytest.approx(np.log(total), rel=1e-12)
    assert face.fit(x[:, None]).score(x[:, None]) > np.log(total)


def test_criteria_leave_the_prior_out() -> None:
    x = torch.cat([torch.randn(30) - 2, torch.randn(30) + 2]).double()
    fit = pu.EM(pu.models.HMM(2, prior={"loc": dist.Normal(0.0, 10.0)})).run(x, progress=False)
    assert fit.aic(x) == pytest.approx(2 * 7 - 2 * float(fit.posterior(x).log_partition.sum()))


def test_states_from_left_to_right_start_in_the_order_of_time() -> None:
    x = torch.cat([torch.randn(30) + c for c in (7, -11, -2)]).double()
    fit = pu.EM(pu.models.HMM(3, support="left-to-right")).run(x, progress=False)
    assert fit.params["loc"].round().tolist() == [7.0, -11.0, -2.0]


def test_a_floor_holds_where_all_observations_are_equal() -> None:
    fit = pu.EM(pu.models.HMM(2, floor=0.1)).run([1.0] * 20 + [2.0] * 20, progress=False)
    assert fit.params["scale"].tolist() == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: pu.EM(HMM(2)).run(np.full(9, np.nan), progress=False), "all observations are missing"),
        (lambda: pu.EM(HMM(2)).run([1.0, np.inf, 2.0], progress=False), "observation 1 is infinite: .* 1 of 3 numbers"),
        (lambda: pu.EM(HMM(2)).run(np.arange(3).astype("datetime64[D]"), progress=False), "actual dates or times"),
        (
            lambda: pu.EM(HMM(2, "poisson")).run([1.0, 2.0, -1.0], progress=False),
            "^iteration 0: observation 2 is -1, which",
        ),
        (
            lambda: pu.EM(HMM(1)).run([1.0, 2.0], progress=False).aic(),
            r"need the data that they are of: fit\.aic\(data\)",
        ),
        (
            lambda: pu.EM(HMM(1)).run([1.0, 2.0], progress=False).predict(np.ones((3, 2))),
            r"expected observations of shape \(N,\), actual \(3, 2\): give HMM dim=2$",
        ),
    ],
)
def test_bad_data_are_told_in_a_sentence(ask: Callable[[], Any], message: str) -> None:
    with pytest.raises(pu.UnsupError, match=message):
        ask()


def test_a_prior_and_an_init_of_one_parameter_are_refused() -> None:
    with pytest.raises(StructureError, match="rate has a prior and an init: init is for parameters without a prior"):
        pu.models.HMM(2, "poisson", prior={"rate": dist.Gamma(1.0, 0.1)}, init={"rate": [3.0, 8.0]})
