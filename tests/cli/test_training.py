"""Runs that stop and go on: the same result as without the break, and no run in the place of another."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyro_unsup.cli.board import board_of
from pyro_unsup.infer.loop import Info

from .conftest import Run, contents, tensors

FIT: tuple[Any, ...] = ("--tags", 4, "--max-iterations", 12, "--tolerance", 0, "--seed", 5)


@pytest.mark.parametrize(("restarts", "stops"), [(1, [(0, 4)]), (1, [(0, 0), (0, 11), (0, 12)]), (3, [(1, 3), (2, 7)])])
def test_resume_equals_an_uninterrupted_run(
    tmp_path: Path, world: Path, run: Run, stop_at: Callable[..., None], restarts: int, stops: list[tuple[int, int]]
) -> None:
    fit = ("fit", "tagger", world / "text.tagged", *FIT, "--restarts", restarts, "--jobs", 1)
    assert run(*fit, "--out", tmp_path / "whole").exit_code == 0
    resume: tuple[str, ...] = ()
    for stop in stops:
        stop_at(*stop)
        result = run(*fit, "--out", tmp_path / "broken", *resume)
        assert result.exit_code == 130
        assert result.stdout == ""
        assert result.stderr.splitlines()[-1] == (
            f"interrupted; what was learned is kept in {tmp_path / 'broken.checkpoint'}. To go on, repeat the command "
            "with --resume"
        )
        assert not (tmp_path / "broken").exists()
        resume = ("--resume",)
    stop_at(None)
    result = run(*fit, "--out", tmp_path / "broken", "--resume")
    assert f"going on from {tmp_path / 'broken.checkpoint'}" in result.stderr
    assert result.exit_code == 0, result.stderr
    assert tensors(tmp_path / "broken") == tensors(tmp_path / "whole")
    broken, whole = (json.loads((tmp_path / one / "fit.json").read_text()) for one in ("broken", "whole"))
    for record in (broken, whole):
        del record["checksum"], record["report"]["seconds"]
        others = [one for one in record.get("runs", []) if one is not None]
        assert len(others) == restarts - 1
        for one in others:
            del one["report"]["seconds"]
        for row in [row for one in (record, *others) for row in one["rows"]]:
            del row["seconds"]
    assert broken == whole
    assert not (tmp_path / "broken.checkpoint").exists()


def test_a_checkpoint_belongs_to_one_run(tmp_path: Path, world: Path, run: Run, stop_at: Callable[..., None]) -> None:
    out, kept = tmp_path / "m", tmp_path / "m.checkpoint"
    fit = ("fit", "tagger", world / "text.tagged", *FIT, "--out", out)
    stop_at(0, 4)
    assert run(*fit).exit_code == 130
    stop_at(None)
    before = contents(tmp_path)
    for arguments, what in (
        ([], "holds an interrupted run; go on with --resume, or start anew with --overwrite"),
        (
            ["--resume", "--seed", 6],
            "is of a run with --seed 5, not 6; give the same again, or start anew with --overwrite",
        ),
        (
            ["--resume", "--tags", 3],
            "is of a run with --tags 4, not 3; give the same again, or start anew with --overwrite",
        ),
        (["--resume", "--stop"], "is of a run with --stop False, not True; give the same again, or start"),
        (["--resume", "--lowercase"], "is of a run with another text; give the same again, or start anew"),
    ):
        result = run(*fit, *arguments)
        assert result.exit_code == 2
        assert result.stderr.splitlines()[-1].startswith(f"error: {kept}: {what}")
        assert contents(tmp_path) == before
    (kept / "run.json").write_text("[]")
    assert "not the record of a run; start anew with --overwrite" in run(*fit, "--resume").stderr
    assert run(*fit, "--overwrite").exit_code == 0
    assert not kept.exists()


def test_a_damaged_checkpoint_is_refused(tmp_path: Path, world: Path, run: Run, stop_at: Callable[..., None]) -> None:
    fit = ("fit", "tagger", world / "text.tagged", *FIT, "--out", tmp_path / "m")
    stop_at(0, 4)
    assert run(*fit).exit_code == 130
    stop_at(None)
    (file,) = tmp_path.glob("m.checkpoint/seed-5/*.safetensors")
    file.write_bytes(file.read_bytes()[:-1])
    before = contents(tmp_path)
    result = run(*fit, "--resume")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1].startswith(f"error: {file}: the checksum differs from the one in the record")
    assert contents(tmp_path) == before


def test_more_iterations_may_be_asked_for(tmp_path: Path, world: Path, run: Run, stop_at: Callable[..., None]) -> None:
    fit = ("fit", "tagger", world / "text.tagged", "--tags", 4, "--tolerance", 0)
    stop_at(0, 3)
    assert run(*fit, "--max-iterations", 5, "--out", tmp_path / "m").exit_code == 130
    stop_at(None)
    assert run(*fit, "--max-iterations", 9, "--out", tmp_path / "m", "--resume").exit_code == 0
    assert run(*fit, "--max-iterations", 9, "--out", tmp_path / "whole").exit_code == 0
    assert tensors(tmp_path / "m") == tensors(tmp_path / "whole")


def test_resume_without_a_checkpoint_starts_from_the_beginning(tmp_path: Path, world: Path, run: Run) -> None:
    fit = ("fit", "tagger", world / "text.tagged", *FIT, "--out", tmp_path / "m", "--resume")
    result = run(*fit)
    assert result.exit_code == 0
    assert f"{tmp_path / 'm.checkpoint'} is not there: starting from the beginning" in result.stderr
    again = run(*fit)
    assert again.exit_code == 2
    assert again.stderr.startswith(f"error: {tmp_path / 'm'}: exists already")


@pytest.mark.parametrize("restarts", [1, 2])
def test_training_that_fails_leaves_nothing(tmp_path: Path, run: Run, restarts: int) -> None:
    (tmp_path / "t.txt").write_text("a b\n")  # two words cannot keep three tags alive
    before = contents(tmp_path)
    fit = ("fit", "tagger", tmp_path / "t.txt", "--tags", 3, "--max-iterations", 3000, "--tolerance", 0, "--jobs", 1)
    em = ("--algorithm", "em")
    result = run(*fit, *em, "--restarts", restarts, "--out", tmp_path / "m")
    assert result.exit_code == 2
    error = result.stderr.splitlines()[-1]
    assert error.startswith("error: iteration ")
    assert "has no expected counts" in error
    assert error.endswith("On the command line, --smooth 0.1 often helps")
    assert contents(tmp_path) == before
    assert run(*fit, "--smooth", 0.1, "--out", tmp_path / "m").exit_code == 0


def test_board() -> None:
    with board_of(3, 10) as board:
        assert not board.stopped
        assert not board.note(1, Info(3, -20.0, -20.0, 0.5))
        board.finish(1)
        assert not board.finished
        assert not board.note(0, Info(4, -10.0, -10.0, 0.5))
        board.stop()
        assert board.note(0, Info(5, -10.0, -10.0, 0.5))
        assert board.render().row_count == 3  # one running, one done, and the news that it stops
        assert board.note(2, Info(6, -9.0, -9.0, 0.5, beta=0.25))
        table = board.render()
        assert "6 at beta 0.25" in list(table.columns[2].cells)
        board.finish(0)
        board.finish(2)
        assert board.finished
    assert not board.path.exists()


def test_a_run_that_fails_before_anything_is_reached_leaves_nothing(
    tmp_path: Path, world: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of luck")

    monkeypatch.setattr("pyro_unsup.EM.run", fail)
    with pytest.raises(RuntimeError, match="out of luck"):
        run("fit", "tagger", world / "text.tagged", *FIT, "--algorithm", "em", "--out", tmp_path / "m")
    assert not any(tmp_path.iterdir())
