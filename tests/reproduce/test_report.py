"""Tables, JSON and figures of what was found."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pyro_unsup as pu
from pyro_unsup.reproduce import Corpora, Plan, Row
from pyro_unsup.reproduce.report import markdown, write

from . import fake
from .conftest import finish

GOLDEN = f"""\
# Fake & Fake (2000)

By pyro_unsup {pu.__version__}, `pyro-unsup reproduce fake-2000 --data DIR`.

## Table 1: fakes

On a toy.

|              |   accuracy |          bits |       lead |
| ------------ | ---------: | ------------: | ---------: |
| one          | 10.6 (0.7) | 2.500 (0.000) |            |
| *paper*      |       12.0 |           low |            |
| *difference* |       -1.4 |               |            |
| two          | 20.6 (0.7) | 2.500 (0.000) | 10.0 (0.0) |
| *paper*      | 21.0 (0.5) |               |            |
| *difference* |       -0.4 |               |            |
| fixed        |    1,000.1 |         2.500 |            |

Mean and, in brackets, standard deviation (of a sample) over runs.
"""


def test_markdown(tmp_path: Path, corpora: Corpora) -> None:
    assert markdown(finish(Plan.of(fake.paper(), corpora), tmp_path)) == GOLDEN


def test_what_is_missing_is_said(tmp_path: Path, corpora: Corpora) -> None:
    rows = (
        Row("bad", fake.fail, ("wsj",)),
        Row("gone", partial(fake.score, 1.0), ("wsj", "ewt")),
        Row("two", partial(fake.score, 1.0), ("wsj",)),
    )
    told = markdown(finish(Plan.of(fake.paper(*rows), corpora, small=True, seeds=2), tmp_path))
    assert "`pyro-unsup reproduce fake-2000 --data DIR --seeds 2 --small`" in told
    assert "**A small part of the text and few iterations" in told
    assert "| bad (1 of 2 runs) |" in told
    assert " inf |" in told
    assert "* bad, seed 1, failed: ValueError: the first line" in told
    assert "| gone" not in told
    assert f"* Left out, {corpora.folder}/ud/en_ewt-ud-train.conllu: not there" in told
    assert told.endswith("PYRO_UNSUP_DATA: gone\n")


def test_files(tmp_path: Path, corpora: Corpora) -> None:
    state = finish(Plan.of(fake.paper(), corpora), tmp_path)
    written = write(state, tmp_path)
    assert [path.name for path in written] == ["tables.md", "results.json", "first.png", "first-along.png"]
    assert written[0].read_text() == GOLDEN
    for figure in written[2:]:
        assert figure.read_bytes().startswith(b"\x89PNG")
    record = json.loads(written[1].read_text())
    assert record["versions"]["pyro_unsup"] == pu.__version__
    two = record["tables"][0]["rows"][1]
    assert two["published"] == {"accuracy": [21.0, 0.5]}
    assert [run["accuracy"] for run in two["runs"]] == [20.09, 21.09]
    assert [run["lead"] for run in two["runs"]] == [10, 10]
    assert two["mean"]["accuracy"] == 20.59
    assert two["left_out"] is None


def test_nothing_to_draw_yet(tmp_path: Path, corpora: Corpora) -> None:
    rows = (Row("bad", fake.fail, ("wsj",)),)
    state = finish(Plan.of(fake.paper(*rows), corpora, seeds=1), tmp_path)
    state.found.clear()
    assert [path.name for path in write(state, tmp_path)] == ["tables.md", "results.json"]
