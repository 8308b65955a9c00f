"""Tempering against enumeration, on structures and on enumerated models, inside plates and out."""

from __future__ import annotations

import itertools

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDelta
from pyro.optim import Adam
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.distributions import Posterior
from pyro_unsup.models import Tagger

from ..distributions.chain_case import enumerate_chain

SENTENCES = [[0, 1, 2], [2, 1], [0, 1, 1, 3]]
BETAS = [1e-6, 0.1, 0.5, 1.0, 2.0, 50.0]


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("order", [1, 2])
def test_a_tempered_tagger_is_the_enumeration_to_the_power_beta(order: int, beta: float) -> None:
    mask = torch.tensor([[True, True, False, True], [False, True, True, True]])
    tagger = Tagger(2, 4, order, mask, stop=True)
    em = pu.EM(pu.temper(tagger, beta))
    state = em.init(SENTENCES)
    info, expected = em.e_step(state)
    w = state.weights
    chain = pu.Chain(w["start"], w["transition"], w["emission"], torch.tensor([1]), w.get("second"), flat=True)
    total, counts = 0.0, {name: torch.zeros_like(x) for name, x in w.items()}
    for sentence in SENTENCES:
        found = enumerate_chain(chain, sentence)
        powers = torch.tensor(found.scores) * beta
        total += float(powers.logsumexp(0)) / beta
        for p, used in zip(powers.softmax(0).tolist(), found.counts, strict=True):
            for name in counts:
                counts[name] += p * used[name]
    assert info.objective == pytest.approx(total, rel=1e-9)
    for name, c in expected.counts.items():
        torch.testing.assert_close(c, counts[name], rtol=1e-7, atol=1e-9)


def mixture(x: Tensor) -> None:
    """A model of nobody's library: a plate, a latent class, a categorical and a continuous observation."""
    share, answer = pu.table("share", 2), pu.table("answer", 2, 3)
    centre = pyro.param("centre", torch.tensor([-1.0, 1.0]))
    with pyro.plate("data", len(x)):
        k = pyro.sample("k", pu.Categorical(share))
        pyro.sample("a", pu.Categorical(answer[k]), obs=(x > 0).long())
        pyro.sample("x", dist.Normal(centre[k], 1.0), obs=x)


@pytest.mark.parametrize("beta", BETAS)
def test_an_enumerated_model_of_the_users_own(beta: float) -> None:
    x = torch.randn(5)
    em = pu.EM(pu.temper(mixture, beta))
    state = em.init(x)
    info, expected = em.e_step(state)
    joint = state.weights["share"] + state.weights["answer"][:, (x > 0).long()].T
    joint = joint + dist.Normal(torch.tensor([-1.0, 1.0]), 1.0).log_prob(x[:, None])  # (data, class)
    assert info.objective == pytest.approx(float((beta * joint).logsumexp(-1).sum() / beta), rel=1e-9)
    torch.testing.assert_close(expected.counts["share"], (beta * joint).softmax(-1).sum(0))
    torch.testing.assert_close(expected.factors["x", ""] * beta, (beta * joint).softmax(-1).T)


def test_at_one_nothing_changes_step_by_step() -> None:
    plain, tempered = pu.EM(Tagger(3, 4)).session(), pu.EM(pu.temper(Tagger(3, 4), 1.0)).session()
    for _ in range(10):
        assert tempered.step(SENTENCES) == pytest.approx(plain.step(SENTENCES), rel=1e-12)
    for name, w in plain.weights.items():
        torch.testing.assert_close(tempered.weights[name], w, rtol=1e-12, atol=1e-12)


def test_near_zero_every_path_is_as_likely() -> None:
    fit = pu.EM(pu.temper(Tagger(3, 4), 1e-6)).run(SENTENCES, iterations=1, tolerance=0)
    posterior = fit.posterior(SENTENCES)
    assert isinstance(posterior, Posterior)
    torch.testing.assert_close(posterior.marginals, torch.full((9, 3), 1 / 3), atol=1e-4, rtol=0)


@pytest.mark.parametrize("beta", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("model", [Tagger(2, 4), Tagger(2, 4, 2, stop=True)])
def test_em_climbs_the_tempered_objective(model: Tagger, beta: float) -> None:
    fit = pu.EM(pu.temper(model, beta)).run(SENTENCES, iterations=25, tolerance=0)
    values = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))


def test_it_is_not_poutine_scale() -> None:
    x = torch.randn(4)
    given = {"share": torch.tensor([0.3, 0.7]).log(), "answer": torch.full((2, 3), 1 / 3).log()}
    elbo = TraceEnum_ELBO(max_plate_nesting=1)

    def log_marginal(model: object) -> float:
        return -float(elbo.loss(config_enumerate(pu.given(model, given)), lambda x: None, x))

    scaled = log_marginal(poutine.scale(mixture, 0.3))
    assert scaled == pytest.approx(0.3 * log_marginal(mixture))
    assert 0.3 * log_marginal(pu.temper(mixture, 0.3)) != pytest.approx(scaled, rel=1e-2)


def test_annealing_by_gradient_with_stock_svi() -> None:
    tagger = Tagger(2, 4)
    for beta in (0.3, 1.0):
        svi = SVI(pu.temper(tagger, beta), AutoDelta(tagger), Adam({"lr": 0.05}), Trace_ELBO())
        losses = [svi.step(SENTENCES) for _ in range(40)]
        assert losses[-1] < losses[0]


@pytest.mark.parametrize("beta", [0.0, -1.0, float("inf"), float("nan")])
def test_beta_must_be_positive(beta: float) -> None:
    with pytest.raises(pu.UnsupError, match="beta must be positive and finite"):
        pu.temper(Tagger(2, 4), beta)
