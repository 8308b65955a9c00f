"""Held-out densities: K-fold and leave-future-out against closed forms and enumeration."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.errors import UnsupError
from pyro_unsup.infer.sizes import example_folds
from pyro_unsup.models import Series
from pyro_unsup.results.arviz import from_groups
from pyro_unsup.workflow.densities import Densities
from pyro_unsup.workflow.elpd import Predictive, log_mean
from pyro_unsup.workflow.engines import infer
from pyro_unsup.workflow.lfo import _Prefixes
from tests.matrix.models import BITEXT

from .test_evidence import SENTENCES, exact_tagger

X = torch.tensor([0.9, -0.4, 1.7, 0.1, 2.2, -1.3, 0.8, 0.3, 1.1, -0.2, 0.5, 1.4], dtype=torch.float64)


def normal(x: Tensor) -> None:
    mean = pyro.sample("mean", dist.Normal(0.0, 3.0))
    with pyro.plate("data", len(x)):
        pyro.sample("x", dist.Normal(mean, 1.0), obs=x)


def posterior(x: Tensor) -> tuple[float, float]:
    """Mean and variance of the mean."""
    precision = len(x) + 1 / 9
    return float(x.sum()) / precision, 1 / precision


class Conjugate:
    """Exact draws of the mean."""

    def __init__(self, model: Any) -> None:
        pass

    def run(self, x: Tensor) -> Any:
        mean, variance = posterior(x)
        return {"mean": dist.Normal(mean, math.sqrt(variance)).sample((2, 4000))}


def predictive(known: Tensor, new: Tensor) -> float:
    mean, variance = posterior(known)
    n = len(new)
    return float(dist.MultivariateNormal(torch.full((n,), mean), torch.eye(n) + variance).log_prob(new))


@pytest.mark.parametrize("folds", [3, len(X)])
def test_k_fold_of_a_conjugate_model(folds: int) -> None:
    found = pu.k_fold(normal, X, Conjugate, folds=folds, progress=False)
    for _, row in found.frame.iterrows():
        train = torch.tensor([x for x, k in zip(X.tolist(), found.frame["fold"], strict=True) if k != row["fold"]])
        right = predictive(train, X[int(row["example"])][None])
        assert row["elpd"] == pytest.approx(right, abs=0.03)
    assert found.frame["example"].tolist() == list(range(len(X)))
    assert f"{folds}-fold" in repr(found)
    assert found.se == pytest.approx(math.sqrt(len(X)) * found.frame["elpd"].std())


def test_loo_of_a_conjugate_model_is_leaving_one_out() -> None:
    draws = Conjugate(None).run(X)
    log_likelihood = Densities(normal, (X,)).pointwise({"mean": draws["mean"].flatten()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz

        data = from_groups({"posterior": draws, "log_likelihood": {"x": log_likelihood.reshape(2, 4000, -1)}})
        found: Any = arviz.loo(data, pointwise=True)
    brute = pu.k_fold(normal, X, Conjugate, folds=len(X), progress=False)
    exact = sum(predictive(torch.cat([X[:i], X[i + 1 :]]), X[i : i + 1]) for i in range(len(X)))
    elpd = float(getattr(found, "elpd_loo", None) or found.elpd)
    assert abs(elpd - exact) < 0.1 * found.se
    assert abs(brute.elpd - exact) < 0.1 * found.se


def test_leaving_one_sentence_out_is_a_ratio_of_evidences() -> None:
    """p(sentence | all others), with tables and tags integrated out, by enumeration."""
    model = pu.models.Tagger(2, 2)
    whole = exact_tagger(2)
    right = [whole - exact_tagger(2, sentences=[s for j, s in enumerate(SENTENCES) if j != i]) for i in range(3)]
    found = pu.k_fold(model, SENTENCES, "gibbs", folds=3, progress=False, run={"sweeps": 2400, "burn_in": 400})
    np.testing.assert_allclose(found.frame["elpd"], right, atol=0.05)


def series() -> Tensor:
    g = torch.Generator().manual_seed(0)
    return torch.cat([torch.randn(20, generator=g) - 2, torch.randn(20, generator=g) + 2])


def test_blocks_of_a_series_are_those_of_compare_sizes() -> None:
    """A fold that is one block has the same held-out density in both."""
    x = series()
    found = pu.k_fold(pu.models.HMM(2), x, pu.EM, folds=4, block=10, progress=False)
    table = pu.compare_sizes(pu.models.HMM(1), x, [2], folds=4, block=10, progress=False)
    assert len(found.frame) == 4
    assert found.frame[["start", "end"]].to_numpy().tolist() == [[0, 10], [10, 20], [20, 30], [30, 40]]
    assert found.elpd / 40 == pytest.approx(table["held_out"][0], rel=1e-9)


def test_small_blocks_are_predicted_one_by_one() -> None:
    x = series()
    found = pu.k_fold(pu.models.HMM(2), [x[:25], x[25:]], pu.EM, folds=2, block=4, progress=False)
    assert found.frame["start"].is_monotonic_increasing
    assert int((found.frame["end"] - found.frame["start"]).sum()) == 40
    assert not ((found.frame["start"] < 25) & (found.frame["end"] > 25)).any()  # no block spans two series
    # One of them by hand.
    row = found.frame.iloc[3]
    hidden = torch.zeros(40, dtype=torch.bool)
    for _, other in found.frame[found.frame["fold"] == row["fold"]].iterrows():
        hidden[int(other["start"]) : int(other["end"])] = True
    both = Series.of([x[:25], x[25:]])
    fit = pu.EM(pu.models.HMM(2)).run(both.without(hidden), seed=0, progress=False)
    shown = hidden.clone()
    shown[int(row["start"]) : int(row["end"])] = False
    right = fit.log_likelihood(both.without(shown)) - fit.log_likelihood(both.without(hidden))
    assert row["elpd"] == pytest.approx(right, rel=1e-8)


def test_more_states_are_compared_on_the_same_folds() -> None:
    x = torch.cat([series()[:10], series()[20:30], series()[10:20], series()[30:]])
    one, two = (pu.k_fold(pu.models.HMM(k), x, pu.EM, folds=4, block=5, progress=False) for k in (1, 2))
    difference, se = two.compare(one)
    assert difference > se > 0


def test_variational_bayes_is_averaged_over_its_posterior() -> None:
    model = pu.models.Tagger(2, 2)
    spread, point = 0.0, 0.0
    for seed in range(4):
        how = {"folds": 3, "seed": seed, "progress": False}
        spread += pu.k_fold(model, SENTENCES * 3, "vb", draws=300, **how).elpd
        point += pu.k_fold(model, SENTENCES * 3, pu.EM, **how).elpd
    assert spread > point  # on average, a point is too sure of itself


def exact_future(first: int, ahead: int) -> list[float]:
    return [predictive(X[:t], X[t : t + ahead]) for t in range(first, len(X) - ahead + 1)]


@pytest.mark.parametrize("ahead", [1, 3])
def test_leave_future_out_of_a_conjugate_model(ahead: int) -> None:
    found = pu.leave_future_out(normal, X, Conjugate, first=4, ahead=ahead, progress=False)
    np.testing.assert_allclose(found.frame["elpd"], exact_future(4, ahead), atol=0.05)
    assert found.frame["refit"].sum() < len(found.frame) / 2
    exact = pu.leave_future_out(normal, X, Conjugate, first=4, ahead=ahead, threshold=-math.inf, progress=False)
    assert exact.frame["refit"].all()
    np.testing.assert_allclose(exact.frame["elpd"], exact_future(4, ahead), atol=0.05)


def test_a_shift_in_the_series_makes_it_refit() -> None:
    x = torch.cat([X[:6], X[:6] + 4])
    found = pu.leave_future_out(normal, x, Conjugate, first=4, progress=False)
    late = found.frame[found.frame["time"] > 6]
    assert late["refit"].any()
    assert "refits" in repr(found)
    right = np.array([predictive(x[:t], x[t : t + 1]) for t in range(4, 12)])
    # The estimate is unbiased. What it varies by comes from the time after the shift, whose value lies four deviations
    # off: the posterior of the time before has variance v = 1 / (6 + 1/9), and log mean p(x | draw) of n draws has the
    # deviation sqrt(((1 + v) / sqrt(1 + 2 v) exp(d^2 v / ((1 + v) (1 + 2 v))) - 1) / n), for values d off. Importance
    # weights make n draws count as fewer; over seeds, the sum of all times has a deviation of 0.15.
    assert abs(found.elpd - right.sum()) < 4 * 0.15
    again = found.frame["refit"].to_numpy()
    np.testing.assert_allclose(found.frame["elpd"][again], right[again], atol=0.05)
    never = pu.leave_future_out(normal, x, Conjugate, first=4, threshold=math.inf, progress=False)
    assert never.frame["refit"].sum() == 1
    assert np.abs(never.frame["elpd"] - right).max() > np.abs(found.frame["elpd"] - right).max()


def test_beginnings_of_a_series_at_once_are_those_one_by_one() -> None:
    """An HMM with a categorical emission has tables only, so variational Bayes finds a posterior of all of it."""
    model = pu.models.HMM(2, "categorical", categories=2)
    x = torch.tensor([0, 0, 1, 0, 1, 1, 1, 0, 1, 1]).double()
    prefixes = _Prefixes(model, x)
    fit = pu.EM(model, pu.DirichletVB()).run(x[:6], progress=False)
    fitted = Predictive(model, fit, (prefixes.upto(6),), 30, 0)
    at_once = prefixes.totals(fitted, [6, 8, 10])
    apart = torch.stack([fitted.pointwise(x[:t])[:, 0] for t in (6, 8, 10)], 1)
    torch.testing.assert_close(at_once, apart)
    found = pu.leave_future_out(model, x, "vb", first=6, draws=200, progress=False)
    assert np.isfinite(found.elpd)
    assert found.frame["time"].tolist() == [6, 7, 8, 9]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pu.k_fold(normal, X, Conjugate, folds=1), "folds must be a whole number, 2 or more"),
        (lambda: pu.k_fold(normal, X, Conjugate, block=3), "block is for series"),
        (lambda: pu.k_fold(normal, {0: 1, 1: 2}, Conjugate, folds=2), "cannot be selected"),
        (lambda: pu.leave_future_out(normal, X, Conjugate, first=len(X)), "leave something to predict"),
        (lambda: pu.leave_future_out(pu.models.HMM(2), series(), pu.EM, first=30), "finds a point"),
        (lambda: pu.leave_future_out(pu.models.HMM(2), [X, X], pu.EM, first=3), "is for one series"),
        (lambda: pu.leave_future_out(normal, [1, 2], Conjugate, first=1), "first axis is time"),
    ],
)
def test_refused(call: Any, says: str) -> None:
    with pytest.raises(UnsupError) as error:
        call()
    assert says in str(error.value)
    one = pu.k_fold(normal, X, Conjugate, folds=2, progress=False)
    two = pu.leave_future_out(normal, X, Conjugate, first=10, progress=False)
    with pytest.raises(UnsupError, match="same held-out data"):
        one.compare(two)


def mixture(x: Tensor) -> None:
    weights = pyro.sample("weights", dist.Dirichlet(torch.ones(2)))
    loc = pyro.sample("loc", dist.Normal(0.0, 3.0).expand([2]).to_event(1))
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", dist.Categorical(weights), infer={"enumerate": "parallel"})
        pyro.sample("x", dist.Normal(loc[z], 1.0), obs=x)


class Known:
    """Two draws that do not depend on the data, in single precision."""

    def __init__(self, model: Any = None) -> None:
        weights, loc = [[[0.3, 0.7], [0.5, 0.5]]], [[[-2.0, 2.0], [-1.0, 1.5]]]
        self.draws = {"weights": torch.tensor(weights).float(), "loc": torch.tensor(loc).float()}

    def run(self, x: Tensor) -> Any:
        return self.draws


def test_folds_of_enumerated_variables_are_summed_by_hand() -> None:
    x = torch.tensor([-2.0, -2.2, 2.0, 2.1, 1.9, -1.8]).double()
    found = pu.k_fold(mixture, x, Known, folds=3, progress=False)
    weights, loc = (x[0].double() for x in Known().draws.values())
    each = (weights.log()[:, None] + dist.Normal(loc[:, None], 1.0).log_prob(x[None, :, None])).logsumexp(-1)
    right = each.logsumexp(0) - math.log(2)
    assert found.frame["elpd"].to_numpy() == pytest.approx(right.numpy(), rel=1e-5)


def test_an_example_of_two_sites_is_held_out_whole() -> None:
    model = pu.models.Aligner.of(BITEXT, agreement=None)
    found = pu.k_fold(model, BITEXT, "vb", folds=2, draws=20, progress=False)
    assert len(found.frame) == len(BITEXT)
    _, held = example_folds(len(BITEXT), 2, 0)
    rest = torch.tensor([i for i in range(len(BITEXT)) if i not in held])
    fit = infer("vb", model, (BITEXT.select(rest),), 0, {}, draws=20)
    whole = pu.to_arviz(fit, BITEXT.select(held), draws=20, seed=0).log_likelihood
    right = log_mean(torch.from_numpy(next(iter(whole.data_vars.values())).values[0]))
    assert found.frame["elpd"][held.tolist()].to_numpy() == pytest.approx(right.numpy())
