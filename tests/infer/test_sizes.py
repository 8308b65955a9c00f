"""Comparison of sizes: information criteria by their formulas, and held-out likelihood by refitting."""

from __future__ import annotations

import math

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.infer.sizes import held_out_blocks
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
