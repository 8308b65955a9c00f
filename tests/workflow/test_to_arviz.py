"""Every result as an ArviZ object: what is in its groups, and that ArviZ works on it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoDiagonalNormal
from pyro.optim import Adam
from scipy.special import gammaln
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.results.arviz import group_of
from pyro_unsup.workflow import groups as made
from pyro_unsup.workflow.draws import draws_of
from pyro_unsup.workflow.running import Program
from tests.matrix.models import BITEXT, COUNTS, MODELS, TAGS, WORDS, Model

from .cases import LATER, NORMAL, WITH_PRIOR, arviz_at_work, fit, mcmc, structured

MATRIX = list(MODELS.values())


def name_of(model: Any) -> str:
    return str(model.name)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    yield
    pyro.clear_param_store()


def groups_in(found: Any) -> list[str]:
    return list(found.children) if LATER else list(found.groups())


def only(found: Any, group: str) -> Any:
    """The only variable of a group."""
    (name,) = found[group].data_vars
    return found[group][name]


# -- the log-likelihood


@pytest.mark.parametrize("model", MATRIX, ids=name_of)
def test_pointwise_log_likelihoods_add_up_to_the_total(model: Model) -> None:
    point = fit(model.make(), model.data, pu.AddLambda(0.1))
    found = only(pu.to_arviz(point, *model.data), "log_likelihood")
    prior = 0.0
    if "mean" in point.points:  # the total has the log prior of points in it
        prior = float(dist.Normal(torch.tensor([-1.0, 1.0]), 3.0).log_prob(point.points["mean"]).sum())
    assert found.dims[:2] == ("chain", "draw")
    assert found.shape[:2] == (1, 1)
    total = point.log_likelihood(*model.data) - prior
    assert float(found.sum()) == pytest.approx(total, rel=0, abs=1e-9 * max(1, abs(total)) if not prior else 1e-6)


@pytest.mark.parametrize("model", MATRIX, ids=name_of)
def test_each_draw_has_its_own_likelihood_however_many_go_at_a_time(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = fit(model.make(), model.data)
    whole = pu.to_arviz(learned, *model.data, draws=7, groups=["log_likelihood", "posterior"])
    monkeypatch.setattr(made, "AT_A_TIME", 1)  # one draw at a time
    alone = pu.to_arviz(learned, *model.data, draws=7, groups=["log_likelihood"])
    values = only(whole, "log_likelihood").values
    np.testing.assert_allclose(values, only(alone, "log_likelihood").values, rtol=1e-12)
    assert np.ptp(values, axis=1).min() > 0
    if not learned.params:
        draws = {name: x.values for name, x in whole["posterior"].data_vars.items()}
        again = pu.to_arviz(draws, *model.data, model=model.make(), groups=["log_likelihood"])
        np.testing.assert_allclose(values, only(again, "log_likelihood").values, rtol=1e-12)


def test_impossible_data_have_no_likelihood() -> None:
    learned = fit(pu.models.Tagger(2, 3), ([[0, 1], [1, 0]],), pu.Normalise())
    found = pu.to_arviz(learned, [[0, 1], [2]], groups="log_likelihood")
    assert np.isfinite(only(found, "log_likelihood").values[0, 0]).tolist() == [True, False]


def test_steps_of_a_series_add_up_to_the_series() -> None:
    for name in ("HMM, Poisson", "HMM, normal", "bigram tagger"):
        model = MODELS[name]
        learned = fit(model.make(), model.data)
        each = only(pu.to_arviz(learned, *model.data, draws=4, steps=True), "log_likelihood")
        whole = only(pu.to_arviz(learned, *model.data, draws=4), "log_likelihood")
        dim = each.dims[-1]
        sums = each.groupby(dim.replace("_row", "_example")).sum()
        np.testing.assert_allclose(sums.values, whole.values, rtol=1e-12)
    with pytest.raises(pu.UnsupError, match="one value a step is for chains"):
        pu.to_arviz(fit(pu.models.DMV.of(TAGS), (TAGS,)), TAGS, draws=2, steps=True)


def test_a_model_that_mixes_up_draws_and_examples_is_run_draw_by_draw() -> None:
    def careless(x: Tensor) -> None:
        level = pyro.sample("level", dist.Normal(0.0, 1.0))  # with many draws, (draws, 1) by Pyro's rules
        with pyro.plate("data", len(x)):
            pyro.sample("x", dist.Normal(level.reshape(-1)[: len(x)].mean(), 1.0), obs=x)

    x = torch.tensor([0.3, -1.0, 0.2])
    draws = {"level": np.array([[0.0, 1.0, 2.0]])}
    found = only(pu.to_arviz(draws, x, model=careless, groups="log_likelihood"), "log_likelihood")
    expected = torch.stack([dist.Normal(m, 1.0).log_prob(x) for m in torch.tensor([0.0, 1.0, 2.0])])
    np.testing.assert_allclose(found.values[0], expected, rtol=1e-6)


def test_examples_that_share_a_hidden_variable_have_no_likelihood_of_their_own() -> None:
    def shared(x: Tensor) -> None:
        share = pu.table("share", 2)
        k = pyro.sample("k", pu.Categorical(share))
        with pyro.plate("data", len(x)):
            pyro.sample("x", dist.Normal(torch.tensor([-1.0, 1.0])[k], 1.0), obs=x)

    with pytest.raises(pu.UnsupError, match="the examples share a hidden variable"):
        pu.to_arviz({"share": np.full((1, 2, 2), 0.5)}, torch.zeros(3), model=shared)


# -- the other groups


@pytest.mark.parametrize("model", MATRIX, ids=name_of)
def test_groups_of_a_fit(model: Model) -> None:
    learned = fit(model.make(), model.data)
    found = pu.to_arviz(learned, *model.data, draws=5)
    expected = {"posterior", "log_likelihood", "posterior_predictive", "observed_data", "training"}
    assert expected <= set(groups_in(found))
    assert "sample_stats" not in groups_in(found)  # nothing was sampled by a sampler
    assert found["training"]["objective"].values.tolist() == [row["objective"] for row in learned.rows]
    for name, weights in learned.weights.items():
        assert found["posterior"][name].shape == (1, 5, *weights.shape)
    for name in (*learned.points, *learned.params):
        assert found["posterior"][name].shape[:2] == (1, 5)
    for name, x in found["observed_data"].data_vars.items():
        drawn = found["posterior_predictive"][name]
        assert drawn.dims == ("chain", "draw", *x.dims)
        assert drawn.shape == (1, 5, *x.shape)
        assert (drawn.dtype.kind == "i") == (x.dtype.kind == "i")


def test_the_seed_makes_the_draws() -> None:
    learned = fit(pu.models.Tagger(2, WORDS.vocab), (WORDS,))
    one, same, other = (pu.to_arviz(learned, WORDS, draws=6, seed=seed) for seed in (0, 0, 1))
    for group in ("posterior", "log_likelihood", "posterior_predictive"):
        assert group_of(one, group).equals(group_of(same, group))  # type: ignore[union-attr]
        assert not group_of(one, group).equals(group_of(other, group))  # type: ignore[union-attr]


def test_drawing_leaves_the_state_of_random_numbers_alone() -> None:
    learned = fit(pu.models.Tagger(2, WORDS.vocab), (WORDS,))
    before = torch.random.get_rng_state()
    pu.to_arviz(learned, WORDS, draws=3, groups="all", prior_size=3)
    pu.recover(learned, None, WORDS, draws=3)
    pu.prior_predictive(learned.model, WORDS, draws=3)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_documents_are_drawn_word_by_word() -> None:
    model = MODELS["clusterer"]
    found = pu.to_arviz(fit(model.make(), model.data), *model.data, draws=3)
    bags = model.data[0]
    words = np.repeat(bags.words, bags.counts)
    assert found["observed_data"]["bags"].values.tolist() == words.tolist()
    assert found["posterior_predictive"]["bags"].shape == (1, 3, len(words))
    owner = found["observed_data"]["bags_example"].values
    np.testing.assert_array_equal(np.bincount(owner), [3, 2, 3, 4, 2])


def test_drawn_words_follow_the_tables() -> None:
    learned = fit(pu.models.Tagger(1, WORDS.vocab), (WORDS,), pu.AddLambda(0.5))
    found = pu.to_arviz(
        {n: np.repeat(w.exp().numpy()[None, None], 400, 1) for n, w in learned.weights.items()},
        WORDS,
        model=learned.model,
        groups=["posterior_predictive"],
    )
    words = found["posterior_predictive"]["words"].values.reshape(-1)
    expected = learned.weights["emission"].exp()[0].numpy()
    seen = np.bincount(words, minlength=len(expected)) / len(words)
    assert np.abs(seen - expected).max() < 4 * np.sqrt(0.25 / len(words))


def test_chosen_groups_and_what_they_need() -> None:
    learned = fit(pu.models.Tagger(2, WORDS.vocab), (WORDS,))
    assert groups_in(pu.to_arviz(learned, draws=3)) == ["posterior", "training"]
    assert groups_in(pu.to_arviz(learned, WORDS, draws=3, groups="constant_data")) == ["constant_data"]
    found = pu.to_arviz(learned, WORDS, draws=3, groups="all", prior_size=4)
    assert set(groups_in(found)) == {
        "posterior", "log_likelihood", "posterior_predictive", "prior", "prior_predictive",
        "observed_data", "constant_data", "training",
    }  # fmt: skip
    assert found["prior"]["emission"].shape == (1, 4, 2, len(WORDS.vocab))
    assert found["prior_predictive"]["words"].shape == (1, 4, WORDS.tokens)
    assert found["constant_data"]["lengths"].values.tolist() == WORDS.lengths.tolist()
    with pytest.raises(pu.UnsupError, match="there is no group 'likelihood': expected some of posterior"):
        pu.to_arviz(learned, WORDS, groups=["likelihood"])
    with pytest.raises(pu.UnsupError, match="the group log_likelihood needs the data"):
        pu.to_arviz(learned, groups=["log_likelihood"])
    with pytest.raises(pu.UnsupError, match="draws must be a whole number"):
        pu.to_arviz(learned, WORDS, draws=0)


def test_what_would_be_too_large_is_refused_before_it_is_made() -> None:
    learned = fit(pu.models.Tagger(2, WORDS.vocab), (WORDS,))
    with pytest.raises(pu.UnsupError, match=r"the group posterior would take 8\.0 kB, more than the limit of 1\.0 kB"):
        pu.to_arviz(learned, WORDS, draws=50, limit=1000)
    with pytest.raises(pu.UnsupError, match=r"the group log_likelihood would take"):
        pu.to_arviz(learned, WORDS, draws=50, limit=1000, groups=["log_likelihood"])
    with pytest.raises(pu.UnsupError, match=r"the group posterior_predictive would take"):
        pu.to_arviz(learned, WORDS, draws=50, limit=1000, groups=["posterior_predictive"])
    with pytest.raises(pu.UnsupError, match=r"the group prior_predictive would take"):  # before the posterior is made
        pu.to_arviz(learned, WORDS, draws=2, limit=1000, groups=["posterior", "prior_predictive"])
    with pytest.raises(pu.UnsupError, match=r"the group prior would take"):
        pu.prior_predictive(learned.model, WORDS, draws=10**12)
    with pytest.raises(pu.UnsupError, match=r"the group recovered \(its 'mode'\) would take"):
        pu.recover(learned, None, WORDS, draws=50, limit=100, how="mode")


def test_draws_are_held_a_few_at_a_time() -> None:
    """However long the data are, no more than so many bytes of tables and densities."""
    series = torch.randn(20_000, dtype=torch.float64)
    model = pu.models.HMM(3, "normal", init={"loc": [-1.0, 0.0, 1.0], "scale": [1.0, 1.0, 1.0]})
    draws = {"start": np.full((1, 900, 3), 1 / 3), "transition": np.full((1, 900, 3, 3), 1 / 3)}
    program = Program(draws_of(draws, (series,), model, None, 0))
    walk = made.Walk(program.draws, made.hidden_numbers(program), "", False)
    assert walk.at_a_time * 8 * 3 * 3 * len(series) < made.AT_A_TIME < (walk.at_a_time + 1) * 8 * 4 * 3 * len(series)
    sizes = [last - first for first, last, _ in walk]
    assert sum(sizes) == 900
    assert max(sizes) == walk.at_a_time


# -- other results


@pytest.mark.parametrize("hyper", ["fixed", "shared"])
@pytest.mark.parametrize("name", ["bigram tagger", "clusterer", "segmenter"])
def test_samples_have_tables_drawn_given_their_labels(name: str, hyper: Any) -> None:
    model = MODELS[name]
    sampler = pu.CollapsedGibbs(model.make(), hyper=hyper)
    samples = sampler.run(*model.data, sweeps=8, burn_in=2, chains=2, progress=False)
    found = pu.to_arviz(samples, *model.data)
    assert {"sample_stats", "training", "log_likelihood"} <= set(groups_in(found))
    for table, declaration in samples.model.declarations().items():
        assert found["posterior"][table].shape == (2, 6, *declaration.layout.shape)
        np.testing.assert_allclose(found["posterior"][table].values.sum(-1), 1, rtol=1e-9)
    assert only(found, "log_likelihood").shape == (2, 6, 5)
    assert ("alpha" in found["posterior"]) == (hyper == "shared")
    assert found["sample_stats"]["lp"].shape == (2, 6)
    assert found["training"]["log_joint"].dims == ("chain", "sweep")
    assert found["training"]["log_joint"].shape == (2, 8)
    assert groups_in(pu.to_arviz(samples)) == ["posterior", "sample_stats", "training"]
    with pytest.raises(pu.UnsupError, match="these data are not the ones that were sampled"):
        pu.to_arviz(samples, model.data[0].select([0, 1]))


def test_the_tables_of_samples_are_from_their_posterior() -> None:
    """With one label, the tables do not depend on it: a Dirichlet on top of the counts of words."""
    sampler = pu.CollapsedGibbs(pu.models.Tagger(1, WORDS.vocab), beta=0.5)
    samples = sampler.run(WORDS, sweeps=2000, burn_in=0, progress=False)
    emission = pu.to_arviz(samples, WORDS, groups="posterior")["posterior"]["emission"].values[0, :, 0]
    alpha = 0.5 + np.bincount(WORDS.words, minlength=len(WORDS.vocab))
    mean = alpha / alpha.sum()
    deviation = np.sqrt(mean * (1 - mean) / (alpha.sum() + 1))
    assert (np.abs(emission.mean(0) - mean) < 4.5 * deviation / np.sqrt(2000)).all()
    np.testing.assert_allclose(emission.std(0), deviation, rtol=0.1)


def test_a_guide_of_svi() -> None:
    model = pu.models.HMM(2, "normal", prior=NORMAL)
    data = torch.tensor([-2.0, -1.7, 2.2, 1.9, 2.4, -2.2], dtype=torch.float64)
    guide = AutoDiagonalNormal(model)
    svi = SVI(model, guide, Adam({"lr": 0.05}), Trace_ELBO())
    for _ in range(3):
        svi.step(data)
    found = pu.to_arviz(guide, data, model=model, draws=20)
    assert found["posterior"]["loc"].shape == (1, 20, 2)
    assert found["posterior"]["transition"].dims[2:] == ("transition_state", "transition_next")
    assert found["log_likelihood"]["x"].shape == (1, 20, 1)
    assert found["posterior_predictive"]["x"].shape == (1, 20, 6)
    assert "_auto_latent" not in found["posterior"]
    same = pu.to_arviz(guide, data, model=model, draws=20)
    assert group_of(same, "posterior").equals(group_of(found, "posterior"))  # type: ignore[union-attr]
    with pytest.raises(pu.UnsupError, match="to which model does a AutoDiagonalNormal belong"):
        pu.to_arviz(guide, data)


def test_a_guide_of_points_and_one_of_ours() -> None:
    model = pu.models.Tagger(2, WORDS.vocab)
    guide = AutoDelta(model)
    guide(WORDS)
    assert np.ptp(only(pu.to_arviz(guide, WORDS, model=model, draws=3), "log_likelihood").values, axis=1).max() == 0
    learned = fit(model, (WORDS,))
    found = pu.to_arviz(learned.guide(), WORDS, model=model, draws=10)
    assert set(found["posterior"].data_vars) == {"start", "transition", "emission"}


def test_draws_go_out_and_come_back() -> None:
    learned = fit(pu.models.Tagger(2, WORDS.vocab), (WORDS,))
    first = pu.to_arviz(learned, WORDS, draws=6)
    again = pu.to_arviz(first, WORDS, model=learned.model)
    np.testing.assert_allclose(only(again, "log_likelihood"), only(first, "log_likelihood"), rtol=1e-12)
    with pytest.raises(pu.UnsupError, match="draws= is for a fit or a guide"):
        pu.to_arviz(first, WORDS, model=learned.model, draws=3)
    with pytest.raises(pu.UnsupError, match="the draws have no table 'transition'"):
        pu.to_arviz({"start": np.ones((1, 2, 2))}, WORDS, model=learned.model)
    with pytest.raises(pu.UnsupError, match=r"'emission' has shape \(2, 1, 2\), expected \(1, 2, \.\.\.\)"):
        pu.to_arviz({"start": np.ones((1, 2, 2)), "emission": np.ones((2, 1, 2))}, WORDS, model=learned.model)
    shapes = {"start": (3,), "transition": (2, 2), "emission": (2, len(WORDS.vocab))}
    wrong = {name: np.full((1, 2, *shape), 0.5) for name, shape in shapes.items()}
    with pytest.raises(pu.UnsupError, match=r"draws of table 'start' must have shape \(2,\), actual \(3,\)"):
        pu.to_arviz(wrong, WORDS, model=learned.model)
    with pytest.raises(pu.UnsupError, match="expected a Fit, Samples, MCMC, a guide"):
        pu.to_arviz(3, WORDS, model=learned.model)


@pytest.mark.parametrize("name", structured(WITH_PRIOR))
def test_any_model_under_mcmc(name: str) -> None:
    make, data = WITH_PRIOR[name]
    run = mcmc(make(), data, 5)
    found = pu.to_arviz(run)
    assert found["posterior"].sizes["draw"] == 5
    assert only(found, "log_likelihood").shape[:2] == (1, 5)
    assert found["sample_stats"]["diverging"].values.tolist() == [[False, True, False, False, False]]


def blocked(model: Any, x: Any, draws: int = 6) -> Any:
    run = MCMC(pu.BlockedGibbs(model), num_samples=draws, warmup_steps=2, disable_progbar=True)
    run.run(x)
    return run


def log_joint(model: Any, x: Any, run: Any) -> list[float]:
    """log p(data, draw) of every draw, by Pyro."""
    found = []
    for i in range(run.num_samples):
        one = {name: v[i] for name, v in run.get_samples().items()}
        found.append(float(poutine.trace(poutine.condition(model, one)).get_trace(x).log_prob_sum()))
    return found


SERIES = torch.tensor([-2.0, -1.7, 2.2, 1.9, 2.4, -2.2], dtype=torch.float64)


def test_statistics_of_nuts_and_gibbs() -> None:
    """What is known, and nothing that is not."""
    model = pu.models.HMM(2, "normal", prior=NORMAL)
    run = MCMC(NUTS(model, max_tree_depth=3), num_samples=6, warmup_steps=6, disable_progbar=True)
    run.run(SERIES)
    stats = pu.to_arviz(run)["sample_stats"]
    assert set(stats.data_vars) == {"diverging", "step_size", "lp", "mean_acceptance_rate"}
    np.testing.assert_allclose(stats["lp"].values[0], log_joint(model, SERIES, run), rtol=1e-6)
    assert stats["step_size"].values.tolist() == [[run.kernel.step_size] * 6]
    assert stats["mean_acceptance_rate"].dims == ("chain",)
    gibbs = blocked(model, SERIES)
    stats = pu.to_arviz(gibbs, steps=True)["sample_stats"]
    assert set(stats.data_vars) == {"lp"}  # a Gibbs sampler has no divergences
    np.testing.assert_allclose(stats["lp"].values[0], log_joint(model, SERIES, gibbs), rtol=1e-6)
    assert "sample_stats" not in groups_in(pu.to_arviz(gibbs, groups=["posterior", "sample_stats"]))
    collapsed = MCMC(pu.CollapsedGibbs(pu.models.Tagger(2, WORDS.vocab)), num_samples=4, warmup_steps=0)
    collapsed.run(WORDS)
    assert set(pu.to_arviz(collapsed)["sample_stats"].data_vars) == {"lp"}


def test_parameters_have_named_dimensions() -> None:
    def dims(model: Any, x: Any, name: str) -> Any:
        learned = pu.EM(model).run(x, iterations=2, progress=False)
        both = [found["posterior"][name] for found in (pu.to_arviz(learned, x), learned.to_arviz(x))]
        assert both[0].dims == both[1].dims
        return both[0].dims[2:]

    assert dims(pu.models.HMM(2), SERIES, "loc") == ("state",)
    pairs = torch.stack([SERIES, SERIES.flip(0)], 1)
    assert dims(pu.models.HMM(2, dim=2), pairs, "scale") == ("state", "coordinate")

    def vectors(kind: str) -> Any:
        return pu.models.HMM(2, "multivariate_normal", dim=2, covariance=kind)

    wide = torch.randn(40, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert dims(vectors("full"), wide, "covariance") == ("state", "coordinate", "coordinate_2")
    assert dims(vectors("tied"), wide, "covariance") == ("covariance_state", "coordinate", "coordinate_2")
    assert dims(vectors("spherical"), wide, "scale") == ("state", "scale_coordinate")
    stationary = pu.models.HMM(2, start="stationary")
    assert dims(stationary, SERIES, "transition") == ("transition_state", "transition_next")
    found = pu.to_arviz(blocked(pu.models.HMM(2, "normal", prior=NORMAL), SERIES))["posterior"]
    assert found["loc"].dims == ("chain", "draw", "state")
    assert found["loc"].sel(state=1).shape == (1, 6)
    assert not [name for name in found.dims if "_dim_" in str(name)]


# -- priors


def test_data_from_the_prior() -> None:
    model = pu.models.HMM(2, "poisson", prior={"rate": dist.Gamma(2.0, 0.5)})
    found = pu.prior_predictive(model, COUNTS, draws=20)
    assert set(groups_in(found)) == {"prior", "prior_predictive", "observed_data", "constant_data"}
    assert found["prior"]["rate"].shape == (1, 20, 2)
    assert found["prior_predictive"]["x"].shape == (1, 20, 21)
    assert (found["prior_predictive"]["x"].values >= 0).all()
    with pytest.raises(pu.UnsupError, match=r"^the parameter 'rate' has no prior .* HMM\(prior=.*\}\)$"):
        pu.prior_predictive(pu.models.HMM(2, "poisson"), COUNTS, draws=2)
    with pytest.raises(pu.UnsupError, match="prior_predictive needs the data"):
        pu.prior_predictive(model)
    with pytest.raises(pu.UnsupError, match="cannot draw new data"):
        pu.prior_predictive(pu.models.Aligner.of(BITEXT, agreement="2008"), BITEXT, draws=2)


def test_a_prior_has_the_moments_it_says() -> None:
    model = pu.models.Tagger(2, 3, prior={"emission": 2.0})
    found = pu.prior_predictive(model, [[0, 1, 2]], draws=2000)["prior"]["emission"].values[0]
    np.testing.assert_allclose(found.mean(0), 1 / 3, atol=4 * np.sqrt(2 / 9 / 7 / 2000))
    np.testing.assert_allclose(found.var(0), 2 / 9 / 7, rtol=0.15)


# -- ArviZ at work

PLOTS = ("trace", "forest", "posterior", "ppc", "khat")


def compared(model: Any, data: tuple[Any, ...]) -> tuple[Any, Any]:
    learned = fit(model, data)
    return pu.to_arviz(learned, *data, draws=60), pu.to_arviz(learned, *data, draws=60, seed=1)


@pytest.mark.parametrize("model", MATRIX, ids=name_of)
def test_numbers_of_arviz_on_every_model(model: Model) -> None:
    one, other = compared(model.make(), model.data)
    with arviz_at_work() as az:
        loo = az.loo(one, pointwise=True)
        assert np.isfinite(loo["elpd"] if LATER else loo["elpd_loo"])
        assert len(np.asarray(loo.pareto_k).reshape(-1)) == only(one, "log_likelihood")[0, 0].size
        if not LATER:
            assert np.isfinite(az.waic(one)["elpd_waic"])
        assert len(az.compare({"one": one, "other": other})) == 2
        assert len(az.summary(one)) > 0


def test_loo_is_that_of_leaving_sentences_out() -> None:
    """With one tag, words are drawn from one Dirichlet row: p(sentence | all others) has a closed form."""
    sampler = pu.CollapsedGibbs(pu.models.Tagger(1, WORDS.vocab), beta=2.0)
    found = pu.to_arviz(
        sampler.run(WORDS, sweeps=2000, burn_in=0, progress=False), WORDS, groups=["posterior", "log_likelihood"]
    )
    counts = np.stack([np.bincount(WORDS.words[a:b], minlength=len(WORDS.vocab)) for a, b in pairwise(WORDS.offsets)])
    alpha = 2.0 + counts.sum(0) - counts  # of the others, (sentences, words)
    exact = (gammaln(alpha + counts) - gammaln(alpha)).sum(1) + gammaln(alpha.sum(1)) - gammaln((alpha + counts).sum(1))
    with arviz_at_work() as az:
        loo = az.loo(found, pointwise=True)
    each = np.asarray(loo.elpd_i if LATER else loo.loo_i)
    np.testing.assert_allclose(each, exact, atol=0.1)
    assert each.sum() == pytest.approx(exact.sum(), abs=0.2)


def draw(what: str, data: Any) -> Any:
    """A plot, by the name that ArviZ has for it."""
    with arviz_at_work() as az:
        (first, *_) = data["posterior"].data_vars
        if what == "khat":
            return az.plot_khat(az.loo(data, pointwise=True))
        if what == "ppc":
            return az.plot_ppc_dist(data) if LATER else az.plot_ppc(data, num_pp_samples=5)
        if what == "posterior":
            return az.plot_dist(data, var_names=[first]) if LATER else az.plot_posterior(data, var_names=[first])
        return getattr(az, f"plot_{what}")(data, var_names=[first])


@pytest.mark.parametrize("what", PLOTS)
@pytest.mark.parametrize("name", ["bigram tagger", "HMM, normal"])
def test_plots_of_arviz(name: str, what: str) -> None:
    model = MODELS[name]
    assert draw(what, compared(model.make(), model.data)[0]) is not None


@pytest.mark.deep
@pytest.mark.parametrize("what", PLOTS)
@pytest.mark.parametrize("model", MATRIX, ids=name_of)
def test_plots_of_arviz_on_every_model(model: Model, what: str) -> None:
    found = compared(model.make(), model.data)[0]
    assert draw(what, found) is not None


def test_a_plot_of_a_comparison() -> None:
    model = MODELS["bigram tagger"]
    with arviz_at_work() as az:
        ranked = az.compare(dict(zip(("one", "other"), compared(model.make(), model.data), strict=True)))
        assert az.plot_compare(ranked) is not None


def test_a_plot_of_the_prior() -> None:
    found = pu.prior_predictive(pu.models.Tagger(2, WORDS.vocab), WORDS, draws=20)
    with arviz_at_work() as az:
        drawn = az.plot_ppc_dist(found, group="prior_predictive") if LATER else az.plot_ppc(found, group="prior")
        assert drawn is not None


def _bare(x: Any) -> None:
    loc = pyro.sample("loc", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    even, transition = torch.full((2,), 0.5).log(), pu.table("transition", 2, 2)
    pyro.sample("x", pu.Chain(even, transition, dist.Normal(loc, 1.0), len(x)), obs=x)


def _in_a_plate(flat: bool) -> Any:
    def model(x: Any = None, lengths: Any = None) -> None:
        loc = pyro.sample("loc", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
        even, transition = torch.full((2,), 0.5).log(), pu.table("transition", 2, 2)
        with pyro.plate("series", len(lengths)):
            pyro.sample("x", pu.Chain(even, transition, dist.Normal(loc, 1.0), lengths, flat=flat), obs=x)

    return model


@pytest.mark.parametrize("kind", ["no plate", "flat", "padded"])
def test_chains_of_a_user_with_drawn_parameters(kind: str) -> None:
    x, lengths = torch.randn(12), torch.tensor([12])
    data = {"no plate": (x,), "flat": (x, lengths), "padded": (x[None], lengths)}[kind]
    model = _bare if kind == "no plate" else _in_a_plate(kind == "flat")
    mcmc = MCMC(pu.BlockedGibbs(model), 5, warmup_steps=2, disable_progbar=True)
    mcmc.run(*data)
    found = pu.to_arviz(mcmc, progress=False)
    draws = mcmc.get_samples()
    for i, total in enumerate(np.asarray(found["log_likelihood"]["x"]).reshape(5)):
        chain = pu.Chain(
            torch.full((2,), 0.5).log(), draws["transition"][i].log(), dist.Normal(draws["loc"][i], 1.0), lengths
        )
        assert float(chain.log_prob(x[None]).sum()) == pytest.approx(float(total), rel=1e-9)
    if kind != "no plate":
        assert found["posterior_predictive"]["x"].shape == (1, 5, *data[0].shape)
