"""Figures of a table: bars of what was found with what was published beside them, and curves."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .experiment import Column, Curve, Found, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OURS, PAPER = "C0", "0.72"
DPI = 130
ROW, PANEL, MARGIN = 0.36, 3.4, 1.5  # inches: height of a row, width of a panel, and what titles take
LETTER, TITLE_LETTER = 0.075, 0.09  # width of a letter in the names of rows, and in the title
ASIDE = 1.7  # what names or a legend take beside the axes, over which the title is
THICK = 0.38  # of a bar, where two share a row


def draw(table: Table, found: Mapping[str, Mapping[int, Found]], out: Path, small: bool = False) -> list[Path]:
    """Draw what there is to draw, and tell which files were written.

    :param small: whether only a part of the text was used, which the title then says.
    """
    from matplotlib.figure import Figure

    written, title = [], table.title + (" (a small part of the text)" if small else "")
    rows = [row for row in table.rows if found[row.name]]
    panels = [column for column in table.drawn if any(_numbers(found[row.name], column.name) for row in rows)]
    if panels:
        names = LETTER * max(len(row.name) for row in rows)
        size = names + PANEL * len(panels), MARGIN + ROW * len(rows)
        figure = Figure(figsize=size, dpi=DPI, layout="constrained")
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for ax, column in zip(axes, panels, strict=True):
            _bars(ax, column, {row.name: (found[row.name], row.published.get(column.name)) for row in rows})
        figure.legend(*_handles(axes), loc="outside lower center", ncols=2, frameon=False)
        written.append(_save(figure, title, out / f"{table.name}.png"))
    for curve in table.curves:
        lines = {row.name: [run[curve.name] for run in found[row.name].values() if run.get(curve.name)] for row in rows}
        lines = {name: runs for name, runs in lines.items() if runs}
        if lines:
            figure = Figure(figsize=(8.4, 4.4), dpi=DPI, layout="constrained")
            _curves(figure.subplots(), curve, lines)
            figure.legend(loc="outside right center", fontsize="x-small", frameon=False, handlelength=3)
            written.append(_save(figure, title, out / f"{table.name}-{curve.name}.png"))
    return written


def _save(figure: Any, title: str, path: Path) -> Path:
    room = figure.get_figwidth() - ASIDE
    figure.suptitle(textwrap.fill(title, int(room / TITLE_LETTER)), fontsize="medium")
    figure.savefig(path)
    return path


def _numbers(runs: Mapping[int, Found], name: str) -> list[float]:
    return [run[name] for run in runs.values() if isinstance(run.get(name), int | float)]


def _bars(ax: Axes, column: Column, rows: Mapping[str, tuple[Mapping[int, Found], Any]]) -> None:
    """A bar for each row, and below it a paler one where there is a published number. Whiskers are deviations."""
    ours, theirs = [], []
    for place, (runs, published) in enumerate(rows.values()):
        values = _numbers(runs, column.name)
        paper = published if isinstance(published, tuple) else (published, None)
        beside = isinstance(paper[0], int | float)
        if values:
            deviation = np.std(values, ddof=1) if len(values) > 1 else None
            ours.append((place - beside * THICK / 2, np.mean(values), deviation))
        if beside:
            theirs.append((place + THICK / 2, *paper))
    for bars, colour, label in ((ours, OURS, "ours"), (theirs, PAPER, "published")):
        if bars:
            ax.barh([bar[0] for bar in bars], [bar[1] for bar in bars], THICK, color=colour, label=label)
            for place, length, deviation in bars:
                if deviation:
                    ax.errorbar(length, place, xerr=deviation, color="0.2", elinewidth=1, capsize=2)
                ax.annotate(f" {length:,.{column.digits}f}", (length + (deviation or 0), place), va="center",
                            fontsize="xx-small")  # fmt: skip
    ax.margins(x=0.16)
    ax.set_ylim(len(rows) - 0.5, -0.5)  # the first row on top
    ax.set_yticks(range(len(rows)), list(rows), fontsize="x-small")
    ax.set_xlabel(column.title)
    ax.tick_params(axis="x", labelsize="x-small")
    ax.spines[["top", "right"]].set_visible(False)


def _handles(axes: Any) -> tuple[list[Any], list[str]]:
    found: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def _curves(ax: Axes, curve: Curve, lines: Mapping[str, list[list[tuple[float, float]]]]) -> None:
    """A line a row: the mean over runs where all have a point, the runs themselves paler behind it."""
    for number, (name, runs) in enumerate(lines.items()):
        colour, dashes = f"C{number % 10}", ("-", "--", ":", "-.")[number // 10 % 4]
        shared = sorted(set.intersection(*({x for x, _ in run} for run in runs)))
        if len(runs) > 1:
            for run in runs:
                ax.plot(*zip(*run, strict=True), color=colour, alpha=0.25, linewidth=0.8)
        by_x = [dict(run) for run in runs]
        means = [np.mean([points[x] for points in by_x]) for x in shared]
        ax.plot(shared, means, dashes, color=colour, label=name, marker="." if len(shared) < 40 else None)
    if curve.log:
        ax.set_xscale("log")
    ax.set_xlabel(curve.x)
    ax.set_ylabel(curve.y)
    ax.grid(axis="y", alpha=0.25, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
