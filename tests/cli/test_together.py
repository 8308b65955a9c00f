"""Under torchrun: several processes share the work, the first one talks and writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import pyro_unsup as pu

from .conftest import Run

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "pyro_unsup"]


def test_two_processes_of_torchrun_make_the_same_model(tmp_path: Path, world: Path, run: Run) -> None:
    """Of a corpus on disk as well as of its text."""
    options = ["--tags", "4", "--max-iterations", "12", "--tolerance", "0"]
    pu.data.write_flat(pu.data.read(world / "text.tagged"), tmp_path / "corpus")
    result = subprocess.run(
        [*TORCHRUN, "fit", "tagger", str(tmp_path / "corpus"), *options, "--out", str(tmp_path / "two")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == ""
    assert result.stderr.count("iteration cap after 12 iterations") == 1
    assert result.stderr.count("saved in") == 1
    assert sorted(one.name for one in tmp_path.iterdir()) == ["corpus", "two"]
    assert run("fit", "tagger", world / "text.tagged", *options, "--out", tmp_path / "one").exit_code == 0
    one, two = (pu.load(tmp_path / name) for name in ("one", "two"))
    assert [row["objective"] for row in two.rows] == pytest.approx([row["objective"] for row in one.rows], rel=1e-9)
    for name, w in one.weights.items():
        torch.testing.assert_close(two.weights[name].exp(), w.exp(), rtol=0, atol=1e-9)
    assert json.loads((tmp_path / "two" / "fit.json").read_text())["report"]["iterations"] == 12


@pytest.fixture
def second_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)


def test_commands_that_cannot_be_shared(second_of_two: None, world: Path, tmp_path: Path, run: Run) -> None:
    result = run("show", world / "model")
    assert result.exit_code == 2
    assert result.stderr == "process 1: error: show runs in one process: start it without torchrun; fit can be shared\n"
    result = run("fit", "tagger", "-", "--out", tmp_path / "m")
    assert result.exit_code == 2
    assert "-: standard input cannot be read by several processes; give a file" in result.stderr


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="this system does not tell a process's children")
def test_a_killed_worker_is_said_and_the_checkpoint_goes_on(tmp_path: Path, world: Path, run: Run) -> None:
    fit = ["fit", "tagger", str(world / "text.tagged"), "--tags", "4", "--tolerance", "0", "--out", str(tmp_path / "m")]
    with subprocess.Popen(
        [*TORCHRUN, *fit, "--max-iterations", "1000000"],
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 90
        while sum(np.fromfile(one)[:1].sum() > 20 for one in tmp_path.glob("pyro-unsup-*/board")) < 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[-1]), signal.SIGKILL)
        _, stderr = process.communicate(timeout=90)
    assert process.returncode
    assert "What was reached is in the last checkpoint" in stderr
    assert f"what was learned before is kept in {tmp_path / 'm.checkpoint'}; --resume goes on from it" in stderr
    reached = json.loads((tmp_path / "m.checkpoint" / "seed-0" / "fit.json").read_text())["report"]["iterations"]
    assert reached > 20
    assert run(*fit, "--max-iterations", reached + 2, "--resume").exit_code == 0
