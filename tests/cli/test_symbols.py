"""What a symbol of a segmenter is: graphemes, or every code point. Models remember it."""

from __future__ import annotations

import json
from pathlib import Path
from unicodedata import normalize

import pytest

import pyro_unsup as pu

from .conftest import Run
from .test_bad_input import refusal

# Vietnamese with its accents as characters of their own, and a family that is one emoji.
LINES = [normalize("NFD", line) for line in ("tiếng việt", "tiếng nói", "việt nam", "tôi nói tiếng việt")] * 5
FAMILY = "👩\u200d👩\u200d👧"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    folder = tmp_path_factory.mktemp("symbols")
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in [*LINES, f"nói {FAMILY}"]))
    fit = ("fit", "segmenter", folder / "text.txt", "--max-length", 5, "--max-iterations", 5)
    for name, options in {
        "default": (),
        "graphemes": ("--symbols", "graphemes"),
        "characters": ("--symbols", "characters"),
    }.items():
        result = run(*fit, *options, "--out", folder / name)
        assert result.exit_code == 0, result.stderr
    return folder


def test_graphemes_are_the_default_and_stay_whole(models: Path, run: Run) -> None:
    vocab = {name: set(pu.load(models / name).model.vocab) for name in ("default", "graphemes", "characters")}
    assert vocab["default"] == vocab["graphemes"] >= {normalize("NFD", "ế"), FAMILY}
    assert all(len(symbol) == 1 for symbol in vocab["characters"])
    out = run("predict", models / "default", models / "text.txt")
    assert out.exit_code == 0
    words = out.stdout.split()
    assert "".join(words) == "".join((models / "text.txt").read_text().split())
    assert all(len(pu.graphemes.graphemes(f"a{word}")) > 1 for word in words)  # none begins with an accent


@pytest.mark.parametrize("name", ["graphemes", "characters"])
def test_models_remember_their_symbols(models: Path, run: Run, name: str) -> None:
    assert pu.load(models / name).config["symbols"] == name
    out = run("predict", models / name, models / "text.txt")
    assert (out.exit_code, out.stderr) == (0, "")  # nothing is unknown
    text = pu.data.read_segmented(models / "text.txt", symbols=name)  # type: ignore[arg-type]
    scores = json.loads(run("evaluate", models / name, models / "text.txt", "--json").stdout)
    assert scores["tokens"] == text.tokens
    assert scores["unknown_tokens"] == 0


@pytest.mark.parametrize("name", ["graphemes", "characters"])
def test_models_that_do_not_say_are_asked_for_their_vocabulary(models: Path, name: str) -> None:
    from pyro_unsup.tasks.segmenter import symbols_of

    fit = pu.load(models / name)
    del fit.config["symbols"]
    assert symbols_of(fit) == name
    fit.config["symbols"] = "words"
    with pytest.raises(pu.UnsupError, match="the model has 'words' for its setting symbols, which makes no sense"):
        symbols_of(fit)


def test_samples_too(tmp_path: Path, models: Path, run: Run) -> None:
    sample = ("sample", "segmenter", models / "text.txt", "--sweeps", 3, "--chains", 1, "--out", tmp_path / "s")
    result = run(*sample, "--symbols", "characters")
    assert result.exit_code == 0, result.stderr
    found = run("evaluate", tmp_path / "s", models / "text.txt", "--json")
    assert found.exit_code == 0, found.stderr


def test_separators_say_it_all(tmp_path: Path, models: Path, run: Run) -> None:
    options = ("--symbols", "characters", "--symbol-separator", ".", "--out", tmp_path / "m")
    message = refusal(run("fit", "segmenter", models / "text.txt", *options))
    assert message == "--symbols characters means nothing with --symbol-separator; give one of them"
