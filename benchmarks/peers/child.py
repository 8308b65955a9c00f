"""A contender in a process of its own. It is told what to do by lines of JSON, and answers each with one.

{"load": "data.npz"}    prepare, run once, and tell what was computed
{}                      run again
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import resource
import sys
import time
from typing import Any

import numpy as np

from .problem import Job, all_problems


def status(name: str) -> float:
    """A line of this process's status, in MiB."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) / 1024


def settle() -> None:
    """Give back what is not needed, and forget the peak where the system can."""
    gc.collect()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w", encoding="ascii") as refs:
            refs.write("5")


def peak() -> float:
    """The most memory that this process has had since :func:`settle`, in MiB, with that of programs it has called."""
    others = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    if sys.platform.startswith("linux"):
        return status("VmHWM") + others
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20 + others / 1024  # macOS counts bytes


def timed(job: Job) -> tuple[dict[str, float], Any]:
    """Seconds of an iteration and of the whole run, and what was found."""
    began = time.perf_counter()
    found = job.run()
    wall = time.perf_counter() - began
    seconds = found["seconds"] if isinstance(found, dict) and "seconds" in found else wall
    return {"seconds": seconds, "wall_s": wall}, found


def main(problem: str, contender: str) -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what peers print is not an answer

    def say(**what: Any) -> None:
        print(json.dumps(what), file=answers, flush=True)

    (asked,) = (x for x in all_problems() if x.name == problem)
    (chosen,) = (x for x in asked.contenders if x.name == contender)
    job: Job | None = chosen.prepare(asked.make(**asked.tiny))
    job.answer(job.run())
    job = None
    settle()
    before = peak()
    say(ready=True)
    for line in sys.stdin:
        told = json.loads(line)
        if "load" in told:
            job = None
            settle()
            with np.load(told["load"]) as data:
                arrays = dict(data)
            began = time.perf_counter()
            job = chosen.prepare(arrays)
            prepared = time.perf_counter() - began
            taken, found = timed(job)
            most = peak() - before
            say(**taken, prepare_s=prepared, peak_mib=most, answer=job.answer(found))
            settle()
        else:
            assert job is not None
            say(**timed(job)[0], peak_mib=peak() - before)


if __name__ == "__main__":
    main(*sys.argv[1:])
