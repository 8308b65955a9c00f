"""Combinations that no paper ran, beside the papers' own methods: score and objective, over several seeds.

    python -m benchmarks.crosses                            # all of it, 45 minutes of one core
    python -m benchmarks.crosses --only dmv --seeds 3       # or clustering, segmentation, alignment
    python -m benchmarks.crosses --small                    # a tenth of the data, one seed: does every cell run?

Corpora are looked for in ``PYRO_UNSUP_DATA`` (``../shared/data``). *From* says which paper has a method for that task:
KM04 Klein & Manning, SE04 Smith & Eisner, LTK06 Liang et al., LK09 Liang & Klein, GGJ09 Goldwater et al., BK10
Berg-Kirkpatrick et al., CS10 Cohen & Smith, RG12 Riley & Gildea. "new" is what none of the papers that the library
follows has there. Scores are per cent, on the text that was learned from, mean and standard deviation over seeds; where
nothing is random there is one run.

Of the rows here none is chosen by gold structure: all are shown. Some settings were left out after runs on a tenth of
the data, mainly to save time but with scores in sight: alignment with a concentration of 0.001 and with DirichletVB in
Model 1, clustering with concentrations of 0.01 and 1. Log-likelihoods are those a token of the tables as they end
(normalised, where they are expectations of logs), and compare within a task. Objectives compare between rows with the
same *measure*; *by objective* is the score of the seed whose objective is best, and the last lines say which row each
measure would choose, by its mean. Seconds are those of the processor, on one thread.

- dmv: trees over tags of at most ten words, by MBR: the share of words with the right head. Seed 0 is the harmonic
  start, the others have noise on it (each probability times e^u, u uniform between 0 and 1), as in ``benchmarks.dmv``.
  Mixtures are of right attachment, verbs as roots and short dependencies, the free share going from 0.85 to 0.95.
- segmentation: words in br-phono, token F1, by Viterbi; of samplers the last sample.
- clustering: 20 Newsgroups in 20 clusters, many-to-one.
- alignment: error rates, by intersection, so less is better; "competitive" thresholds posteriors at 0.5. Each seed has
  10,000 pairs of Hansards of its own. Five iterations or passes of Model 1, then five by jumps from there. DirichletVB
  is in the second part only, after Model 1 by EM: agreement makes the counts of its first iterations tiny, which does
  not matter to a maximum but does to a prior. With agreement no objective is climbed, so none chooses.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.errors import UnsupError
from pyro_unsup.handlers import bare
from pyro_unsup.models import DMV, Aligner, Clusterer, HMMAligner, Segmenter
from pyro_unsup.results.decoding.aligning import decode, scores

from . import clustering
from .alignment import hansards
from .common import arguments, figure, in_processes, markdown, plain, spread
from .dmv_learning import TEXTS, initial
from .features import spoken
from .prior_knowledge import FAMILIES, POLYTOPES, constraints

Found = dict[str, float]
Run = Callable[[Any, int], Found]
Engine = Callable[..., Any]

#: So many pairs of sentences for each seed, and of gold sentences in all of them.
PAIRS, GOLD = 10_000, 447 + 37
#: Seeds that have pairs of their own.
TEXTS_OF_PAIRS = 3
#: Betas of annealing: for grammar those of the paper; for words, where most of the change is late.
GRAMMAR, WORDS = pu.geometric(0.01, 1.5), pu.geometric(0.1, 1.5)
QUIET: dict[str, Any] = {"progress": False}


@dataclass(frozen=True)
class Method:
    """A row.

    :param origin: the paper that has it for this task, or "new".
    :param measure: what its objective is.
    :param run: from data and a seed to scores, ``log_likelihood`` a token and ``objective``.
    :param random: whether seeds make a difference.
    """

    name: str
    origin: str
    measure: str
    run: Run
    random: bool = True


def log_likelihood(model: Any, weights: Mapping[str, torch.Tensor], data: Any) -> float:
    """Of the data, under normalised tables."""
    tables = {name: table.layout.normalise(weights[name].double()) for name, table in model.declarations().items()}
    return -pu.EM(model, init=pu.from_weights(tables)).evaluate_loss(data)


def judged(fit: pu.Fit, data: Any, score: str) -> Found:
    likelihood = log_likelihood(bare(fit.model), fit.weights, data) / data.tokens
    return {score: 100 * fit.evaluate(data)[score], "log_likelihood": likelihood, "objective": fit.objective}


def seeds(engine: Any, seed: int) -> dict[str, int]:
    """Of the start and, where examples come in an order, of that."""
    return {"seed": seed} | ({"order_seed": seed} if isinstance(engine, pu.StepwiseEM) else {})


# -- grammar


def long_arcs(parts: Any) -> torch.Tensor:
    found: torch.Tensor = parts.distance > 2
    return found


def grammar(name: str) -> Iterator[Method]:
    text, three = TEXTS[name], constraints(FAMILIES[name])["RA + VAR + SD"]
    add, loosening = pu.AddLambda(0.1), POLYTOPES["I"]

    def features(kappa: float) -> pu.LogLinear:
        return pu.LogLinear(pu.templates.dependency(text.classes), kappa, fit_start=True)

    def method(
        name: str, origin: str, measure: str, engine: Engine, iterations: int = 20, tolerance: float = 0
    ) -> Method:
        def run(corpus: pu.data.Corpus, seed: int) -> Found:
            model = DMV.of(corpus)
            start = initial(model, corpus, f"noise {seed}" if seed else "counts")
            assert start is not None
            weights = start(model.declarations(), torch.Generator().manual_seed(seed))
            made = engine(model, pu.from_weights(weights), weights)
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
            share = pu.fixed(0.85 + 0.1 * i / last, even=True)
            tempered = pu.temper(self.model, beta)
            stage = pu.MixtureEM(tempered, self.components, self.estimate, init, polytope=share)
            fit = stage.run(corpus, iterations=iterations if i == last else 5, **how)
            init = pu.from_weights(fit)
        assert fit is not None
        return fit


# -- words


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
        return lambda model: pu.EM(model, estimate, None if isinstance(estimate, pu.LogLinear) else pu.uniform())

    def stepwise(power: float, m: int, estimate: Any = None) -> Engine:
        init = None if isinstance(estimate, pu.LogLinear) else pu.noise(1e-3)
        return lambda model: pu.StepwiseEM(model, estimate, init, power=power, batch_size=m, exact=True)

    def annealed(estimate: Any = None, steps: int | None = None) -> Engine:
        init = None if isinstance(estimate, pu.LogLinear) else pu.uniform()
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

        def features(m_steps: int, kappa: float = kappa) -> pu.LogLinear:
            return pu.LogLinear(pu.templates.segmentation(), kappa, m_steps)

        few, name = features(5), f"features x stepwise EM (0.7, 1000), {kappa:g}"
        climb: Engine = lambda model, features=features: pu.Gradient(model, features(100))  # noqa: E731
        yield method(f"features, gradient, {kappa:g}", "BK10", measure, climb, 300)
        yield method(f"features, EM, {kappa:g}", "BK10", measure, batch(few), 50)
        yield method(name, "new", measure, stepwise(0.7, 1000, few), 5)
        yield method(f"features x annealing, {kappa:g}", "new", measure, annealed(few, 8), 100, 1e-5)
    yield Method("Gibbs", "new", "log joint", partial(cuts, 1.0))
    yield Method("Gibbs, cooled from 10 to 1", "GGJ09", "log joint", partial(cuts, pu.Cooling(10.0, 1.0)))
    for beta in (1e-4, 0.01):
        yield Method(f"blocked Gibbs, {beta:g}", "new", "", partial(blocked, beta))


def cuts(temperature: Any, text: pu.data.Segmented, seed: int, sweeps: int = 400) -> Found:
    """Collapsed Gibbs sampling, place by place; concentrations are sampled as well."""
    model = Segmenter.of(text, max_length=10)
    sampler = pu.CollapsedGibbs(model, beta=0.01, hyper="shared", temperature=temperature)
    drawn = sampler.run(text, sweeps, sweeps - 1, seed=seed, **QUIET)
    found = _of_cuts(model, text, drawn.predict("last"), float(drawn.beta[0, -1]))
    return {**found, "objective": float(drawn.log_joint[0, -1]), "beta": float(drawn.beta[0, -1])}


def blocked(beta: float, text: pu.data.Segmented, seed: int, sweeps: int = 200) -> Found:
    """Tables given segments, then all segments of a sentence at once given tables."""
    model, generator = Segmenter.of(text, max_length=10), torch.Generator().manual_seed(seed)
    cells = model.index(text).cells.numpy()
    concentration = {"segments": beta, "stop": 1.0}
    fit = pu.EM(model, init=pu.noise(1e-3)).run(text, iterations=0, seed=seed, **QUIET)
    for _ in range(sweeps):
        ends = fit.posterior(text).sample(generator).numpy()
        at = np.flatnonzero(ends)
        used = torch.from_numpy(cells[at, np.diff(at, prepend=-1) - 1]).long()
        tossed = torch.tensor([len(at), len(text)], dtype=torch.float64)
        counts = {"segments": torch.bincount(used, minlength=len(model.types) + 1).double(), "stop": tossed}
        for name, n in counts.items():
            a = n + concentration[name]
            # Gamma(a) is Gamma(a + 1) U^(1/a), whose log stays finite where a is small.
            gamma = torch._standard_gamma(a + 1, generator=generator).log()
            fit.weights[name] = (gamma - torch.empty_like(a).exponential_(generator=generator) / a).log_softmax(-1)
    return _of_cuts(model, text, ends, beta)


def _of_cuts(model: Segmenter, text: pu.data.Segmented, ends: np.ndarray, beta: float) -> Found:
    """The score of a segmentation, and the log-likelihood under the mean of the tables given it."""
    structure = torch.from_numpy(np.asarray(ends)).long()
    assert text.ends is not None
    score = 100 * pu.evaluate.segmentation_report(text.ends, ends, text.words, text.lengths)["token_f1"]
    init = pu.from_labelled(model, text, structure=structure, estimate=pu.AddLambda(beta))
    return {"token_f1": score, "log_likelihood": -pu.EM(model, init=init).evaluate_loss(text) / text.tokens}


# -- documents


def documents() -> Iterator[Method]:
    def method(name: str, origin: str, measure: str, train: clustering.Method) -> Method:
        def run(text: pu.data.Documents, seed: int) -> Found:
            found = judged(train(Clusterer(clustering.CLUSTERS, text.vocab), text, seed), text, "accuracy")
            # Stepwise EM has it as accumulated during a pass.
            return found if measure == "bound" else {**found, "objective": found["log_likelihood"] * text.tokens}

        return Method(name, origin, measure, run)

    def then_stepwise(model: Clusterer, text: pu.data.Documents, seed: int) -> pu.Fit:
        start = pu.from_weights(clustering.annealing(2.0)(model, text, seed))
        engine = pu.StepwiseEM(model, init=start, power=0.8, batch_size=1000, exact=True)
        return engine.run(text, iterations=5, tolerance=0.0, seed=seed, order_seed=seed, **QUIET)

    def bayes(estimate: pu.DirichletVB) -> clustering.Method:
        def train(model: Clusterer, text: pu.data.Documents, seed: int) -> pu.Fit:
            engine = pu.EM(model, estimate, pu.noise(1e-3))
            return engine.run(text, iterations=20, tolerance=0.0, seed=seed, **QUIET)

        return train

    def annealed(estimate: pu.DirichletVB) -> clustering.Method:
        def train(model: Clusterer, text: pu.data.Documents, seed: int) -> pu.Fit:
            schedule = pu.geometric(1e-3, 2.0)
            engine = pu.Anneal(model, estimate, schedule=schedule, steps=8, early=0.0, jitter=1e-3)
            return engine.run(text, seed=seed, **QUIET)

        return train

    def sampled(start: float, iterations: int = 0) -> clustering.Method:
        def train(model: Clusterer, text: pu.data.Documents, seed: int) -> pu.Fit:
            """Tables of the last sample, or where EM goes from there."""
            sampler = pu.CollapsedGibbs(model, beta=0.1, hyper="shared", temperature=pu.Cooling(start, 1.0))
            drawn = sampler.run(text, 100, 99, seed=seed, **QUIET)
            labels = torch.from_numpy(drawn.predict("last")).long()
            beta = pu.AddLambda(float(drawn.beta[0, -1]))
            engine = pu.EM(model, init=pu.from_labelled(model, text, structure=labels, estimate=beta))
            return engine.run(text, iterations=iterations, tolerance=0.0, **QUIET)

        return train

    for name in ("EM, noise 1e-3", "stepwise EM (0.8, 1000), 5 passes", "stepwise EM (0.5, 3000), 5 passes"):
        yield method(name, "LK09", "log-likelihood", clustering.METHODS[name])
    for name in ("annealing, beta x 2", "annealing, beta x 1.4"):
        yield method(name, "new", "log-likelihood", clustering.METHODS[name])
    yield method("annealing, beta x 2, then stepwise EM", "new", "log-likelihood", then_stepwise)
    how = pu.DirichletVB(0.1)
    yield method("DirichletVB, 0.1", "new", "bound", bayes(how))
    yield method("DirichletVB, 0.1 x annealing, beta x 2", "new", "bound", annealed(how))
    for start in (1.0, 1000.0):
        name = f"Gibbs, cooled from {start:g} to 1" if start > 1 else "Gibbs"
        yield method(name, "new", "log-likelihood of a sample", sampled(start))
    yield method("Gibbs, cooled from 1000 to 1, then EM", "new", "log-likelihood", sampled(1000.0, 20))


# -- translations


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
            one = (first or engine)(words, pu.uniform()).run(pairs, **how)
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
        return pu.Anneal(model, init=init, schedule=pu.linear(0.2, 5), steps=1, jitter=0.0)

    def near(width: float) -> Engine:
        return lambda model, init: pu.MixtureEM(
            model, [pu.components.near_diagonal(width)], init=init, polytope=pu.Loosen(0.5, 0.9, 0.1)
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


# -- all


@dataclass(frozen=True)
class Task:
    """A table.

    :param seeds: how many if nobody says.
    :param most: how many at most.
    """

    name: str
    read: Callable[[bool], Any]
    methods: Callable[[], Iterator[Method]]
    scores: tuple[str, ...]
    seeds: int = 3
    most: int = 1000


def tenth(read: Callable[[], Any]) -> Callable[[bool], Any]:
    def some(small: bool) -> Any:
        whole = read()
        return whole.select(np.arange(0, len(whole), 10)) if small else whole

    return some


TASKS = {
    "dmv wsj": Task("WSJ sample", tenth(TEXTS["wsj"].read), partial(grammar, "wsj"), ("directed",), 4),
    "dmv zh": Task("UD Chinese-GSD", tenth(TEXTS["zh"].read), partial(grammar, "zh"), ("directed",), 4),
    "segmentation": Task("br-phono", tenth(spoken), segmentation, ("token_f1",)),
    "clustering": Task("20 Newsgroups", tenth(clustering.read), documents, ("accuracy",)),
    "alignment": Task(
        "Hansards",
        lambda small: hansards(TEXTS_OF_PAIRS * PAIRS // (10 if small else 1)),
        alignment,
        ("HMM", "Model 1", "competitive"),
        most=TEXTS_OF_PAIRS,
    ),
}


def train(task: str, number: int, data: Any, seed: int) -> dict[str, Any]:
    """One run. What a method refuses is told, and the others go on."""
    method = list(TASKS[task].methods())[number]
    began = time.process_time()
    try:
        found: dict[str, Any] = dict(method.run(data, seed))
    except UnsupError as error:
        found = {"refused": str(error)}
    return {**found, "cpu_s": round(time.process_time() - began, 1)}


def table(name: str, runs: int, small: bool, processes: int) -> None:
    task = TASKS[name]
    data, rows = task.read(small), list(task.methods())
    jobs = {
        f"{task.name}, {method.name}, seed {seed}": (number, seed)
        for number, method in enumerate(rows)
        for seed in range(min(runs, task.most) if method.random else 1)
    }
    found: dict[int, list[dict[str, Any]]] = {number: [] for number in range(len(rows))}
    work = [(job, train, (name, number, data, seed)) for job, (number, seed) in jobs.items()]
    for job, one in in_processes(work, processes):
        figure(job, **plain(one))
        found[jobs[job][0]].append(one)
    about = ("by objective", "log-likelihood", "objective", "measure", "seconds", "seeds")
    lines = [_row(task, method, found[number]) for number, method in enumerate(rows)]
    markdown([task.name, "from", *task.scores, *about], lines)
    for measure in dict.fromkeys(method.measure for method in rows if method.measure):
        means = {
            method.name: np.mean([[one["objective"], one[task.scores[0]]] for one in found[number]], axis=0)
            for number, method in enumerate(rows)
            if method.measure == measure and all("objective" in one for one in found[number])
        }
        if len(means) > 1:
            best = max(means, key=lambda row: float(means[row][0]))
            objective, score = means[best].tolist()
            figure(f"{task.name}, {measure}", chosen=best, objective=round(objective, 1), score=round(score, 1))


def _row(task: Task, method: Method, runs: Sequence[dict[str, Any]]) -> list[str]:
    good = [one for one in runs if "refused" not in one]

    def cell(key: str, digits: int) -> str:
        return spread([one[key] for one in good], digits) if good and key in good[0] else ""

    best = max(good, key=lambda one: float(one["objective"])) if good and "objective" in good[0] else None
    return [
        method.name,
        method.origin,
        *(cell(score, 1) for score in task.scores),
        "" if best is None else f"{best[task.scores[0]]:.1f}",
        cell("log_likelihood", 4),
        cell("objective", 0),
        method.measure,
        f"{np.mean([one['cpu_s'] for one in runs]):.0f}",
        str(len(runs)) if len(good) == len(runs) else f"{len(good)}, {len(runs) - len(good)} refused",
    ]


def main() -> None:
    asked = arguments(__doc__, only="", seeds=0, processes=2, small=False)
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    for name in TASKS:
        if name.startswith(asked.only):
            runs = 1 if asked.small else asked.seeds or TASKS[name].seeds
            table(name, runs, asked.small, asked.processes)


if __name__ == "__main__":
    main()
