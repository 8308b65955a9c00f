"""Running counts of one table, as the passes of stepwise EM change them in place."""

from __future__ import annotations

from dataclasses import dataclass

from ..array import Array


@dataclass(frozen=True)
class RunningCounts:
    """Counts of a table up to a scale that all tables share. Weights are ``cells + extra / scale``, over their rows.

    :param cells: (outcomes, *rows) float64, one outcome of all rows after the other.
    :param row_sums: (*rows,).
    :param extra: pseudo-counts of every cell.
    """

    cells: Array
    row_sums: Array
    extra: float
