"""Word classes of the WSJ sample by features and by networks: 45 states, every start, and the one the objective picks.

    python -m benchmarks.word_classes --data FOLDER --starts 8
    python -m benchmarks.word_classes --data FOLDER --only "networks by gradient"

Scores are many-to-one accuracy, of the best path and with one state a word: the state that all tokens of the word
have most of, by their posteriors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.models import Tagger

from .common import arguments, corpora, figure

#: A word has a feature of its own if it occurs so often.
OFTEN = 5


def engines(corpus: pu.data.Corpus) -> dict[str, tuple[int, Callable[[], Any]]]:
    """By name, iterations and the engine."""
    model = Tagger(45, corpus.vocab, stop=True)
    counts = np.bincount(corpus.words, minlength=len(corpus.vocab))
    known = [word for word, n in zip(corpus.vocab.types, counts, strict=True) if n >= OFTEN]
    shapes = pu.templates.tagging(shape=True, known=known)
    net = pu.estimate.Embeddings(start=0.1)
    return {
        "suffixes by gradient": (150, lambda: pu.Gradient(model, pu.LogLinear(pu.templates.tagging(), 0.3))),
        "suffixes and shapes by gradient": (150, lambda: pu.Gradient(model, pu.LogLinear(shapes, 0.3))),
        "networks by gradient": (150, lambda: pu.Gradient(model, pu.Neural(net, weight_decay=0.3))),
        "networks by EM": (40, lambda: pu.EM(model, pu.Neural(net, weight_decay=0.3, steps=10))),
    }


def one_state_a_word(fit: pu.Fit, corpus: pu.data.Corpus) -> float:
    """Many-to-one accuracy if all tokens of a word have the same state."""
    marginals = fit.posterior(corpus).marginals.double()
    words = torch.from_numpy(np.asarray(corpus.words)).long()
    sums = torch.zeros(len(corpus.vocab), marginals.shape[1], dtype=torch.float64).index_add_(0, words, marginals)
    assert corpus.tags is not None
    return pu.evaluate.many_to_one(corpus.tags, sums.argmax(-1)[words].numpy())


if __name__ == "__main__":
    asked = arguments(__doc__, data="", starts=8, only="")
    text: pu.data.Corpus = corpora(asked.data, "wsj")["wsj"]
    for name, (iterations, engine) in engines(text).items():
        if asked.only and name != asked.only:
            continue
        best = (-float("inf"), 0.0)
        for seed in range(asked.starts):
            found = engine().run(text, iterations=iterations, tolerance=0.0, seed=seed)
            scores = found.evaluate(text)
            many, typed = 100 * scores["many_to_one"], 100 * one_state_a_word(found, text)
            best = max(best, (found.objective, many))
            figure(
                name,
                start=seed,
                many_to_one=round(many, 2),
                one_state_a_word=round(typed, 2),
                one_to_one=round(100 * scores["one_to_one"], 2),
                vi_bits=round(scores["vi_bits"], 3),
                objective=round(found.objective),
            )
        figure(f"{name}: picked by objective", many_to_one=round(best[1], 2))
