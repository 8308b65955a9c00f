"""Features, on a little of the real text."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyro_unsup.reproduce import Corpora, Found
from pyro_unsup.reproduce.berg_kirkpatrick_2010 import PAPER
from pyro_unsup.reproduce.berg_kirkpatrick_2010_chains import SEGMENT_TEMPLATES


def run(table: str, row: str, folder: Path) -> Found:
    wanted = next(one for one in PAPER.table(table).rows if one.name == row)
    return wanted.run(Corpora(folder), 0, True)


@pytest.mark.parametrize("row", ["EM, no features", "EM, kappa 0.2", "gradient, kappa 0.2"])
def test_words(real_data: Path, row: str) -> None:
    found = run("segmentation", row, real_data)
    assert found["along"] == [(2, found["first"]), (4, found["f1"])]
    assert 20 < found["f1"] < 50
    assert found["objective"] < 0


def test_templates_by_name() -> None:
    """Every name takes the templates it says."""
    names = {kind: [template.name for template in made()] for kind, made in SEGMENT_TEMPLATES.items()}
    every = names["all"]
    assert names["all but prefixes"] == [name for name in every if not name.startswith("prefix")]
    assert names["2 classes only"] == [name for name in every if not name.endswith("6")]
    assert names["6 classes only"] == [name for name in every if not name.endswith("2")]
    assert names["ends of 1..5"] == every


@pytest.mark.parametrize(
    ("table", "row"), [("tagging", "EM, no features"), ("tag-templates", "gradient, any n-grams, kappa 1")]
)
def test_tagging(real_data: Path, table: str, row: str) -> None:
    found = run(table, row, real_data)
    assert found["along"][-1] == (4, found["many_to_one"])
    assert 0 < found["one_to_one"] <= found["many_to_one"] < 60
    assert 1 < found["used"] <= 45


def test_grammar(real_data: Path) -> None:
    found = run("grammar-wsj", "features, gradient, 1", real_data)
    runs = found["runs"]
    assert list(runs) == ["counts", "tree", "random 1", "random 2"]
    assert found["objective"] == runs[found["start"]]["objective"] == max(one["objective"] for one in runs.values())
    assert found["chosen"] == 100 * runs[found["start"]]["directed"]
    assert found[found["start"]] == f"{found['chosen']:.1f} (0)"
    assert -1 <= found["agree"] <= 1


def test_chains(real_data: Path) -> None:
    found = [run("grammar-zh", f"each word on the {which}", real_data)["chosen"] for which in ("next", "one before")]
    assert found[0] > found[1]


def test_alignment(real_data: Path) -> None:
    found = run("alignment", "no features", real_data)
    assert found["HMM, intersection"] < found["Model 1, intersection"] < 60
    assert "Model 1, threshold 0.3" in found
