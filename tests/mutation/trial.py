"""One fault before the tests: in a process of its own, the quickest tests first."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from threading import RLock
from typing import Any

from tqdm import tqdm

from .. import plain_python
from ..plain_python import QUIET
from .mutants import Mutant
from .targets import ROOT, Kernels, Target

#: Seconds of tests that a fault is put before, at most, without counting what it costs to begin.
BUDGET = 60.0
#: Seconds that one of them may take: the quickest come first, so that slower ones would hardly be asked.
LONGEST = 5.0
#: Bytes that a fault may ask for.
MEMORY = 8 << 30

Order = list[tuple[str, float]]  # tests and their seconds, in the order to try them


def forked(work: Callable[[], int], patience: float) -> int | None:
    """The exit code of work in a child process that has everything imported already; None if it has to be ended.

    :param patience: seconds of the processor, for this may be a busy machine; on the clock there is much more.
    """
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            resource.setrlimit(resource.RLIMIT_CPU, (int(patience), int(patience)))
            null = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(null, stream)
            tqdm.set_lock(RLock())  # the parent's bar may be at work in another thread, and hold its own
            code = work()
        finally:
            os._exit(code)
    until = time.monotonic() + 20 * patience
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return None if code in (-signal.SIGKILL, -signal.SIGXCPU) else code
        if time.monotonic() > until:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(0.02)


def run_tests(tests: Sequence[str], plugins: Sequence[Any] = (), stop: bool = True) -> int:
    import pytest

    quiet = [
        "-o",
        "addopts=",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-m",
        "not deep and not long",
        "--no-header",
        *QUIET,
    ]
    return int(pytest.main([*quiet, *(["-x"] if stop else []), *tests], plugins=list(plugins)))


class Stopwatch:
    """A plugin that notes how long each test takes that passes: of the processor, for this may be a busy machine."""

    def __init__(self, into: Path) -> None:
        self.into, self.began = into, 0.0
        self.found: dict[str, float] = {}

    def pytest_runtest_setup(self) -> None:
        self.began = time.process_time()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            self.found[report.nodeid] = time.process_time() - self.began

    def pytest_sessionfinish(self) -> None:
        self.into.write_text(json.dumps(self.found))


def prepare(kernels: Kernels, cache: str) -> None:
    """How kernels run in this process: those that are kept compiled know nothing of faults elsewhere."""
    import numba

    numba.config.DISABLE_JIT = int(kernels == "plain")
    if kernels == "compiled anew":
        numba.config.CACHE_DIR = cache


def order_of(target: Target, folder: Path) -> Order:
    """The tests that pass without a fault, the module's own first, and of either the quickest first."""
    tests = target.tests
    places = [ROOT / test.partition("::")[0] for test in tests]
    files = sorted({path for one in places for path in ([one] if one.suffix else one.rglob("*.py"))})
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files) + repr(tests).encode()).hexdigest()[:12]
    into = folder / f"{digest}.json"  # of these tests as they are now

    def clocked() -> int:
        prepare(target.kernels, str(folder))
        plain_python.PATIENCE = LONGEST
        return run_tests(tests, [Stopwatch(into), plain_python], stop=False)

    fresh = not into.exists()
    if fresh:
        if target.kernels == "as they are":  # compiled first, or that would be what takes long
            forked(lambda: run_tests(tests, stop=False), 3600)
        forked(clocked, 3600)
    found: dict[str, float] = json.loads(into.read_text())
    order, total = [], 0.0
    for name, seconds in sorted(found.items(), key=lambda item: (not item[0].startswith(target.first), item[1])):
        total += seconds
        if total > BUDGET:
            break
        order.append((name, seconds))
    names = [name for name, _ in order]
    if not order or (fresh and forked(lambda: run_tests_of(target.kernels, names, str(folder)), 3600) != 0):
        into.unlink()
        sys.exit(f"the tests {' '.join(tests)} do not pass one after the other, without any fault")
    return order


def run_tests_of(kernels: Kernels, tests: Sequence[str], cache: str) -> int:
    prepare(kernels, cache)
    return run_tests(tests)


def with_fault(mutant: Mutant, kernels: Kernels, tests: Sequence[str], cache: str) -> int:
    """Run the tests with a fault in a module, as if it were on disk."""
    prepare(kernels, cache)
    source, path, usual = mutant.source(), str(mutant.path), SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        return compile(source, path, "exec") if self.path == path else usual(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    return run_tests(tests)


def tried(mutant: Mutant, kernels: Kernels, order: Order) -> dict[str, Any]:
    """What becomes of a fault."""
    began = time.monotonic()
    patience = 60 + 4 * sum(seconds for _, seconds in order)
    with tempfile.TemporaryDirectory(prefix="mutation") as cache:
        code = forked(lambda: with_fault(mutant, kernels, [name for name, _ in order], cache), patience)
    if code == 5:  # pytest was asked for tests that are not there; with 4 the fault has kept it from collecting them
        raise RuntimeError(f"the tests of {mutant.path.stem} cannot be found")
    return {
        "module": mutant.path.stem,
        "line": mutant.line,
        "operator": mutant.operator,
        "occurrence": mutant.occurrence,
        "digest": mutant.digest,
        "outcome": "survived" if code == 0 else "hung" if code is None else "found",
        "seconds": round(time.monotonic() - began, 1),
        "as": mutant.line_of_source(),
    }
