"""Runs of stepwise EM: orders, histories, restarts, and runs that stop and go on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import AddLambda, DirichletVB, FitError, StepwiseEM
from pyro_unsup.infer.loop import Info
from pyro_unsup.models import Tagger

from .stepwise_cases import CORPUS, Sharpened, corpus


def test_the_same_seeds_give_the_same_result_and_order_is_apart_from_the_start() -> None:
    def run(seed: int, order_seed: int) -> pu.Fit:
        engine = StepwiseEM(Tagger(3, CORPUS.vocab), batch_size=4)
        return engine.run(CORPUS, seed=seed, order_seed=order_seed, iterations=2, tolerance=0, progress=False)

    one, same, ordered, started = run(1, 1), run(1, 1), run(1, 2), run(2, 1)
    assert all(torch.equal(one.weights[name], same.weights[name]) for name in one.weights)
    assert one.rows[0]["objective"] == ordered.rows[0]["objective"] != started.rows[0]["objective"]
    assert not torch.equal(one.weights["emission"], ordered.weights["emission"])
    assert one.config["order_seed"] == 1
    assert ordered.config == {**one.config, "order_seed": 2}
    given = StepwiseEM(Tagger(3, CORPUS.vocab), batch_size=4, order_seed=2)
    again = given.run(CORPUS, seed=1, iterations=2, tolerance=0, progress=False)
    assert torch.equal(again.weights["emission"], ordered.weights["emission"])


def test_every_pass_has_an_order_of_its_own_and_takes_every_example_once() -> None:
    engine = StepwiseEM(Tagger(2, 4), batch_size=5)
    data = corpus(13)
    examples = engine.examples_of(engine.init(data))  # type: ignore[arg-type]
    orders = [examples.order((3, number)).tolist() for number in range(3)]
    assert len({tuple(order) for order in orders}) == 3
    assert all(sorted(order) == list(range(13)) for order in orders)
    assert [len(batch) for batch in examples.batches(5, (3, 0))] == [5, 5, 3]
    assert np.concatenate(list(examples.batches(5, None))).tolist() == list(range(13))


def test_the_history_has_the_likelihood_of_the_pass_and_if_asked_the_exact_one() -> None:
    model = Tagger(3, CORPUS.vocab)
    plain = StepwiseEM(model, batch_size=6).run(CORPUS, iterations=3, tolerance=0, progress=False)
    fit = StepwiseEM(model, batch_size=6, exact=True).run(
        CORPUS, iterations=3, tolerance=0, progress=False, score=lambda fit: fit.log_likelihood(CORPUS)
    )
    assert [row["online_log_likelihood"] for row in fit.rows[1:]] == [row["objective"] for row in plain.rows[1:]]
    for row in fit.rows:
        assert row["log_likelihood"] == pytest.approx(row["score"], rel=1e-12)
    assert "online_log_likelihood" not in fit.rows[0]
    assert fit.report.iterations == 3
    assert fit.config["updates"] == 30
    assert (fit.config["power"], fit.config["batch_size"]) == (0.7, 6)


def test_restarts_keep_the_best() -> None:
    engine = StepwiseEM(Tagger(3, CORPUS.vocab), AddLambda(0.1), power=0.8, batch_size=9, order_seed=4)
    fit = engine.run(CORPUS, iterations=3, restarts=3, processes=1, progress=False)
    assert len(fit.report.restarts) == 3
    assert fit.objective == max(fit.report.restarts)
    assert fit.config["order_seed"] == 4
    best = engine.load_state(engine.init(CORPUS), fit)  # type: ignore[arg-type]
    assert engine.loss(best) == pytest.approx(-fit.log_likelihood(CORPUS), rel=1e-12)


CASES: dict[str, dict[str, Any]] = {
    "compiled": {},
    "smoothed": {"estimate": AddLambda(0.1), "exact": True},
    "variational": {"estimate": DirichletVB(0.1), "batch_size": 20},
    "own estimator": {"estimate": Sharpened(), "batch_size": 20},
    "float32": {"dtype": torch.float32, "batch_size": 20},
    "forgetful": {"schedule": lambda k: 0.9},
}
cases = pytest.mark.parametrize("options", CASES.values(), ids=CASES)


def engine_of(options: dict[str, Any]) -> StepwiseEM:
    return StepwiseEM(Tagger(3, CORPUS.vocab), **{"batch_size": 4, **options})


def run_of(options: dict[str, Any], iterations: int, **more: Any) -> pu.Fit:
    return engine_of(options).run(CORPUS, iterations=iterations, tolerance=0, seed=3, progress=False, **more)


def assert_same_run(a: pu.Fit, b: pu.Fit) -> None:
    for group in ("weights", "state"):
        one, other = getattr(a, group), getattr(b, group)
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)
    for x, y in zip(a.rows, b.rows, strict=True):
        assert {**x, "seconds": 0} == {**y, "seconds": 0}


@cases
def test_a_run_that_stops_and_goes_on_ends_bit_for_bit_where_it_would_have(
    options: dict[str, Any], tmp_path: Path
) -> None:
    whole = run_of(options, 6)
    run_of(options, 2).save(tmp_path / "half")
    half = pu.load(tmp_path / "half")
    assert half.state.keys() == whole.state.keys()
    assert_same_run(run_of(options, 6, resume=half), whole)


@pytest.mark.parametrize("at", [0, 1, 3])
def test_an_interrupt_leaves_a_checkpoint_to_go_on_from(at: int, tmp_path: Path) -> None:
    def interrupt(info: Info) -> None:
        if info.iteration == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_of({}, 5, checkpoint=tmp_path / "kept", callbacks=[interrupt])
    kept = pu.load(tmp_path / "kept")
    assert kept.report.iterations == at
    assert_same_run(run_of({}, 5, resume=kept), run_of({}, 5))


def test_an_interrupt_within_a_pass_does_too(tmp_path: Path, slowly: None, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, real, calls = run_of({}, 3), StepwiseEM.update, [0]

    def update(engine: StepwiseEM, *args: Any) -> float:
        calls[0] += 1
        if calls[0] == 22:  # the seventh mini-batch of the second pass
            raise KeyboardInterrupt
        return real(engine, *args)

    with monkeypatch.context() as patch:
        patch.setattr(StepwiseEM, "update", update)
        with pytest.raises(KeyboardInterrupt):
            run_of({}, 3, checkpoint=tmp_path / "kept")
    assert_same_run(run_of({}, 3, resume=pu.load(tmp_path / "kept")), whole)


def test_a_fit_of_another_engine_is_a_start() -> None:
    batch = pu.EM(Tagger(3, CORPUS.vocab)).run(CORPUS, iterations=2, tolerance=0, progress=False)
    engine = engine_of({})
    fit = engine.run(CORPUS, iterations=4, resume=batch, tolerance=0, progress=False)
    assert fit.rows[2]["objective"] == pytest.approx(batch.objective, rel=1e-12)
    assert fit.config["updates"] == 2 * 15
    with pytest.raises(FitError, match="table 'start': expected 'unscaled' of shape"):
        engine_of({}).run(CORPUS, resume=_without(fit, "start.unscaled"), progress=False)


def _without(fit: pu.Fit, name: str) -> pu.Fit:
    fit.state = {key: x for key, x in fit.state.items() if key != name}
    return fit


def test_the_first_pass_alone_is_not_convergence() -> None:
    """Where one mini-batch holds everything, it finds the log-likelihood of the start again."""
    data = [[0, 1, 2], [2, 1], [0, 1, 1]]
    fit = pu.StepwiseEM(pu.models.Tagger(2, 3), batch_size=100).run(data, iterations=5)
    assert fit.report.iterations > 1


def test_flat_words_with_lengths_are_examples_too() -> None:
    data = [[0, 1, 2], [2, 1], [], [0, 1, 1]]
    words, lengths = torch.tensor([0, 1, 2, 2, 1, 0, 1, 1]), torch.tensor([3, 2, 0, 3])
    one = pu.StepwiseEM(pu.models.Tagger(2, 3), batch_size=2).run(data, iterations=3)
    other = pu.StepwiseEM(pu.models.Tagger(2, 3), batch_size=2).run(words, lengths, iterations=3)
    assert one.objective == other.objective
