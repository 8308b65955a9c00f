"""The tests of ArviZ with its newest version: ``python -m tests.arviz_versions --python python3.12``.

ArviZ 1.x has trees in the place of its InferenceData, plots under other names, and needs Python 3.12. This command
makes an environment for it, installs this package and the newest ArviZ there, and runs all tests that speak to ArviZ.
The environment stays for the next time. (pip downloads what the package needs: for torch that may be some gigabytes.)
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
TESTS = (
    "tests/workflow/test_from_pyro.py",
    "tests/workflow/test_to_arviz.py",
    "tests/workflow/test_recover.py",
    "tests/workflow/test_priors.py",
    "tests/workflow/test_new_data.py",
    "tests/workflow/test_relabel.py",
    "tests/workflow/test_checks.py",
    "tests/results/test_arviz.py",
    "tests/results/test_samples.py",
    "tests/docs/test_arviz.py",
)


def main() -> None:
    said = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    said.add_argument("--python", default=sys.executable, help="Python 3.12 or later")
    said.add_argument("--folder", default=str(Path(tempfile.gettempdir()) / "pyro-unsup-arviz"), help="the environment")
    said.add_argument("--arviz", default="arviz>=1", help="what to ask pip for")
    asked = said.parse_args()
    place = Path(asked.folder) / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not place.exists():
        subprocess.run([asked.python, "-m", "venv", asked.folder], check=True)
    subprocess.run([place, "-m", "pip", "install", "-q", asked.arviz, "-e", f"{ROOT}[test]"], check=True)
    show = "import arviz, sys; print('ArviZ', arviz.__version__, 'on Python', sys.version.split()[0])"
    subprocess.run([place, "-c", show], check=True)
    kept = [name for name in TESTS if (ROOT / name).exists()]
    subprocess.run([place, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1", *kept], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
