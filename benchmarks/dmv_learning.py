"""What the dependency model with valence learns from short sentences, as Berg-Kirkpatrick et al. (2010) measured it.

Tags of at most ten words without punctuation (in ``PYRO_UNSUP_DATA``, or ``../shared/data``). Scores are of the text
that was learned from, by MBR: the share of words with the right head, the root's word counted. Each condition is run
from the same starts: the four readings of the harmonic start; the first of them with noise, each probability times e^u
with u uniform between 0 and 1; and random ones, noise alone for tables and small weights for features. Features are
fitted to the harmonic tables first. All runs are shown, and what would be chosen: the one with the best objective,
which knows nothing of gold trees. Objectives compare within a row, and between EM and gradient at the same kappa.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pyro_unsup as pu
from pyro_unsup.data import read_conllu, short_tag_sequences
from pyro_unsup.evaluate import chain_to_next, chain_to_previous, head_scores
from pyro_unsup.infer.initial import Initial
from pyro_unsup.models import DMV
from pyro_unsup.models.harmonic import READINGS

from .common import DATA, figure, in_processes, markdown, plain, spread

Classes = str | tuple[set[str], set[str]]

#: Chinese-GSD has a tag set of its own; its nouns and verbs are those that UPOS calls so.
GSD = ({"NN", "NNP", "NNB", "PRP", "PRD", "WP"}, {"VV", "VC", "MD", "BB"})


@dataclass(frozen=True)
class Text:
    """A corpus to learn from.

    :param classes: which of its tags are nouns and verbs.
    :param column: of tags.
    :param seeds: how many noisy starts, and how many random ones.
    :param readings: of the harmonic start.
    """

    name: str
    file: str
    classes: Classes
    column: Any = "xpos"
    seeds: int = 2
    readings: tuple[str, ...] = tuple(READINGS)

    def read(self) -> pu.data.Corpus:
        if self.file.startswith("ud/"):
            corpus = read_conllu(DATA / self.file, self.column, drop_upos={"PUNCT", "SYM"})
            return corpus.filter(max_length=10).tags_as_words().compact()
        return short_tag_sequences(read_conllu(DATA / self.file), 10)

    @property
    def harmonic(self) -> list[str]:
        return [*self.readings, *(f"noise {i}" for i in range(1, self.seeds + 1))]

    @property
    def random(self) -> list[str]:
        return [f"random {i}" for i in range(1, self.seeds + 1)]


TEXTS = {
    "wsj": Text("WSJ sample", "wsj_nltk_dep.conll.xz", "penn", seeds=3),
    "ewt": Text("UD English-EWT", "ud/en_ewt-ud-train.conllu.xz", "penn", readings=("counts",)),
    "zh": Text("UD Chinese-GSD", "ud/zh_gsd_v1-ud-train.conllu.xz", GSD),
    "fr": Text("UD French-Sequoia", "ud/fr_sequoia-ud-train.conllu.xz", "upos", "upos"),
}


@dataclass(frozen=True)
class Condition:
    """How to train. Without ``kappa`` there are no features, and 0.1 is added to all counts in every M step."""

    name: str
    engine: Any
    iterations: int
    tolerance: float
    kappa: float | None = None
    only_true: bool = False


CONDITIONS = [
    Condition("EM, 20 iterations", pu.EM, 20, 0),
    Condition("EM", pu.EM, 1000, 1e-7),
    *(Condition(f"features, EM, {k:g}", pu.EM, 40, 1e-5, k) for k in (0.1, 1, 10)),
    *(Condition(f"features, gradient, {k:g}", pu.Gradient, 300, 1e-8, k) for k in (0.1, 1, 10)),
    Condition("only true, gradient, 10", pu.Gradient, 300, 1e-8, 10, only_true=True),
]


def initial(model: DMV, corpus: pu.data.Corpus, start: str) -> Initial | None:
    """Tables to start from; None where features start at random."""
    if start in READINGS:
        return model.harmonic_start(corpus, reading=start)
    harmonic = model.harmonic_start(corpus)
    return lambda tables, generator: pu.from_weights(harmonic(tables, generator), jitter=1.0)(tables, generator)


def train(corpus: pu.data.Corpus, classes: Classes, how: Condition, start: str) -> dict[str, Any]:
    """One run."""
    model, random = DMV.of(corpus), start.startswith("random")
    estimate: Any = pu.AddLambda(0.1)
    if how.kappa is not None:
        templates = pu.templates.dependency(classes, only_true=how.only_true)
        estimate = pu.LogLinear(templates, how.kappa, fit_start=not random)
    init = (pu.noise(1.0) if how.kappa is None else None) if random else initial(model, corpus, start)
    seed = 0 if start in READINGS else int(start.split()[1])
    limits = {"iterations": how.iterations, "tolerance": how.tolerance}
    fit = how.engine(model, estimate, init).run(corpus, seed=seed, progress=False, **limits)
    return {"objective": fit.objective, "iterations": fit.report.iterations, **fit.evaluate(corpus)}


def learning(names: Sequence[str], processes: int) -> None:
    for name in names:
        if name not in TEXTS:
            raise SystemExit(f"no corpus '{name}', expected some of {', '.join(TEXTS)}")
        if (DATA / TEXTS[name].file).exists():
            learn(TEXTS[name], processes)
        else:
            figure(f"{TEXTS[name].name} is not at {DATA / TEXTS[name].file}: set PYRO_UNSUP_DATA")


def learn(text: Text, processes: int) -> None:
    """The table of one corpus."""
    corpus = text.read()
    figure(text.name, sentences=len(corpus), tokens=corpus.tokens, tags=len(corpus.vocab))
    for name, chain in (("chain to next", chain_to_next), ("chain to previous", chain_to_previous)):
        assert corpus.heads is not None
        figure(f"{text.name}, {name}", **plain(head_scores(corpus.heads, chain(corpus.lengths), corpus.lengths)))
    starts = text.harmonic + text.random
    jobs = {(how.name, s): (corpus, text.classes, how, s) for how in CONDITIONS for s in starts}
    found = {}
    named = {f"{text.name}, {how}, {s}": (how, s) for how, s in jobs}
    for job, one in in_processes([(job, train, jobs[key]) for job, key in named.items()], processes):
        figure(job, **plain(one))
        found[named[job]] = one
    rows = [_row(how.name, text, {s: found[how.name, s] for s in starts}) for how in CONDITIONS]
    markdown(["", *starts, "harmonic", "random", "best objective", "chosen", "rank correlation"], rows)


def _row(name: str, text: Text, runs: dict[str, dict[str, Any]]) -> list[str]:
    """Accuracy of each start and, in brackets, how far below the best objective it ends; what is chosen."""
    from scipy.stats import spearmanr

    best = max(runs, key=lambda start: float(runs[start]["objective"]))
    right = {start: 100 * one["directed"] for start, one in runs.items()}
    behind = {start: one["objective"] - runs[best]["objective"] for start, one in runs.items()}
    agree = spearmanr(list(right.values()), list(behind.values())).statistic
    return [
        name,
        *(f"{right[s]:.1f} ({behind[s]:.0f})" for s in runs),
        *(spread(np.array([right[s] for s in some]), 1) for some in (text.harmonic, text.random)),
        f"{runs[best]['objective']:.1f}",
        f"{right[best]:.1f} ({best})",
        f"{agree:.2f}",
    ]
