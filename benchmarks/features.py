"""Log-linear features on real text, as Berg-Kirkpatrick et al. (2010) measured them, and what they cost.

    python -m benchmarks.features --only segmentation     # words in child-directed speech, with ablation
    python -m benchmarks.features --only tagging          # 45 clusters of the WSJ sample
    python -m benchmarks.features --only alignment        # translation tables on Hansards (--pairs 30000)
    python -m benchmarks.features --only speed            # a gradient against an iteration of EM

Corpora are looked for in ``PYRO_UNSUP_DATA`` (``../shared/data``). Scores are on the text that was learned from,
decoded by Viterbi. Every run is shown with its objective (log-likelihood minus the prior), which compares between runs
with the same templates and kappa; then mean and standard deviation over starts. Runs are jobs for ``--processes`` (2);
``--rows some,names`` keeps those with one of these in their names.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.estimate.templates import FINE
from pyro_unsup.models import Aligner, HMMAligner, Segmenter, Tagger

from .alignment import hansards
from .common import DATA, arguments, figure, in_processes, markdown, plain, report, side_by_side, spread
from .hmm_alignment import ITERATIONS, errors
from .hmm_em import problem
from .stepwise import wsj

Templates = list[pu.Template]


@dataclass(frozen=True)
class Condition:
    """How to train.

    :param at: iterations after which to score.
    :param templates: makes them; templates are functions, which do not go from process to process. None is no features.
    :param m_steps: L-BFGS steps in an M step; None climbs by the direct gradient.
    """

    name: str
    at: tuple[int, ...]
    seeds: int
    templates: str | None = None
    kappa: float = 0.0
    m_steps: int | None = None


# -- segmentation


def _segmentation(*names: str, **settings: Any) -> Callable[[], Templates]:
    """Templates of the paper; if names are given, those whose name begins with one."""
    return lambda: [t for t in pu.templates.segmentation(**settings) if not names or t.name.startswith(names)]


SEGMENT_TEMPLATES: dict[str, Callable[[], Templates]] = {
    "all": _segmentation(),
    "basic": _segmentation("basic"),
    "basic, length": _segmentation("basic", "length"),
    "basic, length, vowels": _segmentation("basic", "length", "vowels"),
    "all but length": _segmentation("basic", "vowels", "prefix", "suffix"),
    "all but vowels": _segmentation("basic", "length", "prefix", "suffix"),
    "all but prefixes": _segmentation("basic", "length", "vowels", "suffix"),
    "all but suffixes": _segmentation("basic", "length", "vowels", "prefix"),
    "all but basic": _segmentation("length", "vowels", "prefix", "suffix"),
    "6 classes only": _segmentation(classes=(FINE,)),
    "2 classes only": _segmentation("basic", "length", "vowels", "prefix 2", "suffix 2"),
    "ends of 1": _segmentation(longest=1),
    "ends of 1..2": _segmentation(longest=2),
    "ends of 1..4": _segmentation(longest=4),
    "ends of 1..5": _segmentation(longest=5),
    "ends of 1..10": _segmentation(longest=10),
}
LONG = (100, 200, 300)
SEGMENTATION = [
    Condition("gradient, kappa .2", LONG, 3, "all", 0.2),
    Condition("gradient, kappa 1", LONG, 3, "all", 1.0),
    Condition("EM, kappa .2", (10, 20, 50), 2, "all", 0.2, 100),
    *(Condition(f"gradient, kappa .2, {name}", LONG, 1, name, 0.2) for name in SEGMENT_TEMPLATES if name != "all"),
    *(Condition(f"gradient, kappa {kappa:g}", LONG, 1, "all", kappa) for kappa in (0.05, 0.5, 2.0, 5.0)),
    *(Condition(f"gradient, kappa 1, {n}", LONG, 1, n, 1.0) for n in ("basic", "ends of 1..2", "ends of 1..5")),
]


def segmented(text: pu.data.Segmented, how: Condition, seed: int) -> dict[str, Any]:
    return _along(Segmenter.of(text, max_length=10), SEGMENT_TEMPLATES, text, how, seed, ("token_f1",))


# -- tagging

TAG_TEMPLATES: dict[str, Callable[[], Templates]] = {
    "suffix": lambda: pu.templates.tagging(),
    "any": lambda: pu.templates.tagging(ngram="any"),
    "none": lambda: pu.templates.tagging(ngram=None),
    "basic": lambda: pu.templates.tagging(ngram=None)[:1],
}
TAGGING = [
    Condition("EM, no features", (100, 200), 3),
    Condition("gradient, suffixes, kappa 1", (100, 150, 200), 3, "suffix", 1.0),
    Condition("EM, suffixes, kappa 1", (20, 50), 2, "suffix", 1.0, 100),
    Condition("gradient, suffixes, kappa .1", (100, 150, 200), 2, "suffix", 0.1),
    Condition("gradient, suffixes, kappa 10", (100, 150, 200), 2, "suffix", 10.0),
    Condition("gradient, any n-grams, kappa 1", (100, 150, 200), 2, "any", 1.0),
    Condition("gradient, no n-grams, kappa 1", (100, 150, 200), 2, "none", 1.0),
    Condition("gradient, basic only, kappa 1", (100, 150, 200), 2, "basic", 1.0),
]


def tagged(corpus: pu.data.Corpus, how: Condition, seed: int) -> dict[str, Any]:
    wanted = ("many_to_one", "one_to_one", "vi_bits", "clusters_used")
    return _along(Tagger(45, corpus.vocab, stop=True), TAG_TEMPLATES, corpus, how, seed, wanted)


# -- both


def _along(
    model: Any,
    templates: dict[str, Callable[[], Templates]],
    data: Any,
    how: Condition,
    seed: int,
    wanted: Sequence[str],
) -> dict[str, Any]:
    """One run, scored on its way: scores are those at the end, and under the number of iterations that of the first."""
    engine: pu.EM | pu.Gradient
    if how.templates is None:
        engine = pu.EM(model, init=pu.noise(1.0))
    else:
        estimate = pu.LogLinear(templates[how.templates](), how.kappa, how.m_steps or 100)
        engine = pu.Gradient(model, estimate) if how.m_steps is None else pu.EM(model, estimate)
    found: dict[str, Any] = {}
    for iterations in how.at:
        left = iterations - engine.iteration
        fit = engine.run(data, iterations=left, tolerance=0.0, seed=seed, progress=False)
        scores = {name: _percent(name, x) for name, x in fit.evaluate(data).items() if name in wanted}
        found |= {f"at {iterations}": scores[wanted[0]], **scores}
    return {**found, "objective": fit.objective, "iterations": engine.iteration}


def _percent(name: str, value: float) -> float:
    return value if name in ("vi_bits", "clusters_used") else 100 * value


def learning(
    conditions: Sequence[Condition],
    train: Callable[..., dict[str, Any]],
    data: Any,
    processes: int,
    rows: Sequence[str],
) -> None:
    """All runs, then a table."""
    kept = [how for how in conditions if not rows or any(part in how.name for part in rows)]
    jobs = {f"{how.name}, start {seed}": (how, seed) for how in kept for seed in range(how.seeds)}
    found: dict[str, list[dict[str, Any]]] = {how.name: [] for how in kept}
    for job, one in in_processes([(job, train, (data, *jobs[job])) for job in jobs], processes):
        figure(job, **plain(one))
        found[jobs[job][0].name].append(one)
    columns = [name for name in found[kept[0].name][0] if not name.startswith("at ") and name != "seconds"]
    markdown(["", "starts", *columns], [_row(how, found[how.name], columns) for how in kept])


def _row(how: Condition, runs: list[dict[str, Any]], columns: Sequence[str]) -> list[str]:
    return [how.name, str(len(runs)), *(spread([float(run[name]) for run in runs], 1) for name in columns)]


# -- alignment


def _pairs_of_words(**settings: Any) -> Callable[[str], Templates]:
    return lambda table: pu.templates.alignment(table, **settings)


#: There is no dictionary for these languages here, so nothing of it.
ALIGNMENT: dict[str, Callable[[str], Templates]] = {
    "all": _pairs_of_words(),
    "all but characters": _pairs_of_words(characters=False),
    "basic": _pairs_of_words(stem=None, prefix=None, characters=False, edit_distance=False),
}


def aligned(model: Any, start: Any, estimate: Any, pairs: Any) -> tuple[Any, float]:
    """Something to decode with after so many iterations of EM, and the seconds that they took."""
    em = pu.EM(model, estimate, start)
    em.start(pairs)
    began = time.perf_counter()
    for _ in range(ITERATIONS):
        em.step(pairs)
    return SimpleNamespace(model=model, weights=em.weights, config={}), time.perf_counter() - began


def alignment(size: int, kappas: Sequence[float], m_steps: int, rows: Sequence[str]) -> None:
    """Model 1, then by jumps, both by agreement; jumps start from the Model 1 of the same kind."""
    found = hansards(size)
    if found is None:
        return
    text, gold = found
    words = Aligner.of(text, agreement="product")
    pairs, jumps = words.index(text), HMMAligner.like(words)
    about = {"pairs": len(text), "pairs_of_words": len(words.lexicon)}

    def both(name: str, first: Any = None, then: Any = None) -> None:
        fit, seconds = aligned(words, None if first else pu.uniform(), first, pairs)
        figure(f"Model 1, {name}", **about, **errors(fit, gold), seconds=round(seconds, 1))
        fit, seconds = aligned(jumps, jumps.start_from(fit), then, pairs)
        figure(f"HMM, {name}", **about, **errors(fit, gold), seconds=round(seconds, 1))

    def features(kind: str, kappa: float, **start: Any) -> dict[str, pu.LogLinear]:
        tables = ("translation_forward", "translation_backward")
        return {table: pu.LogLinear(ALIGNMENT[kind](table), kappa, m_steps, **start) for table in tables}

    both("no features")
    for kappa, kind in itertools.product(kappas, ALIGNMENT):
        if not rows or kind in rows:
            name = f"{kind}, kappa {kappa:g}, {m_steps} steps"
            both(name, features(kind, kappa, start=0.0), features(kind, kappa, fit_start=True))


# -- speed


def speed() -> None:
    """On the text that EM is timed on, its words spelled like those of the WSJ sample."""
    words, lengths, weights, _ = problem()
    K, V = weights["emission"].shape
    vocab = pu.data.Vocab(wsj().vocab.types[:V])
    corpus = pu.data.Corpus(words.numpy(), np.concatenate([[0], np.cumsum(lengths.numpy())]), vocab)
    em = pu.EM(Tagger(K, vocab), init=pu.from_weights(weights))
    em.start(corpus)
    for ngram in ("suffix", "any"):
        climber = pu.Gradient(Tagger(K, vocab), pu.LogLinear(pu.templates.tagging(ngram=ngram), 1.0))
        climber.start(corpus)
        runs = {"em": lambda: em.step(corpus), "gradient": lambda c=climber: c.gradient(corpus)}  # type: ignore[misc]
        seconds = side_by_side(runs, repeats=15)
        report(
            f"direct gradient of the tagger, {ngram} n-grams",
            seconds["gradient"],
            "EM iteration without features",
            seconds["em"],
            threads=torch.get_num_threads(),
            tokens=corpus.tokens,
            features=sum(len(w) for w in climber.remembered.values()),
            times_an_iteration=round(seconds["gradient"] / seconds["em"], 2),
        )


def spoken() -> pu.data.Segmented:
    path = DATA / "br-phono.txt"
    if not path.exists():
        sys.exit(f"br-phono.txt is not in {DATA}: set PYRO_UNSUP_DATA to the folder that has it")
    return pu.data.read_segmented(path)


def main() -> None:
    asked = arguments(__doc__, only="", rows="", pairs=30000, kappa="0.1,1", m_steps=20, processes=2)
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    only, processes = asked.only, asked.processes
    rows = [row.strip() for row in asked.rows.split(",") if row.strip()]
    if only in ("", "segmentation"):
        learning(SEGMENTATION, segmented, spoken(), processes, rows)
    if only in ("", "tagging"):
        learning(TAGGING, tagged, wsj(), processes, rows)
    if only in ("", "alignment"):
        kappas = [float(kappa) for kappa in asked.kappa.split(",")]
        alignment(asked.pairs, kappas, asked.m_steps, rows)
    if only in ("", "speed"):
        speed()


if __name__ == "__main__":
    main()
