"""What is deprecated says so in one form, and is gone when the release comes that it names."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typing_extensions import deprecated

import pyro_unsup as pu
from tests.docs.test_public_names import METHODS, NAMES, none

FORM = re.compile(r"use `[^`]+` instead; goes in (\d+)\.(\d+)")


def complaint(message: str, version: str = pu.__version__) -> str | None:
    """What is wrong with the notice on a name, in a release."""
    found = FORM.fullmatch(message)
    if found is None:
        return f"the notice should read 'use `...` instead; goes in 0.3', actual {message!r}"
    major, minor = (int(part) for part in version.split(".")[:2])
    return None if (major, minor) < (int(found[1]), int(found[2])) else f"it should have gone in {found[1]}.{found[2]}"


def test_nothing_outstays_its_notice() -> None:
    notices: list[tuple[str, Any]] = [(one.path, getattr(one.value, "__deprecated__", None)) for one in NAMES + METHODS]
    found = {path: complaint(notice) for path, notice in notices if notice is not None}
    none(f"{path}: {wrong}" for path, wrong in found.items() if wrong is not None)


def test_a_notice_is_held_to_its_form_and_release() -> None:
    @deprecated("use `pyro_unsup.EM` instead; goes in 0.3")
    def old() -> int:
        return 1

    with pytest.warns(DeprecationWarning, match="use `pyro_unsup.EM` instead; goes in 0.3"):
        assert old() == 1
    notice: str = old.__deprecated__  # type: ignore[attr-defined]
    assert complaint(notice, "0.1.0") is None
    assert complaint(notice, "0.2.7") is None
    assert complaint(notice, "0.3.0") == complaint(notice, "1.0.0") == "it should have gone in 0.3"
    assert "should read" in str(complaint("do not use this"))
