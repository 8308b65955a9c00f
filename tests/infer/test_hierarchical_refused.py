"""What an engine with weights of their own for every example refuses, and what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyro
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import FitError, HierarchicalEM, TableError
from pyro_unsup.models import DMV, HMM, Clusterer, Tagger

from .hierarchical_cases import SENTENCES, clusters, run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"variance": 0.0},
            "the covariance is not positive definite: variance must be a finite number above 0, actual 0.0",
        ),
        ({"variance": "1"}, "variance must be a finite number above 0, actual '1'"),
        ({"within": 1.0}, r"within must be a number in \[0, 1\), actual 1.0"),
        ({"rounds": 0}, "rounds must be a whole number, 1 or more, actual 0"),
        ({"dtype": torch.float16}, "dtype must be torch.float64 or torch.float32"),
    ],
)
def test_settings_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(FitError, match=message):
        HierarchicalEM(DMV(2), **options)


@pytest.mark.parametrize(
    ("covariance", "message"),
    [
        ("round", "HierarchicalEM: covariance is 'diagonal', 'full', a tensor or a mapping .*, actual 'round'"),
        (None, "HierarchicalEM: covariance is 'diagonal', 'full', a tensor or a mapping .*, actual None"),
        (2.0, "HierarchicalEM: covariance=2.0 is a number: say variance=2.0 for a diagonal of them"),
        (torch.eye(5), r"a covariance of shape \(5, 5\) suits no table, expected one of {'root': \(4, 4\),"),
        (np.ones((4, 4)), "table 'root': the covariance is not positive definite, its smallest eigenvalue is"),
        (-np.ones(4), "table 'root': variances must be positive and finite"),
        ({"NN": "noun"}, r"HierarchicalEM: none of the labels in the families is a label of \['attach', 'root',"),
    ],
)
def test_covariances_that_make_no_sense(covariance: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        run(DMV(4), SENTENCES, covariance=covariance)


def test_models_that_do_not_tell_examples_apart() -> None:
    def model(data: dict[str, Tensor]) -> None:
        clusters(data["words"])

    with pytest.raises(FitError, match=r"cannot tell the examples of these data apart \(dict\): give the model a"):
        run(model, {"words": torch.tensor([0, 1])})


def test_models_that_have_no_tables() -> None:
    with pytest.raises(FitError, match="gives every example tables of its own, and the model has no tables: train it"):
        run(HMM(2, start="stationary"), torch.randn(9))


def test_initial_weights_with_zeros() -> None:
    zero = {name: d.layout.uniform() for name, d in Tagger(2, 4).declarations().items()}
    zero["emission"][0] = torch.tensor([1.0, 0, 0, 0]).log()
    with pytest.raises(TableError, match="table 'emission': the mean of a logistic normal must be finite: smooth"):
        run(Tagger(2, 4), SENTENCES, init=pu.init.from_weights(zero))


def test_tables_that_meet_no_data_or_have_no_choice() -> None:
    with pytest.raises(FitError, match="table 'attach' gets no counts at all: does the model use it"):
        run(DMV(2), [[0], [1]])
    with pytest.raises(FitError, match="no row of any table has two outcomes: there is nothing to learn"):
        run(Clusterer(1, 1), [[0, 0]])


def test_too_many_posteriors() -> None:
    with pytest.raises(
        FitError, match=r"the posteriors of 5 examples would take about .* GiB, more than max_gib = 1e-06"
    ):
        run(DMV(4), SENTENCES, max_gib=1e-6)


def test_impossible_examples_are_named() -> None:
    def model(words: Tensor) -> None:
        share = pu.table("share", 2)
        with pyro.plate("words", len(words)):
            kind = pyro.sample("kind", pu.Categorical(share))
            pyro.sample("word", pu.Categorical(torch.tensor([0.5, 0.5, 0.0]).log().expand(2, 3)[kind]), obs=words)

    message = "iteration 0: in examples 2 to 2, item 0 of site 'word' has probability zero: widen the support"
    with pytest.raises(FitError, match=message):
        run(model, torch.tensor([0, 1, 2]))


def test_other_data_are_another_engine() -> None:
    engine = HierarchicalEM(DMV(4)).session()
    engine.step(SENTENCES)
    with pytest.raises(FitError, match="HierarchicalEM remembers the posteriors of the data that it began with"):
        engine.step(SENTENCES[:2])


def test_fits_that_cannot_be_gone_on_from() -> None:
    fit = run(DMV(4), SENTENCES, 2)
    with pytest.raises(FitError, match="has posteriors of other examples for table 'root': resume with the data"):
        run(DMV(4), SENTENCES[:4], 4, resume=fit)
    with pytest.raises(FitError, match=r"has 'root.covariance' of shape \(4,\) in its memory, expected \(1, 4, 4\)"):
        run(DMV(4), SENTENCES, 4, resume=fit, covariance="full")
    fit.memory["stop.covariance"][3] = -1.0
    with pytest.raises(FitError, match="table 'stop': the variance of cell 3 in the fit to go on from is not positive"):
        run(DMV(4), SENTENCES, 4, resume=fit)
    full = run(DMV(4), SENTENCES, 2, covariance="full")
    full.memory["attach.covariance"][5] *= -1
    with pytest.raises(FitError, match="table 'attach': the covariance of row 5 in the fit to go on from is not"):
        run(DMV(4), SENTENCES, 4, resume=full, covariance="full")
    plain = pu.EM(DMV(4), pu.AddLambda(0.1)).run(SENTENCES, iterations=2)
    with pytest.raises(FitError, match=r"the fit to go on from has no 'root.mean' in its memory"):
        run(DMV(4), SENTENCES, 4, resume=plain)
