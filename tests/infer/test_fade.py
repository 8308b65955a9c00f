"""Preferences that fade: each stage is EM under weaker rules, the last one EM without them, and runs go on exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pyro import poutine

import pyro_unsup as pu
from pyro_unsup.handlers.prefer import preferences_of
from pyro_unsup.infer import UnfinishedSchedule
from pyro_unsup.models import DMV

CORPUS = pu.data.short_tag_sequences(pu.data.toy.sentences(60, seed=1), 8, ["PUNCT"])
PLAIN = DMV.of(CORPUS)
START = PLAIN.harmonic_start(CORPUS)
RULE = pu.components.universal()
SMOOTH = pu.AddLambda(1.0)


def fading(**options: Any) -> pu.Fade:
    return pu.Fade(pu.prefer(PLAIN, RULE, 2.0), SMOOTH, START, **options)


def same(one: pu.Fit, other: pu.Fit) -> None:
    assert [{**row, "seconds": 0} for row in one.rows] == [{**row, "seconds": 0} for row in other.rows]
    assert all(torch.equal(one.weights[name], w) for name, w in other.weights.items())


def test_each_stage_is_em_under_rules_of_that_weight() -> None:
    fit = fading(schedule=[1.0, 0.5, 0.0], steps=3).run(CORPUS, iterations=9, tolerance=0)
    strengths = fit.history.strength.tolist()
    assert strengths == [1.0] * 3 + [0.5] * 3 + [0.0] * 4
    weights: Any = None
    for strength, first, steps in ((1.0, 0, 3), (0.5, 3, 3), (0.0, 6, 3)):
        model = pu.prefer(PLAIN, RULE, 2.0 * strength) if strength else PLAIN
        init = START if weights is None else pu.init.from_weights(weights)
        stage = pu.EM(model, SMOOTH, init).run(CORPUS, iterations=steps, tolerance=0)
        ours = [row["objective"] for row in fit.rows[first : first + steps]]
        assert ours == pytest.approx([row["objective"] for row in stage.rows[:steps]], rel=1e-12)
        weights = stage.weights
    for name, w in weights.items():
        torch.testing.assert_close(fit.weights[name], w, rtol=1e-10, atol=1e-10)


def test_it_converges_at_every_strength_and_leaves_the_model_alone() -> None:
    model = pu.prefer(PLAIN, RULE, 2.0)
    engine = pu.Fade(model, SMOOTH, START)
    fit = engine.run(CORPUS, tolerance=1e-5)
    assert fit.report.converged
    ends = fit.history.groupby("stage").change.last()
    assert len(ends) == 4
    assert (ends <= 1e-5).all()
    assert fit.config["strengths"] == [1.0, 0.5, 0.25, 0.0]
    assert [one.strength for one in preferences_of(fit.model)] == [0.0]
    assert [one.strength for one in preferences_of(model)] == [1.0]
    assert torch.equal(fit.predict(CORPUS), fit.without_preferences().predict(CORPUS))
    with pytest.warns(UnfinishedSchedule, match=r"ended at strength 1, before their schedule did \(0\): iteration cap"):
        early = engine.run(CORPUS, iterations=1)
    assert [one.strength for one in preferences_of(early.model)] == [1.0]
    assert [one.strength for one in preferences_of(fit.model)] == [0.0]  # a second run leaves the first fit alone


@pytest.mark.filterwarnings("ignore::pyro_unsup.infer.UnfinishedSchedule")
def test_going_on(tmp_path: Path) -> None:
    how = {"schedule": [1.0, 0.5, 0.0], "steps": 2}
    whole = fading(**how).run(CORPUS, iterations=8, tolerance=0)
    for stop in (1, 2, 3, 5):
        fading(**how).run(CORPUS, iterations=stop, tolerance=0).save(tmp_path / str(stop))
        before = pu.load(tmp_path / str(stop))
        same(fading(**how).run(CORPUS, iterations=8, tolerance=0, resume=before), whole)
    assert repr(before.model) == f"prefer({RULE!r} x 2, strength=0) of {PLAIN!r}"
    with pytest.raises(pu.FitError, match=r"at strength 0\.0, which is not in its place in this schedule"):
        fading(schedule=[1.0, 0.3, 0.1]).run(CORPUS, resume=before)


def test_restarts_have_the_strength_that_they_reached() -> None:
    engine = pu.Fade(pu.prefer(PLAIN, RULE), SMOOTH, pu.init.around(START, 0.3), schedule=[1.0, 0.0], steps=2)
    fit = engine.run(CORPUS, restarts=2, processes=1, tolerance=1e-4)
    assert [preferences_of(one.model)[0].strength for one in (fit, *fit.runs)] == [0.0] * 3


def test_refused() -> None:
    with pytest.raises(pu.FitError, match=r"Fade needs a model with preferences \(pu\.prefer\), actual DMV\(tags=9\)"):
        pu.Fade(PLAIN)
    with pytest.raises(pu.FitError, match=r"each finite and not negative, actual \[1, -1\]"):
        fading(schedule=[1, -1])
    with pytest.raises(pu.FitError, match=r"a list of strengths, such as \[1, 0\.5, 0\], actual 'x'"):
        fading(schedule="x")
    with pytest.raises(pu.FitError, match="steps at a strength must be at least 1, actual 0"):
        fading(steps=0)


def test_runs_under_rules_are_recorded() -> None:
    """An E step under rules costs about that of a plain one: the model is not run again for it."""
    ran = []

    class Counted(DMV):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            ran.append(1)
            return super().__call__(*args, **kwargs)

    times = {}
    for name, model in (("plain", Counted.of(CORPUS)), ("ruled", pu.prefer(Counted.of(CORPUS), RULE))):
        engine = pu.EM(model, SMOOTH, START)
        state = engine.init(CORPUS)
        ran.clear()
        for _ in range(40):
            state, _ = engine.step(state)
        times[name] = len(ran)
    assert times["ruled"] == times["plain"] < 12


def test_a_weight_by_held_out_likelihood() -> None:
    data, held_out = CORPUS.select(range(30)), CORPUS.select(range(30, len(CORPUS)))
    start = PLAIN.harmonic_start(data)
    weights = [0.0, 1.0, 3.0]
    found = pu.choose_weight(
        lambda model: pu.EM(model, SMOOTH, start), PLAIN, RULE, data, held_out, weights=weights, iterations=5,
        score=lambda fit: fit.evaluate(held_out)["directed"],
    )  # fmt: skip
    for row, weight in zip(found.rows, weights, strict=True):
        fit = pu.EM(pu.prefer(PLAIN, RULE, weight) if weight else PLAIN, SMOOTH, start).run(data, iterations=5)
        alone = poutine.trace(pu.given(PLAIN, fit.weights)).get_trace(held_out).log_prob_sum()
        assert row["log_likelihood"] == pytest.approx(float(alone), rel=1e-6)
        assert 0 <= row["score"] <= 1
    best = max(range(3), key=lambda k: float(found.rows[k]["log_likelihood"]))
    assert preferences_of(found.fit.model)[0].weight == [weights[best]]
    with pytest.raises(pu.FitError, match=r"weights should be one finite number or more, actual \[\]"):
        pu.choose_weight(pu.EM, PLAIN, RULE, data, held_out, weights=[])
    with pytest.raises(pu.FitError, match=r"no weight could be trained with: .*is known as the tag of a child"):
        pu.choose_weight(pu.EM, PLAIN, pu.components.root("VERV"), data, held_out, weights=[1])
