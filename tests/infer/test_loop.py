"""The loop, driven by engines that follow a script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pyro_unsup import EM
from pyro_unsup.errors import FitError
from pyro_unsup.infer.loop import Checkpoints, Info, iterate
from pyro_unsup.models import Tagger


class Script:
    """An engine whose objectives are known beforehand."""

    def __init__(self, objectives: Sequence[float]) -> None:
        self.objectives = list(objectives)
        self.moves = 0

    def e_step(self, state: int) -> tuple[Info, None]:
        return Info(state, self.objectives[state], self.objectives[state]), None

    def m_step(self, state: int, found: None) -> int:
        self.moves += 1
        return state + 1

    def converged(self, state: int, rows: Sequence[Info], tolerance: float) -> bool:
        return rows[-1].change <= tolerance

    def has_next_stage(self, state: int) -> bool:
        return False

    def next_stage(self, state: int) -> int:
        raise AssertionError


def run(objectives: Sequence[float], iterations: int = 100, tolerance: float = 1e-6, may_fall: float = 1e-9,
        callbacks: Sequence[object] = (), earlier: Sequence[Info] = ()) -> tuple[list[Info], str, Script]:  # fmt: skip
    engine = Script(objectives)
    _, rows, reason = iterate(engine, 0, list(earlier), iterations, tolerance, may_fall, callbacks, progress=False)  # type: ignore[arg-type]
    return rows, reason, engine


def test_it_converges_when_the_relative_change_is_small() -> None:
    rows, reason, engine = run([-1000.0, -900.0, -899.9999, -899.99989, -1.0], tolerance=1e-6)
    assert reason == "converged"
    assert engine.moves == 2
    assert [row.iteration for row in rows] == [0, 1, 2]
    assert rows[0].change == math.inf
    assert rows[1].change == pytest.approx(0.1)
    assert rows[2].change == pytest.approx(1e-4 / 900)
    assert [row.objective for row in rows] == [-1000.0, -900.0, -899.9999]


def test_the_change_is_measured_against_the_objective_before() -> None:
    rows, reason, _ = run([-100.0, -99.0, -98.5], tolerance=0.0051)
    assert reason == "converged"
    assert rows[-1].change == pytest.approx(0.5 / 99)


@pytest.mark.parametrize("tolerance", [1e-6, 1e-9, 0.0])
def test_a_tolerance_is_met_exactly_and_not_before(tolerance: float) -> None:
    objectives = [-1e6 * (1 + 10.0**-k) for k in range(13)]
    rows, reason, _ = run([*objectives, objectives[-1]], tolerance=tolerance)
    assert reason == "converged"
    assert all(row.change > tolerance for row in rows[:-1])
    assert rows[-1].change <= tolerance


@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_the_cap_counts_updates_and_the_last_weights_are_looked_at(iterations: int) -> None:
    rows, reason, engine = run([-100.0 + k for k in range(10)], iterations=iterations)
    assert reason == "iteration cap"
    assert engine.moves == iterations
    assert len(rows) == iterations + 1
    assert rows[-1].iteration == iterations


def test_callbacks_hear_everything_and_any_of_them_may_stop() -> None:
    heard: list[int] = []
    also: list[int] = []

    def stopper(info: Info) -> bool:
        heard.append(info.iteration)
        return info.iteration == 2

    rows, reason, engine = run(
        [-100.0 + k for k in range(10)], callbacks=[stopper, lambda info: also.append(info.iteration)]
    )
    assert reason == "stopped by a callback"
    assert heard == also == [0, 1, 2]
    assert engine.moves == 2
    assert len(rows) == 3


def test_a_callback_sees_changes_and_times() -> None:
    seen: list[Info] = []
    run([-4.0, -2.0, -2.0], callbacks=[lambda info: seen.append(info)])
    assert [info.change for info in seen] == [math.inf, 0.5, 0.0]
    times = [info.seconds for info in seen]
    assert times == sorted(times)
    assert times[0] >= 0


def test_a_falling_objective_is_an_error_that_names_the_iteration() -> None:
    with pytest.raises(
        FitError, match=r"iteration 2: the objective fell from -90\.0 to -90\.5, a relative fall of 5\.6e-03"
    ):
        run([-100.0, -90.0, -90.5])
    with pytest.raises(FitError, match="EM cannot do that: look for a model that changes between runs"):
        run([5.0, 4.9])  # a density may have a positive log


def test_rounding_is_not_a_fall() -> None:
    _, reason, _ = run([-1e6, -1e6 - 1e-4], may_fall=1e-9, tolerance=1e-9)
    assert reason == "converged"
    with pytest.raises(FitError, match="fell"):
        run([-1e6, -1e6 - 1e-2], may_fall=1e-9, tolerance=1e-12)
    _, reason, _ = run([-1e6, -1e6 - 1], may_fall=2e-5, tolerance=1e-5)  # float32
    assert reason == "converged"


def test_an_objective_of_zero_up_to_rounding_converges() -> None:
    """Data that the model explains perfectly: there is nothing for a relative change to be relative to."""
    for objectives in ([-1.0, -1e-16, -3e-16], [3e-15, 0.0], [0.0, 0.0], [-2.0, 1e-16, -1e-16]):
        assert run(objectives)[1] == "converged"
    with pytest.raises(FitError, match="fell"):
        run([0.0, -1e-3])


def test_em_on_data_without_any_doubt_converges() -> None:
    fit = EM(Tagger(tags=2, vocab=1)).run([[0, 0, 0], [0, 0], [0]] * 7, progress=False)
    assert fit.report.converged
    assert fit.objective == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_an_objective_that_is_no_number_is_never_converged(bad: float) -> None:
    with pytest.raises(FitError, match=f"^iteration 1: the objective is {bad}$"):
        run([-1.0, bad, bad])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_start_that_is_no_number_is_an_error(bad: float) -> None:
    with pytest.raises(FitError, match=f"^iteration 0: the objective is {bad}$"):
        run([bad])


def test_a_start_of_prior_probability_zero_is_mended_by_the_first_update() -> None:
    rows, reason, _ = run([-math.inf, -5.0, -5.0])
    assert reason == "converged"
    assert [row.change for row in rows] == [math.inf, math.inf, 0.0]
    with pytest.raises(FitError, match=r"^iteration 1: the objective is -inf$"):
        run([-math.inf, -math.inf])


def test_a_run_that_goes_on_measures_against_the_rows_before() -> None:
    earlier = [Info(4, -10.0, -10.0, 0.5, 7.0)]
    rows, reason, engine = run([-9.0, -8.5, -8.4], iterations=1, earlier=earlier)
    assert reason == "iteration cap"
    assert engine.moves == 1
    assert rows[0] is earlier[0]
    assert rows[1].change == pytest.approx(0.1)
    assert rows[1].seconds >= 7.0
    assert len(earlier) == 1
    with pytest.raises(FitError, match="fell"):
        run([-11.0], earlier=earlier)


def test_a_checkpoint_is_written_when_a_run_is_interrupted(tmp_path: Path) -> None:
    written: list[tuple[str, list[int]]] = []

    class Noted:
        def __init__(self, state: int, rows: list[Info], reason: str) -> None:
            self.state, self.rows, self.reason = state, rows, reason

        def save(self, folder: Path, overwrite: bool) -> None:
            assert overwrite
            assert self.state == self.rows[-1].iteration
            written.append((self.reason, [row.iteration for row in self.rows]))

    def fit_of(state: int, rows: list[Info]) -> Callable[[str], Any]:
        return lambda reason: Noted(state, rows, reason)

    def interrupt(info: Info) -> None:
        if info.iteration == 2:
            raise KeyboardInterrupt

    engine = Script([-5.0, -4.0, -3.0])
    with pytest.raises(KeyboardInterrupt):
        iterate(engine, 0, [], 10, 0.0, 1e-9, [interrupt], False, Checkpoints(tmp_path / "kept", fit_of))
    assert written == [("checkpoint", [0, 1, 2])]
    often = Checkpoints(tmp_path / "kept", fit_of, seconds=0.0)
    iterate(Script([-5.0, -4.0]), 0, [], 1, 0.0, 1e-9, (), False, often)
    every = [("checkpoint", [0]), ("checkpoint", [0, 1])]  # every few seconds, here at once
    assert written[1:] == [*every, ("iteration cap", [0, 1])]


def test_progress_is_shown_only_when_asked_and_only_for_long_runs(capsys: pytest.CaptureFixture[str]) -> None:
    iterate(Script([-2.0, -1.0, -1.0]), 0, [], 10, 1e-6, 1e-9, progress=True)
    assert capsys.readouterr() == ("", "")
