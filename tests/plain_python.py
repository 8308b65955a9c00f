"""A pytest plugin for kernels that run as plain Python (``NUMBA_DISABLE_JIT=1``): it skips what then takes long.

Compiled code leaves no trace for coverage, and takes too long to compile for every fault that is planted in it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import pytest
import torch

#: Seconds of the processor that a test may take.
PATIENCE = 12.0

#: Numbers of numpy say when they overflow, or are none; compiled ones do not.
QUIET = tuple(
    word for what in ("overflow", "divide by zero", "invalid value") for word in ("-W", f"ignore:{what} encountered")
)

#: Tests of kernels in which numbers of 32 bits become longer ones when compiled, and stay short as plain Python.
COMPILED_ONLY = ("test_shares_of_dense_rows",)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        short = hasattr(item, "callspec") and any(one is torch.float32 for one in item.callspec.params.values())
        if short and item.originalname in COMPILED_ONLY:
            item.add_marker(pytest.mark.skip(reason="is for compiled code"))


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
