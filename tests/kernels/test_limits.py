"""Kernels in real numbers against the definitions, on weights that are hundreds of nats apart.

An island is a set of structures that costs more than the smallest number to enter, and again to leave. In between it is
better than the road by more than numbers can hold. So it is lost both ways, though it outweighs all else.
"""

from __future__ import annotations

import numba
import pytest
import torch
from torch import Tensor

from pyro_unsup import Chain, kernels
from pyro_unsup.distributions import AlignmentHMM, Segmentation, SemiMarkov, Structure
from pyro_unsup.distributions.alignment.grid import Grid
from pyro_unsup.testing import Case

from ..distributions.cases import on_every_structure

#: Steps on the island.
STEPS = 40


def same_as_defined(dist: Structure, value: Tensor) -> None:
    """log Z without and with a gradient, and counts, by the kernel and by the definition."""
    with torch.no_grad():
        alone = dist.log_partition(value)
    found, expected = _sums(dist, value), None
    with kernels.switched_off():
        expected = _sums(dist, value)
    torch.testing.assert_close(alone, expected[0], rtol=1e-10, atol=1e-9)
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-8)


def _sums(dist: Structure, value: Tensor) -> list[Tensor]:
    leaves = {name: w.detach().clone().requires_grad_() for name, w in dist.weights.items()}
    log_z = dist.with_weights(leaves).log_partition(value)
    possible = log_z.masked_fill(log_z == -torch.inf, 0.0)
    counts = torch.autograd.grad(possible.sum(), list(leaves.values()), allow_unused=True, materialize_grads=True)
    return [log_z.detach(), *counts]


def impossible(*shape: int) -> Tensor:
    return torch.full(shape, -torch.inf, dtype=torch.float64)


def chain_island(order: int, sparse: bool) -> tuple[Chain, Tensor]:
    """States: the road, the island, its entry and its exit. Words: at the entry, between, at the exit."""
    transition, emission, start = impossible(4, 4), impossible(4, 3), impossible(4)
    start[0] = transition[0, 0] = transition[2, 1] = 0.0
    transition[0, 2] = transition[1, 1] = transition[1, 3] = -400.0
    emission[0] = torch.tensor([0.0, -500.0, 0.0])
    emission[1, 1], emission[2, 0], emission[3, 2] = 0.0, -400.0, -400.0
    if not sparse:  # all words are possible in all states
        emission = emission.clamp(min=-2000.0)
    words = torch.tensor([0, 0] + [1] * STEPS + [2])
    second = None if order == 1 else transition
    steps = transition if order == 1 else transition.expand(4, 4, 4).contiguous()
    return Chain(start, steps, emission, torch.tensor([len(words)]), second, flat=True), words


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("order", [1, 2])
def test_an_island_of_a_chain(order: int, sparse: bool) -> None:
    chain, words = chain_island(order, sparse)
    same_as_defined(chain, words)
    assert float(chain.log_prob(words)) == pytest.approx(-400.0 * (STEPS + 3))


@pytest.mark.parametrize("longest", [1, 2])
def test_an_island_of_stretches(longest: int) -> None:
    """The same, of a semi-Markov chain whose stretches have one word, or as well two."""
    chain, words = chain_island(1, True)
    w, duration = chain.weights, torch.zeros(4, longest, dtype=torch.float64)
    same_as_defined(SemiMarkov(w["start"], w["transition"], duration, w["emission"], chain.lengths), words)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="math.ldexp raises where compiled code overflows")
def test_an_island_of_segmentations() -> None:
    """The road has segments of two symbols, from the first on. The island begins and ends with a single symbol."""
    segments = torch.tensor([0.0, -250.0, -150.0, -400.0], dtype=torch.float64)  # gate, road, island, single symbol
    length = torch.tensor([0.0, -400.0, 0.0], dtype=torch.float64)
    n = 2 * STEPS
    value = torch.full((n, 2), -1)
    value[1::2, 1], value[2::2, 1] = 1, 2
    value[1, 1] = value[n - 1, 1] = 0
    value[0, 0] = value[n - 1, 0] = 3
    dist = Segmentation(segments, length, torch.zeros(2, dtype=torch.float64), torch.tensor([n]))
    same_as_defined(dist, value)
    assert float(dist.log_prob(value)) == pytest.approx(-150.0 * (STEPS - 1) - 1600.0)


def test_an_island_of_alignments() -> None:
    """Source words: the road, the entry, the island, the exit. A step to the next of them costs as much as a stay."""
    T, jump = STEPS + 3, impossible(3, 13)
    jump[0, 7], jump[1, 6], jump[1, 7], jump[2] = 0.0, 0.0, -400.0, 0.0
    weights = torch.tensor([-torch.inf, 0.0, -400.0, -500.0], dtype=torch.float64)
    cells = torch.zeros(5, T + 1, dtype=torch.long)  # null word and four words, by null word and target words
    cells[1, 1:3], cells[1, 3:-1], cells[1, -1] = 1, 3, 1
    cells[2, 2], cells[3, 3:-1], cells[4, -1] = 2, 2, 2
    grid = Grid(torch.tensor([4]), torch.tensor([T]))
    dist = AlignmentHMM(weights, grid, jump, share=torch.zeros(T + 1, dtype=torch.float64))
    same_as_defined(dist, cells.flatten())
    assert float(dist.log_prob(cells.flatten())) == pytest.approx(-400.0 * (STEPS + 5))


def test_messages_that_are_small_before_they_are_scaled() -> None:
    """A step of e^-500 and then one of e^-400: their product is no float64."""
    transition = torch.tensor([[0.0, -500.0], [0.0, -400.0]], dtype=torch.float64)
    emission = torch.tensor([[0.0, -600.0, -150.0], [-600.0, 0.0, 0.0]], dtype=torch.float64)
    start, stop = torch.tensor([0.0, -700.0]).double(), torch.tensor([[-300.0], [0.0]]).double()
    chain = Chain(start, torch.cat([transition, stop], -1), emission, torch.tensor([3]), flat=True)
    same_as_defined(chain, torch.tensor([0, 1, 2]))


@on_every_structure
@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("spread", [60.0, 150.0, 300.0, 600.0])
def test_weights_far_apart(case: Case, spread: float, normalised: bool) -> None:
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        holes = 0.2 * (seed % 3 == 2)

        def table(*shape: int, g: torch.Generator = generator, holes: float = holes) -> Tensor:
            x = spread * torch.randn(shape, generator=g, dtype=torch.float64)
            x = x.masked_fill(torch.rand(shape, generator=g) < holes, -torch.inf)
            x = x.log_softmax(-1) if normalised and shape else x
            return torch.where(x.isnan(), -torch.inf, x)  # rows of holes

        assert case.long is not None
        instance = case.long(2, table, seed % 4)
        same_as_defined(instance.dist, instance.value)


@pytest.mark.parametrize("spread", [100.0, 150.0, 300.0])
def test_chains_far_apart(spread: float) -> None:
    for seed in range(150):
        generator = torch.Generator().manual_seed(seed)
        K, n, stop = 2 + seed % 4, (3, 6, 40)[seed % 3], seed % 2
        shapes = ((K,), (K, K + stop), (K, 4))
        weights = [spread * torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
        words = torch.randint(0, 4, (2 * n,), generator=generator)
        chain = Chain(*weights, torch.tensor([n, n]), flat=True)
        with torch.no_grad():
            torch.testing.assert_close(chain.log_prob(words), chain.defined(words), rtol=1e-10, atol=1e-9)
