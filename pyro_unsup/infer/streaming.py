"""Learning from a stream of mini-batches of unknown length."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import Any, Protocol

from tqdm.auto import tqdm

from ..errors import FitError
from ..results import Fit
from ..results.storage import may_write
from .loop import SHOW_AFTER_SECONDS, Callback, Checkpoints, Info, kept
from .outcome import State, outcome

#: Between two notes of where the stream has got to, for a checkpoint.
NOTE_SECONDS = 5.0


class Streaming(Protocol):
    """An engine that learns from one mini-batch at a time."""

    updates: int
    iteration: int
    seed: int
    model: Callable[..., Any]
    estimate: Any
    dtype: Any
    unvisited: dict[str, int]

    def start(self, *args: Any, seed: int = 0, **kwargs: Any) -> None: ...

    def step(self, *args: Any, **kwargs: Any) -> float: ...

    def described(self) -> dict[str, Any]: ...

    def _state(self) -> State: ...

    def _adopt(self, fit: Fit, args: Any, kwargs: Any) -> None: ...


def follow(
    engine: Streaming,
    batches: Iterable[Any],
    seed: int,
    callbacks: Sequence[Callback],
    progress: bool,
    checkpoint: str | PathLike[str] | None,
    resume: Fit | None,
) -> Fit:
    """Take every mini-batch once, as it comes. Nothing is kept of it, and rows come ever more rarely."""
    if checkpoint is not None:
        may_write(checkpoint, overwrite=True)
    rows: list[Info] = [] if resume is None else [Info.of(row) for row in resume.rows]
    began = time.perf_counter() - (rows[-1].seconds if rows else 0.0)
    seed = seed if resume is None else resume.seed
    total, since, noted, reason = 0.0, 0, time.perf_counter(), "end of the stream"

    def fit_of(rows: Sequence[Info], reason: str, state: State) -> Fit:
        return outcome(engine, rows, reason, state, seed=seed, iterations=engine.updates, tolerance=0.0)

    def snapshot(rows: list[Info]) -> Callable[[str], None]:
        state = engine._state()
        return lambda reason: fit_of(rows, reason, state).save(checkpoint or "", overwrite=True)

    def row() -> Info:
        seconds = time.perf_counter() - began
        info = Info(engine.updates, total / since, total / since, seconds=seconds)
        if rows:
            info.change = abs(info.objective - rows[-1].objective) / max(abs(rows[-1].objective), 1.0)
        return info

    keep = None if checkpoint is None else Checkpoints(snapshot)
    first = True
    with tqdm(batches, delay=SHOW_AFTER_SECONDS, disable=not progress, unit="batch") as bar, kept(keep):
        for batch in bar:
            if first:
                engine.start(batch, seed=seed)
                if resume is not None:
                    engine._adopt(resume, (batch,), {})
                engine.seed, first = seed, False
            total, since = total - engine.step(batch), since + 1
            due = engine.updates & (engine.updates - 1) == 0  # at the powers of two
            if keep is not None and (due or time.perf_counter() - noted >= NOTE_SECONDS):
                keep.keep([*rows, row()])
                noted = time.perf_counter()
            if due:
                rows.append(row())
                total, since = 0.0, 0
                engine.iteration = engine.updates
                bar.set_postfix_str(f"log-likelihood {rows[-1].objective:.3f} a batch", refresh=False)
                answers = [callback(rows[-1]) for callback in callbacks]
                if any(answers):
                    reason = "stopped by a callback"
                    break
    if first and resume is not None:
        return resume
    if first:
        raise FitError("the stream held no mini-batches: expected at least one")
    if since:
        rows.append(row())
    engine.iteration = engine.updates
    fit = fit_of(rows, reason, engine._state())
    if checkpoint is not None:
        fit.save(checkpoint, overwrite=True)
    return fit
