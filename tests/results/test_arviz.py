"""Fits in ArviZ, of either generation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import UnsupError
from pyro_unsup import components as c
from pyro_unsup.data import TagDictionary
from pyro_unsup.models import CCM, DMV, Tagger
from pyro_unsup.results.arviz import as_arviz, dataset, group_of, is_arviz
from pyro_unsup.results.fit_draws import FitDraws

from .cases import anonymous, latent, mixture, own, points, text, with_dictionary


def test_the_learned_probabilities_are_one_draw_of_one_chain() -> None:
    fit = anonymous(order=2, stop=True)
    found = fit.to_arviz()
    assert group_of(found, "sample_stats") is None  # nothing was sampled
    assert dict(found.posterior.sizes)["chain"] == dict(found.posterior.sizes)["draw"] == 1
    assert set(found.posterior.data_vars) == {"start", "transition", "second", "emission"}
    for name, w in fit.weights.items():
        assert found.posterior[name].shape == (1, 1, *w.shape)
        np.testing.assert_array_equal(found.posterior[name].values[0, 0], w.exp().numpy())
    np.testing.assert_allclose(found.posterior["transition"].sum("transition_tag"), 1)
    words = found.posterior["emission"].coords["emission_word"].values.tolist()
    assert words == [str(word) for word in fit.model.vocab]
    assert found.posterior["start"].coords["start_tag"].values.tolist() == [0, 1, 2, 3]


def test_the_history_is_beside_them() -> None:
    fit = anonymous()
    history = fit.to_arviz()["training"]
    assert set(history.data_vars) == {"objective", "total_log_likelihood", "change"}
    for key in history.data_vars:
        assert history[key].dims == ("iteration",)
        assert history[key].values.tolist() == [row[key.removeprefix("total_")] for row in fit.rows]


def test_structural_zeros_are_zeros() -> None:
    fit = with_dictionary()
    mask = fit.model.declarations()["emission"].layout.support  # type: ignore[attr-defined]
    emission = fit.to_arviz().posterior["emission"].values[0, 0]
    assert (emission[~mask.numpy()] == 0).all()
    assert not np.isnan(emission).any()


def test_points_and_parameters_are_there_as_they_are() -> None:
    for model in (None, latent):
        fit = own(model) if model else own()
        found = fit.to_arviz().posterior
        for name in ("mean", "scale"):
            np.testing.assert_array_equal(found[name].values[0, 0], {**fit.points, **fit.params}[name].numpy())


def test_float32_stays_float32() -> None:
    assert anonymous(dtype=torch.float32).to_arviz().posterior["emission"].dtype == np.float32


def test_the_next_generation_has_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    import arviz

    monkeypatch.setattr(arviz, "__version__", "1.0.0")
    found = anonymous().to_arviz()
    assert type(found).__name__ == "DataTree"
    assert is_arviz(found)
    assert list(found.children) == ["posterior", "training"]
    assert found["posterior"]["start"].shape == (1, 1, 4)
    posterior = group_of(found, "posterior")
    assert posterior is not None
    assert posterior["emission"].dims == ("chain", "draw", "emission_tag", "emission_word")
    assert group_of(found, "prior") is None


def test_dims_and_coords() -> None:
    coords = {"tag": ["N", "V"], "size": ("tag", [3, 4]), "not_here": [1]}
    group = dataset({"x": np.zeros((2, 5, 2)), "y": np.zeros((2, 5, 3))}, {"x": ["tag"]}, coords)
    found = as_arviz({"posterior": group})["posterior"]
    assert found["x"].dims == ("chain", "draw", "tag")
    assert found["y"].dims == ("chain", "draw", "y_dim_0")
    assert found["x"].sel(tag="V").shape == (2, 5)
    assert found["size"].values.tolist() == [3, 4]
    assert "not_here" not in found.coords


def test_cells_of_ragged_tables_have_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.matrix.models import BITEXT

    fit = pu.EM(pu.models.Aligner.of(BITEXT), pu.AddLambda(0.1)).run(BITEXT, iterations=1, progress=False)
    found = fit.to_arviz()["posterior"]["translation_forward"]
    assert found.dims == ("chain", "draw", "translation_forward_cell")
    rows = [label.split(" / ")[0] for label in found["translation_forward_cell"].values.tolist()]
    sums: dict[str, float] = {}
    for row, p in zip(rows, found.values[0, 0].tolist(), strict=True):
        sums[row] = sums.get(row, 0) + p
    assert set(sums) == {"a", "book", "here", "house", "is", "the", ""}  # the null word among them
    np.testing.assert_allclose(list(sums.values()), 1)
    monkeypatch.setattr("pyro_unsup.results.arviz.LABELLED", 3)
    assert fit.to_arviz()["posterior"]["translation_forward_cell"].dtype.kind == "i"


def test_arviz_can_work_with_it() -> None:
    import arviz

    draws = arviz.extract(anonymous().to_arviz(), var_names="start")
    np.testing.assert_array_equal(draws.values[:, 0], anonymous().weights["start"].exp().numpy())


# -- draws from what is not a point

DATA = [[0, 1, 1], [1, 0], [1, 1, 0, 1], [2, 0]]


def uncertain(estimate: Any, model: Any = None) -> pu.Fit:
    return pu.EM(model or DMV(3), estimate).run(DATA, iterations=5, tolerance=0, progress=False)


def mixed(tied: bool, estimate: Any = None) -> pu.Fit:
    known = [c.short_dependencies(limit=1), c.right_attach()]
    how = pu.DirichletVB() if estimate is None else estimate
    engine = pu.MixtureEM(DMV(3), known, how, polytope=pu.schedules.Loosen(0.5, 0.8, 0.1, even=True), tied=tied)
    return engine.run(DATA, iterations=5, tolerance=0, progress=False)


@pytest.mark.parametrize("estimate", [pu.DirichletVB(), pu.EmpiricalDirichlet(), pu.LogisticNormal()], ids=repr)
def test_draws_are_of_the_learned_posterior(estimate: Any) -> None:
    fit = uncertain(estimate)
    found = fit.to_arviz(draws=400).posterior
    for name, w in fit.weights.items():
        theta = found[name].values
        assert theta.shape == (1, 400, *w.shape)
        np.testing.assert_allclose(theta.sum(-1), 1)
        logs = np.log(theta[0])
        error = logs.std(0, ddof=1) / 20
        gap = logs.mean(0) - w.numpy()  # these are the expected logs, or a bound below them
        assert (gap > -5 * error).all()
        assert isinstance(estimate, pu.LogisticNormal) or (gap < 5 * error).all()
    same, other = (fit.to_arviz(draws=400, seed=seed).posterior for seed in (0, 1))
    assert same.equals(found)
    assert not other.equals(found)


def test_draws_leave_the_state_of_random_numbers_alone() -> None:
    fit = uncertain(pu.DirichletVB())
    before = torch.random.get_rng_state()
    fit.to_arviz(draws=3)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_there_are_a_thousand_draws_or_as_many_as_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    fit = uncertain(pu.DirichletVB())
    assert fit.to_arviz().posterior.sizes["draw"] == 1000
    monkeypatch.setattr("pyro_unsup.results.fit_draws.ROOM", 60 * sum(w.numel() for w in fit.weights.values()))
    assert fit.to_arviz().posterior.sizes["draw"] == 60
    monkeypatch.setattr("pyro_unsup.results.fit_draws.ROOM", 0)
    assert fit.to_arviz().posterior.sizes["draw"] == 1
    assert fit.to_arviz(draws=7).posterior.sizes["draw"] == 7


def test_draws_of_a_point_are_that_point() -> None:
    found = anonymous().to_arviz(draws=3).posterior
    for name, w in anonymous().weights.items():
        np.testing.assert_allclose(found[name].values, np.broadcast_to(w.exp(), (1, 3, *w.shape)), rtol=1e-12)


@pytest.mark.parametrize("estimate", [pu.DirichletVB(), pu.LogisticNormal()], ids=repr)
def test_draws_have_structural_zeros_and_lie_as_the_tables_do(estimate: Any) -> None:
    tagset = text().tagset
    assert tagset is not None
    model = Tagger(tagset, text().vocab, dictionary=TagDictionary.from_corpus(text(), min_count=5))
    mask = model.declarations()["emission"].layout.support
    assert mask is not None
    fit = pu.EM(model, estimate).run(text(), iterations=2, tolerance=0, progress=False)
    emission = fit.to_arviz(draws=4).posterior["emission"].values[0]
    assert (emission[:, ~mask.numpy()] == 0).all()
    np.testing.assert_allclose(emission.sum(-1), 1)
    ragged = uncertain(estimate, CCM.of(DATA, vocab=3, variant=2))
    layout = ragged.model.declarations()["yield"].layout  # type: ignore[attr-defined]
    drawn = torch.from_numpy(ragged.to_arviz(draws=4).posterior["yield"].values[0])
    for one in drawn:
        torch.testing.assert_close(layout.row_sum(one), torch.ones(layout.rows))


@pytest.mark.parametrize("tied", [True, False])
def test_a_mixture_has_components_and_their_coefficients(tied: bool) -> None:
    fit = mixed(tied)
    found = fit.to_arviz(draws=600)
    component = found.posterior["component"].values[0]
    seen = np.bincount(component, minlength=3) / 600
    np.testing.assert_allclose(seen, fit.state["lambda"], atol=4 * (0.25 / 600) ** 0.5)
    for i in range(3):
        part = fit.component(i).weights["root"].numpy()
        mine = np.log(found.posterior["root"].values[0][component == i])
        assert np.abs(mine.mean(0) - part).max() < 5 * (mine.std(0, ddof=1) / len(mine) ** 0.5).max()
    share = found["training"]["lambda"]
    assert share.dims == ("iteration", "component")
    np.testing.assert_allclose(share.sum("component"), 1)
    assert share.values[-1].tolist() == fit.state["lambda"].tolist()
    assert found["training"]["objective"].values.tolist() == [row["objective"] for row in fit.rows]


def test_a_mixture_of_points() -> None:
    tied = mixed(True, pu.AddLambda(0.1))
    assert tied.to_arviz().posterior.sizes["draw"] == 1
    assert "component" in tied.to_arviz(draws=2).posterior
    untied = mixed(False, pu.AddLambda(0.1))
    found = untied.to_arviz(draws=50).posterior
    for one, i in zip(found["stop"].values[0], found["component"].values[0], strict=True):
        np.testing.assert_allclose(one, untied.component(int(i)).weights["stop"].exp(), rtol=1e-12)


def test_a_component_that_is_never_drawn() -> None:
    fit = mixed(False)
    fit.state["lambda"] = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    assert set(fit.to_arviz(draws=5).posterior["component"].values[0]) == {0}


def test_a_model_of_ones_own_tells_how_its_tables_lie_when_it_runs() -> None:
    for model in (mixture, latent):
        fit = pu.EM(model, pu.DirichletVB()).run(points(), iterations=2, tolerance=0, progress=False)
        found = fit.to_arviz(points(), draws=5).posterior
        assert found["share"].shape == (1, 5, 2)
        assert found["mean"].shape == (1, 5, 2)
        np.testing.assert_array_equal(found["mean"].values[0, 4], {**fit.points, **fit.params}["mean"].numpy())
        assert fit.to_arviz(points()).posterior.sizes["draw"] == 1000
        assert fit.to_arviz().posterior.sizes["draw"] == 1
        with pytest.raises(UnsupError, match=r"give the data of a model of your own, to_arviz\(data, draws=\.\.\.\)"):
            fit.to_arviz(draws=5)


@pytest.mark.parametrize("draws", [0, -1, 2.0, True])
def test_draws_are_counted_in_whole_numbers(draws: Any) -> None:
    with pytest.raises(UnsupError, match="draws must be a whole number, 1 or more, actual"):
        anonymous().to_arviz(draws=draws)


def test_draws_do_not_depend_on_how_many_are_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for fit in (mixed(True), mixed(False), uncertain(pu.DirichletVB())):
        whole = FitDraws(fit, (), {}, 10, 0)
        for name, x in whole.take(0, 10).items():
            torch.testing.assert_close(torch.cat([whole.take(0, 3)[name], whole.take(3, 10)[name]]), x, rtol=0, atol=0)
    monkeypatch.setattr("pyro_unsup.results.fit_draws.BLOCK", 1)  # every draw by a seed of its own
    fit = mixed(False)
    few = FitDraws(fit, (), {}, 10, 0)
    for name, x in few.take(0, 10).items():
        torch.testing.assert_close(torch.cat([few.take(i, i + 1)[name] for i in range(10)]), x, rtol=0, atol=0)
        assert len(x.unique(dim=0)) == 10


def test_learned_concentrations_are_hyperparameters() -> None:
    fit = uncertain(pu.EmpiricalDirichlet())
    for found in (fit.to_arviz(draws=3), pu.to_arviz(fit, DATA, draws=3)):
        for table in fit.weights:
            values = found["posterior"][f"{table}_concentration"].values
            np.testing.assert_allclose(values, np.full((1, 3), fit.memory[f"{table}.concentration"]))
