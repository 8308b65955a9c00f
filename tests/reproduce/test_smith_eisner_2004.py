"""Annealing, on a little of the real text: what is claimed of rows beside each other, and that they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyro_unsup.reproduce import Corpora, Found
from pyro_unsup.reproduce.smith_eisner_2004 import PAPER
from pyro_unsup.reproduce.smith_eisner_2004_ccm import beside
from pyro_unsup.reproduce.smith_eisner_2004_tagging import against_em, better_than_em


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("tagging", "random"),
        ("tagging", "EM, smoothing 0.1"),
        ("parts", "EM, smoothing 0.01"),
        ("labelled", "EM, 100 labelled"),
        ("ccm", "right-branching"),
        ("ccm", "model 2, 0.5 / 2, SDA (split)"),
        ("ccm-parts", "model 1, 2 / 8, EM (split)"),
        ("ccm-schedules", "model 1, DA, beta x 1.3"),
    ],
)
def test_small(real_data: Path, table: str, row: str) -> None:
    found = _run(table, row, real_data)
    shown = {column.name for column in PAPER.table(table).columns}
    assert shown & found.keys()
    for name in ("test_all", "train_all", "f1", "part", "start"):
        assert 0 <= found.get(name, 0) <= 100
    assert found.get("test_all", 99) > 90  # so small a text hardly leaves a choice


def _run(table: str, row: str, folder: Path) -> Found:
    chosen = next(one for one in PAPER.table(table).rows if one.name == row)
    return chosen.run(Corpora(folder), 0, True)


def test_tagging_beside_em() -> None:
    em = {"objective": -10.0, "right": ["110", "01"], "test_all": 60.0, "train_bits": 2.0, "test_bits": 3.0}
    da = {"objective": -8.5, "right": ["111", "11"], "test_all": 100.0, "train_bits": 2.5, "test_bits": 2.9}
    found = {"EM, smoothing 0.1": em, "DA, smoothing 0.1": da, "DA, smoothing 0": da}
    told = {"over": "+1.5", "words": "2 : 0, p = 0.5", "sentences": "2 : 0, p = 0.5"}
    assert against_em(found) == {"DA, smoothing 0.1": told}
    better = {"better_test_all": 1, "better_train_bits": 0, "better_test_bits": 1, "better_objective": 1}
    scaled = {"EM, smoothing 0.1 scaled": em, "DA, smoothing 0.1 scaled": da}
    assert better_than_em(scaled) == {"DA, smoothing 0.1 scaled": better}


def test_parsing_beside_em() -> None:
    def one(objective: float, matched: list[int], crossing: list[int]) -> Found:
        scores = {"matched_by_sentence": matched, "crossing_by_sentence": crossing}
        return {"e_steps": 3, "objective": objective, **scores}

    found = {
        "upper bound": {"f1": 85.0},
        "model 1, 2 / 8, EM (uniform)": one(-20.0, [0, 0, 0], [2, 2, 2]),
        "model 1, 2 / 8, DA": one(-20.0 + 1e-6, [2, 1, 0], [0, 1, 2]),
        "model 1, 2 / 8, EM (split)": one(-30.0, [1, 1, 1], [1, 1, 1]),
        "model 1, 2 / 8, SDA (split)": one(-15.0, [2, 2, 1], [1, 1, 0]),
    }
    told = beside(found)
    assert told["upper bound"] == told["model 1, 2 / 8, EM (split)"] == {}
    assert told["model 1, 2 / 8, DA"] == {"over": "the same", "matched_test": "1 : 1, 1", "crossing_test": "1 : 1, 1"}
    assert told["model 1, 2 / 8, EM (uniform)"] == {"matched_test": "0 : 3, 0.2", "crossing_test": "0 : 3, 0.2"}
    assert told["model 1, 2 / 8, SDA (split)"] == {
        "over": "+15.0",
        "matched_test": "2 : 0, 0.5",
        "crossing_test": "1 : 0, 1",
    }
