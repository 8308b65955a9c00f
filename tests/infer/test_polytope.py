"""Coefficients of mixtures: the linear programme against all vertices, and schedules that loosen it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup import FitError, Polytope
from pyro_unsup.infer.schedules import Loosen, fixed


def vertices(polytope: Polytope) -> list[np.ndarray]:
    """Every point at which so many constraints hold with equality that no other point has them."""
    n = polytope.size
    equal = [(np.ones(n), 1.0)] + [(np.array(row), b) for row, b in polytope.equal]
    upper = [(np.array(row), b) for row, b in polytope.upper] + [(-row, 0.0) for row in np.eye(n)]
    found = []
    for active in itertools.chain.from_iterable(itertools.combinations(upper, k) for k in range(n)):
        a, b = zip(*equal, *active, strict=True)
        if np.linalg.matrix_rank(np.array(a)) < n:
            continue
        point, *_ = np.linalg.lstsq(np.array(a), np.array(b), rcond=None)
        if np.allclose(np.array(a) @ point, b, atol=1e-9) and all(row @ point <= c + 1e-9 for row, c in upper):
            found.append(point)
    return found


numbers = st.floats(-3, 3).map(lambda x: round(x, 3))


@st.composite
def problems(draw: st.DrawFn) -> tuple[Polytope, list[float]]:
    size = draw(st.integers(2, 4))
    row = st.tuples(st.lists(numbers, min_size=size, max_size=size), numbers)
    gains = draw(st.lists(st.floats(-1e6, 0).map(lambda x: round(x, 2)), min_size=size, max_size=size))
    return Polytope(size, draw(st.lists(row, max_size=2))), gains


@settings(max_examples=150, derandomize=True, deadline=None)
@given(problems())
def test_the_best_point_is_the_best_vertex(problem: tuple[Polytope, list[float]]) -> None:
    polytope, gains = problem
    corners = vertices(polytope)
    if not corners:
        with pytest.raises(FitError, match="the polytope is empty"):
            polytope.best(gains)
        return
    found = polytope.best(gains)
    assert found.sum() == pytest.approx(1)
    assert (found >= 0).all()
    for row, b in polytope.upper:
        assert np.dot(row, found) <= b + 1e-6
    best = max(float(corner @ gains) for corner in corners)
    scale = max(1.0, *(abs(gain - max(gains)) for gain in gains))
    assert float(found @ gains) == pytest.approx(best, abs=1e-5 * scale)


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize("free", [0.0, 0.5, 0.85, 1.0])
def test_no_component_explains_more_so_the_first_gets_all_it_may(free: float, even: bool) -> None:
    """The vertex is known beforehand: the free share is at its bound, and the best of the others has what is left."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        size = int(rng.integers(2, 6))
        rest = -np.sort(rng.exponential(1000, size - 1))
        order = rng.permutation(size - 1)
        found = fixed(free, even)(3, size).best([0.0, *rest[order]])
        assert found[0] == pytest.approx(free, abs=1e-12)
        expected = np.full(size - 1, (1 - free) / (size - 1)) if even else (1 - free) * (order == 0)
        np.testing.assert_allclose(found[1:], expected, atol=1e-12)


def test_a_fixed_share_is_kept_whatever_there_is_to_gain() -> None:
    assert fixed(0.7)(5, 3).best([-10.0, 0.0, -1.0]).tolist() == pytest.approx([0.7, 0.3, 0.0])
    assert Loosen(0.7, 0.7)(5, 3).best([-10.0, 0.0, -1.0]).tolist() == pytest.approx([0.0, 1.0, 0.0])
    with pytest.raises(FitError, match="a whole number of coefficients, 1 or more, actual '2'"):
        Polytope("2")  # type: ignore[arg-type]


def test_a_schedule_loosens_by_the_same_amount_and_then_stays() -> None:
    shares = [Loosen()(iteration, 3).upper[0][1] for iteration in range(20)]
    assert shares == [0.85, 0.86, 0.87, 0.88, 0.89, 0.9, 0.91, 0.92, 0.93, 0.94] + [0.95] * 10
    assert Loosen()(11, 3) == Loosen()(12, 3) != Loosen()(3, 3)
    assert Loosen(0.5, 0.9, 0.25)(2, 2).upper[0][1] == 0.9


def test_an_empty_polytope_is_said_to_be_empty() -> None:
    both = Polytope(2, upper=[((1, 0), 0.3), ((0, 1), 0.4)])
    with pytest.raises(FitError, match=r"the polytope is empty: .* keep 1 lambda_0 <= 0.3, 1 lambda_1 <= 0.4. Loosen"):
        both.best([0.0, 0.0])
    with pytest.raises(FitError, match=r"the polytope is empty: .* keep 1 lambda_0 \+ 1 lambda_1 = 0.5"):
        Polytope(2, equal=[((1, 1), 0.5)]).best([0.0, 0.0])


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"start": 0.9, "end": 0.8}, "0 <= start <= end <= 1, actual 0.9 and 0.8"),
        ({"end": 1.5}, "actual 0.85 and 1.5"),
        ({"start": float("nan")}, "actual nan"),
        ({"start": "a"}, "Loosen: start is a number, actual 'a'"),
        ({"step": 0.0}, "with a step of 0.0 the free share never gets from 0.85 to 0.95"),
    ],
)
def test_schedules_that_lead_nowhere(settings_: dict[str, Any], message: str) -> None:
    with pytest.raises(FitError, match=message):
        Loosen(**settings_)


@pytest.mark.parametrize("row", [((1,), 0.3), ((1, float("inf")), 0.3), ((1, 1), float("nan"))])
def test_constraints_are_finite_and_have_a_number_for_each_coefficient(row: Any) -> None:
    with pytest.raises(FitError, match="a constraint on 2 coefficients has 2 finite numbers and a bound, actual"):
        Polytope(2, upper=[row])
