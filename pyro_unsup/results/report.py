"""How a run of training ended, in words and numbers."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from enum import StrEnum


class Reason(StrEnum):
    """Why a run ended, or is where it is.

    >>> import pyro_unsup as pu
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1]], iterations=1)
    >>> fit.report.reason == pu.results.Reason.CAP
    True
    """

    CONVERGED = "converged"
    CAP = "iteration cap"
    STOPPED = "stopped by a callback"
    CHECKPOINT = "checkpoint"  #: unfinished
    STREAM_END = "end of the stream"
    SO_FAR = "so far"
    NOT_STARTED = "not started"


@dataclass
class Report:
    """How training went.

    :param reason: why the run ended, a :class:`.Reason`.
    :param iterations: updates of the weights.
    :param objective: what was maximised, at the end.
    :param change: relative change of the objective in the last iteration.
    :param tolerance: the change that was asked for.
    :param seconds: that it took.
    :param seed: of the start; with restarts, of the best one.
    :param unvisited: by table, rows that no data reached, left as they started.
    :param restarts: final objectives of all restarts, in the order of their seeds.

    >>> import pyro_unsup as pu
    >>> engine = pu.EM(pu.models.Tagger(tags=2, vocab=2))
    >>> report = engine.run([[0, 1], [1, 1]], iterations=3, restarts=2, processes=1).report
    >>> report.reason, report.converged, len(report.restarts)
    ('iteration cap', False, 2)
    >>> report.spread[0] <= report.spread[2] == report.objective
    True
    """

    reason: str
    iterations: int
    objective: float
    change: float
    tolerance: float
    seconds: float
    seed: int
    unvisited: dict[str, int] = field(default_factory=dict)
    restarts: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.reason in set(Reason):  # a saved one is read as a string
            self.reason = Reason(self.reason)

    @property
    def converged(self) -> bool:
        """Whether the objective had stopped changing."""
        return self.reason == Reason.CONVERGED

    @property
    def spread(self) -> tuple[float, float, float]:
        """Lowest, mean and highest final objective over the restarts."""
        found = self.restarts or [self.objective]
        return min(found), statistics.fmean(found), max(found)

    def __str__(self) -> str:
        lines = [
            f"{self.reason} after {self.iterations} iterations, {self.seconds:.1f} s",
            f"objective {self.objective:.6f}, last relative change {self.change:.2e} (tolerance {self.tolerance:.0e})",
        ]
        if len(self.restarts) > 1:
            low, mean, high = self.spread
            spread = statistics.stdev(self.restarts) if math.isfinite(low) else math.inf
            lines.append(
                f"best of {len(self.restarts)} restarts (seed {self.seed}): lowest {low:.6f}, "
                f"mean {mean:.6f}, highest {high:.6f}, standard deviation {spread:.6f}"
            )
        lines += [
            f"table '{name}': {n} rows were never visited and kept their start" for name, n in self.unvisited.items()
        ]
        return "\n".join(lines)
