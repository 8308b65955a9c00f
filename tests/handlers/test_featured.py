"""``featured``: weights of features as a site of stock Pyro models."""

from __future__ import annotations

import math
from typing import Any

import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import Features, Gradient, LogLinear, Template, UnsupError, featured, same, templates
from pyro_unsup.models import Aligner, Tagger

WORDS = pu.data.Vocab(["dog", "dogs", "cat", "cats"])
DATA = [[0, 1], [2, 3, 1], [0, 3], [2, 1]]
MODEL, TEMPLATES, KAPPA = Tagger(2, WORDS), templates.tagging(), 0.3
FEATURES = Features(MODEL.declarations(), TEMPLATES)


def log_prior_constant(kappa: float, size: int) -> float:
    return size * 0.5 * math.log(kappa / math.pi)


def test_its_log_joint_is_the_objective_of_the_estimator() -> None:
    w = torch.randn(len(FEATURES))
    trace = poutine.trace(poutine.condition(featured(MODEL, FEATURES, KAPPA), {"features": w})).get_trace(DATA)
    tables = FEATURES.log_weights(w)
    expected = poutine.trace(pu.given(MODEL, tables)).get_trace(DATA).log_prob_sum() - KAPPA * w @ w
    found = trace.log_prob_sum() - log_prior_constant(KAPPA, len(w))
    torch.testing.assert_close(found, expected)
    sites = [name for name, site in trace.nodes.items() if site["type"] == "sample"]
    assert sites == ["features", "sentences", "words"]  # no Dirichlet is left


def test_svi_with_a_delta_guide_ends_where_the_direct_gradient_does() -> None:
    model = featured(MODEL, FEATURES, KAPPA)
    svi = SVI(model, AutoDelta(model), pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())
    losses = [svi.step(DATA) for _ in range(200)]
    fit = Gradient(MODEL, LogLinear(TEMPLATES, KAPPA)).run(DATA, iterations=100, tolerance=0, progress=False)
    assert -losses[-1] - log_prior_constant(KAPPA, len(FEATURES)) == pytest.approx(fit.objective, abs=1e-3)
    w = pyro.param("AutoDelta.features").detach()
    # Which tag is which is up to the start.
    found, expected = (torch.sort(x["emission"].exp(), 0)[0] for x in (FEATURES.log_weights(w), fit.weights))
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-2)


def test_svi_with_mini_batches() -> None:
    """The touched columns of a mini-batch, scaled to all data."""
    touched = []

    def scaled(batch: Any) -> None:
        with poutine.scale(scale=len(DATA) / len(batch)):
            words = MODEL(batch)
        touched.append(len(words))

    model = featured(scaled, FEATURES, KAPPA)
    svi = SVI(model, AutoDelta(model), pyro.optim.Adam({"lr": 0.03}), Trace_ELBO())
    rng = torch.Generator().manual_seed(0)
    before = svi.evaluate_loss(DATA)
    for _ in range(150):
        chosen = torch.randperm(len(DATA), generator=rng)[:1].tolist()
        svi.step([DATA[i] for i in chosen])
    assert min(touched) == 2  # fewer words than the vocabulary has: a part of the table
    fit = Gradient(MODEL, LogLinear(TEMPLATES, KAPPA)).run(DATA, iterations=100, tolerance=0, progress=False)
    best = -fit.objective - log_prior_constant(KAPPA, len(FEATURES))
    after = svi.evaluate_loss(DATA)
    assert best - 1e-6 <= after < best + 0.3 * (before - best)


def test_autonormal_and_predictive() -> None:
    model = featured(MODEL, FEATURES, KAPPA)
    guide = AutoNormal(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(DATA) for _ in range(30)]
    assert sum(losses[-5:]) < sum(losses[:5])
    drawn = Predictive(model, guide=guide, num_samples=4)(None, lengths=[3, 2])
    assert drawn["words"].shape[:1] == (4,)
    assert int(drawn["words"].max()) < 4


def test_nuts_on_a_tiny_instance() -> None:
    """Draws of the only weight that matters against its posterior by quadrature."""

    def coin(tosses: Tensor) -> None:
        table = pu.table("coin", 2, axes={"side": ("heads", "tails")})
        with pyro.plate("tosses", len(tosses)):
            pyro.sample("toss", pu.Categorical(table), obs=tosses)

    tables = pu.handlers.declared(coin, torch.tensor([0]))
    features = Features(tables, [Template("coin", "heads", side=lambda side: True if side == "heads" else None)])
    assert len(features) == 1
    tosses = torch.tensor([0, 0, 0, 1])
    mcmc = MCMC(NUTS(featured(coin, features, kappa=0.5)), num_samples=150, warmup_steps=50, disable_progbar=True)
    mcmc.run(tosses)
    draws = mcmc.get_samples()["features"]
    grid = torch.linspace(-6, 8, 4001)
    log_p = 3 * torch.nn.functional.logsigmoid(grid) + torch.nn.functional.logsigmoid(-grid) - 0.5 * grid**2
    mean = float((grid * log_p.softmax(0)).sum())
    assert float(draws.mean()) == pytest.approx(mean, abs=0.25)


def test_em_finds_the_mode_by_its_general_m_step() -> None:
    fit = pu.EM(featured(MODEL, FEATURES, KAPPA)).run(DATA, iterations=12, tolerance=0, progress=False)
    direct = Gradient(MODEL, LogLinear(TEMPLATES, KAPPA)).run(DATA, iterations=100, tolerance=0, progress=False)
    assert fit.objective - log_prior_constant(KAPPA, len(FEATURES)) == pytest.approx(direct.objective, abs=1e-3)


def test_tables_without_features_keep_their_meaning_and_ragged_ones_work() -> None:
    bitext = ([[0, 1], [0]], [[1, 0], [1]])
    model = Aligner.of(bitext, agreement=None, source=2, target=2)
    forward = {"translation_forward": model.declarations()["translation_forward"]}
    lifted = featured(model, Features(forward, [Template("translation_forward", "x", source=same, target=same)]), 1.0)
    trace = poutine.trace(lifted).get_trace(bitext)
    assert {"features", "translation_backward"} <= trace.nodes.keys()
    assert "translation_forward" not in trace.nodes


@pytest.mark.parametrize("kappa", [0, -1.0, math.inf, "1"])
def test_a_kappa_that_is_no_prior(kappa: Any) -> None:
    with pytest.raises(UnsupError, match="kappa must be positive and finite, for the weights have a prior here"):
        featured(MODEL, FEATURES, kappa)


def test_it_says_what_it_is_and_is_not_saved() -> None:
    model = featured(MODEL, FEATURES, KAPPA)
    assert repr(model).startswith(f"featured({len(FEATURES)} features, kappa=0.3) of Tagger")
    fit = pu.EM(model).run(DATA, iterations=1, progress=False)
    with pytest.raises(UnsupError, match=r"cannot be saved, for the handler is not registered: save fit.unhandled"):
        fit.save("never")
