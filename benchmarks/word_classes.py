"""Word classes of a text by features and by networks: 45 states, every start, and what the starts agree on.

    python -m benchmarks.word_classes --data FOLDER --only "suffixes by gradient" --sets 3
    python -m benchmarks.word_classes --data FOLDER --only "suffixes by gradient" --corpus ewt --test
    python -m benchmarks.word_classes --data FOLDER --only "suffixes by gradient" --kappas .03,.1,.3,1,3

Scores are many-to-one accuracy, of the best path and with one state a word: the state that most tokens of the word are
expected to have. Of every set of starts there is the start that the objective picks, and the consensus of all starts,
of each token and with one state a word (``pu.consensus(fits, corpus, how="word")``). No choice looks at gold tags.
With ``--test`` the test part of the corpus is scored as well, which nothing was learned from. Its classes are matched
with the tags there. With kappas, nothing is scored: each is told by the bits a word of every tenth sentence, which
training has not seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import pyro_unsup as pu
from pyro_unsup.models import Tagger

from .common import arguments, corpora, figure, spread

#: A word has a feature of its own if it occurs so often.
OFTEN = 5
ITERATIONS = 150
NAMES = (
    "suffixes by gradient",
    "suffixes and shapes by gradient",
    "networks by gradient",
    "networks by EM",
    "suffixes by stepwise EM",
    "networks by stepwise EM",
)


def engines(corpus: pu.data.Corpus, kappa: float = 0.3) -> dict[str, tuple[int, Callable[[], Any]]]:
    """By name, iterations and the engine.

    :param kappa: how strongly the weights of features are drawn to zero, or those of networks.
    """
    model = Tagger(45, corpus.vocab, stop=True)
    counts = np.bincount(corpus.words, minlength=len(corpus.vocab))
    known = [word for word, n in zip(corpus.vocab.types, counts, strict=True) if n >= OFTEN]
    shapes = pu.templates.tagging(shape=True, known=known)
    net = pu.estimate.Embeddings(start=0.1)
    made = (
        (ITERATIONS, lambda: pu.Gradient(model, pu.LogLinear(pu.templates.tagging(), kappa))),
        (ITERATIONS, lambda: pu.Gradient(model, pu.LogLinear(shapes, kappa))),
        (ITERATIONS, lambda: pu.Gradient(model, pu.Neural(net, weight_decay=kappa))),
        (40, lambda: pu.EM(model, pu.Neural(net, weight_decay=kappa, steps=10))),
        (15, lambda: pu.StepwiseEM(model, pu.LogLinear(pu.templates.tagging(), kappa), power=0.7, batch_size=100)),
        (15, lambda: pu.StepwiseEM(model, pu.Neural(net, weight_decay=kappa), power=0.7, batch_size=100)),
    )
    return dict(zip(NAMES, made, strict=True))


def percent(scores: dict[str, float], score: str = "many_to_one") -> float:
    return round(100 * scores[score], 2)


def one_set(name: str, corpus: pu.data.Corpus, seeds: range, test: pu.data.Corpus | None = None) -> float:
    """Runs from all seeds, and what they agree on: many-to-one accuracy with one state a word.

    :param test: a text that is scored too, and not learned from.
    """
    iterations, engine = engines(corpus)[name]
    began, fits, rows = time.perf_counter(), [], []
    for seed in seeds:
        fit = engine().run(corpus, iterations=iterations, tolerance=0.0, seed=seed, progress=False)
        scores, typed = fit.evaluate(corpus), fit.evaluate(corpus, how="word")
        fits.append(fit)
        rows.append((fit.objective, percent(scores), percent(typed)))
        figure(
            name,
            start=seed,
            many_to_one=percent(scores),
            one_state_a_word=percent(typed),
            one_to_one=percent(scores, "one_to_one"),
            vi_bits=round(scores["vi_bits"], 3),
            objective=round(fit.objective),
        )
    _, path, word = max(rows)
    figure(f"{name}: picked by objective", many_to_one=path, one_state_a_word=word)
    agreed, by_word = pu.consensus(fits, corpus), pu.consensus(fits, corpus, how="word")
    found = by_word.evaluate(corpus)
    figure(
        f"{name}: consensus",
        starts=f"{seeds.start} to {seeds.stop - 1}",
        agreement=round(agreed.agreement, 3),
        agreement_one_state_a_word=round(by_word.agreement, 3),
        many_to_one=percent(agreed.evaluate(corpus)),
        one_state_a_word=percent(found),
        one_to_one=percent(found, "one_to_one"),
        vi_bits=round(found["vi_bits"], 3),
        clusters=int(found["clusters_used"]),
        seconds=round(time.perf_counter() - began),
    )
    if test is not None:
        unseen(name, fits, test)
    return percent(found)


def unseen(name: str, fits: list[pu.Fit], test: pu.data.Corpus) -> None:
    """The same scores on a text that was not learned from. Words that training has not seen are told by features."""
    pairs = [(percent(fit.evaluate(test)), percent(fit.evaluate(test, how="word"))) for fit in fits]
    best = max(range(len(fits)), key=lambda k: fits[k].objective)
    agreed, by_word = pu.consensus(fits, test), pu.consensus(fits, test, how="word")
    found = by_word.evaluate(test)
    figure(
        f"{name}: test",
        tokens=test.tokens,
        known=round(100 * float(np.mean([word in fits[0].model.vocab for word in test.vocab.decode(test.words)])), 1),
        many_to_one=[one for one, _ in pairs],
        one_state_a_word=[one for _, one in pairs],
        picked_by_objective=pairs[best],
        consensus=percent(agreed.evaluate(test)),
        consensus_one_state_a_word=percent(found),
        one_to_one=percent(found, "one_to_one"),
        vi_bits=round(found["vi_bits"], 3),
        agreement=round(agreed.agreement, 3),
    )


def held_out(name: str, corpus: pu.data.Corpus, kappa: float, seeds: range) -> None:
    """Bits a word of sentences that training has not seen. Their words are in the vocabulary: features tell of them."""
    tenth = np.arange(len(corpus)) % 10 == 9
    train, test = (corpus.select(np.flatnonzero(some)) for some in (~tenth, tenth))
    iterations, engine = engines(corpus, kappa)[name]
    fits = [engine().run(train, iterations=iterations, tolerance=0.0, seed=s, progress=False) for s in seeds]
    bits = [fit.evaluate(test)["bits_per_word"] for fit in fits]
    figure(name, kappa=kappa, held_out_bits=spread(bits, 4), each=[round(x, 4) for x in bits])


if __name__ == "__main__":
    asked = arguments(__doc__, NAMES, data="", corpus="wsj", first=0, starts=8, sets=1, only="", kappas="", test=False)
    text: pu.data.Corpus = corpora(asked.data, asked.corpus)[asked.corpus]
    assert text.tagset is not None
    unlearned = corpora(asked.data, f"{asked.corpus}-test")[f"{asked.corpus}-test"] if asked.test else None
    figure(asked.corpus, tokens=text.tokens, words=len(text.vocab), tags=len(text.tagset))
    for method in [asked.only] if asked.only else NAMES:
        for weight in filter(None, asked.kappas.split(",")):
            held_out(method, text, float(weight), range(asked.first, asked.first + asked.starts))
        if asked.kappas:
            continue
        ends = [asked.first + k * asked.starts for k in range(asked.sets + 1)]
        words = [one_set(method, text, range(a, b), unlearned) for a, b in pairwise(ends)]
        figure(f"{method}: all sets", consensus_with_one_state_a_word=spread(words, 2), each=words)
