"""The groups of the prior are those that a result was fitted with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import MCMC
from pyro.infer.autoguide import AutoNormal
from scipy.integrate import quad
from scipy.special import expit

import pyro_unsup as pu
from tests.matrix.models import COUNTS, WORDS

from .cases import mcmc

DRAWS = 4000
PRIORS = {"groups": ["prior"], "prior_size": DRAWS, "progress": False}


def tagger(**options: Any) -> pu.models.Tagger:
    return pu.models.Tagger(2, WORDS.vocab, **options)


def share(found: Any) -> Any:
    """The first cell of ``start``, (draws,): a beta distribution under a Dirichlet prior."""
    return found["prior"]["start"].values[0, :, 0]


def assert_variance(x: Any, expected: float) -> None:
    """Of numbers in [0, 1] with mean 1/2: the estimate has a deviation below expected * sqrt(2 / draws)."""
    assert x.mean() == pytest.approx(0.5, abs=4.5 * np.sqrt(expected / DRAWS))
    assert x.var() == pytest.approx(expected, rel=4.5 * np.sqrt(2 / DRAWS))


def beta_variance(a: float) -> float:
    """Of Beta(a, a)."""
    return 0.25 / (2 * a + 1)


@pytest.mark.parametrize(
    ("how", "alpha"),
    [
        (pu.DirichletVB(5.0), 5.0),
        (pu.DirichletVB(), 3.0),  # what the model declares
        (pu.DirichletMAP(2.0), 2.0),
        (pu.AddLambda(0.5), 1.5),
        (pu.Normalise(), 3.0),  # no prior in training: that of the model
        ({"start": pu.DirichletVB(4.0)}, 4.0),
        ({"emission": pu.DirichletVB(4.0)}, 3.0),
    ],
)
def test_the_concentration_of_the_estimator(how: Any, alpha: float) -> None:
    fit = pu.EM(tagger(prior=3.0), how).run(WORDS, iterations=2, progress=False)
    assert_variance(share(pu.to_arviz(fit, WORDS, **PRIORS)), beta_variance(alpha))


def test_concentrations_that_were_learned() -> None:
    fit = pu.EM(tagger(), pu.EmpiricalDirichlet()).run(WORDS, iterations=3, progress=False)
    alpha = float(fit.memory["emission.concentration"])
    emission = pu.to_arviz(fit, WORDS, **PRIORS)["prior"]["emission"].values[0]  # (draws, 2, V)
    V = emission.shape[-1]
    expected = (1 / V) * (1 - 1 / V) / (V * alpha + 1)
    assert emission.var(0).mean() == pytest.approx(expected, rel=0.1)
    each = pu.EM(tagger(), pu.EmpiricalDirichlet(per="outcome")).run(WORDS, iterations=3, progress=False)
    alphas = each.memory["emission.concentration"].numpy()
    mean = pu.to_arviz(each, WORDS, **PRIORS)["prior"]["emission"].values[0].mean((0, 1))
    p = alphas / alphas.sum()
    assert (np.abs(mean - p) < 4.5 * np.sqrt(p * (1 - p) / (alphas.sum() + 1) / (2 * DRAWS))).all()


def logistic_variance(variance: float) -> float:
    """Of sigmoid(x), x ~ N(0, variance)."""
    sd = np.sqrt(variance)
    density = lambda x: np.exp(-(x**2) / 2 / variance) / sd / np.sqrt(2 * np.pi)  # noqa: E731
    return float(quad(lambda x: (expit(x) - 0.5) ** 2 * density(x), -12 * sd, 12 * sd)[0])


def test_logistic_normal_priors() -> None:
    """Of two outcomes, the difference of two normals has twice their variance, less twice their covariance."""
    how = pu.LogisticNormal(mean="uniform", variance=0.7)
    fit = pu.EM(tagger(), how).run(WORDS, iterations=2, progress=False)
    assert_variance(share(pu.to_arviz(fit, WORDS, **PRIORS)), logistic_variance(1.4))
    whole = pu.LogisticNormal(mean="uniform", covariance=torch.tensor([[1.0, 0.6], [0.6, 2.0]]).double())
    fit = pu.EM(tagger(), {"start": whole, "emission": how}).run(WORDS, iterations=2, progress=False)
    assert_variance(share(pu.to_arviz(fit, WORDS, **PRIORS)), logistic_variance(1.8))


def test_priors_of_features() -> None:
    """Without templates every cell has a feature of its own."""
    fit = pu.EM(tagger(), pu.LogLinear(kappa=0.5)).run(WORDS, iterations=2, progress=False)
    assert_variance(share(pu.to_arviz(fit, WORDS, **PRIORS)), logistic_variance(2.0))
    fit = pu.EM(tagger(), pu.LogLinear()).run(WORDS, iterations=2, progress=False)
    with pytest.raises(pu.UnsupError, match="kappa=0 has no prior to draw from"):
        pu.to_arviz(fit, WORDS, **PRIORS)


@pytest.mark.parametrize("kernel", [False, True])
def test_concentrations_of_a_sampler(kernel: bool) -> None:
    def found(**options: Any) -> Any:
        sampler = pu.CollapsedGibbs(tagger(), **options)
        if not kernel:
            return pu.to_arviz(sampler.run(WORDS, sweeps=4, progress=False), WORDS, **PRIORS)
        run = MCMC(sampler, num_samples=4, warmup_steps=0, disable_progbar=True)
        run.run(WORDS)
        return pu.to_arviz(run, WORDS, **PRIORS)

    assert_variance(share(found(alpha=5.0)), beta_variance(5.0))
    # Gamma(1, 1) is the exponential distribution.
    expected = quad(lambda a: np.exp(-a) * beta_variance(a), 0, np.inf)[0]
    assert_variance(share(found(hyper="shared")), expected)
    low, high = np.log(0.1), np.log(10.0)
    expected = quad(lambda x: beta_variance(np.exp(x)) / (high - low), low, high)[0]
    assert_variance(share(found(hyper="shared", hyperprior=pu.infer.LogUniform(0.1, 10.0))), expected)
    emission = found(beta=2.0)["prior"]["emission"].values[0]
    V = emission.shape[-1]
    assert emission.var(0).mean() == pytest.approx((1 / V) * (1 - 1 / V) / (2 * V + 1), rel=0.1)


def test_a_flat_hyperprior_has_no_draws() -> None:
    with pytest.warns(UserWarning, match="improper"):
        sampler = pu.CollapsedGibbs(tagger(), hyper="shared", hyperprior="flat")
    with pytest.raises(pu.UnsupError, match="which cannot be drawn from: sample with hyperprior='gamma'"):
        pu.to_arviz(sampler.run(WORDS, sweeps=4, progress=False), WORDS, **PRIORS)


def test_all_else_has_the_prior_of_the_model() -> None:
    model = tagger(prior=3.0)
    assert_variance(share(pu.to_arviz(mcmc(model, (WORDS,), 3), WORDS, **PRIORS)), beta_variance(3.0))
    assert_variance(share(pu.prior_predictive(model, WORDS, draws=DRAWS, progress=False)), beta_variance(3.0))


def test_an_estimator_of_ones_own_without_a_prior() -> None:
    class Own:
        def weights(self, declaration: Any, counts: Any, old: Any) -> Any:
            return declaration.layout.normalise((counts + 1).log())

        def log_prior(self, declaration: Any, log_weights: Any) -> Any:
            return torch.zeros(())

    fit = pu.EM(tagger(), Own()).run(WORDS, iterations=2, progress=False)
    with pytest.raises(pu.UnsupError, match="which has no draw_prior"):
        pu.to_arviz(fit, WORDS, **PRIORS)


def test_noise_of_drawn_data_does_not_go_with_what_was_drawn_before() -> None:
    """Parameters and data that were drawn by one seed twice over would be correlated."""

    def level(x: Any) -> Any:
        mean = pyro.sample("mean", dist.Normal(0.0, 1.0))
        with pyro.plate("data", len(x)):
            return pyro.sample("x", dist.Normal(mean, 1.0), obs=x)

    x = torch.zeros(3)
    before = pu.prior_predictive(level, x, draws=DRAWS, progress=False)
    guide = AutoNormal(level)
    guide(x)
    after = pu.to_arviz(
        guide, x, model=level, draws=DRAWS, groups=["posterior", "posterior_predictive"], progress=False
    )
    for found, names in ((before, ("prior", "prior_predictive")), (after, ("posterior", "posterior_predictive"))):
        mean, data = found[names[0]]["mean"].values[0], found[names[1]]["x"].values[0]
        each = [abs(np.corrcoef(mean, data[:, i] - mean)[0, 1]) for i in range(3)]
        assert max(each) < 4.5 / np.sqrt(DRAWS)


def test_priors_of_parameters_that_are_no_tables() -> None:
    model = pu.models.HMM(2, "poisson", prior={"rate": dist.Gamma(2.0, 0.5), "start": 4.0})
    found = pu.prior_predictive(model, COUNTS, draws=DRAWS, progress=False)
    rate = found["prior"]["rate"]
    assert rate.dims == ("chain", "draw", "state")
    assert rate.values.mean() == pytest.approx(4.0, abs=4.5 * np.sqrt(8 / 2 / DRAWS))
    assert_variance(share(found), beta_variance(4.0))
