"""How the objective and a score move during training. They may part ways, so each has a scale of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.errors import UnsupError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

History: TypeAlias = "pd.DataFrame | Mapping[str, Sequence[float]] | Sequence[Mapping[str, float]]"

OBJECTIVE_COLOUR, SCORE_COLOUR = "C0", "C1"
MARKERS_UP_TO = 40  # with more points than this, markers run into each other


class HasRows(Protocol):
    """A fit, or whatever else keeps its history in ``rows``."""

    @property
    def rows(self) -> Sequence[Mapping[str, float]]: ...


def learning_curve(history: HasRows | History, score: str | None = None, ax: Axes | None = None) -> Axes:
    """The objective by iteration, and a score on a second axis if one is named.

    :param history: a fit; or a data frame, a dict of columns or a list of rows, with ``iteration`` and ``objective``.
    :param score: the column of the score; iterations without a value (missing, None, NaN) are passed over.
    :param ax: where to draw; by default a new figure.
    :returns: the axes of the objective; the axes of the score are the last of its figure.

    >>> import pyro_unsup as pu
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1], [1, 1]], iterations=3)
    >>> len(pu.plot.learning_curve(fit).lines[0].get_xdata())
    4
    """
    table = _table(history)
    columns = {name: _column(table, name) for name in ("iteration", "objective", *([] if score is None else [score]))}
    rows = len(columns["iteration"])
    for name, values in columns.items():
        if len(values) != rows:
            raise UnsupError(f"history column {name!r} has {len(values)} values, expected {rows}, one an iteration")
        if not np.isfinite(values).any():
            raise UnsupError(f"history has no finite value of {name!r} to draw")
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")[1]
    from matplotlib.ticker import MaxNLocator

    ax.set_xlabel("iteration")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines["top"].set_visible(False)
    ax.grid(axis="y", alpha=0.25, linewidth=0.6)
    lines = [_line(ax, columns, "objective", OBJECTIVE_COLOUR)]
    if score is None:
        ax.spines["right"].set_visible(False)
        return ax
    twin = ax.twinx()
    twin.spines["top"].set_visible(False)
    lines.append(_line(twin, columns, score, SCORE_COLOUR))
    for axes, side, colour in ((ax, "left", OBJECTIVE_COLOUR), (twin, "right", SCORE_COLOUR)):
        axes.tick_params(axis="y", colors=colour)
        axes.yaxis.label.set_color(colour)
        twin.spines[side].set_color(colour)
    # Above the axes, where no curve can run into it.
    twin.legend(handles=lines, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False)
    return ax


def learning_curves(
    runs: Mapping[str, HasRows | History],
    score: str | None = None,
    *,
    value: str = "log_likelihood",
    x: str = "passes",
    log: bool = False,
    axes: Sequence[Axes] | None = None,
) -> list[Axes]:
    """Several runs against each other, as far as they have come: a score, and below it the likelihood.

    :param runs: by name, a fit or a history as :func:`learning_curve` takes.
    :param score: the column of the score; without one only the likelihood is drawn.
    :param value: the column of the likelihood.
    :param x: the column of the time: ``"passes"`` over the data (a run that does not count them makes one an
        iteration), ``"seconds"``, or another.
    :param log: stretch the early part of the time; what was found before any had passed is left out.
    :param axes: where to draw, one for each panel; by default a new figure.
    :returns: the axes of the score, if there is one, and of the likelihood.

    >>> import pyro_unsup as pu
    >>> model, data = pu.models.Tagger(tags=2, vocab=2), [[0, 1], [1, 1]]
    >>> runs = {f"seed {seed}": pu.EM(model).run(data, iterations=3, seed=seed) for seed in (0, 1)}
    >>> [line.get_label() for line in pu.plot.learning_curves(runs, x="iteration")[0].lines]
    ['seed 0', 'seed 1']
    """
    names = [*([] if score is None else [score]), value]
    if not runs:
        raise UnsupError("there is no run to draw")
    if axes is not None and len(axes) != len(names):
        raise UnsupError(f"expected axes for {len(names)} panels ({', '.join(names)}), found {len(axes)}")
    curves = {
        run: {name: _points(_table(history), run, x, name, log) for name in names} for run, history in runs.items()
    }
    if axes is None:
        import matplotlib.pyplot as plt

        size = (6.4, 1.2 + 2.4 * len(names))
        axes = [*plt.subplots(len(names), figsize=size, sharex=True, squeeze=False, layout="constrained")[1][:, 0]]
    from matplotlib.ticker import FuncFormatter

    for ax, name in zip(axes, names, strict=True):
        for run, found in curves.items():
            marker = "o" if len(found[name][0]) <= MARKERS_UP_TO else ""
            ax.plot(*found[name], marker=marker, markersize=3.5, label=run)
        _name_axis(ax, name)
        if log:
            ax.set_xscale("log")
            ax.xaxis.set_major_formatter(FuncFormatter(lambda time, _: f"{time:g}"))
        ax.grid(axis="y", alpha=0.25, linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel(x.replace("_", " "), parse_math=False)
    legend = axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=min(len(runs), 4), frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return list(axes)


def _points(
    history: History, run: str, x: str, name: str, log: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The finite points of one curve."""
    try:
        y = _column(history, name)
        time = _column(history, "iteration" if x == "passes" and not _has(history, x) else x)
    except UnsupError as error:
        raise UnsupError(f"run {run!r}: {error}") from None
    if len(time) != len(y):
        raise UnsupError(f"run {run!r}: {name!r} has {len(y)} values, expected {len(time)}, one for each of {x!r}")
    present = np.isfinite(time) & np.isfinite(y) & ((time > 0) | (not log))
    if not present.any():
        raise UnsupError(f"run {run!r}: history has no finite value of {name!r} to draw")
    return time[present], y[present]


def _line(ax: Axes, columns: Mapping[str, NDArray[np.float64]], name: str, colour: str) -> Line2D:
    """Draw one column against the iterations and name its axis."""
    present = np.isfinite(columns["iteration"]) & np.isfinite(columns[name])
    marker = "o" if present.sum() <= MARKERS_UP_TO else ""
    x, y = columns["iteration"][present], columns[name][present]
    (line,) = ax.plot(x, y, color=colour, marker=marker, markersize=3.5, label=name.replace("_", " "))
    _name_axis(ax, name)
    return line


def _name_axis(ax: Axes, name: str) -> None:
    from matplotlib.ticker import FuncFormatter

    ax.set_ylabel(name.replace("_", " "), parse_math=False)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick(value, ax.yaxis.get_majorticklocs())))


def _tick(value: float, ticks: NDArray[np.float64]) -> str:
    """A number with thousands separators and just the decimals that tell the ticks of its axis apart."""
    step = float(np.diff(ticks).min()) if len(ticks) > 1 else 1.0
    decimals = next((d for d in range(9) if abs(round(step, d) - step) < step / 100), 9)
    return f"{value:,.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def _table(history: HasRows | History) -> History:
    is_table = isinstance(history, Sequence) or hasattr(history, "keys")  # a data frame may have a column of any name
    return history if is_table else history.rows  # type: ignore[union-attr]


def _has(history: History, name: str) -> bool:
    if isinstance(history, Sequence):
        return any(name in row for row in history)
    return any(name == str(key) for key in history)


def _column(history: History, name: str) -> NDArray[np.float64]:
    """One column as floats, shape (rows,); a missing value is NaN."""
    values: Any
    if isinstance(history, Sequence):
        names = list(dict.fromkeys(key for row in history for key in row))
        values = [row.get(name) for row in history]
    else:
        names = [str(key) for key in history]
        values = history[name] if name in names else []
    if names and name not in names:
        raise UnsupError(f"history has no column {name!r}, it has {', '.join(names)}")
    if len(values) == 0:
        raise UnsupError("history is empty: there is no iteration to draw")
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
