"""Timing side by side, and where the inputs come from."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

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
    print(json.dumps(line), flush=True)


def figure(name: str, **values: Any) -> None:
    """One JSON line for a measurement without a peer."""
    print(json.dumps({"name": name, **values, "load": round(os.getloadavg()[0], 2)}), flush=True)


def peers_data() -> Path:
    """The folder of benchmark inputs, made once by the generator in ``PYRO_UNSUP_PEERS`` (``../shared/peers``)."""
    scripts = Path(os.environ.get("PYRO_UNSUP_PEERS", ROOT.parent / "shared" / "peers"))
    made = Path(tempfile.gettempdir()) / "pyro_unsup_benchmarks"
    if not (made / "done").exists():
        if not (scripts / "gen_data.py").exists():
            sys.exit(f"no gen_data.py in {scripts}: set PYRO_UNSUP_PEERS to the folder that has it")
        made.mkdir(exist_ok=True)
        subprocess.run(
            [sys.executable, "gen_data.py"],
            cwd=scripts,
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PEERS_DATA": str(made), "PYTHONDONTWRITEBYTECODE": "1"},
        )
        (made / "done").touch()
    return made
