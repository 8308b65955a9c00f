"""Choosing step sizes and mini-batches by likelihood."""

from __future__ import annotations

import math

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import AddLambda, FitError, StepwiseEM, select_steps
from pyro_unsup.data import toy
from pyro_unsup.models import Tagger

CORPUS = toy.sentences(40, seed=3)
MODEL = Tagger(3, CORPUS.vocab)


def test_every_setting_is_tried_and_the_most_likely_wins() -> None:
    found = select_steps(
        MODEL, CORPUS, powers=[0.5, 0.8], batch_sizes=[20, 5, 40, 1000], iterations=3, seed=2, order_seed=1,
        estimate=AddLambda(0.1), processes=1, progress=False, score=lambda fit: fit.config["power"],
    )  # fmt: skip
    assert [(row["power"], row["batch_size"]) for row in found.rows] == [
        (power, m) for power in (0.5, 0.8) for m in (5, 20, 40)
    ]
    assert found.best["log_likelihood"] == max(row["log_likelihood"] for row in found.rows)
    for row in found.rows:
        assert row["score"] == row["power"]
    alone = StepwiseEM(MODEL, AddLambda(0.1), power=0.8, batch_size=20, order_seed=1).run(
        CORPUS, iterations=3, tolerance=0, seed=2, progress=False
    )
    assert found.rows[4]["log_likelihood"] == pytest.approx(alone.log_likelihood(CORPUS), rel=1e-12)
    assert found.fit.model is MODEL
    assert found.fit.log_likelihood(CORPUS) == pytest.approx(found.best["log_likelihood"], rel=1e-12)
    assert list(found.table.columns) == ["power", "batch_size", "log_likelihood", "score"]


def test_processes_change_nothing() -> None:
    one, two = (
        select_steps(MODEL, CORPUS, powers=[0.7, 1.0], batch_sizes=[10], iterations=2, processes=n, progress=False)
        for n in (1, 2)
    )
    assert one.rows == two.rows
    assert all(torch.equal(one.fit.weights[name], two.fit.weights[name]) for name in one.fit.weights)


def test_a_setting_that_cannot_be_trained_does_not_win() -> None:
    init = pu.init.from_weights({
        "start": torch.zeros(1), "transition": torch.zeros(1, 1), "emission": torch.tensor([[0.0, -math.inf]])
    })  # fmt: skip
    with pytest.raises(FitError, match=r"no setting could be trained: iteration 0: .* has probability zero"):
        select_steps(Tagger(1, 2), [[0], [1]], powers=[0.7], init=init, processes=1, progress=False)


def test_an_empty_grid_and_impossible_powers_are_refused() -> None:
    with pytest.raises(FitError, match="the grid is empty: expected at least one power and one batch size"):
        select_steps(MODEL, CORPUS, powers=[], processes=1, progress=False)
    with pytest.raises(FitError, match=r"power must lie in \(0.5, 1\]"):
        select_steps(MODEL, CORPUS, powers=[0.2], processes=1, progress=False)
