"""One EM iteration of a bigram tagger: against the bare matrix products, in memory, in processes, and as it grows.

    python -m benchmarks.hmm_em                    # all of it, a few minutes
    python -m benchmarks.hmm_em --only ratios      # or memory, processes, growth, imports

8,000 sentences of mean length 22, 45 states, 10,000 words; every iteration starts from the same random weights, whose
log-likelihood must be that of a forward pass in numpy. Whole iterations are timed: E step, M step and everything around
them, in the dtype that users get by default (float64), and in float32. Other libraries: ``python -m benchmarks.peers``.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu

from .common import arguments, figure, report, side_by_side
from .peers.texts import offsets, sentences

TABLES = ("start", "transition", "emission")


def problem() -> tuple[torch.Tensor, torch.Tensor, dict[str, torch.Tensor]]:
    """Words, lengths of sentences, and log-weights to start from."""
    made = sentences(8_000, 45, 10_000, any_length=True)
    weights = {name: torch.from_numpy(made[name]).log() for name in TABLES}
    return torch.from_numpy(made["words"]), torch.from_numpy(made["lengths"]), weights


def log_likelihood(words: torch.Tensor, lengths: torch.Tensor, weights: dict[str, torch.Tensor]) -> float:
    """By a scaled forward pass, a place of all sentences at a time."""
    start, transition, emission = (weights[name].exp().numpy() for name in TABLES)
    says, text, sizes = np.ascontiguousarray(emission.T), words.numpy(), lengths.numpy()
    place = offsets(sizes)[:-1]
    message, total = start * says[text[place]], 0.0
    while len(message):
        scale = message.sum(1, keepdims=True)
        total += float(np.log(scale).sum())
        more = sizes > 1  # words left, with that of the message
        place, sizes = place[more] + 1, sizes[more] - 1
        message = (message / scale)[more] @ transition * says[text[place]]
    return total


def ours(
    words: torch.Tensor, lengths: torch.Tensor, weights: dict[str, torch.Tensor], dtype: torch.dtype
) -> Callable[[], float]:
    """One iteration from these weights; it returns the loss."""
    K, V = weights["emission"].shape
    em = pu.EM(pu.models.Tagger(K, V), init=pu.init.from_weights(weights), dtype=dtype)
    state = em.init(words, lengths)
    return lambda: -em.step(state)[1].objective


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
    words, lengths, weights = problem()
    K = len(weights["start"])
    double, single = ours(words, lengths, weights, torch.float64), ours(words, lengths, weights, torch.float32)
    found = -double(), log_likelihood(words, lengths, weights)
    assert abs(found[0] - found[1]) < 0.001, found
    bare = {
        f"bare {library} {rows}": bare_products(len(words), K, rows, library)
        for library in ("torch", "numpy")
        for rows in (64, 512, 8192)
    }
    seconds = side_by_side({"ours": double, "float32": single, **bare}, repeats=7)
    best = min(bare, key=lambda name: seconds[name])  # the products at their fastest
    about = {"threads": torch.get_num_threads(), "tokens": len(words)}
    times = round(seconds["ours"] / seconds[best], 2)
    report("hmm_em", seconds["ours"], f"{best} matrix products", seconds[best], **about, times_the_products=times)
    report("hmm_em float32", seconds["float32"], "float64", seconds["ours"], **about)


def corpus(tokens: int, V: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 40, tokens // 22 + 1)
    total = int(lengths.sum())
    words = np.minimum((V ** rng.random(total)).astype(np.int64) - 1, V - 1)  # Zipf-like
    return torch.from_numpy(words), torch.from_numpy(lengths)


def time_one(tokens: int, K: int, V: int) -> float:
    words, lengths = corpus(tokens, V)
    em = pu.EM(pu.models.Tagger(K, V)).session()
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
    pu.EM(pu.models.Tagger(K, 30)).session().step(words[:few] % 30, lengths[:20])  # loads everything
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    em = pu.EM(pu.models.Tagger(K, V)).session()
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


def iterations(half: int | None = None) -> float:
    """Seconds of an iteration, the middle one of some; in this process or in several.

    :param half: which half of the data, if not all.
    """
    words, lengths, weights = problem()
    if half is not None:
        cut = len(lengths) // 2
        words = words.split([int(lengths[:cut].sum()), int(lengths[cut:].sum())])[half]
        lengths = lengths.split([cut, len(lengths) - cut])[half]
    K, V = weights["emission"].shape
    em = pu.EM(pu.models.Tagger(K, V), init=pu.init.from_weights(weights))
    fit = em.run(words, lengths, iterations=20, tolerance=0, progress=False)
    assert abs(fit.rows[0]["objective"] - log_likelihood(words, lengths, weights)) < 0.001
    return float(np.median(np.diff([row["seconds"] for row in fit.rows])[2:]))  # the first ones fill caches


def processes() -> None:
    """One process and two, a thread each, in turns; and two that know nothing of each other, with half the data each:
    no way to share the work can be faster on this machine than these.
    """

    def apart() -> float:
        with ThreadPoolExecutor(2) as pool:
            return max(pool.map(lambda half: pu.launch(lambda: iterations(half), processes=1), (0, 1)))

    contenders = {
        "one": lambda: pu.launch(iterations, processes=1),
        "two": lambda: pu.launch(iterations, processes=2),
        "apart": apart,
    }
    rounds = [{name: run() for name, run in contenders.items()} for _ in range(9)]
    gains = {name: sorted(one["one"] / one[name] for one in rounds) for name in ("two", "apart")}
    middle = {name: float(np.median([one[name] for one in rounds])) for name in contenders}
    report(
        "hmm_em, two processes of a thread",
        middle["two"],
        "one process of a thread",
        middle["one"],
        speed_up={name: round(float(np.median(found)), 2) for name, found in gains.items()},
        rounds={name: [round(x, 2) for x in found] for name, found in gains.items()},
        cores=os.cpu_count(),
    )


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
