"""hmmlearn's signature: the same numbers as hmmlearn from the same parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hmmlearn import hmm as peer

from pyro_unsup import StructureError, UnsupError, hmm

LENGTHS = [50, 30, 40]


def vectors() -> Any:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(c, 1, (n, 2)) for c, n in zip(([-2, -2], [2, 2], [0, 4]), LENGTHS, strict=True)])


def prepared(kind: Any, covariance: str, **options: Any) -> Any:
    model = kind(3, covariance, n_iter=15, tol=-1e30, init_params="", **options)
    model.startprob_, model.transmat_ = np.full(3, 1 / 3), np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    model.means_ = np.array([[-1.0, -1.0], [1.0, 1.0], [0.0, 3.0]])
    shapes = {"diag": (3, 2), "full": (3, 2, 2), "spherical": (3,), "tied": (2, 2)}
    ones = {"full": np.stack([np.eye(2)] * 3), "tied": np.eye(2)}.get(covariance, np.ones(shapes[covariance]))
    model.covars_ = ones
    return model


@pytest.mark.parametrize("covariance", ["diag", "full", "spherical", "tied"])
def test_gaussian_training_is_that_of_hmmlearn(covariance: str) -> None:
    X = vectors()
    ours = prepared(hmm.GaussianHMM, covariance, min_covar=1e-12)
    theirs = prepared(peer.GaussianHMM, covariance, min_covar=0, means_weight=0, covars_prior=0)
    theirs.covars_weight = 1 if covariance in ("diag", "spherical") else 0
    assert ours.score(X, LENGTHS) == pytest.approx(theirs.score(X, LENGTHS), rel=1e-12)
    ours.fit(X, LENGTHS)
    theirs.fit(X, LENGTHS)
    assert ours.score(X, LENGTHS) == pytest.approx(theirs.score(X, LENGTHS), rel=1e-10)
    np.testing.assert_allclose(ours.transmat_, theirs.transmat_, atol=1e-9)
    np.testing.assert_allclose(ours.means_, theirs.means_, atol=1e-9)
    np.testing.assert_array_equal(ours.predict(X, LENGTHS), theirs.predict(X, LENGTHS))
    np.testing.assert_allclose(ours.predict_proba(X, LENGTHS), theirs.predict_proba(X, LENGTHS), atol=1e-9)
    assert ours.bic(X, LENGTHS) == pytest.approx(theirs.bic(X, LENGTHS), rel=1e-10)
    assert ours.aic(X, LENGTHS) == pytest.approx(theirs.aic(X, LENGTHS), rel=1e-10)
    assert ours.decode(X, LENGTHS)[0] == pytest.approx(theirs.decode(X, LENGTHS)[0], rel=1e-10)
    assert ours.decode(X, LENGTHS, "map")[0] == pytest.approx(theirs.decode(X, LENGTHS, algorithm="map")[0], rel=1e-9)


def test_poisson_training_is_that_of_hmmlearn() -> None:
    X = np.random.default_rng(1).poisson(np.repeat([2, 20, 5], 40))[:, None]
    both = []
    for kind in (hmm.PoissonHMM, peer.PoissonHMM):
        model: Any = kind(2, n_iter=20, tol=-1e30, init_params="")
        model.startprob_, model.transmat_ = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.1, 0.9]])
        model.lambdas_ = np.array([[3.0], [15.0]])
        if kind is peer.PoissonHMM:
            model.lambdas_prior, model.lambdas_weight = 0.0, 0.0
        both.append(model.fit(X))
    np.testing.assert_allclose(both[0].lambdas_, both[1].lambdas_, atol=1e-8)
    assert both[0].score(X) == pytest.approx(both[1].score(X), rel=1e-10)


def test_categorical_training_is_that_of_hmmlearn() -> None:
    X = np.random.default_rng(2).integers(4, size=(200, 1))
    both = []
    for kind in (hmm.CategoricalHMM, peer.CategoricalHMM):
        model: Any = kind(2, n_iter=10, tol=-1e30, init_params="")
        model.startprob_, model.transmat_ = np.array([0.6, 0.4]), np.array([[0.8, 0.2], [0.3, 0.7]])
        model.emissionprob_ = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
        both.append(model.fit(X))
    np.testing.assert_allclose(both[0].emissionprob_, both[1].emissionprob_, atol=1e-9)
    assert both[0].score(X) == pytest.approx(both[1].score(X), rel=1e-10)


def test_priors_of_the_chain_are_those_of_hmmlearn() -> None:
    X = np.random.default_rng(1).poisson(np.repeat([2, 20, 5], 40))[:, None]
    both = []
    for kind in (hmm.PoissonHMM, peer.PoissonHMM):
        model: Any = kind(
            2, n_iter=20, tol=-1e30, init_params="", startprob_prior=3.0, transmat_prior=5.0, implementation="scaling"
        )
        model.startprob_, model.transmat_ = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.1, 0.9]])
        model.lambdas_ = np.array([[3.0], [15.0]])
        if kind is peer.PoissonHMM:
            model.lambdas_prior, model.lambdas_weight = 0.0, 0.0
        both.append(model.fit(X))
    np.testing.assert_allclose(both[0].transmat_, both[1].transmat_, atol=1e-9)
    np.testing.assert_allclose(both[0].startprob_, both[1].startprob_, atol=1e-9)


def test_what_hmmlearn_has_not() -> None:
    X = vectors()
    X[3, 1] = X[10] = np.nan
    model = hmm.GaussianHMM(3, n_iter=50, random_state=1).fit(X, LENGTHS)
    assert model.monitor_.converged
    assert np.isfinite(model.score(X, LENGTHS))
    found = model.posterior(X, LENGTHS)
    assert found.filtered.shape == (120, 3)
    assert model.fit_.posterior(X[:50]).forecast(4).mean.shape == (1, 4, 2)
    assert model.fit_.log_likelihood(model._series(X, LENGTHS)) == pytest.approx(model.score(X, LENGTHS))


def test_draws_follow_the_model() -> None:
    model = hmm.PoissonHMM(2, random_state=3)
    model.startprob_, model.transmat_ = np.array([1.0, 0.0]), np.array([[0.9, 0.1], [0.2, 0.8]])
    model.lambdas_ = np.array([[2.0], [30.0]])
    X, states = model.sample(4000)
    assert X.shape == (4000, 1)
    assert states[0] == 0
    np.testing.assert_allclose(np.bincount(states) / 4000, model.get_stationary_distribution(), atol=0.06)
    assert X[states == 1].mean() == pytest.approx(30, abs=0.6)
    np.testing.assert_array_equal(model.sample(10)[0], model.sample(10)[0])


def test_rates_of_several_columns_are_counted() -> None:
    X = np.random.default_rng(1).poisson(5, (60, 2))
    both = []
    for kind in (hmm.PoissonHMM, peer.PoissonHMM):
        model: Any = kind(2)
        model.startprob_, model.transmat_ = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.1, 0.9]])
        model.lambdas_ = np.array([[3.0, 4.0], [6.0, 7.0]])
        model.n_features = 2
        both.append(model)
    assert both[0].aic(X) == pytest.approx(both[1].aic(X))
    assert both[0].bic(X) == pytest.approx(both[1].bic(X))


def test_errors_say_what_to_do() -> None:
    wrong = hmm.PoissonHMM(2)
    wrong.startprob_, wrong.transmat_ = np.array([0.6, 0.6]), np.array([[0.9, 0.1], [0.1, 0.9]])
    wrong.lambdas_ = np.array([[3.0], [6.0]])
    with pytest.raises(UnsupError, match="rows of startprob_ must sum to 1"):
        wrong.score([[1]])
    with pytest.raises(UnsupError, match="has no startprob_: call fit, or set it"):
        hmm.PoissonHMM(2).score([[1]])
    with pytest.raises(UnsupError, match="covariance_type must be diag, full, spherical or tied"):
        hmm.GaussianHMM(2, "round")
    with pytest.raises(StructureError, match="categories are one column"):
        hmm.CategoricalHMM(2).fit([[0, 1], [1, 1]])


def test_settings_as_scikit_learn_wants_them() -> None:
    base = pytest.importorskip("sklearn.base")
    model = hmm.GaussianHMM(2, "full", n_iter=7, random_state=3)
    copied = base.clone(model)
    assert copied is not model
    assert copied.get_params() == model.get_params()
    assert copied.get_params()["covariance_type"] == "full"
    assert copied.set_params(n_iter=9).n_iter == 9
    with pytest.raises(UnsupError, match="GaussianHMM has no setting 'n_iters', expected one of"):
        model.set_params(n_iters=1)


def test_generators_of_numpy_are_seeds() -> None:
    X = np.random.default_rng(0).normal(size=(40, 1))
    one, same = (hmm.GaussianHMM(2, random_state=np.random.RandomState(5)).fit(X).means_ for _ in range(2))
    np.testing.assert_array_equal(one, same)
