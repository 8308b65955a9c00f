"""Stepwise EM of a bigram tagger: what a pass with tiny mini-batches costs, and what it learns from real text.

    python -m benchmarks.stepwise             # the speed of a pass, a minute
    python -m benchmarks.stepwise --learn     # and what is learned from the WSJ sample, over 5 seeds (--seeds N)
    python -m benchmarks.stepwise --grid      # and the paper's grid of (power, batch size); ten minutes each

Speed is measured on 8,000 sentences of mean length 22, 45 states, 10,000 words, mini-batches of 3; whole passes, all
updates included, against whole iterations of batch EM on the same data, in the same run.

Learning follows Liang & Klein (2009), figures 1a and 2, on the WSJ sample (3,914 sentences) without a dictionary,
K = 45: 100 iterations of batch EM against 20 passes of stepwise EM, and 5 passes followed by batch EM. Scores are on
the training text, decoded by Viterbi, mean and standard deviation over seeds; nothing is chosen by them. The grid is
searched by likelihood, with scores beside it. Corpora are looked for in ``PYRO_UNSUP_DATA`` (``../shared/data``).
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu

from .common import figure, report, side_by_side
from .hmm_em import problem
from .tagging import DATA

BATCH_SIZE = 3
#: What the paper's table 1 has for tagging: chosen by likelihood, and by accuracy.
SETTINGS = ((0.7, 3), (0.5, 3))


def speed() -> None:
    words, lengths, weights, _ = problem()
    K, V = weights["emission"].shape
    offsets = np.concatenate([[0], np.cumsum(lengths.numpy())])
    corpus = pu.data.Corpus(words.numpy(), offsets, pu.data.Vocab([f"w{i}" for i in range(V)]))
    model, init = pu.models.Tagger(K, corpus.vocab), pu.from_weights(weights)
    batch, online = pu.EM(model, init=init), pu.StepwiseEM(model, init=init, batch_size=BATCH_SIZE)
    batch.start(corpus)
    online.start(corpus)
    seconds = side_by_side({"batch": lambda: batch.step(corpus), "stepwise": online.move}, repeats=7)
    report(
        f"stepwise pass, mini-batches of {BATCH_SIZE}",
        seconds["stepwise"],
        "pass of batch EM",
        seconds["batch"],
        threads=torch.get_num_threads(),
        tokens=corpus.tokens,
        updates=-(-len(corpus) // BATCH_SIZE),
        times_a_batch_pass=round(seconds["stepwise"] / seconds["batch"], 2),
        microseconds_an_update=round(1e6 * seconds["stepwise"] / (len(corpus) / BATCH_SIZE), 1),
    )


def summary(scores: list[dict[str, float]]) -> dict[str, str]:
    return {
        key: f"{np.mean([s[key] for s in scores]):.2f} ({np.std([s[key] for s in scores]):.2f})" for key in scores[0]
    }


def judged(fit: pu.Fit, corpus: pu.data.Corpus) -> dict[str, float]:
    found = fit.evaluate(corpus)
    return {
        "many_to_one": 100 * found["many_to_one"],
        "one_to_one": 100 * found["one_to_one"],
        "vi_bits": found["vi_bits"],
        "clusters_used": found["clusters_used"],
        "loglik_per_token": fit.log_likelihood(corpus) / corpus.tokens,
    }


def learn(seeds: int) -> None:
    corpus = pu.data.read_brackets(DATA / "wsj_nltk.mrg.xz")
    model = pu.models.Tagger(45, corpus.vocab)

    def row(name: str, run: Any) -> None:
        began = time.perf_counter()
        scores = [judged(run(seed), corpus) for seed in range(seeds)]
        figure(name, **summary(scores), starts=seeds, seconds=round(time.perf_counter() - began, 1))

    def batch(iterations: int, init: pu.infer.Initial, seed: int) -> pu.Fit:
        return pu.EM(model, init=init).run(corpus, iterations=iterations, tolerance=0, seed=seed, progress=False)

    def stepwise(power: float, m: int, passes: int, noise: float, seed: int) -> pu.Fit:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="power 0.5")
            engine = pu.StepwiseEM(model, init=pu.noise(noise), power=power, batch_size=m)
        return engine.run(corpus, iterations=passes, tolerance=0, seed=seed, order_seed=seed, progress=False)

    for iterations in (5, 20, 100):
        row(f"batch EM, {iterations} iterations, noise 1", lambda seed, n=iterations: batch(n, pu.noise(1.0), seed))
    for power, m in SETTINGS:
        for noise in (1e-3, 1.0):
            for passes in (1, 2, 5, 20):
                row(
                    f"stepwise EM ({power}, {m}), {passes} passes, noise {noise:g}",
                    lambda seed, a=(power, m, passes, noise): stepwise(*a, seed),
                )

    def hybrid(seed: int) -> pu.Fit:
        return batch(15, pu.from_weights(stepwise(0.5, 3, 5, 1e-3, seed)), seed)

    row("stepwise EM (0.5, 3), 5 passes, then batch EM, 15 iterations", hybrid)


def grid() -> None:
    corpus = pu.data.read_brackets(DATA / "wsj_nltk.mrg.xz")
    model, began = pu.models.Tagger(45, corpus.vocab), time.perf_counter()
    found = pu.select_steps(model, corpus, init=pu.noise(1e-3), score=lambda fit: fit.evaluate(corpus)["many_to_one"])
    for line in found.rows:
        per_token = line["log_likelihood"] / corpus.tokens
        figure(
            "stepwise EM, 20 passes, noise 1e-3",
            power=line["power"],
            batch_size=line["batch_size"],
            loglik_per_token=round(per_token, 4),
            many_to_one=round(100 * line.get("score", float("nan")), 2),
        )
    figure("chosen by likelihood", **found.best, seconds=round(time.perf_counter() - began, 1))


if __name__ == "__main__":
    figure("machine", threads=torch.get_num_threads(), torch=torch.__version__)
    speed()
    if "--learn" in sys.argv:
        learn(int(sys.argv[sys.argv.index("--seeds") + 1]) if "--seeds" in sys.argv else 5)
    if "--grid" in sys.argv:
        grid()
