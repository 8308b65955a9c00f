"""The one loop: progress, stopping, and refusing to go on when something is wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tqdm.auto import tqdm

from ..errors import FitError

#: Progress appears once a run has taken this long.
SHOW_AFTER_SECONDS = 2


@dataclass
class Info:
    """What an iteration found, before its update.

    ``change`` is relative to the objective before it (to 1 if that is closer to zero), and infinite at the first.
    """

    iteration: int
    objective: float
    log_likelihood: float
    change: float = math.inf
    seconds: float = 0.0


#: Called after every iteration; a true answer stops the run.
Callback = Callable[[Info], object]


class Engine(Protocol):
    """Something that can be iterated: look at where it is, then move on."""

    def look(self) -> Info:
        """Evaluate the current weights (the E step)."""

    def move(self) -> None:
        """Update them (the M step)."""


def iterate(
    engine: Engine,
    iterations: int,
    tolerance: float,
    may_fall: float,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
) -> tuple[list[Info], str]:
    """Run until the objective's relative change is at most ``tolerance``, or for a number of updates.

    The last weights have been looked at: the last row belongs to them.

    :param may_fall: relative fall of the objective that rounding may explain; more is an error.
    """
    rows: list[Info] = []
    began = time.perf_counter()
    with tqdm(total=iterations, delay=SHOW_AFTER_SECONDS, disable=not progress, unit="it") as bar:
        while True:
            info = engine.look()
            info.seconds = time.perf_counter() - began
            # A start with zeros may have no prior probability (-inf); the first update mends that.
            if math.isnan(info.objective) or info.objective == math.inf or (rows and info.objective == -math.inf):
                raise FitError(f"iteration {info.iteration}: the objective is {info.objective}")
            if rows and rows[-1].objective > -math.inf:
                before = rows[-1].objective
                size = max(abs(before), 1.0)  # data explained perfectly have objective 0, up to rounding
                info.change = abs(info.objective - before) / size
                if info.objective < before - may_fall * size:
                    raise FitError(
                        f"iteration {info.iteration}: the objective fell from {before!r} to {info.objective!r}, a "
                        f"relative fall of {info.change:.1e}. EM cannot do that: look for a model that changes between "
                        "runs, weights used other than by Categorical or a structured distribution, or an inexact M step"
                    )
            rows.append(info)
            bar.set_postfix_str(f"objective {info.objective:.3f}, change {info.change:.1e}", refresh=False)
            answers = [callback(info) for callback in callbacks]  # every one hears of every iteration
            if info.change <= tolerance:
                return rows, "converged"
            if any(answers):
                return rows, "stopped by a callback"
            if len(rows) > iterations:
                return rows, "iteration cap"
            engine.move()
            bar.update()
