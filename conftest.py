"""Which tests go deep, how tutorials run, and how examples in docstrings run: with what they import themselves."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

# Tests run side by side, one a core. Threads of BLAS, which is loaded later, would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# ArviZ 0.2x warns of its own future at the first import of a day. Tests turn warnings into errors.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz  # noqa: F401


class Tutorial(pytest.File):
    """A notebook of ``tutorials/``. It is a file of its own, so workers share the tutorials."""

    def collect(self) -> Iterator[pytest.Item]:
        yield Rerun.from_parent(self, name="outputs_are_as_saved")


class Rerun(pytest.Item):
    def runtest(self) -> None:
        import nbformat

        from tests.notebooks import differences, execute

        wrong = list(differences(nbformat.read(self.path, as_version=4), execute(self.path)))
        write = f"python -m tests.notebooks --write {self.path.name.partition('_')[0]}"
        assert not wrong, "\n".join([*wrong, f"If this is what it should show: {write}"])

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.path.name} shows what is saved in it"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Tutorial | None:
    return Tutorial.from_parent(parent, path=file_path) if file_path.suffix == ".ipynb" else None


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.DoctestItem) and item.dtest.globs["__name__"].startswith("pyro_unsup"):
            item.dtest.globs = {"__name__": "__main__"}
        if isinstance(item, Rerun) or "real_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.deep)
