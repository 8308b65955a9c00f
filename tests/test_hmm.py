"""hmmlearn's signature: the same numbers as hmmlearn from the same parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hmmlearn import hmm as peer

from pyro_unsup import EM, StructureError, UnsupError, hmm, init

LENGTHS = [50, 30, 40]


def vectors() -> Any:
    rng = np.random.default_rng(0)
    blocks = [rng.normal(c, 1, (n, 2)) for c, n in zip(([-2, -2], [2, 2], [0, 4]), LENGTHS, strict=True)]
    return np.roll(np.concatenate(blocks), 15, axis=0)  # so that series go from state to state


def prepared(kind: Any, covariance: str, **options: Any) -> Any:
    model = kind(3, covariance, n_iter=15, tol=-1e30, init_params="", **options)
    model.startprob_, model.transmat_ = np.full(3, 1 / 3), np.full((3, 3), 0.1) + 0.7 * np.eye(3)
    model.means_ = np.array([[-1.0, -1.0], [1.0, 1.0], [0.0, 3.0]])
    shapes = {"diag": (3, 2), "full": (3, 2, 2), "spherical": (3,), "tied": (2, 2)}
    ones = {"full": np.stack([np.eye(2)] * 3), "tied": np.eye(2)}.get(covariance, np.ones(shapes[covariance]))
    model.covars_ = ones
    return model


def same(ours: Any, theirs: Any, X: Any, lengths: Any) -> None:
    """After training from one start, all that both have is the same, number by number."""
    assert ours.score(X, lengths) == pytest.approx(theirs.score(X, lengths), rel=1e-12)
    ours.fit(X, lengths)
    theirs.fit(X, lengths)
    np.testing.assert_allclose(ours.monitor_.history, theirs.monitor_.history, rtol=1e-10)  # every iteration
    assert (ours.monitor_.iter, ours.monitor_.converged) == (theirs.monitor_.iter, theirs.monitor_.converged)
    for name in ours.letters.values():
        found, expected = getattr(ours, name), getattr(theirs, name)
        if name == "covars_" and getattr(ours, "covariance_type", "") == "spherical" and expected.ndim == 3:
            expected = expected[:: len(expected) // len(found)]  # of D equal matrices a state, which is too many
        assert np.shape(found) == np.shape(expected)
        np.testing.assert_allclose(found, expected, atol=1e-8)
    assert ours.n_features == theirs.n_features
    assert ours.score(X, lengths) == pytest.approx(theirs.score(X, lengths), rel=1e-10)
    np.testing.assert_array_equal(ours.predict(X, lengths), theirs.predict(X, lengths))
    np.testing.assert_allclose(ours.predict_proba(X, lengths), theirs.predict_proba(X, lengths), atol=1e-9)
    np.testing.assert_allclose(ours.score_samples(X, lengths)[0], theirs.score_samples(X, lengths)[0], rtol=1e-10)
    assert ours.decode(X, lengths)[0] == pytest.approx(theirs.decode(X, lengths)[0], rel=1e-10)
    assert ours.decode(X, lengths, "map")[0] == pytest.approx(theirs.decode(X, lengths, algorithm="map")[0], rel=1e-9)
    np.testing.assert_allclose(ours.get_stationary_distribution(), theirs.get_stationary_distribution(), atol=1e-9)
    assert ours.fit_.log_likelihood(ours._series(X, lengths)) == pytest.approx(theirs.score(X, lengths), rel=1e-10)


PRIORS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "none": {"covars_prior": 0.0, "covars_weight": 1},
    "strong": {
        "means_prior": 0.5,
        "means_weight": 3.0,
        "covars_prior": 2.0,
        "covars_weight": 5,
        "startprob_prior": 3.0,
        "transmat_prior": np.array([[5.0, 1.0, 2.0]] * 3),
    },
    "sparse": {"transmat_prior": 0.5, "startprob_prior": 0.5},
}


@pytest.mark.parametrize("covariance", ["diag", "full", "spherical", "tied"])
@pytest.mark.parametrize("priors", PRIORS)
def test_gaussian_training_is_that_of_hmmlearn(covariance: str, priors: str) -> None:
    X = vectors()
    ours, theirs = (prepared(kind, covariance, **PRIORS[priors]) for kind in (hmm.GaussianHMM, peer.GaussianHMM))
    same(ours, theirs, X, LENGTHS)
    assert ours.bic(X, LENGTHS) == pytest.approx(theirs.bic(X, LENGTHS), rel=1e-10)
    assert ours.aic(X, LENGTHS) == pytest.approx(theirs.aic(X, LENGTHS), rel=1e-10)


@pytest.mark.parametrize("params", ["", "s", "mc", "t", "stm"])
@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_what_is_not_trained_stays(params: str, covariance: str) -> None:
    ours, theirs = (prepared(kind, covariance, params=params) for kind in (hmm.GaussianHMM, peer.GaussianHMM))
    same(ours, theirs, vectors(), LENGTHS)


def test_a_forbidden_step_stays_forbidden_and_training_ends_where_hmmlearn_does() -> None:
    both = []
    for kind in (hmm.GaussianHMM, peer.GaussianHMM):
        model = prepared(kind, "diag")
        model.tol = model.monitor_.tol = 1e-2
        model.n_iter = model.monitor_.n_iter = 200
        model.startprob_ = np.array([1.0, 0.0, 0.0])
        model.transmat_ = np.array([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.0, 0.0, 1.0]])
        both.append(model)
    same(*both, vectors(), None)
    assert both[0].monitor_.iter < 200
    assert both[0].transmat_[0, 2] == 0


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("options", [{}, {"lambdas_prior": 2.0, "lambdas_weight": 3.0}, {"params": "st"},
                                     {"startprob_prior": 3.0, "transmat_prior": 5.0, "implementation": "scaling"}],
                         ids=["plain", "priors", "fixed rates", "priors of the chain"])  # fmt: skip
def test_poisson_training_is_that_of_hmmlearn(options: dict[str, Any], columns: int) -> None:
    X = np.random.default_rng(1).poisson(np.repeat([2, 20, 5], 40)[:, None], (120, columns))
    both = []
    for kind in (hmm.PoissonHMM, peer.PoissonHMM):
        model: Any = kind(2, n_iter=20, tol=-1e30, init_params="", **options)
        model.startprob_, model.transmat_ = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.1, 0.9]])
        model.lambdas_ = np.array([[3.0, 4.0], [15.0, 12.0]])[:, :columns]
        model.n_features = columns
        both.append(model)
    same(*both, X, [70, 50])
    assert both[0].aic(X) == pytest.approx(both[1].aic(X))
    assert both[0].bic(X) == pytest.approx(both[1].bic(X))


@pytest.mark.parametrize("prior", [1.0, 2.5, np.array([[1.0, 2.0, 1.0, 3.0]] * 2)], ids=["none", "one", "cells"])
def test_categorical_training_is_that_of_hmmlearn(prior: Any) -> None:
    X = np.random.default_rng(2).integers(4, size=(200, 1))
    both = []
    for kind in (hmm.CategoricalHMM, peer.CategoricalHMM):
        model: Any = kind(2, n_iter=10, tol=-1e30, init_params="", emissionprob_prior=prior)
        model.startprob_, model.transmat_ = np.array([0.6, 0.4]), np.array([[0.8, 0.2], [0.3, 0.7]])
        model.emissionprob_ = np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4]])
        model.n_features = 4
        both.append(model)
    same(*both, X, [120, 80])
    assert both[0].aic(X) == pytest.approx(both[1].aic(X))


MIXTURES: dict[str, dict[str, Any]] = {
    "plain": {},
    "priors": {"weights_prior": 2.0, "means_prior": 0.5, "means_weight": 2.0},
    "fixed": {"params": "stmw"},
}


@pytest.mark.parametrize("covariance", ["diag", "full", "spherical", "tied"])
@pytest.mark.parametrize("options", MIXTURES)
def test_mixtures_are_trained_as_by_hmmlearn(covariance: str, options: str) -> None:
    X, both = vectors(), []
    eye = np.eye(2)
    covars = {"diag": np.ones((2, 2, 2)), "full": np.tile(eye, (2, 2, 1, 1)), "spherical": np.ones((2, 2)),
              "tied": np.tile(eye, (2, 1, 1))}[covariance]  # fmt: skip
    more: dict[str, Any] = dict(MIXTURES[options])
    if options == "priors":
        more |= {"diag": {"covars_prior": 1.0, "covars_weight": 0.5}, "spherical": {"covars_prior": 1.0,
                 "covars_weight": 0.5}}.get(covariance, {"covars_prior": eye, "covars_weight": 4.0})  # fmt: skip
    for kind in (hmm.GMMHMM, peer.GMMHMM):
        model: Any = kind(2, 2, covariance_type=covariance, n_iter=10, tol=-1e30, init_params="", **more)
        model.startprob_, model.transmat_ = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.1, 0.9]])
        model.means_ = np.array([[[-2.0, -1.0], [0.5, 3.0]], [[1.0, 2.0], [3.0, 1.0]]])
        model.weights_, model.covars_ = np.array([[0.6, 0.4], [0.5, 0.5]]), covars.copy()
        both.append(model)
    same(*both, X, LENGTHS)
    assert both[0].sample(5)[0].shape == (5, 2)


def test_coordinates_that_are_missing_count_as_expected() -> None:
    """The M step for a full covariance never lowers the likelihood, and ends where the library's own engine does."""
    X = vectors()
    X[[3, 20, 77], [1, 0, 1]] = X[10] = np.nan
    options: dict[str, Any] = {"covars_prior": 0.0, "covars_weight": 0, "n_iter": 300, "tol": 1e-9}
    model = prepared(hmm.GaussianHMM, "full")
    model.set_params(**options)
    model.monitor_ = hmm.ConvergenceMonitor(1e-9, 300, verbose=False)
    model.fit(X, LENGTHS)
    assert (np.diff(model.monitor_.history) > -1e-9).all()
    on = EM(model.fit_.model, init=init.from_weights(model.fit_))
    further = on.run(model._series(X, LENGTHS), iterations=5, tolerance=0.0, progress=False)
    assert further.objective == pytest.approx(model.score(X, LENGTHS), rel=1e-8)


def test_a_monitor_of_ones_own_says_when_to_end() -> None:
    class Twice(hmm.ConvergenceMonitor):
        @property
        def converged(self) -> bool:
            return self.iter == 2

    model = prepared(hmm.GaussianHMM, "diag")
    model.monitor_ = Twice(0.0, 100, verbose=False)
    assert len(model.fit(vectors(), LENGTHS).monitor_.history) == 2


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    prepared(hmm.GaussianHMM, "diag", verbose=True).fit(vectors(), LENGTHS)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 15
    assert lines[0].split()[0] == "1"
    assert lines[0].split()[2] == "+nan"


def test_draws_may_begin_at_a_state() -> None:
    model = prepared(hmm.GaussianHMM, "diag")
    assert all(model.sample(3, random_state=i, currstate=2)[1][0] == 2 for i in range(5))


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
    for kind in (hmm.GaussianHMM, hmm.GMMHMM):
        with pytest.raises(UnsupError, match="covariance_type must be diag, full, spherical or tied"):
            kind(2, covariance_type="round")
    with pytest.raises(UnsupError, match=r"params has the letter 'x', expected some of s \(startprob_\), t"):
        hmm.PoissonHMM(2, params="stx")
    model = hmm.GaussianHMM(2, "tied")
    with pytest.raises(UnsupError, match=r"covars_ of covariance_type 'tied' has shape \(D, D\), actual \(3, 2\)"):
        model.covars_ = np.ones((3, 2))
    with pytest.raises(UnsupError, match="covars_ must be positive"):
        model.covars_ = -np.eye(2)
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
