"""Which lines of the package the tests reach: ``python -m tests.coverage``, about an hour on two cores.

First the whole suite. Then the tests of the kernels once more, with the kernels as plain Python, for compiled code
leaves no trace. ``--only suite`` or ``--only kernels`` does one of them; the report is of what has been done since
the package was changed. (``pip install 'pyro-unsup[measure]'``)
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from .mutation.targets import KERNELS, ROOT
from .plain_python import QUIET

LEAST = 95  # per cent of the lines

TESTS = sorted({test for where in KERNELS.values() for test in where})
PARTS: dict[str, tuple[dict[str, str], list[str]]] = {
    "suite": ({}, []),
    "kernels": (
        {"NUMBA_DISABLE_JIT": "1", "PYRO_UNSUP_EXAMPLES": "0.2", "OMP_NUM_THREADS": "1"},
        [
            "-o",
            "addopts=-q -n 2 --dist load",
            "-p",
            "tests.plain_python",
            *QUIET,
            "-m",
            "not deep and not long",
            *TESTS,
        ],
    ),
}


def main() -> None:
    said = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    said.add_argument("--only", choices=PARTS)
    only = said.parse_args().only
    coverage = [sys.executable, "-m", "coverage"]
    for name, (environment, arguments) in PARTS.items():
        if only in (None, name):
            command = [sys.executable, "-m", "pytest", "--cov", "--cov-report=", "--cov-config=pyproject.toml"]
            where = {"COVERAGE_FILE": str(ROOT / f".coverage.{name}")}
            subprocess.run([*command, *arguments], cwd=ROOT, env={**os.environ, **environment, **where}, check=True)
    changed = max(path.stat().st_mtime for path in (ROOT / "pyro_unsup").rglob("*.py"))
    found = [ROOT / f".coverage.{name}" for name in PARTS]
    done = [path.name for path in found if path.exists() and path.stat().st_mtime > changed]
    subprocess.run([*coverage, "combine", "--keep", *done], cwd=ROOT, check=True)
    subprocess.run([*coverage, "report", f"--fail-under={LEAST}"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
