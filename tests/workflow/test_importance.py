"""Importance weights of guides: narrow guides are found out, and the evidence is the exact one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal
from pyro.optim import Adam

import pyro_unsup as pu
from pyro_unsup.errors import UnsupError

from .test_elpd import X, normal, posterior
from .test_evidence import SENTENCES, exact_tagger


def exact() -> float:
    n = len(X)
    return float(dist.MultivariateNormal(torch.zeros(n), torch.eye(n) + 9.0).log_prob(X))


def guide(width: float = 1.0) -> Any:
    mean, variance = posterior(X)
    return lambda x: pyro.sample("mean", dist.Normal(mean, width * math.sqrt(variance)))


def test_the_exact_posterior_has_even_weights() -> None:
    found = pu.importance(guide(), X, model=normal, draws=200, progress=False)
    assert found.k == -math.inf
    assert found.elbo == pytest.approx(exact(), rel=1e-12)
    assert found.log_evidence == pytest.approx(exact(), rel=1e-12)
    assert found.se < 1e-9
    assert found.ess == pytest.approx(200)


def test_a_narrow_guide_is_found_out_and_a_wide_one_is_mended() -> None:
    # The tail index of these weights is 1 - width^2 = 0.91. Its estimate has a deviation of (1 + k) / sqrt(M), with
    # M = 3 sqrt(draws) weights in the tail: 0.07, so that 0.7 is three deviations away.
    narrow = pu.importance(guide(0.3), X, model=normal, draws=60_000, progress=False)
    assert not narrow.reliable
    assert "too narrow" in repr(narrow)
    wide = pu.importance(guide(2.0), X, model=normal, draws=4000, progress=False)
    assert wide.reliable
    assert "reliable" in repr(wide)
    assert wide.elbo < wide.log_evidence
    assert abs(wide.log_evidence - exact()) < 4 * wide.se
    mean, variance = posterior(X)
    assert float(wide.mean("mean")) == pytest.approx(mean, abs=0.03)
    again = wide.resample(4000)["mean"]
    assert again.shape == (1, 4000)
    assert float(again.var()) == pytest.approx(variance, rel=0.15)


@pytest.mark.parametrize("alpha", [None, 1.0, 2.0])
def test_variational_bayes_of_a_tagger(alpha: Any) -> None:
    """The prior is that of training, whatever the model declares."""
    model = pu.models.Tagger(2, 2)
    fit = pu.EM(model, pu.DirichletVB(alpha)).run(SENTENCES, iterations=200, progress=False)
    found = pu.importance(fit, SENTENCES, draws=4000)
    right = exact_tagger(2, alpha or 1.0)
    assert found.elbo < right
    assert abs(found.log_evidence - right) < 4 * found.se
    assert found.se < 0.2
    assert fit.objective < found.elbo  # which has q(y) in the place of p(y | x, theta)


def test_variational_bayes_knows_one_naming_of_the_states() -> None:
    """With sparse tables the two namings are far apart: half of the evidence is out of its reach, and k-hat says so."""
    fit = pu.EM(pu.models.Tagger(2, 2), pu.DirichletVB(0.5)).run(SENTENCES, iterations=200, progress=False)
    found = pu.importance(fit, SENTENCES, draws=4000)
    assert not found.reliable
    assert found.log_evidence == pytest.approx(exact_tagger(2, 0.5) - math.log(2), abs=4 * found.se)


def test_a_mixture_of_posteriors() -> None:
    model = pu.models.DMV(tags=2)
    data = [[0, 1, 1], [1, 0], [0, 1]]
    near = pu.components.short_dependencies(limit=1)
    fit = pu.MixtureEM(model, [near], pu.DirichletVB(), tied=False).run(data, iterations=30, progress=False)
    found = pu.importance(fit, data, draws=2000)
    alone = pu.importance(pu.EM(model, pu.DirichletVB()).run(data, progress=False), data, draws=2000)
    assert abs(found.log_evidence - alone.log_evidence) < 5 * math.hypot(found.se, alone.se)


def test_an_autoguide() -> None:
    own = AutoNormal(normal)
    svi = SVI(normal, own, Adam({"lr": 0.05}), Trace_ELBO())
    for _ in range(400):
        svi.step(X)
    found = pu.importance(own, X, model=normal, draws=500, progress=False)
    assert abs(found.log_evidence - exact()) < max(4 * found.se, 0.02)
    assert found.reliable


def test_the_same_seed_the_same_weights() -> None:
    one, two = (pu.importance(guide(2.0), X, model=normal, draws=50, seed=3, progress=False) for _ in range(2))
    np.testing.assert_array_equal(one.log_weights, two.log_weights)


def trained(estimate: Any = None, iterations: int = 3) -> Any:
    return pu.EM(pu.models.Tagger(2, 2), estimate).run(SENTENCES, iterations=iterations, progress=False)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pu.importance(guide(), X), "give model="),
        (lambda: pu.importance(guide(), X, model=normal, draws=3), "20 or more"),
        (lambda: pu.importance(lambda x: None, X, model=normal), "the guide has no mean"),
        (lambda: pu.importance(trained(), SENTENCES), "expected a fit of pu.DirichletVB()"),
        (lambda: pu.importance(trained(pu.EmpiricalDirichlet()), SENTENCES), "whose prior is not the model's"),
        (lambda: pu.importance(trained(pu.DirichletVB(), 0), SENTENCES), "train for an iteration or more"),
    ],
)
def test_refused(call: Any, says: str) -> None:
    with pytest.raises(UnsupError) as error:
        call()
    assert says in str(error.value)


def test_one_tag_has_the_exact_posterior() -> None:
    texts = [[0, 1], [1, 1], [2], [0], [1, 2, 0], [0, 0]]
    fit = pu.EM(pu.models.Tagger(1, 3), pu.DirichletVB()).run(texts, progress=False)
    found = pu.importance(fit, texts, draws=50)
    counts = torch.bincount(torch.tensor([word for text in texts for word in text])).double()
    right = math.lgamma(3) - math.lgamma(3 + float(counts.sum())) + float((counts + 1).lgamma().sum())
    assert found.log_evidence == pytest.approx(right, abs=1e-6)
    assert found.reliable


def test_a_guide_of_points_is_refused() -> None:
    """Its weights are all the same, as those of the exact posterior are."""
    with pyro.get_param_store().scope():
        points = AutoDelta(normal)
        points(X)
        with pytest.raises(UnsupError, match="draws the same mean every time: a point has no density to weigh"):
            pu.importance(points, X, model=normal, draws=30)
