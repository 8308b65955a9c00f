"""One E step of the dependency model with valence: against posteriors alone and with features, and as it grows.

    python -m benchmarks.dmv                    # all of it
    python -m benchmarks.dmv --quick            # the ratios only
    python -m benchmarks.dmv --only growth      # or ratios

7,000 random tag sequences of length 1 to 10. A whole E step of the model, with stops, through Pyro, in float64, is
compared with posteriors of all arcs where stops weigh nothing, which is the part that other libraries have: ``python -m
benchmarks.peers --only dependency``. With one thread, then two.

What is learned: ``pyro-unsup reproduce berg-kirkpatrick-2010 --only grammar-wsj``, and ``cohen-smith-2010``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.models import DMV

from .ccm import problem
from .common import arguments, figure, report, side_by_side
from .peers.trees import our_dependencies


def e_step(corpus: pu.data.Corpus, engine: pu.EM | pu.Gradient) -> Callable[[], Any]:
    """An E step of the engine, through Pyro."""
    state: Any = engine.init(corpus)
    return lambda: engine.e_step(state) if isinstance(engine, pu.EM) else engine.gradient(state)


def ratios() -> None:
    corpus, made = problem()
    model = DMV.of(corpus)
    start = model.harmonic_start(corpus)
    classes = ({str(k) for k in range(6)}, {str(k) for k in range(6, 12)})  # as many nouns and verbs as Penn tags have
    featured = pu.LogLinear(pu.templates.dependency(classes), kappa=1, fit_start=True)
    runs = {
        "posteriors": our_dependencies(made).run,
        "E step": e_step(corpus, pu.EM(model, init=start)),
        "gradient": e_step(corpus, pu.Gradient(model, featured, start)),
    }
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        seconds = side_by_side(runs, repeats=31)
        about = {"threads": threads, "sentences": len(corpus), "tokens": corpus.tokens}
        alone = seconds["posteriors"]
        times = round(seconds["E step"] / alone, 2)
        report("DMV E step", seconds["E step"], "arc posteriors alone", alone, **about, times_the_posteriors=times)
        report("DMV direct gradient with features", seconds["gradient"], "DMV E step", seconds["E step"], **about)
    torch.set_num_threads(before)


def growth() -> None:
    """Seconds by the length of sentences, and by their number; one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    lengths = [10, 20, 40, 80, 160]
    by_length = [time_one(max(4, 8000 // n), n) / max(4, 8000 // n) for n in lengths]
    sizes = [4_000, 8_000, 16_000, 32_000]
    by_size = [time_one(n, 10) for n in sizes]
    figure(
        "growth in length",
        words=lengths,
        seconds_a_sentence=[float(f"{s:.3g}") for s in by_length],
        exponents=_exponents(lengths, by_length),
    )
    figure(
        "growth in sentences",
        sentences=sizes,
        seconds=[float(f"{s:.3g}") for s in by_size],
        exponents=_exponents(sizes, by_size),
    )
    torch.set_num_threads(before)


def time_one(sentences: int, words: int) -> float:
    """An E step on random sentences of one length, 30 tags."""
    rng = np.random.default_rng(0)
    tokens = np.minimum((30 ** rng.random(sentences * words)).astype(np.int64), 29)
    vocab = pu.data.Vocab(str(k) for k in range(30))
    corpus = pu.data.Corpus(tokens, np.arange(sentences + 1) * words, vocab)
    model = DMV.of(corpus)
    return side_by_side({"ours": e_step(corpus, pu.EM(model, init=model.harmonic_start(corpus)))}, repeats=7)["ours"]


def _exponents(sizes: list[int], seconds: list[float]) -> list[float]:
    """The power that time grows with, from each size to the next."""
    return [round(float(e), 2) for e in np.diff(np.log(seconds)) / np.diff(np.log(sizes))]


def main() -> None:
    asked = arguments(__doc__, ("ratios", "growth"), quick=False, only="")
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    only = "ratios" if asked.quick else asked.only
    if only in ("", "ratios"):
        ratios()
    if only in ("", "growth"):
        growth()


if __name__ == "__main__":
    main()
