"""Timing side by side, jobs in processes, tables, options, and where real corpora are."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from pyro_unsup.reproduce import Corpora

Job = tuple[str, Callable[..., Any], tuple[Any, ...]]

#: What ``--help`` says of options whose default says nothing.
MEANINGS = {"data": "folder of real corpora (default: that in PYRO_UNSUP_DATA)"}

#: Pause before each timed run: BLAS threads of the one before keep a core busy for a while after they are done.
SETTLE = 0.25


def side_by_side(runs: dict[str, Callable[[], Any]], repeats: int = 5) -> dict[str, float]:
    """Median seconds of each function, the repeats interleaved so that noise of the machine hits all alike."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()  # compiles, fills caches
    for _ in range(repeats):
        for name, run in runs.items():
            time.sleep(SETTLE)
            began = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def report(name: str, ours: float, peer: str, theirs: float, **extra: Any) -> None:
    """One JSON line: how many times as long the peer takes."""
    line = {
        "name": name,
        "ours_s": round(ours, 5),
        "peer": peer,
        "peer_s": round(theirs, 5),
        "ratio": round(theirs / ours, 2),
        "load": round(os.getloadavg()[0], 2),
        **extra,
    }
    print(as_json(line), flush=True)


def figure(name: str, **values: Any) -> None:
    """One JSON line for a measurement without a peer."""
    print(as_json({"name": name, **values, "load": round(os.getloadavg()[0], 2)}), flush=True)


def as_json(found: Any, indent: int | None = None) -> str:
    """JSON as its standard has it: what is no finite number becomes null."""

    def plain(x: Any) -> Any:
        if isinstance(x, dict):
            return {key: plain(value) for key, value in x.items()}
        if isinstance(x, list | tuple):
            return [plain(value) for value in x]
        return None if isinstance(x, float) and not math.isfinite(x) else x

    return json.dumps(plain(found), allow_nan=False, indent=indent)


def corpora(folder: str, *needs: str) -> Corpora:
    """Real corpora. Where there are none, or one that is needed is missing, the benchmark ends, and says so in a line.

    :param folder: where they are, or nothing: in that of ``PYRO_UNSUP_DATA``.
    :param needs: names of corpora, as ``pyro_unsup.reproduce`` has them.
    """
    from pyro_unsup.errors import UnsupError
    from pyro_unsup.reproduce.corpora import corpora_in

    try:
        found = corpora_in(folder)
        if missing := found.missing(needs):
            raise missing
    except UnsupError as error:
        sys.exit(str(error))
    return found


def in_processes(jobs: Sequence[Job], processes: int) -> Iterator[tuple[str, Any]]:
    """Run jobs side by side, one thread each, and give what each returns, with its name, as soon as it is done."""
    from joblib import Parallel, delayed
    from tqdm.auto import tqdm

    pool = Parallel(n_jobs=processes, return_as="generator_unordered", max_nbytes=None)
    yield from tqdm(pool(delayed(_on_one_thread)(*job) for job in jobs), total=len(jobs), unit="job", smoothing=0)


def _on_one_thread(name: str, work: Callable[..., Any], args: tuple[Any, ...]) -> tuple[str, Any]:
    torch.set_num_threads(1)
    began = time.perf_counter()
    found = work(*args)
    return name, {**found, "seconds": round(time.perf_counter() - began, 1)}


def markdown(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table, numbers to two places."""
    print()
    for row in (columns, ["---"] * len(columns), *rows):
        print("|", " | ".join(f"{x:.2f}" if isinstance(x, float) else str(x) for x in row), "|", flush=True)


def plain(found: dict[str, Any]) -> dict[str, Any]:
    """What JSON can hold of a result."""
    return {
        key: (round(x, 4) if np.isfinite(x) else str(x)) if isinstance(x, float) else x
        for key, x in found.items()
        if not isinstance(x, np.ndarray)
    }


def spread(values: Sequence[float] | np.ndarray, digits: int) -> str:
    """Mean and, in brackets, standard deviation: that of a sample (n - 1), as everywhere in these benchmarks."""
    deviation = np.std(values, ddof=1) if len(values) > 1 else 0.0
    return f"{np.mean(values):.{digits}f} ({deviation:.{digits}f})"


def arguments(doc: str | None, choices: Sequence[str] = (), **defaults: Any) -> argparse.Namespace:
    """What the command line says: options by name, of the type of their defaults; a flag where that is False.

    :param doc: of the benchmark, for ``--help``.
    :param choices: what ``--only`` may be.
    """
    said = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        how: dict[str, Any] = {"action": "store_true"} if default is False else {"type": type(default)}
        meaning = f"one of {', '.join(choices)}" if name == "only" else MEANINGS.get(name, f"default: {default}")
        said.add_argument(f"--{name.replace('_', '-')}", default=default, help=meaning, **how)
    found = said.parse_args()
    if choices and getattr(found, "only", "") not in ("", *choices):
        said.error(f"--only {found.only}: expected one of {', '.join(choices)}")
    return found
