"""Kill -9 in the middle of saving: ``python -m tests.results.kill --moments 200``.

A child process saves over and over, and is killed at a random moment. Then what it saved must load, whole; training
must go on from it to the same result as without the break; and the next save must leave nothing else behind. One line
of JSON a kind of saving: moments, how many of them were in the middle of writing, and seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np
import pyro
import torch
from tqdm import tqdm

import pyro_unsup as pu
from pyro_unsup.data import Corpus
from pyro_unsup.infer import streaming
from pyro_unsup.infer.loop import Checkpoints

from .cases import anonymous, assert_same, text, with_dictionary

QUIET: dict[str, Any] = {"progress": False, "tolerance": 0.0}
ITERATIONS, SWEEPS, BATCH = 60, 60, 4


@dataclass(frozen=True)
class Saving:
    """A way of saving.

    :param prepare: what there is before.
    :param work: what the child does, until it is killed.
    :param check: raises unless what is there is whole, and can be gone on from; then saves once more.
    :param names: all that may be in the folder in the end.
    :param span: of the moments, in seconds.
    """

    prepare: Callable[[Path], object]
    work: Callable[[Path], object]
    check: Callable[[Path], object]
    names: set[str]
    span: float = 0.08


def over_and_over(save: Callable[[int], object]) -> None:
    for i in count():
        save(i)


# -- fits, samples and corpora, one over the other


def pair() -> tuple[pu.Fit, pu.Fit]:
    return with_dictionary(), anonymous()


def whole_fit(folder: Path) -> None:
    found = pu.load(folder / "it")
    assert_same(found, pair()[1 if len(found.weights["start"]) == 4 else 0])
    pair()[0].save(folder / "it", overwrite=True)
    assert_same(pu.load(folder / "it"), pair()[0])
    assert len(os.listdir(folder / "it")) == 2


def new_fit(folder: Path, i: int) -> None:
    pair()[1].save(folder / "it")
    (folder / "it").rename(folder / f"done-{i}")


def whole_new_fit(folder: Path) -> None:
    for one in folder.glob("done-*"):
        assert_same(pu.load(one), pair()[1])
        shutil.rmtree(one)
    if not (folder / "it" / "fit.json").exists():
        pair()[0].save(folder / "it")
    whole_fit(folder)


def sampled() -> tuple[pu.Samples, pu.Samples]:
    if not _SAMPLED:
        kernel = pu.CollapsedGibbs(pu.models.Tagger(3, text().vocab), hyper="shared")
        _SAMPLED.extend(kernel.run(text(), sweeps=4, seed=seed, parallel=1, progress=False) for seed in (0, 1))
    return _SAMPLED[0], _SAMPLED[1]


_SAMPLED: list[pu.Samples] = []


def whole_samples(folder: Path) -> None:
    found = pu.Samples.load(folder / "it")
    assert any(same_samples(found, one) for one in sampled())
    sampled()[0].save(folder / "it", overwrite=True)
    assert same_samples(pu.Samples.load(folder / "it"), sampled()[0])
    assert len(os.listdir(folder / "it")) == 2


def same_samples(one: pu.Samples, other: pu.Samples) -> bool:
    groups = [(getattr(one, name), getattr(other, name)) for name in ("draws", "path", "data")]
    return one.config == other.config and all(np.array_equal(a[key], b[key]) for a, b in groups for key in b)


def whole_corpus(folder: Path) -> None:
    found = Corpus.open(folder / "it", mmap=False)
    assert found in (text(), text().select([0, 1]))
    text().save(folder / "it")
    assert Corpus.open(folder / "it", mmap=False) == text()


# -- checkpoints


def em(**options: Any) -> pu.Fit:
    pyro.clear_param_store()
    model = pu.models.Tagger(4, text().vocab)
    return pu.EM(model, pu.AddLambda(0.1)).run(text(), iterations=ITERATIONS, **QUIET, **options)


def goes_on(folder: Path) -> None:
    at = folder / "it"
    old = pu.load(at) if (at / "fit.json").exists() else None
    assert_same(em(resume=old, checkpoint=at), expected("em", em), seconds=False)
    assert len(os.listdir(at)) == 2


def chain(folder: Path | None = None, resume: bool = False) -> pu.Samples:
    kernel = pu.CollapsedGibbs(pu.models.Tagger(4, text().vocab), hyper="shared")
    return kernel.run(
        text(), sweeps=SWEEPS, parallel=1, progress=False, checkpoint=folder, resume=resume, checkpoint_seconds=0.0
    )


def chain_goes_on(folder: Path) -> None:
    assert same_samples(chain(folder / "it", resume=True), expected("chain", chain))
    assert len(os.listdir(folder / "it" / "chain-0")) == 2


def batches() -> list[Corpus]:
    return [text().select(range(i, i + BATCH)) for i in range(0, len(text()), BATCH)] * 3


def stream(folder: Path | None = None) -> pu.Fit:
    pyro.clear_param_store()
    engine = pu.StepwiseEM(pu.models.Tagger(4, text().vocab), pu.AddLambda(0.1))
    old = pu.load(folder) if folder is not None and (folder / "fit.json").exists() else None
    seen = 0 if old is None else int(old.state["updates"])
    return engine.run_stream(iter(batches()[seen:]), progress=False, checkpoint=folder, resume=old)


def stream_goes_on(folder: Path) -> None:
    found, wanted = stream(folder / "it"), expected("stream", stream)
    for name, x in wanted.weights.items():
        assert torch.equal(found.weights[name], x)
    assert int(found.state["updates"]) == len(batches())
    assert len(os.listdir(folder / "it")) == 2


# -- the command line, from its start to its end


def command(folder: Path, *options: str) -> None:
    from typer.testing import CliRunner

    from pyro_unsup.cli import app

    fit = ["fit", "tagger", str(folder / "text.txt"), "--tags", "3", "--max-iterations", "25", "--tolerance", "0"]
    result = CliRunner().invoke(app, [*fit, "--out", str(folder / "it"), *options])
    assert result.exit_code == 0, result.stderr


def write_lines(folder: Path) -> None:
    lines = (" ".join(text().sentence(i)) for i in range(len(text())))
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in lines))


def command_goes_on(folder: Path) -> None:
    over = ["--overwrite"] if (folder / "it" / "fit.json").exists() else []
    if over:
        pu.load(folder / "it")
    command(folder, "--resume", *over)

    def uninterrupted() -> pu.Fit:
        with tempfile.TemporaryDirectory() as scratch:
            write_lines(Path(scratch))
            command(Path(scratch))
            return pu.load(Path(scratch) / "it")

    wanted, found = expected("command", uninterrupted), pu.load(folder / "it")
    assert all(torch.equal(found.weights[name], x) for name, x in wanted.weights.items())


_EXPECTED: dict[str, Any] = {}


def expected(name: str, make: Callable[[], Any]) -> Any:
    if name not in _EXPECTED:
        _EXPECTED[name] = make()
    return _EXPECTED[name]


SAVINGS = {
    "fit": Saving(
        lambda folder: pair()[0].save(folder / "it"),
        lambda folder: over_and_over(lambda i: pair()[i % 2].save(folder / "it", overwrite=True)),
        whole_fit,
        {"it"},
    ),
    "new fit": Saving(
        lambda folder: None,
        lambda folder: over_and_over(lambda i: new_fit(folder, i)),
        whole_new_fit,
        {"it"},
    ),
    "samples": Saving(
        lambda folder: sampled()[0].save(folder / "it"),
        lambda folder: over_and_over(lambda i: sampled()[i % 2].save(folder / "it", overwrite=True)),
        whole_samples,
        {"it"},
    ),
    "corpus": Saving(
        lambda folder: text().save(folder / "it"),
        lambda folder: over_and_over(lambda i: (text(), text().select([0, 1]))[i % 2].save(folder / "it")),
        whole_corpus,
        {"it"},
    ),
    "checkpoint": Saving(lambda folder: None, lambda folder: em(checkpoint=folder / "it"), goes_on, {"it"}, 0.6),
    "chain": Saving(lambda folder: None, lambda folder: chain(folder / "it"), chain_goes_on, {"it"}, 0.6),
    "stream": Saving(lambda folder: None, lambda folder: stream(folder / "it"), stream_goes_on, {"it"}, 0.4),
    "command": Saving(write_lines, command, command_goes_on, {"it", "text.txt"}, 0.8),
}


def one_moment(saving: Saving, folder: Path, rng: random.Random) -> bool:
    """Kill a child once, and check. True if it left a file half written."""
    saving.prepare(folder)
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(tell, b"x")
            saving.work(folder)
        finally:
            os._exit(0)
    os.read(ready, 1)
    time.sleep(rng.uniform(0, saving.span))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(tell)
    half = any(one.name.startswith(".") for one in folder.rglob("*"))
    saving.check(folder)
    found = {one.name for one in folder.iterdir()}
    assert found == saving.names, found
    return half


def kill(name: str, moments: int, seed: int = 0) -> dict[str, Any]:
    """Kill a way of saving at so many moments."""
    rng, began, half = random.Random(f"{name} {seed}"), time.perf_counter(), 0
    for _ in range(moments):
        with tempfile.TemporaryDirectory() as folder:
            half += one_moment(SAVINGS[name], Path(folder), rng)
    seconds = round(time.perf_counter() - began, 1)
    return {"saving": name, "moments": moments, "in the middle of a file": half, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.results.kill", description=__doc__)
    parser.add_argument("--moments", type=int, default=200, help="of each kind of saving")
    parser.add_argument("--only", action="append", choices=SAVINGS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    tqdm.set_lock(RLock())  # not one that children share: one that is killed would keep it
    warnings.simplefilter("error")
    Checkpoints.__init__.__defaults__ = (0.0,)  # a checkpoint every iteration
    streaming.NOTE_SECONDS = 0.0
    for name in given.only or SAVINGS:
        print(json.dumps(kill(name, given.moments, given.seed)), flush=True)


if __name__ == "__main__":
    sys.exit(main())
