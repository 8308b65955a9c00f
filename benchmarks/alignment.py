"""IBM Model 1: an EM iteration in one direction, in both and by agreement, and memory on a large text.

    python -m benchmarks.alignment                # all of it, a minute or two
    python -m benchmarks.alignment --quick        # the ratios only
    python -m benchmarks.alignment --memory       # 300,000 pairs, in this process

30,000 pairs of sentences of 20 words on either side, 8,000 types each, 4.4 million pairs of words that meet. Whole
iterations are timed, E step, M step and everything around them, in float64. Other libraries: ``python -m
benchmarks.peers --only alignment``.

What is learned: ``pyro-unsup reproduce liang-klein-2009 --only alignment``.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import pyro_unsup as pu
from pyro_unsup.data import Bitext, Corpus, Vocab
from pyro_unsup.models import Aligner

from .common import arguments, figure, report, side_by_side
from .peers.alignment import our_direction
from .peers.texts import Arrays, bitext, offsets

WORDS = 8_000


def text_of(made: Arrays) -> Bitext:
    vocab = Vocab(str(k) for k in range(WORDS))
    return Bitext(*(Corpus(made[name], offsets(made[f"{name}_lengths"]), vocab) for name in ("source", "target")))


def em_of(model: Aligner, data: Any) -> pu.infer.Session:
    em = pu.EM(model, init=pu.init.uniform()).session()
    em.step(data)
    return em


def ratios() -> None:
    made = bitext(30_000, WORDS, twice=True)
    text = text_of(made)
    began = time.perf_counter()
    aligner = Aligner.of(text, agreement=None)
    indexed = time.perf_counter()
    pairs = aligner.index(text)
    figure(
        "index",
        pairs=len(text),
        tokens=text.target.tokens,
        cells=len(pairs.cells),
        pairs_of_words=len(aligner.lexicon),
        lexicon_s=round(indexed - began, 3),
        numbering_s=round(time.perf_counter() - indexed, 3),
    )
    engines = {
        name: em_of(Aligner(WORDS, WORDS, aligner.lexicon, agreement), pairs)
        for name, agreement in (("no agreement", None), ("product", "product"), ("2008", "2008"))
    }
    runs: dict[str, Callable[[], Any]] = {"one": our_direction(made).run}
    runs |= {name: lambda em=em: em.step(pairs) for name, em in engines.items()}  # type: ignore[misc]
    seconds = side_by_side(runs, repeats=9)
    about = {"threads": torch.get_num_threads(), "pairs": len(text)}
    for name in engines:
        times = round(seconds[name] / seconds["one"], 2)
        what = f"Model 1 iteration, both directions, {name}"
        report(what, seconds[name], "one direction", seconds["one"], **about, times_one_direction=times)
    alone = engines["no agreement"]
    em, state = alone.engine, alone.state
    _, expected = em.e_step(state)
    parts = side_by_side({"e_step": lambda: em.e_step(state), "m_step": lambda: em.m_step(state, expected)})
    figure("both directions by parts", **{f"{name}_s": round(taken, 4) for name, taken in parts.items()})


def memory(pairs: int = 300_000) -> None:
    """A text ten times as large."""
    text = text_of(bitext(pairs, WORDS, twice=True))
    began = time.perf_counter()
    aligner = Aligner.of(text)
    em = pu.EM(aligner, init=pu.init.uniform()).session()
    em.step(text)
    ready = time.perf_counter()
    em.step(text)
    figure(
        "large text, both directions by agreement",
        pairs=pairs,
        cells=len(aligner.index(text).cells),
        pairs_of_words=len(aligner.lexicon),
        index_and_first_iteration_s=round(ready - began, 2),
        iteration_s=round(time.perf_counter() - ready, 2),
        peak_gib=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    )


if __name__ == "__main__":
    asked = arguments(__doc__, quick=False, memory=False)
    if asked.memory:
        memory()
    else:
        figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
        ratios()
        if not asked.quick:
            subprocess.run([sys.executable, "-m", "benchmarks.alignment", "--memory"], check=True)
