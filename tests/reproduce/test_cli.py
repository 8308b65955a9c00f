"""The command: what it lists, prints, writes and refuses."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest
from rich.console import Console

from pyro_unsup import reproduce
from pyro_unsup.reproduce import PAPERS, Corpora, Paper, paper
from pyro_unsup.reproduce.corpora import SOURCES

from ..cli.conftest import run_command
from . import fake


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name is that of the made-up paper."""
    monkeypatch.setattr(reproduce, "paper", lambda name: fake.paper())


@pytest.mark.usefixtures("made_up")
def test_a_paper(tmp_path: Path, corpora: Corpora) -> None:
    out = tmp_path / "out"
    asked = ("reproduce", "fake-2000", "--data", corpora.folder, "--out", out)
    result = run_command(*asked)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == (out / "tables.md").read_text()
    assert "`pyro-unsup reproduce fake-2000 --data DIR`" in result.stdout
    assert "1 of 5  first: one, seed 0  0.0 s" in result.stderr
    assert f"written: {out}/tables.md, {out}/results.json, {out}/first.png" in result.stderr
    result = run_command(*asked, "--only", "first", "--seeds", 3)
    assert "5 of 7 runs are there already" in result.stderr
    assert "6 of 7  first: one, seed 2" in result.stderr
    assert run_command(*asked, "--only", "second").stderr == "error: fake-2000 has no table 'second', expected first\n"


@pytest.mark.usefixtures("made_up")
def test_on_a_terminal(tmp_path: Path, corpora: Corpora, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(force_terminal=True, file=io.StringIO(), width=100)
    monkeypatch.setattr(import_module("pyro_unsup.cli.reproduce"), "console", lambda stderr=False: screen)
    result = run_command("reproduce", "fake-2000", "--data", corpora.folder, "--out", tmp_path / "out")
    assert result.exit_code == 0
    shown = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "all runs" in shown
    assert "5 of 5" in shown
    assert "1 of 5" not in result.stderr  # the bar says it


@pytest.mark.usefixtures("made_up")
def test_small_goes_to_a_folder_of_its_own(corpora: Corpora, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command("reproduce", "fake-2000", "--small", "--data", corpora.folder).exit_code == 0
    assert (tmp_path / "reproduced" / "fake-2000-small" / "tables.md").exists()


def test_interrupted_and_failed(tmp_path: Path, corpora: Corpora, monkeypatch: pytest.MonkeyPatch) -> None:
    def made_of(run: object) -> None:
        monkeypatch.setattr(reproduce, "paper", lambda name: fake.rows_of(run))

    asked = ("reproduce", "fake-2000", "--data", corpora.folder, "--out", tmp_path / "out", "--seeds", 3)
    made_of(partial(fake.interrupt_once, tmp_path / "mark"))
    result = run_command(*asked)
    assert result.exit_code == 130
    assert "| row (1 of 3 runs) |" in result.stdout
    assert "interrupted: 1 of 3 runs are kept; the same command goes on with the others" in result.stderr
    assert run_command(*asked).exit_code == 0
    made_of(fake.fail)
    result = run_command(*asked[:-4], "--out", tmp_path / "other", "--seeds", 2)
    assert result.exit_code == 2
    assert "error: 1 of 2 runs failed, first: row, seed 1 first: ValueError: the first line" in result.stderr


def test_tables_one_after_the_other(tmp_path: Path, corpora: Corpora, monkeypatch: pytest.MonkeyPatch) -> None:
    """What had been found of other tables stays in the reports."""
    table = fake.rows_of(partial(fake.score, 1.0)).tables[0]
    both = replace(
        fake.rows_of(partial(fake.score, 1.0)), tables=(table, replace(table, name="second", title="The second"))
    )
    monkeypatch.setattr(reproduce, "paper", lambda name: both)
    asked = ("reproduce", "fake-2000", "--data", corpora.folder, "--out", tmp_path / "out", "--seeds", 2)
    assert "The second" not in run_command(*asked, "--only", table.name).stdout
    result = run_command(*asked, "--only", "second")
    assert "`pyro-unsup reproduce fake-2000 --data DIR --only second`" in result.stdout
    assert result.stdout.index(f"## {table.title}") < result.stdout.index("## The second")
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [len(one["rows"][0]["runs"]) for one in found["tables"]] == [2, 2]


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYRO_UNSUP_DATA", raising=False)
    result = run_command("reproduce", "lost")
    assert result.exit_code == 2
    assert "no paper 'lost', expected one of smith-eisner-2004, " in result.stderr
    assert "where are the corpora?" in run_command("reproduce", PAPERS[0]).stderr
    assert "wsj_nltk.mrg: not there" in run_command("reproduce", PAPERS[0], "--data", tmp_path).stderr


def test_list_on_a_narrow_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    result = run_command("reproduce")
    assert result.exit_code == 0
    for one in map(paper, PAPERS):
        assert one.name in result.stdout
        for file in (file for table in one.tables for name in table.needs for file in SOURCES[name].files):
            assert re.search(rf"^ +{re.escape(file)} *$", result.stdout, re.MULTILINE), file


def test_options_want_a_paper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYRO_UNSUP_DATA", str(tmp_path))  # which is no option
    assert run_command("reproduce").exit_code == 0
    options = {"--data": "x", "--only": "ccm", "--seeds": 5, "--jobs": 1, "--out": "x", "--small": None}
    for option, value in options.items():
        result = run_command("reproduce", option, *([] if value is None else [value]))
        assert result.exit_code == 2
        assert result.stdout == ""
        assert f"error: {option}: for which PAPER? Expected one of smith-eisner-2004, " in result.stderr
    assert "error: --only, --small: for which" in run_command("reproduce", "--small", "--only", "ccm").stderr


@pytest.mark.parametrize("name", PAPERS)
def test_papers_are_well_formed(name: str) -> None:
    """A paper checks itself when it is made; here is what it cannot check."""
    found = paper(name)
    assert isinstance(found, Paper)
    assert found.name == name.replace("_", "-")
    for table in found.tables:
        assert table.about
        assert table.minutes > 0
        assert table.rows
    assert any(row.published for table in found.tables for row in table.rows)
