"""Clusters of documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

import pyro_unsup as pu
from pyro_unsup.models import Clusterer
from pyro_unsup.reproduce.liang_klein_2009_clusters import annealing, clusterer
from pyro_unsup.reproduce.liang_klein_2009_runs import online

from .method import QUIET, Found, Method, judged

Train = Callable[[Clusterer, pu.data.Documents, int], pu.Fit]


def documents() -> Iterator[Method]:
    def method(name: str, origin: str, measure: str, train: Train) -> Method:
        def run(text: pu.data.Documents, seed: int) -> Found:
            found = judged(train(clusterer(text), text, seed), text, "accuracy")
            # Stepwise EM has it as accumulated during a pass.
            return found if measure == "bound" else {**found, "objective": found["log_likelihood"] * text.tokens}

        return Method(name, origin, measure, run)

    def by_em(model: Clusterer, text: pu.data.Documents, seed: int) -> pu.Fit:
        return pu.EM(model, init=pu.init.noise(1e-3)).run(text, iterations=20, tolerance=0.0, seed=seed, **QUIET)

    def stepwise(power: float, m: int) -> Train:
        def train(model: Clusterer, text: pu.data.Documents, seed: int) -> pu.Fit:
            engine = online(model, power, m, pu.init.noise(1e-3))
            return engine.run(text, iterations=5, tolerance=0.0, seed=seed, order_seed=seed, **QUIET)

        return train

    def by_annealing(rise: float) -> Train:
        return lambda model, text, seed: annealing(model, rise).run(text, seed=seed, **QUIET)

    def then_stepwise(model: Clusterer, text: pu.data.Documents, seed: int) -> pu.Fit:
        start = pu.init.from_weights(by_annealing(2.0)(model, text, seed))
        engine = pu.StepwiseEM(model, init=start, power=0.8, batch_size=1000, exact=True)
        return engine.run(text, iterations=5, tolerance=0.0, seed=seed, order_seed=seed, **QUIET)

    def bayes(estimate: pu.DirichletVB) -> Train:
        def train(model: Clusterer, text: pu.data.Documents, seed: int) -> pu.Fit:
            engine = pu.EM(model, estimate, pu.init.noise(1e-3))
            return engine.run(text, iterations=20, tolerance=0.0, seed=seed, **QUIET)

        return train

    def annealed(estimate: pu.DirichletVB) -> Train:
        def train(model: Clusterer, text: pu.data.Documents, seed: int) -> pu.Fit:
            schedule = pu.schedules.geometric(1e-3, 2.0)
            engine = pu.Anneal(model, estimate, schedule=schedule, steps=8, early=0.0, jitter=1e-3)
            return engine.run(text, seed=seed, **QUIET)

        return train

    def sampled(start: float, iterations: int = 0) -> Train:
        def train(model: Clusterer, text: pu.data.Documents, seed: int) -> pu.Fit:
            """Tables of the last sample, or where EM goes from there."""
            sampler = pu.CollapsedGibbs(model, beta=0.1, hyper="shared", temperature=pu.schedules.Cooling(start, 1.0))
            drawn = sampler.run(text, 100, 99, seed=seed, **QUIET)
            labels = torch.from_numpy(drawn.predict("last")).long()
            beta = pu.AddLambda(float(drawn.beta[0, -1]))
            engine = pu.EM(model, init=pu.init.from_labelled(model, text, structure=labels, estimate=beta))
            return engine.run(text, iterations=iterations, tolerance=0.0, **QUIET)

        return train

    yield method("EM, noise 1e-3", "LK09", "log-likelihood", by_em)
    for power, m in ((0.8, 1000), (0.5, 3000)):
        yield method(f"stepwise EM ({power}, {m}), 5 passes", "LK09", "log-likelihood", stepwise(power, m))
    for rise in (2.0, 1.4):
        yield method(f"annealing, beta x {rise:g}", "new", "log-likelihood", by_annealing(rise))
    yield method("annealing, beta x 2, then stepwise EM", "new", "log-likelihood", then_stepwise)
    how = pu.DirichletVB(0.1)
    yield method("DirichletVB, 0.1", "new", "bound", bayes(how))
    yield method("DirichletVB, 0.1 x annealing, beta x 2", "new", "bound", annealed(how))
    for start in (1.0, 1000.0):
        name = f"Gibbs, cooled from {start:g} to 1" if start > 1 else "Gibbs"
        yield method(name, "new", "log-likelihood of a sample", sampled(start))
    yield method("Gibbs, cooled from 1000 to 1, then EM", "new", "log-likelihood", sampled(1000.0, 20))
