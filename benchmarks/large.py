"""A corpus larger than one would like in memory: 100 M generated tokens on disk, two EM iterations of a bigram tagger.

    python -m benchmarks.large                          # some minutes, and 450 MB of disk
    python -m benchmarks.large --processes 2            # the same, shared
    python -m benchmarks.large --tokens 5000000 --whole # for comparison: all in memory, all at once

The corpus is written in pieces (``write_flat``), mapped (``Corpus.open``) and looked at in chunks. The peak is that of
resident memory (``ru_maxrss``), of which what is loaded before any data is told apart.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu

from .common import arguments, figure

TAGS, WORDS, PIECE = 45, 50_000, 2_000_000


def pieces(tokens: int) -> Iterator[pu.data.Corpus]:
    """A corpus of Zipf-like words that follow a hidden Markov chain of sorts, some millions of tokens at a time."""
    vocab = pu.data.Vocab([f"w{i}" for i in range(WORDS)])
    for number, first in enumerate(range(0, tokens, PIECE)):
        rng = np.random.default_rng(number)
        lengths = rng.integers(5, 40, min(PIECE, tokens - first) // 22)
        total = int(lengths.sum())
        state = np.cumsum(rng.integers(0, 3, total)) % TAGS  # drifts, so that there is something to learn
        words = (WORDS ** rng.random(total)).astype(np.int64) * 7 + state * 997
        yield pu.data.Corpus(words % WORDS, np.concatenate([[0], np.cumsum(lengths)]), vocab)


def peak() -> float:
    """Of resident memory so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def train(folder: Path, iterations: int, whole: bool) -> dict[str, Any]:
    """Two iterations, and what they took; of several processes, the most that one of them did."""
    from pyro_unsup.infer.processes import gathered

    tiny = next(pieces(22_000))
    pu.EM(pu.models.Tagger(2, tiny.vocab)).session().step(tiny)  # loads everything
    before = peak()
    corpus = pu.data.Corpus.open(folder, mmap=not whole)
    opened = peak()
    began = time.perf_counter()
    em = pu.EM(pu.models.Tagger(TAGS, corpus.vocab)).session()
    losses = [em.step(corpus) for _ in range(iterations)]
    return {
        "tokens": corpus.tokens,
        "corpus_mib": round((corpus.words.nbytes + corpus.offsets.nbytes) / 2**20, 1),
        "seconds": round(time.perf_counter() - began, 1),
        "peak_mib": round(max(gathered(peak())), 1),
        "before_mib": round(before, 1),
        "opened_mib": round(opened, 1),
        "objectives": [round(-loss, 3) for loss in losses],
    }


def main() -> None:
    said = arguments(__doc__, tokens=100_000_000, iterations=2, processes=1, whole=False, folder="")
    with tempfile.TemporaryDirectory(prefix="pyro-unsup-large-") as temporary:
        folder = Path(said.folder or temporary) / "corpus"
        if not folder.exists():
            began = time.perf_counter()
            pu.data.write_flat(pieces(said.tokens), folder)
            figure("written", seconds=round(time.perf_counter() - began, 1))
        threads = torch.get_num_threads() if said.processes == 1 else 1
        # In processes of their own, so that what writing took is not counted.
        found = pu.launch(lambda: train(folder, said.iterations, said.whole), said.processes, threads=threads)
        figure("large, all at once" if said.whole else "large", processes=said.processes, threads=threads, **found)


if __name__ == "__main__":
    main()
