"""Ctrl-C at random moments: what it keeps, and that the run goes on to the same end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.deep
@pytest.mark.parametrize("name", COMMANDS)
def test_more_moments(name: str) -> None:
    (found,) = interrupted("--moments", "10", f"--only={name}", patience=600)
    assert int(str(found["kept"])) > 0
