"""Whatever is in its files, a reader gives something valid or refuses in one line: by hypothesis, a little of each."""

from __future__ import annotations

import random
import resource
import time
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .files import put, spoil
from .targets import FILE, TARGETS

SECONDS, MEGABYTES = 10.0, 700  # that one reading may take, and all of a target
SLOW = {
    "fit": 60,
    "samples": 60,
    "chain resumed": 30,
    "EM resumed": 25,
    "incremental EM resumed": 25,
    "stepwise EM resumed": 25,
}


def grown() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MB


@pytest.mark.parametrize("name", TARGETS)
def test_any_files_are_read_or_refused(tmp_path: Path, name: str) -> None:
    target, folder = TARGETS[name], tmp_path / "in" / "it"
    samples = target.samples()
    for files in samples:
        put(folder, files, target.pipes)
        assert target.check(folder), "a good one"
    before = grown()

    @settings(
        max_examples=SLOW.get(name, 120),
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, len(samples) - 1), st.integers(0, 2**32), st.booleans(), st.binary(max_size=60))
    def check(which: int, seed: int, sealed: bool, noise: bytes) -> None:
        rng = random.Random(seed)
        files = (
            {FILE: noise} if len(samples[which]) == 1 and FILE in samples[which] and seed % 8 == 0 else samples[which]
        )
        files = spoil(rng, files)
        put(folder, target.sealed(files) if sealed or seed % 4 else files, target.pipes)
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numpy and torch, on numbers that nobody would save
            target.check(folder)
        assert time.process_time() - began < SECONDS

    check()
    assert grown() - before < MEGABYTES
