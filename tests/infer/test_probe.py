"""Probing: a few iterations from many seeds, the best of which goes on as if nothing had happened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.models import Tagger

CORPUS = pu.data.toy.sentences(40, seed=1)
MODEL = Tagger(4, CORPUS.vocab)
ENGINES: dict[str, Any] = {
    "EM": lambda: pu.EM(MODEL, pu.AddLambda(0.1)),
    "Gradient": lambda: pu.Gradient(MODEL, pu.LogLinear(kappa=0.1)),
    "Anneal": lambda: pu.Anneal(MODEL, pu.AddLambda(0.1), schedule=[0.5, 1.0], steps=2),
}


@pytest.mark.parametrize("name", ENGINES)
def test_the_best_probe_goes_on(name: str) -> None:
    engine = ENGINES[name]()
    alone = [engine.run(CORPUS, iterations=9, tolerance=0, seed=k) for k in range(4)]
    scores = [fit.rows[3]["objective"] for fit in alone]
    best = max(range(4), key=lambda k: scores[k])
    fit = engine.run(CORPUS, iterations=9, tolerance=0, restarts=4, probe=3, processes=1)
    assert fit.report.restarts == pytest.approx(scores, rel=1e-12)
    assert fit.seed == fit.report.seed == best
    assert fit.objective == pytest.approx(alone[best].objective, rel=1e-12)
    assert len(fit.rows) == 10
    for table, w in alone[best].weights.items():
        torch.testing.assert_close(fit.weights[table], w, rtol=1e-9, atol=1e-9)
    assert (fit.config["restarts"], fit.config["probe"]) == (4, 3)
    assert "best of 4 restarts after 3 iterations" in str(fit.report)


def test_going_on_from_checkpoints(tmp_path: Path) -> None:
    how: dict[str, Any] = {"restarts": 3, "probe": 2, "processes": 1, "tolerance": 0, "iterations": 8}
    whole = ENGINES["EM"]().run(CORPUS, **how)
    heard: list[int] = []

    class Stops:
        """Leaves the run unfinished at an iteration, of the fourth start: that of the best probe."""

        def begins(self, restart: int) -> bool:
            return True

        def goes_on(self, restart: int, info: Any) -> bool:
            heard.append(restart)
            return not (restart == 3 and info.iteration == 5)

        def ends(self, restart: int, fit: pu.Fit) -> None:
            pass

    ENGINES["EM"]().run(CORPUS, **how, checkpoint=tmp_path / "run", monitor=Stops())
    assert set(heard) == {0, 1, 2, 3}
    again = ENGINES["EM"]().run(CORPUS, **how, checkpoint=tmp_path / "run", resume=True)
    assert again.report.restarts == whole.report.restarts
    assert [row["objective"] for row in again.rows] == [row["objective"] for row in whole.rows]
    assert all(torch.equal(again.weights[name], w) for name, w in whole.weights.items())


def test_as_many_as_there_are_is_no_probe() -> None:
    engine = ENGINES["EM"]()
    plain = engine.run(CORPUS, iterations=3, restarts=2, processes=1)
    assert engine.run(CORPUS, iterations=3, restarts=2, processes=1, probe=3).objective == plain.objective
    for probe, restarts in ((0, 2), (3, 1)):
        with pytest.raises(pu.FitError, match=rf"actual {probe} of {restarts}"):
            engine.run(CORPUS, probe=probe, restarts=restarts)


def test_sharp_posteriors_first() -> None:
    """Betas that fall to 1, a step each: every E step is that of the posterior to that power, the last one EM's."""
    fit = pu.Anneal(MODEL, pu.AddLambda(0.1), pu.init.noise(1.0), schedule=[4.0, 2.0, 1.0], steps=1, jitter=0.0).run(
        CORPUS, iterations=4, tolerance=0
    )
    assert fit.history.beta.tolist() == [4.0, 2.0, 1.0, 1.0, 1.0]
    weights: Any = None
    for beta, row in zip((4.0, 2.0, 1.0, 1.0), fit.rows, strict=False):
        init = pu.init.noise(1.0) if weights is None else pu.init.from_weights(weights)
        one = pu.EM(pu.temper(MODEL, beta), pu.AddLambda(0.1), init).run(CORPUS, iterations=1, tolerance=0)
        assert row["objective"] == pytest.approx(one.rows[0]["objective"], rel=1e-10)
        weights = one.weights
    for name, w in weights.items():
        torch.testing.assert_close(fit.weights[name], w, rtol=1e-9, atol=1e-9)


def test_whole_numbers() -> None:
    engine = ENGINES["EM"]()
    for name in ("probe", "restarts"):
        for wrong in (1.5, True, "3"):
            how = {"restarts": 4, "probe": 2, name: wrong}
            with pytest.raises(pu.FitError, match=f"{name} should be a whole number, actual {wrong!r}"):
                engine.run(CORPUS, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("probe", [None, 1])
def test_restarts_that_are_all_the_same(probe: int | None) -> None:
    start = pu.init.uniform()
    engine = pu.EM(MODEL, pu.AddLambda(0.1), start)
    with pytest.warns(pu.infer.SameRestarts, match="all 3 restarts began at the same place and are one and the same"):
        engine.run(CORPUS, iterations=2, restarts=3, probe=probe, processes=1)
    noisy = pu.EM(MODEL, pu.AddLambda(0.1), pu.init.around(start, 0.1))
    noisy.run(CORPUS, iterations=2, restarts=3, probe=probe, processes=1)  # no warning
