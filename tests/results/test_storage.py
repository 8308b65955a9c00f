"""Fits on disk: exact round trips, what may be overwritten, and what a crash leaves behind."""

from __future__ import annotations

import json
import math
import os
import shutil
import stat
from collections.abc import Callable
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import InputError, UnsupError
from pyro_unsup.data import Vocab
from pyro_unsup.models import Tagger

from .cases import anonymous, assert_same, latent, mixture, own, points, text, tree, with_dictionary

BITS = [torch.float64, torch.float32]


def changed(fit: pu.Fit, **changes: Any) -> pu.Fit:
    new = copy(fit)
    new.config, new.report, new.rows = dict(fit.config), deepcopy(fit.report), deepcopy(fit.rows)
    for name, value in changes.items():
        setattr(new, name, value)
    return new


# -- there and back


@pytest.mark.parametrize("dtype", BITS)
@pytest.mark.parametrize(("order", "stop"), [(1, False), (2, True)])
def test_round_trip_is_exact(tmp_path: Path, order: int, stop: bool, dtype: torch.dtype) -> None:
    fit = anonymous(order, stop, dtype)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert_same(loaded, fit)
    assert loaded.weights["emission"].dtype == dtype
    assert list(loaded.weights) == list(fit.weights)
    assert fit.rows[0]["change"] == math.inf
    assert isinstance(loaded.model, Tagger)
    assert repr(loaded.model) == repr(fit.model)
    assert loaded.model.vocab == text().vocab
    assert loaded.model.vocab.unknown == "<unk>"
    assert loaded.model.tags == 4
    assert torch.equal(loaded.predict(text()), fit.predict(text()))
    assert loaded.log_likelihood(text()) == fit.log_likelihood(text())


@pytest.mark.parametrize("dtype", BITS)
def test_a_dictionary_comes_back(tmp_path: Path, dtype: torch.dtype) -> None:
    fit = with_dictionary(dtype)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert_same(loaded, fit)
    ours, theirs = (x.model.declarations() for x in (fit, loaded))  # type: ignore[attr-defined]
    assert torch.equal(ours["emission"].layout.support, theirs["emission"].layout.support)
    assert all(ours[name].unvisited == theirs[name].unvisited for name in ours)
    assert all(float(ours[name].prior) == float(theirs[name].prior) for name in ours)
    assert loaded.labels == list(text().tagset or [])
    assert loaded.evaluate(text()) == fit.evaluate(text())


def test_a_second_round_trip_writes_the_same_bytes(tmp_path: Path) -> None:
    with_dictionary().save(tmp_path / "one")
    pu.load(tmp_path / "one").save(tmp_path / "two")
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


@pytest.mark.parametrize("model", [mixture, latent])
def test_a_model_of_ones_own_comes_back_with_the_model(tmp_path: Path, model: Callable[..., Any]) -> None:
    fit = own(model)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit", model=model)
    assert_same(loaded, fit)
    assert loaded.model is model
    assert (loaded.params or loaded.points).keys() == {"mean", "scale"}
    assert torch.equal(loaded.predict(points())["z"], fit.predict(points())["z"])


def test_a_model_of_ones_own_without_the_model_is_a_clear_error(tmp_path: Path) -> None:
    own().save(tmp_path / "fit")
    with pytest.raises(
        InputError,
        match=r"that is not registered, or under a component of your own: pass it, load\(folder, model=...\)$",
    ):
        pu.load(tmp_path / "fit")

    class Mine(Tagger):
        """Not the library's, whatever it descends from."""

    mine = Mine(4, text().vocab)
    changed(anonymous(), model=mine).save(tmp_path / "mine")
    with pytest.raises(InputError, match="a model of your own"):
        pu.load(tmp_path / "mine")
    assert pu.load(tmp_path / "mine", mine).model is mine


def test_the_model_that_is_passed_has_to_fit(tmp_path: Path) -> None:
    anonymous().save(tmp_path / "fit")
    with pytest.raises(
        InputError, match=r"safetensors: table 'start': expected log-weights of shape \(5,\), actual \(4,\)"
    ):
        pu.load(tmp_path / "fit", model=Tagger(5, text().vocab))
    with pytest.raises(InputError, match=r"the model has the tables .*'second'"):
        pu.load(tmp_path / "fit", model=Tagger(4, text().vocab, order=2))


def test_labels_history_and_odd_numbers_come_back(tmp_path: Path) -> None:
    fit = changed(anonymous().relabel(text()))
    fit.config |= {
        "tolerance": math.inf,
        "nested": {"a": [1, None, True, "inf"]},
        "seed": np.int64(7),
        "rate": np.float64(0.1),
    }
    fit.config["labels"] = ["inf", "-inf", "nan", '\N{GREEK SMALL LETTER ALPHA}\ud800 \n"\\']  # strings stay strings
    fit.report.restarts = [-math.inf, fit.objective]
    fit.report.unvisited = {"transition": 3}
    fit.report.tolerance = math.inf
    for i, row in enumerate(fit.rows):
        row |= {"score": None if i else 0.25, "count": 3, "odd": math.nan}  # type: ignore[dict-item]
    fit.rows[0]["objective"] = -math.inf
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    fit.config |= {"seed": 7, "rate": 0.1}
    assert_same(loaded, fit)
    assert str(loaded.report) == str(fit.report)


def test_words_of_any_kind_come_back(tmp_path: Path) -> None:
    words = ["", " ", "\0", "\u2028", "\ud800", "\U0001f600", "a/b", '"', "types", "inf", "<unk>"]
    model = Tagger(["x", "types"], Vocab(words, unknown="<unk>"))
    fit = pu.EM(model).run([list(range(11)), [0, 5, 7]], iterations=2, progress=False)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert list(loaded.model.vocab) == words  # type: ignore[attr-defined]
    assert loaded.labels == ["x", "types"]
    assert_same(loaded, fit)


def test_tensors_that_share_memory_or_lie_askew_are_saved(tmp_path: Path) -> None:
    fit = changed(own(), weights={"a": torch.eye(3).T[::2], "b": torch.zeros(1).expand(4)})
    shared = torch.arange(6.0)
    fit.params = {
        "whole": shared,
        "part": shared[2:4],
        "scalar": torch.tensor(1.5).requires_grad_(),
        "none": shared[:0],
        "net$$$a/b": shared,
        "whole numbers": torch.arange(3),
        "flag": torch.tensor(True),
    }
    fit.save(tmp_path / "fit")
    assert_same(pu.load(tmp_path / "fit", mixture), fit)


def test_saving_does_not_touch_the_fit(tmp_path: Path) -> None:
    fit = deepcopy(with_dictionary())
    before = deepcopy(fit)
    fit.save(tmp_path / "fit")
    assert_same(fit, before)


def test_a_fit_can_be_moved_copied_and_linked(tmp_path: Path) -> None:
    anonymous().save(str(tmp_path / "fit"))
    shutil.copytree(tmp_path / "fit", tmp_path / "copy")
    (tmp_path / "link").symlink_to(tmp_path / "copy")
    (tmp_path / "fit").rename(tmp_path / "moved")
    for name in ("copy", "link", "moved"):
        assert_same(pu.load(tmp_path / name), anonymous())


def test_what_could_not_be_loaded_is_not_saved(tmp_path: Path) -> None:
    fit = anonymous()
    bad = {**fit.weights, "start": fit.weights["start"].clone().fill_(math.nan)}
    strange = Tagger(4, [*range(len(text().vocab))])  # words that are no strings
    for wrong, says in (
        (changed(fit, weights=bad), "table 'start' holds NaN or"),
        (
            changed(fit, weights={**fit.weights, "start": torch.zeros(4, dtype=torch.int64)}),
            "expected log-weights in float64",
        ),
        (changed(fit, weights={}), "the fit has \\[\\]"),
        (changed(fit, params={"p": torch.tensor(math.nan)}), "'p' holds NaN"),
        (
            changed(fit, config={"x": object()}),
            "cannot be saved.*object is not JSON|cannot be saved.*not JSON serializable",
        ),
        (changed(fit, config={"labels": ["a"]}), "expected 4 labels, one a state, actual 1"),
        (changed(fit, rows=[]), "the history is empty"),
        (changed(fit, model=strange), "cannot be saved.*a vocabulary is a list of strings"),
    ):
        with pytest.raises(UnsupError, match=says):
            wrong.save(tmp_path / "fit")
        assert list(tmp_path.iterdir()) == []


# -- where a fit may go


def test_parents_are_made_and_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        anonymous().save(tmp_path / "a" / "b" / "fit")
    finally:
        os.umask(before)
    folder = tmp_path / "a" / "b" / "fit"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    assert {stat.S_IMODE(one.stat().st_mode) for one in folder.iterdir()} == {0o640}
    assert sorted(one.name for one in folder.parent.iterdir()) == ["fit"]


def test_an_existing_fit_is_replaced_only_if_asked_to(tmp_path: Path) -> None:
    folder = tmp_path / "fit"
    anonymous().save(folder)
    before = tree(folder)
    with pytest.raises(
        InputError,
        match=r"fit: exists already; choose another folder, or replace it \(overwrite=True, or --overwrite\)$",
    ):
        with_dictionary().save(folder)
    assert tree(folder) == before
    with_dictionary().save(folder, overwrite=True)
    assert_same(pu.load(folder), with_dictionary())
    assert len(tree(folder)) == 2


def test_saving_the_same_twice_is_harmless(tmp_path: Path) -> None:
    for _ in range(2):
        anonymous().save(tmp_path / "fit", overwrite=True)
    assert_same(pu.load(tmp_path / "fit"), anonymous())
    assert len(tree(tmp_path / "fit")) == 2


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    folder = tmp_path / "fit"
    anonymous().save(folder)
    kept = {"notes.txt": b"mine", "model.safetensors": b"mine too", ".hidden": b"", "0123.safetensors": b""}
    for name, raw in kept.items():
        (folder / name).write_bytes(raw)
    # What a crash may have left behind goes.
    (folder / "0123456789abcdef.safetensors").write_bytes(b"left")
    (folder / ".fit.json.0123456789ab").write_bytes(b"left")
    with_dictionary().save(folder, overwrite=True)
    assert_same(pu.load(folder), with_dictionary())
    found = tree(folder)
    assert len(found) == 2 + len(kept)
    assert {name: found[name] for name in kept} == kept


@pytest.mark.parametrize("overwrite", [False, True])
def test_what_is_not_a_fit_is_never_replaced(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("ten years of work")
    (tmp_path / "file").write_text("a file")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = tree(tmp_path)
    says = "exists and is not a fit, so it is not replaced" if overwrite else "exists already"
    for name in ("folder", "file", "link", "dangling"):
        with pytest.raises(InputError, match=f"{name}: {says}"):
            anonymous().save(tmp_path / name, overwrite)
    assert tree(tmp_path) == before
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(InputError, match=r"cannot be written: (Not a directory|File exists)"):
        anonymous().save(tmp_path / "file" / "fit", overwrite)
    assert tree(tmp_path) == before


def test_an_empty_folder_is_filled_also_through_a_link_and_as_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("empty", "behind", "here"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "behind")
    anonymous().save(tmp_path / "empty")
    anonymous().save(tmp_path / "link")
    monkeypatch.chdir(tmp_path / "here")
    anonymous().save(".")
    with_dictionary().save("", overwrite=True)
    assert_same(pu.load(tmp_path / "empty"), anonymous())
    assert_same(pu.load(tmp_path / "behind"), anonymous())
    assert_same(pu.load(tmp_path / "here"), with_dictionary())
    assert (tmp_path / "link").is_symlink()
    assert {one.name for one in tmp_path.iterdir()} == {"empty", "behind", "here", "link"}


def test_a_link_to_a_fit_is_followed(tmp_path: Path) -> None:
    anonymous().save(tmp_path / "fit")
    (tmp_path / "latest").symlink_to("fit")
    with_dictionary().save(tmp_path / "latest", overwrite=True)
    assert (tmp_path / "latest").is_symlink()
    assert_same(pu.load(tmp_path / "fit"), with_dictionary())


def test_a_full_disk_is_an_input_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="fit: cannot be written: No space left on device"):
        anonymous().save(tmp_path / "fit")
    assert list(tmp_path.iterdir()) == []


def test_the_record_is_plain_json(tmp_path: Path) -> None:
    with_dictionary().save(tmp_path / "fit")

    def refuse(token: str) -> None:
        raise AssertionError(token)

    raw = (tmp_path / "fit" / "fit.json").read_bytes()
    record = json.loads(raw.decode("ascii"), parse_constant=refuse)
    assert record["schema"] == 2
    assert record["model"]["name"] == "Tagger"
    assert record["rows"][0]["change"] == "inf"
    assert record["tensors"]["model/dictionary"]["dtype"] == "torch.bool"
