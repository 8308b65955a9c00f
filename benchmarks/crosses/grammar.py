"""Dependency trees over tags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

import pyro_unsup as pu
from pyro_unsup.models import DMV
from pyro_unsup.reproduce.berg_kirkpatrick_2010_grammar import TEXTS, initial
from pyro_unsup.reproduce.cohen_smith_2010 import FAMILIES, POLYTOPES, THREE, constraints

from .method import QUIET, Engine, Found, Method, judged, seeds

#: Betas of annealing: those of the paper.
GRAMMAR = pu.schedules.geometric(0.01, 1.5)


def long_arcs(parts: Any) -> torch.Tensor:
    found: torch.Tensor = parts.distance > 2
    return found


def grammar(name: str) -> Iterator[Method]:
    text, three = TEXTS[name], constraints(FAMILIES[name])[THREE]
    add, loosening = pu.AddLambda(0.1), POLYTOPES["I"]

    def features(kappa: float) -> pu.LogLinear:
        return pu.LogLinear(pu.templates.dependency(text.classes), kappa, fit_start=True)

    def method(
        name: str, origin: str, measure: str, engine: Engine, iterations: int = 20, tolerance: float = 0
    ) -> Method:
        def run(corpus: pu.data.Corpus, seed: int) -> Found:
            model = DMV.of(corpus)
            start = initial(model, corpus, f"noise {seed}" if seed else "counts")
            weights = start(model.declarations(), torch.Generator().manual_seed(seed))
            made = engine(model, pu.init.from_weights(weights), weights)
            fit = made.run(corpus, iterations=iterations, tolerance=tolerance, **seeds(made, seed), **QUIET)
            return judged(fit, corpus, "directed")

        return Method(name, origin, measure, run)

    def annealed(estimate: Any, skewed: bool) -> Engine:
        return lambda model, init, start: pu.Anneal(
            model, estimate, init, schedule=GRAMMAR, steps=10, jitter=0.0, toward=start if skewed else None
        )

    def stepwise(estimate: Any, m: int) -> Engine:
        return lambda model, init, start: pu.StepwiseEM(model, estimate, init, batch_size=m, exact=True)

    def plain_em(estimate: Any) -> Engine:
        return lambda model, init, start: pu.EM(model, estimate, init)

    def mixed(estimate: Any) -> Engine:
        return lambda model, init, start: pu.MixtureEM(model, three, estimate, init, polytope=loosening)

    def bounded(estimate: Any, bound: float) -> Engine:
        return lambda model, init, start: pu.EM(pu.regularise(model, long_arcs, bound), estimate, init)

    to_end: dict[str, Any] = {"iterations": 500, "tolerance": 1e-7}
    yield method("EM, 20 iterations", "KM04", "add 0.1", plain_em(add))
    yield method("EM", "KM04", "add 0.1", plain_em(add), **to_end)
    yield method("annealing", "new", "add 0.1", annealed(add, False), **to_end)
    yield method("skewed annealing", "new", "add 0.1", annealed(add, True), **to_end)
    for m in (10, 100):
        yield method(f"stepwise EM (0.7, {m})", "new", "add 0.1", stepwise(add, m))
    for kappa in (1, 10):
        how, measure = features(kappa), f"features, {kappa}"
        climb: Engine = lambda model, init, start, how=how: pu.Gradient(model, how, init)  # noqa: E731
        yield method(f"features, gradient, {kappa}", "BK10", measure, climb, 300, 1e-8)
        yield method(f"features, EM, {kappa}", "BK10", measure, plain_em(how), 40, 1e-5)
        yield method(f"features x annealing, {kappa}", "new", measure, annealed(how, False), 500, 1e-5)
        yield method(f"features x skewed annealing, {kappa}", "new", measure, annealed(how, True), 500, 1e-5)
        yield method(f"features x stepwise EM (0.7, 100), {kappa}", "new", measure, stepwise(how, 100))
        yield method(f"features x mixture, {kappa}", "new", f"mixture, {measure}", mixed(how))
        yield method(f"features x at most 1 long arc, {kappa}", "new", f"at most 1, {measure}", bounded(how, 1.0))
    normal = pu.LogisticNormal()
    yield method("logistic normal", "CS10", "bound", plain_em(normal))
    yield method("logistic normal x annealing", "new", "bound", annealed(normal, False), **to_end)
    yield method("logistic normal x skewed annealing", "new", "bound", annealed(normal, True), **to_end)
    yield method("logistic normal x mixture", "CS10", "mixture, bound", mixed(normal))
    yield method("mixture", "new", "mixture, add 0.1", mixed(add))
    yield method("mixture x annealing", "new", "mixture, add 0.1", partial(Staged, three, add))
    for bound in (0.5, 1.0, 2.0):
        name = f"at most {bound:g} arcs over 2 words a sentence"
        yield method(name, "new", f"at most {bound:g}, add 0.1", bounded(add, bound))


class Staged:
    """A mixture at one beta after another, five iterations each; the share of the free component loosens with it."""

    def __init__(self, components: Sequence[Any], estimate: Any, model: DMV, init: Any, start: Any) -> None:
        self.components, self.estimate, self.model, self.init = components, estimate, model, init

    def run(self, corpus: pu.data.Corpus, iterations: int, **how: Any) -> pu.Fit:
        init, fit, last = self.init, None, len(GRAMMAR) - 1
        for i, beta in enumerate(GRAMMAR):
            share = pu.schedules.fixed(0.85 + 0.1 * i / last, even=True)
            tempered = pu.temper(self.model, beta)
            stage = pu.MixtureEM(tempered, self.components, self.estimate, init, polytope=share)
            fit = stage.run(corpus, iterations=iterations if i == last else 5, **how)
            init = pu.init.from_weights(fit)
        assert fit is not None
        return fit
