"""Two directions made one: by hand, and the growing against a plain program with sets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate import above_threshold, competitive, link_rows, symmetrise

Points = set[tuple[int, int]]


def grown(one: Points, other: Points, height: int, width: int) -> Points:
    """Grow-diag-final-and as its inventors tell it."""
    found, union = one & other, one | other
    neighbours = [(-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)]
    while True:
        before = len(found)
        for i in range(height):
            for j in range(width):
                if (i, j) in found:
                    for di, dj in neighbours:
                        new = (i + di, j + dj)
                        free = new[0] not in {a for a, _ in found} or new[1] not in {b for _, b in found}
                        if free and new in union:
                            found = found | {new}
        if len(found) == before:
            break
    for links in (one, other):
        for new in sorted(links):
            if new[0] not in {a for a, _ in found} and new[1] not in {b for _, b in found}:
                found = found | {new}
    return found


@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(st.data())
def test_growing(data: st.DataObject) -> None:
    shapes = data.draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=3))
    size = sum(i * j for i, j in shapes)
    density = st.sampled_from([False, False, True])
    one, other = (np.array(data.draw(st.lists(density, min_size=size, max_size=size)), bool) for _ in range(2))
    lengths = [*zip(*shapes, strict=True)]
    found = symmetrise(one, other, *lengths, "grow-diag-final-and")
    at, expected = 0, []
    for b, (height, width) in enumerate(shapes):
        sides = []
        for links in (one, other):
            rows, columns = np.nonzero(links[at : at + height * width].reshape(height, width))
            sides.append(set(zip(rows.tolist(), columns.tolist(), strict=True)))
        expected += [[b, i, j] for i, j in sorted(grown(*sides, height, width))]
        at += height * width
    assert link_rows(found, *lengths).tolist() == expected
    both, either = symmetrise(one, other, *lengths, "intersection"), symmetrise(one, other, *lengths, "union")
    assert (both <= found).all()
    assert (found <= either).all()
    assert (symmetrise(one, other, *lengths, "forward") == one).all()
    assert (symmetrise(one, other, *lengths, "backward") == other).all()


def test_by_hand() -> None:
    """A link of both, a neighbour of one, and two that stand alone: only one of those is between free words."""
    forward = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0]], bool)
    backward = np.array([[1, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]], bool)
    found = symmetrise(forward.ravel(), backward.ravel(), [4], [4], "grow-diag-final-and").reshape(4, 4)
    assert np.argwhere(found).tolist() == [[0, 0], [1, 1], [2, 3], [3, 2]]


def test_thresholds() -> None:
    p, q = [0.9, 0.5, 0.2, 0.6], [0.1, 0.6, 0.9, 0.6]
    assert above_threshold(p, q).tolist() == [True, True, True, True]
    assert above_threshold(p, q, 0.6).tolist() == [False, False, False, True]
    assert above_threshold(p, q, 0.3, "product").tolist() == [False, True, False, True]
    assert above_threshold(p, q, 0.45, "geometric").tolist() == [False, True, False, True]
    assert above_threshold(p, q, 0.9, "max").tolist() == [True, False, True, False]
    assert above_threshold(p, q, 0.5, "min").tolist() == [False, True, False, True]


def compete(scores: np.ndarray, threshold: float) -> Points:
    """Cells that reach a best one of their row, and of their column, without a step below the threshold."""
    found = set()
    for i, j in itertools.product(*map(range, scores.shape)):
        lines = ((scores[i], j), (scores[:, j], i))
        if scores[i, j] >= threshold and all(
            any(
                line[k] == line.max() and (line[min(at, k) : max(at, k) + 1] >= threshold).all()
                for k in range(len(line))
            )
            for line, at in lines
        ):
            found.add((i, j))
    return found


@settings(max_examples=150, derandomize=True, deadline=None, database=None)
@given(st.data())
def test_competition(data: st.DataObject) -> None:
    shapes = data.draw(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=3))
    size = sum(i * j for i, j in shapes)
    level = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 0.9])
    p, q = (np.array(data.draw(st.lists(level, min_size=size, max_size=size))) for _ in range(2))
    threshold = data.draw(st.sampled_from([0.0, 0.2, 0.35, 0.5]))
    lengths = [*zip(*shapes, strict=True)]
    found = competitive(p, q, *lengths, threshold)
    at, expected = 0, []
    for b, (height, width) in enumerate(shapes):
        scores = ((p + q) / 2)[at : at + height * width].reshape(height, width)
        expected += [[b, i, j] for i, j in sorted(compete(scores, threshold))]
        at += height * width
    assert link_rows(found, *lengths).tolist() == expected
    assert (found <= above_threshold(p, q, threshold)).all()


def test_competition_by_hand() -> None:
    """The second row has a better link elsewhere; what is beside the best link stays."""
    p = np.array([[0.9, 0.6, 0.1], [0.5, 0.1, 0.7], [0.1, 0.2, 0.8]])
    assert competitive(p.ravel(), p.ravel(), [3], [3], 0.4).reshape(3, 3).tolist() == [
        [True, True, False],
        [False, False, True],
        [False, False, True],
    ]
    assert competitive(p.ravel(), 0 * p.ravel(), [3], [3], 0.4, "max").sum() == 4
    assert competitive(p.ravel(), 0 * p.ravel(), [3], [3], 0.1, "product").sum() == 0


def test_errors() -> None:
    with pytest.raises(UnsupError, match=r"these sentences have 4 cells in all, actual shapes \(3,\) and \(4,\)"):
        symmetrise([True] * 3, [True] * 4, [2], [2])
    with pytest.raises(UnsupError, match="how must be one of intersection, union, grow-diag-final-and, forward, back"):
        symmetrise([True], [True], [1], [1], "both")  # type: ignore[arg-type]
    with pytest.raises(UnsupError, match="combine must be one of mean, product, geometric, max, min, actual 'sum'"):
        above_threshold([0.5], [0.5], combine="sum")  # type: ignore[arg-type]
    with pytest.raises(UnsupError, match=r"forward has shape \(1,\) but backward has \(2,\): expected the same cells"):
        above_threshold([0.5], [0.5, 0.5])
    with pytest.raises(UnsupError, match=r"these sentences have 4 cells in all, actual shape \(3,\)"):
        competitive([0.5] * 3, [0.5] * 3, [2], [2])
