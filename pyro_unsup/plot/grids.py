"""A result over two settings at once, as a heat map: which step size goes with which size of mini-batch?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.errors import UnsupError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = (0.62, 0.34)  # inches, room for a number of five digits


def heat_map(
    rows: Sequence[Mapping[str, Any]],
    value: str,
    x: str = "batch_size",
    y: str = "power",
    ax: Axes | None = None,
    *,
    digits: int = 3,
) -> Axes:
    """One number for each pair of settings, darker where it is larger; the best of each column is in bold.

    Runs with the same settings (other seeds) are averaged; a pair without a run, or with one that failed (None, NaN or
    infinite), stays white.

    :param rows: one dict a run, with the settings and what came of them.
    :param value: the column to draw, such as a score or a log-likelihood.
    :param x: the setting along the bottom, in order.
    :param y: the setting along the side, the smallest on top.
    :param ax: where to draw; by default a new figure, sized to the table.
    :param digits: significant digits of the numbers.

    >>> from pyro_unsup.plot import heat_map
    >>> rows = [{"power": 0.6, "batch_size": 1, "score": 0.5}, {"power": 0.6, "batch_size": 10, "score": 0.7}]
    >>> [text.get_text() for text in heat_map(rows, "score").texts]
    ['0.500', '0.700']
    """
    columns, lines, table = _table(rows, value, x, y)
    if ax is None:
        import matplotlib.pyplot as plt

        width, height = 2.2 + CELL[0] * len(columns), 1.3 + CELL[1] * len(lines)
        ax = plt.subplots(figsize=(width, height), layout="constrained")[1]
    image = ax.imshow(table, cmap="Greys", aspect="auto")
    low, high = np.nanmin(table), np.nanmax(table)
    for row, column in zip(*np.nonzero(np.isfinite(table)), strict=True):
        number = table[row, column]
        ax.text(
            column,
            row,
            f"{number:#.{digits}g}".rstrip(".").replace("-", "\N{MINUS SIGN}"),
            ha="center",
            va="center",
            fontsize="small",
            color="white" if number - low > 0.55 * (high - low) else "black",
            fontweight="bold" if number == np.nanmax(table[:, column]) else "normal",
        )
    ax.set_xticks(range(len(columns)), [f"{one:g}" for one in columns])
    ax.set_yticks(range(len(lines)), [f"{one:g}" for one in lines])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    for label, name in ((ax.set_xlabel, x), (ax.set_ylabel, y), (ax.set_title, value)):
        label(name.replace("_", " "), parse_math=False)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8, pad=0.02)
    bar.outline.set_visible(False)
    return ax


def _table(
    rows: Sequence[Mapping[str, Any]], value: str, x: str, y: str
) -> tuple[list[float], list[float], NDArray[np.float64]]:
    """The settings in order, and the mean of the value for each pair, NaN where there is none."""
    if len(rows) == 0:
        raise UnsupError("there is no row to draw")
    for name in (value, x, y):
        lacking = next((i for i, row in enumerate(rows) if name not in row), None)
        if lacking is not None:
            raise UnsupError(f"row {lacking} has no column {name!r}, it has {', '.join(map(str, rows[lacking]))}")
    columns, lines = sorted({row[x] for row in rows}), sorted({row[y] for row in rows})
    found: dict[tuple[float, float], list[float]] = {}
    for row in rows:
        found.setdefault((row[y], row[x]), []).append(np.nan if row[value] is None else float(row[value]))
    table = np.array([[np.mean(found.get((line, column), [np.nan])) for column in columns] for line in lines])
    table[~np.isfinite(table)] = np.nan
    if np.isnan(table).all():
        raise UnsupError(f"no row has a finite value of {value!r} to draw")
    return columns, lines, table
