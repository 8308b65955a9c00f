from __future__ import annotations

import math
from types import SimpleNamespace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import same_color

from pyro_unsup.errors import UnsupError
from pyro_unsup.plot import learning_curve, learning_curves

COLUMNS = {"iteration": [0, 1, 2, 3], "objective": [-90.5, -40.25, -30.0, -29.5], "many_to_one": [0.2, 0.5, 0.6, 0.55]}


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def labels(axis):
    axis.figure.canvas.draw()
    return [text.get_text() for text in axis.get_ticklabels()]


@pytest.mark.parametrize(
    "history",
    [
        COLUMNS,
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS, index=[7, 5, 3, 1]),
        [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)],
        {name: np.array(values) for name, values in COLUMNS.items()},
    ],
    ids=["columns", "frame", "frame with an index", "rows", "arrays"],
)
def test_every_kind_of_history_draws_the_same_lines(history):
    ax = learning_curve(history, score="many_to_one")
    twin = ax.figure.axes[-1]
    assert ax.figure.axes == [ax, twin]
    for axes, name in ((ax, "objective"), (twin, "many_to_one")):
        (line,) = axes.lines
        np.testing.assert_array_equal(line.get_xydata(), np.transpose([COLUMNS["iteration"], COLUMNS[name]]))


def test_both_axes_are_labelled_coloured_and_in_the_legend():
    ax = learning_curve(COLUMNS, score="many_to_one")
    twin = ax.figure.axes[-1]
    ax.figure.canvas.draw()
    assert (ax.get_xlabel(), ax.get_ylabel(), twin.get_ylabel()) == ("iteration", "objective", "many to one")
    assert twin.yaxis.get_label_position() == "right"
    left, right = ax.lines[0].get_color(), twin.lines[0].get_color()
    assert not same_color(left, right)
    assert same_color(ax.yaxis.label.get_color(), left)
    assert same_color(twin.yaxis.label.get_color(), right)
    assert [text.get_text() for text in twin.get_legend().get_texts()] == ["objective", "many to one"]


def test_the_objective_alone_has_one_axis_and_no_legend():
    ax = learning_curve(COLUMNS)
    assert isinstance(ax, Axes)
    assert ax.figure.axes == [ax]
    assert ax.get_legend() is None


def test_draws_on_given_axes_and_never_shows(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *_, **__: pytest.fail("plt.show was called"))
    _, (left, right) = plt.subplots(1, 2)
    assert learning_curve(COLUMNS, score="many_to_one", ax=right) is right
    assert not left.lines
    assert plt.get_fignums() == [1]


@pytest.mark.parametrize("missing", [None, math.nan, -math.inf])
def test_iterations_without_a_score_are_passed_over(missing):
    ax = learning_curve({**COLUMNS, "many_to_one": [0.2, missing, missing, 0.5]}, score="many_to_one")
    assert ax.figure.axes[-1].lines[0].get_xydata().tolist() == [[0, 0.2], [3, 0.5]]


def test_rows_may_lack_the_score():
    rows = [{"iteration": 0, "objective": -3.0}, {"iteration": 1, "objective": -2.0, "score": 0.5}]
    ax = learning_curve(rows, score="score")
    assert ax.figure.axes[-1].lines[0].get_xydata().tolist() == [[1, 0.5]]


def test_one_iteration_is_enough():
    ax = learning_curve({"iteration": [1], "objective": [-5.0]})
    ax.figure.canvas.draw()
    assert ax.lines[0].get_marker() == "o"


@pytest.mark.parametrize(
    ("objective", "ticks", "expected"),
    [
        ([-1_250_000, -1_000_000], [-1_250_000, -1_000_000], ["-1,250,000", "-1,000,000"]),
        ([0.48, 0.52], [0.48, 0.5, 0.52], ["0.48", "0.50", "0.52"]),
        ([-9.25, -9], [-9.25, -9.125, -9], ["-9.250", "-9.125", "-9.000"]),
    ],
)
def test_ticks_are_readable(objective, ticks, expected):
    ax = learning_curve({"iteration": range(len(objective)), "objective": objective})
    ax.set_yticks(ticks)
    assert [label.replace("\N{MINUS SIGN}", "-") for label in labels(ax.yaxis)] == expected


def test_iterations_are_whole_numbers():
    ax = learning_curve({"iteration": [1, 2], "objective": [-2.0, -1.0]})
    ax.figure.canvas.draw()
    assert all(tick == round(tick) for tick in ax.get_xticks())


def test_odd_names_are_no_mathematics():
    ax = learning_curve({**COLUMNS, "a$b$_{": [1, 2, 3, 4]}, score="a$b$_{")
    ax.figure.canvas.draw()
    assert ax.figure.axes[-1].get_ylabel() == "a$b$ {"


@pytest.mark.parametrize(
    ("history", "score", "message"),
    [
        (COLUMNS, "f1", "history has no column 'f1', it has iteration, objective, many_to_one"),
        (pd.DataFrame({"iteration": [1]}), None, "history has no column 'objective', it has iteration"),
        ([{"objective": 1.0}], None, "history has no column 'iteration', it has objective"),
        ([], None, "history is empty: there is no iteration to draw"),
        ({}, None, "history is empty"),
        ({"iteration": [], "objective": []}, None, "history is empty"),
        ({"iteration": [1], "objective": [math.nan]}, None, "history has no finite value of 'objective' to draw"),
        ({"iteration": [1, 2], "objective": [1.0]}, None, "history column 'objective' has 1 values, expected 2"),
    ],
)
def test_bad_histories(history, score, message):
    with pytest.raises(UnsupError, match=message):
        learning_curve(history, score=score)
    assert plt.get_fignums() == []


def test_a_fit_brings_its_history():
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    drawn = learning_curve(SimpleNamespace(rows=rows), score="many_to_one").figure.axes
    expected = learning_curve(rows, score="many_to_one").figure.axes
    for ours, theirs in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(ours.lines[0].get_xydata(), theirs.lines[0].get_xydata())
    frame = pd.DataFrame({**COLUMNS, "rows": [1, 2, 3, 4]})  # a column of that name is no history
    assert learning_curve(frame).lines[0].get_xydata().shape == (4, 2)


RUNS = {
    "EM": [
        {"iteration": 0, "log_likelihood": -9.0, "accuracy": 0.1, "seconds": 0.5},
        {"iteration": 1, "log_likelihood": -8.0, "accuracy": None, "seconds": 1.0},
        {"iteration": 2, "log_likelihood": -7.5, "accuracy": 0.3, "seconds": 1.5},
    ],
    "stepwise": pd.DataFrame(
        {"passes": [0.0, 0.5, 1.0], "iteration": [0, 10, 20], "log_likelihood": [-9.0, -7.0, -6.5], "accuracy": 0.4}
    ),
}


def drawn(ax):
    return {line.get_label(): line.get_xydata().tolist() for line in ax.lines}


def test_runs_side_by_side_by_passes_over_the_data():
    axes = learning_curves(RUNS, "accuracy")
    assert [ax.get_ylabel() for ax in axes] == ["accuracy", "log likelihood"]
    assert axes[-1].get_xlabel() == "passes"
    assert axes[0].figure.axes == axes
    assert drawn(axes[0]) == {"EM": [[0, 0.1], [2, 0.3]], "stepwise": [[0, 0.4], [0.5, 0.4], [1, 0.4]]}
    assert drawn(axes[1])["stepwise"] == [[0, -9], [0.5, -7], [1, -6.5]]
    assert [text.get_text() for text in axes[0].get_legend().get_texts()] == ["EM", "stepwise"]
    assert not same_color(*(line.get_color() for line in axes[0].lines))
    axes[0].figure.canvas.draw()


def test_a_log_time_axis_leaves_the_start_out():
    (ax,) = learning_curves(RUNS, log=True)
    assert ax.get_xscale() == "log"
    assert drawn(ax) == {"EM": [[1, -8], [2, -7.5]], "stepwise": [[0.5, -7], [1, -6.5]]}
    ax.figure.canvas.draw()


def test_other_columns_and_given_axes():
    _, (upper, lower) = plt.subplots(2)
    runs = {"a$b$": SimpleNamespace(rows=RUNS["EM"])}
    assert learning_curves(runs, "accuracy", value="log_likelihood", x="seconds", axes=[upper, lower]) == [upper, lower]
    assert drawn(lower) == {"a$b$": [[0.5, -9], [1, -8], [1.5, -7.5]]}
    assert lower.get_xlabel() == "seconds"
    lower.figure.canvas.draw()


@pytest.mark.parametrize(
    ("runs", "options", "message"),
    [
        ({}, {}, "there is no run to draw"),
        (RUNS, {"score": "f1"}, "run 'EM': history has no column 'f1', it has iteration, log_likelihood, accuracy"),
        (RUNS, {"x": "seconds"}, "run 'stepwise': history has no column 'seconds'"),
        ({"a": []}, {}, "run 'a': history is empty"),
        ({"a": RUNS["EM"][:1]}, {"log": True}, "run 'a': history has no finite value of 'log_likelihood' to draw"),
        (
            {"a": {"iteration": [0, 1], "log_likelihood": [1.0]}},
            {},
            "run 'a': 'log_likelihood' has 1 values, expected 2",
        ),
        (RUNS, {"score": "accuracy", "axes": [None]}, r"axes for 2 panels \(accuracy, log_likelihood\), found 1"),
    ],
)
def test_bad_runs(runs, options, message):
    with pytest.raises(UnsupError, match=message):
        learning_curves(runs, **options)
    assert plt.get_fignums() == []
