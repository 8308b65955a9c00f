"""Stepwise EM of a bigram tagger: what a pass with tiny mini-batches costs, and what it learns from real text.

    python -m benchmarks.stepwise             # the speed of a pass, a minute
    python -m benchmarks.stepwise --learn     # what is learned from the WSJ sample, over 5 seeds (--seeds N)
    python -m benchmarks.stepwise --grid      # the paper's grid of (power, batch size); either five to ten minutes

Speed is measured on 8,000 sentences of mean length 22, 45 states, 10,000 words, mini-batches of 3; whole passes, all
updates included, against whole iterations of batch EM on the same data, in the same run.

Learning follows Liang & Klein (2009), figures 1a and 2, on the WSJ sample (3,914 sentences) without a dictionary,
K = 45: 100 iterations of batch EM against 20 passes of stepwise EM, and 5 passes followed by batch EM. Scores are on
the training text, decoded by Viterbi, mean and standard deviation over seeds, each of which makes both the start and
the order; nothing is chosen by them. The grid is searched by likelihood, one seed, with scores beside it. Corpora are
looked for in ``PYRO_UNSUP_DATA`` (``../shared/data``).
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu

from .common import arguments, figure, report, side_by_side, spread
from .hmm_em import problem
from .tagging import DATA

BATCH_SIZE = 3
#: What the paper's table 1 has for tagging, chosen by likelihood and by accuracy; and what the grid chooses here.
SETTINGS = ((0.7, 3), (0.5, 3), (0.6, 3))
ITERATIONS, PASSES = (1, 2, 5, 20, 100), (1, 2, 5, 20)


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


def summary(scores: list[dict[str, float]], digits: int = 2) -> dict[str, str]:
    """Mean and standard deviation of each score, over runs."""
    columns = {key: [one[key] for one in scores] for key in scores[0]}
    return {key: spread(x, digits) for key, x in columns.items()}


def online(model: Any, power: float, m: int, init: pu.infer.Initial) -> pu.StepwiseEM:
    """Stepwise EM; the paper's grid has powers down to 0.5, which warn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="power 0.5")
        return pu.StepwiseEM(model, init=init, power=power, batch_size=m)


def along(
    engine: pu.EM | pu.StepwiseEM, data: Any, at: Sequence[int], judge: Callable[[pu.Fit], Any], **seeds: Any
) -> list[Any]:
    """What a judge says of one run after so many passes or iterations, and after so many, ..."""
    found = []
    for passes in at:
        left = passes - engine.iteration
        found.append(judge(engine.run(data, iterations=left, tolerance=0.0, progress=False, **seeds)))
    return found


def wsj() -> pu.data.Corpus:
    path = DATA / "wsj_nltk.mrg.xz"
    if not path.exists():
        sys.exit(f"the WSJ sample is not at {path}: set PYRO_UNSUP_DATA to the folder that has it")
    return pu.data.read_brackets(path)


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
    corpus = wsj()
    model = pu.models.Tagger(45, corpus.vocab)

    def judge(fit: pu.Fit) -> dict[str, float]:
        return judged(fit, corpus)

    def rows(name: str, at: Sequence[int], run: Callable[[int], list[dict[str, float]]]) -> None:
        began = time.perf_counter()
        by_seed = [run(seed) for seed in range(seeds)]
        seconds = round(time.perf_counter() - began, 1)
        for passes, scores in zip(at, zip(*by_seed, strict=True), strict=True):
            figure(name, passes=passes, **summary(list(scores)), starts=seeds, seconds_in_all=seconds)

    def batch(at: Sequence[int], init: pu.infer.Initial, seed: int) -> list[dict[str, float]]:
        return along(pu.EM(model, init=init), corpus, at, judge, seed=seed)

    def stepwise(power: float, m: int, noise: float, seed: int) -> list[dict[str, float]]:
        engine = online(model, power, m, pu.noise(noise))
        return along(engine, corpus, PASSES, judge, seed=seed, order_seed=seed)

    def hybrid(seed: int) -> list[dict[str, float]]:
        engine = online(model, 0.5, 3, pu.noise(1e-3))
        (first,) = along(engine, corpus, [5], lambda fit: fit, seed=seed, order_seed=seed)
        return batch((5, 15), pu.from_weights(first), seed)

    rows("batch EM, noise 1", ITERATIONS, partial(batch, ITERATIONS, pu.noise(1.0)))
    for power, m in SETTINGS:
        for noise in (1e-3, 1.0):
            rows(f"stepwise EM ({power}, {m}), noise {noise:g}", PASSES, partial(stepwise, power, m, noise))
    rows("stepwise EM (0.5, 3), 5 passes, noise 0.001, then batch EM", (5, 15), hybrid)


def grid() -> None:
    corpus = wsj()
    model, began = pu.models.Tagger(45, corpus.vocab), time.perf_counter()
    found = pu.select_steps(model, corpus, init=pu.noise(1e-3), score=lambda fit: fit.evaluate(corpus)["many_to_one"])
    for name, lines in (("stepwise EM, 20 passes, noise 1e-3", found.rows), ("chosen by likelihood", [found.best])):
        for line in lines:
            figure(
                name,
                power=line["power"],
                batch_size=line["batch_size"],
                loglik_per_token=round(line["log_likelihood"] / corpus.tokens, 4),
                many_to_one=round(100 * line.get("score", float("nan")), 2),
            )
    figure("grid", settings=len(found.rows), seconds=round(time.perf_counter() - began, 1))


if __name__ == "__main__":
    figure("machine", threads=torch.get_num_threads(), torch=torch.__version__)
    asked = arguments(__doc__, learn=False, grid=False, seeds=5)
    if asked.learn:
        learn(asked.seeds)
    if asked.grid:
        grid()
    if not (asked.learn or asked.grid):
        speed()
