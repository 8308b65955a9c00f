"""The command line as users start it: signals, pipes, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from pyro_unsup.cli.board import COLUMNS

from .conftest import Run, tensors

COMMAND = (sys.executable, "-m", "pyro_unsup")
PATIENCE = 90  # seconds


@contextmanager
def started(*arguments: object, scratch: Path, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a process group of its own, so that Ctrl-C can be sent to all of it.

    :param scratch: where it puts its temporary files, the board of its progress among them.
    """
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(scratch)},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # which nohup and & take away
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait_for(condition: Callable[[], object], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.stderr.read()  # type: ignore[union-attr]
        assert time.monotonic() < deadline
        time.sleep(0.02)


def least(scratch: Path, restarts: int) -> float:
    """The iteration that all of the first restarts have reached."""
    boards = list(scratch.glob("pyro-unsup-*/board"))
    return np.fromfile(boards[0]).reshape(-1, len(COLUMNS))[:restarts, 0].min(initial=np.inf) if boards else 0


def iterations(folder: Path) -> int:
    return int(json.loads((folder / "fit.json").read_text())["report"]["iterations"])


def test_an_interrupt_keeps_a_checkpoint_to_go_on_from(tmp_path: Path, world: Path, run: Run) -> None:
    fit = ("fit", "tagger", world / "text.tagged", "--tags", 4, "--tolerance", 0)
    kept = tmp_path / "m.checkpoint"
    with started(*fit, "--max-iterations", 1_000_000, "--out", tmp_path / "m", scratch=tmp_path) as process:
        wait_for(lambda: least(tmp_path, 1) > 20, process)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert stdout == b""
    assert f"what was learned is kept in {kept}. To go on, repeat the command with --resume" in stderr.decode()
    assert b"Traceback" not in stderr
    assert not (tmp_path / "m").exists()
    reached = iterations(kept / "seed-0")
    assert reached > 20
    assert run(*fit, "--max-iterations", reached + 20, "--out", tmp_path / "m", "--resume").exit_code == 0
    assert run(*fit, "--max-iterations", reached + 20, "--out", tmp_path / "whole").exit_code == 0
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
    with started(*fit, "--max-iterations", 1_000_000, "--jobs", 2, scratch=tmp_path) as process:
        wait_for(lambda: least(tmp_path, 2) > 5, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        _, stderr = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"Traceback" not in stderr
    assert f"kept in {kept}" in stderr.decode()
    assert min(iterations(kept / f"seed-{seed}") for seed in (0, 1)) > 5
    assert not (kept / "seed-2").exists()
    assert run(*fit, "--max-iterations", 1, "--jobs", 1, "--resume").exit_code == 0


def test_an_interrupt_while_reading(tmp_path: Path) -> None:
    text, ends = tmp_path / "text.txt", []
    os.mkfifo(text)

    def is_reading() -> bool:
        try:
            ends.append(os.open(text, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody has opened the other end
            return False
        return True

    with started("fit", "tagger", text, "--out", tmp_path / "m", scratch=tmp_path) as process:
        wait_for(is_reading, process)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=PATIENCE)
    os.close(ends[0])
    assert process.returncode == 130
    assert stderr == b"interrupted\n"
    assert list(tmp_path.iterdir()) == [text]


def test_a_reader_that_has_seen_enough(tmp_path: Path, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")  # whatever the locale, text is UTF-8
    long = tmp_path / "long.txt"
    long.write_text("café .\n" + (world / "plain.txt").read_text() * 100)
    with started("predict", world / "model", long, scratch=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().decode().startswith("café ")
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=PATIENCE) == 0


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_reader_that_is_gone(world: Path, options: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        command = [*COMMAND, "show", str(world / "model"), *options]
        result = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_locale_that_lacks_the_words(tmp_path: Path, run: Run, options: tuple[str, ...]) -> None:
    text = tmp_path / "t.tagged"
    text.write_text("café N\nnaïve A\n\ncafé N\n", encoding="utf-8")
    fit = ("fit", "tagger", text, "--dictionary-from", text, "--max-iterations", 2, "--out", tmp_path / "m")
    assert run(*fit).exit_code == 0
    bare = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for command in (("show", tmp_path / "m", *options), ("evaluate", tmp_path / "m", text, *options)):
        result = subprocess.run([*COMMAND, *map(str, command)], env=bare, capture_output=True, check=False)
        assert (result.returncode, result.stderr) == (0, b"")
        if command[0] == "show" and not options:
            assert "café" in result.stdout.decode()


def test_an_error_is_one_line_and_a_code(tmp_path: Path) -> None:
    bad = subprocess.run([*COMMAND, "show", tmp_path / "no"], capture_output=True, check=False)
    assert (bad.returncode, bad.stdout) == (2, b"")
    assert bad.stderr.startswith(b"error: ")
    assert bad.stderr.count(b"\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full to write to")
def test_a_full_disk(world: Path) -> None:
    with open("/dev/full", "wb") as full:
        result = subprocess.run([*COMMAND, "predict", world / "model", world / "plain.txt"], stdout=full,
                                stderr=subprocess.PIPE, check=False)  # fmt: skip
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == b"error: No space left on device"
    assert b"Traceback" not in result.stderr


def test_the_command_line_imports_nothing_heavy() -> None:
    heavy = ("numba", "matplotlib", "pandas", "arviz", "joblib", "pooch", "scipy.optimize")
    probe = f"import sys; from pyro_unsup.cli import app; print([one for one in {heavy} if one in sys.modules])"
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True)
    assert found.stdout == b"[]\n"
