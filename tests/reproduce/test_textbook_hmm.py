"""Worked examples of hidden Markov models: what is quick of them gives the published figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyro_unsup.reproduce import Corpora, Found, paper, textbook_hmm_posterior
from pyro_unsup.reproduce.textbook_hmm import PAPER

#: Rows whose numbers must be the published ones to the last digit, by table.
EXACT = {
    "earthquakes": ["mixture of 1", "mixture of 2", "mixture of 3", "mixture of 4", "2 states, stationary",
                    "3 states, stationary", "2 states, free", "3 states, free"],
    "earthquakes-em": [f"2 states, iteration {i}" for i in (0, 1, 2, 30, 50)]
    + [f"3 states, iteration {i}" for i in (0, 1, 2, 30)],
    "earthquakes-moments": ["2 states", "3 states"],
    "earthquakes-forecasts": ["2007", "2008", "2009", "2016", "2026", "2036"],
    "earthquakes-decoding": ["Viterbi"],
    "counts": ["soap, 2 states, stationary", "tinnitus, 2 states, stationary"],
    "geyser": ["duration, mixture of 2"],
    "exact": ["umbrella", "rainy or sunny"],
    "speed": ["rt, 1 state", "rt and corr, given", "rt and corr, given, driven", "rt, 2 states, one series"],
    "switching": [row.name for row in PAPER.table("switching").rows],
}  # fmt: skip
#: What is published with fewer digits than a column shows, or to a known misprint.
ROUNDED = {"counts": 0.5, "speed": 5e-3, "earthquakes": 2e-4, "geyser": 0.05, "switching": 6e-5}


def run(table: str, row: str, folder: Path, small: bool = True) -> Found:
    chosen = next(one for one in PAPER.table(table).rows if one.name == row)
    return chosen.run(Corpora(folder), 0, small)


def test_it_is_listed() -> None:
    assert paper("textbook-hmm") is PAPER


@pytest.mark.parametrize(("table", "row"), [(table, row) for table, rows in EXACT.items() for row in rows])
def test_published_figures(real_data: Path, table: str, row: str) -> None:
    published = next(one for one in PAPER.table(table).rows if one.name == row).published
    digits = {column.name: column.digits for column in PAPER.table(table).columns}
    found = run(table, row, real_data)
    for name, figure in published.items():
        if name == "maximum" or (isinstance(figure, str) and name == "estimates"):
            continue
        if isinstance(figure, str):
            assert found[name] == figure
        else:
            assert found[name] == pytest.approx(figure, abs=ROUNDED.get(table, 1.01 * 10.0 ** -digits[name]))


@pytest.mark.parametrize(
    "row",
    ["GNP, AR(4), switching mean", "fedfunds, constant", "mumps, lag without constant, variance switching"],
)
def test_published_values_are_the_maximum(real_data: Path, row: str) -> None:
    found = run("switching", row, real_data, small=False)
    assert found["maximum"] == pytest.approx(found["given"], abs=1e-5)
    assert found["maximum"] >= found["given"]


@pytest.mark.parametrize(
    ("table", "row"),
    [("wind", "3 states"), ("chorales", "16 states"), ("chorales", "independent"), ("wind", "independent")],
)
def test_long_ones_run_in_small(real_data: Path, table: str, row: str) -> None:
    found = run(table, row, real_data)
    if row == "independent" and table == "wind":
        assert found["nll"] == pytest.approx(92515.5, abs=0.1)
    elif row == "independent":
        assert (found["train"], found["test"]) == pytest.approx((-11.0932, -11.0595), abs=0.2)
    else:
        assert all(isinstance(x, float | str) for x in found.values())


@pytest.mark.deep
def test_the_posterior_of_earthquakes_is_the_published_one(real_data: Path) -> None:
    found = run("earthquakes-posterior", "NUTS", real_data, small=False)
    for name, figure in textbook_hmm_posterior.PUBLISHED.items():  # which have an error of their own, too
        assert abs(float(found[name]) - figure) < 5 * float(found[f"{name}_error"])
