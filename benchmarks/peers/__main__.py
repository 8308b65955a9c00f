"""The command: see ``python -m benchmarks.peers --help``."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __doc__ as about
from .environment import ROOT, default, left_out, ready

if TYPE_CHECKING:
    from .problem import Problem


def arguments() -> argparse.Namespace:
    said = argparse.ArgumentParser("benchmarks.peers", description=about, formatter_class=_AsWritten)
    said.add_argument("--env", type=Path, default=default(), help="folder of the environment (default: %(default)s)")
    said.add_argument("--out", type=Path, default=Path("peers.jsonl"), help="JSON lines go here (default: %(default)s)")
    said.add_argument("--only", default="", help="problems with this in their name")
    said.add_argument("--small", action="store_true", help="small sizes, one thread: a quick look")
    said.add_argument("--report", type=Path, metavar="FILE", help="no measuring: the table of these JSON lines")
    said.add_argument("--profile", action="store_true", help="no peers: where our own time goes, function by function")
    said.add_argument("--figure", type=Path, help="default: peers.png beside this program, of a whole run only")
    found = said.parse_args()
    whole = not (found.only or found.small)  # a part of a run must not replace the picture of all
    found.figure = found.figure or (ROOT / "benchmarks" / "peers.png" if whole else found.out.with_suffix(".png"))
    return found


class _AsWritten(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    pass


def chosen(only: str) -> list[Problem]:
    """The problems that are asked for."""
    from .problem import all_problems

    found = [problem for problem in all_problems() if only in problem.name]
    if not found:
        sys.exit(f"--only {only}: expected a part of one of {', '.join(problem.name for problem in all_problems())}")
    return found


def measure(asked: argparse.Namespace) -> None:
    from .problem import described
    from .session import session

    missing = left_out(asked.env)
    for peer, why in missing.items():
        print(f"{peer} is left out, because it could not be installed: {why}", flush=True)
    problems = chosen(asked.only)
    began = time.perf_counter()
    with asked.out.open("w", encoding="utf-8") as out:

        def emit(line: dict[str, Any]) -> None:
            print(json.dumps(line), file=out, flush=True)
            said = line.get("stopped") or f"{line['seconds']:.4g} s, {line['peak_mib']:.0f} MiB"
            where = f"{line['problem']}, {described(line['size'])}, {line['threads']} thread(s)"
            print(f"{time.perf_counter() - began:5.0f}  {where}: {line['contender']}: {said}", flush=True)

        for peer, why in missing.items():
            print(json.dumps({"missing": peer, "why": why}), file=out, flush=True)
        for problem in problems:
            if asked.small:
                plan = [(name, size) for name, curve in problem.curves.items() for size in curve.small]
                session(problem, plan, 1, set(missing), emit)
                continue
            for name, curve in problem.curves.items():
                session(problem, [(name, size) for size in curve.sizes], 1, set(missing), emit)
            name, curve = next(iter(problem.curves.items()))
            session(problem, [(name, curve.sizes[k]) for k in (0, problem.main)], 2, set(missing), emit)


def main() -> None:
    asked = arguments()
    if asked.report:
        if importlib.util.find_spec("matplotlib") is None:
            sys.exit(subprocess.call([str(ready(asked.env)), "-m", __package__, *sys.argv[1:]], env=_from_here()))
        from .report import report

        report(asked.report, asked.figure)
        return
    asked.env = asked.env.resolve()
    if Path(sys.prefix).resolve() != asked.env:
        python = ready(asked.env)
        sys.exit(subprocess.call([str(python), "-m", __package__, *sys.argv[1:]], env=_from_here()))
    if asked.profile:
        from .profiled import profiled

        for problem in chosen(asked.only):
            profiled(problem)
        return
    measure(asked)
    from .report import report

    report(asked.out, asked.figure)


def _from_here() -> dict[str, str]:
    """The environment of a process that finds this package from any folder."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}


if __name__ == "__main__":
    main()
