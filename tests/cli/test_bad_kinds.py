"""Bad input to kinds of models besides taggers: one line with file and line, and nothing written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import pyro_unsup as pu

from .conftest import TEXTS, Run, contents
from .test_bad_input import edit, refusal
from .test_kinds import refusal_after_reading

BAD = {
    "ccm": [
        ("x.mrg", "(S (NN a)\n", ":1: this bracket is still open at the end of the file; add )"),
        ("x.mrg", "(S (NN a) b)\n", ":1: 'b' inside the bracket 'S', expected one word or brackets, not both"),
        ("x.mrg", "", ": no sentence in it, expected at least one"),
        ("x.mrg", "(S (PUNCT .))\n", ": no sentence of at most 10 tags in it; raise --max-length"),
    ],
    "clusterer": [
        ("x.txt", "a\tgood dog\nb\t\n", ":2: an empty document, expected at least one word; drop it, or add --skip"),
        ("x.txt", "a\tgood dog\nbad dog\n", ":2: expected 2 columns split by tabs (label, text), found 1"),
        ("x.txt", "a\tgood dog\n", ": no word is left; lower --drop-frequent and --min-count"),
    ],
    "segmenter": [
        ("x.txt", "", ": no sentence in it, expected at least one"),
        ("x.txt", "ab\n\0\n", ":2: a NUL byte, expected UTF-8 text; is this a binary file?"),
    ],
    "aligner": [
        ("x.txt", "a ||| b\na b\n", ":2: expected one ||| between source and target, found none in 'a b'"),
        ("x.txt", "a ||| b\na ||| \n", ":2: the target side is empty, expected at least one word; drop the pair"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("kind", "case"), [(kind, k) for kind, cases in BAD.items() for k in range(len(cases))])
def test_bad_files(tmp_path: Path, run: Run, kind: str, case: int) -> None:
    name, content, what = BAD[kind][case]
    file = tmp_path / name
    file.write_text(content)
    before = contents(tmp_path)
    message = refusal(run("fit", kind, file, "--out", tmp_path / "m"))
    assert message.startswith(f"{file}{what}")
    assert contents(tmp_path) == before


def test_bad_gold(tmp_path: Path, zoo: Path, run: Run) -> None:
    (tmp_path / "x.tagged").write_text("a/DET dog/NOUN\n")
    message = refusal(run("evaluate", zoo / "ccm", tmp_path / "x.tagged"))
    assert message == f"{tmp_path / 'x.tagged'}: no brackets in it, expected a treebank; is --format right?"
    (tmp_path / "x.txt").write_text("a dog\n")
    message = refusal(run("evaluate", zoo / "clusterer", tmp_path / "x.txt"))
    assert message == f"{tmp_path / 'x.txt'}: no labels in it, expected label TAB text; is --format right?"
    (tmp_path / "x.txt").write_text("l\tzork\n")
    message = refusal(run("evaluate", zoo / "clusterer", tmp_path / "x.txt"))
    assert message.startswith(f"{tmp_path / 'x.txt'}: not one word of it is known to the model")
    (tmp_path / "x.txt").write_text("Te dog\nlongerthansix\n")
    message = refusal(run("evaluate", zoo / "segmenter", tmp_path / "x.txt", "--strict"))
    assert message.startswith(f"{tmp_path / 'x.txt'}:2: a word of 13 symbols, 'longerthansix', expected at most 6")
    (tmp_path / "x.wa").write_text("1 1 1 S\n1 99 1 S\n")
    message = refusal(run("evaluate", zoo / "aligner", zoo / "pairs.txt", "--gold", tmp_path / "x.wa"))
    assert message.startswith(f"{tmp_path / 'x.wa'}:2: source word 99 is out of range: sentence 1 has ")
    (tmp_path / "short.txt").write_text("a\n")
    message = refusal(run("fit", "aligner", zoo / "source.txt", tmp_path / "short.txt", "--out", tmp_path / "m"))
    assert message.startswith(f"{tmp_path / 'short.txt'}:2: ends before line 2, which {zoo / 'source.txt'} has")


POWER = "power must lie in (0.5, 1], so that step sizes add up to infinity and their squares do not"


@pytest.mark.parametrize(
    ("kind", "options", "what"),
    [
        ("segmenter", ["--anneal", "--stepwise"], "--anneal and --stepwise are two ways to learn; give one of them"),
        ("aligner", ["--anneal", "--viterbi"], "--anneal and --viterbi are two ways to learn; give one of them"),
        ("clusterer", ["--power", 0.6], "--power belongs to --stepwise; add that, or leave it out"),
        ("ccm", ["--beta-start", 0.6], "--beta-start belongs to --anneal; add that, or leave it out"),
        ("ccm", ["--toward", "split"], "--toward belongs to --anneal; add that, or leave it out"),
        ("ccm", ["--smooth-distituents", "inf"], "--smooth-distituents must be a finite number, actual inf"),
        ("segmenter", ["--no-penalty", "--penalty", 2], "--no-penalty and --penalty 2 contradict; give one of them"),
        ("segmenter", ["--noise", "inf"], "--noise must be a finite number, actual inf"),
        ("segmenter", ["--stepwise", "--power", 0.4], f"{POWER}, actual 0.4"),
        ("clusterer", ["--stepwise", "--power", "nan"], f"{POWER}, actual nan"),
        ("aligner", ["--null", 1], "--null must be a probability below 1, actual 1.0"),
    ],
)
def test_options_that_contradict(
    tmp_path: Path, zoo: Path, run: Run, kind: str, options: list[object], what: str
) -> None:
    """Before the text is read: nothing is said of it."""
    assert refusal(run("fit", kind, zoo / str(TEXTS[kind][0]), *options, "--out", tmp_path / "m")) == what
    assert not any(tmp_path.iterdir())


def test_engines_that_make_no_sense(tmp_path: Path, zoo: Path, run: Run) -> None:
    fit = ("fit", "segmenter", zoo / "lines.txt", "--out", tmp_path / "m")
    for options, what in (
        (["--anneal", "--beta-start", 0], "error: beta must be positive and finite, actual start = 0.0"),
        (["--anneal", "--beta-factor", 0.5], "error: a geometric schedule never gets from 0.0001 to 1"),
    ):
        assert refusal_after_reading(run(*fit, *options)).startswith(what)
        assert not any(tmp_path.iterdir())
    warned = run(*fit, "--stepwise", "--power", 0.5, "--max-iterations", 1)
    assert warned.exit_code == 0
    assert "warning: power 0.5: Liang & Klein (2009) use it too" in warned.stderr


def test_threshold_belongs_to_its_way(zoo: Path, run: Run) -> None:
    message = refusal(run("predict", zoo / "aligner", zoo / "pairs.txt", "--threshold", 0.3))
    assert message == "--threshold belongs to --how threshold or competitive; add that, or leave it out"


@pytest.mark.parametrize(
    ("kind", "setting", "value"),
    [("ccm", "dropped", 3), ("ccm", "max_length", "x"), ("segmenter", "symbol_separator", [1])],
)
def test_settings_of_a_careful_attacker(
    tmp_path: Path, zoo: Path, run: Run, kind: str, setting: str, value: object
) -> None:
    shutil.copytree(zoo / kind, tmp_path / "m")
    config = json.loads((tmp_path / "m" / "fit.json").read_text())["config"]
    edit(tmp_path / "m", config=config | {setting: value})
    message = refusal(run("evaluate", tmp_path / "m", zoo / str(TEXTS[kind][0])))
    assert f"for its setting {setting}, which makes no sense; train it again" in message


def test_a_model_that_knows_numbers_only(tmp_path: Path, run: Run) -> None:
    sentences = [[0, 1, 2], [1, 2]]
    pu.EM(pu.models.Segmenter.of(sentences, vocab=3)).run(sentences, iterations=1, progress=False).save(tmp_path / "m")
    message = refusal(run("show", tmp_path / "m"))
    assert message == f"{tmp_path / 'm'}: this model knows its words by number only, so it cannot read text"


def test_what_does_not_fit_into_memory(tmp_path: Path, zoo: Path, run: Run) -> None:
    for kind, option, what in (
        ("clusterer", "--clusters", "1,000,000,000,000 clusters over "),
        ("segmenter", "--max-length", "segments of up to 1,000,000,000,000 symbols in a text of "),
    ):
        fit = ("fit", kind, zoo / str(TEXTS[kind][0]), "--out", tmp_path / "m", *TEXTS[kind][1:])
        message = refusal(run(*fit, option, 10**12))
        assert message.startswith(what)
        assert "GiB, of " in message
    assert not any(tmp_path.iterdir())
