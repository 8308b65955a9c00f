"""Sums over ragged rows, against a loop over rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from pyro_unsup.distributions.segments import row_index, segment_log_softmax, segment_logsumexp, segment_sum

LENGTHS = torch.tensor([3, 1, 2])
ROWS = row_index(LENGTHS)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=7), st.sampled_from([(), (2,), (2, 3)]), st.integers(0, 99))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_rows_equal_a_loop(lengths: list[int], batch: tuple[int, ...], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = 10 * torch.randn(*batch, sum(lengths), generator=generator, dtype=torch.float64)
    x[torch.rand(x.shape, generator=generator) < 0.3] = -torch.inf
    rows = row_index(torch.tensor(lengths))
    parts = x.split(lengths, -1)
    torch.testing.assert_close(
        segment_sum(x.exp(), rows, len(lengths)), torch.stack([p.exp().sum(-1) for p in parts], -1)
    )
    expected = torch.stack([p.exp().sum(-1).log() for p in parts], -1)
    torch.testing.assert_close(segment_logsumexp(x, rows, len(lengths)), expected)


def test_row_index_counts_off_the_rows() -> None:
    assert ROWS.tolist() == [0, 0, 0, 1, 2, 2]
    assert row_index(torch.tensor([0, 2, 0])).tolist() == [1, 1]


def test_log_softmax_is_the_dense_one_row_by_row() -> None:
    x = torch.randn(4, 6)
    expected = torch.cat([part.log_softmax(-1) for part in x.split(LENGTHS.tolist(), -1)], -1)
    torch.testing.assert_close(segment_log_softmax(x, ROWS, 3), expected)


@pytest.mark.parametrize("shift", [0.0, 1e4, -1e4])
def test_large_logits_neither_overflow_nor_underflow(shift: float) -> None:
    x = torch.randn(6)
    torch.testing.assert_close(segment_logsumexp(x + shift, ROWS, 3), segment_logsumexp(x, ROWS, 3) + shift)
    wide = torch.tensor([0.0, -5000.0, 700.0, 9.0, -1e300, 1e300])
    assert segment_logsumexp(wide, ROWS, 3).tolist() == [700.0, 9.0, 1e300]


def test_gradients_of_first_and_second_order() -> None:
    x = torch.randn(2, 6, requires_grad=True)
    for f in (segment_sum, segment_logsumexp, segment_log_softmax):
        assert gradcheck(lambda x, f=f: f(x, ROWS, 3), (x,))
        assert gradgradcheck(lambda x, f=f: f(x, ROWS, 3), (x,))


def test_an_impossible_row_has_gradient_zero_and_leaves_others_alone() -> None:
    x = torch.tensor([-torch.inf, -torch.inf, -torch.inf, 0.5, -torch.inf, 1.0], requires_grad=True)
    total = segment_logsumexp(x, ROWS, 3)
    assert total.tolist() == [-torch.inf, 0.5, 1.0]
    (grad,) = torch.autograd.grad(total.sum(), x)
    assert grad.tolist() == [0, 0, 0, 1, 0, 1]


def test_nan_is_never_taken_for_impossible() -> None:
    x: Tensor = torch.tensor([torch.nan, 0.0, 0.0, 1.0, 2.0, 3.0])
    total = segment_logsumexp(x, ROWS, 3)
    assert total[0].isnan()
    assert total[1:].isfinite().all()
