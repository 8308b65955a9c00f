"""Where our time goes, at the smallest and at the main size of a problem: what to say of a peer that wins there."""

from __future__ import annotations

import cProfile
import os
import pstats
from pathlib import Path

from .problem import Problem, described

#: Lines for each size.
SHOWN = 8
#: Runs that are added up.
RUNS = 20


def profiled(problem: Problem) -> None:
    """Print the functions that take most of our time themselves; compiled ones stand with whoever calls them."""
    curve = next(iter(problem.curves.values()))
    for size in (curve.sizes[0], curve.sizes[problem.main]):
        job = problem.contenders[0].prepare(problem.make(**size))
        job.run()  # compiles
        profile = cProfile.Profile()
        with profile:
            for _ in range(RUNS):
                job.run()
        stats = pstats.Stats(profile)
        rows = sorted(stats.stats.items(), key=lambda item: -item[1][2])[:SHOWN]  # type: ignore[attr-defined]
        total = stats.total_tt  # type: ignore[attr-defined]
        print(
            f"{problem.name}, {described(size)}: {1e3 * total / RUNS:.2f} ms a run, {stats.total_calls // RUNS:,} calls"
        )
        for (file, line, name), (_, calls, own, _, _) in rows:
            where = f"{Path(file).parent.name}{os.sep}{Path(file).name}:{line} " if line else ""
            print(f"  {100 * own / total:5.1f}%  {calls // RUNS:6,} calls  {where}{name}")
