"""Comparison of sizes: information criteria by their formulas, and held-out likelihood by refitting."""

from __future__ import annotations

import math
from typing import Any

import pyro
import pyro.distributions as dist
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.errors import FitError
from pyro_unsup.infer.sizes import example_folds, held_out_blocks
from pyro_unsup.results.criteria import free_parameters


def counts() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.poisson(torch.tensor([3.0, 20.0]).repeat_interleave(40).repeat(2)).double()


def test_criteria_are_their_formulas() -> None:
    x = counts()
    fit = pu.EM(pu.models.HMM(2, "poisson")).run(x, progress=False)
    log_p, k = fit.log_likelihood(x), 1 + 2 + 2
    assert free_parameters(fit) == k
    assert fit.aic(x) == pytest.approx(2 * k - 2 * log_p)
    assert fit.bic(x) == pytest.approx(k * math.log(160) - 2 * log_p)
    assert fit.icl(x) == pytest.approx(fit.bic(x) + 2 * float(fit.posterior(x).entropy.sum()))


def test_parameters_of_all_kinds_are_counted() -> None:
    HMM = pu.models.HMM
    assert HMM(3, "poisson").free_parameters() == 9 + 2
    assert HMM(3, "poisson", start="stationary").free_parameters() == 9
    assert HMM(3, "poisson", independent=True).free_parameters() == 3 + 2
    assert HMM(2, "normal", support="left-to-right").free_parameters() == 1 + 1 + 4
    assert HMM(2, "categorical", categories=5).free_parameters() == 1 + 2 + 8
    sizes = {"full": 2 * 6, "tied": 6, "diagonal": 2 * 3, "spherical": 2}
    for covariance, more in sizes.items():
        model = HMM(2, "multivariate_normal", dim=3, covariance=covariance)
        assert model.free_parameters() == 1 + 2 + 2 * 3 + more


def test_missing_observations_do_not_count() -> None:
    x = counts()
    fit = pu.EM(pu.models.HMM(2, "poisson")).run(x, progress=False)
    x[:10] = torch.nan
    assert pu.results.criteria.criteria(fit, x)["observations"] == 150


def test_the_right_size_is_found() -> None:
    table = pu.compare_sizes(pu.models.HMM(1, "poisson"), counts(), [1, 2, 3], folds=3, progress=False).set_index(
        "states"
    )
    assert table["bic"].idxmin() == 2
    assert table["held_out"].idxmax() in (2, 3)
    assert table.loc[2, "held_out"] > table.loc[1, "held_out"] + 1
    assert table["log_likelihood"].is_monotonic_increasing
    plain = pu.compare_sizes(lambda k: pu.models.HMM(k, "poisson"), counts(), [2], folds=0, progress=False)
    assert "held_out" not in plain


def test_held_out_likelihood_is_that_of_the_hidden_given_the_rest() -> None:
    """With one state observations are independent: the hidden ones under the rate of all others."""
    x = counts()
    table = pu.compare_sizes(pu.models.HMM(1, "poisson"), x, [1], folds=2, block=10, seed=3, progress=False)
    total = 0.0
    for hidden in held_out_blocks(torch.ones(160, dtype=torch.bool), 2, 10, 3):
        rate = x[~hidden].mean()
        total += float(torch.distributions.Poisson(rate).log_prob(x[hidden]).sum())
    assert float(table["held_out"][0]) == pytest.approx(total / 160, rel=1e-9)


def test_every_observation_is_held_out_once() -> None:
    found = held_out_blocks(torch.ones(103, dtype=torch.bool), 4, 5, 0)
    assert torch.equal(torch.stack(found).sum(0), torch.ones(103, dtype=torch.long))


def test_refusals() -> None:
    with pytest.raises(pu.FitError, match="at least one size"):
        pu.compare_sizes(pu.models.HMM(1), counts(), [])
    with pytest.raises(pu.FitError, match="folds need at least 2"):
        held_out_blocks(torch.ones(10, dtype=torch.bool), 1, 2, 0)


def test_held_out_sentences_are_predicted_by_all_others() -> None:
    corpus = pu.data.toy.sentences(12, seed=1).merge_rare(3)
    model = pu.models.Tagger(1, corpus.vocab)
    table = pu.compare_sizes(model, corpus, [2], folds=3, seed=4, progress=False)
    total, tokens = 0.0, 0
    parts = example_folds(12, 3, 4)
    assert sorted(torch.cat(parts).tolist()) == list(range(12))
    for held in parts:
        rest = sorted(set(range(12)) - set(held.tolist()))
        fit = pu.EM(model.with_states(2), pu.AddLambda(0.1)).run(corpus.select(rest), seed=4, progress=False)
        new = corpus.select(held.tolist())
        total, tokens = total + fit.log_likelihood(new), tokens + new.tokens
    assert table["held_out"][0] == pytest.approx(total / tokens, rel=1e-9)
    assert tokens == corpus.tokens
    with pytest.raises(FitError, match="folds must be 2 or more, and at most as many as the 12 examples"):
        pu.compare_sizes(model, corpus, [2], folds=13, progress=False)


def test_sizes_of_a_model_of_ones_own() -> None:
    """Points have a log prior, which is no part of what held-out data say."""

    def make(K: int) -> Any:
        def mixture(x: Any) -> None:
            share = pu.table("share", K)
            with pyro.plate("components", K):
                mean = pyro.sample("mean", dist.Normal(0.0, 5.0))
            with pyro.plate("data", len(x)):
                z = pyro.sample("z", pu.Categorical(share))
                pyro.sample("x", dist.Normal(mean[z], 1.0), obs=x)

        return mixture

    g = torch.Generator().manual_seed(0)
    x = torch.randn(40, generator=g, dtype=torch.float64)
    x[::2] += 6
    table = pu.compare_sizes(make, x, [1, 2], folds=2, progress=False).set_index("states")
    assert table["held_out"].idxmax() == 2
    total = 0.0
    for held, rest in zip(example_folds(40, 2, 0), example_folds(40, 2, 0)[::-1], strict=True):
        # One component: the posterior mode of its mean is known.
        mean = x[rest].sum() / (len(rest) + 1 / 25)
        total += float(dist.Normal(mean, 1.0).log_prob(x[held]).sum())
    assert table.loc[1, "held_out"] == pytest.approx(total / 40, abs=1e-5)
