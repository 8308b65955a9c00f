"""Online EM, on a little of the real text: that rows run, and what is made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyro_unsup.reproduce import Corpora, Found
from pyro_unsup.reproduce.liang_klein_2009 import PAPER
from pyro_unsup.reproduce.liang_klein_2009_runs import chosen


def run(table: str, row: str, folder: Path) -> Found:
    wanted = next(one for one in PAPER.table(table).rows if one.name == row)
    return wanted.run(Corpora(folder), 0, True)


@pytest.mark.parametrize(
    ("row", "passes"),
    [
        ("batch EM, noise 1", [1, 2, 5]),
        ("stepwise EM (0.5, 3), noise 1", [1, 2, 3]),
        ("hybrid, (0.5, 3), noise 0.001", [1, 2, 5, 10, 15, 20]),
    ],
)
def test_tagging(real_data: Path, row: str, passes: list[int]) -> None:
    found = run("tagging", row, real_data)
    assert [x for x, _ in found["score"]] == [x for x, _ in found["likelihood"]] == passes
    assert found["passes"] == passes[-1]
    assert found["accuracy"] == found["score"][-1][1]
    assert found["after_1"] == found["score"][0][1]
    assert found["likelihood"][0][1] < found["log_likelihood"] < -5


def test_all_settings(real_data: Path) -> None:
    found = run("tagging-grid", "power 0.7", real_data)
    assert [m for m, _ in found["score"]] == [10, 100]
    likelihood = dict(found["likelihood"])
    assert likelihood[found["best"]] == found["log_likelihood"] == max(likelihood.values())
    score = dict(found["score"])
    assert found["10"] == f"{score[10]:.1f} / {likelihood[10]:.3f}"


def test_likelihood_chooses() -> None:
    rows: dict[str, Found] = {
        "power 0.5": {"log_likelihood": -7.0, "best": 3},
        "power 0.6": {"log_likelihood": -6.0, "best": 1000},
    }
    assert chosen(rows) == {"power 0.6": {"chosen": "m = 1,000"}}


def test_published_settings() -> None:
    rows = {row.name: row.published for row in PAPER.table("documents-grid").rows}
    assert rows["power 0.5"]["3000"] == "49.9 / -7.906"
    assert rows["power 1"]["10000"] == "41.7 / -7.937"
    assert all(len(published) == 9 for published in rows.values())


@pytest.mark.parametrize("language", ["English", "Chinese"])
def test_words(real_data: Path, language: str) -> None:
    found = run("segmentation", f"{language}, EM", real_data)
    assert dict(found["score"])[19] == found["token_f1"] == found["converged"]
    assert 50 < found["token_f1"] < 70


def test_starts_by_orders(real_data: Path) -> None:
    found = run("segmentation", "English, stepwise EM (1, 100)", real_data)
    assert {(one["start"], one["order"]) for one in found["runs"]} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert found["start"] < found["order"]
    assert found["lowest"] < found["token_f1"] == found["score"][-1][1] < found["highest"]


def test_annealing(real_data: Path) -> None:
    found = run("segmentation", "English, annealing from 0.1, beta x 1.5", real_data)
    assert found["log_likelihood"] < found["converged_likelihood"]


def test_alignment(real_data: Path) -> None:
    found = run("alignment", "agreement 2008, stepwise EM (0.7, 1000)", real_data)
    assert found["after_1"] > found["after_2"] == found["intersection"] == found["by_passes"][2]["intersection"]
    assert found["score"] == [(1, found["after_1"]), (2, found["after_2"])]
