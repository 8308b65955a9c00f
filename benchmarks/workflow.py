"""Log-likelihoods and recovered structure of many draws: a tagger of WSJ size under 1,000 draws.

    python -m benchmarks.workflow [--draws 1000] [--sentences 4000]

The text is random: sentences of 24 words on average, 10,000 words. The draws are small changes of one set of tables. A
thousand of them have 1.8 GB in single precision, so that they lie in a file, as draws that were saved do. What is
measured is the time from there, and the memory of the process besides the pages of that file. Seconds of the
processors, ``cpu_seconds``, tell what a quiet machine would take: half of them, on two cores.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.models import Tagger

from .common import arguments, figure

STATES, WORDS, LENGTH = 45, 10_000, 24


def text(sentences: int) -> pu.data.Corpus:
    rng = np.random.default_rng(0)
    lengths = rng.poisson(LENGTH - 1, sentences) + 1
    words = rng.integers(WORDS, size=lengths.sum())
    return pu.data.Corpus(
        words, np.concatenate([[0], np.cumsum(lengths)]), pu.data.Vocab([str(i) for i in range(WORDS)])
    )


def tables(draws: int, folder: str) -> dict[str, Any]:
    """Draws of all tables, (1, draws, ...), those of the emissions in a file."""
    rng = np.random.default_rng(1)

    def rows(*shape: int) -> Any:
        return rng.dirichlet(np.full(shape[-1], 0.5), shape[:-1]).astype(np.float32)

    emission = rows(STATES, WORDS) + np.float32(1e-9)
    place = Path(folder) / "emission.dat"
    found = np.memmap(place, np.float32, "w+", shape=(1, draws, STATES, WORDS))
    for i in range(draws):
        moved = emission * np.exp(0.05 * rng.standard_normal(emission.shape, np.float32))
        found[0, i] = moved / moved.sum(-1, keepdims=True)
    found.flush()
    start = np.stack([rows(STATES) for _ in range(draws)])
    transition = np.stack([rows(STATES, STATES) for _ in range(draws)])
    emission = np.memmap(place, np.float32, "r", shape=(1, draws, STATES, WORDS))
    return {"start": start[None], "transition": transition[None], "emission": emission}


class Memory:
    """The largest memory of this process while it runs, without pages of files, in MiB."""

    def __enter__(self) -> Memory:
        self.before = self.peak = self._now()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.05):
            self.peak = max(self.peak, self._now())

    @staticmethod
    def _now() -> float:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("RssAnon"))


def run(draws: int, sentences: int) -> None:
    corpus = text(sentences)
    model = Tagger(STATES, corpus.vocab)
    with tempfile.TemporaryDirectory() as folder:
        posterior = tables(draws, folder)
        few = {name: x[:, :2] for name, x in posterior.items()}
        pu.to_arviz(few, corpus, model=model, groups=["log_likelihood"], progress=False)  # compiles
        pu.recover(few, model, corpus, how="mode", progress=False)
        seconds: dict[str, float] = {}
        cpu: dict[str, float] = {}
        for what in ("log_likelihood", "mode"):
            with Memory() as memory:
                began, worked = time.perf_counter(), time.process_time()
                if what == "mode":
                    found = pu.recover(posterior, model, corpus, how="mode", progress=False)["recovered"]["mode"]
                else:
                    made = pu.to_arviz(posterior, corpus, model=model, groups=[what], progress=False)
                    found = made[what]["words"]
                seconds[what], cpu[what] = time.perf_counter() - began, time.process_time() - worked
            figure(
                what,
                seconds=round(seconds[what], 1),
                cpu_seconds=round(cpu[what], 1),
                mib=round(memory.peak - memory.before),
                result_mib=round(found.nbytes / 2**20),
            )
    both = {"seconds": round(sum(seconds.values()), 1), "cpu_seconds": round(sum(cpu.values()), 1)}
    figure("both", **both, draws=draws, sentences=sentences, tokens=corpus.tokens)


if __name__ == "__main__":
    asked = arguments(__doc__, draws=1000, sentences=4000)
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    run(asked.draws, asked.sentences)
