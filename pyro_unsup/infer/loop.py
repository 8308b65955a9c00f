"""The one loop: progress, stopping, and refusing to go on when something is wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Protocol

from tqdm.auto import tqdm

from ..errors import FitError

#: Progress appears once a run has taken this long.
SHOW_AFTER_SECONDS = 2


@dataclass
class Info:
    """What an iteration found, before its update.

    ``change`` is relative to the objective before it (to 1 if that is closer to zero), and infinite where there is none
    to compare with. Objectives can be compared within a ``stage``, such as one temperature of a schedule.

    :param iteration: updates made before it.
    :param objective: what is maximised.
    :param log_likelihood: of the data, without log priors.
    :param seconds: since the run began.
    :param beta: the inverse temperature, of engines that have one.
    :param scores: what the ``score`` of a run returned, by name.

    >>> import pyro_unsup as pu
    >>> seen = []
    >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1]], iterations=2, callbacks=[seen.append])
    >>> [info.iteration for info in seen], seen[-1].objective == fit.objective
    ([0, 1, 2], True)
    """

    iteration: int
    objective: float
    log_likelihood: float
    change: float = math.inf
    seconds: float = 0.0
    beta: float | None = None
    stage: int | None = None
    scores: dict[str, float] = field(default_factory=dict)

    def flat(self) -> dict[str, float]:
        """One row of a history, the scores as columns beside the others."""
        row = {key: value for key, value in asdict(self).items() if value is not None}
        scores = row.pop("scores")
        return {**row, **{name: score for name, score in scores.items() if name not in row}}

    @staticmethod
    def of(row: Mapping[str, float]) -> Info:
        """Back from a row of a history."""
        own = {f.name for f in fields(Info)}
        known = {key: value for key, value in row.items() if key in own}
        scores = {key: value for key, value in row.items() if key not in own}
        return Info(**{**known, "iteration": int(row["iteration"])}, scores=scores)  # type: ignore[arg-type]


#: Called after every iteration; a true answer stops the run.
Callback = Callable[[Info], object]


class Engine(Protocol):
    """Something that can be iterated: look at where it is, then move on."""

    def look(self) -> Info:
        """Evaluate the current weights (the E step)."""

    def move(self) -> None:
        """Update them (the M step)."""

    def settled(self, info: Info, tolerance: float) -> bool:
        """Whether nothing is left to be done."""


class Checkpoints:
    """Keeps what has been reached: written every few seconds, when a run is interrupted, and at its end.

    :param snapshot: takes what the iterations found and returns a function that writes it, given why the run is there.
    """

    def __init__(self, snapshot: Callable[[list[Info]], Callable[[str], None]], seconds: float = 10.0) -> None:
        self._snapshot, self._seconds = snapshot, seconds
        self._last = time.perf_counter()
        self._write: Callable[[str], None] | None = None
        self._written: str | None = None

    def keep(self, rows: list[Info]) -> None:
        """Note the state that these rows end with, before anything moves on."""
        self._write, self._written = self._snapshot(list(rows)), None
        if time.perf_counter() - self._last >= self._seconds:
            self.flush()

    def flush(self, reason: str = "checkpoint") -> None:
        """Write the last state noted, unless it has been written for the same reason."""
        if self._write is not None and self._written != reason:
            self._write(reason)
            self._written = reason
            self._last = time.perf_counter()


def iterate(
    engine: Engine,
    rows: list[Info],
    iterations: int,
    tolerance: float,
    may_fall: float,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    checkpoint: Checkpoints | None = None,
) -> tuple[list[Info], str]:
    """Run until the objective's relative change is at most ``tolerance``, or for a number of updates.

    The last weights have been looked at: the last row belongs to them.

    :param rows: what earlier iterations found, if this run goes on from them.
    :param may_fall: relative fall of the objective that rounding may explain; more is an error.
    """
    rows, moves = list(rows), 0
    began = time.perf_counter() - (rows[-1].seconds if rows else 0.0)
    with tqdm(total=iterations, delay=SHOW_AFTER_SECONDS, disable=not progress, unit="it") as bar, kept(checkpoint):
        while True:
            info = engine.look()
            info.seconds = time.perf_counter() - began
            # A start with zeros may have no prior probability (-inf); the first update mends that.
            if math.isnan(info.objective) or info.objective == math.inf or (rows and info.objective == -math.inf):
                raise FitError(f"iteration {info.iteration}: the objective is {info.objective}")
            if rows and rows[-1].objective > -math.inf and rows[-1].stage == info.stage:
                before = rows[-1].objective
                size = max(abs(before), 1.0)  # data explained perfectly have objective 0, up to rounding
                info.change = abs(info.objective - before) / size
                if info.objective < before - may_fall * size:
                    raise FitError(
                        f"iteration {info.iteration}: the objective fell from {before!r} to {info.objective!r}, a "
                        f"relative fall of {info.change:.1e}. EM cannot do that: look for a model that changes between "
                        "runs, weights used outside Categorical and structured distributions, or an inexact M step"
                    )
            rows.append(info)
            bar.set_postfix_str(f"objective {info.objective:.3f}, change {info.change:.1e}", refresh=False)
            if checkpoint is not None:
                checkpoint.keep(rows)
            answers = [callback(info) for callback in callbacks]  # every one hears of every iteration
            reason = _reason(engine.settled(info, tolerance), any(answers), moves >= iterations)
            if reason is not None:
                if checkpoint is not None:
                    checkpoint.flush(reason)
                return rows, reason
            engine.move()
            moves += 1
            bar.update()


def _reason(settled: bool, stopped: bool, over: bool) -> str | None:
    """Why a run ends here, if it does."""
    if settled:
        return "converged"
    if stopped:
        return "stopped by a callback"
    return "iteration cap" if over else None


@contextmanager
def kept(checkpoint: Checkpoints | None) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if checkpoint is not None:
            checkpoint.flush()
        raise
