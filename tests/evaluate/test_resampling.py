"""The jack-knife, against what is known of means."""

from __future__ import annotations

import numpy as np
import pytest

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate import jackknife, random_parts

VALUES = np.random.default_rng(0).normal(size=40)


def test_of_a_mean_it_is_the_usual_standard_error() -> None:
    found = jackknife(lambda kept: VALUES[kept].mean(), len(VALUES))
    assert found.mean == pytest.approx(VALUES.mean())
    assert found.standard_error == pytest.approx(VALUES.std(ddof=1) / np.sqrt(len(VALUES)))
    assert found.deviation == pytest.approx(np.std(found.values, ddof=1))
    leave_one_out = sorted((VALUES.sum() - value) / (len(VALUES) - 1) for value in VALUES)
    np.testing.assert_allclose(sorted(found.values), leave_one_out)


def test_parts_are_left_out_whole() -> None:
    parts = random_parts(len(VALUES), 8, seed=4)
    means = np.array([VALUES[part].mean() for part in parts])
    found = jackknife(lambda kept: VALUES[kept].mean(), len(VALUES), parts=8, seed=4)
    np.testing.assert_allclose(found.values, (8 * VALUES.mean() - means) / 7)
    assert found.standard_error == pytest.approx(means.std(ddof=1) / np.sqrt(8))


def test_parts_are_even_complete_and_seeded() -> None:
    parts = random_parts(23, 5, seed=1)
    assert sorted(np.concatenate(parts).tolist()) == list(range(23))
    assert {len(part) for part in parts} == {4, 5}
    assert all((np.diff(part) > 0).all() for part in parts)
    assert all(np.array_equal(a, b) for a, b in zip(parts, random_parts(23, 5, seed=1), strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(parts, random_parts(23, 5, seed=2), strict=True))


@pytest.mark.parametrize(("n", "parts"), [(5, 6), (5, 1), (1, 1), (0, 2)])
def test_too_few_examples(n: int, parts: int) -> None:
    with pytest.raises(UnsupError, match=f"{n} examples cannot be split into {parts} parts, expected 2 to {n} parts"):
        random_parts(n, parts)
