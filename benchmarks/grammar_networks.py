"""Dependencies whose tables are written by networks, with universal rules and without: every start, three treebanks.

``python -m benchmarks.grammar --only networks`` runs it. Settings are the published ones of Jiang, Han and Tu (2016):
vectors of 20 numbers, a hidden layer of 20, dropout 0.1, and at most 50 steps of Adam at 0.01 in an M step. Networks
are first fitted to the start that tables begin with. *Kept* networks go on from M step to M step; *fresh* ones begin
anew in each, as theirs do. Forty iterations of EM, as for tables. *By gradient*: 150 steps of L-BFGS on the
log-likelihood itself, without dropout, which L-BFGS does not allow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tqdm.auto import tqdm

import pyro_unsup as pu
from pyro_unsup.models import DMV

from .common import markdown, spread
from .treebanks import LONGEST, SCALE, STARTS, TREEBANKS, Treebank, by_tables, right, ruled, sentences

KEYS = ("wsj", "fr", "ewt")
SHOWN = {"10": 10, "all": 100_000}


def by_networks(bank: Treebank, text: pu.data.Corpus, rules: bool, start: int, how: str) -> pu.Fit:
    """Tables by networks: by EM, kept or fresh, or by gradient."""
    model = DMV.of(text, valence=bank.valence)
    init = pu.init.around(model.harmonic_start(text), SCALE if start else 0.0)
    net = pu.estimate.Embeddings(size=20, hidden=(20,), dropout=0.0 if how == "gradient" else 0.1)
    tables = pu.Neural(net, fit_start=True, fresh=how == "fresh")
    if how == "gradient":
        climber = pu.Gradient(ruled(model, rules), tables, init)
        return climber.run(text, iterations=150, tolerance=0, seed=start, progress=False)
    engine = pu.EM(ruled(model, rules), tables, init)
    return engine.run(text, iterations=40, tolerance=0, seed=start, progress=False)


WAYS: dict[str, Callable[..., pu.Fit]] = {
    "tables": by_tables,
    "kept networks": lambda *given: by_networks(*given, how="kept"),
    "fresh networks": lambda *given: by_networks(*given, how="fresh"),
    "networks by gradient": lambda *given: by_networks(*given, how="gradient"),
}


def networks(data: str) -> dict[str, Any]:
    """A table a treebank: every start by tables and by networks, the best objective of the eight, and consensus."""
    return {key: _one(TREEBANKS[key], data) for key in KEYS}


def _one(bank: Treebank, data: str) -> dict[str, Any]:
    text = sentences(data, bank.train, LONGEST)
    tests = {name: sentences(data, bank.test, longest) for name, longest in SHOWN.items()}
    found, rows = {}, []
    for way, learn in WAYS.items():
        for rules in (False, True):
            name = f"{way}, {'rules' if rules else 'no rules'}"
            fits = [learn(bank, text, rules, k) for k in tqdm(range(STARTS + 1), desc=f"{bank.name}, {name}")]
            noisy = fits[1:]
            best = max(noisy, key=lambda fit: fit.objective)
            for length, test in tests.items():
                agreed = pu.consensus(noisy, test)
                scores = [right(fit, test) for fit in fits]
                together = [right(best, test), right(agreed, test), 100 * agreed.agreement]
                found[f"{name}, {length}"] = {"scores": scores, "together": together}
                rows.append(
                    [
                        f"{name}, {'all' if length == 'all' else f'<= {length}'}",
                        *(f"{x:.1f}" for x in scores),
                        spread(scores[1:], 1),
                        *(f"{x:.1f}" for x in together),
                    ]
                )
            iterations = [fit.report.iterations for fit in fits]
            found[f"{name}, objectives"] = {"objectives": [fit.objective for fit in fits], "iterations": iterations}
            rows.append([f"{name}, iterations", *map(str, iterations)])
    print(f"\n\n{bank.name}: learned from {len(text):,} sentences; {len(tests['10']):,} of at most ten words scored")
    markdown(["", *COLUMNS], rows)
    return found


COLUMNS = (
    "harmonic",
    *(f"noise {k}" for k in range(1, STARTS + 1)),
    "mean (deviation) of the eight",
    "their best objective",
    "consensus",
    "agreement",
)
