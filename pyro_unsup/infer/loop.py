"""The one loop: progress, checkpoints, stopping, and refusing to go on when something is wrong."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from os import PathLike
from typing import Any, Protocol

from ..errors import FitError
from ..results import Fit, Reason
from ..results.storage import may_write
from .processes import rank_and_size
from .progress import progress_bar


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


class Iterated(Protocol):
    """What the loop asks of an engine."""

    def e_step(self, state: Any) -> tuple[Info, Any]:
        """What the weights of a state are worth, and what the M step needs."""

    def m_step(self, state: Any, found: Any) -> Any:
        """The next state, from what the E step found."""

    def converged(self, state: Any, rows: Sequence[Info], tolerance: float) -> bool:
        """Whether nothing is left to be done at this stage."""

    def has_next_stage(self, state: Any) -> bool:
        """Whether a stage comes after this one."""

    def next_stage(self, state: Any) -> Any:
        """The state at the beginning of the next stage."""


class Checkpoints:
    """The one place that writes what a run has reached: every few seconds, when it is interrupted, and at its end.

    Under ``torch.distributed`` the first process writes.

    :param folder: where to; None writes nothing. It is vetted now, which is better than at the first interrupt.
    :param fit_of: makes a fit of a state and what the iterations found, with the reason for which the run is there.
    """

    def __init__(
        self,
        folder: str | PathLike[str] | None,
        fit_of: Callable[[Any, list[Info]], Callable[[Reason], Fit]],
        seconds: float = 10.0,
    ) -> None:
        if folder is not None:
            may_write(folder, overwrite=True)
        self._folder = None if rank_and_size()[0] else folder
        self._fit_of, self._seconds = fit_of, seconds
        self._last = time.perf_counter()
        self._kept: Callable[[Reason], Fit] | None = None
        self._written: str | None = None

    def keep(self, state: Any, rows: Sequence[Info]) -> None:
        """Note a state and the rows that end with it, before anything moves on."""
        if self._folder is None:
            return
        self._kept, self._written = self._fit_of(state, list(rows)), None
        if time.perf_counter() - self._last >= self._seconds:
            self.flush()

    def flush(self, reason: Reason = Reason.CHECKPOINT) -> None:
        """Write the last state noted, unless it has been written for the same reason."""
        if self._folder is not None and self._kept is not None and self._written != reason:
            self.write(self._kept(reason))
            self._written = reason
            self._last = time.perf_counter()

    def write(self, fit: Fit) -> None:
        """Write a fit."""
        if self._folder is not None:
            fit.save(self._folder, overwrite=True)

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Write what was reached if the block is interrupted, or fails."""
        try:
            yield
        except BaseException:
            self.flush()
            raise


def iterate(
    engine: Iterated,
    state: Any,
    rows: Sequence[Info],
    iterations: int,
    tolerance: float,
    may_fall: float,
    callbacks: Sequence[Callback] = (),
    progress: bool = True,
    checkpoints: Checkpoints | None = None,
    score: Callable[[Any, Info], object] = lambda state, info: None,
    halted: Callable[[Info], object] = lambda info: False,
) -> tuple[Any, list[Info], Reason]:
    """Run until the objective's relative change is at most ``tolerance``, or for a number of updates.

    The last weights have been evaluated: the last row belongs to them.

    :param rows: what earlier iterations found, if this run goes on from them.
    :param may_fall: relative fall of the objective that rounding may explain; more is an error.
    :param score: adds to what an iteration found, before callbacks hear of it.
    :param halted: asked after every iteration; a true answer leaves the run unfinished.
    """
    found_rows, updates = list(rows), 0
    began = time.perf_counter() - (found_rows[-1].seconds if found_rows else 0.0)
    keeping = Checkpoints(None, lambda state, rows: _nothing) if checkpoints is None else checkpoints
    with progress_bar(total=iterations, shown=progress, unit="it") as bar, keeping.guarding():
        while True:
            info, found = engine.e_step(state)
            info.seconds = time.perf_counter() - began
            compare(info, found_rows[-1] if found_rows else None, may_fall)
            found_rows.append(info)
            bar.set_postfix_str(f"objective {info.objective:.3f}, change {info.change:.1e}", refresh=False)
            keeping.keep(state, found_rows)
            score(state, info)
            answers = [callback(info) for callback in callbacks]  # every one hears of every iteration
            done, last = engine.converged(state, found_rows, tolerance), not engine.has_next_stage(state)
            reason = _reason(done and last, any(answers), bool(halted(info)), updates >= iterations)
            if reason is not None:
                keeping.flush(reason)
                return state, found_rows, reason
            state = engine.m_step(state, found)
            found = None  # its counts make room for new ones
            if done:
                state = engine.next_stage(state)
            updates += 1
            bar.update()


def relative_change(info: Info, before: Info | None) -> float:
    """How the objective changed, relative to what it was; infinite where there is nothing to compare with."""
    if before is None or before.objective == -math.inf or before.stage != info.stage:
        return math.inf
    size = max(abs(before.objective), 1.0)  # data explained perfectly have objective 0, up to rounding
    return abs(info.objective - before.objective) / size


def compare(info: Info, before: Info | None, may_fall: float) -> None:
    """Note how the objective changed. Raises if it is not a number, or fell further than rounding explains."""
    # A start with zeros may have no prior probability (-inf); the first update mends that.
    if math.isnan(info.objective) or info.objective == math.inf or (before and info.objective == -math.inf):
        raise FitError(f"iteration {info.iteration}: the objective is {info.objective}")
    info.change = relative_change(info, before)
    if before is None or info.change == math.inf:
        return
    if info.objective < before.objective - may_fall * max(abs(before.objective), 1.0):
        raise FitError(
            f"iteration {info.iteration}: the objective fell from {before.objective!r} to {info.objective!r}, a "
            f"relative fall of {info.change:.1e}. EM cannot do that: look for a model that changes between "
            "runs, weights used outside Categorical and structured distributions, or an inexact M step"
        )


def _reason(converged: bool, stopped: bool, halted: bool, over: bool) -> Reason | None:
    """Why a run ends here, if it does."""
    if converged:
        return Reason.CONVERGED
    if stopped:
        return Reason.STOPPED
    if halted:
        return Reason.CHECKPOINT
    return Reason.ITERATION_CAP if over else None


def _nothing(reason: Reason) -> Fit:
    raise AssertionError("there is no folder to write to")
