"""Compiled stretches of stepwise EM against the general path."""

from __future__ import annotations

from typing import Any

import pyro
import pytest
import torch
from pyro import poutine

import pyro_unsup as pu
from pyro_unsup import AddLambda, DirichletMAP, Normalise, StepwiseEM
from pyro_unsup.data import TagDictionary, toy
from pyro_unsup.infer.shortcut import Shortcut
from pyro_unsup.models import Tagger

from .stepwise_cases import CORPUS, Sharpened, close, corpus


def shortcut(engine: StepwiseEM, data: Any) -> Shortcut | None:
    """The compiled mini-batches of a run, if there are any."""
    state: Any = engine.init(data)
    engine.examples_of(state)
    found: Shortcut | None = state.shortcut
    return found


def both_ways(monkeypatch: pytest.MonkeyPatch, model: Any, data: Any, how: Any, passes: int, **options: Any) -> None:
    """Compiled stretches and the general path lead to the same weights by the same likelihoods."""
    fast = StepwiseEM(model, how, **options)
    one = fast.run(data, iterations=passes, tolerance=0, progress=False)
    assert shortcut(fast, data) is not None
    with monkeypatch.context() as patch:
        patch.setattr(Shortcut, "of", staticmethod(lambda *args: None))
        other = StepwiseEM(model, how, **options).run(data, iterations=passes, tolerance=0, progress=False)
    close(one.weights, other.weights)
    for a, b in zip(one.rows, other.rows, strict=True):
        assert a["objective"] == pytest.approx(b["objective"], rel=1e-10)


@pytest.mark.parametrize("how", [Normalise(), AddLambda(0.2), DirichletMAP(1.3)])
@pytest.mark.parametrize("beta", [1.0, 0.4, 2.0])
@pytest.mark.parametrize("stop", [False, True])
def test_compiled_stretches_equal_the_general_path(
    how: Any, beta: float, stop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Tagger(4, CORPUS.vocab, stop=stop)
    both_ways(monkeypatch, model if beta == 1 else pu.temper(model, beta), CORPUS, how, 3, batch_size=7)


@pytest.mark.parametrize("how", [Sharpened(), {"start": Sharpened()}], ids=["all", "start"])
def test_an_estimator_of_ones_own_is_never_left_out(how: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled stretches know relative frequencies only."""
    data, options = corpus(40, V=6), {"batch_size": 3, "order_seed": 5}
    found = StepwiseEM(Tagger(3, 6), how, **options).run(data, iterations=3, tolerance=0)
    monkeypatch.setattr(Shortcut, "of", staticmethod(lambda *args: None))
    close(found.weights, StepwiseEM(Tagger(3, 6), how, **options).run(data, iterations=3, tolerance=0).weights)
    plain = StepwiseEM(Tagger(3, 6), **options).run(data, iterations=3, tolerance=0)
    assert float((found.weights["start"].exp() - plain.weights["start"].exp()).abs().max()) > 0.01


def test_compiled_stretches_take_a_dictionary_and_empty_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    dictionary = TagDictionary.from_corpus(CORPUS, min_count=2)
    both_ways(
        monkeypatch, Tagger(toy.TAGSET, CORPUS.vocab, dictionary=dictionary), CORPUS, Normalise(), 3, batch_size=3
    )
    data = [[0, 1], [], [2, 1, 0], [], [1, 1]]
    both_ways(monkeypatch, Tagger(2, 3), data, Normalise(), 5, batch_size=3)


def test_what_scaled_arithmetic_cannot_do_is_left_to_the_general_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two states that never meet: a message underflows although its state is the one that matters in the end."""
    tiny = -200.0
    weights = {
        "start": torch.tensor([0.0, -2.0]),
        "transition": torch.tensor([[0.0, -1e3], [-1e3, 0.0]]),
        "emission": torch.tensor([[0.0, -1.0, tiny], [tiny, -1.0, 0.0]]),
    }
    weights = {name: w.log_softmax(-1) for name, w in weights.items()}
    data = [[0, 0, 0, 0, 2, 2, 2, 2, 2], [1, 0], [1, 2], [0] * 5 + [2] * 7]
    init, general, real = pu.init.from_weights(weights), [0], StepwiseEM.update

    def update(engine: StepwiseEM, *args: Any) -> float:
        general[0] += 1
        return real(engine, *args)

    monkeypatch.setattr(StepwiseEM, "update", update)
    both_ways(monkeypatch, Tagger(2, 3), data, Normalise(), 6, batch_size=1, init=init)
    assert 24 + 1 < general[0] < 24 + 24  # all updates of the general path, the first of the other, and some more


@pytest.mark.parametrize(
    "model",
    [Tagger(3, CORPUS.vocab, order=2), pu.harden(Tagger(3, CORPUS.vocab)), poutine.scale(Tagger(3, CORPUS.vocab), 2.0)],
    ids=["second order", "hardened", "scaled"],
)
def test_models_without_compiled_stretches_take_the_general_path(model: Any) -> None:
    engine = StepwiseEM(model, batch_size=20)
    fit = engine.run(CORPUS, iterations=3, progress=False)
    assert shortcut(engine, CORPUS) is None
    assert fit.rows[-1]["log_likelihood"] > fit.rows[0]["log_likelihood"]


def test_weights_that_are_not_the_tables_themselves_are_not_taken_for_them() -> None:
    def shifted(words: list[list[int]]) -> None:
        start, transition = pu.table("start", 2), pu.table("transition", 2, 2)
        emission = pu.table("emission", 2, 3) - 0.5
        flat, lengths = torch.tensor([w for s in words for w in s]), torch.tensor([len(s) for s in words])
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", pu.Chain(start, transition, emission, lengths, flat=True), obs=flat)

    engine = StepwiseEM(shifted, batch_size=3)
    assert shortcut(engine, corpus(V=3)) is None
