"""Stepwise EM as Pyro's SVI is used."""

from __future__ import annotations

from typing import Any

import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import AddLambda, DirichletVB, StepwiseEM
from pyro_unsup.data import TagDictionary, toy
from pyro_unsup.models import Tagger

from .stepwise_cases import mixture, small


def sampled(sentences: list[list[int]], size: int) -> None:
    """A tagger of some sentences at a time, which its plate draws and scales up."""
    start, transition = pu.table("start", 2), pu.table("transition", 2, 2)
    emission = pu.table("emission", 2, 4)
    with pyro.plate("sentences", len(sentences), subsample_size=size) as chosen:
        some = [sentences[i] for i in chosen.tolist()]
        words, lengths = torch.tensor([word for one in some for word in one]), torch.tensor([len(one) for one in some])
        pyro.sample("words", pu.Chain(start, transition, emission, lengths, flat=True), obs=words)


def train(svi: SVI, batches: list[tuple[Any, ...]], epochs: int) -> tuple[list[float], dict[str, Tensor]]:
    """Written for :class:`pyro.infer.SVI`, before there was any other."""
    if not isinstance(svi, SVI):
        raise TypeError("expected an SVI")
    losses = []
    for _ in range(epochs):
        loss = 0.0
        for batch in batches:
            loss += svi.step(*batch)
        losses.append(loss)
    losses.append(sum(svi.evaluate_loss(*batch) for batch in batches))
    drawn = Predictive(svi.model, guide=svi.guide, num_samples=2, return_sites=("start", "emission"))
    return losses, drawn(*batches[0])


@pytest.mark.parametrize("plate", ["all", "subsampled"])
def test_code_written_for_svi_runs_unchanged(plate: str) -> None:
    data = [[0, 1, 0, 2], [2, 0, 3, 0]] * 20
    model: Any = Tagger(2, 4) if plate == "all" else sampled
    batches = [(data[i : i + 10],) for i in range(0, 40, 10)] if plate == "all" else [(data, 10)] * 4
    stock = SVI(model, AutoDelta(model), pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    for svi in (StepwiseEM(model).session(), stock):
        losses, drawn = train(svi, batches, epochs=8)
        assert all(isinstance(loss, float) for loss in losses)
        assert losses[-1] < losses[0]
        assert {name: x.shape for name, x in drawn.items()} == {"start": (2, 1, 2), "emission": (2, 1, 2, 4)}
        assert all(torch.equal(x[0], x[1]) for x in drawn.values())
        torch.testing.assert_close(drawn["emission"].sum(-1), torch.ones(2, 1, 2))


@pytest.mark.parametrize("case", ["dense", "support", "ragged"])
def test_the_guide_has_the_tables_as_they_are(case: str) -> None:
    data = toy.sentences(20, seed=1)
    if case == "dense":
        model: Any = Tagger(3, data.vocab)
    elif case == "support":
        model = Tagger(toy.TAGSET, data.vocab, dictionary=TagDictionary.from_corpus(data))
    else:
        model, data = small("aligner")
    engine = StepwiseEM(model, DirichletVB(0.3)).session()
    for _ in range(3):
        engine.step(data)
    guide = poutine.trace(engine.guide).get_trace(data)
    model_trace = poutine.trace(poutine.replay(model, trace=guide)).get_trace(data)
    fixed = {name: d.layout.normalise(engine.weights[name]) for name, d in engine.state.problem.declarations.items()}
    expected = poutine.trace(pu.given(model, fixed)).get_trace(data)
    for name, site in expected.nodes.items():
        if site["type"] == "sample" and site["is_observed"]:
            found = model_trace.nodes[name]["fn"].log_prob(site["value"])
            torch.testing.assert_close(found, site["fn"].log_prob(site["value"]), rtol=1e-10, atol=1e-10)


def test_subsampling_plates_make_every_step_an_estimate_of_the_whole_data() -> None:
    words = torch.randint(5, (60,))
    engine = StepwiseEM(lambda words: mixture(words, 10), AddLambda(0.5)).session()
    loss = engine.step(words)
    whole = StepwiseEM(lambda words: mixture(words, 60), AddLambda(0.5)).session()
    assert loss == pytest.approx(whole.step(words), rel=0.3)  # scaled up by Pyro
    for name, table in engine.state.statistics.tables.items():
        total = float(table.counts().sum())
        assert total == pytest.approx(float(whole.state.statistics.tables[name].counts().sum()), rel=1e-10)
    for _ in range(300):
        engine.step(words)
    frequencies = (engine.weights["share"].unsqueeze(-1) + engine.weights["kinds"]).logsumexp(0).exp()
    observed = (torch.bincount(words, minlength=5) + 1) / (60 + 5)  # half a pseudo-count from each of two kinds
    torch.testing.assert_close(frequencies, observed, rtol=0, atol=0.06)


def test_enumerated_models_take_mini_batches_of_rows() -> None:
    words = torch.randint(5, (60,))
    engine = StepwiseEM(lambda words: mixture(words, len(words)), batch_size=7)
    fit = engine.run(words, iterations=3, tolerance=0, progress=False)
    assert fit.config["updates"] == 3 * 9
    assert fit.rows[-1]["log_likelihood"] > fit.rows[0]["log_likelihood"]
