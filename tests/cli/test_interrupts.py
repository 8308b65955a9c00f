"""Ctrl-C at random moments: what it keeps, and that the run goes on to the same end."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import Run
from .interrupts import COMMANDS


def interrupted(*arguments: str, patience: float = 200) -> list[dict[str, object]]:
    command = [sys.executable, "-m", "tests.cli.interrupts", *arguments]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    ended = subprocess.run(command, capture_output=True, timeout=patience, env=env, cwd=Path(__file__).parents[2])
    assert ended.returncode == 0, ended.stderr.decode()[-3000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_a_few_moments() -> None:
    found = interrupted("--moments", "2")
    assert [one["command"] for one in found] == list(COMMANDS)


@pytest.mark.parametrize("command", ["fit", "sample"])
def test_an_interrupt_after_the_result_is_told_changes_nothing(
    run: Run, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    module = importlib.import_module(f"pyro_unsup.cli.{command}")
    finishing = module.finishing

    @contextmanager
    def interrupted_then() -> Iterator[None]:
        with finishing():
            yield
        raise KeyboardInterrupt

    words = (command, "tagger", world / "text.tagged", "--tags", 3, "--out", tmp_path / "m")
    amount = ("--max-iterations" if command == "fit" else "--sweeps", 4)
    monkeypatch.setattr(module, "finishing", interrupted_then)
    ended = run(*words, *amount)
    assert ended.exit_code == 0
    assert f"saved in {tmp_path / 'm'}" in " ".join(ended.stderr.split())
    assert "interrupted" not in ended.stderr
    # What a command before has done says nothing of the next one.
    monkeypatch.setattr(module, "finishing", lambda: _raise(KeyboardInterrupt()))
    assert run(*words, *amount, "--overwrite").exit_code == 130


def _raise(error: BaseException) -> None:
    raise error


@pytest.mark.deep
@pytest.mark.parametrize("name", COMMANDS)
def test_more_moments(name: str) -> None:
    (found,) = interrupted("--moments", "10", f"--only={name}", patience=600)
    assert int(str(found["kept"])) > 0
