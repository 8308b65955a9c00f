"""Learning from a stream of mini-batches of unknown length."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from ..errors import FitError
from ..results import Fit, Reason
from .loop import Callback, Checkpoints, Info
from .progress import progress_bar
from .runs import outcome
from .shares import Data

if TYPE_CHECKING:
    from .stepwise import StepwiseEM

#: Between two notes of where the stream has got to, for a checkpoint.
NOTE_SECONDS = 5.0


def follow(
    engine: StepwiseEM,
    batches: Iterable[Any],
    seed: int,
    callbacks: Sequence[Callback],
    progress: bool,
    checkpoint: str | PathLike[str] | None,
    resume: Fit | None,
    cut: bool = False,
) -> Fit:
    """Learn from every mini-batch once, as it comes. None is kept. The history gets rows more and more rarely.

    :param cut: whether the batches are portions of the data, each to be cut into mini-batches.
    """
    rows: list[Info] = [] if resume is None else [Info.of(row) for row in resume.rows]
    began = time.perf_counter() - (rows[-1].seconds if rows else 0.0)
    state: Any = None
    total, since, noted, reason = 0.0, 0, time.perf_counter(), Reason.STREAM_ENDED

    def fit_of(state: Any, rows: list[Info]) -> Callable[[Reason], Fit]:
        saved, config, updates = state.saved(), engine.config(state), state.updates
        return lambda reason: outcome(engine, state, saved, config, rows, reason, updates, 0.0)

    def row() -> Info:
        seconds = time.perf_counter() - began
        info = Info(state.updates, total / since, total / since, seconds=seconds)
        if rows:
            info.change = abs(info.objective - rows[-1].objective) / max(abs(rows[-1].objective), 1.0)
        return info

    checkpoints = Checkpoints(checkpoint, fit_of)
    step = engine.portion_step if cut else engine.batch_step
    # Pseudo-counts are weighed against all data if it is known how many there are, else against a mini-batch.
    in_all = getattr(batches, "examples", engine.batch_size)
    done = 0 if resume is None else portions_of(resume)
    if done and hasattr(batches, "after"):
        batches = batches.after(done)
    with progress_bar(batches, progress, unit="portion" if cut else "batch") as bar, checkpoints.guarding():
        for batch in bar:
            data: Data = ((batch,), {})
            if state is not None:
                state = engine.on(state, data)
            else:
                state = engine.start(data, seed)
                state = state if resume is None else engine.load_state(state, resume)
                state.in_all = in_all
            before = state.updates
            state, info = step(state)
            total, since = total + info.log_likelihood, since + state.updates - before
            due = state.updates.bit_length() > before.bit_length()  # at the powers of two
            if due or time.perf_counter() - noted >= NOTE_SECONDS:
                checkpoints.keep(state, [*rows, row()])
                noted = time.perf_counter()
            if due:
                rows.append(row())
                total, since = 0.0, 0
                state.iteration = state.updates
                bar.set_postfix_str(f"log-likelihood {rows[-1].objective:.3f} a batch", refresh=False)
                answers = [callback(rows[-1]) for callback in callbacks]
                if any(answers):
                    reason = Reason.STOPPED
                    break
    if state is None:
        if resume is None:
            raise FitError("the stream held no mini-batches: expected at least one")
        resume.report.reason = reason  # nothing was left to learn from, but now it is over
        checkpoints.write(resume)
        return resume
    if since:
        rows.append(row())
    state.iteration = state.updates
    checkpoints.keep(state, rows)
    checkpoints.flush(reason)
    return fit_of(state, rows)(reason)


def portions_of(fit: Fit) -> int:
    """How many portions a fit has learned from."""
    kept = fit.state.get("portions")
    return 0 if kept is None or kept.numel() != 1 else int(kept)
