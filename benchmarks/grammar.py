"""Grammar induction with universal rules as preferences, and without rules: every start, on six treebanks.

    python -m benchmarks.grammar                        # all of it, some minutes
    python -m benchmarks.grammar --only wsj             # or ewt, fr, zh, it, id, without-rules, networks, cost
    python -m benchmarks.grammar --json grammar.json    # what every run found, to read on

Models learn from tags of at most ten words without punctuation, and are scored on sentences of at most 10, 20 and 40
words and on all of them: directed accuracy by MBR, the root's word counted. A treebank with a test set is scored on
that. The start is the harmonic one, alone and with noise on its log-weights (noise 1 to 8), uniform between 0 and 0.3;
*wide* is noise between 0 and 1. Nothing was chosen on Italian and Indonesian, of which the dev set is learned from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm.auto import tqdm

import pyro_unsup as pu
from pyro_unsup.handlers.components.universal_rules import CLASSES
from pyro_unsup.models import DMV

from .common import arguments, as_json, figure, markdown, report, side_by_side, spread
from .grammar_networks import networks
from .treebanks import LENGTHS, LONGEST, SCALE, STARTS, TREEBANKS, Treebank, by_tables, right, ruled, sentences

#: Noise around the harmonic start where there are no rules.
WIDE = 1.0
#: Strength of the prior on the weights of features.
KAPPA = 10.0
SETS, FRESH = 3, 101  # sets of eight seeds each, without rules; the first seed, none of which was tried before


def classes_of(tags: str) -> tuple[set[str], set[str]]:
    """Nouns and verbs, as the universal rules have them; auxiliaries are verbs."""
    known = CLASSES[tags]
    return {*known["NOUN"]}, {*known["VERB"], *known["AUX"]}


def by_features(bank: Treebank, text: pu.data.Corpus, rules: bool, start: int, scale: float = SCALE) -> pu.Fit:
    """150 steps of the direct gradient, with features of classes that fire where they are true.

    It begins with weights that one iteration of EM fits to the counts expected under the start. A fit to its tables
    would weigh all rows the same: rare tags would then begin as far from even as frequent ones.
    """
    model = DMV.of(text, valence=bank.valence)
    init = pu.init.around(model.harmonic_start(text), scale if start else 0.0)
    templates = pu.templates.dependency(classes_of(bank.tags), only_true=True, valence=bank.valence)
    first = pu.EM(ruled(model, rules), pu.LogLinear(templates, KAPPA, fit_start=True), init)
    begun = first.run(text, iterations=1, seed=start, progress=False)
    how = pu.LogLinear(templates, KAPPA, begin_with=(begun.features["features"], begun.memory["features"]))
    engine = pu.Gradient(ruled(model, rules), how)
    return engine.run(text, iterations=150, tolerance=0, seed=start, progress=False)


WAYS: dict[str, Callable[..., pu.Fit]] = {"tables": by_tables, "features": by_features}


def learned(bank: Treebank, way: str, data: str) -> dict[str, Any]:
    """All starts under universal rules, what is chosen among the eight with noise, and what they agree on."""
    text = sentences(data, bank.train, LONGEST)
    tests = {name: sentences(data, bank.test, longest) for name, longest in LENGTHS.items()}
    fits = [WAYS[way](bank, text, True, k) for k in tqdm(range(STARTS + 1), desc=f"{bank.name}, {way}", unit="start")]
    noisy = fits[1:]
    best = max(noisy, key=lambda fit: fit.objective)
    agreed = {name: pu.consensus(noisy, test) for name, test in tests.items()}
    plain = WAYS[way](bank, text, False, 0)
    wide = [WAYS[way](bank, text, True, k, WIDE) for k in range(1, STARTS + 1)]
    each = [{name: right(fit, test) for name, test in tests.items()} for fit in fits]
    return {
        "objectives": [fit.objective for fit in fits],
        "train": [right(fit, text) for fit in fits],
        "scores": each,
        "chosen": each[1 + noisy.index(best)],
        "consensus": {name: right(agreed[name], test) for name, test in tests.items()},
        "agreement": {name: 100 * one.agreement for name, one in agreed.items()},
        "decoded without": right(fits[0].without_preferences(), tests["10"]),
        "wide": [right(fit, tests["10"]) for fit in wide],
        "wide chosen": right(max(wide, key=lambda fit: fit.objective), tests["10"]),
        "wide consensus": right(pu.consensus(wide, tests["10"]), tests["10"]),
        "no rules": {name: right(plain, test) for name, test in tests.items()},
    }


def chain(bank: Treebank, data: str) -> dict[str, float]:
    """Every word on the next one."""
    found = {}
    for name, longest in LENGTHS.items():
        gold = sentences(data, bank.test, longest)
        assert gold.heads is not None
        heads = pu.evaluate.chain_to_next(gold.lengths)
        found[name] = 100 * pu.evaluate.head_scores(gold.heads, heads, gold.lengths)["directed"]
    return found


def treebank(key: str, data: str) -> dict[str, Any]:
    """One table: every start by tables and by features."""
    bank = TREEBANKS[key]
    found = {way: learned(bank, way, data) for way in WAYS}
    text, test = sentences(data, bank.train, LONGEST), sentences(data, bank.test, LONGEST)
    print(
        f"\n{bank.name}: learned from {len(text):,} sentences, {text.tokens:,} tags; {len(test):,} scored", flush=True
    )
    chained = chain(bank, data)
    markdown(["", *COLUMNS], [*_rows(found), ["every word on the next one, <= 10, 20, 40, all", _listed(chained)]])
    return {**found, "chain": chained}


COLUMNS = (
    "harmonic",
    *(f"noise {k}" for k in range(1, STARTS + 1)),
    "mean (deviation) of the eight",
    "their best objective",
    "consensus",
    "agreement",
    "wide noise",
    "its best objective",
    "its consensus",
    "decoded without rules",
    "learned without rules",
)


def _rows(found: dict[str, dict[str, Any]]) -> Iterator[list[str]]:
    """By way and length, a column a start, and what follows from all of them."""
    for way, one in found.items():
        for length in LENGTHS:
            each = [scores[length] for scores in one["scores"]]
            together = [one["chosen"][length], one["consensus"][length], one["agreement"][length]]
            wide, without = ["", "", ""], ""
            if length == "10":
                wide = [spread(one["wide"], 1), f"{one['wide chosen']:.1f}", f"{one['wide consensus']:.1f}"]
                without = f"{one['decoded without']:.1f}"
            yield [
                f"{way}, {'all' if length == 'all' else f'<= {length}'}",
                *(f"{x:.1f}" for x in each),
                spread(each[1:], 1),
                *(f"{x:.1f}" for x in together),
                *wide,
                without,
                f"{one['no rules'][length]:.1f}",
            ]
        yield [f"{way}, learned from", *(f"{x:.1f}" for x in one["train"]), spread(one["train"][1:], 1)]
        yield [f"{way}, objective", *(f"{x:.1f}" for x in one["objectives"])]
        yield [f"{way}, <= 10, wide noise", "", *(f"{x:.1f}" for x in one["wide"]), spread(one["wide"], 1)]


def _listed(scores: dict[str, float]) -> str:
    return ", ".join(f"{x:.1f}" for x in scores.values())


def without_rules(data: str) -> dict[str, Any]:
    """The WSJ sample by features alone, two valences: three sets of eight starts, chosen by the objective."""
    bank = TREEBANKS["wsj"]
    text = sentences(data, bank.train, LONGEST)
    longer = {name: sentences(data, bank.test, n) for name, n in LENGTHS.items()}
    rows, kept = [], []
    for group in range(SETS):
        seeds = [FRESH + group * STARTS + k for k in range(STARTS)]
        fits = [by_features(bank, text, False, k, WIDE) for k in tqdm(seeds, desc=f"set {group + 1}", unit="start")]
        scores = [right(fit, text) for fit in fits]
        best = max(fits, key=lambda fit: fit.objective)
        agreed = pu.consensus(fits, text)
        every = ", ".join(
            f"{x:.1f} ({fit.objective - best.objective:.0f})" for x, fit in zip(scores, fits, strict=True)
        )
        chosen = [f"{right(best, gold):.1f}" for gold in longer.values()]
        rows.append([f"{seeds[0]} to {seeds[-1]}", *chosen, f"{right(agreed, text):.1f}", every])
        kept += [(fit.objective, x) for fit, x in zip(fits, scores, strict=True)]
    markdown(["seeds", *(f"<= {x}" if x != "all" else x for x in longer), "consensus", "every start"], rows)
    values = np.array(kept)
    correlation = float(np.corrcoef(values.T)[0, 1])
    figure("without rules", runs=len(values), mean=round(float(values[:, 1].mean()), 1),
           deviation=round(float(values[:, 1].std(ddof=1)), 1), correlation=round(correlation, 2))  # fmt: skip
    return {"rows": rows, "runs": kept, "correlation": correlation}


def cost(data: str) -> dict[str, Any]:
    """An E step under universal rules beside a plain one, on all threads that there are."""
    text = sentences(data, "ewt-upos", LONGEST)
    model = DMV.of(text)
    start = model.harmonic_start(text)
    engines = {
        "plain": pu.EM(model, pu.AddLambda(1.0), start),
        "preferring": pu.EM(pu.prefer(model, pu.components.universal()), pu.AddLambda(1.0), start),
    }
    states = {name: engine.init(text) for name, engine in engines.items()}
    for name, engine in engines.items():  # a run is recorded in its first steps, see infer/replay.py
        for _ in range(4):
            engine.e_step(states[name])

    def several(name: str) -> Callable[[], Any]:
        return lambda: [engines[name].e_step(states[name]) for _ in range(10)]

    taken = side_by_side({name: several(name) for name in engines}, repeats=21)
    ratio = round(taken["preferring"] / taken["plain"], 3)
    report("an E step with preferences", taken["preferring"] / 10, "a plain E step", taken["plain"] / 10,
           times_plain=ratio, sentences=len(text), threads=torch.get_num_threads())  # fmt: skip
    return {"ratio": ratio}


PARTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "without-rules": without_rules,
    "networks": networks,
    "cost": cost,
}


def main() -> None:
    asked = arguments(__doc__, (*TREEBANKS, *PARTS), data="", only="", json="")
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    found: dict[str, Any] = {}
    for key in [*TREEBANKS, *PARTS] if not asked.only else [asked.only]:
        found[key] = treebank(key, asked.data) if key in TREEBANKS else PARTS[key](asked.data)
        if asked.json:
            Path(asked.json).write_text(as_json(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
