from __future__ import annotations

import math

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from pyro_unsup.errors import UnsupError
from pyro_unsup.plot import heat_map

ROWS = [
    {"power": 1.0, "batch_size": 10, "accuracy": 0.2, "seed": 0},
    {"power": 1.0, "batch_size": 10, "accuracy": 0.4, "seed": 1},
    {"power": 0.5, "batch_size": 10, "accuracy": 0.1},
    {"power": 0.5, "batch_size": 3, "accuracy": 0.55},
    {"power": 1.0, "batch_size": 3, "accuracy": None},
]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def texts(ax):
    return {(text.get_position()): text for text in ax.texts}


def test_settings_in_order_and_runs_averaged():
    ax = heat_map(ROWS, "accuracy")
    ax.figure.canvas.draw()
    assert [t.get_text() for t in ax.get_xticklabels()] == ["3", "10"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["0.5", "1"]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("batch size", "power", "accuracy")
    np.testing.assert_allclose(np.ma.filled(ax.images[0].get_array(), np.nan), [[0.55, 0.1], [np.nan, 0.3]])
    assert {place: t.get_text() for place, t in texts(ax).items()} == {
        (0, 0): "0.550",
        (1, 0): "0.100",
        (1, 1): "0.300",
    }


def test_the_best_of_a_column_is_bold():
    weights = {place: t.get_fontweight() for place, t in texts(heat_map(ROWS, "accuracy")).items()}
    assert weights == {(0, 0): "bold", (1, 0): "normal", (1, 1): "bold"}


def test_other_columns_digits_and_axes():
    _, (left, right) = plt.subplots(1, 2)
    rows = [{"m": 1, "a": 2, "loglik": -7.98765}, {"m": 2, "a": 2, "loglik": -math.inf}]
    assert heat_map(rows, "loglik", "m", "a", right, digits=4) is right
    assert not left.images
    assert [t.get_text() for t in right.texts] == ["\N{MINUS SIGN}7.988"]


@pytest.mark.parametrize(
    ("rows", "value", "message"),
    [
        ([], "accuracy", "there is no row to draw"),
        (ROWS, "f1", "row 0 has no column 'f1', it has power, batch_size, accuracy, seed"),
        ([{"power": 1, "accuracy": 0.5}], "accuracy", "row 0 has no column 'batch_size'"),
        ([{**ROWS[0], "accuracy": math.nan}], "accuracy", "no row has a finite value of 'accuracy' to draw"),
    ],
)
def test_bad_rows(rows, value, message):
    with pytest.raises(UnsupError, match=message):
        heat_map(rows, value)
    assert plt.get_fignums() == []
