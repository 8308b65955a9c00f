"""`predict` of taggers on CoNLL-U: one column of tags changes, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..data.test_conllu import TEXT
from .conftest import Run

DICTIONARY = "vamos {0}\nnos {1}\na {2}\nel {3} {1}\nmar {4}\n¡ {5}\nMar {4}\n! {5}\n"
UPOS = ("VERB", "PRON", "ADP", "DET", "NOUN", "PUNCT")
WRITTEN = ["VERB", "PRON", "ADP", "DET", "NOUN", "PUNCT", "NOUN", "PUNCT"]
OTHERS = ("V", "P", "S", "D", "N", "F")
# All that a tagger has nothing to do with.
RICH = TEXT.replace("\tV1\t_", "\tV1\tMood=Imp|Number=Plur").replace("1:nsubj\t_", "1:nsubj\tRef=3|SpaceAfter=No")


@pytest.fixture(scope="module")
def spanish(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """A text, and three models of it: one with the tags of UD, one with others, one with numbers."""
    folder = tmp_path_factory.mktemp("spanish")
    (folder / "text.conllu").write_text(RICH)
    fit = ("fit", "tagger", folder / "text.conllu", "--max-iterations", 3, "--smooth", 0.1)
    for name, tags in (("upos", UPOS), ("others", OTHERS)):
        (folder / f"{name}.txt").write_text(DICTIONARY.format(*tags))
        result = run(*fit, "--dictionary", folder / f"{name}.txt", "--out", folder / name)
        assert result.exit_code == 0, result.stderr
    assert run(*fit, "--tags", 2, "--out", folder / "numbers").exit_code == 0
    return folder


def cells(text: str) -> list[list[str]]:
    return [line.split("\t") for line in text.split("\n")]


def check(out: str, column: int, tags: list[str] | None) -> None:
    """Only this column of words differs from what the file had."""
    assert out.endswith("\n\n")
    found, left = cells(out), iter(tags or ())
    before = cells(RICH.rstrip("\n") + "\n\n")
    assert len(found) == len(before)
    for row, old in zip(found, before, strict=True):
        if len(old) == 10 and old[0].isdecimal():
            assert row[:column] + row[column + 1 :] == old[:column] + old[column + 1 :]
            assert row[column] == next(left) if tags else row[column] in "01"
        else:
            assert row == old


def test_tags_of_universal_dependencies_go_to_upos(spanish: Path, run: Run) -> None:
    result = run("predict", spanish / "upos", spanish / "text.conllu")
    assert result.exit_code == 0, result.stderr
    check(result.stdout, 3, WRITTEN)
    stdin = run("predict", spanish / "upos", "-", "--format", "conllu", stdin=RICH)
    assert stdin.stdout == result.stdout


def test_other_tags_go_to_xpos(spanish: Path, run: Run) -> None:
    named = dict(zip(UPOS, OTHERS, strict=True))
    check(run("predict", spanish / "others", spanish / "text.conllu").stdout, 4, [named[tag] for tag in WRITTEN])
    check(run("predict", spanish / "numbers", spanish / "text.conllu").stdout, 4, None)


def test_the_column_can_be_chosen(spanish: Path, run: Run) -> None:
    check(run("predict", spanish / "upos", spanish / "text.conllu", "--column", "xpos").stdout, 4, WRITTEN)
    relabel = ("--relabel", spanish / "text.conllu")
    predict = ("predict", spanish / "numbers", spanish / "text.conllu")
    xpos, upos = (cells(run(*predict, *relabel, "--column", one).stdout) for one in ("xpos", "upos"))
    before = cells(RICH)
    words = [i for i, row in enumerate(before) if row[0].isdecimal()]
    for found, changed, kept in ((xpos, 4, 3), (upos, 3, 4)):
        assert {found[i][changed] for i in words} <= {before[i][changed] for i in words}
        assert all(found[i][kept] == before[i][kept] for i in words)


def test_a_file_may_be_written_over_itself(tmp_path: Path, spanish: Path, run: Run) -> None:
    file = tmp_path / "text.conllu"
    file.write_text(RICH)
    assert run("predict", spanish / "upos", file, "--out", file).exit_code == 0
    check(file.read_text(), 3, WRITTEN)


def test_other_formats_of_the_same_text(tmp_path: Path, spanish: Path, run: Run) -> None:
    predict = ("predict", spanish / "upos", spanish / "text.conllu")
    assert run(*predict, "--output-format", "columns").stdout.startswith("vamos VERB\nnos PRON\n")
    assert run(*predict, "--probabilities").stdout.startswith("vamos\tVERB\t1.000000\n")
    (tmp_path / "plain.txt").write_text("vamos nos\n")
    plain = ("predict", spanish / "upos", tmp_path / "plain.txt")
    assert run(*plain).stdout == "vamos VERB\nnos PRON\n\n"
    written = run(*plain, "--output-format", "conllu").stdout
    assert written == "1\tvamos\t_\tVERB\t_\t_\t_\t_\t_\t_\n2\tnos\t_\tPRON\t_\t_\t_\t_\t_\t_\n\n"
