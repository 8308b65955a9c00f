"""Grammar induction with prior knowledge: priors on tables, and constraints on trees, as Cohen & Smith (2010) tried.

    python -m benchmarks.prior_knowledge                          # all of it, a quarter of an hour
    python -m benchmarks.prior_knowledge --only speed
    python -m benchmarks.prior_knowledge --only learning --corpora wsj,zh --starts 3

The dependency model with valence on tags of at most ten words without punctuation (in ``PYRO_UNSUP_DATA``, or
``../shared/data``): the WSJ sample, UD Chinese-GSD and UD English-EWT. Twenty iterations from the harmonic start;
scores by MBR, in percent of words with the right head, on the text learned from and, where there is one, on the test
set of the treebank, its sentences of at most ten words. Every condition is run from several starts that differ but
little: each probability of the harmonic start times e^u with u uniform between 0 and 0.1. Mean and standard deviation
are over those.

- EM adds 0.1 to all counts. DirichletVB has a concentration of 1, of 0.25, or one fitted to the data. The logistic
  normal has the harmonic start as its mean, and variance 1; "families" lets nouns, verbs, modifiers and functions vary
  together. "per sentence" draws new tables for every sentence, and learns what they have in common.
- Mixtures draw the counts of the logistic normal towards one of six constraints, or towards three of them in equal
  shares (RA + VAR + SD). I: the free share goes from 0.85 to 0.95 in steps of 0.01. II: it is 0.85. III: it is 0.95.
  The last rows have the same mixture of three, with EM and DirichletVB in place of the logistic normal.

The paper (4,909 sentences of the Chinese Treebank, tested on the text learned from): left chain 34.9, EM 38.3, logistic
normal 48.9; I / II / III: right attach 49.1 / 47.1 / 49.8, all right 49.4 / 49.4 / 48.4, left chain 47.9 / 46.5 / 49.9,
verb as root 50.5 / 50.2 / 49.4, noun sequence 48.9 / 48.9 / 49.9, short dependencies 49.5 / 48.4 / 48.4, the three
together 50.5 / 50.6 / 50.1.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup.evaluate import chain_to_next, head_scores
from pyro_unsup.models import DMV

from .common import DATA, arguments, figure, in_processes, markdown, plain, report, side_by_side, spread
from .dmv_learning import TEXTS

ITERATIONS = 20
TESTS = {"zh": "ud/zh_gsd_v1-ud-test.conllu.xz", "ewt": "ud/en_ewt-ud-test.conllu.xz"}
PENN = {
    "noun": ["NN", "NNS", "NNP", "NNPS", "PRP", "WP", "EX", "CD"],
    "verb": ["VB", "VBD", "VBG", "VBN", "VBP", "VBZ", "MD"],
    "modifier": ["JJ", "JJR", "JJS", "RB", "RBR", "RBS", "WRB"],
    "function": ["DT", "PDT", "WDT", "PRP$", "WP$", "IN", "TO", "RP", "CC", "POS"],
}
GSD = {
    "noun": ["NN", "NNP", "NNB", "PRP", "PRD", "WP", "CD", "SFN", "SFA"],
    "verb": ["VV", "VC", "MD", "BB", "SFV"],
    "modifier": ["JJ", "RB"],
    "function": ["DT", "IN", "DEC", "CC", "UH", "AS", "SP", "DEV", "FW", "PFN", "PFA", "LS", "OD"],
}
FAMILIES = {"wsj": PENN, "ewt": PENN, "zh": GSD}
POLYTOPES = {"I": pu.Loosen(even=True), "II": pu.fixed(0.85, even=True), "III": pu.fixed(0.95, even=True)}


@dataclass(frozen=True)
class Condition:
    """How to train: an engine by the name of its corpus' families."""

    name: str
    column: str
    engine: Callable[[DMV, Mapping[str, list[str]], Any], Any]


def conditions() -> list[Condition]:
    normal, three = pu.LogisticNormal(), "RA + VAR + SD"

    def plain_em(estimate: Callable[[Mapping[str, list[str]]], Any]) -> Callable[..., Any]:
        return lambda model, families, init: pu.EM(model, estimate(families), init)

    def drawn(known: str, polytope: str, estimate: Any) -> Callable[..., Any]:
        return lambda model, families, init: pu.MixtureEM(
            model, constraints(families)[known], estimate, init, polytope=POLYTOPES[polytope]
        )

    def related(families: Mapping[str, list[str]]) -> dict[str, str]:
        return {tag: family for family, tags in families.items() for tag in tags}

    rows = [
        Condition("EM", "", plain_em(lambda families: pu.AddLambda(0.1))),
        Condition("DirichletVB, 1", "", plain_em(lambda families: pu.DirichletVB(1.0))),
        Condition("DirichletVB, 0.25", "", plain_em(lambda families: pu.DirichletVB(0.25))),
        Condition("DirichletVB, fitted", "", plain_em(lambda families: pu.EmpiricalDirichlet())),
        Condition("logistic normal", "", plain_em(lambda families: normal)),
        Condition("logistic normal, families", "", plain_em(lambda f: pu.LogisticNormal(covariance=related(f)))),
        Condition(
            "logistic normal, per sentence", "", lambda model, families, init: pu.HierarchicalEM(model, init=init)
        ),
    ]
    rows += [Condition(name, p, drawn(name, p, normal)) for name in constraints(PENN) for p in POLYTOPES]
    other = {"EM": pu.AddLambda(0.1), "DirichletVB, 1": pu.DirichletVB(1.0)}
    rows += [Condition(f"{three}, {name}", p, drawn(three, p, how)) for name, how in other.items() for p in POLYTOPES]
    return rows


def constraints(families: Mapping[str, list[str]]) -> dict[str, list[Any]]:
    """The six of the paper, and three of them together."""
    ra, var, sd = c.right_attach(), c.verb_as_root(families["verb"]), c.short_dependencies(limit=4)
    return {
        "right attach": [ra],
        "all right": [c.all_right()],
        "left chain": [c.left_chain()],
        "verb as root": [var],
        "noun sequence": [c.noun_sequence("NN")],
        "short dependencies": [sd],
        "RA + VAR + SD": [ra, var, sd],
    }


def read(name: str) -> tuple[pu.data.Corpus, pu.data.Corpus | None]:
    from dataclasses import replace

    text = TEXTS[name]
    return text.read(), replace(text, file=TESTS[name]).read() if name in TESTS else None


def train(
    corpus: pu.data.Corpus, test: pu.data.Corpus | None, families: Mapping[str, list[str]], number: int, seed: int
) -> dict[str, Any]:
    """One run."""
    model = DMV.of(corpus)
    harmonic = model.harmonic_start(corpus)

    def init(tables: Any, generator: Any) -> Any:
        return pu.from_weights(harmonic(tables, generator), jitter=0.1)(tables, generator)

    engine = conditions()[number].engine(model, families, init)
    fit = engine.run(corpus, iterations=ITERATIONS, tolerance=0, seed=seed, progress=False)
    found = {"objective": fit.objective, "train": 100 * fit.evaluate(corpus, how="mbr")["directed"]}
    if test is not None:
        found["test"] = 100 * fit.evaluate(test, how="mbr")["directed"]
    return found | ({"fallbacks": str(fit.config["fallbacks"])} if "fallbacks" in fit.config else {})


def learning(names: Sequence[str], starts: int, processes: int) -> None:
    for name in names:
        if name not in FAMILIES:
            raise SystemExit(f"no corpus '{name}', expected some of {', '.join(FAMILIES)}")
        if not (DATA / TEXTS[name].file).exists():
            figure(f"{TEXTS[name].name} is not at {DATA / TEXTS[name].file}: set PYRO_UNSUP_DATA")
            continue
        learn(name, starts, processes)


def learn(name: str, starts: int, processes: int) -> None:
    """The table of one corpus."""
    corpus, test = read(name)
    texts = {"train": corpus} | ({} if test is None else {"test": test})
    figure(TEXTS[name].name, **{f"{key} sentences": len(text) for key, text in texts.items()})
    chain = {}
    for key, text in texts.items():
        assert text.heads is not None
        chain[key] = 100 * head_scores(text.heads, chain_to_next(text.lengths), text.lengths)["directed"]
    kinds = conditions()
    jobs = [
        (f"{TEXTS[name].name}, {how.name} {how.column}, start {seed}", train, (corpus, test, FAMILIES[name], i, seed))
        for i, how in enumerate(kinds)
        for seed in range(starts)
    ]
    named = {job[0]: (job[2][3], job[2][4]) for job in jobs}
    found: dict[int, dict[int, dict[str, Any]]] = {i: {} for i in range(len(kinds))}
    for job, one in in_processes(jobs, processes):
        figure(job, **plain(one))
        i, seed = named[job]
        found[i][seed] = one

    def cell(i: int, key: str) -> str:
        return spread(np.array([one[key] for one in found[i].values()]), 1)

    for key in texts:
        rows: list[list[str]] = [["chain to the next word", f"{chain[key]:.1f}", "", ""]]
        rows += [[how.name, cell(i, key), "", ""] for i, how in enumerate(kinds) if not how.column]
        for known in dict.fromkeys(how.name for how in kinds if how.column):
            rows.append([known, *(cell(i, key) for i, how in enumerate(kinds) if how.name == known)])
        markdown([f"{TEXTS[name].name}, {key}", "alone, or I", "II", "III"], rows)


def speed() -> None:
    """Iterations on UD English-EWT: of the logistic normal and of mixtures, against plain EM."""
    corpus, _ = read("ewt")
    model = DMV.of(corpus)
    init = model.harmonic_start(corpus)
    known = constraints(PENN)

    def steps(engine: Any) -> Callable[[], Any]:
        engine.start(corpus)
        return lambda: [engine.step(corpus) for _ in range(5)]

    families = {tag: family for family, tags in PENN.items() for tag in tags}
    engines = {
        "EM": pu.EM(model, pu.AddLambda(0.1), init),
        "DirichletVB": pu.EM(model, pu.DirichletVB(), init),
        "logistic normal": pu.EM(model, pu.LogisticNormal(), init),
        "logistic normal, families": pu.EM(model, pu.LogisticNormal(covariance=families), init),
        "logistic normal, learned covariance": pu.EM(model, pu.LogisticNormal(covariance="full"), init),
        "mixture of 2, EM": pu.MixtureEM(model, known["right attach"], pu.AddLambda(0.1), init),
        "mixture of 4, EM": pu.MixtureEM(model, known["RA + VAR + SD"], pu.AddLambda(0.1), init),
        "mixture of 4, logistic normal": pu.MixtureEM(model, known["RA + VAR + SD"], pu.LogisticNormal(), init),
    }
    taken = side_by_side({name: steps(engine) for name, engine in engines.items()}, repeats=7)
    for name in engines:
        ratio = round(taken[name] / taken["EM"], 2)
        report(f"an iteration, {name}", taken[name] / 5, "EM", taken["EM"] / 5, sentences=len(corpus), times_em=ratio)


def main() -> None:
    asked = arguments(__doc__, only="", corpora="wsj,zh,ewt", starts=5, processes=2)
    figure("machine", cores=os.cpu_count())
    if asked.only in ("", "speed"):
        speed()
    if asked.only in ("", "learning"):
        learning(asked.corpora.split(","), asked.starts, asked.processes)


if __name__ == "__main__":
    main()
