"""Tied structures: their share of the dual, its gradient, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.distributions.balance import Balanced, Side
from pyro_unsup.distributions.tied import Terms, Tie, Tied, tied_again

from .test_balance import directions, signs_of

SHAPES = [(2, 3), (3, 1), (1, 2)]


def tied(sides: tuple[Side, Side], found: Any = lambda _: None, tolerance: float = 1e-11) -> list[Tied]:
    tie = Tie(Terms(signs_of(sides), sides[0][0].parts(sides[0][1]).example, tolerance, found))
    return [tie.join(*side) for side in sides]


def objective(sides: tuple[Side, Side]) -> Tensor:
    return sum(dist.log_prob(value).sum() for dist, (_, value) in zip(tied(sides), sides, strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize("jumps", [False, True])
def test_the_gradient_is_the_expected_counts(jumps: bool) -> None:
    """Of the objective by finite differences, and of the two posteriors."""
    sides = directions(jumps, SHAPES, 1)
    leaves = [{name: w.clone().requires_grad_() for name, w in dist.weights.items()} for dist, _ in sides]
    both: Any = [(d.with_weights(w), value) for (d, value), w in zip(sides, leaves, strict=True)]
    objective(both).backward()
    posteriors = [dist.posterior(value) for dist, (_, value) in zip(tied(sides), sides, strict=True)]
    for k, (dist, _) in enumerate(sides):
        for name, w in dist.weights.items():
            grad = leaves[k][name].grad
            assert grad is not None
            torch.testing.assert_close(grad, posteriors[k].counts[name], rtol=0, atol=1e-9)
            flat = w.flatten()
            for cell in range(0, len(flat), max(1, len(flat) // 4)):
                found = []
                for step in (1e-4, -1e-4):
                    moved = flat.clone()
                    moved[cell] += step
                    other: Any = list(sides)
                    other[k] = (dist.with_weights({name: moved.reshape(w.shape)}), sides[k][1])
                    found.append(float(objective(other)))
                assert (found[0] - found[1]) / 2e-4 == pytest.approx(float(grad.flatten()[cell]), abs=1e-5)


def test_both_are_searched_for_once_and_again_when_one_changes() -> None:
    seen: list[Balanced] = []
    sides = directions(True, SHAPES, 2)
    one, other = tied(sides, seen.append)
    first = one.posterior(sides[0][1]).marginals
    other.log_prob(sides[1][1])
    assert len(seen) == 1
    hot = one.with_temperature(2.0)
    assert isinstance(hot, Tied)
    second = hot.posterior(sides[0][1]).marginals
    apart = (second - other.posterior(sides[1][1]).marginals)[signs_of(sides) == 1]
    assert len(seen) == 2
    assert float(apart.abs().max()) < 1e-10
    assert float((first - second).abs().max()) > 1e-3
    again = tied_again([one, other], list(sides))
    assert all(isinstance(x, Tied) for x in again)
    torch.testing.assert_close(again[0].posterior(sides[0][1]).marginals, first, rtol=0, atol=1e-9)
    assert tied_again([sides[0][0]], [sides[1]]) == [sides[1][0]]


def test_modes_draws_and_scores_are_those_of_the_tied_posterior() -> None:
    sides = directions(False, SHAPES, 3)
    one, _ = tied(sides)
    value = sides[0][1]
    posterior = one.posterior(value)
    mode = posterior.mode()
    assert bool((one.score(value, mode) <= one.log_prob(value)).all())
    drawn = posterior.sample((4000,), torch.Generator().manual_seed(0)).double().mean(0)
    torch.testing.assert_close(drawn, posterior.marginals.double(), rtol=0, atol=0.04)


def test_what_cannot_be_asked() -> None:
    sides = directions(False, SHAPES, 4)
    tie = Tie(Terms(signs_of(sides), sides[0][0].parts(sides[0][1]).example, 1e-3, lambda _: None))
    one = tie.join(*sides[0])
    with pytest.raises(pu.StructureError, match=r"the model has 1 so far: it cannot be asked for the first one's"):
        one.log_prob(sides[0][1])
    tie.join(*sides[1])
    with pytest.raises(pu.StructureError, match="know the probability of the data that they observe, only"):
        one.log_prob(1 - sides[0][1])
