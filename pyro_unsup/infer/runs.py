"""Runs of an engine from start to end: one, or several from different seeds, with one way to resume them all."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ..handlers.prefer import learned_weights
from ..results import Fit, Reason, Report, load
from ..results.fit import SHARES
from .loop import Callback, Checkpoints, Info, iterate
from .processes import any_of, failing_together, rank_and_size
from .progress import progress_bar
from .shares import Data, glimpse, same_start
from .state import Saved, State

if TYPE_CHECKING:
    from .engine import Engine


class SameRestarts(UserWarning):
    """Restarts from a start that is always the same find the same.

    >>> import warnings, pyro_unsup as pu
    >>> engine = pu.EM(pu.models.DMV(tags=2), init=pu.init.uniform())
    >>> with warnings.catch_warnings(record=True) as found:
    ...     warnings.simplefilter("always")
    ...     fit = engine.run([[0, 1], [1]], iterations=1, restarts=2, processes=1)
    >>> [one.category.__name__ for one in found]
    ['SameRestarts']
    """


class Monitor(Protocol):
    """Hears of every restart, in the process that it runs in.

    >>> import pyro_unsup as pu
    >>> class Quiet:
    ...     def begins(self, restart):
    ...         return restart < 2  # whether it may begin
    ...     def goes_on(self, restart, info):
    ...         return True
    ...     def ends(self, restart, fit):
    ...         pass
    >>> engine = pu.EM(pu.models.Tagger(tags=2, vocab=2))
    >>> fit = engine.run([[0, 1]], iterations=1, restarts=3, processes=1, monitor=Quiet())
    >>> fit.report.restarts[2]
    -inf
    """

    def begins(self, restart: int) -> bool:
        """Whether a restart may begin."""

    def goes_on(self, restart: int, info: Info) -> bool:
        """Whether it may go on after an iteration. If not, it is left unfinished."""

    def ends(self, restart: int, fit: Fit) -> None:
        """It is over, or was left unfinished."""


@dataclass(frozen=True)
class Run:
    """How an engine is to run. :meth:`.Engine.run` says what the fields mean."""

    iterations: int
    tolerance: float
    callbacks: Sequence[Callback] = ()
    score: Callable[[Fit], float | Mapping[str, float]] | None = None
    progress: bool = True
    checkpoint: str | PathLike[str] | None = None
    resume: Fit | bool | None = None
    chunk: int | None = None
    sharded: bool = False
    store: bool = False
    monitor: Monitor | None = None

    def __call__(self, engine: Engine, data: Data, seed: int, restart: int = 0) -> Fit:
        """One run from one seed."""
        if self.monitor is not None and not self.monitor.begins(restart):
            nothing = Report(Reason.NOT_STARTED, 0, -math.inf, math.inf, self.tolerance, 0.0, seed)
            return Fit(engine.model, {}, nothing, [], seed)
        before = self._before(engine.model)
        over = self.resume is True and before is not None and self._is_over(before)
        fit = before if over and before is not None else self._train(engine, data, seed, restart, before)
        if self.monitor is not None:
            self.monitor.ends(restart, fit)
        return fit

    def _before(self, model: Callable[..., Any]) -> Fit | None:
        """The fit to go on from: the one given, or that of the checkpoint folder if it holds one."""
        if not isinstance(self.resume, bool):
            return self.resume
        there = self.resume and self.checkpoint is not None and (Path(self.checkpoint) / "fit.json").is_file()
        return load(self.checkpoint, model) if there and self.checkpoint is not None else None

    def _is_over(self, fit: Fit) -> bool:
        same = (fit.config.get("iterations"), fit.config.get("tolerance")) == (self.iterations, self.tolerance)
        return same and fit.report.reason != Reason.CHECKPOINT

    def _train(self, engine: Engine, data: Data, seed: int, restart: int, before: Fit | None) -> Fit:
        seed = seed if before is None else before.seed

        def fit_of(state: State, rows: list[Info]) -> Callable[[Reason], Fit]:
            saved, config = state.saved(), engine.config(state)
            limits = (self.iterations, self.tolerance)
            return lambda reason: outcome(engine, state, saved, config, rows, reason, *limits)

        checkpoints = Checkpoints(self.checkpoint, fit_of)
        rows: list[Info] = []
        with failing_together():
            state = engine.start(data, seed, self.chunk, self.sharded, self.store)
            if before is not None:
                state = engine.load_state(state, before)
                # The last row belongs to weights that are evaluated again now.
                rows = [Info.of(row) for row in before.rows[:-1]]
        rank, size = rank_and_size()
        if size > 1:
            self._check_same_start(engine, state, data)

        def scored(state: State, info: Info) -> None:
            if self.score is not None:
                found = self.score(fit_of(state, [info])(Reason.RUNNING))
                info.scores |= {**found} if isinstance(found, Mapping) else {"score": float(found)}

        def stops(info: Info) -> bool:  # what stops one process stops all
            return any_of([callback(info) for callback in self.callbacks])

        def halted(info: Info) -> bool:
            return self.monitor is not None and any_of([not self.monitor.goes_on(restart, info)])

        state, rows, reason = iterate(
            engine,
            state,
            rows,
            self.iterations - state.iteration,
            self.tolerance,
            engine.may_fall(state),
            [stops],
            self.progress and not rank,
            checkpoints,
            scored,
            halted,
        )
        return fit_of(state, rows)(reason)

    def _check_same_start(self, engine: Engine, state: State, data: Data) -> None:
        where = {"iteration": state.iteration, "seed": state.seed}
        limits = {"iterations": self.iterations, "tolerance": self.tolerance}
        examples = {"the number of examples": state.problem.share.size, "the checksum of data": glimpse([*data])}
        same_start(
            {"engine": type(engine).__name__, **where, **limits, **({} if self.sharded else examples)}, state.weights
        )


def outcome(
    engine: Engine,
    state: State,
    saved: Saved,
    config: Mapping[str, Any],
    rows: Sequence[Info],
    reason: Reason,
    iterations: int,
    tolerance: float,
) -> Fit:
    """The fit of a run that these rows describe."""
    last = rows[-1]
    report = Report(
        reason=reason,
        iterations=last.iteration,
        objective=last.objective,
        change=last.change,
        tolerance=tolerance,
        seconds=last.seconds,
        seed=state.seed,
        unvisited={name: n for name, n in state.unvisited.items() if n},
    )
    general = {
        "engine": type(engine).__name__,
        "estimate": repr(engine.estimate),
        "dtype": str(engine.dtype),
        "iterations": iterations,
        "tolerance": tolerance,
    }
    flat = [row.flat() for row in rows]
    every = {**general, **config}
    if weights := learned_weights(engine.model):
        every[SHARES] = weights
    return Fit(engine.model, report=report, rows=flat, seed=state.seed, config=every, **saved)  # type: ignore[arg-type]


def best_of(engine: Engine, run: Run, data: Data, seed: int, restarts: int, processes: int | None) -> Fit:
    """The best of several runs from the seeds ``seed``, ``seed + 1``, ...; ties go to the lowest.

    Each has one thread, and a checkpoint folder of its own inside the run's.
    """
    from joblib import Parallel, delayed

    processes = min(restarts, processes or os.cpu_count() or 1) if rank_and_size()[1] == 1 else 1
    jobs = (delayed(_restart)(engine, run, data, seed + i, i) for i in range(restarts))
    # loky starts clean processes and pickles functions by value, so models from a notebook work too.
    found = (
        Parallel(n_jobs=processes, backend="loky", return_as="generator")(jobs)
        if processes > 1
        else (job[0](*job[1], **job[2]) for job in jobs)
    )
    shown = run.progress and not rank_and_size()[0]
    fits: list[Fit] = list(progress_bar(found, shown, total=restarts, unit="restart"))
    for fit in fits:
        fit.model = engine.model
    if _alike(fits):
        warnings.warn(
            f"all {len(fits)} restarts began at the same place and are one and the same run: put noise on the start by "
            "pu.init.around(start, 0.3), or leave restarts out",
            SameRestarts,
            stacklevel=2,
        )
    best = copy(max(fits, key=lambda fit: fit.objective))
    best.runs = tuple(fits)
    best.report.restarts = [fit.objective for fit in fits]
    best.config["restarts"] = restarts
    return best


def _alike(fits: Sequence[Fit]) -> bool:
    """Whether several runs are the same to the last bit."""
    first, *others = fits
    if not others or not first.rows:
        return False
    return all(
        [row["objective"] for row in one.rows] == [row["objective"] for row in first.rows]
        and _same(one.weights, first.weights)
        and _same(one.unconstrained, first.unconstrained)
        for one in others
    )


def _same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def best_probed(
    engine: Engine, run: Run, data: Data, seed: int, restarts: int, processes: int | None, probe: int
) -> Fit:
    """A few iterations from every seed, and the rest of the run from the best of them, which monitors hear of as one
    more restart.

    The probes and what follows have checkpoint folders of their own, so that a probe is still there when a run resumes.
    """
    probed = best_of(engine, replace(run, iterations=probe), data, seed, restarts, processes)
    folder = None if run.checkpoint is None else Path(run.checkpoint) / f"seed-{probed.seed}-probed"
    begun = folder is not None and run.resume is True and (folder / "fit.json").is_file()
    with one_thread():
        goes_on = replace(run, checkpoint=folder, resume=True if begun else probed)
        fit = goes_on(_copied(engine), data, probed.seed, restarts)
    fit.model = engine.model
    fit.report.restarts, fit.report.probe = probed.report.restarts, probe
    fit.config |= {"restarts": restarts, "probe": probe}
    return fit


def _restart(engine: Engine, run: Run, data: Data, seed: int, restart: int) -> Fit:
    folder = None if run.checkpoint is None else Path(run.checkpoint) / f"seed-{seed}"
    with one_thread():
        return replace(run, progress=False, checkpoint=folder)(_copied(engine), data, seed, restart)


def _copied(engine: Engine) -> Engine:
    """A copy with everything it closes over, such as the modules of a neural network, as another process would get."""
    import cloudpickle

    copy: Engine = cloudpickle.loads(cloudpickle.dumps(engine))
    return copy


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread in this block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
