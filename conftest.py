"""Which tests go deep, and how examples in docstrings run: with nothing but what they import themselves."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.DoctestItem) and item.dtest.globs["__name__"].startswith("pyro_unsup"):
            item.dtest.globs = {"__name__": "__main__"}
        if item.path.suffix == ".ipynb" or "real_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.deep)
