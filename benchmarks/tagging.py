"""Tagging real text with EM: with a full dictionary, and without any.

    python -m benchmarks.tagging           # about ten minutes on two cores
    python -m benchmarks.tagging --seeds 2

Each row is the mean and standard deviation over starts that differ only in their seed; scores are on the training text,
decoded by Viterbi. Corpora are looked for in ``--data`` or ``PYRO_UNSUP_DATA``.
"""

from __future__ import annotations

import time

import numpy as np

import pyro_unsup as pu

from .common import arguments, corpora, figure, spread

TEXTS = {"WSJ sample": "wsj", "UD English-EWT": "ewt"}


def mean_of(scores: list[dict[str, float]]) -> dict[str, str]:
    plain = ("vi_bits", "bits_per_word", "clusters_used", "iterations")
    columns = {key: np.array([one[key] for one in scores]) for key in scores[0]}
    return {key: spread(x, 3) if key in plain else spread(100 * x, 1) for key, x in columns.items()}


def run(name: str, model: pu.models.Tagger, corpus: pu.data.Corpus, seeds: int, **settings: object) -> None:
    scores, began = [], time.perf_counter()
    noise = settings.pop("noise")
    for seed in range(seeds):
        fit = pu.EM(model, init=pu.init.noise(noise)).run(corpus, seed=seed, progress=False, **settings)  # type: ignore[arg-type]
        scores.append({**fit.evaluate(corpus), "iterations": fit.report.iterations})
    figure(name, **mean_of(scores), starts=seeds, seconds=round(time.perf_counter() - began, 1))


def main(seeds: int, data: str) -> None:
    found = corpora(data, *TEXTS.values())
    for name in TEXTS:
        corpus = found[TEXTS[name]]
        dictionary = pu.data.TagDictionary.from_corpus(corpus)
        tags_a_token, ambiguous = dictionary.ambiguity(corpus)
        figure(
            name,
            sentences=len(corpus),
            tokens=corpus.tokens,
            types=len(corpus.vocab),
            tags=len(dictionary.tagset),
            tags_a_token=round(tags_a_token, 3),
            ambiguous=round(ambiguous, 4),
        )
        for order in (1, 2):
            for stop in (False, True):
                model = pu.models.Tagger(dictionary.tagset, corpus.vocab, order, dictionary, stop=stop)
                run(
                    f"{name}, dictionary, order {order}, {'stop' if stop else 'no stop'}",
                    model,
                    corpus,
                    seeds,
                    iterations=1000,
                    tolerance=1e-7,
                    noise=1e-3,
                )
        for stop in (False, True):
            model = pu.models.Tagger(45, corpus.vocab, stop=stop)
            run(
                f"{name}, no dictionary, K = 45, {'stop' if stop else 'no stop'}",
                model,
                corpus,
                seeds,
                iterations=100,
                tolerance=0.0,
                noise=1.0,
            )


if __name__ == "__main__":
    asked = arguments(__doc__, seeds=5, data="")
    main(asked.seeds, asked.data)
