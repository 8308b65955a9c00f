"""Compiled stretches of stepwise EM against the general path."""

from __future__ import annotations

from typing import Any

import pyro
import pytest
import torch
from pyro import poutine
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import AddLambda, DirichletMAP, Normalise, StepwiseEM
from pyro_unsup.data import TagDictionary, toy
from pyro_unsup.infer.shortcut import Shortcut
from pyro_unsup.models import Tagger

from .stepwise_cases import COMPILED, CORPUS, Sharpened, close, corpus


def shortcut(engine: StepwiseEM, data: Any) -> Shortcut | None:
    """The compiled mini-batches of a run, if there are any."""
    state: Any = engine.init(data)
    engine.examples_of(state)
    found: Shortcut | None = state.shortcut
    return found


def both_ways(monkeypatch: pytest.MonkeyPatch, model: Any, data: Any, how: Any, passes: int, **options: Any) -> None:
    """Compiled stretches and the general path lead to the same weights by the same likelihoods."""
    smooths = not isinstance(how, Normalise)
    zeros = any(table.layout.support is not None for table in pu.handlers.declared(model, data).values())
    fast = StepwiseEM(model, how, **options)
    one = fast.run(data, iterations=passes, tolerance=0, progress=False)
    assert (shortcut(fast, data) is not None) == (not (smooths and zeros))  # there are no pseudo-counts for zeros
    with monkeypatch.context() as patch:
        patch.setattr(Shortcut, "of", staticmethod(lambda *args: None))
        other = StepwiseEM(model, how, **options).run(data, iterations=passes, tolerance=0, progress=False)
    close(one.weights, other.weights)
    for a, b in zip(one.rows, other.rows, strict=True):
        assert a["objective"] == pytest.approx(b["objective"], rel=1e-10)


def _halved(x: Tensor) -> Tensor:
    return 0.5 * x


def general(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the updates of the general path from now on."""
    count, real = [0], StepwiseEM.update

    def update(engine: StepwiseEM, *args: Any) -> float:
        count[0] += 1
        return real(engine, *args)

    monkeypatch.setattr(StepwiseEM, "update", update)
    return count


@pytest.mark.parametrize("how", [Normalise(), AddLambda(0.2), DirichletMAP(1.3)], ids=["plain", "add", "map"])
@pytest.mark.parametrize("beta", [1.0, 0.4, 2.0])
@pytest.mark.parametrize("kind", COMPILED)
def test_compiled_stretches_equal_the_general_path(
    how: Any, beta: float, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With examples of length 0 and 1, and mini-batches that never touch all of the larger tables."""
    model, data = COMPILED[kind]()
    both_ways(monkeypatch, model if beta == 1 else pu.temper(model, beta), data, how, 3, batch_size=3)


@pytest.mark.parametrize("kind", COMPILED)
def test_scales_are_folded_into_the_tables(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = COMPILED[kind]()
    options = {"batch_size": 4, "schedule": lambda k: 0.9 - 0.1 * (k % 3)}
    count = general(monkeypatch)
    both_ways(monkeypatch, model, data, Normalise(), 60, **options)
    assert 1 < count[0] - 300 < 50  # all updates of the general path, the first of the other, and where it is folded


@pytest.mark.parametrize(("spread", "step"), [(20.0, 0.01), (200.0, 0.0), (600.0, 0.0)])
@pytest.mark.parametrize("kind", COMPILED)
def test_weights_of_all_sizes(kind: str, spread: float, step: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What compiled stretches cannot do exactly is left to the general path. (Counts themselves are exact to rounding,
    which is more than many a weight here: so these stay as they are.)"""
    model, data = COMPILED[kind]()
    generator = torch.Generator().manual_seed(1)
    weights = {
        name: table.layout.normalise(-spread * torch.rand(table.layout.shape, generator=generator, dtype=torch.float64))
        for name, table in model.declarations().items()
    }
    init = pu.init.from_weights(weights)
    both_ways(monkeypatch, model, data, Normalise(), 1, batch_size=2, init=init, schedule=lambda k: step)


@pytest.mark.parametrize("kind", COMPILED)
def test_a_run_goes_on_to_the_last_bit(kind: str) -> None:
    model, data = COMPILED[kind]()
    engine = StepwiseEM(model, AddLambda(0.1), batch_size=3)
    whole = engine.run(data, iterations=4, tolerance=0, progress=False)
    half = engine.run(data, iterations=2, tolerance=0, progress=False)
    again = engine.run(data, iterations=4, tolerance=0, progress=False, resume=half)
    for name, w in whole.weights.items():
        assert torch.equal(w, again.weights[name])


@pytest.mark.parametrize("kind", COMPILED)
def test_a_pass_leaves_the_state_before_it_as_it_was(kind: str) -> None:
    model, data = COMPILED[kind]()
    engine = StepwiseEM(model, batch_size=3)
    state = engine.m_step(engine.init(data))
    before = state.statistics.tensors()
    first, second = engine.m_step(state), engine.m_step(state)
    for name, x in state.statistics.tensors().items():
        assert torch.equal(x, before[name])
        assert torch.equal(first.statistics.tensors()[name], second.statistics.tensors()[name])
    assert not torch.equal(first.weights[min(first.weights)], state.weights[min(first.weights)])


@pytest.mark.parametrize("kind", ["tagger", "aligner"])
def test_a_part_that_stops_early_holds_the_others_back(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretches that end at will, as those with an example that they cannot do."""
    model, data = COMPILED[kind]()
    real, calls = Shortcut._run, [0]

    def run(self: Shortcut, part: Any, running: Any, order: Any, steps: Any, *rest: Any) -> Any:
        calls[0] += 1
        return real(self, part, running, order, steps[: 1 + calls[0] * 7 % 5], *rest)

    monkeypatch.setattr(Shortcut, "_run", run)
    both_ways(monkeypatch, model, data, AddLambda(0.1), 3, batch_size=2)
    assert calls[0] > 5


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
    count = general(monkeypatch)
    both_ways(monkeypatch, Tagger(2, 3), data, Normalise(), 6, batch_size=1, init=pu.init.from_weights(weights))
    assert 24 + 1 < count[0] < 24 + 24  # all updates of the general path, the first of the other, and some more


@pytest.mark.parametrize(
    "model",
    [
        pu.harden(Tagger(3, CORPUS.vocab)),
        poutine.scale(Tagger(3, CORPUS.vocab), 2.0),
        pu.models.CCM.of(CORPUS, empty_spans=True),
    ],
    ids=["hardened", "scaled", "empty spans"],
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


def test_added_potentials_are_not_forgotten() -> None:
    def ruled(words: list[list[int]]) -> None:
        start, transition, emission = pu.table("start", 2), pu.table("transition", 2, 2), pu.table("emission", 2, 3)
        flat, lengths = torch.tensor([w for s in words for w in s]), torch.tensor([len(s) for s in words])
        chain = pu.Chain(start, transition, emission, lengths, flat=True)
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", chain.with_potentials(states=torch.rand(len(flat), 2)), obs=flat)

    assert shortcut(StepwiseEM(ruled, batch_size=3), corpus(V=3)) is None


@pytest.mark.parametrize(
    ("function", "compiled"), [(lambda x: x.flip(-1), True), (lambda x: x.clamp(min=-9.0), False), (_halved, False)]
)
def test_weights_that_are_computed_may_be_moved_about_and_no_more(function: Any, compiled: bool) -> None:
    def turned(words: list[list[int]]) -> None:
        words_of = pu.tables.derived.derived(function, pu.table("words", 2, 3))
        flat, lengths = torch.tensor([w for s in words for w in s]), torch.tensor([len(s) for s in words])
        mixture = pu.distributions.Mixture(pu.table("cluster", 2), words_of, lengths)
        with pyro.plate("sentences", len(words)):
            pyro.sample("words", mixture, obs=torch.stack([flat, torch.ones_like(flat)], 1))

    assert (shortcut(StepwiseEM(turned, batch_size=3), corpus(V=3)) is not None) == compiled
