"""``pyro-unsup sample adaptor`` and what is done with its samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

Run = Any
LINES = ["the dog", "a dog", "see the dog", "the cat", "a cat", "see a cat", "see"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text"
    file.write_text("\n".join(LINES * 3), "utf-8")
    return file


def words(done: Any) -> str:
    assert done.exit_code == 0, done.stderr
    return str(done.stdout)


def test_sample_predict_evaluate_show(run: Run, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "s"
    words(run("sample", "adaptor", text, "--sweeps", 60, "--chains", 2, "--out", out))
    predicted = tmp_path / "words"
    words(run("predict", out, text, "--out", predicted))
    lines = predicted.read_text("utf-8").splitlines()
    assert [line.replace(" ", "") for line in lines] == [line.replace(" ", "") for line in LINES * 3]
    assert any(" " in line for line in lines)
    found = json.loads(words(run("evaluate", out, text, "--how", "vote", "--json")))
    assert len(found["token_f1"]["chains"]) == 2
    assert 0 <= found["token_f1"]["together"] <= 1
    assert "vote of 2" in " ".join(words(run("evaluate", out, text, "--how", "vote")).split())
    shown = json.loads(words(run("show", out, "--json")))
    assert set(shown["levels"]["discount"]) == {"word", "collocation"}
    assert abs(sum(one["share"] for one in shown["words"]) - 1) < 1e-9


def test_a_grammar_of_ones_own(run: Run, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "s"
    own = ("--level", "word=stem rest?", "--level", "stem=symbol+", "--part", "rest=vowel", "--class", "vowel=aeo")
    words(run("sample", "adaptor", text, *own, "--sweeps", 6, "--fixed", "--discount", 0, "--out", out))
    shown = json.loads(words(run("show", out, "--json")))
    assert shown["levels"] == {}
    assert "word > stem" in shown["model"]


def test_each_word_depends_on_the_word_before(run: Run, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "s"
    words(run("sample", "adaptor", text, "--order", 2, "--sweeps", 40, "--chains", 2, "--out", out))
    predicted = tmp_path / "words"
    words(run("predict", out, text, "--out", predicted))
    assert [line.replace(" ", "") for line in predicted.read_text("utf-8").splitlines()] == [
        line.replace(" ", "") for line in LINES * 3
    ]
    found = json.loads(words(run("evaluate", out, text, "--how", "vote", "--json")))
    assert 0 <= found["token_f1"]["together"] <= 1
    shown = json.loads(words(run("show", out, "--json")))
    assert "'words', order=2" in shown["model"]
    assert set(shown["levels"]["concentration"]) == {"word", "word_bigram"}
    assert shown["levels"]["discount"] == {"word": 0.0, "word_bigram": 0.0}


@pytest.mark.parametrize(
    ("options", "match"),
    [
        (("--grammar", "syllables"), "--grammar syllables needs --vowels"),
        (("--words", "word"), "belong to a grammar of your own"),
        (("--level", "word=symbol+", "--vowels", "a"), "--class vowel="),
        (("--vowels", "aeiou"), "give --grammar syllables or --grammar function-words too, or leave --vowels out"),
        (("--grammar", "syllables", "--vowels", "XYZ"), "--vowels: the text has none of 'XYZ'; its symbols are a c d"),
        (("--level", "w=symbol+"), "say which units are words, --words w"),
        (("--level", "word"), "--level should be NAME=..."),
        (("--level", "word=symbol*"), "has '*' at character 7. Write names with ?, + or {0,2} behind them"),
        (("--discount", 1), "--discount must be below 1"),
        (("--concentration", 0), "--concentration must be positive"),
        (("--order", 2, "--grammar", "collocations"), "give --grammar words, or leave --order out"),
        (("--order", 2, "--level", "word=stem+", "--level", "stem=symbol+"), "the levels here are word > stem"),
    ],
)
def test_refused(run: Run, text: Path, tmp_path: Path, options: Any, match: str) -> None:
    done = run("sample", "adaptor", text, *options, "--out", tmp_path / "s")
    assert done.exit_code == 2
    assert match in " ".join(done.stderr.split())
    assert not (tmp_path / "s").exists()


def test_vowels_that_are_not_in_the_text_are_named(run: Run, text: Path, tmp_path: Path) -> None:
    options = ("--grammar", "syllables", "--sweeps", 4, "--out", tmp_path / "s")
    done = run("sample", "adaptor", text, *options, "--vowels", "XaeoY")
    assert done.exit_code == 0, done.stderr
    assert "warning: --vowels: the text has no X, Y\n" in done.stderr
    done = run("sample", "adaptor", text, *options, "--vowels", "XaY", "--overwrite")
    assert done.exit_code == 2
    said = " ".join(done.stderr.split())
    assert "no X, Y" in said
    assert "has no analysis under the grammar: every word of the grammar 'syllables' needs a vowel" in said
    assert "add the symbols that make a syllable to the vowels" in said


def test_what_samples_say_of_their_prior(run: Run, text: Path, tmp_path: Path) -> None:
    fixed, bigram = tmp_path / "f", tmp_path / "b"
    own = ("--grammar", "words", "--discount", 0, "--fixed")
    words(run("sample", "adaptor", text, *own, "--sweeps", 4, "--out", fixed))
    config = json.loads(words(run("show", fixed, "--json")))["config"]
    assert (config["alpha"], config["beta"], config["hyperprior"]) == (1.0, 0.0, None)
    done = run("sample", "adaptor", text, "--order", 2, "--sweeps", 4, "--out", bigram)
    assert "accepted: labels" in done.stderr
    assert "alpha 100 %" in done.stderr
    assert "beta" not in done.stderr
    assert (
        "Gamma(shape=0.01, rate=0.01) of concentrations"
        in json.loads(words(run("show", bigram, "--json")))["config"]["hyperprior"]
    )


def test_a_grammar_says_its_sweeps(run: Run, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "s"
    words(run("sample", "adaptor", text, "--grammar", "function-words", "--vowels", "aeo", "--out", out))
    assert json.loads(words(run("show", out, "--json")))["config"]["sweeps"] == 700


def test_another_text_is_refused(run: Run, text: Path, tmp_path: Path) -> None:
    words(run("sample", "adaptor", text, "--sweeps", 4, "--out", tmp_path / "s"))
    other = tmp_path / "other"
    other.write_text("a dog\n", "utf-8")
    done = run("predict", tmp_path / "s", other, "--out", tmp_path / "x")
    assert done.exit_code == 2
    assert "is not the text that was sampled" in " ".join(done.stderr.split())
