"""The command line as users start it: signals, pipes, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import Run
from .test_training import tensors

COMMAND = (sys.executable, "-m", "pyro_unsup")
PATIENCE = 60  # seconds


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a process group of its own, so that Ctrl-C can be sent to all of it."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # which nohup and & take away
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(condition: object, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():  # type: ignore[operator]
        assert process.poll() is None, process.stderr.read()  # type: ignore[union-attr]
        assert time.monotonic() < deadline
        time.sleep(0.05)


def iterations(folder: Path) -> int:
    return int(json.loads((folder / "fit.json").read_text())["report"]["iterations"])


def test_an_interrupt_keeps_a_checkpoint_to_go_on_from(tmp_path: Path, world: Path, run: Run) -> None:
    fit = ("fit", "tagger", world / "text.tagged", "--tags", 4, "--tolerance", 0)
    kept = tmp_path / "m.checkpoint"
    with started(*fit, "--iterations", 1_000_000, "--out", tmp_path / "m") as process:
        wait_for((kept / "run.json").exists, process)
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert stdout == b""
    assert f"what was learned is kept in {kept}. To go on, repeat the command with --resume" in stderr.decode()
    assert b"Traceback" not in stderr
    assert not (tmp_path / "m").exists()
    total = iterations(kept / "seed-0") + 20
    assert total > 20
    assert run(*fit, "--iterations", total, "--out", tmp_path / "m", "--resume").exit_code == 0
    assert run(*fit, "--iterations", total, "--out", tmp_path / "whole").exit_code == 0
    assert tensors(tmp_path / "m") == tensors(tmp_path / "whole")


def test_an_interrupt_reaches_restarts_in_other_processes(tmp_path: Path, world: Path, run: Run) -> None:
    fit = (
        "fit",
        "tagger",
        world / "text.tagged",
        "--tags",
        3,
        "--tolerance",
        0,
        "--restarts",
        3,
        "--out",
        tmp_path / "m",
    )
    kept = tmp_path / "m.checkpoint"
    with started(*fit, "--iterations", 1_000_000, "--processes", 2) as process:
        # Checkpoints come after ten seconds; by then all processes are at work.
        wait_for(lambda: len(list(kept.glob("seed-*/fit.json"))) == 2, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"Traceback" not in stderr
    assert f"kept in {kept}" in stderr.decode()
    reached = [iterations(kept / f"seed-{seed}") for seed in (0, 1)]
    assert min(reached) > 0
    assert not (kept / "seed-2").exists()
    assert run(*fit, "--iterations", 1, "--processes", 1, "--resume").exit_code == 0


def test_an_interrupt_while_reading(tmp_path: Path) -> None:
    with started("fit", "tagger", "-", "--format", "lines", "--out", tmp_path / "m") as process:
        time.sleep(0)
        process.communicate(timeout=PATIENCE)
    assert process.returncode == 2  # standard input is empty
    pipe, hold = os.pipe()
    try:
        waiting = subprocess.Popen(
            [*COMMAND, "fit", "tagger", "-", "--format", "lines", "--out", str(tmp_path / "m")],
            stdin=pipe, stderr=subprocess.PIPE, start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        time.sleep(5)
        waiting.send_signal(signal.SIGINT)
        _, stderr = waiting.communicate(timeout=PATIENCE)
    finally:
        os.close(pipe)
        os.close(hold)
    assert waiting.returncode == 130
    assert stderr == b"interrupted\n"
    assert not any(tmp_path.iterdir())


def test_a_reader_that_has_seen_enough(tmp_path: Path, world: Path) -> None:
    long = tmp_path / "long.txt"
    long.write_text((world / "plain.txt").read_text() * 100)
    with started("predict", world / "model", long) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert len(process.stdout.readline()) > 2
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(timeout=PATIENCE)


def test_errors_and_success_have_exit_codes(tmp_path: Path, world: Path) -> None:
    bad = subprocess.run([*COMMAND, "show", tmp_path / "no"], capture_output=True, check=False)
    assert (bad.returncode, bad.stdout) == (2, b"")
    assert bad.stderr.startswith(b"error: ")
    assert bad.stderr.count(b"\n") == 1
    strange = {**os.environ, "PYTHONIOENCODING": "ascii"}
    (tmp_path / "t.txt").write_text("café niño\n")
    good = subprocess.run([*COMMAND, "predict", world / "model", tmp_path / "t.txt"], capture_output=True, check=False,
                          env=strange)  # fmt: skip
    assert good.returncode == 0
    assert good.stdout.decode().split()[::2] == ["café", "niño"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full to write to")
def test_a_full_disk(world: Path) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run([*COMMAND, "predict", world / "model", world / "plain.txt"], stdout=full,
                                stderr=subprocess.PIPE, check=False)  # fmt: skip
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == b"error: No space left on device"
    assert b"Traceback" not in result.stderr
