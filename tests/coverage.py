"""Which lines of the package the tests reach: ``python -m tests.coverage``, about half an hour.

First the whole suite. Then the tests of the kernels once more, with the kernels as plain Python, for compiled code
leaves no trace. (``pip install pytest-cov``)
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from .mutation.targets import KERNELS, ROOT
from .plain_python import QUIET

LEAST = 95  # per cent of the lines


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    measured = ["--cov", "--cov-report=", "--cov-config=pyproject.toml"]
    tests = sorted({test for where in KERNELS.values() for test in where})
    plain = ["-o", "addopts=-q -n 2 --dist load", "-p", "tests.plain_python", *QUIET, "-m", "not slow", *tests]
    for environment, arguments in (
        ({}, measured),
        ({"NUMBA_DISABLE_JIT": "1", "PYRO_UNSUP_EXAMPLES": "0.2"}, [*measured, "--cov-append", *plain]),
    ):
        command = [sys.executable, "-m", "pytest", *arguments]
        subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, check=True)
    subprocess.run([sys.executable, "-m", "coverage", "report", f"--fail-under={LEAST}"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
