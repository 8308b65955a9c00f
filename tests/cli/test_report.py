"""``pyro-unsup report`` and ``compare``: a page for every saved model, tables in the terminal, and clear refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..report.cases import NAMES, case
from .conftest import Run


def test_report_with_gold_with_data_and_alone(run: Run, world: Path, tmp_path: Path) -> None:
    for number, given in enumerate((["--gold", world / "text.tagged"], ["--data", world / "plain.txt"], [])):
        out = tmp_path / f"{number}.html"
        result = run("report", world / "model", *given, "--out", out)
        assert result.exit_code == 0, result.stderr
        text = out.read_text()
        assert text.startswith("<!doctype html>")
        assert ("Confusion" in text) == (number == 0)
        assert ('class="example' in text) == (number < 2)


@pytest.mark.parametrize("name", NAMES)
def test_every_saved_model_has_a_report(run: Run, tmp_path: Path, name: str) -> None:
    fit, _ = case(name)
    fit.save(tmp_path / "model")
    out = tmp_path / "report.html"
    result = run("report", tmp_path / "model", "--out", out)
    assert result.exit_code == 0, result.stderr
    assert type(fit.unhandled().model).__name__ in out.read_text()


def test_compare(run: Run, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "compare.html"
    result = run("compare", world / "model", world / "named", "--gold", world / "text.tagged", "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "many" in result.stdout
    assert out.read_text().startswith("<!doctype html>")


def test_what_is_refused(run: Run, world: Path, tmp_path: Path) -> None:
    fit, _ = case("clusterer")
    fit.save(tmp_path / "clusters")
    for words in (
        ("compare", world / "model", tmp_path / "clusters"),
        ("compare", world / "model"),
        ("report", tmp_path / "nothing"),
        ("report", world / "model", "--gold", tmp_path / "nothing.tagged"),
    ):
        result = run(*words)
        assert result.exit_code == 2, words
        assert "error:" in result.stderr.lower()
    assert not list(tmp_path.glob("*.html"))
