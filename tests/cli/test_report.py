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


def test_likelihoods_that_cannot_be_compared(run: Run, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("visits,warmth\n" + "\n".join(f"{k % 7},{(k * 37) % 11}.5" for k in range(40)))
    fits = {"a": ("visits", "poisson"), "b": ("visits", "normal"), "c": ("warmth", "normal")}
    for name, (column, emission) in fits.items():
        options = ("--column", column, "--emission", emission, "--states", 2, "--max-iterations", 2)
        made = run("fit", "hmm", table, *options, "--out", tmp_path / name)
        assert made.exit_code == 0, made.stderr
    kinds = run("compare", tmp_path / "a", tmp_path / "b", "--data", table)
    assert kinds.exit_code == 2
    told = "a and b cannot be compared: they differ in the kind of values (whole numbers and measurements)"
    assert told in kinds.stderr
    columns = run("compare", tmp_path / "b", tmp_path / "c", "--data", table)
    assert columns.exit_code == 2
    assert "b and c cannot be compared: they differ in the column (visits and warmth)" in columns.stderr


def test_a_text_without_tags_is_data(run: Run, world: Path, tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("the dog barks\n")
    told = run("report", world / "model", "--gold", tmp_path / "plain.txt", "--out", tmp_path / "r.html")
    assert told.exit_code == 2
    assert "a file without gold structure is given by --data" in told.stderr


def test_a_line_that_is_not_whole_completes_without_an_error(tmp_path: Path) -> None:
    import typer

    from pyro_unsup.cli import app

    command = typer.main.get_command(app).get_command(None, "report")
    with command.make_context("report", [str(tmp_path / "nowhere"), "--g"], resilient_parsing=True):
        pass
