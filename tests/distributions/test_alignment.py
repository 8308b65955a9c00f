"""Alignments beyond the contract: pairs of all shapes, threads, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from pyro_unsup import StructureError, kernels
from pyro_unsup.distributions import Alignment
from pyro_unsup.distributions.alignment.grid import Grid


def text(pairs: int, longest: int, cells: int, seed: int = 0) -> tuple[Grid, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (2, pairs), generator=g)
    grid = Grid(*lengths)
    return grid, torch.randint(cells, (grid.cells,), generator=g, dtype=torch.int32)


def by_word(grid: Grid, value: torch.Tensor, cells: int, shards: int) -> tuple[Grid, torch.Tensor]:
    """The same pairs with rows in the order of their words: cells of word w are those from w * cells on."""
    word = torch.randint(8, grid.pair.shape, generator=torch.Generator().manual_seed(1))
    row, _ = grid.parts()
    value = value + cells * word[row].int()
    order = torch.argsort(word, stable=True)
    at = torch.searchsorted(word[order], torch.arange(0, 9, 8 // shards))
    mixed = Grid(grid.source_lengths, grid.target_lengths, grid.pair[order], grid.place[order], at)
    where = torch.cat([torch.arange(int(grid.starts[k]), int(grid.starts[k + 1])) for k in order])
    return mixed, value[where]


@pytest.mark.parametrize("turned", [False, True])
def test_shards_and_threads_change_nothing(turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_unsup.kernels.threads.TOKENS_A_THREAD", 5)
    grid, value = text(60, 9, 50)
    found = {}
    for shards, threads in itertools.product((1, 4), (1, 2)):
        mixed, cells = by_word(grid, value, 50, shards)
        table = torch.randn(400, generator=torch.Generator().manual_seed(2)).requires_grad_()
        torch.set_num_threads(threads)
        total = Alignment(table, mixed, turned=turned).log_prob(cells)
        grad = torch.autograd.grad(total, table, torch.arange(60.0))[0]
        found[shards, threads] = (total.detach(), grad)
        torch.testing.assert_close(total, Alignment(table, mixed, turned=turned).defined(cells))
    torch.set_num_threads(1)
    for shards in (1, 4):
        assert all(torch.equal(a, b) for a, b in zip(found[shards, 1], found[shards, 2], strict=True))
    for one, four in zip(found[1, 1], found[4, 1], strict=True):
        torch.testing.assert_close(one, four, rtol=1e-13, atol=1e-13)


def test_some_pairs_of_many() -> None:
    grid, value = text(30, 6, 40)
    mixed, cells = by_word(grid, value, 40, 2)
    table = torch.randn(320)
    whole = Alignment(table, mixed).log_prob(cells)
    some = torch.tensor([7, 3, 29, 7])
    small, where = mixed.select(some)
    torch.testing.assert_close(Alignment(table, small).log_prob(cells[where]), whole[some])
    assert small.place.tolist() == [i for b in some for i in range(int(grid.source_lengths[b]) + 1)]


def test_sharp_weights_are_done_in_logs() -> None:
    """A table whose smallest weights underflow, and a pair that has no others."""
    grid = Grid(torch.tensor([1, 1]), torch.tensor([1, 1]))
    table = torch.tensor([0.0, -2000.0, -2001.0, -torch.inf]).requires_grad_()
    value = torch.tensor([3, 0, 3, 1, 3, 1, 3, 2])
    total = Alignment(table, grid).log_prob(value)
    assert total.tolist() == pytest.approx([0.0, -2000 + np.log1p(np.exp(-1.0))])
    grad = torch.autograd.grad(total.sum(), table)[0]
    p = 1 / (1 + np.exp(-1.0))
    assert grad.tolist() == pytest.approx([1.0, p, 1 - p, 0.0])


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("scale", [3.0, 30.0, 100.0, 250.0, 500.0, 706.0])
def test_long_sentences_of_rare_words(turned: bool, scale: float) -> None:
    """Products of small totals, in range one by one but not together, or not even one by one."""
    grid, value = text(6, 80, 60, seed=1)
    g = torch.Generator().manual_seed(0)
    table = torch.cat([torch.zeros(1), -scale - torch.randn(60, generator=g)]).requires_grad_()
    choice = torch.randn(2, 6, generator=g)
    dist = Alignment(table, grid, choice[0], choice[1], turned=turned)
    total = dist.log_prob(value + 1)
    expected = dist.defined(value + 1)
    torch.testing.assert_close(total, expected, rtol=1e-13, atol=1e-12)
    weigh = torch.randn(6, generator=g)
    grads = (torch.autograd.grad(x, table, weigh)[0] for x in (total, expected))
    torch.testing.assert_close(*grads, rtol=1e-11, atol=1e-11)


def test_counts_can_be_asked_for_twice() -> None:
    grid, value = text(5, 4, 20)
    table = torch.randn(20).requires_grad_()
    total = Alignment(table, grid).log_prob(value)
    first = torch.autograd.grad(total.sum(), table, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(total.sum(), table)[0], first)


def test_ties_go_to_the_null_word_then_to_the_first() -> None:
    grid = Grid(torch.tensor([2, 2]), torch.tensor([1, 1]))
    cells = torch.tensor([0, 0, 0, 1, 0, 1, 0, 2, 0, 1, 0, 1])
    dist = Alignment(torch.tensor([0.0, 0.0, -1.0]), grid)
    assert dist.posterior(cells).mode().reshape(2, 3, 2)[..., 1].tolist() == [[1, 0, 0], [0, 1, 0]]


def test_errors_say_what_was_expected() -> None:
    grid = Grid(torch.tensor([1]), torch.tensor([2]))
    dist = Alignment(torch.zeros(3), grid)
    good = torch.zeros(6, dtype=torch.int32)
    with pytest.raises(StructureError, match=r"cells of shape \(6,\), all examples end to end; actual shape \(5,\)"):
        dist.log_prob(good[:5])
    with pytest.raises(StructureError, match=r"cells must be integers, actual dtype torch\.float64"):
        dist.log_prob(good.double())
    with pytest.raises(StructureError, match=r"cells must lie in 0 .. 2 \(the table has 3\), actual range -1 .. 0"):
        dist.log_prob(good - torch.tensor([0, 0, 0, 0, 0, 1], dtype=torch.int32))
    with pytest.raises(StructureError, match="translation holds NaN"):
        Alignment(torch.tensor([torch.nan]), grid).log_prob(good)
    with pytest.raises(StructureError, match=r"null should end in shape \(1\).*actual shape \(2,\)"):
        Alignment(torch.zeros(3), grid, torch.zeros(2))
    with pytest.raises(StructureError, match=r"one floating dtype: translation has torch\.float64, word has torch\.fl"):
        Alignment(torch.zeros(3), grid, word=torch.zeros(1, dtype=torch.float32)).log_prob(good)
    with pytest.raises(StructureError, match="last batch axis of the weights should be 1"):
        Alignment(torch.zeros(2, 3), grid)
    with pytest.raises(StructureError, match="1 source sentences but 2 target sentences"):
        Grid(torch.tensor([1]), torch.tensor([1, 2]))
    with pytest.raises(StructureError, match="expected 2 rows with a pair and a place each"):
        Grid(torch.tensor([1]), torch.tensor([2]), torch.tensor([0]), torch.tensor([0]))
    with pytest.raises(StructureError, match="expected one 1 among the choices of each, actual 0 for word 0 of pair 0"):
        dist.score(good, good)
    with pytest.raises(StructureError, match="one number for each of the 6 cells"):
        dist.score(good, good[:3])
    with pytest.raises(StructureError, match="an alignment cannot draw words"):
        dist.sample()


def test_a_batch_of_tables() -> None:
    """As vectorised particles bring them along: one table a particle, shared by all pairs."""
    grid, value = text(5, 4, 20)
    tables = torch.randn(3, 1, 20)
    many = Alignment(tables, grid).log_prob(value)
    assert many.shape == (3, 5)
    for table, total in zip(tables, many, strict=True):
        torch.testing.assert_close(Alignment(table[0], grid).log_prob(value), total)


@pytest.mark.parametrize("turned", [False, True])
def test_every_query_takes_a_batch_of_weights(turned: bool) -> None:
    grid, value = text(5, 4, 20)
    tables, null = torch.randn(3, 1, 20), torch.randn(3, 5)
    many = Alignment(tables, grid, null, turned=turned).posterior(value)
    for k in range(3):
        one = Alignment(tables[k, 0], grid, null[k], turned=turned).posterior(value)
        torch.testing.assert_close(many.log_partition[k], one.log_partition)
        torch.testing.assert_close(many.marginals[k], one.marginals)
        torch.testing.assert_close(many.entropy[k], one.entropy)
        torch.testing.assert_close(many.counts["translation"][k, 0], one.counts["translation"])
        torch.testing.assert_close(many.counts["null"][k, 0], one.counts["null"])
        assert torch.equal(many.mode()[k], one.mode())
        assert torch.equal(many.mbr()[k], one.mbr())
    assert many.sample((2,)).shape == (2, 3, len(value))


@pytest.mark.parametrize("turned", [False, True])
def test_without_the_kernel(turned: bool) -> None:
    """The same numbers by the definition: any order of rows, one table a pair too."""
    grid, value = text(6, 5, 30)
    mixed, cells = by_word(grid, value, 30, 2)
    dist = Alignment(torch.randn(240), mixed, torch.randn(6), turned=turned)
    dist = dist.with_potentials(links=torch.randn(len(cells)))
    names = ("log_partition", "marginals", "entropy", "counts")
    found = {name: getattr(dist.posterior(cells), name) for name in names}
    best = [dist.posterior(cells).mode(), dist.posterior(cells).mbr()]
    with kernels.switched_off():
        for name in names:
            torch.testing.assert_close(getattr(dist.posterior(cells), name), found[name])
        q = dist.posterior(cells)
        assert torch.equal(best[0], q.mode())
        assert torch.equal(best[1], q.mbr())
        assert bool((dist.score(cells, q.sample()) > -torch.inf).all())
    some = torch.tensor([4, 0, 4])
    few, own = dist.select(cells, some)
    torch.testing.assert_close(few.log_prob(own), dist.log_prob(cells)[some])
    each = torch.randn(6, 240)
    alone = [Alignment(w, mixed, turned=turned).log_prob(cells)[b] for b, w in enumerate(each)]
    torch.testing.assert_close(Alignment(each, mixed, turned=turned).log_prob(cells), torch.stack(alone))


def test_potentials_that_do_not_fit() -> None:
    grid, value = text(2, 3, 5)
    with pytest.raises(
        StructureError, match=r"there are links of shape .*, which do not fit potentials of shape \(3,\)"
    ):
        Alignment(torch.zeros(5), grid).with_potentials(links=torch.zeros(3))
    table = torch.randn(5).requires_grad_()
    more = torch.tensor(0.5, requires_grad=True)
    total = Alignment(table, grid).with_potentials(links=more).log_prob(value)
    torch.testing.assert_close(total, Alignment(table, grid).log_prob(value) + 0.5 * grid.target_lengths)
    assert float(torch.autograd.grad(total.sum(), more)[0]) == pytest.approx(float(grid.target_lengths.sum()))
