"""IBM Model 1: one EM iteration against nltk and eflomal, and memory on a large text.

    python -m benchmarks.alignment                # all of it, several minutes
    python -m benchmarks.alignment --quick        # the ratios only
    python -m benchmarks.alignment --memory       # 300,000 pairs, in this process

30,000 pairs of sentences, 600,143 words on either side, 8,000 types each, 4.3 million pairs of words that meet. Whole
iterations are timed, E step, M step and everything around them, in float64. ``nltk`` is timed on 1,000 pairs and scaled
by the number of pairs of words in them, which its time goes with; ``eflomal`` (a Gibbs sampler in C; its rows are left
out where it is not installed) by the difference of runs with 21 and with 1 iterations of its own Model 1, both
directions together. Iterations are timed several in a row, so that they take about as long as what they are compared
with and share a busy machine alike; each time is the smallest of several, taken in turns.

What is learned: ``pyro-unsup reproduce liang-klein-2009 --only alignment``.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import torch

import pyro_unsup as pu
from pyro_unsup.data import Bitext, Corpus, Vocab
from pyro_unsup.distributions import Alignment
from pyro_unsup.models import Aligner
from pyro_unsup.tables import declare

from .common import SETTLE, arguments, figure, peers_data, report

NLTK_PAIRS = 1_000
#: Iterations in a row: in one direction, against nltk, and in both, against eflomal.
ALONE, TOGETHER = 5, 20


def problem() -> Bitext:
    raw = np.load(peers_data() / "bitext.npz")
    vocab = Vocab(str(k) for k in range(int(raw["V"])))
    sides = (Corpus(raw[name], np.concatenate([[0], np.cumsum(raw[f"{name}_lens"])]), vocab) for name in ("src", "tgt"))
    return Bitext(*sides)


def em_of(model: Callable[..., Any], data: Any) -> pu.EM:
    em = pu.EM(model, init=pu.uniform())
    em.step(data)
    return em


def one_direction(aligner: Aligner) -> Callable[[Any], None]:
    """The forward half of an aligner, as a model of its own."""
    table = aligner.declarations()["translation_forward"]

    def model(pairs: Any) -> None:
        translation = declare(table)
        alone = -(pairs.grid.source_lengths + 1).to(translation.dtype).log()
        with pyro.plate("pairs", len(pairs)):
            pyro.sample("forward", Alignment(translation, pairs.grid, alone, alone), obs=pairs.cells)

    return model


def nltk_iteration(text: Bitext) -> tuple[Callable[[], None], float]:
    """One EM iteration on the first pairs, and how many times as many pairs of words there are in all."""
    from nltk.translate import AlignedSent, IBMModel1

    some = [AlignedSent(text.target.sentence(k), text.source.sentence(k)) for k in range(NLTK_PAIRS)]
    model = IBMModel1(some, 1)
    words = (text.source.lengths + 1) * text.target.lengths
    return lambda: model.train(some), float(words.sum() / words[:NLTK_PAIRS].sum())


def eflomal_runs() -> dict[int, Callable[[], None]] | None:
    """Whole runs of eflomal's Model 1 in both directions, by number of iterations."""
    try:
        from eflomal import Aligner as Eflomal
    except ImportError:
        return None
    texts = [(peers_data() / f"{name}.txt").read_text().splitlines() for name in ("src", "tgt")]

    def run(iterations: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            sampler = Eflomal(model=1, n_iterations=(iterations, 0, 0), n_samplers=1)
            names = {f"links_filename_{way}": f"{folder}/{way}" for way in ("fwd", "rev")}
            sampler.align(*texts, **names, quiet=True)

    return {n: lambda n=n: run(n) for n in (1, 1 + TOGETHER)}  # type: ignore[misc]


def repeated(em: pu.EM, data: Any, times: int) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            em.step(data)

    return run


def ratios() -> None:
    text = problem()
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
    models = {agreement: Aligner(8000, 8000, aligner.lexicon, agreement) for agreement in (None, "product", "2008")}
    runs = {f"both {agreement}": repeated(em_of(model, pairs), pairs, TOGETHER) for agreement, model in models.items()}
    single = em_of(one_direction(aligner), pairs)
    alone: dict[str, Callable[[], Any]] = {"one": repeated(single, pairs, ALONE)}
    alone["nltk"], scale = nltk_iteration(text)
    peer = eflomal_runs()
    if peer is None:
        figure("eflomal is not installed: its rows are left out (pip install eflomal)")
    else:
        runs |= {f"eflomal {n}": run for n, run in peer.items()}
    seconds = _smallest(alone | runs)
    about = {"threads": torch.get_num_threads(), "pairs": len(text)}
    theirs = scale * seconds["nltk"]
    ours = seconds["one"] / ALONE
    report("Model 1 iteration, one direction", ours, "nltk, scaled", theirs, **about, nltk_pairs=NLTK_PAIRS)
    if peer is not None:
        sweep = (seconds[f"eflomal {1 + TOGETHER}"] - seconds["eflomal 1"]) / TOGETHER
        for agreement in models:
            ours = seconds[f"both {agreement}"] / TOGETHER
            name = f"Model 1 iteration, both directions, agreement {agreement}"
            report(name, ours, "eflomal sweep", sweep, **about, times_the_sweep=round(ours / sweep, 2))
    parts = {"look": single.look, "move": single.move}
    figure("one direction by parts", **{f"{name}_s": round(_median(part), 4) for name, part in parts.items()})


def _smallest(runs: dict[str, Callable[[], Any]], rounds: int = 7) -> dict[str, float]:
    """Seconds of each function at its best, one round of all of them after the other."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()  # compiles, fills caches
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(SETTLE)
            began = time.perf_counter()
            run()
            taken[name].append(time.perf_counter() - began)
    return {name: min(seconds) for name, seconds in taken.items()}


def _median(run: Callable[[], Any], repeats: int = 5) -> float:
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def memory(pairs: int = 300_000, words: int = 8_000, seed: int = 0) -> None:
    """A text ten times as large: words by a law of Zipf, translated word for word, some of them noise."""
    rng = np.random.default_rng(seed)
    weight = 1 / (np.arange(words) + 2.7)
    lengths = np.clip(rng.poisson(20, pairs), 3, 45)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    source, noise = (rng.choice(words, offsets[-1], p=weight / weight.sum()).astype(np.int32) for _ in range(2))
    lexicon = rng.integers(0, words, (words, 3), dtype=np.int32)
    target = lexicon[source, rng.choice(3, offsets[-1], p=[0.7, 0.2, 0.1])]
    target = np.where(rng.random(offsets[-1]) < 0.15, noise, target)
    vocab = Vocab(str(k) for k in range(words))
    text = Bitext(Corpus(source, offsets, vocab), Corpus(target, offsets, vocab))
    began = time.perf_counter()
    aligner = Aligner.of(text)
    em = pu.EM(aligner, init=pu.uniform())
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
