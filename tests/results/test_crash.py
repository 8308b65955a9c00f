"""What is on disk when saving stops half-way: the old fit, the new one, or nothing. Never half of one."""

from __future__ import annotations

import builtins
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import pyro_unsup as pu
from pyro_unsup import InputError
from pyro_unsup.results.record_folder import Contents

from .cases import anonymous, assert_same, tree, with_dictionary


class Crash(BaseException):
    """Nothing that anyone catches."""


class Steps:
    """Counts the calls that change the disk, and fails at one of them: before it has happened, or right after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail_at: int | None, after: bool, error: BaseException) -> None:
        self.taken, self.fail_at, self.after, self.error = 0, fail_at, after, error
        for module, name in ((os, "replace"), (os, "fsync"), (os, "mkdir"), (builtins, "open")):
            monkeypatch.setattr(module, name, self.counted(getattr(module, name)))

    def counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if (real is OPEN and args[1:] != ("xb",)) or (real is MKDIR and Path(args[0]).exists()):
                return real(*args, **kwargs)  # this changes nothing
            self.taken += 1
            mine = self.taken
            if mine == self.fail_at and not self.after:
                raise self.error
            result = real(*args, **kwargs)
            if mine == self.fail_at:
                if real is OPEN:
                    result.close()
                raise self.error
            return result

        return call


OPEN, MKDIR = open, os.mkdir


def steps_of(save: Callable[[], None]) -> int:
    with pytest.MonkeyPatch.context() as patch:
        counter = Steps(patch, None, False, Crash())
        save()
    return counter.taken


@pytest.mark.parametrize("error", [Crash(), OSError(5, "Input/output error"), KeyboardInterrupt()])
@pytest.mark.parametrize("place", ["new", "empty", "old", "same"])
def test_a_crash_at_any_step_leaves_the_old_fit_or_nothing(tmp_path: Path, place: str, error: BaseException) -> None:
    old, new = with_dictionary(), anonymous()

    def prepare(folder: Path) -> Path:
        folder.mkdir()
        if place == "empty":
            (folder / "fit").mkdir()
        elif place in ("old", "same"):
            (old if place == "old" else new).save(folder / "fit")
        return folder / "fit"

    whole = prepare(tmp_path / "whole")
    count = steps_of(lambda: new.save(whole, overwrite=True))
    # Two files, each opened, synced, renamed and its folder synced; of a new folder its name too.
    assert count == (10 if place == "new" else 8)
    for step in range(1, count + 1):
        for after in (False, True):
            folder = tmp_path / f"{step}-{after}"
            target = prepare(folder)
            before = tree(folder)
            with pytest.MonkeyPatch.context() as patch:
                Steps(patch, step, after, error)
                with pytest.raises(InputError if isinstance(error, OSError) else type(error)):
                    new.save(target, overwrite=True)
            found = tree(folder)
            assert not any(Path(name).name.startswith(".") for name in found)
            if (target / "fit.json").is_file():
                # Whole, and either of them; nothing beside it.
                loaded = pu.load(target)
                assert_same(loaded, new if len(loaded.weights["start"]) == 4 else old)
                assert len(found) == 2
                if found["fit/fit.json"] == before.get("fit/fit.json"):
                    assert found == before
            else:
                assert place in ("new", "empty")
                assert found == before == {}
                assert {one.name for one in folder.iterdir()} <= {"fit"}
            # And the next attempt goes through.
            new.save(target, overwrite=True)
            assert_same(pu.load(target), new)
            assert len(tree(folder)) == 2


@pytest.mark.parametrize("place", ["new", "old"])
@pytest.mark.parametrize("step", range(1, 11))
def test_a_hard_stop_never_leaves_half_a_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, step: int
) -> None:
    """The power fails, at any step: without any tidying up there is the old fit, or the new one, or none."""
    old, new, target = with_dictionary(), anonymous(), tmp_path / "fit"
    if place == "old":
        old.save(target)
    with monkeypatch.context() as patch, suppress(Crash):
        patch.setattr(Path, "unlink", lambda *args, **kwargs: None)
        patch.setattr(shutil, "rmtree", lambda *args, **kwargs: None)
        Steps(patch, step, True, Crash())
        new.save(target, overwrite=True)
    if (target / "fit.json").exists():
        loaded = pu.load(target)
        assert_same(loaded, new if len(loaded.weights["start"]) == 4 else old)
    else:
        assert place == "new"
        if target.exists():
            with pytest.raises(InputError, match=r"fit\.json: missing; the folder holds no fit"):
                pu.load(target)
    new.save(target, overwrite=True)
    assert_same(pu.load(target), new)
    assert len(tree(target)) == 2  # what was left in it is gone


def test_a_fit_can_be_read_while_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "fit"
    anonymous().save(folder)
    real = Contents.read_record
    replaced: list[int] = []

    def slow(self: Contents, path: Path) -> dict[str, Any]:
        record = real(self, path)
        if not replaced:  # training saves just after the record has been read
            replaced.append(1)
            with_dictionary().save(folder, overwrite=True)
        return record

    monkeypatch.setattr(Contents, "read_record", slow)
    assert_same(pu.load(folder), with_dictionary())
