"""Relative frequencies, and what becomes of rows without counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from pyro_unsup import AddLambda, Normalise
from pyro_unsup.errors import TableError
from pyro_unsup.tables import Declaration, Layout

SUPPORT = torch.tensor([[True, True, False], [False, True, True]])
LAYOUTS = {
    "vector": Layout.dense(4),
    "matrix": Layout.dense(2, 3),
    "cube": Layout.dense(2, 3, 4),
    "support": Layout.dense(2, 3, support=SUPPORT),
    "ragged": Layout.ragged([2, 1, 4]),
}


def table(layout: Layout, **more: Any) -> Declaration:
    return Declaration("t", layout, torch.tensor(1.0), **more)


def objective(layout: Layout, counts: Tensor, weights: Tensor) -> Tensor:
    """Expected complete log-likelihood, 0 log 0 being 0."""
    return torch.where(counts > 0, counts * weights, 0.0).sum()


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_are_relative_frequencies(layout: Layout, dtype: torch.dtype) -> None:
    counts = torch.rand(layout.shape, dtype=dtype) * layout.allowed()
    weights = Normalise().weights(table(layout), counts, layout.uniform(dtype))
    assert weights.dtype == dtype
    expected = counts / layout.spread(layout.row_sum(counts))
    torch.testing.assert_close(weights.exp(), expected)
    layout.check("t", weights)
    assert Normalise().log_prior(table(layout), weights) == 0.0


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_no_other_point_of_the_simplex_does_better(layout: Layout) -> None:
    counts = torch.rand(layout.shape) * layout.allowed()
    best = Normalise().weights(table(layout), counts, layout.uniform())
    top = objective(layout, counts, best)
    for size in (1e-3, 0.1, 3.0):
        for _ in range(20):
            other = layout.normalise(best + size * torch.randn(layout.shape))
            assert objective(layout, counts, other) <= top + 1e-12


def test_a_cell_without_counts_becomes_impossible() -> None:
    weights = Normalise().weights(table(Layout.dense(3)), torch.tensor([1.0, 0.0, 3.0]), torch.zeros(3))
    torch.testing.assert_close(weights.exp(), torch.tensor([0.25, 0.0, 0.75]))
    assert weights[1] == -torch.inf


def test_tiny_counts_keep_their_digits() -> None:
    weights = Normalise().weights(table(Layout.dense(2)), torch.tensor([1e-300, 3e-300]), torch.zeros(2))
    torch.testing.assert_close(weights.exp(), torch.tensor([0.25, 0.75]))


@pytest.mark.parametrize(
    ("layout", "counts", "message"),
    [
        (Layout.dense(3, 2), [[1, 1], [0, 0], [0, 0]],
         r"table 't': row \(1,\) has no expected counts \(2 of 3 rows are empty\)"),
        (Layout.dense(2, 2, 1), [[[1], [1]], [[1], [0]]],
         r"table 't': row \(1, 1\) has no expected counts \(1 of 4 rows"),
        (Layout.ragged([1, 2]), [3, 0, 0], r"table 't': row \(1,\) has no expected counts \(1 of 2 rows"),
        (Layout.dense(2), [0, 0], r"table 't': row .* has no expected counts \(1 of 1 rows"),
    ],
)  # fmt: skip
def test_an_empty_row_is_an_error_that_names_it(layout: Layout, counts: list[Any], message: str) -> None:
    with pytest.raises(TableError, match=message) as caught:
        Normalise().weights(table(layout), torch.tensor(counts, dtype=torch.float64), layout.uniform())
    assert "Smooth it (AddLambda)" in str(caught.value)
    assert "unvisited='keep'" in str(caught.value)


@pytest.mark.parametrize("estimator", [Normalise(), AddLambda(0.0)])
def test_unvisited_rows_may_be_kept_as_they_were(estimator: Any) -> None:
    layout = Layout.dense(2, 3, support=SUPPORT)
    old = layout.normalise(torch.randn(2, 3))
    counts = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 3.0]])
    weights = estimator.weights(table(layout, unvisited="keep"), counts, old)
    assert torch.equal(weights[0], old[0])
    torch.testing.assert_close(weights[1].exp(), torch.tensor([0.0, 0.25, 0.75]))
    ragged = Layout.ragged([2, 1, 2])
    old = ragged.uniform()
    weights = estimator.weights(table(ragged, unvisited="keep"), torch.tensor([1.0, 3.0, 0.0, 0.0, 0.0]), old)
    torch.testing.assert_close(weights.exp(), torch.tensor([0.25, 0.75, 1.0, 0.5, 0.5]))
