"""Priors and constraints, on a little of the real text."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyro_unsup.reproduce import Corpora, Found
from pyro_unsup.reproduce.cohen_smith_2010 import PAPER, PENN, related


def run(table: str, row: str, folder: Path, seed: int = 0) -> Found:
    wanted = next(one for one in PAPER.table(table).rows if one.name == row)
    return wanted.run(Corpora(folder), seed, True)


def test_chain(real_data: Path) -> None:
    assert run("wsj", "chain to the next word", real_data).keys() == {"alone"}
    assert run("zh", "chain to the next word", real_data).keys() == {"alone", "alone, test"}


@pytest.mark.parametrize("prior", ["EM", "DirichletVB, fitted", "logistic normal, families"])
def test_priors(real_data: Path, prior: str) -> None:
    found = run("wsj", prior, real_data)
    assert found.keys() == {"alone", "alone, objective"}
    assert 20 < found["alone"] < 50
    assert run("wsj", prior, real_data, seed=1)["alone, objective"] != found["alone, objective"]


def test_tables_for_every_sentence(real_data: Path) -> None:
    found = run("wsj", "logistic normal, per sentence", real_data)
    assert 20 < found["alone"] < 50


def test_constraints(real_data: Path) -> None:
    found = run("zh", "right attach", real_data)
    shown = [f"{way}{part}" for part in ("", ", test") for way in ("I", "II", "III")]
    assert found.keys() > set(shown)
    chain = run("zh", "chain to the next word", real_data)["alone"]
    assert abs(found["II"] - chain) < 5 < run("zh", "EM", real_data)["alone"]


def test_published_figures_are_beside_chinese_only() -> None:
    assert not any(row.published for name in ("wsj", "ewt") for row in PAPER.table(name).rows)
    rows = {row.name: row.published for row in PAPER.table("zh").rows}
    assert rows["EM"] == {"alone": 38.3}
    assert rows["verb as root"] == {"I": 50.5, "II": 50.2, "III": 49.4}
    assert rows["RA + VAR + SD, EM"] == {}


def test_a_family_a_tag() -> None:
    families = related(PENN)
    assert families["VBD"] == "verb"
    assert len(families) == sum(len(tags) for tags in PENN.values())
