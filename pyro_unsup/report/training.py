"""How training went: the curve of the objective, and where the restarts ended."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from ..plot.curves_svg import learning_curve_svg, restarts_svg
from ..results.report import unused_rows
from .markup import Html, element, join

if TYPE_CHECKING:
    from ..results import Fit


def training(fit: Fit) -> Html:
    """The part of a page about the training of a fit."""
    report = fit.report
    ended = {
        "converged": f"Training converged after {report.iterations:,} iterations",
        "iteration cap": f"Training used all of its {report.iterations:,} iterations, and had not converged",
    }.get(str(report.reason), f"Training ended after {report.iterations:,} iterations ({report.reason})")
    change = (
        f"The objective is {report.objective:,.4f}. It changed by {report.change:.1e} of itself in the last iteration."
    )
    unused = [f"Table {name}: {unused_rows(many)}. This is harmless." for name, many in report.unvisited.items()]
    return join([
        element("p", f"{ended}, in {seconds(report.seconds)}. {change if math.isfinite(report.change) else ''}"),
        curve(fit),
        restarts(fit),
        [element("p", one, class_="soft") for one in unused],
    ])  # fmt: skip


def curve(fit: Fit) -> Html | None:
    """The objective by iteration; faint lines are other starts, where they are still known."""
    if not any(math.isfinite(row.get("objective", math.nan)) for row in fit.rows):
        return None
    others = [run.rows for run in fit.runs if run.rows != fit.rows]
    picture = learning_curve_svg(fit.rows, others)
    said = "The objective by iteration." + (" Faint lines are the other starts." if others else "")
    return element("figure", picture, element("figcaption", said))


def restarts(fit: Fit) -> Html | None:
    """Where the restarts ended; nothing if there was but one start."""
    found = fit.report.restarts
    if len(found) < 2 or not any(map(math.isfinite, found)):
        return None
    low, mean, high = fit.report.spread
    spread = f", standard deviation {statistics.stdev(found):,.3f}" if math.isfinite(low) else ""
    after = f" after {fit.report.probe} iterations" if fit.report.probe else ""
    said = (
        f"{len(found)} starts from different seeds; the best one (seed {fit.report.seed}) is this "
        f"model. Objectives{after}: "
        f"lowest {low:,.2f}, mean {mean:,.2f}, highest {high:,.2f}{spread}."
    )
    return join([element("h3", "Restarts"), element("figure", restarts_svg(found), element("figcaption", said))])


def seconds(time: float) -> str:
    """A time for people.

    >>> from pyro_unsup.report.training import seconds
    >>> seconds(0.04), seconds(3.21), seconds(200)
    ('0.04 s', '3.2 s', '3 min 20 s')
    """
    if time < 60:
        return f"{time:.1f} s" if time >= 1 else f"{time:.2f} s"
    minutes, rest = divmod(round(time), 60)
    return f"{minutes} min {rest} s"
