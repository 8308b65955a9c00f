from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate import seed_variance


def test_by_hand():
    """Means by start 52, 48 and 50; variances by start 4, 1 and 0; means by order 51 and 49."""
    found = seed_variance([[54.0, 50.0], [49.0, 47.0], [50.0, 50.0]])
    assert found.mean == 50
    assert found.initial**2 == pytest.approx(8 / 3)
    assert found.order**2 == pytest.approx(5 / 3)
    assert found.total**2 == pytest.approx((16 + 0 + 1 + 9 + 0 + 0) / 6)
    assert found.order_alone == pytest.approx(1)
    assert found.interaction**2 == pytest.approx(2 / 3)  # residuals 1, -1; 0, 0; -1, 1
    assert str(found) == "50 ±1.6, 1.3"


def test_variances_add_up():
    rng = np.random.default_rng(0)
    table = rng.normal(size=(5, 1)) + rng.normal(size=(1, 4)) + 0.1 * rng.normal(size=(5, 4))
    found = seed_variance(table)
    assert found.total**2 == pytest.approx(found.initial**2 + found.order**2, rel=1e-12)
    assert found.order**2 == pytest.approx(found.order_alone**2 + found.interaction**2, rel=1e-12)
    assert found.total == pytest.approx(table.std())


def test_effects_that_only_add_do_not_interact():
    found = seed_variance(torch.tensor([[1.0, 2.0], [5.0, 6.0]]))
    assert (found.initial, found.order, found.interaction) == (2, 0.5, 0)


def test_one_order_as_batch_em_has():
    found = seed_variance([[1.0], [3.0]])
    assert (found.mean, found.total, found.initial, found.order) == (2, 1, 1, 0)


def test_scores_by_pairs_of_seeds():
    scores = {(7, 2): 4.0, (3, 1): 1.0, (3, 2): 2.0, (7, 1): 3.0}
    assert seed_variance(scores) == seed_variance([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({(0, 0): 1.0, (1, 1): 2.0}, r"2 of 2 x 2 runs are missing, the first is \(start, order\) = \(0, 1\)"),
        ([1.0, 2.0], r"shape \(starts, orders\) and at least one entry, actual shape \(2,\)"),
        ({}, r"at least one entry, actual shape"),
        ([[1.0, math.nan]], "the score of start 0 with order 1 is nan, expected a number"),
    ],
)
def test_errors(scores, message):
    with pytest.raises(UnsupError, match=message):
        seed_variance(scores)
