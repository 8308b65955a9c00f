"""Links between translations."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from functools import partial
from typing import Any

import numpy as np

import pyro_unsup as pu
from pyro_unsup.models import Aligner, HMMAligner
from pyro_unsup.tasks import find
from pyro_unsup.tasks.decoding.aligner import decode

from .method import QUIET, Engine, Found, Method, log_likelihood

scores = find("aligner").scores

#: So many pairs of sentences for each seed, and of gold sentences in all of them.
PAIRS, GOLD = 10_000, 447 + 37
#: Seeds that have pairs of their own.
TEXTS_OF_PAIRS = 3


def alignment() -> Iterator[Method]:
    ways = {"HMM": (1, "intersection"), "Model 1": (0, "intersection"), "competitive": (1, "competitive")}

    def method(
        name: str,
        origin: str,
        measure: str,
        engine: Engine,
        agreement: str | None,
        iterations: int = 5,
        first: Engine | None = None,
    ) -> Method:
        def run(data: Any, seed: int) -> Found:
            text, gold = data
            size = (len(text) - GOLD) // TEXTS_OF_PAIRS
            part = text.select(np.r_[size * seed : size * (seed + 1), len(text) - GOLD : len(text)])
            words = Aligner.of(part, agreement=agreement)
            jumps, pairs = HMMAligner.like(words), words.index(part)
            how = {"iterations": iterations, "tolerance": 0.0, "seed": seed, **QUIET}
            one = (first or engine)(words, pu.init.uniform()).run(pairs, **how)
            fits = one, engine(jumps, jumps.start_from(one)).run(pairs, **how)
            found = {}
            for key, (which, way) in ways.items():
                plain_fit = fits[which].unhandled()
                found[key] = 100 * scores(plain_fit, gold, decode(plain_fit, gold, way))["aer"]
            alone = copy(jumps)
            alone.agreement = None
            tokens = part.source.tokens + part.target.tokens
            likelihood = log_likelihood(alone, fits[1].weights, pairs) / tokens
            return {**found, "log_likelihood": likelihood, "objective": fits[1].objective}

        return Method(f"{name}, agreement" if agreement else name, origin, "" if agreement else measure, run)

    def em(model: Any, init: Any) -> pu.EM:
        return pu.EM(model, init=init)

    def stepwise(model: Any, init: Any, estimate: Any = None) -> pu.StepwiseEM:
        return pu.StepwiseEM(model, estimate, init, power=0.7, batch_size=1000, exact=True)

    def annealed(model: Any, init: Any) -> pu.Anneal:
        return pu.Anneal(model, init=init, schedule=pu.schedules.linear(0.2, 5), steps=1, jitter=0.0)

    def near(width: float) -> Engine:
        return lambda model, init: pu.MixtureEM(
            model, [pu.components.near_diagonal(width)], init=init, polytope=pu.schedules.Loosen(0.5, 0.9, 0.1)
        )

    for agreement in (None, "product"):
        yield method("EM", "LTK06", "log-likelihood", em, agreement)
        yield method("stepwise EM (0.7, 1000)", "new", "log-likelihood", stepwise, agreement)
        yield method("annealing", "new", "log-likelihood", annealed, agreement, 9)
        for alpha in (0.01, 0.1):
            how = dict.fromkeys(("translation_forward", "translation_backward"), pu.DirichletVB(alpha))
            bayes: Engine = lambda model, init, how=how: pu.EM(model, how, init)  # noqa: E731
            name, both = f"DirichletVB, {alpha:g}", partial(stepwise, estimate=how)
            yield method(name, "RG12", "bound", bayes, agreement, first=em)
            yield method(f"{name} x stepwise EM (0.7, 1000)", "new", "bound", both, agreement, first=stepwise)
        for width in (0.1, 0.25):
            yield method(f"mixture, {width:g} from the diagonal", "new", "mixture", near(width), agreement)
