"""The lazy table against the dense recomputation that it saves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyro_unsup.errors import TableError
from pyro_unsup.tables import Layout, LazyTable

SUPPORT = torch.rand(5, 40, generator=torch.Generator().manual_seed(1)) < 0.6
SUPPORT[:, 0] = True
LAYOUTS = {
    "vector": Layout.dense(30),
    "matrix": Layout.dense(5, 40),
    "cube": Layout.dense(3, 4, 20),
    "support": Layout.dense(5, 40, support=SUPPORT),
    "ragged": Layout.ragged([1, 7, 30, 2, 60]),
}
cases = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def start(layout: Layout, dtype: torch.dtype = torch.float64) -> Tensor:
    return (torch.rand(layout.shape, dtype=dtype) + 0.5) * layout.allowed()


def fresh(layout: Layout, touched: Tensor | None, dtype: torch.dtype = torch.float64) -> Tensor:
    counts = 10 * torch.rand(layout.shape, dtype=dtype) * layout.allowed()
    return counts if touched is None else counts[..., touched]


def whole(layout: Layout, part: Tensor, touched: Tensor | None) -> Tensor:
    full = part.new_zeros(layout.shape)
    full[..., slice(None) if touched is None else touched] = part
    return full


def some_columns(layout: Layout) -> Tensor:
    return torch.randperm(layout.shape[-1])[: int(torch.randint(1, 6, ()))]


def steps(kind: str, number: int) -> list[float]:
    if kind == "stepwise EM":
        return [(k + 2) ** -0.7 for k in range(number)]
    if kind == "large":  # the scale halves the exponent range again and again
        return (torch.rand(number) * 0.5 + 0.49).tolist()
    return torch.rand(number).mul(0.05).tolist()


@cases
@pytest.mark.parametrize("kind", ["stepwise EM", "large", "small"])
def test_a_thousand_updates_equal_the_dense_recomputation(layout: Layout, kind: str) -> None:
    counts = start(layout)
    table = LazyTable(layout, counts)
    rescaled = 0
    for number, eta in enumerate(steps(kind, 1000)):
        touched = None if number % 7 == 0 else some_columns(layout)
        part = fresh(layout, touched)
        before = table.scale
        table.update(part, eta, touched)
        rescaled += table.scale > before
        counts = (1 - eta) * counts + eta * whole(layout, part, touched)
        torch.testing.assert_close(table.counts(), counts, rtol=1e-10, atol=0)
        if number % 50 == 0 or number == 999:
            expected = counts.log() - layout.spread(layout.row_sum(counts)).log()
            torch.testing.assert_close(table.log_weights(), expected, rtol=1e-10, atol=1e-10)
            part = expected if touched is None else expected[..., touched]
            torch.testing.assert_close(table.log_weights(touched), part, rtol=1e-10, atol=1e-10)
    assert (table.counts()[~layout.allowed()] == 0).all()
    assert (table.log_weights()[~layout.allowed()] == -torch.inf).all()
    if kind == "large":
        assert rescaled >= 3


@cases
def test_float32_survives_steps_close_to_one(layout: Layout) -> None:
    """Such steps take the scale far below its floor in one update; fresh counts divided by it must not overflow."""
    counts = start(layout)
    table = LazyTable(layout, counts.float())
    for number in range(100):
        eta = 1 - 1e-15 if number % 19 == 18 else 0.9  # when the scale is 1e-18, just above its floor
        part = 1e6 * fresh(layout, None)
        table.update(part.float(), eta)
        counts = (1 - eta) * counts + eta * part
    torch.testing.assert_close(table.counts(), counts.float(), rtol=1e-5, atol=0)
    total = layout.row_sum(table.log_weights().exp())
    torch.testing.assert_close(total, torch.ones_like(total))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_forgetting_alone_leaves_the_weights(dtype: torch.dtype) -> None:
    layout = Layout.dense(2, 3)
    table = LazyTable(layout, start(layout, dtype))
    counts, before = table.counts(), table.log_weights()
    for _ in range(100):
        table.update(torch.zeros(2, 0, dtype=dtype), 0.5, torch.zeros(0, dtype=torch.long))
    torch.testing.assert_close(table.log_weights(), before)
    torch.testing.assert_close(table.counts() * 2.0**100, counts)


@cases
def test_a_step_of_one_forgets_everything(layout: Layout) -> None:
    table = LazyTable(layout, start(layout))
    table.update(fresh(layout, None), 0.3)
    part = fresh(layout, None)
    table.update(part, 1.0)
    torch.testing.assert_close(table.counts(), part)
    torch.testing.assert_close(layout.row_sum(part), table.row_sums * table.scale)


def test_a_row_without_counts_is_an_error_and_never_nan() -> None:
    table = LazyTable(Layout.ragged([2, 1]), torch.tensor([1.0, 1.0, 0.0]))
    assert table.log_weights(torch.tensor([1, 0])).exp().tolist() == pytest.approx([0.5, 0.5])
    for touched in (None, torch.tensor([2])):
        with pytest.raises(TableError, match="a row has no counts: start with counts in every row"):
            table.log_weights(touched)


@cases
@pytest.mark.parametrize("step", [0.5, 1.0])
def test_a_row_that_nothing_visits_keeps_its_proportions(layout: Layout, step: float) -> None:
    table = LazyTable(layout, start(layout))
    before = table.log_weights()
    visited = torch.arange(layout.rows.numel()).reshape(layout.rows) == layout.rows.numel() - 1
    visited = layout.spread(visited).expand(layout.shape)
    for _ in range(3000):  # three times through the exponent range, if it were not for the floor
        table.update(fresh(layout, None) * visited, step)
    torch.testing.assert_close(table.log_weights()[~visited], before[~visited], rtol=1e-10, atol=1e-10)
    assert not torch.equal(table.log_weights()[visited], before[visited])


def test_a_step_of_zero_changes_nothing() -> None:
    layout = LAYOUTS["matrix"]
    counts = start(layout)
    table = LazyTable(layout, counts)
    table.update(fresh(layout, None), 0.0)
    assert torch.equal(table.counts(), counts)


@pytest.mark.parametrize("name", ["matrix", "ragged", "support"])
def test_an_update_writes_only_what_it_touches(name: str) -> None:
    layout = LAYOUTS[name]
    table = LazyTable(layout, start(layout))
    touched = torch.tensor([3, 0, 9])
    rest = torch.tensor([c for c in range(layout.shape[-1]) if c not in touched])
    storage, before = table.unscaled.data_ptr(), table.unscaled.clone()
    for _ in range(5):
        table.update(fresh(layout, touched), 0.2, touched)
    assert table.unscaled.data_ptr() == storage
    assert torch.equal(table.unscaled[..., rest], before[..., rest])
    assert not torch.equal(table.unscaled[..., touched], before[..., touched])
    assert not torch.equal(table.counts()[..., rest], before[..., rest])  # but they have been forgotten


def test_repeats_in_touched_add_up() -> None:
    table = LazyTable(Layout.ragged([2, 2]), torch.ones(4))
    table.update(torch.tensor([1.0, 2.0, 3.0]), 0.5, torch.tensor([1, 1, 3]))
    torch.testing.assert_close(table.counts(), torch.tensor([0.5, 2.0, 0.5, 2.0]))
    torch.testing.assert_close(table.log_weights().exp(), torch.tensor([0.2, 0.8, 0.2, 0.8]))


def test_the_start_is_copied() -> None:
    counts = torch.ones(2, 3)
    table = LazyTable(Layout.dense(2, 3), counts)
    table.update(torch.ones(2, 3), 0.5)
    counts.zero_()
    assert (table.counts() == 1).all()


@pytest.mark.parametrize("step", [-0.1, 1.1, float("nan")])
def test_a_step_outside_the_unit_interval_is_refused(step: float) -> None:
    table = LazyTable(Layout.dense(2), torch.ones(2))
    with pytest.raises(TableError, match=r"a step size must lie in \[0, 1\], actual = "):
        table.update(torch.ones(2), step)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([[1.0, -1.0], [1.0, 0.0]], "counts must not be negative, actual smallest = -1.0"),
        ([[1.0, float("nan")], [1.0, 0.0]], "found NaN"),
        ([[1.0, 1.0], [1.0, 1.0]], "a structural zero has weight"),
        ([[1.0, 1.0]], r"expected log-weights of shape \(2, 2\), actual \(1, 2\)"),
    ],
)
def test_impossible_counts_are_refused(counts: list[list[float]], message: str) -> None:
    layout = Layout.dense(2, 2, support=torch.tensor([[True, True], [True, False]]))
    with pytest.raises(TableError, match=message):
        LazyTable(layout, torch.tensor(counts))


def test_fresh_counts_never_reach_a_structural_zero_and_are_never_negative() -> None:
    support = torch.tensor([[True, True, False], [False, True, True]])
    table = LazyTable(Layout.dense(2, 3, support=support), support.double())
    table.update(torch.ones(2, 3), 0.5)
    table.update(torch.ones(2, 1), 0.5, touched=torch.tensor([2]))
    assert (table.log_weights()[~support] == -torch.inf).all()
    torch.testing.assert_close(table.log_weights().exp().sum(-1), torch.ones(2))
    with pytest.raises(TableError, match="counts must not be negative"):
        table.update(-torch.ones(2, 3), 0.5)
