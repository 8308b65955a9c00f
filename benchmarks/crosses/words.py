"""Words in a stream of phonemes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.models import Segmenter

from .method import QUIET, Engine, Found, Method, judged, seeds

#: Betas of annealing: most of the change is late.
WORDS = pu.schedules.geometric(0.1, 1.5)


def segmentation() -> Iterator[Method]:
    def method(
        name: str, origin: str, measure: str, engine: Engine, iterations: int, tolerance: float = 0, random: bool = True
    ) -> Method:
        def run(text: pu.data.Segmented, seed: int) -> Found:
            made = engine(Segmenter.of(text, max_length=10))
            fit = made.run(text, iterations=iterations, tolerance=tolerance, **seeds(made, seed), **QUIET)
            return judged(fit, text, "token_f1")

        return Method(name, origin, measure, run, random)

    def batch(estimate: Any = None) -> Engine:
        return lambda model: pu.EM(model, estimate, None if isinstance(estimate, pu.LogLinear) else pu.init.uniform())

    def stepwise(power: float, m: int, estimate: Any = None) -> Engine:
        init = None if isinstance(estimate, pu.LogLinear) else pu.init.noise(1e-3)
        return lambda model: pu.StepwiseEM(model, estimate, init, power=power, batch_size=m, exact=True)

    def annealed(estimate: Any = None, steps: int | None = None) -> Engine:
        init = None if isinstance(estimate, pu.LogLinear) else pu.init.uniform()
        return lambda model: pu.Anneal(model, estimate, init, schedule=WORDS, steps=steps, early=1e-5, jitter=0.0)

    plain_text = "log-likelihood"
    yield method("EM, 20 iterations", "LK09", plain_text, batch(), 20, random=False)
    yield method("EM, 100 iterations", "LK09", plain_text, batch(), 100, random=False)
    yield method("stepwise EM (0.7, 1000), 5 passes", "LK09", plain_text, stepwise(0.7, 1000), 5)
    yield method("stepwise EM (0.7, 1000), 20 passes", "LK09", plain_text, stepwise(0.7, 1000), 20)
    yield method("annealing", "new", plain_text, annealed(), 500, 1e-7, random=False)
    for name, how in {
        "DirichletVB, 1e-4": pu.DirichletVB(1e-4),
        "DirichletVB, 0.01": pu.DirichletVB(0.01),
        "DirichletVB, fitted": pu.EmpiricalDirichlet(start=0.01),
    }.items():
        yield method(name, "new", "bound", batch(how), 50, random=False)
        yield method(f"{name} x stepwise EM (0.7, 1000)", "new", "bound", stepwise(0.7, 1000, how), 10)
        yield method(f"{name} x annealing", "new", "bound", annealed(how), 500, 1e-6, random=False)
    for kappa in (0.2, 1.0):
        measure = f"features, {kappa:g}"

        def features(lbfgs_iterations: int, kappa: float = kappa) -> pu.LogLinear:
            return pu.LogLinear(pu.templates.segmentation(), kappa, lbfgs_iterations)

        few, name = features(5), f"features x stepwise EM (0.7, 1000), {kappa:g}"
        climb: Engine = lambda model, features=features: pu.Gradient(model, features(100))  # noqa: E731
        yield method(f"features, gradient, {kappa:g}", "BK10", measure, climb, 300)
        yield method(f"features, EM, {kappa:g}", "BK10", measure, batch(few), 50)
        yield method(name, "new", measure, stepwise(0.7, 1000, few), 5)
        yield method(f"features x annealing, {kappa:g}", "new", measure, annealed(few, 8), 100, 1e-5)
    for name, origin, temperature in (
        ("Gibbs", "new", 1.0),
        ("Gibbs, cooled from 10 to 1", "GGJ09", pu.schedules.Cooling(10.0, 1.0)),
    ):
        yield Method(name, origin, "log joint", partial(cuts, "pointwise", temperature))
        yield Method(f"blocked {name}", "new", "log joint", partial(cuts, "blocked", temperature))


def cuts(how: Any, temperature: Any, text: pu.data.Segmented, seed: int, sweeps: int = 400) -> Found:
    """Collapsed Gibbs sampling, place by place or a sentence at a time; concentrations are sampled as well."""
    model = Segmenter.of(text, max_length=10)
    sampler = pu.CollapsedGibbs(model, beta=0.01, hyper="shared", how=how, temperature=temperature)
    drawn = sampler.run(text, sweeps, sweeps - 1, seed=seed, **QUIET)
    found = _of_cuts(model, text, drawn.predict("last"), float(drawn.beta[0, -1]))
    return {**found, "objective": float(drawn.log_joint[0, -1]), "beta": float(drawn.beta[0, -1])}


def _of_cuts(model: Segmenter, text: pu.data.Segmented, ends: np.ndarray, beta: float) -> Found:
    """The score of a segmentation, and the log-likelihood under the mean of the tables given it."""
    structure = torch.from_numpy(np.asarray(ends)).long()
    assert text.ends is not None
    score = 100 * pu.evaluate.segmentation_report(text.ends, ends, text.words, text.lengths)["token_f1"]
    init = pu.init.from_labelled(model, text, structure=structure, estimate=pu.AddLambda(beta))
    return {"token_f1": score, "log_likelihood": -pu.EM(model, init=init).evaluate_loss(text) / text.tokens}
