"""Rules whose weight is found from the share of arcs that is to obey them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pyro_unsup as pu

from .beliefs_cases import small_texts
from .conftest import Run


def test_fit_show_predict(tmp_path: Path, run: Run) -> None:
    text = small_texts(tmp_path) / "text.conllu"
    fit = ("fit", "dmv", text, "--column", "upos", "--max-length", 6, "--prefer", "universal")
    result = run(*fit, "--prefer-share", 0.5, "--max-iterations", 3, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.stderr
    found = pu.load(tmp_path / "m")
    (weight,) = found.config["rule_weights"]
    shown = json.loads(run("show", tmp_path / "m", "--json").stdout)
    assert shown["preferences"] == [f"prefer(universal(tags='upos', heads='content') x {weight:g})"]
    assert "prefers" in run("show", tmp_path / "m").stdout
    heeding = run("predict", tmp_path / "m", text)
    assert heeding.exit_code == 0, heeding.stderr
    assert run("predict", tmp_path / "m", text, "--without-preferences").exit_code == 0


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--prefer-weight", 1), "--prefer-share and --prefer-weight are two ways to weigh rules; give one of them"),
        (("--prefer-fade",), "--prefer-share and --prefer-fade are two ways to learn; give one of them"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, run: Run, options: tuple[object, ...], what: str) -> None:
    text = small_texts(tmp_path) / "text.conllu"
    fit = ("fit", "dmv", text, "--column", "upos", "--prefer", "universal", "--prefer-share", 0.5)
    result = run(*fit, *options, "--out", tmp_path / "m")
    assert (result.exit_code, result.stderr) == (2, f"error: {what}\n")
    result = run("fit", "dmv", text, "--column", "upos", "--prefer-share", 0.5, "--out", tmp_path / "m")
    assert (result.exit_code, result.stderr) == (
        2,
        "error: --prefer-share belongs to --prefer; add that, or leave it out\n",
    )


def test_a_share_that_no_trees_can_reach(tmp_path: Path, run: Run) -> None:
    text = small_texts(tmp_path) / "text.conllu"
    fit = ("fit", "dmv", text, "--column", "upos", "--prefer", "universal", "--prefer-share", 1)
    result = run(*fit, "--out", tmp_path / "m")
    assert result.exit_code == 2
    assert "The largest share that they can reach in these data is 0." in result.stderr
    assert not (tmp_path / "m").exists()
