"""Combinations that no paper ran, beside the papers' own methods: score and objective, over several seeds.

    python -m benchmarks.crosses                            # all of it, 45 minutes of one core
    python -m benchmarks.crosses --only dmv --seeds 3       # or clustering, segmentation, alignment
    python -m benchmarks.crosses --small                    # a tenth of the data, one seed: does every cell run?

Corpora are looked for in ``--data`` or ``PYRO_UNSUP_DATA``. *From* says which paper has a method for that task:
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
  start, the others have noise on it (each probability times e^u, u uniform between 0 and 1), as in
  ``pyro-unsup reproduce berg-kirkpatrick-2010``.
  Mixtures are of right attachment, verbs as roots and short dependencies, the free share going from 0.85 to 0.95.
- segmentation: words in br-phono, token F1, by Viterbi; of samplers the last sample.
- clustering: 20 Newsgroups in 20 clusters, many-to-one.
- alignment: error rates, by intersection, so less is better; "competitive" thresholds posteriors at 0.5. Each seed has
  10,000 pairs of Hansards of its own. Five iterations or passes of Model 1, then five by jumps from there; annealing
  has four more of either before them, at smaller betas. DirichletVB is in the second part only, after Model 1 by EM:
  agreement makes the counts of its first iterations tiny, which does not matter to a maximum but does to a prior. With
  agreement no objective is climbed, so none chooses.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from pyro_unsup.errors import UnsupError
from pyro_unsup.reproduce import Corpora
from pyro_unsup.reproduce.berg_kirkpatrick_2010_grammar import TEXTS, short
from pyro_unsup.reproduce.liang_klein_2009_alignment import NEEDS as HANSARDS
from pyro_unsup.reproduce.liang_klein_2009_alignment import hansards
from pyro_unsup.reproduce.liang_klein_2009_clusters import documents as newsgroups

from ..common import arguments, corpora, figure, in_processes, markdown, plain, spread
from .grammar import grammar
from .method import Method
from .topics import documents
from .translations import PAIRS, TEXTS_OF_PAIRS, alignment
from .words import segmentation


@dataclass(frozen=True)
class Task:
    """A table.

    :param read: the data, or a tenth of them.
    :param needs: names of corpora.
    :param seeds: how many if nobody says.
    :param most: how many at most.
    """

    name: str
    read: Callable[[Corpora, bool], Any]
    needs: tuple[str, ...]
    methods: Callable[[], Iterator[Method]]
    scores: tuple[str, ...]
    seeds: int = 3
    most: int = 1000


def tenth(read: Callable[[Corpora], Any]) -> Callable[[Corpora, bool], Any]:
    def some(found: Corpora, small: bool) -> Any:
        whole = read(found)
        return whole.select(np.arange(0, len(whole), 10)) if small else whole

    return some


TASKS = {
    **{
        f"dmv {name}": Task(
            TEXTS[name].name,
            tenth(partial(short, corpus=TEXTS[name].corpus)),
            (TEXTS[name].corpus,),
            partial(grammar, name),
            ("directed",),
            4,
        )
        for name in ("wsj", "zh")
    },
    "segmentation": Task("br-phono", tenth(lambda found: found["speech"]), ("speech",), segmentation, ("token_f1",)),
    "clustering": Task(
        "20 Newsgroups", tenth(partial(newsgroups, small=False)), ("newsgroups",), documents, ("accuracy",)
    ),
    "alignment": Task(
        "Hansards",
        lambda found, small: hansards(found, TEXTS_OF_PAIRS * PAIRS // (10 if small else 1)),
        HANSARDS,
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


def table(name: str, where: Corpora, runs: int, small: bool, processes: int) -> None:
    task = TASKS[name]
    data, rows = task.read(where, small), list(task.methods())
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
    asked = arguments(__doc__, ("dmv", *TASKS), only="", seeds=0, processes=2, small=False, data="")
    names = [name for name in TASKS if name.startswith(asked.only)]
    where = corpora(asked.data, *(need for name in names for need in TASKS[name].needs))
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    for name in names:
        runs = 1 if asked.small else asked.seeds or TASKS[name].seeds
        table(name, where, runs, asked.small, asked.processes)


if __name__ == "__main__":
    main()
