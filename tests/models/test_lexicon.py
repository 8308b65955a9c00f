"""The lexicon: against sets of pairs of words, and grids filled by loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup import StructureError
from pyro_unsup.models.lexicon import Lexicon, join
from pyro_unsup.models.pairs import Pairs

Texts = list[tuple[list[int], list[int]]]

SOURCE, TARGET = 4, 5
sentences = st.lists(
    st.tuples(st.lists(st.integers(0, SOURCE - 1), max_size=4), st.lists(st.integers(0, TARGET - 1), max_size=4)),
    min_size=1,
    max_size=6,
)


def flat(texts: Texts) -> list[torch.Tensor]:
    """Words and lengths of the source side, then of the target side."""
    result = []
    for side in (0, 1):
        result.append(torch.tensor([w for pair in texts for w in pair[side]], dtype=torch.int32))
        result.append(torch.tensor([len(pair[side]) for pair in texts]))
    return result


def meetings(texts: Texts) -> list[tuple[int, int]]:
    return sorted({(e, f) for source, target in texts for e in source for f in target})


def grids(texts: Texts, known: list[tuple[int, int]]) -> list[list[int]]:
    """The cells of each pair, row by row, from the definition."""
    number = {pair: k for k, pair in enumerate(known)}
    result = []
    for source, target in texts:
        cells = []
        for e in [None, *source]:
            for f in [None, *target]:
                if e is None or f is None:
                    word, size = (f, TARGET) if e is None else (e, SOURCE)
                    cells.append(-1 if word is None or word >= size else len(known) + word)
                else:
                    cells.append(number.get((e, f), -1))
        result.append(cells)
    return result


def cells_of(pairs: Pairs, size: int) -> list[list[int]]:
    return [pairs.select([b]).cells.tolist() for b in range(size)]


@settings(max_examples=40, derandomize=True, deadline=None, database=None)
@given(sentences.filter(meetings), sentences)
def test_numbers_are_those_of_sorted_pairs(texts: Texts, more: Texts) -> None:
    lexicon = Lexicon.of(*flat(texts), SOURCE, TARGET)
    known = meetings(texts)
    rows = torch.repeat_interleave(lexicon.sizes).tolist()
    assert list(zip(rows, lexicon.met.tolist(), strict=True)) == known
    found = lexicon.find(*flat(texts))
    assert cells_of(found, len(texts)) == grids(texts, known)
    assert not found.unseen
    new = [([*s, SOURCE], [*t, TARGET]) for s, t in more]  # with a word on each side that is not known
    found = lexicon.find(*flat(new))
    assert found.unseen
    assert cells_of(found, len(new)) == grids(new, known)


@settings(max_examples=10, derandomize=True, deadline=None, database=None)
@given(sentences.filter(meetings), st.data())
def test_turned_tables_have_the_same_cells(texts: Texts, data: st.DataObject) -> None:
    lexicon = Lexicon.of(*flat(texts), SOURCE, TARGET)
    known = meetings(texts)
    sizes, place = lexicon.turned_sizes, lexicon.turned[: len(known)]
    by_target = sorted(known, key=lambda pair: pair[::-1])
    assert [by_target[k] for k in place.tolist()] == known
    assert sizes.tolist() == [sum(f == word for _, f in known) for word in range(TARGET)]
    table = torch.randn(len(known) + SOURCE).requires_grad_()
    turned = lexicon.from_turned(table)
    assert turned.tolist() == [*table[place.long()].tolist(), *table[len(known) :].tolist()]
    assert torch.autograd.gradcheck(lexicon.from_turned, table)
    assert torch.autograd.gradgradcheck(lexicon.from_turned, table)
    many = torch.stack([table, 2 * table])
    assert torch.equal(lexicon.from_turned(many)[1], 2 * turned)


def test_joined_tables_share_their_first_cells() -> None:
    one, other = torch.randn(7).requires_grad_(), torch.randn(9).requires_grad_()
    first, second = join(one, other, 5)
    assert torch.equal(first, torch.cat([one[:5] + other[:5], one[5:]]))
    assert torch.equal(second, torch.cat([one[:5] + other[:5], other[5:]]))
    assert torch.autograd.gradcheck(lambda x, y: join(x, y, 5), (one, other))
    assert torch.autograd.gradgradcheck(lambda x, y: join(x, y, 5), (one, other))
    only = torch.autograd.grad(join(one, other, 5)[0].sum(), [one, other])  # the second is not used
    assert only[0].tolist() == [1.0] * 7
    assert only[1].tolist() == [1.0] * 5 + [0.0] * 4
    many = join(torch.stack([one, 2 * one]), torch.stack([other, 2 * other]), 5)
    assert torch.equal(many[0][1], 2 * first)
    assert torch.equal(many[1][1], 2 * second)


def test_rows_go_by_words_in_shards_that_share_no_cell() -> None:
    rng = np.random.default_rng(0)
    lengths = [torch.from_numpy(rng.integers(1, 9, 200)) for _ in range(2)]
    words = [torch.from_numpy(rng.integers(0, 30, int(n.sum()))) for n in lengths]
    lexicon = Lexicon.of(words[0], lengths[0], words[1], lengths[1], 30, 30)
    pairs = lexicon.find(words[0], lengths[0], words[1], lengths[1])
    grid, cuts = pairs.grid, pairs.grid.cuts.tolist()
    assert len(cuts) == 5
    sizes = [int(grid.starts[b] - grid.starts[a]) for a, b in itertools.pairwise(cuts)]
    assert max(sizes) < 1.5 * min(sizes)
    row, column = grid.parts()
    shard = torch.searchsorted(grid.cuts, row, right=True)
    for mine in (column > 0, grid.place[row] > 0):  # the cells of one direction, and of the other
        both = set(zip(pairs.cells[mine].tolist(), shard[mine].tolist(), strict=True))
        assert len(both) == len({cell for cell, _ in both})
    assert pairs.cells.dtype == torch.int32
    some = pairs.select(np.array([3, 199, 3]))
    assert len(some) == 3
    assert some.cells.tolist() == [c for b in (3, 199, 3) for c in pairs.select([b]).cells.tolist()]


def test_errors_say_what_was_expected() -> None:
    words, lengths = torch.tensor([0, 1]), torch.tensor([2])
    with pytest.raises(StructureError, match=r"target words must lie in 0 .. 0, actual range 0 .. 1"):
        Lexicon.of(words, lengths, words, lengths, 2, 1)
    with pytest.raises(StructureError, match=r"the source lengths add up to 3, actual words \(2,\)"):
        Lexicon.of(words, torch.tensor([3]), words, lengths, 2, 2)
    with pytest.raises(StructureError, match="no two words meet"):
        Lexicon.of(words, torch.tensor([2, 0]), words, torch.tensor([0, 2]), 2, 2)
    good = Lexicon.of(words, lengths, words, lengths, 2, 2)
    assert repr(good) == "Lexicon(2 x 2 words, 4 pairs that meet)"
    with pytest.raises(StructureError, match="an int64 size for each of its 3 source words"):
        Lexicon(3, 2, good.sizes, good.met)
    with pytest.raises(StructureError, match="the sizes add up to 4, but 3 words are met"):
        Lexicon(2, 2, good.sizes, good.met[:3])
    for met in ([0, 1, 1, 0], [0, 1, 0, 2], [0, 0, 0, 1]):
        with pytest.raises(StructureError, match=r"should rise, within 0 .. 1"):
            Lexicon(2, 2, good.sizes, torch.tensor(met, dtype=torch.int32))


@settings(max_examples=30, derandomize=True, deadline=None, database=None)
@given(sentences.filter(meetings), sentences)
def test_a_few_pairs_have_numbers_of_their_own(texts: Texts, more: Texts) -> None:
    lexicon = Lexicon.of(*flat(texts), SOURCE, TARGET)
    for new in (texts[:2], [([*s, SOURCE], t) for s, t in more]):
        pairs = lexicon.find(*flat(new))
        few, links, targets, sources = lexicon.renumber(pairs)
        row, column = pairs.grid.parts()
        for edge, null in ((pairs.grid.place[row] == 0, targets), (column == 0, sources)):
            whole = torch.cat([links, null, torch.tensor([-1])])
            mine = edge | ((pairs.grid.place[row] > 0) & (column > 0))
            assert torch.equal(whole[few.cells[mine].long()], pairs.cells[mine].long())
            assert len(set(whole.tolist())) == len(whole)
        assert lexicon.renumber(pairs)[1].tolist() == links.tolist()  # it has tidied up
