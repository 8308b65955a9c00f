"""How a run of training ended, in words and numbers."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from enum import StrEnum

from ..errors import UnsupError


class Reason(StrEnum):
    """Why a run of training ended, or where it is if it has not.

    >>> import pyro_unsup as pu
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1], [1, 1]], iterations=3)
    >>> fit.report.reason is pu.results.Reason.ITERATION_CAP, str(fit.report.reason)
    (True, 'iteration cap')
    """

    CONVERGED = "converged"
    ITERATION_CAP = "iteration cap"
    STOPPED = "stopped by a callback"
    STREAM_ENDED = "end of the stream"
    CHECKPOINT = "checkpoint"  #: it has not ended: a checkpoint of it was written
    RUNNING = "running"  #: it has not ended: a score is asked of it
    SO_FAR = "so far"  #: it is driven by single steps
    NOT_STARTED = "not started"


@dataclass
class Report:
    """How training went.

    :param reason: why it ended; a string is looked up in :class:`Reason`.
    :param iterations: updates of the weights.
    :param objective: what was maximised, at the end.
    :param change: relative change of the objective in the last iteration.
    :param tolerance: the change that was asked for.
    :param seconds: that it took.
    :param seed: of the start; with restarts, of the best one.
    :param unvisited: by table, rows that no data reached, left as they started.
    :param restarts: final objectives of all restarts, in the order of their seeds; those of probes, if there were some.
    :param probe: iterations of each probe, the best of which went on; 0 if all restarts ran to their end.

    >>> import pyro_unsup as pu
    >>> engine = pu.EM(pu.models.Tagger(tags=2, vocab=2))
    >>> report = engine.run([[0, 1], [1, 1]], iterations=3, restarts=2, processes=1).report
    >>> str(report.reason), report.converged, len(report.restarts)
    ('iteration cap', False, 2)
    >>> report.spread[0] <= report.spread[2] == report.objective
    True
    """

    reason: Reason
    iterations: int
    objective: float
    change: float
    tolerance: float
    seconds: float
    seed: int
    unvisited: dict[str, int] = field(default_factory=dict)
    restarts: list[float] = field(default_factory=list)
    probe: int = 0

    def __post_init__(self) -> None:
        try:
            self.reason = Reason(self.reason)
        except ValueError:
            known = ", ".join(map(repr, map(str, Reason)))
            raise UnsupError(f"expected one of the reasons {known}, actual {self.reason!r:.80}") from None

    @property
    def converged(self) -> bool:
        """Whether the objective had stopped changing."""
        return self.reason is Reason.CONVERGED

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
            after = f" after {self.probe} iterations" if self.probe else ""
            spread = statistics.stdev(self.restarts) if math.isfinite(low) else math.inf
            lines.append(
                f"best of {len(self.restarts)} restarts{after} (seed {self.seed}): lowest {low:.6f}, "
                f"mean {mean:.6f}, highest {high:.6f}, standard deviation {spread:.6f}"
            )
        lines += [f"table '{name}': {unused_rows(n)} (harmless)" for name, n in self.unvisited.items()]
        return "\n".join(lines)


def unused_rows(many: int) -> str:
    """What became of rows of a table that no data reached.

    >>> from pyro_unsup.results.report import unused_rows
    >>> unused_rows(1)
    '1 row was never used by the data, and keeps its start'
    """
    if many == 1:
        return "1 row was never used by the data, and keeps its start"
    return f"{many:,} rows were never used by the data, and keep their start"
