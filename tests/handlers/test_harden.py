"""The best structure instead of the sum, on structures and on enumerated models."""

from __future__ import annotations

import itertools

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.optim import Adam
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.models import CCM, Tagger

from ..distributions.chain_case import enumerate_chain

SENTENCES = [[0, 1, 2], [2, 1], [0, 1, 1, 3]]


@pytest.mark.parametrize("order", [1, 2])
def test_a_hardened_tagger_counts_the_best_path(order: int) -> None:
    em = pu.EM(pu.harden(Tagger(2, 4, order, stop=True)))
    state = em.init(SENTENCES)
    info, expected = em.e_step(state)
    w = state.weights
    chain = pu.Chain(w["start"], w["transition"], w["emission"], torch.tensor([1]), w.get("second"), flat=True)
    total, counts = 0.0, {name: torch.zeros_like(x) for name, x in w.items()}
    for sentence in SENTENCES:
        found = enumerate_chain(chain, sentence)
        best = max(range(len(found.scores)), key=lambda i: found.scores[i])
        total += found.scores[best]
        for name in counts:
            counts[name] += found.counts[best][name]
    assert info.objective == pytest.approx(total, rel=1e-12)
    for name, c in expected.counts.items():
        torch.testing.assert_close(c, counts[name], rtol=1e-12, atol=1e-12)


def enumerated_hmm(sentences: list[list[int]]) -> None:
    """The bigram tagger with a variable for each tag."""
    start, step, emit = pu.table("start", 2), pu.table("transition", 2, 2), pu.table("emission", 2, 4)
    for b in pyro.plate("sentences", len(sentences)):
        z: Tensor | None = None
        for t in pyro.markov(range(len(sentences[b]))):
            z = pyro.sample(f"z_{b}_{t}", pu.Categorical(start if z is None else step[z]))
            pyro.sample(f"x_{b}_{t}", pu.Categorical(emit[z]), obs=torch.tensor(sentences[b][t]))


def test_an_enumerated_model_goes_the_same_way_as_the_structure() -> None:
    start = pu.EM(Tagger(2, 4)).run(SENTENCES, iterations=0, seed=3).weights
    fast = pu.EM(pu.harden(Tagger(2, 4)), pu.AddLambda(0.1), init=pu.init.from_weights(start)).session()
    slow = pu.EM(pu.harden(enumerated_hmm), pu.AddLambda(0.1), init=pu.init.from_weights(start)).session()
    for _ in range(5):
        assert slow.step(SENTENCES) == pytest.approx(fast.step(SENTENCES), rel=1e-10)
    for name, w in fast.weights.items():
        torch.testing.assert_close(slow.weights[name], w, rtol=1e-10, atol=1e-12)


def mixture(x: Tensor) -> None:
    share = pu.table("share", 2)
    centre = pyro.param("centre", torch.tensor([-1.0, 1.0]))
    width = pyro.sample("width", dist.Gamma(2.0, 2.0))
    with pyro.plate("data", len(x)):
        k = pyro.sample("k", pu.Categorical(share))
        pyro.sample("x", dist.Normal(centre[k], width), obs=x)


def test_other_parameters_move_too() -> None:
    """Hard clustering of points: each counts for its own class alone, and classes get the means of their points."""
    x = torch.tensor([-3.0, -2.0, -2.5, 2.0, 3.0, 4.0])
    fit = pu.EM(pu.harden(mixture), pu.AddLambda(0.1), lbfgs_iterations=50).run(x, iterations=40)
    values = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-5 * abs(a) for a, b in itertools.pairwise(values))
    torch.testing.assert_close(fit.params["centre"], torch.tensor([-2.5, 3.0]), atol=1e-2, rtol=0)
    assert fit.predict(x)["k"].tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("model", [Tagger(2, 4), Tagger(2, 4, 2, stop=True), CCM.of(SENTENCES, vocab=4)])
def test_viterbi_em_climbs_until_nothing_changes(model: object) -> None:
    fit = pu.EM(pu.harden(model), pu.AddLambda(0.1)).run(SENTENCES, iterations=100)  # type: ignore[arg-type]
    values = [row["objective"] for row in fit.rows]
    assert fit.report.converged
    assert all(b >= a - 1e-12 * abs(a) for a, b in itertools.pairwise(values))


def test_it_is_what_tempering_tends_to() -> None:
    tagger = Tagger(2, 4)
    hard, cold = pu.EM(pu.harden(tagger)).session(), pu.EM(pu.temper(tagger, 500.0)).session()
    assert cold.step(SENTENCES) == pytest.approx(hard.step(SENTENCES), abs=0.02)


def test_an_impossible_sentence_is_an_error_that_says_so() -> None:
    mask = torch.tensor([[True, True, False, False], [False, False, True, True]])
    weights = {
        "start": torch.tensor([1.0, 0.0]).log(),
        "transition": torch.eye(2).log(),
        "emission": torch.tensor([[0.5, 0.5, 0, 0], [0, 0, 0.5, 0.5]]).log(),
    }
    em = pu.EM(pu.harden(Tagger(2, 4, dictionary=mask)), init=pu.init.from_weights(weights)).session()
    with pytest.raises(pu.FitError, match="item 1 of site 'words' has probability zero"):
        em.step([[0, 1], [2, 3]])


def test_with_stock_svi() -> None:
    tagger = Tagger(2, 4)
    svi = SVI(pu.harden(tagger), AutoDelta(tagger), Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(SENTENCES) for _ in range(40)]
    assert losses[-1] < losses[0]
