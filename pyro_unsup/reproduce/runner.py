"""Running the rows of a paper: in several processes, each finished run written down at once, so that nothing is lost.

``results.jsonl`` in the folder of results has a line a run. A run that is there already, of the same row with the same
seed on the same corpora by the same version, is not made again: the same command goes on where it was stopped.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyro

from ..data.locks import locked
from ..errors import InputError, UnsupError
from ..infer.runs import one_thread
from .corpora import Corpora
from .experiment import Found, Row, Table
from .plan import Job, Plan
from .workers import Killed, workers

RESULTS = "results.jsonl"


@dataclass
class Finished:
    """What has come of a plan so far.

    :param plan: what was to be run.
    :param found: of each run that is over, by table, row and seed.
    :param failed: what went wrong, in words.
    :param running: what is being run.
    :param latest: the run that has just ended, if one has.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pyro_unsup.reproduce import Column, Corpora, Paper, Plan, Row, Table, run
    >>> def ten(corpora, seed, small):
    ...     return {"accuracy": 10.0 + seed}
    >>> row = Row("ten", ten, needs=(), trials=2)
    >>> table = Table("first", "Table 1", "Nothing is read.", (Column("accuracy", "accuracy"),), (row,), minutes=0.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = Plan.of(Paper("example-2000", "An example", (table,)), Corpora(Path(folder)))
    ...     *_, finished = run(plan, Path(folder, "out"))
    >>> finished.over, [found["accuracy"] for found in finished.of(table, row).values()], finished.failed
    (2, [10.0, 11.0], {})
    """

    plan: Plan
    found: dict[tuple[str, str, int], Found] = field(default_factory=dict)
    failed: dict[tuple[str, str, int], str] = field(default_factory=dict)
    running: tuple[Job, ...] = ()
    latest: Job | None = None

    def of(self, table: Table, row: Row) -> dict[int, Found]:
        """What a row has found, by seed."""
        return {seed: one for (t, r, seed), one in sorted(self.found.items()) if (t, r) == (table.name, row.name)}

    @property
    def tables(self) -> tuple[Table, ...]:
        """Those of the plan, and those of the paper that something had been found for earlier."""
        there = {table for table, _, _ in self.found} | {table.name for table in self.plan.tables}
        return tuple(table for table in self.plan.paper.tables if table.name in there)

    @property
    def over(self) -> int:
        """How many runs of the plan are over."""
        wanted = {table.name for table in self.plan.tables}
        return sum(table in wanted for table, _, _ in (*self.found, *self.failed))


def run(plan: Plan, out: Path, processes: int = 1) -> Generator[Finished, None, None]:
    """Run what has not been run yet. Gives the same object again and again, whenever a run begins or ends.

    Close it (:func:`contextlib.closing`) to stop: runs that are not over are lost, all others are kept.

    :param plan: what to run.
    :param out: the folder of results; made if need be.
    :param processes: how many runs at a time, each on one thread. One runs in this process.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pyro_unsup.reproduce import Column, Corpora, Paper, Plan, Row, Table, run
    >>> def ten(corpora, seed, small):
    ...     return {"accuracy": 10.0 + seed}
    >>> rows = (Row("ten", ten, needs=(), trials=2),)
    >>> table = Table("first", "Table 1", "Nothing is read.", (Column("accuracy", "accuracy"),), rows, minutes=0.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plan = Plan.of(Paper("example-2000", "An example", (table,)), Corpora(Path(folder)))
    ...     steps = [len(state.found) for state in run(plan, Path(folder, "out"))]
    >>> steps[0], steps[-1]
    (0, 2)
    """
    with _own(out / RESULTS) as file:
        earlier, state, todo = read_results(out / RESULTS), Finished(plan), []
        for job in plan.jobs:
            before = earlier.get(_key(plan.identity(job)))
            if before is None:
                todo.append(job)
            else:
                state.found[job.table.name, job.row.name, job.seed] = before
        for job in plan.others:
            before = earlier.get(_key(plan.identity(job)))
            if before is not None:
                state.found[job.table.name, job.row.name, job.seed] = before
        yield state
        yield from _run(state, todo, file, processes)


def _run(state: Finished, todo: list[Job], file: BinaryIO, processes: int) -> Iterator[Finished]:
    plan = state.plan
    with workers(min(processes, len(todo))) as submit:
        waiting, running = iter(todo), dict[Future[Found | str], Job]()
        while True:
            for job in itertools.islice(waiting, processes - len(running)):
                state.running, state.latest = (*running.values(), job), None
                yield state
                running[submit(_work, job.row, plan.corpora, job.seed, plan.small)] = job
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                job = running.pop(future)
                _note(state, job, future, file)
                state.running, state.latest = tuple(running.values()), job
                yield state


def _note(state: Finished, job: Job, future: Future[Found | str], file: BinaryIO) -> None:
    """Write down what has come of a run."""
    key = job.table.name, job.row.name, job.seed
    try:
        found = future.result()
    except Killed as error:
        raise UnsupError(
            f"{job}: {error}, perhaps for want of memory; what is finished is kept: give the same command again with "
            "fewer --processes"
        ) from error
    if isinstance(found, str):
        state.failed[key] = found
        return
    state.found[key] = found
    file.write(json.dumps({**state.plan.identity(job), "found": found}).encode() + b"\n")
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def _own(path: Path) -> Iterator[BinaryIO]:
    """A file to add lines to, that no other process adds lines to meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.parent, wait=False) as ours:
        if ours is False:
            what = "another `reproduce` is writing to it; wait for that, or choose another --out"
            raise InputError(what, path)
        with open(path, "ab") as file:
            yield file


def read_results(path: Path) -> dict[str, Found]:
    """Earlier runs by their identity. An incomplete last line, left by a killed process, is dropped."""
    text = path.read_bytes()
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        os.truncate(path, whole)
    found = {}
    for number, line in enumerate(text[:whole].splitlines(), 1):
        try:
            record = json.loads(line)
            found[_key({key: value for key, value in record.items() if key != "found"})] = dict(record["found"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InputError(
                "not a result of `reproduce`; choose another --out, or remove the line", path, number
            ) from None
    return found


def _key(identity: dict[str, Any]) -> str:
    return json.dumps(identity, sort_keys=True)


def _work(row: Row, corpora: Corpora, seed: int, small: bool) -> Found | str:
    """What a run finds; or in words why it failed, since one row that fails must not cost the others."""
    with one_thread(), pyro.get_param_store().scope():
        began = time.perf_counter()
        try:
            found = row.run(corpora, seed, small)
        except Exception as error:
            return f"{type(error).__name__}: {' '.join(str(error).split())}"
        return {**plain(found), "seconds": round(time.perf_counter() - began, 1)}


def plain(value: Any) -> Any:
    """What JSON can hold: numpy's numbers and arrays as Python's, infinities as texts."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
