"""Collapsed Gibbs sampling of trees beside EM: seconds a sweep, accepted proposals, and what chains say.

    python -m benchmarks.gibbs_trees                # all of it
    python -m benchmarks.gibbs_trees --only speed   # or learning

The text is the WSJ sample (in ``--data`` or ``PYRO_UNSUP_DATA``): tags of at most ten words without punctuation, 555
sentences, with heads and brackets of the same words. A sweep proposes one new tree for each sentence. EM is measured
by one iteration from the start that chains begin with, both on one core.

What is learned: four chains for each setting, seeds 0 to 3, ``SWEEPS`` sweeps of which the second half is kept, every
fifth. Of each chain and of all together, the trees with the most expected right parts in the mean over draws are
scored: directed heads, and F of brackets without single words and with whole sentences (Klein & Manning 2004). EM is
scored from the same starts, for four seeds where its start is random. The text learned from is the text that is
scored. No setting is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

import pyro_unsup as pu
from pyro_unsup.models import CCM, DMV, DMVCCM, PCFG

from .common import arguments, figure, markdown, side_by_side
from .dmv_ccm import scores, treebank

SWEEPS, THIN, SEEDS = 1000, 5, 4
LABELS = (15, 30)  # of the grammar
ITERATIONS = 40


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
    *(Setting("PCFG", prior) for prior in (1.0, 0.1)),
    Setting("PCFG", 1.0, "shared"),
]
#: What EM adds to counts, as ``pyro-unsup fit`` does.
EM = {"DMV": 0.0, "CCM": (2.0, 8.0), "DMV + CCM": (2.0, 8.0), "PCFG": 0.01}


def model_of(kind: str, corpus: pu.data.Corpus, prior: Any) -> Any:
    if kind == "PCFG":
        return PCFG.of(corpus, *LABELS, prior=prior)
    return {"DMV": DMV, "CCM": CCM, "DMV + CCM": DMVCCM}[kind].of(corpus, prior=prior)  # type: ignore[attr-defined]


def engine(kind: str, corpus: pu.data.Corpus) -> pu.EM:
    more, estimate = EM[kind], pu.DirichletMAP()
    if kind in ("DMV", "PCFG"):
        model = model_of(kind, corpus, 1 + more)
        start = model.harmonic_start(corpus) if kind == "DMV" else model.split_start(corpus)
        return pu.EM(model, estimate, start)
    spans = (1 + more[0], 1 + more[1])
    model = model_of(kind, corpus, spans if kind == "CCM" else both(spans))
    start = model.split_start if kind == "CCM" else model.start
    return pu.EM(model, estimate, start(corpus, estimate=estimate))


def scored(kind: str, corpus: pu.data.Corpus, structure: Any) -> dict[str, float]:
    """Directed heads and F in percent, as far as there are any."""
    found = torch.as_tensor(structure)
    if kind == "PCFG":  # its sentences of one word have no spans
        width = torch.from_numpy(corpus.lengths)
        whole = torch.ones(int((width * (width + 1) // 2).sum()), dtype=torch.long)
        owner = torch.repeat_interleave(width, width * (width + 1) // 2)
        whole[owner > 1] = (found >= 0).long()
        found = whole
    one = scores(corpus, found, "right", kind in ("CCM", "PCFG"))
    return {name: 100 * one[name] for name in ("directed", "f1") if name in one and (name == "f1" or kind != "CCM")}


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


def learning(corpus: pu.data.Corpus, sweeps: int) -> list[list[Any]]:
    rows = []
    for kind in EM:
        seeds = range(SEEDS if kind == "PCFG" else 1)
        found = [
            engine(kind, corpus).run(corpus, iterations=ITERATIONS, seed=k, tolerance=0, progress=False) for k in seeds
        ]
        each = [scored(kind, corpus, fit.predict(corpus)) for fit in found]
        rows.append([kind, f"EM, {ITERATIONS} iterations", "", *shown(each), "", ""])
        figure(f"{kind}, EM", scores=each)
        for one in (one for one in CHAINS if one.kind == kind):
            kernel = pu.CollapsedGibbs(model_of(kind, corpus, one.prior), hyper=one.hyper)
            samples = kernel.run(corpus, sweeps, thin=THIN, chains=SEEDS, parallel=1, progress=False)
            each = [scored(kind, corpus, samples.predict("vote", chain)) for chain in range(SEEDS)]
            together = scored(kind, corpus, samples.predict("vote"))
            rate = 100 * float(samples.rates["labels"].mean())
            extra = {} if one.hyper == "fixed" else {"alpha": samples.alpha.mean(1).round(3).tolist(),
                                                     "beta": samples.beta.mean(1).round(3).tolist()}  # fmt: skip
            figure(f"{kind}, {one.name}", scores=each, together=together, accepted=round(rate, 1), **extra,
                   log_joint=samples.log_joint.mean(1).round(0).tolist(),
                   agreement=samples.agreement("vote").round(2).tolist())  # fmt: skip
            rows.append([kind, one.name, f"{rate:.1f}", *shown(each), *shown([together])])
    return rows


def shown(each: list[dict[str, float]]) -> list[str]:
    """Every seed's scores."""
    return [", ".join(f"{one[name]:.1f}" for one in each if name in one) for name in ("directed", "f1")]


def main() -> None:
    chosen = arguments(__doc__, ("speed", "learning"), only="", data="", sweeps=SWEEPS)
    corpus = treebank(chosen.data)
    figure("WSJ sample, <= 10", sentences=len(corpus), tokens=corpus.tokens, tags=len(corpus.vocab))
    if chosen.only in ("", "speed"):
        rows = speed(corpus)
        markdown(["", "ms a sweep", "ms an EM iteration", "ratio"], rows)
    if chosen.only in ("", "learning"):
        rows = learning(corpus, chosen.sweeps)
        markdown(["", "", "accepted, %", "directed, by seed", "F, by seed", "directed, all vote", "F, all vote"], rows)


if __name__ == "__main__":
    main()
