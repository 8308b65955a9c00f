"""A pytest plugin for kernels that run as plain Python (``NUMBA_DISABLE_JIT=1``): it skips what then takes long.

Compiled code leaves no trace for coverage, and takes too long to compile for every fault that is planted in it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest

#: Seconds of the processor that a test may take.
PATIENCE = 12.0

#: Integers of numpy say when they overflow; compiled ones, in hashes, are meant to.
QUIET = ("-W", "ignore:overflow encountered")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """(Around the test alone: what pytest does with its result must not be interrupted.)"""

    def give_up(*_: Any) -> None:
        pytest.skip(f"takes more than {PATIENCE:g} s as plain Python")

    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
