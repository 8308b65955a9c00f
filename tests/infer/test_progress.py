"""Progress bars: none in quick or quiet work, and no warning in a notebook without widgets."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

from pyro_unsup.infer import progress


@pytest.mark.parametrize("widgets", [True, False])
def test_a_bar_counts_and_appears_late(monkeypatch: pytest.MonkeyPatch, widgets: bool) -> None:
    monkeypatch.setattr(progress, "find_spec", lambda name: object() if widgets else None)
    told = io.StringIO()
    with progress.progress_bar(range(3), file=told, unit="it") as bar:
        assert list(bar) == [0, 1, 2]
        assert bar.n == 3
    assert told.getvalue() == ""
    monkeypatch.setattr(progress, "SHOW_AFTER_SECONDS", 0)
    assert list(progress.progress_bar(range(3), file=told, unit="it")) == [0, 1, 2]
    assert "3/3" in told.getvalue()


def test_no_bar_if_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SHOW_AFTER_SECONDS", 0)
    told = io.StringIO()
    assert list(progress.progress_bar(range(3), False, file=told)) == [0, 1, 2]
    assert list(progress.progress_bar(range(3), None, file=told)) == [0, 1, 2]  # no terminal
    assert told.getvalue() == ""


def test_without_widgets_a_notebook_is_not_asked_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """``tqdm.auto`` warns when it is imported in a notebook that has none, so it is not imported."""
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    forbidden: Any = None
    monkeypatch.setitem(sys.modules, "tqdm.auto", forbidden)
    assert list(progress.progress_bar(range(2), False)) == [0, 1]
