"""The table that readers see is the one that the suite declares."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import test_others, test_series, test_trees, test_words
from .__main__ import main
from .algorithms import ALGORITHMS
from .cells import MARKS, REFUSED, WORKS, put, split, table
from .models import MODELS

ROOT = Path(__file__).parents[2]


def test_every_cell_is_tested_and_every_refusal_is_one_of_a_cell() -> None:
    marks = [module.test_cell.pytestmark[0] for module in (test_words, test_trees, test_series, test_others)]
    tested = [cell for mark in marks for cell in mark.args[1]]
    assert sorted(tested) == sorted((model, algorithm) for model in MODELS for algorithm in ALGORITHMS)
    assert REFUSED.keys() <= set(tested)


def test_the_page_of_the_reference_shows_it() -> None:
    assert split((ROOT / "docs/reference/matrix.md").read_text())[1] == table()


def test_a_row_for_each_algorithm_and_a_reason_for_each_letter() -> None:
    rows = [line.strip("| ").split(" | ") for line in table().splitlines() if line.startswith("|")]
    assert rows[0] == [*MODELS]
    assert [row[0] for row in rows[2:]] == [*ALGORITHMS]
    letters = {cell for row in rows[2:] for cell in row[1:]} - {WORKS}
    assert sorted(letters) == [line[2] for line in table().splitlines() if line.startswith("- ")]
    assert rows[2][1:] == [WORKS] * len(MODELS)
    failed = table({("DMV", "EM")})
    assert failed.splitlines()[2].count("**fails**") == 1


def test_a_text_is_checked_and_its_rest_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n")
    assert main(["--check", str(page)]) == 1
    assert "out of date: python -m tests.matrix --write" in capsys.readouterr().out
    page.write_text(put(page.read_text(), table()))
    assert page.read_text() == f"before\n{MARKS[0]}\n{table()}\n{MARKS[1]}\nafter\n"
    assert main(["--check", str(page)]) == 0
    with pytest.raises(ValueError, match="the text has no place for the matrix"):
        split("no matrix here")


def test_what_is_not_as_declared_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(model: str, algorithm: str, folder: Path) -> None:
        assert (model, algorithm) != ("DMV", "EM"), "no luck"

    monkeypatch.setattr("tests.matrix.__main__.check", wrong)
    page = tmp_path / "page.md"
    page.write_text(f"{MARKS[0]}{MARKS[1]}")
    assert main(["--write", str(page)]) == 1
    assert split(page.read_text())[1] == table({("DMV", "EM")}) != table()
    said = capsys.readouterr()
    assert "EM on DMV:" in said.err
    assert "no luck" in said.err
    assert said.out.strip() == table({("DMV", "EM")})
