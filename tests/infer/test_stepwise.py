"""Stepwise EM against its definition in plain loops, and against batch EM."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import AddLambda, DirichletMAP, DirichletVB, StepwiseEM
from pyro_unsup.infer.examples import Examples
from pyro_unsup.models import Tagger
from pyro_unsup.tables import Declaration

from .stepwise_cases import CORPUS, ESTIMATORS, close, corpus, small


def test_with_variational_bayes_it_is_stochastic_variational_inference() -> None:
    """lambda <- (1 - rho) lambda + rho (alpha + n/m counts), weights exp(E log theta) (Hoffman et al. 2013)."""
    data, m, alpha = corpus(40, V=6), 8, 0.4
    engine = StepwiseEM(Tagger(3, 6), DirichletVB(alpha), batch_size=m, order_seed=1)
    state = engine.init(data, seed=2)
    weights = dict(state.weights)
    posterior = {name: 40 / m * w.exp() + alpha for name, w in weights.items()}
    for k in range(10):
        if k % 5 == 0:
            order = np.random.default_rng((1, k // 5)).permutation(40)
            state = engine.m_step(state)
        batch = [data[i] for i in order[k % 5 * m :][:m]]
        words, lengths = (
            torch.tensor([word for sentence in batch for word in sentence]),
            torch.tensor([len(s) for s in batch]),
        )
        chain = pu.Chain(weights["start"], weights["transition"], weights["emission"], lengths, flat=True)
        counts, rho = chain.posterior(words).counts, (k + 2) ** -0.7
        posterior = {name: (1 - rho) * x + rho * (alpha + 40 / m * counts[name]) for name, x in posterior.items()}
        weights = {name: x.digamma() - x.sum(-1, keepdim=True).digamma() for name, x in posterior.items()}
    close(state.weights, weights)


@pytest.mark.parametrize("kind", ["tagger", "ccm", "clusterer", "segmenter", "aligner"])
@pytest.mark.parametrize("how", [AddLambda(0.1), DirichletVB(0.5)])
def test_every_model_takes_mini_batches_and_one_of_all_is_batch_em(kind: str, how: Any) -> None:
    model, data = small(kind)
    online = StepwiseEM(model, how, batch_size=5)
    fit = online.run(data, iterations=3, tolerance=0, progress=False)
    assert fit.config["updates"] == 3 * -(-Examples.of(model, (data,), {}).size // 5)
    whole = StepwiseEM(model, how, batch_size=1000, schedule=lambda k: 1.0)
    one = whole.run(data, iterations=3, tolerance=0, progress=False)
    other = pu.EM(model, how).run(data, iterations=3, tolerance=0, progress=False)
    close(one.weights, other.weights, 1e-12)


every_estimator = pytest.mark.parametrize("how", ESTIMATORS.values(), ids=ESTIMATORS)


@every_estimator
@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_one_mini_batch_and_a_step_of_one_are_batch_em(how: Any, beta: float) -> None:
    model: Any = Tagger(3, CORPUS.vocab)
    model = model if beta == 1 else pu.temper(model, beta)
    options: dict[str, Any] = {"iterations": 6, "tolerance": 0, "seed": 2, "progress": False}
    online = StepwiseEM(model, how, batch_size=len(CORPUS), schedule=lambda k: 1.0, exact=True)
    one, other = online.run(CORPUS, **options), pu.EM(model, how).run(CORPUS, **options)
    close(one.weights, other.weights, 1e-12)
    for a, b in zip(one.rows, other.rows, strict=True):
        assert a["objective"] == pytest.approx(b["objective"], rel=1e-12)
        assert a["log_likelihood"] == pytest.approx(b["log_likelihood"], rel=1e-12)


@pytest.mark.parametrize("how", [AddLambda(3.0), DirichletMAP(1.7), DirichletVB(0.4)])
def test_pseudo_counts_of_a_run_mean_what_they_mean_to_batch_em(how: Any) -> None:
    """Steps that shrink end near a fixed point of batch EM with the same estimator."""
    model = Tagger(2, 4)
    data = corpus(40, seed=4)
    engine = StepwiseEM(model, how, power=0.9, batch_size=8)
    fit = engine.run(data, iterations=60, tolerance=0, progress=False, seed=1)
    on = pu.EM(model, how, init=pu.init.from_weights(fit)).run(data, iterations=1, tolerance=0, progress=False)
    for name, w in fit.weights.items():
        torch.testing.assert_close(w.exp(), on.weights[name].exp(), rtol=0, atol=0.02)


def test_the_hybrid_goes_on_with_batch_em() -> None:
    model = Tagger(3, CORPUS.vocab)
    quick = StepwiseEM(model, batch_size=5).run(CORPUS, iterations=5, progress=False)
    fit = pu.EM(model, init=pu.init.from_weights(quick)).run(CORPUS, iterations=5, progress=False)
    assert fit.rows[0]["log_likelihood"] == pytest.approx(quick.log_likelihood(CORPUS), rel=1e-12)
    assert fit.objective > fit.rows[0]["objective"]


def test_an_update_never_looks_at_a_whole_table(monkeypatch: pytest.MonkeyPatch, slowly: None) -> None:
    engine = StepwiseEM(Tagger(2, 1_000_000), AddLambda(0.1), batch_size=2)
    data = [[5, 7], [999_999, 5, 3], [7], [8, 8, 3]]
    state = engine.init(data)
    engine.examples_of(state)
    sizes: list[int] = []
    real = torch.Tensor.index_add_

    def note(self: Tensor, dim: int, index: Tensor, source: Tensor, **options: Any) -> Tensor:
        sizes.append(source.numel())
        return real(self, dim, index, source, **options)

    def refused(*args: Any) -> Any:
        raise AssertionError("a whole table")

    monkeypatch.setattr(torch.Tensor, "index_add_", note)
    monkeypatch.setattr(AddLambda, "weights", refused)
    monkeypatch.setattr(Declaration, "whole", refused)
    engine.m_step(state)
    assert sizes
    assert max(sizes) <= 2 * 4  # states times words of a mini-batch
