"""A user's program, for ``mypy --strict`` against an installed package: what is public has types other than ``Any``."""

from __future__ import annotations

from typing import assert_type

import numpy as np
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.reproduce import Paper, paper


def tokens_and_words(corpus: pu.data.Corpus) -> tuple[int, list[str]]:
    return corpus.tokens, corpus.sentence(0)


def main() -> None:
    corpus = assert_type(pu.data.toy.sentences(50, seed=1), pu.data.Corpus)
    model = assert_type(pu.models.Tagger(tags=3, vocab=corpus.vocab), pu.models.Tagger)
    assert_type(tokens_and_words(corpus), tuple[int, list[str]])
    engine = assert_type(pu.EM(model, pu.AddLambda(0.1), pu.init.noise(0.5)), pu.EM)
    fit = assert_type(engine.run(corpus, iterations=3, progress=False), pu.Fit)
    assert_type(fit.weights, dict[str, Tensor])
    assert_type(fit.objective, float)
    assert_type(fit.report, pu.Report)
    assert_type(fit.evaluate(corpus), dict[str, float])
    assert_type(fit.posterior(corpus), pu.distributions.Posterior)
    assert_type(pu.load("model"), pu.Fit)
    for one in (pu.temper(model, 0.5), pu.harden(model), pu.skew(model, 0.5, toward=fit)):
        assert_type(one, pu.handlers.Handled)
    assert_type(pu.StepwiseEM(model, batch_size=10).run(corpus), pu.Fit)
    assert_type(pu.Anneal(model, schedule=pu.schedules.geometric(0.1, 2.0)).run(corpus), pu.Fit)
    assert_type(pu.CollapsedGibbs(model).run(corpus, sweeps=10), pu.Samples)
    assert_type(pu.evaluate.many_to_one(np.array([0, 1]), np.array([1, 0])), float)
    assert_type(pu.table("share", 3), Tensor)
    assert_type(pu.templates.tagging(), list[pu.Template])
    assert_type(pu.data.read("text.conllu"), pu.data.Corpus)
    assert_type(paper("smith-eisner-2004"), Paper)


if __name__ == "__main__":
    main()
