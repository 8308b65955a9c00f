"""Collapsed Gibbs sampling of trees beside EM: seconds a sweep, accepted proposals, and what chains say.

    python -m benchmarks.gibbs_trees                # all of it
    python -m benchmarks.gibbs_trees --only speed   # or learning
    python -m benchmarks.gibbs_trees --only learning --model SimplePCFG

The text is the WSJ sample (in ``--data`` or ``PYRO_UNSUP_DATA``): tags of at most ten words without punctuation, 555
sentences, with heads and brackets of the same words. A sweep proposes one new tree for each sentence. EM is measured
by one iteration from the start that chains begin with, both on one core.

What is learned: four chains for each setting, seeds 0 to 3, ``SWEEPS`` sweeps of which the second half is kept, every
fifth. Of each chain and of all together, the trees with the most expected right parts in the mean over draws are
scored: directed heads, and F of brackets, with whole sentences (Klein & Manning 2004) and without them ("inner").
Single words count in neither. EM is scored from the same starts, after 40 iterations; of grammars, whose start is
random, for four seeds, and after 100 iterations too. The text learned from is the text that is scored.

No setting is chosen. Every row tells the seed that would be chosen without gold trees: the chain with the highest mean
log joint of its draws, the run of EM with the highest objective. A second table tells which row and seed of a model the
log joint would choose, beside those with the best scores. Objectives of EM are no log joints, and take no part in that.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

import pyro_unsup as pu
from pyro_unsup.data import bracket_rows
from pyro_unsup.evaluate import bracket_scores, right_branching
from pyro_unsup.models import CCM, DMV, DMVCCM, PCFG, SimplePCFG

from .common import arguments, figure, markdown, side_by_side
from .dmv_ccm import scores, treebank

SWEEPS, THIN, SEEDS = 1000, 5, 4
GRAMMARS: dict[str, Any] = {"PCFG": PCFG, "SimplePCFG": SimplePCFG}
LABELS = (15, 30)  # of grammars
ITERATIONS = (40, 100)  # of EM; the second for grammars only, which take longer
SCORES = ("directed", "f1", "f1_inner")


@dataclass(frozen=True)
class Setting:
    """A row of the table.

    :param kind: of the model.
    :param prior: of its tables; of spans (constituents, distituents).
    :param hyper: how concentrations are treated.
    """

    kind: str
    prior: Any
    hyper: Any = "fixed"

    @property
    def name(self) -> str:
        if self.hyper != "fixed":
            return "prior sampled"
        if isinstance(self.prior, dict):
            return f"prior {self.prior['root']:g} of heads, {_pair(self.prior['yield'])} of spans"
        return f"prior {_pair(self.prior) if isinstance(self.prior, tuple) else format(self.prior, 'g')}"


def _pair(spans: tuple[float, float]) -> str:
    return f"{spans[0]:g} / {spans[1]:g}"


def both(spans: tuple[float, float], arcs: float = 1.0) -> dict[str, Any]:
    return {**dict.fromkeys(("root", "attach", "stop"), arcs), **dict.fromkeys(("yield", "context"), spans)}


CHAINS = [
    *(Setting("DMV", prior) for prior in (1.0, 0.1)),
    Setting("DMV", 1.0, "shared"),
    *(Setting("CCM", spans) for spans in ((1.0, 1.0), (2.0, 8.0), (0.5, 2.0))),
    Setting("CCM", 1.0, "shared"),
    *(
        Setting("DMV + CCM", both(spans, arcs))
        for spans, arcs in (((1.0, 1.0), 1.0), ((2.0, 8.0), 1.0), ((0.5, 2.0), 0.1))
    ),
    *(
        Setting(kind, prior, hyper)
        for kind in GRAMMARS
        for prior, hyper in ((1.0, "fixed"), (0.1, "fixed"), (1.0, "shared"))
    ),
]
#: What EM adds to counts, as ``pyro-unsup fit`` does.
EM: dict[str, Any] = {"DMV": 0.0, "CCM": (2.0, 8.0), "DMV + CCM": (2.0, 8.0), **dict.fromkeys(GRAMMARS, 0.01)}


def model_of(kind: str, corpus: pu.data.Corpus, prior: Any) -> Any:
    if kind in GRAMMARS:
        return GRAMMARS[kind].of(corpus, *LABELS, prior=prior)
    return {"DMV": DMV, "CCM": CCM, "DMV + CCM": DMVCCM}[kind].of(corpus, prior=prior)  # type: ignore[attr-defined]


def engine(kind: str, corpus: pu.data.Corpus) -> pu.EM:
    more, estimate = EM[kind], pu.DirichletMAP()
    if kind == "DMV" or kind in GRAMMARS:
        model = model_of(kind, corpus, 1 + more)
        start = model.harmonic_start(corpus) if kind == "DMV" else model.split_start(corpus)
        return pu.EM(model, estimate, start)
    spans = (1 + more[0], 1 + more[1])
    model = model_of(kind, corpus, spans if kind == "CCM" else both(spans))
    start = model.split_start if kind == "CCM" else model.start
    return pu.EM(model, estimate, start(corpus, estimate=estimate))


def scored(kind: str, corpus: pu.data.Corpus, structure: Any) -> dict[str, float]:
    """Directed heads and both F in percent, as far as there are any."""
    found = torch.as_tensor(structure)
    if kind in GRAMMARS:  # whose sentences of one word have no spans
        width = torch.from_numpy(corpus.lengths)
        whole = torch.ones(int((width * (width + 1) // 2).sum()), dtype=torch.long)
        owner = torch.repeat_interleave(width, width * (width + 1) // 2)
        whole[owner > 1] = (found >= 0).long()
        found = whole
    one = scores(corpus, found, "right", kind == "CCM" or kind in GRAMMARS)
    return {name: 100 * one[name] for name in SCORES if name in one}


def speed(corpus: pu.data.Corpus) -> list[list[Any]]:
    rows = []
    for kind in EM:
        em = engine(kind, corpus)
        state = em.init(corpus)
        walk = pu.CollapsedGibbs(model_of(kind, corpus, 1.0))._begin(corpus, 1, 0)

        def iteration(em: pu.EM = em, state: Any = state) -> None:
            em.m_step(state, em.e_step(state)[1])

        seconds = side_by_side({"EM": iteration, "sweep": walk.step}, repeats=9)
        ratio = seconds["sweep"] / seconds["EM"]
        figure(
            f"{kind}, a sweep", seconds=round(seconds["sweep"], 5), em=round(seconds["EM"], 5), ratio=round(ratio, 2)
        )
        rows.append([kind, f"{1000 * seconds['sweep']:.1f}", f"{1000 * seconds['EM']:.1f}", f"{ratio:.1f}"])
    return rows


@dataclass(frozen=True)
class Run:
    """A chain or a run of EM.

    :param objective: the mean log joint of the draws, or the objective of EM.
    """

    name: str
    objective: float
    scores: dict[str, float]

    def __str__(self) -> str:
        return f"{self.name}: {shown(self.scores)}"


def by_em(kind: str, corpus: pu.data.Corpus, iterations: int, seed: int) -> Run:
    fit = engine(kind, corpus).run(corpus, iterations=iterations, seed=seed, tolerance=0, progress=False)
    return Run(f"seed {seed}", fit.rows[-1]["objective"], scored(kind, corpus, fit.predict(corpus)))


def learning(corpus: pu.data.Corpus, sweeps: int, models: Sequence[str]) -> tuple[list[list[Any]], list[list[str]]]:
    """A row for each setting, and for each model what the log joint would choose."""
    rows, choices = [], []
    for kind in models:
        slow = kind in GRAMMARS
        for iterations in ITERATIONS[: 1 + slow]:
            each = [by_em(kind, corpus, iterations, seed) for seed in range(SEEDS if slow else 1)]
            rows.append([kind, f"EM, {iterations} iterations", "", *columns(each), ""])
            figure(f"{kind}, EM, {iterations} iterations", scores=[run.scores for run in each],
                   objective=[round(run.objective, 1) for run in each])  # fmt: skip
        chains: list[Run] = []
        for one in (one for one in CHAINS if one.kind == kind):
            kernel = pu.CollapsedGibbs(model_of(kind, corpus, one.prior), hyper=one.hyper)
            samples = kernel.run(corpus, sweeps, thin=THIN, chains=SEEDS, parallel=1, progress=False)
            each = [
                Run(f"seed {k}", float(joint), scored(kind, corpus, samples.predict("vote", k)))
                for k, joint in enumerate(samples.log_joint.mean(1))
            ]
            chains += [Run(f"{one.name}, {run.name}", run.objective, run.scores) for run in each]
            together = scored(kind, corpus, samples.predict("vote"))
            rate = 100 * float(samples.rates["labels"].mean())
            extra = {} if one.hyper == "fixed" else {"alpha": samples.alpha.mean(1).round(3).tolist(),
                                                     "beta": samples.beta.mean(1).round(3).tolist()}  # fmt: skip
            figure(f"{kind}, {one.name}", scores=[run.scores for run in each], together=together,
                   accepted=round(rate, 1), **extra, log_joint=[round(run.objective, 1) for run in each],
                   agreement=samples.agreement("vote").round(2).tolist())  # fmt: skip
            rows.append([kind, one.name, f"{rate:.1f}", *columns(each), shown(together)])
        measures = [name for name in SCORES if name in chains[0].scores]
        best = [max(chains, key=lambda run, name=name: run.scores[name]) for name in measures]
        chosen = max(chains, key=lambda run: run.objective)
        choices.append([kind, str(chosen), "; ".join(dict.fromkeys(map(str, best)))])
    rows.append(["right-branching", "", "", "", "", *branching(corpus), "", ""])
    return rows, choices


def branching(corpus: pu.data.Corpus) -> list[str]:
    """Both F of trees that branch to the right."""
    gold, rows = bracket_rows(corpus), right_branching(corpus.lengths)
    with_wholes = bracket_scores(gold, rows, corpus.lengths, "klein_manning_2004")
    return [f"{100 * one['f1']:.1f}" for one in (with_wholes, bracket_scores(gold, rows, corpus.lengths))]


def columns(each: list[Run]) -> list[str]:
    """Objectives and scores by seed, and the seed that the objective would choose, if there are several."""
    by_seed = [", ".join(f"{run.scores[name]:.1f}" for run in each if name in run.scores) for name in SCORES]
    chosen = max(each, key=lambda run: run.objective)
    return [", ".join(f"{run.objective:.0f}" for run in each), *by_seed, str(chosen) if len(each) > 1 else ""]


def shown(found: dict[str, float]) -> str:
    return " / ".join(f"{x:.1f}" for x in found.values())


def main() -> None:
    chosen = arguments(__doc__, ("speed", "learning"), only="", model="", data="", sweeps=SWEEPS)
    if chosen.model not in ("", *EM):
        sys.exit(f"--model {chosen.model}: expected one of {', '.join(EM)}")
    corpus = treebank(chosen.data)
    figure("WSJ sample, <= 10", sentences=len(corpus), tokens=corpus.tokens, tags=len(corpus.vocab))
    if chosen.only in ("", "speed"):
        rows = speed(corpus)
        markdown(["", "ms a sweep", "ms an EM iteration", "ratio"], rows)
    if chosen.only in ("", "learning"):
        rows, choices = learning(corpus, chosen.sweeps, [chosen.model] if chosen.model else [*EM])
        by_seed = ["objective, by seed", "directed, by seed", "F, by seed", "F inner, by seed"]
        markdown(["", "", "accepted, %", *by_seed, "objective chooses", "all vote"], rows)
        markdown(["", "the log joint chooses", "best scores"], choices)


if __name__ == "__main__":
    main()
