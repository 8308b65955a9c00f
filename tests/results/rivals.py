"""Two processes that write one folder at the same time: ``python -m tests.results.rivals --seconds 5``.

Meanwhile a third one reads it, over and over: what it finds must be one of the two, whole. In the end nothing else is
left. One line of JSON a kind of saving: how often each wrote, and how often it was read.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyro
import torch

import pyro_unsup as pu
from pyro_unsup.data import Corpus
from pyro_unsup.errors import InputError
from pyro_unsup.infer.loop import Checkpoints

from .cases import assert_same, text
from .kill import pair, same_samples, sampled

Write = Callable[[Path, int], object]
Read = Callable[[Path], object]


def corpora() -> tuple[Corpus, Corpus]:
    return text(), text().select([0, 1])


def train(folder: Path, seed: int) -> None:
    pyro.clear_param_store()
    model = pu.models.Tagger(3, text().vocab)
    options: dict[str, Any] = {"seed": seed, "progress": False, "tolerance": 0.0, "iterations": 10}
    pu.EM(model, pu.AddLambda(0.1)).run(text(), checkpoint=folder, **options)


def read_checkpoint(folder: Path) -> None:
    """The rows and the tables are of one seed: the objective that they say they have is the one that they have."""
    fit = pu.load(folder)
    assert fit.seed == fit.report.seed
    assert abs(fit.log_likelihood(text()) - fit.rows[-1]["log_likelihood"]) < 1e-6


def read_fit(folder: Path) -> None:
    fit = pu.load(folder)
    assert_same(fit, pair()[1 if len(fit.weights["start"]) == 4 else 0])


def read_samples(folder: Path) -> None:
    found = pu.Samples.load(folder)
    assert any(same_samples(found, one) for one in sampled())


def read_corpus(folder: Path) -> None:
    assert Corpus.open(folder, mmap=False) in corpora()


KINDS: dict[str, tuple[Write, Read]] = {
    "fit": (lambda folder, who: pair()[who].save(folder, overwrite=True), read_fit),
    "samples": (lambda folder, who: sampled()[who].save(folder, overwrite=True), read_samples),
    "corpus": (lambda folder, who: corpora()[who].save(folder), read_corpus),
    "checkpoint": (train, read_checkpoint),
}


def started(work: Callable[[], int]) -> tuple[int, int]:
    """A child, and where it tells what its work came to."""
    answer, tell = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(tell, str(work()).encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(tell)
    return child, answer


def ended(child: int, answer: int) -> int:
    with os.fdopen(answer) as stream:
        found = stream.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return int(found)


def rival(name: str, seconds: float) -> dict[str, Any]:
    """Two writers and a reader, for so long."""
    write, read = KINDS[name]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "it"
        write(folder, 0)
        end = time.monotonic() + seconds

        def work(who: int) -> int:
            done = 0
            while time.monotonic() < end:
                write(folder, who)
                done += 1
            return done

        children = [started(lambda who=who: work(who)) for who in (0, 1)]  # type: ignore[misc]
        reads = 0
        while time.monotonic() < end:
            read(folder)
            reads += 1
        writes = [ended(*child) for child in children]
        read(folder)
        assert os.listdir(scratch) == ["it"]
        assert name == "corpus" or len(os.listdir(folder)) == 2
        return {"saving": name, "writes": writes, "reads": reads, "seconds": seconds}


def first_wins(rounds: int) -> dict[str, Any]:
    """Of two that save a new fit at once, without leave to overwrite, one is told that it exists."""
    refused = 0
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as scratch:
            start = time.monotonic() + 0.02

            def work(who: int, folder: Path = Path(scratch) / "it", start: float = start) -> int:
                time.sleep(max(0.0, start - time.monotonic()))
                try:
                    pair()[who].save(folder)
                except InputError as error:
                    return 1 if "exists already" in str(error) else 100
                return 0

            children = [started(lambda who=who, work=work: work(who)) for who in (0, 1)]  # type: ignore[misc]
            found = sum(ended(*child) for child in children)
            assert found == 1
            refused += found
            read_fit(Path(scratch) / "it")
    return {"saving": "a new fit, without overwriting", "rounds": rounds, "refused": refused}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.results.rivals", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each kind of saving")
    given = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    Checkpoints.__init__.__defaults__ = (0.0,)  # type: ignore[misc]
    pair(), sampled()
    for name in KINDS:
        print(json.dumps(rival(name, given.seconds)), flush=True)
    print(json.dumps(first_wins(max(4, int(4 * given.seconds)))), flush=True)


if __name__ == "__main__":
    sys.exit(main())
