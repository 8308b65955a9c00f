"""What prior knowledge costs: iterations of grammar induction with priors and mixtures, against plain EM.

    python -m benchmarks.prior_knowledge

UD English-EWT, tags of at most ten words without punctuation (in ``--data`` or ``PYRO_UNSUP_DATA``). What is learned:
``pyro-unsup reproduce cohen-smith-2010``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pyro_unsup as pu
from pyro_unsup.models import DMV
from pyro_unsup.reproduce.berg_kirkpatrick_2010_grammar import short
from pyro_unsup.reproduce.cohen_smith_2010 import PENN, THREE, constraints, related

from .common import arguments, corpora, figure, report, side_by_side


def speed(data: str) -> None:
    """Iterations on UD English-EWT: of the logistic normal and of mixtures, against plain EM."""
    corpus = short(corpora(data, "ewt-bare"), "ewt-bare")
    model = DMV.of(corpus)
    init = model.harmonic_start(corpus)
    known = constraints(PENN)

    def steps(engine: Any) -> Callable[[], Any]:
        session = engine.session()
        session.start(corpus)
        return lambda: [session.step(corpus) for _ in range(5)]

    engines = {
        "EM": pu.EM(model, pu.AddLambda(0.1), init),
        "DirichletVB": pu.EM(model, pu.DirichletVB(), init),
        "logistic normal": pu.EM(model, pu.LogisticNormal(), init),
        "logistic normal, families": pu.EM(model, pu.LogisticNormal(covariance=related(PENN)), init),
        "logistic normal, learned covariance": pu.EM(model, pu.LogisticNormal(covariance="full"), init),
        "mixture of 2, EM": pu.MixtureEM(model, known["right attach"], pu.AddLambda(0.1), init),
        "mixture of 4, EM": pu.MixtureEM(model, known[THREE], pu.AddLambda(0.1), init),
        "mixture of 4, logistic normal": pu.MixtureEM(model, known[THREE], pu.LogisticNormal(), init),
    }
    taken = side_by_side({name: steps(engine) for name, engine in engines.items()}, repeats=7)
    for name in engines:
        ratio = round(taken[name] / taken["EM"], 2)
        report(f"an iteration, {name}", taken[name] / 5, "EM", taken["EM"] / 5, sentences=len(corpus), times_em=ratio)


if __name__ == "__main__":
    asked = arguments(__doc__, data="")
    figure("machine", cores=os.cpu_count())
    speed(asked.data)
