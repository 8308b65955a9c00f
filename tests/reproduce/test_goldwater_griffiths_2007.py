"""Bayesian tagging, on a little of the real text."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyro_unsup.reproduce import Corpora, Found
from pyro_unsup.reproduce.goldwater_griffiths_2007 import PAPER


def run(table: str, row: str, folder: Path) -> Found:
    chosen = next(one for one in PAPER.table(table).rows if one.name == row)
    return chosen.run(Corpora(folder), 0, True)


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("sizes", "12k words, random"),
        ("sizes", "12k words, MLHMM"),
        ("sizes", "12k words, BHMM (.003, 1)"),
        ("sizes", "12k words, BHMM2"),
        ("dictionaries", "d = 2, BHMM1"),
    ],
)
def test_small(real_data: Path, table: str, row: str) -> None:
    found = run(table, row, real_data)
    assert 50 < found["accuracy"] < 100
    assert 0 < found["vi_bits"] < 5


def test_without_a_dictionary_there_is_no_accuracy(real_data: Path) -> None:
    for name in ("random", "BHMM1"):
        found = run("dictionaries", f"no dictionary, {name}", real_data)
        assert "accuracy" not in found
        assert found["vi_bits"] > 3


def test_a_row_of_the_grid(real_data: Path) -> None:
    found = run("concentrations", "alpha 1", real_data)
    assert [found[column.name] for column in PAPER.table("concentrations").columns] == [y for _, y in found["by_beta"]]
    published = PAPER.table("concentrations").rows[1].published
    assert max(published, key=published.__getitem__) == "1"  # (.003, 1) is what the paper chose
