"""Plant faults in kernels and handlers, and count those that the tests find.

    python -m tests.mutation handlers --sample 300       # so many at random; without it all, which takes hours
    python -m tests.mutation kernels --sample 400 --out FILE    # goes on where it has stopped, if FILE is there

Faults are those of cosmic-ray (``pip install cosmic-ray``): other operators, other numbers, loops that do not run,
conditions turned round. Each is put before the tests of its module, the quickest first, in a process of its own, until
one fails; tests that take more than some seconds are not asked. Kernels run as plain Python where they can, for numba
would be compiling all day. A fault that makes its tests hang is found. One JSON line a fault in FILE; what was not
found, and the sums, on the screen.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import RLock
from typing import Any

from tqdm import tqdm

from .mutants import Mutant, mutants
from .targets import ROOT, Target, targets
from .trial import order_of, tried

Row = dict[str, Any]


def arguments() -> argparse.Namespace:
    said = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    said.add_argument("area", choices=["kernels", "handlers"])
    said.add_argument("--sample", type=int, default=0, help="faults drawn at random; 0 for all")
    said.add_argument("--only", default="", help="modules whose name begins so")
    said.add_argument("--seed", type=int, default=0)
    said.add_argument("--processes", type=int, default=2)
    said.add_argument("--out", type=Path, default=Path("mutation.jsonl"))
    return said.parse_args()


def prepare() -> None:
    """Import what takes long, once: children begin with it. The package itself they import with its fault."""
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYRO_UNSUP_EXAMPLES": "0.2"}
    tqdm.set_lock(RLock())  # not one that children share: one that is killed would keep it
    for name in ("numba", "pandas", "pyro", "pytest", "scipy.optimize", "torch"):
        __import__(name)
    sys.modules["torch"].set_num_threads(1)


def run(chosen: Sequence[Mutant], target_of: dict[Path, Target], out: Path, processes: int) -> list[Row]:
    """What became of each fault."""
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(row["module"], row["operator"], row["occurrence"], row["digest"]): row for row in rows}
    folder = out.with_suffix(".tests")
    folder.mkdir(exist_ok=True)
    todo = [m for m in chosen if m.name not in done]
    suites = {target_of[m.path].tests: target_of[m.path] for m in todo}
    with ThreadPoolExecutor(processes) as pool:  # one of the modules with the same suite has it timed for all
        list(tqdm(pool.map(lambda one: order_of(one, folder), suites.values()), total=len(suites), unit="suite"))
    orders = {path: order_of(target_of[path], folder) for path in {m.path for m in todo}}

    def trial(mutant: Mutant) -> tuple[Mutant, Row]:
        return mutant, tried(mutant, target_of[mutant.path].kernels, orders[mutant.path])

    with out.open("a") as file, ThreadPoolExecutor(processes) as pool:
        for mutant, row in tqdm(pool.map(trial, todo), total=len(todo), unit="fault"):
            print(json.dumps(row), file=file, flush=True)
            done[mutant.name] = row
    return [done[m.name] for m in chosen]


def main() -> None:
    asked = arguments()
    prepare()
    target_of = {one.path: one for one in targets(asked.area) if one.path.stem.startswith(asked.only)}
    every = [mutant for path in target_of for mutant in mutants(path)]
    chosen = random.Random(asked.seed).sample(every, min(asked.sample or len(every), len(every)))
    rows = run(chosen, target_of, asked.out.absolute(), asked.processes)
    for row in rows:
        if row["outcome"] == "survived":
            print(f"{row['module']}.py:{row['line']}: {row['as']}  [{row['operator']}]")
    outcomes = Counter(row["outcome"] for row in rows)
    share = round(1 - outcomes["survived"] / max(len(rows), 1), 3)
    print(json.dumps({"area": asked.area, "faults": len(every), "tried": len(rows), **outcomes, "share_found": share}))


if __name__ == "__main__":
    main()
