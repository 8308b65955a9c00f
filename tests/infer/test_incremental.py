"""Incremental EM: its bound, its first pass, what it remembers and how much that is."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import AddLambda, DirichletVB, FitError, IncrementalEM, Normalise, StepwiseEM
from pyro_unsup.data import TagDictionary, toy
from pyro_unsup.infer.counts_by_batch import TENSOR
from pyro_unsup.infer.loop import Info
from pyro_unsup.models import Tagger

CORPUS = toy.sentences(20, seed=3)


def corpus(n: int = 12, V: int = 4, longest: int = 5, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(V, size=rng.integers(1, longest + 1)).tolist() for _ in range(n)]


def mixture(words: Tensor) -> None:
    share, kinds = pu.table("share", 2), pu.table("kinds", row_lengths=[3, 5])
    with pyro.plate("words", len(words)):
        kind = pyro.sample("kind", pu.Categorical(share))
        table = torch.stack([torch.cat([kinds[:3], kinds.new_full((2,), -torch.inf)]), kinds[3:]])
        pyro.sample("word", pu.Categorical(table[kind]), obs=words)


CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "plain": (Tagger(3, 4), corpus(), {}),
    "mini-batches": (Tagger(3, 4), corpus(), {"batch_size": 5}),
    "smoothed": (Tagger(3, 4, stop=True), corpus(), {"estimate": AddLambda(0.2)}),
    "variational": (Tagger(3, 4), corpus(), {"estimate": DirichletVB(0.3)}),
    "tempered": (pu.temper(Tagger(3, 4), 0.5), corpus(), {"estimate": {"start": AddLambda(1.0)}}),
    "second order": (Tagger(2, 4, order=2), corpus(), {"batch_size": 3}),
    "dictionary": (
        Tagger(toy.TAGSET, CORPUS.vocab, dictionary=TagDictionary.from_corpus(CORPUS)),
        CORPUS,
        {"batch_size": 4},
    ),
    "enumerated": (mixture, torch.tensor([0, 1, 2, 3, 4, 0, 0, 1, 3, 3]), {"batch_size": 2}),
}
every = pytest.mark.parametrize(("model", "data", "options"), CASES.values(), ids=CASES)


@every
def test_the_bound_never_falls_at_any_update_and_is_a_bound(model: Any, data: Any, options: dict[str, Any]) -> None:
    engine = IncrementalEM(model, **options)
    state = engine.init(data, seed=1)
    start = engine.e_step(state)[0].objective
    engine.add_up(state)
    last = engine.bound(state)
    assert last >= start - 1e-9 * abs(start) or start == -torch.inf
    batches = -(-len(data) // engine.batch_size)
    for number in range(4 * batches):
        engine.visit(state, number * 7 % batches)
        bound = engine.bound(state)
        assert bound >= last - 1e-9 * abs(last)
        last = bound
    exact = state.problem.marginal.log_marginal(state.weights, (data,), {}) + state.log_prior()
    assert bound <= exact + 1e-9 * abs(exact)


@every
def test_a_run_has_a_monotone_history_that_ends_where_batch_em_does_not_move(
    model: Any, data: Any, options: dict[str, Any]
) -> None:
    fit = IncrementalEM(model, **options).run(data, iterations=40, tolerance=1e-9, progress=False)
    bounds = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(bounds) if a > -torch.inf)
    how = options.get("estimate")
    on = pu.EM(model, how, init=pu.init.from_weights(fit)).run(data, iterations=1, tolerance=0, progress=False)
    assert on.rows[0]["objective"] == pytest.approx(bounds[-1], rel=1e-3)
    assert on.rows[1]["objective"] == pytest.approx(bounds[-1], rel=1e-3)


@pytest.mark.parametrize("how", [Normalise(), AddLambda(0.2)])
def test_from_zero_the_first_pass_is_stepwise_em_with_power_one(how: Any) -> None:
    """Both keep the initial counts with weight one. Pseudo-counts enter alike, where both compare them with sums."""
    data, model = corpus(30), Tagger(3, 4)
    one = IncrementalEM(model, how, from_zero=True, order_seed=2)
    other = StepwiseEM(model, how, power=1.0, batch_size=1, order_seed=2).session(seed=5)
    state = one.init(data, seed=5)
    for k, i in enumerate(one.examples_of(state).order((2, 0))):
        loss = other.step([data[i]])
        other.state.statistics.value(k + 2)  # its counts are means; in sums they are as many times as large
        assert one.visit(state, int(i)) == pytest.approx(-loss, rel=1e-10)
        for name, w in state.weights.items():
            torch.testing.assert_close(w.exp(), other.weights[name].exp(), rtol=1e-10, atol=1e-12)


def test_a_run_from_zero_drops_the_initial_counts_after_its_first_pass() -> None:
    data, model = corpus(30), Tagger(3, 4)
    fit = IncrementalEM(model, from_zero=True, order_seed=2).run(data, iterations=6, tolerance=0, progress=False)
    engine = IncrementalEM(model, from_zero=True, order_seed=2)
    state = engine.init(data)
    for i in np.random.default_rng((2, 0)).permutation(30):
        engine.visit(state, int(i))
    with_start = float(state.statistics.tables["start"].counts().sum())
    engine.add_up(state)
    assert with_start == pytest.approx(31)
    assert float(state.statistics.tables["start"].counts().sum()) == pytest.approx(30)
    bounds = [row["objective"] for row in fit.rows]
    assert bounds[1] == pytest.approx(engine.bound(state), rel=1e-12)
    assert all(b >= a for a, b in itertools.pairwise(bounds[1:]))
    assert fit.rows[0]["log_likelihood"] == pytest.approx(-pu.EM(model).session().evaluate_loss(data), rel=1e-12)


def test_one_mini_batch_of_all_is_batch_em() -> None:
    model = Tagger(3, CORPUS.vocab)
    one = IncrementalEM(model, batch_size=100).run(CORPUS, iterations=4, tolerance=0, progress=False)
    other = pu.EM(model).run(CORPUS, iterations=5, tolerance=0, progress=False)
    for name, w in other.weights.items():
        torch.testing.assert_close(one.weights[name].exp(), w.exp(), rtol=1e-10, atol=1e-12)


def test_seeds_of_order_and_start_are_apart() -> None:
    def run(seed: int, order_seed: int) -> pu.Fit:
        engine = IncrementalEM(Tagger(3, 4), batch_size=2)
        return engine.run(corpus(), iterations=2, seed=seed, order_seed=order_seed, tolerance=0, progress=False)

    one, same, ordered, started = run(1, 1), run(1, 1), run(1, 2), run(2, 1)
    assert all(torch.equal(one.weights[name], same.weights[name]) for name in one.weights)
    assert one.rows[0]["objective"] == ordered.rows[0]["objective"] != started.rows[0]["objective"]
    assert not torch.equal(one.weights["emission"], ordered.weights["emission"])


@every
@pytest.mark.parametrize("from_zero", [False, True])
@pytest.mark.parametrize("stop", [0, 2])
def test_a_run_that_stops_and_goes_on_ends_bit_for_bit_where_it_would_have(
    model: Any, data: Any, options: dict[str, Any], from_zero: bool, stop: int, tmp_path: Path
) -> None:
    def run(iterations: int, **more: Any) -> pu.Fit:
        engine = IncrementalEM(model, from_zero=from_zero, **options)
        return engine.run(data, iterations=iterations, tolerance=0, progress=False, **more)

    def interrupt(info: Info) -> None:
        if info.iteration == stop:
            raise KeyboardInterrupt

    whole = run(4)
    with pytest.raises(KeyboardInterrupt):
        run(4, checkpoint=tmp_path / "kept", callbacks=[interrupt])
    rest = run(4, resume=pu.load(tmp_path / "kept", model))
    for group in ("weights", "state"):
        one, other = getattr(rest, group), getattr(whole, group)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    assert [{**row, "seconds": 0} for row in rest.rows] == [{**row, "seconds": 0} for row in whole.rows]


@pytest.mark.parametrize("batch_size", [1, 3])
def test_memory_is_said_before_it_is_taken(batch_size: int) -> None:
    model = Tagger(3, CORPUS.vocab)
    engine = IncrementalEM(model, batch_size=batch_size)
    said = engine.memory(CORPUS)
    state = engine.init(CORPUS)
    engine.e_step(state)
    kept = state.own()
    numbers = sum(x.nbytes for name, x in kept.items() if name.endswith(("counts", "touched")))
    assert said == numbers + 4 * len(state.by_batch) * TENSOR  # three tables, one of them with touched columns
    whole = len(state.by_batch) * 3 * len(CORPUS.vocab) * 8
    assert numbers < whole / 5


def test_too_much_memory_is_refused_before_any_work() -> None:
    engine = IncrementalEM(Tagger(45, 10_000), max_gib=0.001)
    data = corpus(1000, V=10_000, longest=20)
    message = (
        r"the counts of 1000 mini-batches would take about 0.0\d+ GiB, more than max_gib = 0.001: take larger "
        r"mini-batches \(batch_size\), raise max_gib, or use StepwiseEM, which keeps none"
    )
    with pytest.raises(FitError, match=message):
        engine.run(data, progress=False)
    state = engine.init(data)
    with pytest.raises(FitError, match=message):
        engine.e_step(state)
    assert len(state.by_batch) == 0


def test_a_resumed_run_goes_on_and_other_data_are_refused() -> None:
    data = corpus()
    whole = IncrementalEM(Tagger(3, 4)).run(data, iterations=4, tolerance=0, progress=False)
    engine = IncrementalEM(Tagger(3, 4))
    half = engine.run(data, iterations=2, tolerance=0, progress=False)
    again = engine.run(data, iterations=4, tolerance=0, progress=False, resume=half)
    assert all(torch.equal(again.weights[name], w) for name, w in whole.weights.items())
    message = "IncrementalEM remembers the mini-batches of the data that it began with, and these are others"
    session = engine.session()
    session.step(data)
    for _ in range(2):
        with pytest.raises(FitError, match=message):
            session.step(corpus(seed=1))
    with pytest.raises(FitError, match=message):
        IncrementalEM(Tagger(3, 4)).run(corpus(5), iterations=9, resume=whole, progress=False)
    session.step(data)


def test_an_interrupt_before_the_first_row_leaves_nothing_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    data, engine, real = corpus(), IncrementalEM(Tagger(3, 4)), IncrementalEM._look_at
    state = engine.init(data)

    def look_at(engine: IncrementalEM, state: Any, batch: int) -> Any:
        if batch == 7:
            raise KeyboardInterrupt
        return real(engine, state, batch)

    with monkeypatch.context() as patch:
        patch.setattr(IncrementalEM, "_look_at", look_at)
        with pytest.raises(KeyboardInterrupt):
            engine.e_step(state)
    for _ in range(2):
        state, _ = engine.step(state)
    whole = IncrementalEM(Tagger(3, 4)).run(data, iterations=2, tolerance=0, progress=False)
    assert all(torch.equal(state.weights[name], w) for name, w in whole.weights.items())


def test_counts_that_are_missing_from_a_fit_are_an_error() -> None:
    fit = IncrementalEM(Tagger(3, 4)).run(corpus(), iterations=1, progress=False)
    del fit.state["store.start.counts"]
    with pytest.raises(FitError, match="the fit to go on from does not hold the counts of its mini-batches"):
        IncrementalEM(Tagger(3, 4)).run(corpus(), resume=fit, progress=False)
