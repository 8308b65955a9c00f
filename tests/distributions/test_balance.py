"""Balanced expectations against a convex projection of the enumerated joint posterior of both directions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from pyro_unsup import kernels
from pyro_unsup.distributions import Alignment, AlignmentHMM, balance
from pyro_unsup.distributions.alignment.grid import Grid
from pyro_unsup.distributions.balance import Side

from . import alignment_case, alignment_hmm_case

#: Source and target words of each pair; one has no target words.
SHAPES = [(2, 2), (1, 2), (2, 1), (2, 0)]


def directions(jumps: bool, shapes: list[tuple[int, int]], seed: int = 0, spread: float = 2.0) -> tuple[Side, Side]:
    """Both directions of an alignment by random weights."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return spread * torch.randn(*shape, generator=generator, dtype=torch.float64)

    grid = Grid(*(torch.tensor(x) for x in zip(*shapes, strict=True)))
    value = torch.randint(0, 12, (grid.cells,), generator=generator, dtype=torch.int32)
    sides = []
    for turned in (False, True):
        by_pair = {"null": random(len(shapes)), "word": random(len(shapes))}
        if jumps:
            sides.append((AlignmentHMM(random(12), grid, random(3, 5), turned=turned, **by_pair), value))
        else:
            sides.append((Alignment(random(12), grid, turned=turned, **by_pair), value))
    return sides[0], sides[1]


def signs_of(sides: tuple[Side, Side]) -> Tensor:
    return (~sides[0][0].parts(sides[0][1]).null).double()


def balanced(sides: tuple[Side, Side], tolerance: float) -> balance.Balanced:
    return balance.balance(sides, signs_of(sides), sides[0][0].parts(sides[0][1]).example, tolerance)


def weighed(sides: tuple[Side, Side], multipliers: Tensor) -> list[Any]:
    """The posteriors of both sides under multipliers."""
    more = [balance.potentials(multipliers, signs_of(sides), k) for k in (0, 1)]
    return [dist.with_potentials(links=x).posterior(value) for (dist, value), x in zip(sides, more, strict=True)]


def project(sides: tuple[Side, Side], pair: int, cells: list[int]) -> tuple[float, np.ndarray]:
    """The distance to the closest joint distribution over the links of both directions, in KL(q | p), whose
    expectations of each link of two words agree; and what it expects of every cell and direction."""
    case: Any = alignment_hmm_case if isinstance(sides[0][0], AlignmentHMM) else alignment_case
    numbers = sides[0][1][cells].tolist()
    one, other = (case.enumerate_alignments(dist, pair, numbers) for dist, _ in sides)
    p = np.outer(one.probabilities(), other.probabilities()).ravel()
    both = [*itertools.product(one.structures, other.structures)]
    used = np.array([[a, b] for a, b in both], float).reshape(len(both), 2, len(cells))
    inner = signs_of(sides)[cells].numpy() == 1
    apart = (used[:, 0] - used[:, 1])[:, inner]
    found = minimize(
        lambda q: float(np.sum(q * np.log(np.maximum(q, 1e-300) / p))),
        p,
        jac=lambda q: np.log(np.maximum(q, 1e-300) / p) + 1,
        bounds=[(1e-14, 1)] * len(p),
        constraints=[
            {"type": "eq", "fun": lambda q: q.sum() - 1, "jac": lambda q: np.ones((1, len(q)))},
            {"type": "eq", "fun": lambda q: q @ apart, "jac": lambda q: apart.T},
        ][: 2 if inner.any() else 1],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    assert found.success
    assert abs(found.x @ apart).max(initial=0.0) < 1e-9
    return found.fun, np.tensordot(found.x, used, 1)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("jumps", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_posteriors_are_the_projection_of_both_together(jumps: bool, seed: int, compiled: bool) -> None:
    sides = directions(jumps, SHAPES, seed, spread=1.0)
    if compiled:
        found = balanced(sides, 1e-10)
        one, other = weighed(sides, found.multipliers)
    else:
        with kernels.switched_off():
            found = balanced(sides, 1e-10)
            one, other = weighed(sides, found.multipliers)
    assert bool((found.apart <= 1e-10).all())
    plain = [dist.posterior(value).log_partition for dist, value in sides]
    for pair in range(len(SHAPES)):
        cells = (sides[0][0].grid.owner == pair).nonzero()[:, 0].tolist()
        distance, expected = project(sides, pair, cells)
        kept = float(one.log_partition[pair] + other.log_partition[pair])
        assert float(plain[0][pair] + plain[1][pair]) - distance == pytest.approx(kept, abs=1e-6)
        for k, posterior in enumerate((one, other)):
            np.testing.assert_allclose(posterior.marginals[cells].numpy(), expected[k], atol=1e-6)


@pytest.mark.parametrize("jumps", [False, True])
def test_expectations_agree_to_the_tolerance_and_null_words_are_free(jumps: bool) -> None:
    generator = torch.Generator().manual_seed(5)
    shapes = [tuple(x) for x in torch.randint(0, 9, (40, 2), generator=generator).tolist()]
    sides = directions(jumps, shapes, 3)  # type: ignore[arg-type]
    plain = [dist.posterior(value) for dist, value in sides]
    inner = signs_of(sides) == 1
    assert float((plain[0].marginals - plain[1].marginals)[inner].abs().max()) > 0.5
    for tolerance in (1e-2, 1e-4, 1e-8):
        found = balanced(sides, tolerance)
        one, other = (x.marginals for x in weighed(sides, found.multipliers))
        assert float(found.apart.max()) <= tolerance
        apart = torch.zeros(40, dtype=torch.float64).scatter_reduce(
            0, sides[0][0].grid.owner, torch.where(inner, (one - other).abs(), 0.0), "amax"
        )
        torch.testing.assert_close(found.apart, apart, rtol=0, atol=1e-12)
        assert not bool(found.multipliers[~inner].any())
        lower = sum(x.log_partition for x in weighed(sides, found.multipliers))
        assert bool((lower <= sum(x.log_partition for x in plain) + 1e-9).all())


def test_pieces_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [(3, 4), (0, 2), (5, 5), (2, 0), (4, 1), (0, 0), (6, 6)]
    sides = directions(True, shapes, 8)
    whole = balanced(sides, 1e-9)
    monkeypatch.setattr(balance, "PARTS", 20)
    monkeypatch.setattr(balance, "DONE", 0.0)
    pieces = balanced(sides, 1e-9)
    torch.testing.assert_close(pieces.apart, whole.apart, rtol=0, atol=1e-9)
    for a, b in zip(weighed(sides, whole.multipliers), weighed(sides, pieces.multipliers), strict=True):
        torch.testing.assert_close(a.marginals, b.marginals, rtol=0, atol=1e-7)


def test_rows_in_the_order_of_a_vocabulary() -> None:
    """Grids whose rows do not lie pair by pair."""
    sides = directions(False, [(2, 3), (3, 2), (1, 1)], 2)
    grid, value = sides[0][0].grid, sides[0][1]
    order = torch.randperm(len(grid.pair), generator=torch.Generator().manual_seed(0))
    mixed = Grid(grid.source_lengths, grid.target_lengths, grid.pair[order], grid.place[order])
    cells = torch.cat([torch.arange(int(grid.starts[r]), int(grid.starts[r + 1])) for r in order.tolist()])
    turned = tuple(
        (Alignment(d.weights["translation"], mixed, d.weights["null"], d.weights["word"], d.turned), value[cells])
        for d, _ in sides
    )
    found, other = balanced(sides, 1e-9), balanced(turned, 1e-9)  # type: ignore[arg-type]
    torch.testing.assert_close(other.apart, found.apart, rtol=0, atol=1e-9)
    torch.testing.assert_close(other.multipliers, found.multipliers[cells], rtol=0, atol=1e-5)


def test_what_is_impossible_in_one_direction_is_so_in_both() -> None:
    (one, _), (other, _) = directions(False, [(2, 2)], 4)
    numbers = torch.arange(9, dtype=torch.int32)
    cell = 4  # source word 1, target word 1
    barred = one.weights["translation"].clone()
    barred[cell] = -torch.inf
    sides = ((one.with_weights({"translation": barred}), numbers), (other, numbers))
    found = balanced(sides, 1e-10)
    assert found.multipliers.isinf().nonzero().flatten().tolist() == [cell]
    posteriors = weighed(sides, found.multipliers)
    assert [float(x.marginals[cell]) for x in posteriors] == [0.0, 0.0]
    # The same with the link forbidden from the start.
    allowed = torch.arange(9) != cell
    before = tuple((dist.with_potentials(links=allowed), numbers) for dist in (one, other))
    same = weighed(before, balanced(before, 1e-10).multipliers)  # type: ignore[arg-type]
    for a, b in zip(posteriors, same, strict=True):
        torch.testing.assert_close(a.marginals, b.marginals, rtol=0, atol=1e-8)


def test_pairs_that_no_two_posteriors_agree_about() -> None:
    """Without null words every target word has a link, and every source word: as many on both sides, or none agree."""
    sides = directions(False, [(2, 2), (1, 3), (2, 2)], 6)
    none = torch.full((3,), -torch.inf, dtype=torch.float64)
    tight = tuple((dist.with_weights({"null": none}), value) for dist, value in sides)
    found = balanced(tight, 1e-6)  # type: ignore[arg-type]
    assert [bool(x <= 1e-6) for x in found.apart] == [True, False, True]
    impossible = tuple((dist.with_weights({"null": none, "word": none}), value) for dist, value in sides)
    assert not bool(balanced(impossible, 1e-6).apart.any())  # type: ignore[arg-type]
