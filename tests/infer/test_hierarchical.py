"""Weights of its own for every example: where it starts, what it learns, and what a fit leaves behind."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import Trace_ELBO

import pyro_unsup as pu
from pyro_unsup import HierarchicalEM
from pyro_unsup.estimate.table_rows import TableRows
from pyro_unsup.models import DMV, Clusterer
from pyro_unsup.results.table_posterior import table_posterior, to_table

from ..results.cases import assert_same
from .hierarchical_cases import CASES, LABELS, SENTENCES, TOGETHER, objectives, run


def test_a_covariance_of_ones_own_is_where_it_starts() -> None:
    matrix = 0.6 * torch.eye(4) + 0.4
    first = run(DMV(4), SENTENCES, 0, covariance=matrix, variance=3.0)
    torch.testing.assert_close(first.memory["attach.covariance"], matrix.expand(8, 4, 4))
    assert first.memory["stop.covariance"].unique().tolist() == [3.0]  # two outcomes: it says nothing of them
    assert first.config["covariance"] == "tensor of shape (4, 4)"
    later = run(DMV(4), SENTENCES, 4, covariance=matrix).memory["attach.covariance"]
    assert later.shape == (8, 4, 4)
    assert not torch.allclose(later, first.memory["attach.covariance"])
    one = run(Clusterer(4, 4), SENTENCES, 5, covariance="full", variance=2.0)
    same = run(Clusterer(4, 4), SENTENCES, 5, covariance=2 * torch.eye(4), variance=2.0)
    torch.testing.assert_close(one.memory["words.covariance"], same.memory["words.covariance"])


def test_families_are_where_it_starts() -> None:
    model = DMV(pu.data.Vocab(["NN", "NNS", "VB", "DT"]))
    fit = run(model, SENTENCES, 0, covariance={"NN": "noun", "NNS": "noun"}, variance=2.0, within=0.25)
    expected = 2 * torch.eye(4)
    expected[0, 1] = expected[1, 0] = 0.5
    torch.testing.assert_close(fit.memory["root.covariance"], expected[None])
    torch.testing.assert_close(fit.memory["attach.covariance"], expected.expand(8, 4, 4))
    assert fit.memory["stop.covariance"].dim() == 1
    assert fit.config["covariance"] == "families of 2 labels"
    assert fit.config["within"] == 0.25


@pytest.mark.parametrize("covariance", ["diagonal", "full", LABELS], ids=["diagonal", "full", "families"])
@pytest.mark.parametrize("name", ["trees", "trigram with a dictionary", "brackets given widths", "segments"])
def test_the_guide_draws_the_tables_of_a_new_example(name: str, covariance: Any) -> None:
    model, data = TOGETHER[name]
    fit = run(model, data, 4, covariance=covariance)
    for table, declaration in model.declarations().items():
        q, layout = table_posterior(fit, declaration, torch.float64), declaration.layout
        if f"{table}.mean" not in fit.memory:
            assert isinstance(q, dist.Delta)
            continue
        pyro.set_rng_seed(0)
        draws = to_table(layout, q.sample((6000,)))
        assert bool(torch.isfinite(q.log_prob(q.sample())).all())
        torch.testing.assert_close(layout.row_sum(draws[5]), torch.ones(layout.rows))
        rows = TableRows.of(layout)
        flat = draws.log().flatten(1)
        flat = flat if rows.cells is None else flat[:, rows.cells]
        mean, sigma = fit.memory[f"{table}.mean"], fit.memory[f"{table}.covariance"]
        for row, (a, b) in enumerate(itertools.pairwise(rows.offsets.tolist())):
            own = sigma[a:b].diag() if sigma.dim() == 1 else sigma[row, : b - a, : b - a]
            logit, variance = flat[:, a] - flat[:, a + 1], own[0, 0] + own[1, 1] - 2 * own[0, 1]
            assert abs(float(logit.mean() - (mean[a] - mean[a + 1]))) < 5 * math.sqrt(float(variance) / 6000)
            assert float(logit.var()) == pytest.approx(float(variance), rel=0.12)
    assert math.isfinite(Trace_ELBO().loss(fit.model, fit.guide(), data))


def test_arviz_has_tables_of_new_examples() -> None:
    pytest.importorskip("arviz")
    fit = run(DMV(4), SENTENCES, 4, covariance="full")
    found = fit.to_arviz(draws=50)["posterior"]["attach"].values
    assert found.shape == (1, 50, 4, 2, 4)
    np.testing.assert_allclose(found.sum(-1), 1)
    assert (found.std(1) > 0).all()


# -- what is learned


def test_tables_are_proper_and_decode_new_sentences() -> None:
    model = DMV(4)
    fit = run(model, SENTENCES, init=model.harmonic_start(SENTENCES))
    for name, w in fit.weights.items():
        torch.testing.assert_close(w.exp().sum(-1), torch.ones(w.shape[:-1]))
        torch.testing.assert_close(fit.memory[f"{name}.mean"].reshape(w.shape).log_softmax(-1), w)
    assert fit.predict([[0, 1, 2]]).shape == (3,)
    assert fit.memory["attach.covariance"].shape == (32,)
    assert run(model, SENTENCES, covariance="full").memory["attach.covariance"].shape == (8, 4, 4)
    assert fit.config["engine"] == "HierarchicalEM"
    assert fit.config["estimate"] == "a logistic normal of each example"


def test_sentences_that_differ_make_a_wide_prior() -> None:
    """Half of the documents have only the first word, the others only the second; or all have both."""
    apart = run(Clusterer(1, 2), [[0] * 20, [1] * 20] * 10, 40, init=pu.init.uniform())
    alike = run(Clusterer(1, 2), [[0, 1] * 10] * 20, 40)
    assert float(apart.memory["words.covariance"].sum()) > 10  # of the difference, which alone matters
    assert float(alike.memory["words.covariance"].sum()) < 0.1
    torch.testing.assert_close(apart.weights["words"].exp(), torch.full((1, 2), 0.5))


def test_the_start_is_the_mean() -> None:
    model = DMV(4)
    start = model.harmonic_start(SENTENCES)
    fit = run(model, SENTENCES, 0, init=start)
    for name, w in start({}, torch.Generator()).items():
        torch.testing.assert_close(fit.weights[name], w)


def test_rows_that_no_example_uses_keep_their_prior_and_are_counted() -> None:
    fit = run(DMV(5), SENTENCES)  # the fifth tag does not occur
    assert fit.report.unvisited["stop"] >= 4
    before = run(DMV(5), SENTENCES, 0)
    assert torch.equal(fit.memory["stop.mean"][-8:], before.memory["stop.mean"][-8:])
    assert not torch.equal(fit.memory["stop.mean"][:8], before.memory["stop.mean"][:8])


def test_tables_without_a_choice_are_left_alone() -> None:
    fit = run(Clusterer(1, 3), [[0, 1], [2, 2, 1]])
    assert fit.weights["cluster"].tolist() == [0.0]
    assert sorted(fit.memory) == ["words.covariance", "words.mean"]


# -- runs


def test_seeds() -> None:
    model, data = CASES["bigram"]
    assert_same(run(model, data, seed=3), run(model, data, seed=3), seconds=False)
    assert run(model, data, seed=3).objective != run(model, data, seed=4).objective
    best = run(model, data, restarts=3, processes=1)
    assert best.report.restarts == [run(model, data, seed=seed).objective for seed in range(3)]
    assert best.objective == max(best.report.restarts)


def test_steps_are_iterations() -> None:
    model, data = CASES["trees"]
    engine = HierarchicalEM(model).session()
    losses = [engine.step(data) for _ in range(3)] + [engine.evaluate_loss(data)]
    assert [-loss for loss in losses] == objectives(run(model, data, 3))
    assert engine.state.iteration == 3


RESUMED: dict[str, dict[str, Any]] = {
    "trees": {},
    "bigram": {"dtype": torch.float32, "rounds": 2},
    "brackets given widths": {"covariance": "full"},
    "links": {"covariance": "full"},
    "segments": {"covariance": LABELS, "within": 0.3},
}


@pytest.mark.parametrize(("name", "options"), RESUMED.items(), ids=RESUMED)
def test_eight_iterations_are_three_saved_loaded_and_five_more(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    model, data = CASES[name]
    whole = run(model, data, 8, **options)
    run(model, data, 3, seed=0, checkpoint=tmp_path / "half", **options)
    half = pu.load(tmp_path / "half")
    rest = run(model, data, 8, resume=half, **options)
    assert_same(rest, whole, seconds=False)
    rest.save(tmp_path / "whole")
    assert_same(pu.load(tmp_path / "whole"), rest)


def test_going_on_with_the_same_engine() -> None:
    model, data = CASES["trees"]
    engine = HierarchicalEM(model)
    half = engine.run(data, iterations=3, tolerance=0)
    assert engine.run(data, iterations=6, tolerance=0, resume=half).objective == run(model, data, 6).objective
