"""Chains from start to end: burn-in, thinning, progress, checkpoints, and exact resumption."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from threading import Event, Lock
from typing import Any

import numpy as np

from ..array import Array
from ..errors import FitError, InputError
from ..results import sample_storage
from ..results.record import WRONG
from .gibbs_chain import GibbsChain, Sweep
from .gibbs_checks import is_whole
from .gibbs_identity import OTHER, identity
from .progress import progress_bar

#: Called after every sweep; a true answer ends the run as an interrupt would.
SweepCallback = Callable[[Sweep], object]
CHAIN = re.compile(r"chain-[0-9]+")
#: What is noted of every sweep.
COLUMNS = ("log_joint", "temperature", "rate_labels", "rate_alpha", "rate_beta")


@dataclass(frozen=True)
class Plan:
    """How long chains are and which of their sweeps are kept.

    :param sweeps: in all.
    :param burn_in: the first ones, of which none is kept.
    :param thin: of the others every so many are kept.
    """

    sweeps: int
    burn_in: int
    thin: int = 1

    def __post_init__(self) -> None:
        whole = is_whole(self.sweeps, 1) and is_whole(self.burn_in, 0) and is_whole(self.thin, 1)
        if not (whole and self.burn_in + self.thin <= self.sweeps):
            raise FitError(
                "expected sweeps of 1 or more, burn_in below that, and thin from 1 to the sweeps after it, all whole "
                f"numbers, actual {self.sweeps}, {self.burn_in}, {self.thin}"
            )

    @property
    def kept(self) -> Array:  # (draws,)
        """The sweeps that are kept, counted from 0."""
        return np.arange(self.burn_in + self.thin - 1, self.sweeps, self.thin)


class ChainDraws:
    """What a chain leaves behind, as far as it has come."""

    def __init__(self, walk: GibbsChain, plan: Plan) -> None:
        K, draws = walk.state.K, len(plan.kept)
        small = next(kind for kind in (np.int8, np.int16, np.int32) if np.iinfo(kind).max >= K)
        self.draws = {
            "labels": np.zeros((draws, len(walk.state)), small),
            "alpha": np.zeros((draws, len(walk.hyper.alpha))),
            "beta": np.zeros((draws, len(walk.hyper.beta))),
            **{name: np.zeros((draws, *x.shape)) for name, x in _drawn(walk).items()},
        }
        self.path = np.ones((plan.sweeps, len(COLUMNS)))
        self.plan = plan

    def note(self, walk: GibbsChain, found: Sweep) -> None:
        """Take down a sweep."""
        done = found.sweep
        self.path[done - 1, :2] = found.log_joint, found.temperature
        for name, rate in found.rates.items():
            self.path[done - 1, COLUMNS.index(f"rate_{name}")] = rate
        past = done - self.plan.burn_in
        if past > 0 and past % self.plan.thin == 0:
            values = {"labels": walk.state.labels, "alpha": walk.hyper.alpha, "beta": walk.hyper.beta}
            for name, value in (values | _drawn(walk)).items():
                self.draws[name][past // self.plan.thin - 1] = value

    def filled(self, done: int) -> dict[str, Array]:
        """What there is after so many sweeps."""
        draws = max(0, done - self.plan.burn_in) // self.plan.thin
        return {"path": self.path[:done], **{f"draws/{name}": x[:draws] for name, x in self.draws.items()}}

    def refill(self, arrays: dict[str, Array]) -> None:
        """Take back what :meth:`filled` told."""
        self.path[: len(arrays["path"])] = arrays["path"]
        for name, x in self.draws.items():
            x[: len(arrays[f"draws/{name}"])] = arrays[f"draws/{name}"]


def _drawn(walk: GibbsChain) -> dict[str, Array]:
    """The tables that are drawn beside the labels."""
    found: dict[str, Array] = getattr(walk.state, "drawn", {})
    return found


class ChainCheckpoint:
    """Keeps a chain in a folder: every so many seconds, when it is interrupted, and at its end.

    :param told: what the chain is of, in plain values; a chain of anything else is not resumed.
    """

    def __init__(self, folder: Path, told: dict[str, Any], seconds: float) -> None:
        self.folder, self.told, self.seconds = folder, told, seconds
        self._last = time.perf_counter()
        self._kept: tuple[dict[str, Any], dict[str, Array]] | None = None

    def note(self, walk: GibbsChain, trace: ChainDraws) -> None:
        """Remember where the chain is after a whole sweep: an interrupt may come in the middle of the next."""
        self._kept = walk.kept()
        if time.perf_counter() - self._last >= self.seconds:
            self.write(trace)

    def write(self, trace: ChainDraws) -> None:
        """Write the last whole sweep that is not written yet."""
        if self._kept is None:
            return
        plain, arrays = self._kept
        kept = {**{f"state/{name}": x for name, x in arrays.items()}, **trace.filled(plain["sweep"])}
        sample_storage.write(self.folder, sample_storage.CHAIN, {**self.told, "walk": plain}, kept)
        self._kept, self._last = None, time.perf_counter()

    def resume(self, walk: GibbsChain, trace: ChainDraws) -> None:
        """Restore a saved chain, if there is one. Refuse the chain of another run."""
        if not (self.folder / sample_storage.RECORD).is_file():
            return
        record, arrays = sample_storage.read(self.folder, sample_storage.CHAIN)
        for name, wanted in json.loads(json.dumps(self.told)).items():
            if record.get(name) != wanted:
                what = OTHER.get(name) or f"other settings: {_difference(record.get(name), wanted)}"
                raise InputError(
                    f"holds a chain of {what}; resume with what it was started with, or start anew in another folder",
                    self.folder,
                )
        try:
            walk.restore(
                record["walk"], {k.removeprefix("state/"): x for k, x in arrays.items() if k.startswith("state/")}
            )
            trace.refill(arrays)
        except WRONG as error:
            raise InputError(f"the record does not describe a chain: {error!r:.200}", self.folder) from error
        self._kept = walk.kept()  # written even if no sweep is left: a killed run may have left an older file here


def _difference(found: Any, wanted: Any) -> str:
    if not isinstance(found, dict) or not isinstance(wanted, dict):
        return f"{found!r:.60}, now {wanted!r:.60}"
    name = next(key for key in wanted if found.get(key) != wanted[key])
    return f"{name} was {found.get(name)!r:.60}, now {wanted[name]!r:.60}"


def run_chains(
    model: Any,
    walks: Sequence[GibbsChain],
    plan: Plan,
    settings: dict[str, Any],
    parallel: int,
    callbacks: Sequence[SweepCallback] = (),
    progress: bool = True,
    checkpoint: str | PathLike[str] | None = None,
    resume: bool = False,
    seconds: float = 30.0,
) -> list[ChainDraws]:
    """Run chains to their end, so many at a time. Each has its own generator, so the order makes no difference.

    Parallel chains are threads: kernels let go of Python's lock, so each has a core of its own, and all share the data.
    """
    halt, lock = Event(), Lock()
    traces = [ChainDraws(walk, plan) for walk in walks]
    keepers: list[ChainCheckpoint] = []
    if checkpoint is not None:
        for i, walk in enumerate(walks):
            told = identity(model, walk, {**settings, **asdict(plan)})
            keepers.append(ChainCheckpoint(Path(checkpoint) / f"chain-{i}", told, seconds))
        if resume:
            for keeper, walk, trace in zip(keepers, walks, traces, strict=True):
                keeper.resume(walk, trace)
        else:  # a chain of another run would be in the way when this one is resumed
            sample_storage.remove(Path(checkpoint), CHAIN.fullmatch)
    elif resume:
        raise FitError("resume needs the checkpoint folder of the run to go on with")
    with progress_bar(total=plan.sweeps * len(walks), shown=progress, unit="sweep") as bar:
        bar.update(sum(walk.sweep for walk in walks))

        def work(i: int) -> None:
            walk, trace, keeper = walks[i], traces[i], keepers[i] if keepers else None
            try:
                while walk.sweep < plan.sweeps and not halt.is_set():
                    found = walk.step()
                    trace.note(walk, found)
                    if keeper is not None:
                        keeper.note(walk, trace)
                    with lock:
                        bar.set_postfix_str(
                            f"chain {i}, temperature {found.temperature:.3g}, log joint {found.log_joint:.1f}", False
                        )
                        bar.update()
                        answers = [callback(found) for callback in callbacks]
                    if any(answers):
                        raise KeyboardInterrupt(f"stopped by a callback at sweep {found.sweep}")
            except BaseException:
                halt.set()
                raise
            finally:
                if keeper is not None:
                    keeper.write(trace)

        if parallel <= 1:
            for i in range(len(walks)):
                work(i)
        else:
            with ThreadPoolExecutor(parallel) as pool:
                jobs = [pool.submit(work, i) for i in range(len(walks))]
                try:
                    for job in jobs:
                        job.result()
                except BaseException:
                    halt.set()
                    raise
    return traces
