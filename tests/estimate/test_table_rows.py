"""Tables as flat rows, there and back."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pyro_unsup.estimate.table_rows import TableRows
from pyro_unsup.tables import Layout

from .normal.normal_cases import KINDS, SUPPORT, table


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(kind: str) -> None:
    layout = table(kind).layout
    rows = TableRows.of(layout)
    weights = layout.normalise(torch.randn(layout.shape))
    flat = rows.gather(weights)
    assert len(flat) == rows.offsets[-1]
    assert (np.diff(rows.offsets) > 1).all()
    assert len(rows.numbers) == int((layout.row_sum(layout.allowed().double()) > 1).sum())
    torch.testing.assert_close(rows.scatter(torch.from_numpy(flat)), weights)
    batch = rows.scatter(torch.from_numpy(np.stack([flat, flat])))
    torch.testing.assert_close(batch, torch.stack([weights, weights]))
    flat[:] = 0
    assert (weights != 0).any()  # a copy


def test_the_outcomes_of_rows() -> None:
    declaration = table("support")
    columns, which = TableRows.of(declaration.layout).patterns(declaration)
    for row, way in zip(SUPPORT[1:], which.tolist(), strict=True):
        assert columns[way][columns[way] >= 0].tolist() == row.nonzero().squeeze(-1).tolist()
    ragged = table("ragged")
    columns, which = TableRows.of(ragged.layout).patterns(ragged)
    assert columns[which[0], :3].tolist() == [0, 1, 4]
    assert columns[which[0], 3:].tolist() == [-1] * 4
    assert columns[which[2], :2].tolist() == [6, 2]


@pytest.mark.parametrize("layout", [Layout.dense(3, 1), Layout.ragged([1, 1])], ids=["dense", "ragged"])
def test_a_table_without_any_choice(layout: Layout) -> None:
    rows = TableRows.of(layout)
    assert rows.gather(layout.uniform()).tolist() == []
    assert (rows.scatter(torch.zeros(0)) == 0).all()
