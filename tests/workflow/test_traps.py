"""What people would stumble over: questions that look alike, data of someone else, arrays by chain."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from pyro.infer import MCMC, NUTS

import pyro_unsup as pu
from pyro_unsup.errors import UnsupError


def test_a_file_of_simulations_is_of_one_question(tmp_path: Path) -> None:
    lengths, file = torch.tensor([2] * 6), tmp_path / "done"

    def ask(prior: float = 1.0, sweeps: int = 10, lengths: Any = lengths) -> Any:
        model = pu.models.Clusterer(clusters=2, vocab=3, prior=prior)
        how = {"run": {"sweeps": sweeps}, "checkpoint": file, "processes": 1, "progress": False}
        return pu.sbc(model, "gibbs", None, lengths, simulations=2, **how)

    ask()
    ask()
    for other in ({"prior": 5.0}, {"sweeps": 11}, {"lengths": torch.tensor([3] * 6)}):
        with pytest.raises(UnsupError, match="holds simulations of something else"):
            ask(**other)


def test_samples_belong_to_their_data() -> None:
    data = [[4, 1, 2], [3, 2, 1], [1, 0, 1]]
    samples = pu.CollapsedGibbs(pu.models.Tagger(2, 5)).run(data, sweeps=6, progress=False)
    pu.to_arviz(samples, data, groups=["posterior"])
    with pytest.raises(UnsupError, match="these data are not the ones that were sampled"):
        pu.to_arviz(samples, [[4, 4, 4], [0, 0, 0], [1, 1, 1]])


def test_words_are_sampled_as_they_are() -> None:
    vocab = pu.data.Vocab(["the", "dog", "barks"])
    sampler = pu.CollapsedGibbs(pu.models.Tagger(2, vocab))
    words = sampler.run([["the", "dog"], ["dog", "barks"]], sweeps=4, progress=False)
    numbers = sampler.run([[0, 1], [1, 2]], sweeps=4, progress=False)
    assert (words.labels == numbers.labels).all()


def test_draws_by_chain_are_checked_as_one_row_of_draws() -> None:
    x = torch.randn(8)
    mcmc = MCMC(NUTS(pu.models.HMM(2)), 8, 4, disable_progbar=True)  # as many draws as steps; means are not sampled
    mcmc.run(x)
    found = pu.to_arviz(mcmc, groups=["posterior_predictive"])
    whole = pu.predictive_check(found, x, model=pu.models.HMM(2)).table
    one = pu.predictive_check(found.posterior_predictive["x"], x, model=pu.models.HMM(2)).table
    by_hand = pu.predictive_check(found.posterior_predictive["x"].values[0], x, model=pu.models.HMM(2)).table
    assert whole.equals(one)
    assert whole.equals(by_hand)


def test_the_evidence_of_one_naming_says_so() -> None:
    documents = [[0, 0, 0, 0, 0, 1]] * 3 + [[1, 1, 1, 1, 1, 0]] * 3
    fit = pu.EM(pu.models.Clusterer(clusters=2, vocab=2), pu.DirichletVB()).run(documents, progress=False)
    found = pu.importance(fit, documents, draws=100)
    assert found.log_namings == pytest.approx(math.log(2))
    assert "of one naming of the states; up to 0.69 more" in repr(found)


def test_gibbs_by_name_for_models_without_a_sampler_of_their_own() -> None:
    model = pu.models.HMM(2, "poisson", prior={"rate": dist.Gamma(2.0, 1.0)})
    x = torch.tensor([1.0, 0.0, 2.0, 7.0, 9.0, 8.0, 1.0, 2.0])
    how = {"folds": 2, "run": {"draws": 20, "warmup": 5}, "progress": False}
    assert pu.k_fold(model, x, "gibbs", **how).elpd == pu.k_fold(model, x, pu.BlockedGibbs, **how).elpd


def test_a_mixture_of_single_precision() -> None:
    model = pu.models.HMM(2, independent=True, prior={"loc": dist.Normal(0.0, 3.0), "scale": dist.HalfNormal(2.0)})
    mcmc = MCMC(NUTS(model), 3, 3, disable_progbar=True)
    mcmc.run(torch.randn(6))
    assert mcmc.get_samples()["loc"].shape == (3, 2)
