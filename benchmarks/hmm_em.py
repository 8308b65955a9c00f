"""One EM iteration of a bigram tagger: against hmmlearn, against the bare matrix products, in memory, and as it grows.

    python -m benchmarks.hmm_em                    # all of it, a few minutes
    python -m benchmarks.hmm_em --only ratios      # or memory, processes, growth, imports

8,000 sentences of mean length 22, 45 states, 10,000 words; every side starts from the same random weights, whose
log-likelihood is -1,626,458.208. Whole iterations are timed: E step, M step and everything around them, in the dtype
that users get by default (float64).
"""

from __future__ import annotations

import logging
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu

from .common import arguments, figure, peers_data, report, side_by_side

LOG_LIKELIHOOD = -1_626_458.208


def problem() -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor], dict[str, np.ndarray]]:
    raw = dict(np.load(peers_data() / "hmm.npz"))
    weights = {
        name: torch.from_numpy(raw[key]).log()
        for name, key in (("start", "pi0"), ("transition", "A0"), ("emission", "B0"))
    }
    return torch.from_numpy(raw["tokens"]), torch.from_numpy(raw["lens"]), weights, raw


def ours(words: torch.Tensor, lengths: torch.Tensor, weights: dict[str, torch.Tensor], dtype: torch.dtype) -> pu.EM:
    K, V = weights["emission"].shape
    em = pu.EM(pu.models.Tagger(K, V), init=pu.from_weights(weights), dtype=dtype)
    em.start(words, lengths)
    return em


def bare_products(tokens: int, K: int, rows: int, library: str) -> Callable[[], None]:
    """What forward-backward cannot do without: three products of K x K with the messages of all tokens."""
    rng = np.random.default_rng(0)
    message, A, out, square = rng.random((rows, K)), rng.random((K, K)), np.empty((rows, K)), np.empty((K, K))
    if library == "numpy":
        product: Any = np.matmul
        arrays: list[Any] = [message, A, A.T, message.T, out, square]
    else:
        product = torch.mm
        arrays = [torch.from_numpy(x) for x in (message, A, A.T, message.T, out, square)]
    message, A, A_t, message_t, out, square = arrays

    def run() -> None:
        for _ in range(tokens // rows):
            product(message, A, out=out)
            product(message, A_t, out=out)
            product(message_t, out, out=square)

    return run


def ratios() -> None:
    from hmmlearn.hmm import CategoricalHMM

    logging.getLogger("hmmlearn").setLevel(logging.ERROR)
    words, lengths, weights, raw = problem()
    K, V = weights["emission"].shape
    start = {name: w.clone() for name, w in weights.items()}

    def step(em: pu.EM) -> float:
        em.weights = dict(start) if em.dtype == torch.float64 else {n: w.float() for n, w in start.items()}
        return em.step(words, lengths)

    double, single = ours(words, lengths, weights, torch.float64), ours(words, lengths, weights, torch.float32)

    def hmmlearn() -> float:
        model = CategoricalHMM(K, n_features=V, n_iter=1, tol=0, params="ste", init_params="", implementation="scaling")
        model.startprob_, model.transmat_, model.emissionprob_ = raw["pi0"], raw["A0"], raw["B0"]
        model.fit(raw["tokens"][:, None], raw["lens"])
        return float(model.monitor_.history[0])

    found = (-step(double), hmmlearn())
    assert all(abs(x - LOG_LIKELIHOOD) < 0.001 for x in found), found
    bare = {
        f"bare {library} {rows}": bare_products(len(words), K, rows, library)
        for library in ("torch", "numpy")
        for rows in (64, 512, 8192)
    }
    seconds = side_by_side(
        {"ours": lambda: step(double), "float32": lambda: step(single), "hmmlearn": hmmlearn, **bare}, repeats=7
    )
    best = min(bare, key=lambda name: seconds[name])  # the products at their fastest
    threads = torch.get_num_threads()
    report(
        "hmm_em float64",
        seconds["ours"],
        "hmmlearn scaling",
        seconds["hmmlearn"],
        threads=threads,
        tokens=len(words),
        log_likelihood=round(found[0], 3),
    )
    report("hmm_em float32", seconds["float32"], "hmmlearn scaling", seconds["hmmlearn"], threads=threads)
    report(
        "hmm_em float64",
        seconds["ours"],
        best + " matrix products",
        seconds[best],
        threads=threads,
        times_the_products=round(seconds["ours"] / seconds[best], 2),
    )


def corpus(tokens: int, V: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 40, tokens // 22 + 1)
    total = int(lengths.sum())
    words = np.minimum((V ** rng.random(total)).astype(np.int64) - 1, V - 1)  # Zipf-like
    return torch.from_numpy(words), torch.from_numpy(lengths)


def time_one(tokens: int, K: int, V: int) -> float:
    words, lengths = corpus(tokens, V)
    em = pu.EM(pu.models.Tagger(K, V))
    return side_by_side({"ours": lambda: em.step(words, lengths)}, repeats=3)["ours"]


def growth() -> None:
    sizes = [50_000, 100_000, 200_000, 400_000, 800_000]
    seconds = [time_one(n, 45, 10_000) for n in sizes]
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    figure("growth in tokens", tokens=sizes, seconds=[round(s, 4) for s in seconds], exponent=round(float(slope), 2))
    states = [32, 64, 128, 256]
    seconds = [time_one(100_000, K, 2_000) for K in states]
    slope = np.polyfit(np.log(states), np.log(seconds), 1)[0]
    figure("growth in states", states=states, seconds=[round(s, 4) for s in seconds], exponent=round(float(slope), 2))


def memory() -> None:
    """In a process of its own: 1.16 M tokens, 45 states, 50,000 words. What EM takes besides what is loaded anyway.

    Its tables are log-weights and expected counts; at the peak there are old weights, their exponentials and the counts
    of each thread. ``times`` compares that, corpus included, with the flat corpus and the tables.
    """
    K, V = 45, 50_000
    words, lengths = corpus(1_160_000, V)
    few = int(lengths[:20].sum())
    pu.EM(pu.models.Tagger(K, 30)).step(words[:few] % 30, lengths[:20])  # loads everything
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    em = pu.EM(pu.models.Tagger(K, V))
    for _ in range(3):
        began = time.perf_counter()
        em.step(words, lengths)
        seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    flat = (words.nbytes + lengths.nbytes) / 2**20
    weights = sum(w.nbytes for w in em.weights.values()) / 2**20
    took = (peak - before) / 2**10 + flat
    figure(
        "Brown-sized",
        tokens=len(words),
        seconds=round(seconds, 3),
        threads=torch.get_num_threads(),
        peak_gib=round(peak / 2**20, 3),
        em_mib=round(took, 1),
        corpus_mib=round(flat, 1),
        weights_mib=round(weights, 1),
        times=round(took / (flat + 2 * weights), 2),
        times_counting_weights_once=round(took / (flat + weights), 2),
    )


def iterations() -> list[float]:
    """Seconds of each of some iterations, in this process or in several."""
    words, lengths, weights, _ = problem()
    K, V = weights["emission"].shape
    em = pu.EM(pu.models.Tagger(K, V), init=pu.from_weights(weights))
    fit = em.run(words, lengths, iterations=16, tolerance=0, progress=False)
    assert abs(fit.rows[0]["objective"] - LOG_LIKELIHOOD) < 0.001
    return [float(x) for x in np.diff([row["seconds"] for row in fit.rows])][2:]  # the first ones fill caches


def processes() -> None:
    """One process and two, a thread each, in turns."""
    found: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(5):
        for number, seconds in found.items():
            seconds += pu.launch(iterations, processes=number)
    one, two = (float(np.median(seconds)) for seconds in found.values())
    report("hmm_em, two processes of a thread", two, "one process of a thread", one, cores=os.cpu_count())


def imports() -> None:
    code = "import time, pyro; t = time.perf_counter(); import pyro_unsup; print(time.perf_counter() - t)"
    seconds = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout) for _ in range(5)
    ]
    figure("import, beyond pyro", seconds=round(sorted(seconds)[2], 3))


if __name__ == "__main__":
    parts = {f.__name__: f for f in (ratios, memory, processes, growth, imports)}
    only = arguments(__doc__, tuple(parts), only="").only
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    for name, part in parts.items():
        if name == "memory" and not only:  # its peak must be its own
            subprocess.run([sys.executable, "-m", "benchmarks.hmm_em", "--only", name], check=True)
        elif only in ("", name):
            part()
