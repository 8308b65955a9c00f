"""Two versions of the library side by side, in one run: an iteration of every model, and decoding.

    git worktree add /tmp/old v0.1.0                      # or any commit
    python -m benchmarks.versions --old /tmp/old          # this tree against that one
    python -m benchmarks.versions --old /tmp/old --only dmv --threads 2

One process a version makes the same data and models. They take turns, several times, so that noise of the machine hits
both alike. The ratio is the time of this tree over that of the other one, by medians; below 1 is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()


def seconds_an_iteration(fit: Any) -> float:
    rows = fit.rows
    return float(rows[-1]["seconds"] - rows[0]["seconds"]) / (len(rows) - 1)


def cases() -> dict[str, Callable[[], Callable[[], float]]]:
    """By name, what prepares a case and gives a function that times it once, in the words of all versions."""
    import pyro_unsup as pu

    quiet: dict[str, Any] = {"tolerance": 0.0, "progress": False}

    def em(model: Any, data: Any, iterations: int, estimate: Any = None) -> Callable[[], float]:
        return lambda: seconds_an_iteration(pu.EM(model, estimate).run(data, iterations=iterations, **quiet))

    def timed(work: Callable[[], object]) -> Callable[[], float]:
        def run() -> float:
            began = time.perf_counter()
            work()
            return time.perf_counter() - began

        return run

    def sentences(n: int) -> Any:
        return pu.data.toy.sentences(n, seed=1)

    def tagger(tags: int, n: int, order: int = 1) -> tuple[Any, Any]:
        corpus = sentences(n)
        return pu.models.Tagger(tags, corpus.vocab, order), corpus

    def tags(n: int, longest: int) -> Any:
        corpus = sentences(n).filter(max_length=longest)
        words = corpus.tags
        return [words[a:b].tolist() for a, b in zip(corpus.offsets[:-1], corpus.offsets[1:], strict=True)]

    def dmv() -> Callable[[], float]:
        data = tags(4000, 12)
        return em(pu.models.DMV(max(max(s) for s in data) + 1), data, 8)

    def ccm() -> Callable[[], float]:
        data = sentences(3000).filter(max_length=12)
        return em(pu.models.CCM.of(data), data, 8, pu.AddLambda(0.1))

    def segmenter() -> Callable[[], float]:
        data = pu.data.toy.utterances(4000, seed=1)
        return em(pu.models.Segmenter.of(data), data, 8)

    def aligner(make: Any) -> Callable[[], Callable[[], float]]:
        def prepare() -> Callable[[], float]:
            pairs = pu.data.toy.bitext(6000, seed=1)
            return em(make(pairs), pairs, 5)

        return prepare

    def gibbs() -> Callable[[], float]:
        model, corpus = tagger(20, 3000)
        return timed(lambda: pu.CollapsedGibbs(model).run(corpus, sweeps=5, progress=False))

    def stepwise() -> Callable[[], float]:
        model, corpus = tagger(20, 4000)
        return timed(lambda: pu.StepwiseEM(model, batch_size=10).run(corpus, iterations=2, **quiet))

    def decoding(how: str) -> Callable[[], Callable[[], float]]:
        def prepare() -> Callable[[], float]:
            model, corpus = tagger(45, 4000)
            fit = pu.EM(model).run(corpus, iterations=2, **quiet)
            return timed(lambda: getattr(fit.posterior(corpus), how)())

        return prepare

    found: dict[str, Callable[[], Callable[[], float]]] = {
        "hmm_em": lambda: em(*tagger(45, 8000), 6),
        "hmm_em, trigram": lambda: em(*tagger(12, 2000, 2), 4),
        "dmv": dmv,
        "ccm": ccm,
        "segmentation": segmenter,
        "alignment": aligner(lambda pairs: pu.models.Aligner.of(pairs)),
        "alignment, hmm": aligner(lambda pairs: pu.models.HMMAligner.of(pairs)),
        "gibbs": gibbs,
        "stepwise": stepwise,
        "mode of a tagger": decoding("mode"),
        "draw of a tagger": decoding("sample"),
    }
    return found


def child(threads: int) -> None:
    """Answer names of cases with seconds, one a line."""
    import torch

    torch.set_num_threads(threads)
    known, ready = cases(), {}
    for line in sys.stdin:
        name = line.strip()
        if name not in ready:
            ready[name] = known[name]()
            ready[name]()  # compiles
        print(json.dumps(ready[name]()), flush=True)


def start(tree: Path, threads: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    command = [sys.executable, "-W", "ignore", str(HERE), "--child", "--threads", str(threads)]
    return subprocess.Popen(
        command, env=environment, cwd=tree, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def ask(process: subprocess.Popen[str], name: str) -> float:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{name}\n")
    process.stdin.flush()
    return float(json.loads(process.stdout.readline()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", type=Path, help="a tree of another version")
    parser.add_argument("--only", action="append", help="a case, several times for several")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each (default 9)")
    parser.add_argument("--threads", type=int, default=1, help="of torch and the kernels (default 1)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.threads)
        return
    if given.old is None:
        parser.error("--old names the tree of another version")
    old, new = (start(tree, given.threads) for tree in (given.old.resolve(), HERE.parents[1]))
    print(f"{'case':20}{'other, ms':>12}{'this, ms':>12}{'ratio':>8}   load {os.getloadavg()[0]:.1f}")
    for name in given.only or cases():
        pairs = [(ask(old, name), ask(new, name)) for _ in range(given.rounds)]
        before, after = (statistics.median(x) * 1e3 for x in zip(*pairs, strict=True))
        print(f"{name:20}{before:12.2f}{after:12.2f}{after / before:8.2f}", flush=True)
    for process in (old, new):
        assert process.stdin is not None
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    main()
