"""What was found, beside what was published: tables in Markdown, everything in JSON, and figures."""

from __future__ import annotations

import json
import platform
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..data.files import write_text
from .experiment import Column, Found, Published, Row, Table
from .figures import draw
from .runner import Finished, plain

TABLES, EVERYTHING = "tables.md", "results.json"
WIDTH = 120  # of running text


def write(state: Finished, out: Path) -> list[Path]:
    """Write all of it, and tell which files that are."""
    with write_text(out / TABLES) as stream:
        stream.write(markdown(state))
    with write_text(out / EVERYTHING) as stream:
        json.dump(record(state), stream, allow_nan=False)
        stream.write("\n")
    figures = (draw(table, found_in(state, table), out, state.plan.small) for table in state.tables)
    return [out / TABLES, out / EVERYTHING, *(path for paths in figures for path in paths)]


def found_in(state: Finished, table: Table) -> dict[str, dict[int, Found]]:
    """What the rows of a table have found, by name and seed, with what that says of rows beside each other."""
    found = {row.name: state.of(table, row) for row in table.rows}
    if table.compare is None:
        return found
    once = {row.name for row in table.rows if row.trials == 1}
    seeds = sorted({seed for runs in found.values() for seed in runs})
    added = {}
    for seed in seeds:
        beside = {name: runs[0 if name in once else seed] for name, runs in found.items()
                  if (0 if name in once else seed) in runs}  # fmt: skip
        added[seed] = plain(table.compare(beside))
    return {
        name: {seed: {**one, **added[seed].get(name, {})} for seed, one in runs.items()} for name, runs in found.items()
    }


def mean_and_deviation(values: Sequence[Any]) -> Published | None:
    """Mean and sample standard deviation of numbers. One number, or a text, stays as it is.

    >>> from pyro_unsup.reproduce.report import mean_and_deviation
    >>> mean_and_deviation([1.0, 3.0]), mean_and_deviation([2]), mean_and_deviation(["inf", "inf"])
    ((2.0, 1.4142135623730951), 2.0, 'inf')
    """
    if not values:
        return None
    if not all(isinstance(value, int | float) for value in values):
        return "; ".join(dict.fromkeys(map(str, values)))
    if len(values) == 1:
        return float(values[0])
    return float(np.mean(values)), float(np.std(values, ddof=1))


def markdown(state: Finished) -> str:
    """All tables, the figures of the paper and how far ours are from them below each row."""
    plan = state.plan
    told = [f"# {plan.paper.title}", "", f"By pyro_unsup {__version__}, `{plan.command}`."]
    if plan.small:
        told += ["", "**A small part of the text and few iterations: to see that it runs, not for the figures.**"]
    if plan.paper.about:
        told += ["", textwrap.fill(plan.paper.about, WIDTH)]
    for table in state.tables:
        told += ["", f"## {table.title}", "", textwrap.fill(table.about, WIDTH), "", *_lines(state, table)]
    return "\n".join(told) + "\n"


def _lines(state: Finished, table: Table) -> list[str]:
    found = found_in(state, table)
    cells = [["", *(column.title for column in table.columns)]]
    notes = []
    for row in table.rows:
        runs, wanted = found[row.name], state.plan.trials(row)
        if (table.name, row.name) in state.plan.left_out:
            continue
        name = row.name if len(runs) == wanted else f"{row.name} ({len(runs)} of {wanted} runs)"
        ours = {c.name: mean_and_deviation([one[c.name] for one in runs.values() if c.name in one])
                for c in table.columns}  # fmt: skip
        cells.append([name, *(_shown(ours[c.name], c) for c in table.columns)])
        if row.published:
            cells.append(["*paper*", *(_shown(row.published.get(c.name), c) for c in table.columns)])
            apart = [_difference(ours[c.name], row.published.get(c.name), c) for c in table.columns]
            cells += [["*difference*", *apart]] if any(apart) else []
        for seed in range(wanted):
            what = state.failed.get((table.name, row.name, seed))
            notes += [] if what is None else [f"* {row.name}, seed {seed}, failed: {what}"]
    if any(len(runs) > 1 for runs in found.values()):
        notes.insert(0, "Mean and, in brackets, standard deviation (of a sample) over runs.")
    reasons = dict[str, list[str]]()
    for (of, name), why in state.plan.left_out.items():
        if of == table.name:
            reasons.setdefault(why, []).append(name)
    notes += [f"* Left out, {why}: {'; '.join(names)}" for why, names in reasons.items()]
    return [*_aligned(cells), *([""] if notes else []), *notes]


def _aligned(cells: list[list[str]]) -> list[str]:
    """Rows of Markdown that can also be read as they are."""
    widths = [max(2, *(len(row[i]) for row in cells)) for i in range(len(cells[0]))]  # a rule needs two letters
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    rows = [[row[0].ljust(widths[0]), *(x.rjust(w) for x, w in zip(row[1:], widths[1:], strict=True))] for row in cells]
    return [f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])]


def _shown(value: Published | None, column: Column) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, tuple):
        return f"{value[0]:,.{column.digits}f} ({value[1]:,.{column.digits}f})"
    return f"{value:,.{column.digits}f}"


def _difference(ours: Published | None, theirs: Published | None, column: Column) -> str:
    both = [one[0] if isinstance(one, tuple) else one for one in (ours, theirs)]
    if any(one is None or isinstance(one, str) for one in both):
        return ""
    return f"{both[0] - both[1]:+,.{column.digits}f}"  # type: ignore[operator]


def record(state: Finished) -> dict[str, Any]:
    """Everything, for JSON: settings, versions, what was published, and every run."""
    import torch

    plan = state.plan
    return {
        "paper": plan.paper.name,
        "title": plan.paper.title,
        "small": plan.small,
        "seeds": plan.seeds,
        "data": str(plan.corpora.folder),
        "versions": {
            "pyro_unsup": __version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "tables": [_table_record(state, table) for table in state.tables],
    }


def _table_record(state: Finished, table: Table) -> dict[str, Any]:
    found = found_in(state, table)
    return {
        "name": table.name,
        "title": table.title,
        "about": table.about,
        "columns": {column.name: column.title for column in table.columns},
        "rows": [_row_record(state, table, row, found[row.name]) for row in table.rows],
    }


def _row_record(state: Finished, table: Table, row: Row, runs: dict[int, Found]) -> dict[str, Any]:
    means: dict[str, float | str] = {}
    deviations: dict[str, float] = {}
    for column in table.columns:
        one = mean_and_deviation([run[column.name] for run in runs.values() if column.name in run])
        if one is not None:
            means[column.name] = one[0] if isinstance(one, tuple) else one
        if isinstance(one, tuple):
            deviations[column.name] = one[1]
    failed = {seed: what for (t, r, seed), what in state.failed.items() if (t, r) == (table.name, row.name)}
    return {
        "name": row.name,
        "published": dict(row.published),
        "mean": means,
        "deviation": deviations,
        "runs": [{"seed": seed, **one} for seed, one in runs.items()],
        "failed": failed,
        "left_out": state.plan.left_out.get((table.name, row.name)),
    }
