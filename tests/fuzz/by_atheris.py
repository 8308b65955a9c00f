"""One target under atheris, guided by coverage: ``python -m tests.fuzz`` runs this in a process of its own for each."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import atheris  # type: ignore[import-not-found,unused-ignore]
import numpy as np  # noqa: F401  (before anything is instrumented, as torch and numba below)
import pyro  # noqa: F401
import torch  # noqa: F401

INSTRUMENTED = ("data", "results")
PACKAGE = Path(__file__).parents[2] / "pyro_unsup"
#: atheris takes whole packages, and names of modules to leave out.
OTHERS = [
    ".".join(("pyro_unsup", *file.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for file in PACKAGE.rglob("*.py")
    if file.relative_to(PACKAGE).parts[0] not in INSTRUMENTED
]

with atheris.instrument_imports(include=["pyro_unsup", "conllu"], exclude=OTHERS):
    import pyro_unsup  # noqa: F401

from .files import pack, put, spoil, unpack  # noqa: E402
from .targets import TARGETS, prepare  # noqa: E402

MEMORY_MB, TIMEOUT = 3000, 20  # more of either, in one reading, is a failure that ends the run


class Fuzzer:
    """Counts what happens, and keeps what fails: the first of each kind."""

    def __init__(self, name: str, scratch: Path, kept: Path) -> None:
        self.target, self.name, self.folder, self.kept = TARGETS[name], name, scratch / "in" / "it", kept
        self.executions = self.read = 0
        self.crashes: dict[str, str] = {}
        self.began = self.noted = time.monotonic()

    def __call__(self, data: bytes) -> None:
        files, sealed = unpack(data)
        put(self.folder, self.target.sealed(files) if sealed else files, self.target.pipes)
        self.executions += 1
        failed = False
        try:
            self.read += self.target.check(self.folder)
        except Exception as error:
            failed = True
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
            if where not in self.crashes:
                self.crashes[where] = f"{error!s:.200}"
                self.kept.mkdir(parents=True, exist_ok=True)
                (self.kept / f"{self.name}-{len(self.crashes)}".replace(" ", "-")).write_bytes(data)
                traceback.print_exc()
        if failed or time.monotonic() - self.noted > 0.2:
            self.note()

    def note(self) -> None:
        """What there is so far, for the process that waits."""
        self.noted = time.monotonic()
        found = {
            "target": self.name,
            "executions": self.executions,
            "read": self.read,
            "seconds": round(time.monotonic() - self.began, 1),
            "crashes": self.crashes,
        }
        (self.folder.parents[1] / "found.json").write_text(json.dumps(found))


def mutate(data: bytes, most: int, seed: int) -> bytes:
    """What libFuzzer would do, or a change that knows the format."""
    if seed % 3 == 0:
        return bytes(atheris.Mutate(data, most))
    rng = random.Random(seed)
    files, sealed = unpack(data)
    changed = pack(spoil(rng, files), sealed if rng.random() < 0.9 else not sealed)
    return changed if len(changed) <= most else bytes(atheris.Mutate(data, most))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("seconds", type=int)
    parser.add_argument("scratch", type=Path)
    parser.add_argument("kept", type=Path)
    given = parser.parse_args()
    prepare()
    warnings.simplefilter("ignore")
    seeds = given.scratch / "seeds"
    seeds.mkdir(parents=True)
    samples: list[Any] = TARGETS[given.target].samples()
    for i, files in enumerate(samples):
        (seeds / str(i)).write_bytes(pack(files))
    largest = max(len(pack(files)) for files in samples)
    options = [
        f"-max_total_time={given.seconds}",
        f"-rss_limit_mb={MEMORY_MB}",
        f"-timeout={TIMEOUT}",
        f"-max_len={2 * largest + 1000}",
        f"-artifact_prefix={given.scratch}/",
        "-verbosity=0",
    ]
    fuzzer = Fuzzer(given.target, given.scratch, given.kept)
    atheris.Setup([sys.argv[0], *options, str(seeds)], fuzzer, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
