"""exp and log by arithmetic alone, against those of longer numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pyro_unsup.kernels.exp_log import LOWEST, exp_below, log_shares, log_shares_across, logs, scaled_rows

#: Relative error of a result that is rounded once, half a unit in the last place, is at most this.
ROUNDING = 2.0**-53


def logs_of(x: np.ndarray[Any, Any], total: float = 1.0) -> np.ndarray[Any, Any]:
    out = np.empty_like(x)
    log_shares(x, np.array([total]), np.array([0, len(x)]), 0, 1, out)
    return out


@pytest.mark.parametrize("spread", [1e-9, 1e-3, 1.0, 30.0, 700.0])
@pytest.mark.parametrize("top", [0.0, 2.5, -1e4])
def test_exp_is_right_to_a_unit_in_the_last_place(spread: float, top: float) -> None:
    x = top - spread * np.random.default_rng(0).random(10_007)
    out = np.empty_like(x)
    exp_below(x, top, out)
    exact = np.exp((x - top).astype(np.longdouble))
    assert float(np.abs(out / exact - 1).max()) < 2 * ROUNDING


def test_exp_of_next_to_nothing_is_nothing() -> None:
    x = np.array([0.0, LOWEST + 1e-9, LOWEST, -745.0, -1e300, -np.inf])
    out = np.empty_like(x)
    exp_below(x, 0.0, out)
    assert out[0] == 1
    assert out[1] == pytest.approx(np.exp(LOWEST), rel=1e-8)
    assert out[2:].tolist() == [0.0] * 4
    exp_below(np.float32([0.0, -1.5, -np.inf]), 0.0, out)  # weights of single precision, sums of double
    assert out[:3].tolist() == pytest.approx([1.0, np.exp(-1.5), 0.0], rel=1e-15)


@pytest.mark.parametrize(
    "x",
    [
        np.random.default_rng(0).random(10_007),
        1 + 1e-6 * np.random.default_rng(1).standard_normal(10_007),
        np.exp(np.random.default_rng(2).uniform(-708, 709, 10_007)),
        2.0 ** np.arange(-1022, 1023),
        np.sqrt(np.array([0.5, 2.0])) * (1 + np.arange(-8, 8)[:, None] * 2.0**-52),
    ],
    ids=["shares", "around one", "of all sizes", "powers of two", "ends of the range"],
)
def test_log_is_right_to_a_unit_in_the_last_place(x: np.ndarray[Any, Any]) -> None:
    x = x.ravel()
    exact = np.log(x.astype(np.longdouble))
    error = np.abs(logs_of(x) - exact)
    assert bool((error <= 2 * ROUNDING * np.abs(exact)).all())


def test_log_of_zero_and_of_what_is_not_normal() -> None:
    x = np.array([0.0, 5e-324, 1e-310, 2.2e-308, 1.0, 0.3])
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(logs_of(x), np.log(x), rtol=1e-15)


def test_what_is_no_count_shows() -> None:
    with np.errstate(invalid="ignore"):
        assert np.isnan(logs_of(np.array([0.5, np.nan, 0.0]), np.nan)).tolist() == [True] * 3
        assert np.isnan(logs_of(np.array([0.5, np.inf]), np.inf)).tolist() == [False, True]


def test_rows_are_divided_by_their_totals() -> None:
    x = np.array([1.0, 3.0, 5.0, 2.0, 0.0])
    for dtype in (np.float64, np.float32):
        out = np.empty(5, dtype)
        ends = np.array([0, 2, 3, 5])
        log_shares(x.astype(dtype), np.array([4.0, 5.0, 2.0], dtype), ends, 0, 3, out)
        np.testing.assert_allclose(np.exp(out), [0.25, 0.75, 1.0, 1.0, 0.0], rtol=1e-6)
        before = out.copy()
        log_shares(x.astype(dtype), np.array([8.0, 5.0, 2.0], dtype), ends, 1, 3, out)
        assert out.tolist() == before.tolist()  # the first row was not asked for


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_shares_of_rows_that_lie_across(dtype: Any) -> None:
    x = np.random.default_rng(0).random((203, 7)).astype(dtype)
    x[::3, 2], x[5, 1] = 0.0, 1e-40
    totals, out = x.sum(0), np.empty_like(x)
    log_shares_across(x, totals, out)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(out, np.log(x.astype(np.longdouble)) - np.log(totals), rtol=4 * np.finfo(dtype).eps)
    x[4, 3] = np.nan  # what is no count shows, in its row
    log_shares_across(x, x.sum(0), out)
    assert np.isnan(out).all(0).tolist() == [False, False, False, True, False, False, False]
    assert not np.isnan(out[:, [0, 1, 2, 4, 5, 6]]).any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_scaled_to_a_maximum_of_one(dtype: Any) -> None:
    x = (5 * np.random.default_rng(0).standard_normal((50, 7))).astype(dtype)
    x[3, :5], x[4], x[5, 1:] = -np.inf, -np.inf, -np.inf
    out, top, positive = np.empty_like(x), np.empty(50), np.empty(50, np.int64)
    scaled_rows(x, out, top, positive)
    assert top.tolist() == [0.0 if k == 4 else float(row.max()) for k, row in enumerate(x)]
    assert positive.tolist() == [{3: 2, 4: 0, 5: 1}.get(k, 7) for k in range(50)]
    exact = np.exp((x - top[:, None]).astype(np.longdouble))
    np.testing.assert_allclose(out, exact.astype(dtype), rtol=2 * np.finfo(dtype).eps)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_logs_of_probabilities(kind: Any) -> None:
    x = np.concatenate([np.random.default_rng(0).random(10_007) ** 20, [0.0, 1.0, 1e-40, 5e-324]]).astype(kind)
    out = np.empty(len(x))
    logs(x, out)
    with np.errstate(divide="ignore"):
        exact = np.log(x.astype(np.longdouble))
    assert out[x == 0].tolist() == [-np.inf] * int((x == 0).sum())
    there = x > 0
    assert float(np.abs(out[there] - exact[there]).max()) < 1e-12
    assert out[10_008] == 0
