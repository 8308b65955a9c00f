"""Segments by number: all substrings of a text, a given list, and what is not known."""

from __future__ import annotations

import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup import StructureError
from pyro_unsup.models.segment_types import Segments, SegmentTypes

SENTENCES = st.lists(st.text("abc", max_size=9), min_size=1, max_size=5).filter(any)


def flat(lines: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor(["abcdx".index(c) for c in "".join(lines)]).long(), torch.tensor([len(line) for line in lines])


def expected(lines: list[str], longest: int, number: dict[str, int]) -> list[list[int]]:
    """The number of the segment that ends at each symbol, by its length."""
    rows = []
    for line in lines:
        for end in range(1, len(line) + 1):
            pieces = [line[end - width : end] if width <= end else None for width in range(1, longest + 1)]
            rows.append([-1 if one is None else number.get(one, len(number)) for one in pieces])
    return rows


@settings(max_examples=100, deadline=None, derandomize=True)
@given(lines=SENTENCES, others=SENTENCES, longest=st.integers(1, 5))
def test_all_substrings(lines: list[str], others: list[str], longest: int) -> None:
    types, segments = SegmentTypes.of(*flat(lines), symbols=3, longest=longest)
    strings = types.strings("abc")
    cut = {line[i : i + w] for line in lines for i in range(len(line)) for w in range(1, longest + 1)}
    assert len(strings) == len(types) == len(set(strings))
    assert set(strings) == {one for one in cut if one}
    assert types.widths.tolist() == [len(one) for one in strings]
    number = {one: k for k, one in enumerate(strings)}
    assert segments.cells.tolist() == expected(lines, longest, number)
    assert types.find(*flat(lines), longest).cells.tolist() == segments.cells.tolist()
    assert types.find(*flat(others), longest).cells.tolist() == expected(others, longest, number)
    # Built again from what is saved, it is the same.
    again = SegmentTypes(3, types.nodes.clone(), types.chosen.clone())
    assert again.find(*flat(others), longest).cells.tolist() == expected(others, longest, number)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(lexicon=st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=6), lines=SENTENCES)
def test_a_given_list(lexicon: list[str], lines: list[str]) -> None:
    types = SegmentTypes.listed([["abc".index(c) for c in one] for one in lexicon], symbols=3)
    strings = types.strings("abc")
    assert sorted(strings) == sorted(set(lexicon))
    assert types.widths.tolist() == [len(one) for one in strings]
    number = {one: k for k, one in enumerate(strings)}
    longest = max(map(len, lexicon))
    assert types.find(*flat(lines), longest).cells.tolist() == expected(lines, longest, number)
    assert types.find(*flat(lines), longest + 2).cells.tolist() == expected(lines, longest + 2, number)
    again = pickle.loads(pickle.dumps(types))
    assert again.find(*flat(lines), longest).cells.tolist() == expected(lines, longest, number)


def test_numbered_as_they_first_occur() -> None:
    """So that what one sentence uses lies close together in memory."""
    types, _ = SegmentTypes.of(*flat(["ba", "ab"]), symbols=3, longest=2)
    assert types.strings("abc") == ["b", "ba", "a", "ab"]
    assert types.strings(["ah", "buh", "cuh"], between="-") == ["buh", "buh-ah", "ah", "ah-buh"]


def test_symbols_beyond_the_last_are_in_nothing_known() -> None:
    types, _ = SegmentTypes.of(*flat(["abcab"]), symbols=3, longest=2)
    number = {one: k for k, one in enumerate(types.strings("abc"))}
    assert types.find(*flat(["abxab", "x"]), 2).cells.tolist() == expected(["abxab", "x"], 2, number)


def test_a_table_that_grows_many_times() -> None:
    words = torch.randint(50, (20_000,), generator=torch.Generator().manual_seed(0))
    types, segments = SegmentTypes.of(words, torch.tensor([20_000]), symbols=50, longest=3)
    assert len(types) == len({tuple(words[i : i + w].tolist()) for w in (1, 2, 3) for i in range(20_001 - w)})
    assert torch.equal(types.find(words, torch.tensor([20_000]), 3).cells, segments.cells)


def test_select() -> None:
    lines = ["abc", "", "ca", "b"]
    _, segments = SegmentTypes.of(*flat(lines), symbols=3, longest=2)
    assert len(segments) == 4
    some = segments.select([3, 0, 1, 0])
    pieces = segments.cells.split([3, 0, 2, 1])
    assert some.lengths.tolist() == [1, 3, 0, 3]
    assert torch.equal(some.cells, torch.cat([pieces[3], pieces[0], pieces[0]]))
    masked = segments.select(torch.tensor([True, False, True, False]))
    assert torch.equal(masked.cells, torch.cat([pieces[0], pieces[2]]))
    assert len(segments.select([])) == 0
    assert isinstance(masked, Segments)


def test_errors() -> None:
    good, _ = SegmentTypes.of(*flat(["ab"]), symbols=3, longest=2)
    nodes = good.nodes
    for bad, chosen, message in (
        (nodes[:, :1], None, "nodes should be pairs of int64, shape (n, 2), actual (3, 1), torch.int64"),
        (nodes.int(), None, "actual (3, 2), torch.int32"),
        (nodes + torch.tensor([0, 3]), None, "nodes should name symbols 0 .. 2, actual range 3 .. 4"),
        (nodes[[1, 0, 2]], None, "nodes should go on from -1 or from an earlier node, found one that does not"),
        (torch.cat([nodes, nodes[:1]]), None, "nodes must be all different, found [-1, 0] twice"),
        (nodes, torch.tensor([0, 3]), "the nodes that are segments should be among the 3, each once"),
        (nodes, torch.tensor([0, 0]), "the nodes that are segments should be among the 3, each once"),
        (nodes, torch.tensor([0.5]), "the nodes that are segments should be a vector of int64, at least one"),
    ):
        with pytest.raises(StructureError) as error:
            SegmentTypes(3, bad, chosen)
        assert message in str(error.value)
    for lexicon in ([], [[0], []]):
        with pytest.raises(StructureError, match="a lexicon needs at least one segment, and each at least one symbol"):
            SegmentTypes.listed(lexicon, 3)
    with pytest.raises(StructureError, match=r"symbols must lie in 0 .. 2, actual range 0 .. 3"):
        SegmentTypes.listed([[0, 3]], 3)
