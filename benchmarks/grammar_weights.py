"""What becomes of trees when rules fade or are those of other heads, and which weight held-out likelihood chooses.

    python -m benchmarks.grammar_weights

The treebanks, rules and scores of ``python -m benchmarks.grammar``, sentences of at most ten words, the harmonic start.
Rules fade by the strengths 1, 0.5, 0.25 and 0, each to a relative change of 1e-3 or of 1e-5. For the weight, a fifth of
the sentences to learn from, drawn at random, is held out.
"""

from __future__ import annotations

import numpy as np
from tqdm.auto import tqdm

import pyro_unsup as pu
from pyro_unsup.handlers.components.universal_rules import HEADS
from pyro_unsup.models import DMV

from .common import arguments, markdown
from .grammar import LONGEST, TREEBANKS, by_tables, right, sentences

KEYS, HELD_OUT = ("ewt", "fr", "zh", "wsj"), 5


def main() -> None:
    asked = arguments(__doc__, data="")
    faded, chosen = [], []
    for key in tqdm(KEYS, unit="treebank"):
        bank, rule, smooth = TREEBANKS[key], pu.components.universal(), pu.AddLambda(1.0)
        text, test = (sentences(asked.data, name, LONGEST) for name in (bank.train, bank.test))
        model = DMV.of(text, valence=bank.valence)
        start = model.harmonic_start(text)
        row = [bank.name, right(by_tables(bank, text, True, 0), test)]
        for tolerance in (1e-3, 1e-5):
            fit = pu.Fade(pu.prefer(model, rule), smooth, start).run(text, tolerance=tolerance, progress=False)
            row += [right(fit, test), fit.report.iterations]
        other = pu.components.universal(heads="content" if HEADS[bank.tags] == "function" else "function")
        fit = pu.EM(pu.prefer(model, other), smooth, start).run(text, iterations=40, tolerance=0, progress=False)
        faded.append([*row, right(fit, test), right(by_tables(bank, text, False, 0), test)])
        order = np.random.default_rng(0).permutation(len(text))
        size = len(text) // HELD_OUT
        learn, held_out = text.select(np.sort(order[size:])), text.select(np.sort(order[:size]))
        begin = model.harmonic_start(learn)

        def engine(ruled: object, begin: object = begin, smooth: pu.AddLambda = smooth) -> pu.EM:
            return pu.EM(ruled, smooth, begin)  # type: ignore[arg-type]

        found = pu.choose_weight(
            engine, model, rule, learn, held_out, iterations=40, tolerance=0, progress=False,
            score=lambda fit, test=test: right(fit, test),  # type: ignore[misc]
        )  # fmt: skip
        top = found.best["log_likelihood"]
        each = (f"{row['score']:.1f} ({row['log_likelihood'] - top:.0f})" for row in found.rows)
        chosen.append([bank.name, *each, found.best["weight"]])
        weights = [f"weight {row['weight']:g}" for row in found.rows]
    markdown(
        ["", "rules kept", "faded to 1e-3", "iterations", "to 1e-5", "iterations", "other heads", "no rules"], faded
    )
    markdown(["", *weights, "chosen"], chosen)


if __name__ == "__main__":
    main()
