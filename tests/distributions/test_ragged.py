"""Flat and padded batches are two pictures of the same thing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.distributions.ragged import Rows, check_lengths, flatten, offsets_of, pad, valid
from pyro_unsup.errors import StructureError


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.sampled_from([(), (2,), (3, 2)]), st.integers(0, 3))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_padding_and_flattening_are_inverse(lengths: list[int], rest: tuple[int, ...], extra: int) -> None:
    n = torch.tensor(lengths)
    flat = torch.randn(sum(lengths), *rest)
    padded = pad(flat, n, fill=-7, time=max(lengths) + extra)
    assert padded.shape == (len(lengths), max(lengths) + extra, *rest)
    for sequence, length, part in zip(padded, lengths, flat.split(lengths), strict=True):
        assert torch.equal(sequence[:length], part)
        assert (sequence[length:] == -7).all()
    assert torch.equal(flatten(padded, n), flat)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=6),
    st.sampled_from([(), (2,), (3, 2)]),
    st.sampled_from([(), (2,), (2, 1)]),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_rows_pad_flatten_and_sum(lengths: list[int], rest: tuple[int, ...], lead: tuple[int, ...]) -> None:
    rows, axis = Rows(torch.tensor(lengths)), len(lead)
    assert (len(rows), rows.size, rows.longest) == (len(lengths), sum(lengths), max(1, *lengths, 1))
    flat = torch.randn(*lead, sum(lengths), *rest)
    padded = rows.pad(flat, axis, -7.0)
    assert padded.shape == (*lead, len(lengths), rows.longest, *rest)
    pieces = flat.split(lengths, axis)
    for b, (length, piece) in enumerate(zip(lengths, pieces, strict=True)):
        here = padded.select(axis, b)
        assert torch.equal(here.narrow(axis, 0, length), piece)
        assert (here.narrow(axis, length, rows.longest - length) == -7).all()
        assert rows.owner.tolist().count(b) == length
    assert torch.equal(rows.flatten(padded, axis), flat)
    assert rows.position.tolist() == [t for n in lengths for t in range(n)]
    expected = torch.stack([piece.flatten(axis).sum(-1) for piece in pieces], -1)
    torch.testing.assert_close(rows.sum(flat, axis), expected)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.data())
@settings(derandomize=True, deadline=None, max_examples=60)
def test_the_rows_of_some_examples_come_in_their_order(lengths: list[int], data: st.DataObject) -> None:
    rows = Rows(torch.tensor(lengths))
    some = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=8))  # any order, and again
    pieces = torch.arange(sum(lengths)).split(lengths)
    expected = [int(row) for b in some for row in pieces[b]]
    assert rows.select(torch.tensor(some, dtype=torch.long)).tolist() == expected


def test_what_is_made_from_rows_is_made_once() -> None:
    made = []

    class Cells:
        def __init__(self, rows: Rows) -> None:
            made.append(rows)

    rows = Rows(torch.tensor([1, 2]))
    assert rows.known(Cells) is rows.known(Cells)
    assert made == [rows]


def test_no_rows() -> None:
    for rows in (Rows(torch.tensor([0, 0])), Rows(torch.zeros(0, dtype=torch.long))):
        assert (rows.size, rows.longest) == (0, 1)
        assert rows.pad(torch.zeros(0, 3), 0).shape == (len(rows), 1, 3)
        assert rows.flatten(torch.zeros(len(rows), 1, 3), 0).shape == (0, 3)
        assert rows.sum(torch.zeros(0, 3), 0).tolist() == [0] * len(rows)


def test_offsets_are_the_ends() -> None:
    assert offsets_of(torch.tensor([3, 0, 2])).tolist() == [0, 3, 3, 5]
    assert offsets_of(torch.zeros(0, dtype=torch.long)).tolist() == [0]


def test_valid_marks_what_exists() -> None:
    assert valid(torch.tensor([[1, 3], [0, 2]]), 3).long().tolist() == [[[1, 0, 0], [1, 1, 1]], [[0, 0, 0], [1, 1, 0]]]


def test_gradients_pass_through_both_ways() -> None:
    lengths = torch.tensor([2, 0, 3])
    flat = torch.randn(5, requires_grad=True)
    scale = torch.arange(9.0).reshape(3, 3)
    (grad,) = torch.autograd.grad((pad(flat, lengths) * scale).sum(), flat)
    assert grad.tolist() == [0, 1, 6, 7, 8]


def test_integers_keep_their_dtype() -> None:
    assert pad(torch.tensor([4, 5], dtype=torch.int32), torch.tensor([2]), fill=-1, time=3).tolist() == [[4, 5, -1]]
    assert pad(torch.tensor([4], dtype=torch.int32), torch.tensor([1])).dtype == torch.int32


@pytest.mark.parametrize(
    ("lengths", "limit", "message"),
    [
        ([1.0, 2.0], None, "lengths must be integers, actual dtype = torch.float64"),
        ([True, False], None, "lengths must be integers, actual dtype = torch.bool"),
        ([1, -2], None, "lengths must not be negative, actual smallest = -2"),
        ([1, 4], 3, "a length of 4 exceeds the 3 positions given"),
    ],
)
def test_impossible_lengths_are_refused(lengths: Any, limit: int | None, message: str) -> None:
    with pytest.raises(StructureError, match=message):
        check_lengths(torch.tensor(lengths), limit)


def test_possible_lengths_become_int64() -> None:
    assert check_lengths(torch.tensor([0, 3], dtype=torch.int32), 3).dtype == torch.long
    assert check_lengths([2, 1]).tolist() == [2, 1]  # type: ignore[arg-type]
    assert check_lengths(torch.zeros(0, dtype=torch.long), 0).numel() == 0
