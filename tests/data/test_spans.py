"""Rows of brackets, against loops over pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data import Corpus, Vocab, bracket_rows, toy
from pyro_unsup.data.spans import check_nested, crosses, tidy_rows
from pyro_unsup.errors import InputError

Span = tuple[int, int, int]
LENGTHS = (4, 1, 9, 2, 3)


@st.composite
def rows(draw: st.DrawFn) -> list[Span]:
    def one(b: int) -> st.SearchStrategy[Span]:
        ends = st.lists(st.integers(0, LENGTHS[b]), min_size=2, max_size=2, unique=True)
        return ends.map(lambda pair: (b, min(pair), max(pair)))

    return draw(st.lists(st.sampled_from(range(len(LENGTHS))).flatmap(one), max_size=25))


def cross(one: Span, other: Span) -> bool:
    (b, i, j), (c, k, m) = one, other
    return b == c and (i < k < j < m or k < i < m < j)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(some=rows(), others=rows())
def test_crossing_is_that_of_all_pairs(some: list[Span], others: list[Span]) -> None:
    lengths = np.array(LENGTHS)
    wide = sorted({row for row in some if row[2] - row[1] > 1})
    ours, theirs = (tidy_rows(x, lengths, "some") for x in (some, others))
    assert [tuple(row) for row in ours.tolist()] == wide
    assert crosses(ours, theirs, lengths).tolist() == [any(cross(one, other) for other in others) for one in wide]
    crossed = [(one, other) for one in wide for other in wide if cross(one, other)]
    if crossed:
        with pytest.raises(InputError, match=r"^some: the spans \(\d, \d\) and \(\d, \d\) of sentence \d cross"):
            check_nested(ours, lengths, "some")
    else:
        check_nested(ours, lengths, "some")


def test_rows_of_a_corpus() -> None:
    corpus = toy.sentences(50, seed=3)
    found = [[] for _ in range(len(corpus))]
    for b, i, j in bracket_rows(corpus).tolist():
        found[b].append([i, j])
    assert corpus.spans is not None
    assert corpus.span_offsets is not None
    assert found == [
        corpus.spans[a:b].tolist() for a, b in zip(corpus.span_offsets[:-1], corpus.span_offsets[1:], strict=True)
    ]
    with pytest.raises(InputError, match="this corpus has no brackets; read it from a treebank"):
        bracket_rows(Corpus([0], [0, 1], Vocab(["a"])))


def test_tensors_lists_and_nothing() -> None:
    lengths = np.array([3, 2])
    wanted = [[0, 0, 3], [0, 1, 3]]
    for given_ in (wanted[::-1], torch.tensor(wanted + wanted + [[1, 0, 1]]), np.array(wanted, np.int32)):
        assert tidy_rows(given_, lengths, "some").tolist() == wanted
    for empty in ([], np.empty((0, 3), np.int64), torch.empty(0, 3)):
        assert tidy_rows(empty, lengths, "some").shape == (0, 3)
        assert crosses(tidy_rows(empty, lengths, "some"), np.array(wanted), lengths).shape == (0,)
        assert not crosses(np.array(wanted), tidy_rows(empty, lengths, "some"), lengths).any()


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([[0, 1, 4]], r"some: the span \(1, 4\) does not lie in sentence 0 \(3 words\)"),
        ([[0, 0, 2], [1, 2, 2]], r"some: the span \(2, 2\) does not lie in sentence 1 \(2 words\)"),
        ([[0, -1, 2]], r"some: the span \(-1, 2\) does not lie in sentence 0 \(3 words\)"),
        ([[2, 0, 2]], r"some: the span \(0, 2\) does not lie in sentence 2 \(not among the 2 sentences\)"),
        ([[0, 2]], r"some: expected integers of shape \(brackets, 3\).*found int64 of shape \(1, 2\)"),
        ([[0.0, 0.0, 2.0]], r"some: expected integers of shape .* found float64 of shape \(1, 3\)"),
    ],
)
def test_what_does_not_fit_is_named(bad: list[list[int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        tidy_rows(bad, np.array([3, 2]), "some")


def test_long_sentences_take_little_memory() -> None:
    n = 200_000
    lengths = np.array([n])
    every = np.column_stack((np.zeros(n - 1, int), np.arange(n - 1), np.full(n - 1, n)))
    assert not crosses(every, every, lengths).any()
    assert crosses(np.array([[0, 0, n - 1]]), every, lengths).all()
