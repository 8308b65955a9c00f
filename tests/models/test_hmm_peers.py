"""The hidden Markov model beside other libraries, on the same data and parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import TraceEnum_ELBO, config_enumerate

import pyro_unsup as pu
from pyro_unsup.models import HMM

K, D = 3, 2
LENGTHS = [40, 25, 35]
START = np.array([0.5, 0.3, 0.2])
STEPS = np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]])
ITERATIONS = 8
NAMES = {"spherical": "scale", "diagonal": "scale", "full": "covariance", "tied": "covariance"}


def vectors() -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(1)
    states = np.repeat([0, 1, 2, 0, 1], 20)
    return rng.normal(size=(100, D)) * (1 + 0.3 * states[:, None]) + 3 * states[:, None]


MEANS = np.array([[0.5, -0.5], [3.0, 2.0], [5.0, 7.0]])


def trajectory(model: HMM, data: Any, start: Any = START, steps: Any = STEPS, **tables: Any) -> tuple[list[float], Any]:
    """Log-likelihoods of EM from given tables, and where it is after them."""
    first = {"start": np.log(start), "transition": np.log(steps), **tables}
    names = model.declarations()
    engine = pu.EM(model, init=pu.init.from_weights({n: torch.as_tensor(x) for n, x in first.items() if n in names}))
    state, found = engine.init(data, seed=0), []
    for _ in range(ITERATIONS):
        state, info = engine.step(state)
        found.append(info.log_likelihood)
    return found, state


@pytest.mark.parametrize("kind", ["spherical", "diagonal", "full", "tied"])
def test_hmmlearn_normal(kind: str) -> None:
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    x = vectors()
    name = "diag" if kind == "diagonal" else kind
    theirs = hmmlearn.GaussianHMM(
        K, name, n_iter=ITERATIONS, tol=-np.inf, init_params="", covars_prior=0, covars_weight=0, min_covar=0
    )
    theirs.startprob_, theirs.transmat_, theirs.means_ = START, STEPS, MEANS.copy()
    scales = np.array([[1.0, 1.0], [1.5, 1.5], [2.0, 2.0]])
    full = np.stack([np.diag(row**2) for row in scales])
    theirs.covars_ = {"spherical": scales[:, 0] ** 2, "diagonal": scales**2, "full": full, "tied": full[1]}[kind]
    spread = {"spherical": scales[:, :1], "diagonal": scales, "full": full, "tied": full[1:2]}[kind]
    model = HMM(K, "multivariate_normal", dim=D, covariance=kind, init={"loc": MEANS, NAMES[kind]: spread})
    ours, state = trajectory(model, pu.models.Series.of(x, LENGTHS))
    theirs.fit(x, LENGTHS)
    np.testing.assert_allclose(ours, list(theirs.monitor_.history)[:ITERATIONS], rtol=1e-8)
    problem = state.problem
    problem.parameters.write(state.unconstrained)
    torch.testing.assert_close(
        state.weights["transition"].exp(), torch.as_tensor(theirs.transmat_), rtol=1e-6, atol=1e-8
    )


def test_hmmlearn_poisson_and_categorical() -> None:
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    x = np.abs(vectors()).round().astype(int)[:, :1]
    theirs = hmmlearn.PoissonHMM(
        K, n_iter=ITERATIONS, tol=-np.inf, init_params="", lambdas_prior=0.0, lambdas_weight=0.0
    )
    theirs.startprob_, theirs.transmat_, theirs.lambdas_ = START, STEPS, np.array([[1.0], [3.0], [7.0]])
    model = HMM(K, "poisson", init={"rate": [1.0, 3.0, 7.0]})
    ours, _ = trajectory(model, pu.models.Series.of(x[:, 0].astype(float), LENGTHS))
    theirs.fit(x, LENGTHS)
    np.testing.assert_allclose(ours, list(theirs.monitor_.history)[:ITERATIONS], rtol=1e-8)

    V = int(x.max()) + 1
    words = np.random.default_rng(0).dirichlet(np.ones(V), K)
    names = hmmlearn.CategoricalHMM(K, n_iter=ITERATIONS, tol=-np.inf, init_params="")
    names.startprob_, names.transmat_, names.emissionprob_ = START, STEPS, words
    ours, _ = trajectory(HMM(K, "categorical", categories=V), pu.models.Series.of(x[:, 0].astype(float), LENGTHS),
                         emission=np.log(words))  # fmt: skip
    names.fit(x, LENGTHS)
    np.testing.assert_allclose(ours, list(names.monitor_.history)[:ITERATIONS], rtol=1e-8)


def test_hmmlearn_queries() -> None:
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    x = vectors()[:, :1]
    theirs = hmmlearn.GaussianHMM(K, "diag", init_params="")
    theirs.startprob_, theirs.transmat_ = START, STEPS
    theirs.means_, theirs.covars_ = MEANS[:, :1], np.array([[1.0], [2.0], [3.0]])
    emission = dist.Normal(torch.tensor(MEANS[:, 0]), torch.tensor([1.0, 2.0, 3.0]).sqrt())
    chain = pu.Chain(torch.tensor(START).log(), torch.tensor(STEPS).log(), emission, torch.tensor(LENGTHS), flat=True)
    data = torch.tensor(x[:, 0])
    posterior = chain.posterior(data)
    np.testing.assert_allclose(float(chain.log_prob(data).sum()), theirs.score(x, LENGTHS), rtol=1e-10)
    np.testing.assert_allclose(posterior.smoothed.numpy(), theirs.predict_proba(x, LENGTHS), atol=1e-9)
    assert posterior.mode().tolist() == theirs.predict(x, LENGTHS).tolist()


@pytest.mark.parametrize("kind", ["spherical", "diagonal", "full", "tied"])
def test_scikit_learn_mixture(kind: str) -> None:
    mixtures = pytest.importorskip("sklearn.mixture")
    x = vectors()
    name = "diag" if kind == "diagonal" else kind
    theirs = mixtures.GaussianMixture(K, covariance_type=name, reg_covar=0.0, tol=1e-10, max_iter=2000, random_state=0)
    theirs.fit(x)
    spread = np.asarray(theirs.covariances_)
    spread = np.sqrt(spread).reshape(K, -1) if NAMES[kind] == "scale" else spread.reshape(-1, D, D)
    init = {"loc": theirs.means_, NAMES[kind]: spread}
    model = HMM(K, "multivariate_normal", dim=D, covariance=kind, independent=True, init=init)
    ours, _ = trajectory(model, pu.models.Series.of(x), start=theirs.weights_)
    np.testing.assert_allclose(ours[0], theirs.score(x) * len(x), rtol=1e-8)
    assert 0 <= ours[-1] - ours[0] < 1e-4  # it stays where the other ended
    assert model.free_parameters() == theirs._n_parameters()


def test_statsmodels_switching() -> None:
    regime = pytest.importorskip("statsmodels.tsa.regime_switching.markov_regression")
    y = vectors()[:, 0]
    theirs = regime.MarkovRegression(y, k_regimes=2, switching_variance=True)
    parameters = np.array([0.8, 0.3, 0.5, 4.0, 1.2, 3.0])  # stay in 0, 1 to 0, means, variances
    steps = torch.tensor([[0.8, 0.2], [0.3, 0.7]]).log()
    emission = dist.Normal(torch.tensor([0.5, 4.0]), torch.tensor([1.2, 3.0]).sqrt())
    chain = pu.Chain(pu.stationary(steps), steps, emission, len(y))
    result = theirs.smooth(parameters)
    posterior = chain.posterior(torch.tensor(y))
    np.testing.assert_allclose(float(chain.log_prob(torch.tensor(y))), result.llf, rtol=1e-8)
    np.testing.assert_allclose(posterior.filtered, result.filtered_marginal_probabilities, atol=1e-8)
    np.testing.assert_allclose(posterior.predicted, result.predicted_marginal_probabilities[: len(y)], atol=1e-8)
    np.testing.assert_allclose(posterior.smoothed, result.smoothed_marginal_probabilities, atol=1e-8)
    np.testing.assert_allclose(posterior.step_log_likelihood, result.llf_obs, atol=1e-8)


def test_pyro_in_a_loop() -> None:
    x, means = torch.tensor(vectors()[:20, 0]), torch.tensor(MEANS[:, 0])
    start, steps = torch.tensor(START), torch.tensor(STEPS)

    @config_enumerate
    def loop() -> None:
        z = pyro.sample("z_0", dist.Categorical(start))
        pyro.sample("x_0", dist.Normal(means[z], 1.3), obs=x[0])
        for t in pyro.markov(range(1, len(x))):
            z = pyro.sample(f"z_{t}", dist.Categorical(steps[z]))
            pyro.sample(f"x_{t}", dist.Normal(means[z], 1.3), obs=x[t])

    expected = -TraceEnum_ELBO(max_plate_nesting=0).loss(loop, lambda: None)
    found = pu.Chain(start.log(), steps.log(), dist.Normal(means, 1.3), len(x)).log_prob(x)
    np.testing.assert_allclose(float(found), expected, rtol=1e-10)
    theirs = dist.DiscreteHMM(start.log(), steps.log(), dist.Normal(means, 1.3)).log_prob(x)
    # Pyro's moves before the first observation.
    moved = pu.Chain((start @ steps).log(), steps.log(), dist.Normal(means, 1.3), len(x)).log_prob(x)
    torch.testing.assert_close(moved, theirs, rtol=1e-10, atol=0.0)
