"""L-BFGS one step at a time: Wolfe's conditions, known optima, resuming, and functions that are hard to climb."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from pyro_unsup.estimate.features.lbfgs import LBFGS, RISE, SLOPE, Array, Point, climb_line

RNG = np.random.default_rng(0)
MATRIX = RNG.standard_normal((20, 20))
MATRIX = MATRIX @ MATRIX.T / 20 + 0.05 * np.eye(20)
TARGET = RNG.standard_normal(20)


def bowl(x: Array) -> Point:
    pull = MATRIX @ (x - TARGET)
    return Point(x, -float((x - TARGET) @ pull) / 2, -pull)


def banana(x: Array) -> Point:
    a, b = x
    value = -((1 - a) ** 2 + 100 * (b - a * a) ** 2)
    return Point(x, float(value), np.array([2 * (1 - a) + 400 * a * (b - a * a), -200 * (b - a * a)]))


def cliff(x: Array) -> Point:
    """Defined below 2 only."""
    with np.errstate(invalid="ignore", divide="ignore"):
        value = np.log(2 - x).sum() + x.sum() if (x < 2).all() else -np.inf
        return Point(x, float(value), 1 - 1 / (2 - x))


def run(function: object, x: Array, steps: int, climber: LBFGS | None = None) -> list[Point]:
    climber = LBFGS() if climber is None else climber
    points = [function(x)]  # type: ignore[operator]
    for _ in range(steps):
        there = climber.step(points[-1], function)  # type: ignore[arg-type]
        if there is None:
            break
        points.append(there)
    return points


@pytest.mark.parametrize("scale", [1.0, 1 / np.diag(MATRIX)], ids=["plain", "scaled"])
def test_it_finds_the_top_of_a_bowl(scale: Array | float) -> None:
    points = run(bowl, np.zeros(20), 100, LBFGS(scale=scale))
    np.testing.assert_allclose(points[-1].x, TARGET, atol=1e-6)
    assert all(b.value > a.value for a, b in pairwise(points))


def test_it_finds_its_way_along_a_banana() -> None:
    points = run(banana, np.array([-1.2, 1.0]), 60)
    np.testing.assert_allclose(points[-1].x, [1, 1], atol=1e-6)
    assert len(points) < 60


def test_steps_too_far_are_taken_back() -> None:
    points = run(cliff, np.full(3, 1.99), 50)
    np.testing.assert_allclose(points[-1].x, 1.0, atol=1e-6)
    assert all(math.isfinite(point.value) for point in points)


@pytest.mark.parametrize("first", [1e-6, 0.3, 1.0, 1e4])
def test_a_line_search_meets_the_strong_wolfe_conditions(first: float) -> None:
    here = banana(np.array([-1.2, 1.0]))
    direction = here.gradient
    slope = float(direction @ direction)
    there = climb_line(here, direction, slope, banana, first)
    assert there is not None
    step = float((there.x - here.x) @ direction) / slope
    assert there.value >= here.value + RISE * step * slope
    assert abs(float(there.gradient @ direction)) <= SLOPE * slope


def test_it_goes_on_from_its_history_bit_for_bit() -> None:
    climber = LBFGS(size=4)
    whole = run(banana, np.array([-1.2, 1.0]), 20, climber)
    first = LBFGS(size=4)
    half = run(banana, np.array([-1.2, 1.0]), 10, first)
    second = LBFGS([(s.copy(), y.copy()) for s, y in first.history], size=4)
    rest = run(banana, half[-1].x.copy(), 10, second)
    for a, b in zip(whole, [*half, *rest[1:]], strict=True):
        assert (a.x == b.x).all()
    assert len(climber.history) == 4


def test_where_nothing_leads_up_it_says_so() -> None:
    assert LBFGS().step(bowl(TARGET), bowl) is None
    assert LBFGS().step(Point(np.zeros(2), 0.0, np.ones(2)), lambda x: Point(x, -1.0, np.ones(2))) is None


def test_a_history_that_misleads_is_dropped() -> None:
    # It claims that the function curves so much that the best step is backwards.
    wrong = LBFGS([(np.array([1.0, 0.0]), np.array([-1.0, 0.0]))])
    there = wrong.step(banana(np.array([-1.2, 1.0])), banana)
    assert there is not None
    assert there.value > banana(np.array([-1.2, 1.0])).value
