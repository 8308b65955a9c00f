"""Alignments by jumps beyond the contract: longer sentences, far jumps, threads, jumps that add up to one, errors."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from pyro_unsup import StructureError
from pyro_unsup.distributions import AlignmentHMM
from pyro_unsup.distributions.alignment.grid import Grid
from pyro_unsup.distributions.alignment.jumps import again, directions, jumps_to_the_end, jumps_within, rooms
from pyro_unsup.distributions.semiring import MAX

from .test_alignment import by_word, text

WAYS = pytest.mark.parametrize("turned", [False, True])


def instance(
    turned: bool, reach: int = 5, pairs: int = 12, longest: int = 16, seed: int = 0, order: int = 1, classes: int = 1
) -> tuple:
    grid, value = text(pairs, longest, 40, seed)
    g = torch.Generator().manual_seed(seed + 1)
    inner = classes * directions(order)
    weights = {
        "jump": torch.randn(inner + 2, 2 * reach + 1, generator=g),
        "room": torch.randn(rooms(reach, inner), generator=g),
        "share": torch.randn(longest + 1, generator=g),
        "null": torch.randn(pairs, generator=g),
        "word": torch.randn(pairs, generator=g),
    }
    words = torch.randint(classes, (int(grid.chosen(turned).sum()),), generator=g)
    table = 2 * torch.randn(40, generator=g)
    return AlignmentHMM(table, grid, **weights, turned=turned, classes=words, order=order), value


def gradients(dist: AlignmentHMM, value: Tensor, by_reference: bool, scale: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    leaves = {name: w.detach().clone().requires_grad_() for name, w in dist.weights.items()}
    new = dist.with_weights(leaves)
    total = new.defined(value) if by_reference else new.log_prob(value)
    return total.detach(), dict(zip(leaves, torch.autograd.grad(total, list(leaves.values()), scale), strict=True))


@WAYS
@pytest.mark.parametrize(
    ("reach", "order", "classes"), [(1, 1, 1), (3, 1, 3), (5, 1, 1), (20, 1, 1), (1, 2, 1), (5, 2, 3)]
)
def test_the_kernel_against_the_definition(turned: bool, reach: int, order: int, classes: int) -> None:
    dist, value = instance(turned, reach, order=order, classes=classes)
    for scale in (torch.ones(12), torch.full((12,), 0.5), torch.arange(12.0) - 3):
        (log_z, counts), (expected, grads) = (gradients(dist, value, way, scale) for way in (False, True))
        torch.testing.assert_close(log_z, expected, rtol=1e-12, atol=1e-12)
        for name in counts:
            torch.testing.assert_close(counts[name], grads[name], rtol=1e-9, atol=1e-9)


@WAYS
def test_threads_and_the_order_of_rows_change_nothing(turned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_unsup.kernels.threads.TOKENS_A_THREAD", 5)
    monkeypatch.setattr("pyro_unsup.kernels.alignment.rows.RUN", 200)
    grid, value = text(60, 9, 50)
    found = {}
    for shards, threads in itertools.product((1, 4), (1, 2)):
        mixed, cells = by_word(grid, value, 50, shards)
        g = torch.Generator().manual_seed(2)
        table, jump = (torch.randn(n, generator=g).requires_grad_() for n in ((400,), (3, 11)))
        torch.set_num_threads(threads)
        total = AlignmentHMM(table, mixed, jump, turned=turned).log_prob(cells)
        found[shards, threads] = (total.detach(), *torch.autograd.grad(total.sum(), [table, jump]))
        drawn = AlignmentHMM(table, mixed, jump, turned=turned).posterior(cells)
        assert len(drawn.mode()) == len(cells)
    torch.set_num_threads(1)
    for shards in (1, 4):
        assert all(torch.equal(a, b) for a, b in zip(found[shards, 1], found[shards, 2], strict=True))
    for one, four in zip(found[1, 1], found[4, 1], strict=True):
        torch.testing.assert_close(one, four, rtol=1e-12, atol=1e-12)


@WAYS
@pytest.mark.parametrize("order", [1, 2])
def test_sharp_weights_are_done_in_logs(turned: bool, order: int) -> None:
    """Two good links that only a jump of next to no weight goes between, and a table too wide for real numbers."""
    dist, value = instance(turned, order=order, classes=order)
    for change in ({name: 900 * dist.weights[name]} for name in ("jump", "translation", "null")):
        sharp = dist.with_weights(change)
        (log_z, counts), (expected, grads) = (gradients(sharp, value, way, torch.ones(12)) for way in (False, True))
        torch.testing.assert_close(log_z, expected, rtol=1e-12, atol=1e-9)
        for name in counts:
            torch.testing.assert_close(counts[name], grads[name], rtol=1e-9, atol=1e-9)
        best = sharp.posterior(value).mode()
        top = sharp.sum_over(sharp.potentials_of(value), MAX)
        torch.testing.assert_close(sharp.score(value, best), top, rtol=1e-12, atol=1e-9)


def test_long_sentences_in_both_precisions() -> None:
    grid = Grid(torch.tensor([300]), torch.tensor([400]))
    value = torch.randint(50, (grid.cells,), generator=torch.Generator().manual_seed(0))
    table = -5 * torch.rand(50, generator=torch.Generator().manual_seed(1))
    jump = torch.log_softmax(-(torch.arange(-5.0, 6) - 1).abs(), 0).expand(3, 11)
    found = [
        AlignmentHMM(*(x.to(dtype) for x in (table,)), grid, jump.to(dtype)).log_prob(value)
        for dtype in (torch.float64, torch.float32)
    ]
    assert torch.isfinite(found[0]).all()
    torch.testing.assert_close(found[0].float(), found[1], rtol=2e-5, atol=0)


@pytest.mark.parametrize(("reach", "inner"), [(1, 1), (2, 3), (5, 1), (5, 8)])
def test_jumps_that_are_drawn_again_add_up_to_one(reach: int, inner: int) -> None:
    offsets = torch.arange(-reach, reach + 1)
    g = torch.Generator().manual_seed(0)
    jump = torch.randn(inner + 2, len(offsets), generator=g)
    jump[[0, -1]] = jump[[0, -1]].masked_fill(offsets <= 0, -torch.inf)
    jump = jump.log_softmax(-1)
    sizes = torch.arange(1, 15)
    share = -torch.arange(1.0, 20).log()
    weights = jump[None], again(jump)[None], share[None]
    kinds = torch.randint(inner, (len(sizes), 2, 15), generator=g)
    within = jumps_within(sizes, reach, 14, kinds, inner).logs(*weights)  # (sizes, ways, from, to)
    for size, tables in zip(sizes.tolist(), within, strict=True):
        torch.testing.assert_close(tables[:, : size + 1].exp().sum(-1), torch.ones(2, size + 1))
        assert bool((tables[:, size + 1 :] == -torch.inf).all())
    ends = jumps_to_the_end(sizes, reach, 14, inner).logs(*weights)
    torch.testing.assert_close(ends.exp().sum(-1), torch.ones(len(sizes)))


def test_what_is_drawn_in_vain_counts() -> None:
    """In the middle of three words: a jump of two to either side would leave, and is drawn again."""
    p = torch.tensor([0.05, 0.1, 0.15, 0.4, 0.3])  # -2 or less .. 2 or more
    jump = p.log().expand(3, 5).clone().requires_grad_()
    room = again(jump)
    number = 1 * 3 + 1  # a word on either side
    assert room[number].item() == pytest.approx(-math.log(0.1 + 0.15 + 0.4))
    grad = torch.autograd.grad(room[number], jump)[0]
    expected = torch.zeros(3, 5)
    expected[1] = torch.tensor([0.05, 0.0, 0.0, 0.0, 0.3]) / 0.65
    torch.testing.assert_close(grad, expected)
    # As variational Bayes has them, weights may add up to less than one; what is missing is drawn by nobody.
    less = (0.8 * p).log().expand(3, 5)
    assert float(again(less)[number]) == pytest.approx(-math.log(1 - 0.8 * 0.35))
    # Rounding is no chance to leave, and a word that has nowhere to go stays without weight.
    tiny = torch.tensor([0.0, 0.0, 1e-30, 1.0, 0.0]).log().expand(3, 5)
    assert float(again(tiny)[0]) == pytest.approx(-math.log(1e-30))
    none = torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0]).log().expand(3, 5).clone().requires_grad_()
    assert again(none)[0].item() == 0.0
    assert torch.isfinite(torch.autograd.grad(again(none).sum(), none)[0]).all()


def test_without_room_weights_are_left_alone() -> None:
    grid = Grid(torch.tensor([2]), torch.tensor([1]))
    value = torch.zeros(grid.cells, dtype=torch.int32)
    jump = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    w = jump.exp()
    dist = AlignmentHMM(torch.zeros(1), grid, jump)
    # No link, or a link to the first or the second of two words; then to the end.
    far, near = w[2, 4] / 2, w[2, 3]  # places 0 and 1 are far from the end, place 2 is next to it
    expected = far + w[0, 3] * far + w[0, 4] * near
    assert float(dist.log_prob(value).exp()) == pytest.approx(float(expected))


def test_one_kind_is_as_many_kinds_that_are_alike() -> None:
    """Neither the class of a word nor the jump before matters where all kinds have the same weights."""
    dist, value = instance(False)
    words = torch.arange(int(dist.grid.chosen(False).sum())) % 3
    first, inner, end = dist.weights["jump"].split([1, 1, 1])
    within, rest = dist.weights["room"].split([36, 10])
    for order, classes in ((1, 3), (2, 1), (2, 3)):
        many = classes * directions(order)
        jump, room = torch.cat([first, inner.expand(many, -1), end]), torch.cat([within.repeat(many), rest])
        others = {name: dist.weights[name] for name in ("share", "null", "word")}
        same = AlignmentHMM(
            dist.weights["translation"], dist.grid, jump, room, **others, classes=words % classes, order=order
        )
        torch.testing.assert_close(same.log_prob(value), dist.log_prob(value), rtol=1e-12, atol=1e-12)
        one, other = dist.posterior(value), same.posterior(value)
        torch.testing.assert_close(other.marginals, one.marginals, rtol=1e-9, atol=1e-12)
        assert torch.equal(other.mode(), one.mode())
        some = torch.tensor([7, 2, 11])
        few, cells = same.select(value, some)
        torch.testing.assert_close(few.log_prob(cells), dist.log_prob(value)[some])


def test_some_pairs_keep_the_classes_of_their_words() -> None:
    for turned in (False, True):
        dist, value = instance(turned, order=2, classes=3)
        some = torch.tensor([7, 2, 11])
        few, cells = dist.select(value, some)
        torch.testing.assert_close(few.log_prob(cells), dist.log_prob(value)[some])
        torch.testing.assert_close(few.defined(cells), dist.log_prob(value)[some])


def test_a_batch_of_tables() -> None:
    """As vectorised particles bring them along: one set of tables a particle, shared by all pairs."""
    grid, value = text(5, 4, 20)
    g = torch.Generator().manual_seed(0)
    tables, jumps, null = torch.randn(3, 1, 20, generator=g), torch.randn(3, 1, 3, 11, generator=g), torch.randn(3, 5)
    many = AlignmentHMM(tables, grid, jumps, again(jumps.log_softmax(-1)), null=null)
    assert many.batch_shape == (3, 5)
    assert many.log_prob(value).shape == (3, 5)
    for k in range(3):
        one = AlignmentHMM(tables[k, 0], grid, jumps[k, 0], again(jumps[k, 0].log_softmax(-1)), null=null[k])
        torch.testing.assert_close(one.log_prob(value), many.log_prob(value)[k])


def test_most_probable_links_word_by_word() -> None:
    """The best alignment as a whole need not have the best link of each word."""
    dist, value = instance(False, 2, 1, 6)
    posterior = dist.posterior(value)
    chosen = posterior.mbr().bool()
    height, width = int(dist.grid.source_lengths[0]), int(dist.grid.target_lengths[0])
    p, links = (x.reshape(height + 1, width + 1)[:, 1:] for x in (posterior.marginals, chosen))
    assert torch.equal(links.float().argmax(0), p.argmax(0))
    assert links.sum() == width
    dead = dist.with_weights({"translation": torch.full((40,), -torch.inf)}).posterior(value)
    assert bool((dead.mbr() == -1).all())


def test_errors_say_what_was_expected() -> None:
    grid = Grid(torch.tensor([2]), torch.tensor([1]))
    good, jump = torch.zeros(6, dtype=torch.int32), torch.zeros(3, 11)
    dist = AlignmentHMM(torch.zeros(3), grid, jump)
    with pytest.raises(StructureError, match=r"jump should have shape \(kinds, 2 W \+ 1\).*actual \(3, 10\)"):
        AlignmentHMM(torch.zeros(3), grid, jump[:, :10])
    with pytest.raises(StructureError, match="order must be 1, or 2 for jumps that depend on the jump before"):
        AlignmentHMM(torch.zeros(3), grid, jump, order=3)
    with pytest.raises(StructureError, match=r"should have 4 kinds from link to link for each class, actual 1 such"):
        AlignmentHMM(torch.zeros(3), grid, jump, order=2)
    with pytest.raises(StructureError, match=r"jumps of 2 classes .* the class of each of the 2 words .*, actual none"):
        AlignmentHMM(torch.zeros(3), grid, torch.zeros(4, 11))
    with pytest.raises(StructureError, match=r"each of the 2 words that may be chosen, actual \(3,\) torch.int64"):
        AlignmentHMM(torch.zeros(3), grid, torch.zeros(4, 11), classes=torch.zeros(3, dtype=torch.long))
    with pytest.raises(StructureError, match=r"classes must lie in 0 .. 1 .*, actual range 0 .. 2"):
        AlignmentHMM(torch.zeros(3), grid, torch.zeros(4, 11), classes=torch.tensor([0, 2]))
    with pytest.raises(StructureError, match=r"room should end in shape \(46\).*actual shape \(45,\)"):
        AlignmentHMM(torch.zeros(3), grid, jump, torch.zeros(45))
    with pytest.raises(StructureError, match=r"sentences of 2 words, so share should have 3 log-weights at least"):
        AlignmentHMM(torch.zeros(3), grid, jump, share=torch.zeros(2))
    with pytest.raises(
        StructureError, match=r"last batch axis of the weights should be 1.*actual batch of weights \(2,\)"
    ):
        AlignmentHMM(torch.zeros(3), grid, torch.zeros(2, 3, 11))
    with pytest.raises(StructureError, match=r"one floating dtype: translation has torch\.float64, jump has torch\.fl"):
        AlignmentHMM(torch.zeros(3), grid, jump.float()).log_prob(good)
    with pytest.raises(StructureError, match="room holds NaN"):
        AlignmentHMM(torch.zeros(3), grid, jump, torch.full((46,), torch.nan)).log_prob(good)
    with pytest.raises(StructureError, match=r"cells must lie in 0 .. 2 \(the table has 3\), actual range 0 .. 3"):
        dist.log_prob(good + torch.tensor([0, 0, 0, 0, 0, 3], dtype=torch.int32))
    with pytest.raises(StructureError, match="expected one 1 among the choices of each, actual 0 for word 0 of pair 0"):
        dist.score(good, good)
    with pytest.raises(StructureError, match="one number for each of the 6 cells"):
        dist.score(good, good[:3])
    with pytest.raises(StructureError, match="an alignment cannot draw words"):
        dist.sample()


def test_no_pairs_at_all() -> None:
    grid = Grid(torch.zeros(0, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    table = torch.zeros(3, requires_grad=True)
    total = AlignmentHMM(table, grid, torch.zeros(3, 11)).log_prob(torch.zeros(0, dtype=torch.int32))
    assert total.shape == (0,)
    assert np.array_equal(torch.autograd.grad(total.sum(), table)[0], np.zeros(3))
