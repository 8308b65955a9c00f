"""Collapsed Gibbs sampling: tags drawn a second, chains side by side, and how long the paper's runs take.

    python -m benchmarks.gibbs                 # a minute or two
    python -m benchmarks.gibbs --only updates  # or chains, paper
    python -m benchmarks.gibbs --whole         # also all 20,000 sweeps of Goldwater & Griffiths (2007), by BHMM1

24,000 tokens. With a dictionary: 45 tags, 2.3 of them a token and 55% of the tokens ambiguous, as in the paper (random
tags are added to a random dictionary until it has so many). Without: 17 tags, all of them open to every word. An update
is a token of the corpus; where a dictionary leaves no choice there is nothing to draw, which is part of what makes it
fast, so the time for a token with a choice is told too. Other libraries: ``python -m benchmarks.peers --only Gibbs``.
The paper's runs are on the sample of the WSJ (in ``--data`` or ``PYRO_UNSUP_DATA``), which has its own dictionary, of
1.7 tags a token.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.models import Tagger
from pyro_unsup.models.gibbs_tags import TagState

from .common import arguments, corpora, figure, side_by_side
from .peers.texts import offsets, sentences

SWEEPS = 20


def text() -> pu.data.Corpus:
    made = sentences(1_091, 45, 10_000, any_length=True)
    types, words = np.unique(made["words"], return_inverse=True)
    return pu.data.Corpus(words, offsets(made["lengths"]), pu.data.Vocab(f"w{k}" for k in types))


def dictionary(corpus: pu.data.Corpus, tags: int = 45, per_token: float = 2.3, ambiguous: float = 0.55) -> torch.Tensor:
    """A mask (tags, words) with so many tags a token, on so many ambiguous tokens."""
    rng = np.random.default_rng(0)
    V = len(corpus.vocab)
    times = np.bincount(corpus.words, minlength=V)
    mask = np.zeros((tags, V), np.bool_)
    mask[rng.integers(tags, size=V), np.arange(V)] = True
    mask[np.arange(tags), rng.integers(V, size=tags)] = True
    order = rng.permutation(V)
    chosen = order[: np.searchsorted(np.cumsum(times[order]), ambiguous * corpus.tokens)]
    while mask.sum(0) @ times < per_token * corpus.tokens:
        mask[rng.integers(tags, size=len(chosen)), chosen] |= rng.random(len(chosen)) < 0.2
    return torch.from_numpy(mask)


def sweeps(model: Tagger, corpus: pu.data.Corpus, how: Any, power: float = 1.0) -> tuple[Callable[[], None], TagState]:
    state, rng = TagState(model, corpus), np.random.default_rng(0)
    state.draw_start(rng)
    alpha, beta = np.full(model.order + 1, 0.003), np.ones(model.states)

    def run() -> None:
        for _ in range(SWEEPS):
            state.sweep(how, alpha, beta, power, rng)

    return run, state


def updates(corpus: pu.data.Corpus) -> None:
    mask = dictionary(corpus)
    models = {
        "full dictionary": Tagger(45, corpus.vocab, 2, mask, stop=True),
        "17 open tags": Tagger(17, corpus.vocab, 2, stop=True),
    }
    for name, model in models.items():
        run, state = sweeps(model, corpus, "pointwise")
        seconds = side_by_side({"ours": run})["ours"] / SWEEPS
        figure(
            f"trigram sweep, {name}",
            ours_s=round(seconds, 6),
            updates_per_s=round(corpus.tokens / seconds),
            tags_a_token=round(float(np.diff(state.at)[state.words].mean()), 2),
            ns_a_choice=round(1e9 * seconds / len(state.open)),
        )
    for how in ("blocked", "uncollapsed"):
        for name, model in models.items():
            run, _ = sweeps(model, corpus, how)
            seconds = side_by_side({"ours": run}, repeats=1)["ours"] / SWEEPS
            figure(
                f"trigram sweep, {name}, {how}", ours_s=round(seconds, 6), updates_per_s=round(corpus.tokens / seconds)
            )


def chains(corpus: pu.data.Corpus) -> None:
    kernel = pu.CollapsedGibbs(Tagger(45, corpus.vocab, 2, dictionary(corpus), stop=True), 0.003, 1.0)

    def run(n: int) -> Callable[[], Any]:
        return lambda: kernel.run(corpus, sweeps=400, burn_in=399, chains=n, parallel=n, progress=False)

    taken = side_by_side({"one": run(1), "two": run(2)})
    figure("two chains on two cores", one_s=round(taken["one"], 3), two_s=round(taken["two"], 3),
           speed_up=round(2 * taken["one"] / taken["two"], 2), cores=os.cpu_count())  # fmt: skip


def paper(whole: bool, data: str) -> None:
    corpus: pu.data.Corpus = corpora(data, "wsj")["wsj"]
    listed = pu.data.TagDictionary.from_corpus(corpus)
    first = corpus.select(np.arange(np.searchsorted(corpus.offsets, 24_000)))
    model = Tagger(corpus.tagset, corpus.vocab, 2, listed, stop=True)  # type: ignore[arg-type]
    for name, hyper in (("fixed", "fixed"), ("BHMM1", "shared"), ("BHMM2", "separate")):
        kernel = pu.CollapsedGibbs(model, 0.003, 1.0, hyper=hyper, temperature=pu.schedules.Cooling())  # type: ignore[arg-type]
        kernel.run(first, sweeps=2, progress=False)  # compiles
        n = 20_000 if whole and name == "BHMM1" else 500
        began, worked = time.perf_counter(), time.process_time()
        samples = kernel.run(first, sweeps=n, burn_in=n - 1, progress=False)
        seconds, worked = time.perf_counter() - began, time.process_time() - worked
        accuracy = samples.evaluate(first)["accuracy"]["mean"]
        figure(f"24k words of the WSJ sample, annealed, {name}", sweeps=n, seconds=round(seconds, 2),
               cpu_s=round(worked, 2), seconds_for_20000=round(seconds * 20_000 / n, 1),
               accuracy=round(100 * accuracy, 1))  # fmt: skip


if __name__ == "__main__":
    asked = arguments(__doc__, ("updates", "chains", "paper"), only="", whole=False, data="")
    figure("machine", cores=os.cpu_count(), torch=torch.__version__)
    made = text()
    figure("text", tokens=made.tokens, types=len(made.vocab))
    for part in (updates, chains):
        if asked.only in ("", part.__name__):
            part(made)
    if asked.only in ("", "paper"):
        paper(asked.whole, asked.data)
