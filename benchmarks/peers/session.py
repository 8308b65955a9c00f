"""Contenders side by side: started together, run in turns, stopped before they take too long."""

from __future__ import annotations

import json
import math
import os
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from .environment import INCLUDED, ROOT
from .problem import Contender, Problem, Size

#: No run may take longer, in seconds, or more memory, in MiB.
MOST_SECONDS, MOST_MIB = 60.0, 6 * 1024
#: Runs after the first, and the seconds after which there are no more of them.
REPEATS, ENOUGH = 5, 6.0
#: A first run as long as this counts, unless it compiles.
LONG = 5.0
#: Pause before each run: threads of the one before keep a core busy for a while after they are done.
PAUSE = 0.05
#: For what comes before the first run: imports, preparation, compilation.
PATIENCE = 120.0

Emit = Callable[[dict[str, Any]], None]
Point = tuple[str, Size]  #: a curve, and a size on it


class Stopped(Exception):
    """A contender has been given up, and why."""


@dataclass
class Child:
    """The process of a contender."""

    problem: Problem
    contender: Contender
    threads: int
    history: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)  # by curve: size, seconds, MiB

    def __post_init__(self) -> None:
        names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.child", self.problem.name, self.contender.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env={**os.environ, **dict.fromkeys(names, str(self.threads)), "PYTHONWARNINGS": "ignore"},
        )

    def ask(self, seconds: float, **what: Any) -> dict[str, Any]:
        """Tell it something, and wait for the answer."""
        assert self._process.stdin is not None
        try:
            print(json.dumps(what), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise Stopped(self._last_words()) from None
        return self.hear(seconds)

    def hear(self, seconds: float) -> dict[str, Any]:
        """Its next answer."""
        assert self._process.stdout is not None
        last = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not selector.select(0.2):
                if time.monotonic() > last:
                    raise Stopped(f"no answer in {seconds:g} s")
                if self._resident() > 1.5 * MOST_MIB:
                    raise Stopped(f"over {1.5 * MOST_MIB / 1024:g} GiB")
        line = self._process.stdout.readline()
        if not line:
            raise Stopped(self._last_words())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _resident(self) -> float:
        statm = Path(f"/proc/{self._process.pid}/statm")
        return int(statm.read_text().split()[1]) * 4096 / 2**20 if statm.exists() else 0.0

    def _last_words(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        return f"it failed: {lines[-1][:200]}" if lines else f"it ended with code {self._process.returncode}"

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def would_take(self, curve: str, size: float) -> str:
        """What is too much about a size, if anything: by the last two sizes, or in proportion to the only one."""
        history = self.history.get(curve, [])
        for column, most, unit in ((1, MOST_SECONDS, "s"), (2, MOST_MIB, "MiB")):
            if not history:
                continue
            last = history[-1]
            power = 1.0
            if len(history) > 1:
                before = history[-2]
                power = math.log(max(last[column], 1e-9) / max(before[column], 1e-9)) / math.log(last[0] / before[0])
            expected = last[column] * (size / last[0]) ** min(max(power, 0.0), 4.0)
            if expected > most:
                return f"would take about {expected:.0f} {unit}"
        return ""


def session(problem: Problem, plan: Sequence[Point], threads: int, missing: set[str], emit: Emit) -> None:
    """Measure a problem at some points.

    :param plan: curves and sizes.
    :param missing: peers that are not installed.
    """
    children = [
        Child(problem, contender, threads)
        for contender in problem.contenders
        if contender.peer not in missing and any(_takes_part(contender, curve) for curve, _ in plan)
    ]

    def give_up(child: Child, why: str, point: Point) -> None:
        child.end()
        children.remove(child)
        emit({**_about(child, point), "stopped": why})

    try:
        for child in tuple(children):
            try:
                child.hear(PATIENCE)
            except Stopped as stop:
                give_up(child, str(stop), plan[0])
        for point in plan:
            if not children or children[0].contender is not problem.contenders[0]:
                return  # there is nothing to compare with
            curve, size = point
            x = size[problem.curves[curve].axis]
            for child in tuple(children):
                if why := child.would_take(curve, x):
                    give_up(child, why, point)
            running = [child for child in children if _takes_part(child.contender, curve)]
            for child, line in _measure(running, problem, size, lambda child, why, at=point: give_up(child, why, at)):
                child.history.setdefault(curve, []).append((x, line["seconds"], line["peak_mib"]))
                emit({**_about(child, point), **line})
    finally:
        for child in children:
            child.end()


def _takes_part(contender: Contender, curve: str) -> bool:
    return not contender.curves or curve in contender.curves


def _about(child: Child, point: Point) -> dict[str, Any]:
    peer = child.contender.peer
    try:
        known = version(INCLUDED.get(peer, peer)) if peer else ""
    except PackageNotFoundError:
        known = ""
    return {"problem": child.problem.name, "contender": child.contender.name, "version": known, "curve": point[0],
            "size": point[1], "threads": child.threads}  # fmt: skip


def _measure(
    children: list[Child], problem: Problem, size: Size, give_up: Callable[[Child, str], None]
) -> list[tuple[Child, dict[str, Any]]]:
    """Seconds and memory of each at one size; those that were given up are no longer among them."""
    children = list(children)
    lines: dict[int, dict[str, Any]] = {}
    taken: dict[int, list[float]] = {}
    spent: dict[int, float] = {}
    reference: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **problem.make(**size))
        for child in tuple(children):
            try:
                first = child.ask(MOST_SECONDS + PATIENCE, load=str(path))
            except Stopped as stop:
                children.remove(child)
                give_up(child, str(stop))
                continue
            if child.contender is problem.contenders[0]:
                reference = first["answer"]
            if wrong := _differences(child.contender, first["answer"], reference, problem.tolerance):
                children.remove(child)
                give_up(child, f"its answer is not ours: {wrong}")
                continue
            lines[id(child)] = first
            counts = first["wall_s"] > LONG and not child.contender.compiles
            taken[id(child)], spent[id(child)] = ([first["seconds"]], first["wall_s"]) if counts else ([], 0.0)
    for _ in range(REPEATS):
        for child in tuple(children):
            seconds = taken[id(child)]
            if spent[id(child)] > ENOUGH:
                continue
            time.sleep(PAUSE)
            try:
                again = child.ask(MOST_SECONDS)
            except Stopped as stop:
                children.remove(child)
                give_up(child, str(stop))
                continue
            seconds.append(again["seconds"])
            spent[id(child)] += again["wall_s"]
            lines[id(child)]["peak_mib"] = max(lines[id(child)]["peak_mib"], again["peak_mib"])
    found = []
    for child in children:
        line, seconds = lines[id(child)], taken[id(child)]
        middle = statistics.median(seconds)
        shown = {
            "seconds": float(f"{middle:.4g}"),
            "runs": len(seconds),
            "spread": round((max(seconds) - min(seconds)) / middle, 2),
            "first_s": float(f"{line['seconds']:.4g}"),
            "prepare_s": float(f"{line['prepare_s']:.4g}"),
            "peak_mib": round(max(line["peak_mib"], 0.1), 1),
            "answer": {name: float(f"{x:.10g}") for name, x in line["answer"].items()},
            "load": round(os.getloadavg()[0], 2),
        }
        found.append((child, shown))
    return found


def _differences(contender: Contender, answer: dict[str, float], ours: dict[str, float], tolerance: float) -> str:
    wrong = [
        f"{name} {answer[name]:.8g}, ours {ours.get(name, math.nan):.8g}"
        for name in contender.agrees
        if not abs(answer[name] - ours.get(name, math.nan)) <= tolerance * abs(ours.get(name, math.nan))
    ]
    return "; ".join(wrong)
