"""Fuzz every target, guided by coverage: ``python -m tests.fuzz --seconds 60 [--only TARGET]``.

One line of JSON a target: executions, how many of them were read rather than refused, seconds, and crashes by kind and
place. Inputs that fail are kept. It ends with 1 if there were any. Needs atheris (``pip install atheris``).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .targets import TARGETS

GRACE = 90  # seconds to start, and for the last input


def fuzz(name: str, seconds: int, kept: Path) -> dict[str, Any]:
    """One target in a process of its own."""
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None  # files that never reach a disk
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        scratch = Path(folder)
        command = [sys.executable, "-m", "tests.fuzz.by_atheris", name, str(seconds), folder, str(kept)]
        try:
            ended = subprocess.run(command, capture_output=True, timeout=seconds + GRACE)
            code, said = ended.returncode, ended.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired as error:
            code, said = -1, f"did not end\n{(error.stderr or b'').decode(errors='replace')}"
        note = scratch / "found.json"
        found: dict[str, Any] = (
            json.loads(note.read_text()) if note.is_file() else {"target": name, "executions": 0, "crashes": {}}
        )
        if code != 0:  # out of memory, out of time, or a signal: libFuzzer has written the input down
            what = next((line for line in said.splitlines() if "ERROR" in line or "Error" in line), said[-300:])
            found["crashes"][f"ended with {code}"] = what[:200]
            for one in scratch.glob("*-*"):
                kept.mkdir(parents=True, exist_ok=True)
                shutil.copy(one, kept / f"{name}-{one.name}".replace(" ", "-"))
        if found["crashes"]:
            sys.stderr.write(said[-4000:])
        return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", action="append", choices=TARGETS, help="this target; may be given several times")
    parser.add_argument("--kept", type=Path, default=Path("fuzz-crashes"), help="the folder for inputs that fail")
    given = parser.parse_args()
    failed = False
    for name in given.only or TARGETS:
        found = fuzz(name, given.seconds, given.kept)
        print(json.dumps(found), flush=True)
        failed |= bool(found["crashes"])
    sys.exit(failed)


if __name__ == "__main__":
    main()
