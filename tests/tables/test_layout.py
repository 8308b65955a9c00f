"""Layouts: rows of dense, supported and ragged tables, against a loop over rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pyro_unsup.errors import TableError
from pyro_unsup.tables import Layout

SUPPORT = torch.tensor([[True, True, False], [False, True, False]])
LAYOUTS = {
    "vector": Layout.dense(4),
    "matrix": Layout.dense(2, 3),
    "cube": Layout.dense(2, 3, 4),
    "support": Layout.dense(2, 3, support=SUPPORT),
    "vector support": Layout.dense(3, support=torch.tensor([True, False, True])),
    "ragged": Layout.ragged([2, 1, 4]),
    "one cell": Layout.dense(1),
}
cases = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def rows_of(layout: Layout, x: Tensor) -> list[Tensor]:
    """The rows of a table one by one, in the plainest way."""
    if layout.row_lengths is None:
        return list(x.reshape(-1, x.shape[-1]))
    return list(x.split(layout.row_lengths.tolist()))


@cases
def test_row_sums_equal_a_loop_over_rows(layout: Layout) -> None:
    x = torch.randn(layout.shape)
    assert layout.row_sum(x).shape == layout.rows
    assert layout.row_logsumexp(x).shape == layout.rows
    expected = torch.stack([row.sum() for row in rows_of(layout, x)])
    torch.testing.assert_close(layout.row_sum(x).reshape(-1), expected)
    expected = torch.stack([row.exp().sum().log() for row in rows_of(layout, x)])
    torch.testing.assert_close(layout.row_logsumexp(x).reshape(-1), expected)


@cases
def test_spread_gives_each_cell_its_rows_value(layout: Layout) -> None:
    per_row = torch.arange(layout.rows.numel(), dtype=torch.float64).reshape(layout.rows)
    spread = layout.spread(per_row).expand(layout.shape)
    for number, row in enumerate(rows_of(layout, spread)):
        assert (row == number).all()


@cases
def test_normalised_rows_sum_to_one_and_keep_ratios(layout: Layout) -> None:
    x = 30 * torch.randn(layout.shape)
    normalised = layout.normalise(x)
    torch.testing.assert_close(layout.row_sum(normalised.exp()), torch.ones(layout.rows))
    assert torch.equal(normalised == -torch.inf, ~layout.allowed())
    # Within a row, differences of allowed cells are those of x.
    shift = torch.where(layout.allowed(), normalised - x, torch.nan)
    for row in rows_of(layout, shift):
        row = row[~row.isnan()]
        torch.testing.assert_close(row, row[:1].expand_as(row))


@cases
def test_uniform_is_one_over_the_allowed_cells(layout: Layout) -> None:
    allowed = layout.allowed()
    for weights, row in zip(rows_of(layout, layout.uniform()), rows_of(layout, allowed), strict=True):
        torch.testing.assert_close(weights.exp(), row.double() / row.sum())
    assert layout.uniform(torch.float32).dtype == torch.float32
    layout.check("t", layout.uniform())


@cases
def test_masking_and_normalising_again_change_nothing(layout: Layout) -> None:
    once = layout.normalise(torch.randn(layout.shape))
    torch.testing.assert_close(layout.normalise(once), once)
    assert torch.equal(layout.mask(once), once)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=8))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_ragged_rows_of_any_lengths(lengths: list[int]) -> None:
    ragged = Layout.ragged(lengths)
    x = torch.randn(sum(lengths), dtype=torch.float64)
    expected = torch.stack([row.logsumexp(0) for row in x.split(lengths)])
    torch.testing.assert_close(ragged.row_logsumexp(x), expected)
    assert ragged.shape == (sum(lengths),)
    assert ragged.rows == (len(lengths),)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_shares_of_ragged_rows(dtype: torch.dtype, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_unsup.kernels.threads.TOKENS_A_THREAD", 1)
    lengths = [1, 40, 3, 3, 1, 20, 1]
    ragged, x = Layout.ragged(lengths), torch.rand(sum(lengths), dtype=dtype)
    x[::5] = 0.0
    x[44:47] = 0.0  # a row without counts
    torch.set_num_threads(threads)
    shares = ragged.log_shares(x, ragged.row_sum(x))
    torch.set_num_threads(1)
    assert shares.dtype == dtype
    expected = torch.cat([(row / row.sum()).log() for row in x.split(lengths)])
    torch.testing.assert_close(shares, expected, equal_nan=True)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("shape", "across"), [((30, 200), False), ((30, 200), True), ((5, 6, 200), False)])
def test_shares_of_dense_rows(
    shape: tuple[int, ...], across: bool, dtype: torch.dtype, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyro_unsup.kernels.threads.TOKENS_A_THREAD", 1)
    support = torch.rand(shape) < 0.9
    x = torch.rand(shape, dtype=dtype) * support
    x[..., ::5] = 0.0
    x[0, ...] = 0.0  # without counts
    assert x.numel() > Layout.SMALL
    if across:
        x = x.T.contiguous().T
    torch.set_num_threads(threads)
    for layout in (Layout.dense(*shape), Layout.dense(*shape, support=support)):
        shares = layout.log_shares(x, layout.row_sum(x))
        expected = layout.mask((x / x.sum(-1, keepdim=True)).log())
        torch.testing.assert_close(shares, expected, equal_nan=True)
        assert shares.dtype == dtype
        assert layout.support is not None or shares.stride() == x.stride()
    torch.set_num_threads(1)


def test_a_support_broadcasts_and_a_full_one_is_none() -> None:
    column = Layout.dense(4, 3, support=torch.tensor([True, False, True]))
    assert column.allowed().tolist() == [[True, False, True]] * 4
    assert Layout.dense(2, 3, support=torch.ones(2, 3)).support is None


def test_normalising_does_not_disturb_gradients_at_structural_zeros() -> None:
    x = torch.randn(2, 3, requires_grad=True)
    weights = LAYOUTS["support"].normalise(x)
    weights[SUPPORT].sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert (x.grad[~SUPPORT] == 0).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Layout.dense(), r"at least one outcome and no empty axis, actual shape = \(\)"),
        (lambda: Layout.dense(2, 0), r"no empty axis, actual shape = \(2, 0\)"),
        (lambda: Layout.dense(2, 2, support=torch.tensor([[True, True], [False, False]])),
         r"row \(1,\) has no allowed outcome: every row of a support needs at least one True"),
        (lambda: Layout.dense(2, 3, support=torch.ones(3, 2)),
         r"a support must broadcast to the table's shape \(2, 3\), actual shape \(3, 2\)"),
        (lambda: Layout.ragged([]), "row_lengths must be a non-empty vector of positive integers"),
        (lambda: Layout.ragged([2, 0]), "row_lengths must be a non-empty vector of positive integers"),
        (lambda: Layout.ragged(torch.ones(2, 2).long()), "row_lengths must be a non-empty vector"),
        (lambda: Layout.ragged(torch.tensor([1.5, 2.0])), "positive integers"),
    ],
)  # fmt: skip
def test_impossible_layouts_are_refused(make: object, message: str) -> None:
    with pytest.raises(TableError, match=message):
        make()  # type: ignore[operator]


def test_check_names_table_and_fault() -> None:
    layout = LAYOUTS["support"]
    with pytest.raises(TableError, match=r"table 'emission': expected log-weights of shape \(2, 3\), actual \(3, 2\)"):
        layout.check("emission", torch.zeros(3, 2))
    with pytest.raises(TableError, match=r"table 'emission': a structural zero has weight; apply Layout\.mask"):
        layout.check("emission", torch.zeros(2, 3))
    for bad in (torch.nan, torch.inf):
        weights = layout.uniform()
        weights[0, 0] = bad
        with pytest.raises(
            TableError, match=r"table 'emission': log-weights must be finite or -inf, found NaN or \+inf"
        ):
            layout.check("emission", weights)
    weights = layout.mask(torch.full((2, 3), -5.0))  # rows need not sum to one
    assert layout.check("emission", weights) is weights
