"""EM against enumeration, against hmmlearn, and against its own invariants."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import EM, AddLambda, DirichletMAP, Normalise
from pyro_unsup.models import Tagger

from ..distributions.chain_case import enumerate_chain
from .em_cases import corpus, start_weights


@pytest.mark.parametrize(("order", "stop"), [(1, False), (1, True), (2, False), (2, True)])
def test_em_equals_em_by_enumeration(order: int, stop: bool) -> None:
    data = corpus()
    model = Tagger(tags=2, vocab=4, order=order, stop=stop)
    weights = start_weights(model, data)
    em = EM(model, init=pu.init.from_weights(weights)).session()
    for _ in range(4):
        loss = em.step(data)
        chain = pu.Chain(
            weights["start"],
            weights["transition"],
            weights["emission"],
            torch.tensor([1]),
            weights.get("second"),
            flat=True,
        )
        total, counts = 0.0, {name: torch.zeros_like(w) for name, w in weights.items()}
        for sentence in data:
            found = enumerate_chain(chain, sentence)
            total += found.log_z
            for p, used in zip(found.probabilities(), found.counts, strict=True):
                for name in counts:
                    counts[name] += p * used[name]
        assert loss == pytest.approx(-total, rel=1e-12)
        weights = {name: (c / c.sum(-1, keepdim=True)).log() for name, c in counts.items()}
        for name, w in weights.items():
            torch.testing.assert_close(em.weights[name].exp(), w.exp(), rtol=1e-10, atol=1e-12)


def test_em_equals_hmmlearn() -> None:
    hmm = pytest.importorskip("hmmlearn.hmm")
    data = corpus(60, V=6, longest=9)
    model = Tagger(tags=3, vocab=6)
    weights = start_weights(model, data)
    ours = EM(model, init=pu.init.from_weights(weights)).run(data, iterations=20, tolerance=0)
    theirs = hmm.CategoricalHMM(3, n_features=6, n_iter=20, tol=-math.inf, params="ste", init_params="")
    theirs.startprob_, theirs.transmat_, theirs.emissionprob_ = (
        weights[name].exp().numpy() for name in ("start", "transition", "emission")
    )
    theirs.fit(np.concatenate(data)[:, None], [len(s) for s in data])
    path = [row["objective"] for row in ours.rows[:-1]]
    np.testing.assert_allclose(path, list(theirs.monitor_.history), rtol=1e-9)
    np.testing.assert_allclose(ours.weights["emission"].exp(), theirs.emissionprob_, atol=1e-8)
    np.testing.assert_allclose(ours.weights["transition"].exp(), theirs.transmat_, atol=1e-8)


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(0, 10_000),
    order=st.integers(1, 2),
    stop=st.booleans(),
    how=st.sampled_from([Normalise(), AddLambda(0.3), DirichletMAP(1.7)]),
)
def test_the_objective_never_falls(seed: int, order: int, stop: bool, how: pu.estimate.Estimator) -> None:
    fit = EM(Tagger(3, 4, order, stop=stop), how).run(corpus(20, seed=seed), iterations=30, tolerance=0, seed=seed)
    values = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))
    assert values[-1] > values[0]


@pytest.mark.parametrize("order", [1, 2])
def test_shuffling_relabelling_and_doubling_change_nothing(order: int) -> None:
    data = corpus(30, V=5)
    model = Tagger(3, 5, order, stop=True)
    weights = start_weights(model, data)

    def path(data: list[list[int]], weights: dict[str, Tensor]) -> np.ndarray:
        fit = EM(model, init=pu.init.from_weights(weights)).run(data, iterations=15, tolerance=0)
        return np.array([row["objective"] for row in fit.rows])

    plain = path(data, weights)
    np.testing.assert_allclose(path(data[::-1], weights), plain, rtol=1e-12)
    np.testing.assert_allclose(path(data + data, weights), 2 * plain, rtol=1e-12)
    p = torch.tensor([2, 0, 1])
    out = torch.tensor([2, 0, 1, 3])
    moved = {"start": weights["start"][p], "emission": weights["emission"][p]}
    moved["transition"] = weights["transition"][p][..., out] if order == 1 else weights["transition"][p][:, p][..., out]
    if order == 2:
        moved["second"] = weights["second"][p][:, out]
    np.testing.assert_allclose(path(data, moved), plain, rtol=1e-12)


def test_step_and_run_are_the_same_engine() -> None:
    data = corpus()
    stepped, whole = EM(Tagger(2, 4)).session(), EM(Tagger(2, 4))
    losses = [stepped.step(data) for _ in range(5)]
    fit = whole.run(data, iterations=5, tolerance=0)
    assert [-row["objective"] for row in fit.rows[:-1]] == losses
    assert fit.rows[-1]["objective"] == pytest.approx(-stepped.evaluate_loss(data), rel=1e-12)
    for name, w in fit.weights.items():
        assert torch.equal(w, stepped.weights[name])


def test_a_run_changes_nothing_in_the_engine_and_the_same_seed_gives_the_same_result() -> None:
    data = corpus()
    once = EM(Tagger(2, 4)).run(data, iterations=10, tolerance=0, seed=3)
    twice = EM(Tagger(2, 4))
    before = dict(vars(twice))
    first = twice.run(data, iterations=5, tolerance=0, seed=3)
    assert vars(twice) == before
    again = twice.run(data, iterations=10, tolerance=0, resume=first)
    other = EM(Tagger(2, 4)).run(data, iterations=10, tolerance=0, seed=4)
    assert all(torch.equal(once.weights[name], again.weights[name]) for name in once.weights)
    assert not torch.equal(once.weights["start"], other.weights["start"])


def test_converges_to_a_tight_tolerance_where_the_gradient_vanishes() -> None:
    data = corpus(40)
    fit = EM(Tagger(2, 4), AddLambda(0.5)).run(data, iterations=5000, tolerance=1e-12)
    assert fit.report.converged
    assert fit.report.change <= 1e-12
    assert "converged after" in str(fit.report)
    counts = fit.posterior(data).counts
    for name, w in fit.weights.items():  # at a fixed point the smoothed counts are the weights
        c = counts[name] + 0.5
        torch.testing.assert_close(c / c.sum(-1, keepdim=True), w.exp(), rtol=1e-3, atol=1e-4)


def test_restarts_report_their_spread_and_do_not_depend_on_processes() -> None:
    data = corpus(40)
    alone = EM(Tagger(3, 4)).run(data, iterations=10, restarts=3, processes=1, seed=5, progress=False)
    together = EM(Tagger(3, 4)).run(data, iterations=10, restarts=3, processes=2, seed=5, progress=False)
    singles = [EM(Tagger(3, 4)).run(data, iterations=10, seed=5 + i).objective for i in range(3)]
    assert alone.report.restarts == together.report.restarts == singles
    assert together.objective == max(singles)
    assert together.seed == 5 + singles.index(max(singles))
    assert all(torch.equal(alone.weights[name], together.weights[name]) for name in alone.weights)
    assert "best of 3 restarts" in str(together.report)
    assert together.report.spread == (min(singles), pytest.approx(np.mean(singles)), max(singles))


def test_callbacks_see_every_iteration_and_may_stop() -> None:
    seen: list[int] = []
    fit = EM(Tagger(2, 4)).run(
        corpus(), tolerance=0, callbacks=[lambda info: seen.append(info.iteration) or len(seen) > 4]
    )
    assert seen == [0, 1, 2, 3, 4]
    assert fit.report.reason == "stopped by a callback"
    assert list(fit.history["iteration"]) == seen


def test_an_interrupt_keeps_what_was_learned(tmp_path: Path) -> None:
    data, em, kept = corpus(), EM(Tagger(2, 4)), tmp_path / "kept"

    def interrupt(info: pu.infer.Info) -> None:
        if info.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        em.run(data, tolerance=0, callbacks=[interrupt], checkpoint=kept)
    fit = em.run(data, iterations=5, tolerance=0, checkpoint=kept, resume=True)
    whole = EM(Tagger(2, 4)).run(data, iterations=5, tolerance=0)
    assert fit.objective == whole.objective


def test_float32_is_close() -> None:
    data = corpus(40)
    double = EM(Tagger(2, 4)).run(data, iterations=10, tolerance=0)
    single = EM(Tagger(2, 4), dtype=torch.float32).run(data, iterations=10, tolerance=0)
    assert single.weights["emission"].dtype == torch.float32
    assert single.objective == pytest.approx(double.objective, rel=1e-5)


def test_estimators_by_table() -> None:
    data = [[0, 0, 1], [1, 0]]  # word 2 never occurs
    fit = EM(Tagger(2, 3), {"emission": AddLambda(1.0)}).run(data, iterations=5, tolerance=0)
    assert (fit.weights["emission"][:, 2] > -torch.inf).all()
    plain = EM(Tagger(2, 3)).run(data, iterations=5, tolerance=0)
    assert (plain.weights["emission"][:, 2] == -torch.inf).all()


def test_structural_zeros_stay() -> None:
    mask = torch.tensor([[True, True, False, True], [False, True, True, True]])
    fit = EM(Tagger(2, 4, dictionary=mask), AddLambda(0.1)).run(corpus(), iterations=10, tolerance=0)
    assert (fit.weights["emission"][~mask] == -torch.inf).all()
    assert (fit.weights["emission"][mask] > -torch.inf).all()


def test_scores_become_columns_of_the_history() -> None:
    data = corpus()
    states = lambda fit: {"states": len(fit.predict(data).unique())}  # noqa: E731
    fit = EM(Tagger(2, 4)).run(data, iterations=3, tolerance=0, score=states)
    assert list(fit.history["states"]) == [row["states"] for row in fit.rows]
    assert len(fit.rows) == 4
    one = EM(Tagger(2, 4)).run(data, iterations=1, tolerance=0, score=lambda fit: fit.report.iterations)
    assert [row["score"] for row in one.rows] == [0.0, 1.0]
    again = EM(Tagger(2, 4)).run(data, iterations=2, tolerance=0, resume=one, score=lambda fit: fit.report.iterations)
    assert [row["score"] for row in again.rows] == [0.0, 1.0, 2.0]


def test_a_loop_of_ones_own_converges() -> None:
    engine, sentences = pu.EM(pu.models.Tagger(2, 2)), [[0, 1], [0, 1, 1], [1, 0, 1]]
    state, rows = engine.init(sentences, seed=1), []
    while not rows or not engine.converged(state, rows, tolerance=1e-4):
        state, info = engine.step(state)
        rows.append(info)
    assert 1 < len(rows) < 200
    assert rows[-1].objective - rows[-2].objective <= 1e-4 * max(abs(rows[-2].objective), 1.0)
