"""Ctrl-C at random moments: ``python -m tests.cli.interrupts --moments 50``.

A command is interrupted, gone on with as it says itself, interrupted again, and so on. In the end there must be what an
uninterrupted run leaves, bit for bit, and nothing else. One line of JSON a command: moments, how many interrupts were
heard in time, how many of them left something to go on from, and seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from typer.testing import CliRunner

import pyro_unsup as pu
from pyro_unsup.cli import app
from pyro_unsup.data import toy

PATIENCE = 120
COMMANDS: dict[str, list[str]] = {
    "fit": ["fit", "tagger", "text.txt", "--tags", "4", "--max-iterations", "150", "--tolerance", "0"],
    "fit, restarts": [
        "fit", "tagger", "text.txt", "--tags", "3", "--max-iterations", "40", "--restarts", "3", "--jobs", "1",
    ],
    "fit, stream": [
        "fit", "tagger", "text.txt", "--tags", "3", "--stepwise", "--batch-size", "1", "--vocab-from", "words.txt",
    ],
    "sample": ["sample", "tagger", "text.txt", "--tags", "4", "--sweeps", "800"],
    "sample, chains": [
        "sample", "clusterer", "text.txt", "--clusters", "3", "--drop-frequent", "0", "--min-count", "1",
        "--sweeps", "800", "--chains", "2",
    ],
}  # fmt: skip


def prepare(folder: Path) -> None:
    corpus = toy.sentences(100, seed=3)
    lines = "".join(" ".join(corpus.sentence(i)) + "\n" for i in range(len(corpus)))
    for name in ("text.txt", "words.txt"):
        (folder / name).write_text(lines)


def run(folder: Path, arguments: list[str], after: float | None = None) -> tuple[int, str]:
    """A command in a child; exit code and what it says on standard error.

    :param after: send it an interrupt after so many seconds.
    """
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        code = 130  # as it stays if the interrupt comes when the command is over
        try:  # around the other: an interrupt on the way out must not leave this child to go on as its parent
            try:
                signal.signal(signal.SIGINT, signal.default_int_handler)
                os.chdir(folder)
                for stream, name in ((1, "out"), (2, "err")):
                    os.dup2(os.open(f".{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
                os.write(tell, b"x")
                app([*arguments, "--out", "m"])
            except SystemExit as ended:
                code = int(ended.code or 0)
            except KeyboardInterrupt:  # before the command was looked at
                pass
            except BaseException:
                traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    os.read(ready, 1)
    os.close(ready)
    os.close(tell)
    end = time.monotonic() + PATIENCE
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGINT)
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            raise AssertionError(f"{arguments} did not end")
        time.sleep(0.005)
    said = (folder / ".err").read_text()
    for name in (".out", ".err"):
        (folder / name).unlink(missing_ok=True)
    return os.waitstatus_to_exitcode(status), said


def result(folder: Path) -> dict[str, Any]:
    """The numbers that a run has left."""
    if (folder / "m" / "fit.json").exists():
        return {name: x.numpy() for name, x in pu.load(folder / "m").weights.items()}
    samples = pu.Samples.load(folder / "m")
    return {**samples.draws, **samples.path}


def one_moment(
    arguments: list[str], folder: Path, rng: random.Random, span: float, wanted: dict[str, Any]
) -> tuple[int, int]:
    """Interrupt a command up to three times, then let it end. How many were heard, and left something.

    :param span: of the moments, in seconds.
    """
    prepare(folder)
    before = {one.name for one in folder.iterdir()}
    heard = kept = 0
    for turn in range(4):
        code, said = run(folder, arguments, rng.uniform(0, span) if turn < 3 else None)
        assert "Traceback" not in said, said
        over = code == 0 or ((folder / "m").exists() and "interrupted" not in said)
        if over:
            break
        assert code in (130, -signal.SIGINT), (code, said)
        assert not (folder / "m").exists()
        if "interrupted" not in said:  # the command has not been looked at yet
            assert "--resume" in arguments or {one.name for one in folder.iterdir()} == before, said
            continue
        heard += 1
        if "repeat the command with --resume" in said:
            kept += 1
            assert (folder / "m.checkpoint").is_dir()
            arguments = [*arguments, *(() if "--resume" in arguments else ("--resume",))]
            if (line := re.search(r"the text after line ([0-9,]+)", said)) is not None:
                lines = (folder / "text.txt").read_text().splitlines(keepends=True)
                (folder / "text.txt").write_text("".join(lines[int(line[1].replace(",", "")) :]))
        elif "nothing was kept" in said:
            assert "--resume" in arguments or not (folder / "m.checkpoint").exists(), said
        else:  # before training began, or on the way out: whatever is there can be gone on from
            arguments = [*arguments, *(() if "--resume" in arguments else ("--resume",))]
    assert over, said
    found = result(folder)
    assert found.keys() == wanted.keys()
    for key, x in wanted.items():
        assert np.array_equal(found[key], x), key
    assert {one.name for one in folder.iterdir()} == before | {"m"}
    return heard, kept


def interrupted(name: str, moments: int, seed: int = 0) -> dict[str, Any]:
    arguments = COMMANDS[name]
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch))
        os.chdir(scratch)  # here first, so that all is imported and compiled when a child begins
        for _ in range(2):
            start = time.perf_counter()
            ended = CliRunner().invoke(app, [*arguments, "--out", "m", "--overwrite"])
            span = time.perf_counter() - start
            assert ended.exit_code == 0, ended.stderr
        wanted = result(Path(scratch))
        os.chdir("/")
    rng, began, heard, kept = random.Random(f"{name} {seed}"), time.perf_counter(), 0, 0
    for _ in range(moments):
        with tempfile.TemporaryDirectory() as scratch:
            found = one_moment(arguments, Path(scratch), rng, 1.5 * span, wanted)
        heard, kept = heard + found[0], kept + found[1]
    seconds = round(time.perf_counter() - began, 1)
    return {"command": name, "runs": moments, "interrupts": heard, "kept": kept, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.cli.interrupts", description=__doc__)
    parser.add_argument("--moments", type=int, default=50, help="runs of each command, with up to three interrupts")
    parser.add_argument("--only", action="append", choices=COMMANDS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name in given.only or COMMANDS:
        print(json.dumps(interrupted(name, given.moments, given.seed)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
