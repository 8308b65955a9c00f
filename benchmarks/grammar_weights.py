"""What becomes of trees when rules fade or are those of other heads, and which weight held-out likelihood chooses.

    python -m benchmarks.grammar_weights                        # all of it, some minutes
    python -m benchmarks.grammar_weights --only fade --starts 8  # or other-heads, weight, share

The treebanks, rules and scores of ``python -m benchmarks.grammar``, sentences of at most ten words. Rules fade by the
strengths 1, 0.5, 0.25 and 0, each to a relative change of 1e-3 or of 1e-5, from the harmonic start and from those with
noise. The other tables are from the harmonic start alone. Shares of arcs that obey are given as parts of the largest
one that trees can reach, which the error tells. For the weight, a fifth of the sentences to learn from, drawn at
random, is held out.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from tqdm.auto import tqdm

import pyro_unsup as pu
from pyro_unsup.handlers.components.universal_rules import HEADS
from pyro_unsup.models import DMV

from .common import arguments, markdown, spread
from .treebanks import LONGEST, SCALE, STARTS, TREEBANKS, by_tables, right, sentences

KEYS, HELD_OUT = ("ewt", "fr", "zh", "wsj"), 5
#: Of the largest share that trees can reach.
SHARES = (0.8, 0.9, 0.96, 0.98)


def faded(data: str, starts: int) -> None:
    """Rules that fade, from the harmonic start and from those with noise."""
    rows: list[list[object]] = []
    for key in tqdm(KEYS, unit="treebank", desc="fading"):
        bank, smooth = TREEBANKS[key], pu.AddLambda(1.0)
        text, test = (sentences(data, name, LONGEST) for name in (bank.train, bank.test))
        model = DMV.of(text, valence=bank.valence)
        ruled = pu.prefer(model, pu.components.universal())
        kept, none = ([by_tables(bank, text, rules, k) for k in range(starts + 1)] for rules in (True, False))
        fits = {"rules kept": kept, "learned without rules": none}
        for tolerance in (1e-3, 1e-5):
            fits[f"faded to {tolerance:.0e}"] = [
                pu.Fade(ruled, smooth, pu.init.around(model.harmonic_start(text), SCALE if k else 0.0)).run(
                    text, tolerance=tolerance, seed=k, progress=False
                )
                for k in range(starts + 1)
            ]
        for name, runs in fits.items():
            scores, noisy = [right(fit, test) for fit in runs], runs[1:]
            best = max(noisy, key=lambda fit: fit.objective)
            agreed = pu.consensus(noisy, test)
            iterations = [fit.report.iterations for fit in runs]
            rows.append(
                [
                    f"{bank.name}, {name}",
                    *(f"{x:.1f}" for x in scores),
                    spread(scores[1:], 1),
                    f"{right(best, test):.1f}",
                    f"{right(agreed, test):.1f}",
                    f"{100 * agreed.agreement:.1f}",
                    f"{min(iterations)} to {max(iterations)}",
                ]
            )
    ends = ("mean (deviation) of those with noise", "their best objective", "consensus", "agreement", "iterations")
    markdown(["", "harmonic", *(f"noise {k}" for k in range(1, starts + 1)), *ends], rows)


def other_heads(data: str) -> None:
    """Rules for heads of the other kind."""
    rows = []
    for key in KEYS:
        bank = TREEBANKS[key]
        text, test = (sentences(data, name, LONGEST) for name in (bank.train, bank.test))
        model = DMV.of(text, valence=bank.valence)
        rule = pu.components.universal(heads="content" if HEADS[bank.tags] == "function" else "function")
        engine = pu.EM(pu.prefer(model, rule), pu.AddLambda(1.0), model.harmonic_start(text))
        fit = engine.run(text, iterations=40, tolerance=0, progress=False)
        each = [right(by_tables(bank, text, rules, 0), test) for rules in (True, False)]
        rows.append([bank.name, each[0], right(fit, test), each[1]])
    markdown(["", "rules", "rules for other heads", "no rules"], rows)


def chosen_weight(data: str) -> None:
    """The weight that held-out likelihood chooses."""
    chosen = []
    for key in tqdm(KEYS, unit="treebank", desc="weights"):
        bank, rule, smooth = TREEBANKS[key], pu.components.universal(), pu.AddLambda(1.0)
        text, test = (sentences(data, name, LONGEST) for name in (bank.train, bank.test))
        model = DMV.of(text, valence=bank.valence)
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
    markdown(["", *weights, "chosen"], chosen)


def shares(data: str) -> None:
    """Shares of arcs that obey, in place of a weight: on the text learned from / on the test part."""
    rows = []
    for key in tqdm(TREEBANKS, unit="treebank", desc="shares"):
        bank = TREEBANKS[key]
        text, test = (sentences(data, name, LONGEST) for name in (bank.train, bank.test))
        model, rule = DMV.of(text, valence=bank.valence), pu.components.universal()
        largest = largest_share(model, rule, text)
        row: list[object] = [bank.name, f"{largest:.3f}"]
        for part in SHARES:
            ruled = pu.regularise(model, pu.components.at_least(rule, part * largest), 0.0)
            engine = pu.EM(ruled, pu.AddLambda(1.0), model.harmonic_start(text))
            fit = engine.run(text, iterations=40, tolerance=0, progress=False)
            (weight,) = fit.model.handler.learned()
            row.append(f"{right(fit, text):.1f} / {right(fit, test):.1f} (x {weight:.1f})")
        kept = by_tables(bank, text, True, 0)
        rows.append([*row, f"{right(kept, text):.1f} / {right(kept, test):.1f}"])
    markdown(["", "largest share", *(f"{part:g} of it" for part in SHARES), "a weight of 2"], rows)


def largest_share(model: DMV, rule: Any, text: pu.data.Corpus) -> float:
    """Of arcs that obey, as the error tells that refuses a share of all."""
    try:
        pu.EM(pu.regularise(model, pu.components.at_least(rule, 1.0), 0.0)).run(text, iterations=0, progress=False)
    except pu.StructureError as error:
        return float(re.findall(r"is (0\.\d+): ask", str(error))[0])
    return 1.0


def main() -> None:
    asked = arguments(__doc__, ("fade", "other-heads", "weight", "share"), data="", only="", starts=STARTS)
    if asked.only in ("", "fade"):
        faded(asked.data, asked.starts)
    if asked.only in ("", "other-heads"):
        other_heads(asked.data)
    if asked.only in ("", "weight"):
        chosen_weight(asked.data)
    if asked.only in ("", "share"):
        shares(asked.data)


if __name__ == "__main__":
    main()
