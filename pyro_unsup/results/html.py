"""How a fit shows itself in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .fit import Fit


def summary(fit: Fit) -> str:
    """A small table: the model, how training went, and the tables that were learned."""
    report = fit.report
    rows = [
        ("model", repr(fit.model)),
        ("engine", ", ".join(f"{key} {value}" for key, value in fit.config.items() if key != "labels")),
        ("outcome", f"{report.reason} after {report.iterations} iterations, {report.seconds:.1f} s"),
        ("objective", f"{report.objective:,.4f}"),
        ("seed", str(fit.seed)),
    ]
    if len(report.restarts) > 1:
        low, mean, high = report.spread
        rows.append(("restarts", f"{len(report.restarts)}: lowest {low:,.2f}, mean {mean:,.2f}, highest {high:,.2f}"))
    rows += [(f"table {name}", " \N{MULTIPLICATION SIGN} ".join(map(str, w.shape))) for name, w in fit.weights.items()]
    cells = "".join(
        f"<tr><th style='text-align:left'>{escape(key)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
        for key, value in rows
    )
    return f"<table><caption>Fit</caption>{cells}</table>"
