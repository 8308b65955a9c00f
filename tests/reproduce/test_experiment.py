"""Tables, rows and columns that do not go together are refused."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from pyro_unsup.errors import UnsupError
from pyro_unsup.reproduce import Paper, Row

from . import fake


def test_a_table_knows_its_corpora_and_what_to_draw() -> None:
    table = fake.paper().tables[0]
    assert table.needs == ("wsj",)
    assert [column.name for column in table.drawn] == ["accuracy"]  # a published text cannot be drawn
    assert [column.name for column in replace(table, bars=("bits",)).drawn] == ["bits"]
    assert fake.paper().table("first").title == "Table 1: fakes"


def test_what_does_not_fit_is_refused() -> None:
    table, run = fake.paper().tables[0], partial(fake.score, 1.0)
    for rows, what in (
        ((Row("a", run, ("wsj",), {"speed": 1.0}),), "row a: no column 'speed', expected accuracy, bits, lead"),
        ((Row("a", run, ("lost",)),), "row a: no corpus 'lost', expected wsj, "),
        ((Row("a", run, ()), Row("a", run, ())), "rows of table first: 'a' is there twice"),
    ):
        with pytest.raises(UnsupError, match=what):
            replace(table, rows=rows)
    with pytest.raises(UnsupError, match="bars: no column 'speed'"):
        replace(table, bars=("speed",))
    with pytest.raises(UnsupError, match="tables of p: 'first' is there twice"):
        Paper("p", "P", (table, table))
    with pytest.raises(UnsupError, match="fake-2000 has no table 'second', expected first"):
        fake.paper().table("second")
