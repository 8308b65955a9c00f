"""Tagging real text by annealing: what EM, DA and SDA make of a trigram tagger with a full dictionary.

    python -m benchmarks.annealing                  # all of it, two jobs at a time
    python -m benchmarks.annealing --only table     # or split, or labelled
    python -m benchmarks.annealing --small          # a hundred sentences or so, to see that it runs

Three experiments of Smith & Eisner (2004) on the WSJ sample (in ``PYRO_UNSUP_DATA``, or ``../shared/data``), a tenth of
its sentences held out: EM against deterministic annealing; the same on ten parts of the training text, each on its own;
and Merialdo's conditions, where the model starts from some labelled sentences and learns from the rest without labels.

The dictionary is that of the whole sample, as in the paper. Two start symbols and a stop event; a nearly uniform start;
betas 1e-4, 1.2e-4, ... and at last exactly 1, without new noise between them. Every M step adds a number to each cell
that the dictionary allows: none, 0.1 as in the paper, or 0.1 scaled to a corpus of this size. Tags by Viterbi. A run
ends when the relative change of its objective is below 1e-9; one on a tenth of the text, below 1e-7. Annealing goes on
to the next beta by the same criterion in the first experiment, below 1e-7 in the others.

JSON lines as jobs end, tables in Markdown at last. Every job has one thread.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.evaluate import Jackknife, sign_test_sentences, sign_test_tokens, tag_entropy
from pyro_unsup.infer import jackknife_fits
from pyro_unsup.results.decoding.tagging import Decoded, decode
from pyro_unsup.results.decoding.tagging import scores as tagging_scores

from .common import DATA, arguments, figure, in_processes, markdown, plain

PAPER = 47_208  # sentences that the paper trains on
ROUNDS = 100_000  # more than any run needs
AMOUNTS = {"none": 0.0, "0.1": 0.1}  # and 0.1 scaled, which depends on the corpus


@dataclass(frozen=True)
class Task:
    """Text to learn from, text held out, and the tagger."""

    train: pu.data.Corpus
    test: pu.data.Corpus
    model: pu.models.Tagger

    @staticmethod
    def of(corpus: pu.data.Corpus) -> Task:
        dictionary = pu.data.TagDictionary.from_corpus(corpus)
        model = pu.models.Tagger(dictionary.tagset, corpus.vocab, order=2, dictionary=dictionary, stop=True)
        return Task(*corpus.split(0.9), model)


def engine(method: str, model: pu.models.Tagger, amount: float, start: Any = None, early: float | None = None) -> pu.EM:
    """EM; DA; or SDA, toward the posterior of where it starts.

    :param start: a fit; by default weights are nearly uniform.
    :param early: relative change at which to raise beta.
    """
    estimate = pu.AddLambda(amount)
    init = pu.noise(1e-3) if start is None else pu.from_weights(start)
    if method == "EM":
        return pu.EM(model, estimate, init)
    toward = start if method == "SDA" else None
    return pu.Anneal(model, estimate, init, schedule=pu.geometric(1e-4, 1.2), toward=toward, early=early, jitter=0)


def scores(fit: pu.Fit, **texts: pu.data.Corpus) -> tuple[dict[str, float], dict[str, Decoded]]:
    """Of a fit on texts by name, per cent and bits; and how it tags them."""
    decoded = {name: decode(fit, corpus) for name, corpus in texts.items()}
    found: dict[str, float] = {"e_steps": len(fit.rows), "objective": fit.objective}
    for name, corpus in texts.items():
        report = tagging_scores(fit, corpus, decoded[name])
        found[f"{name}_bits"] = report["bits_per_word"]
        found[f"{name}_all"] = 100 * report["accuracy"]
        found[f"{name}_ambiguous"] = 100 * report["accuracy_ambiguous"]
        found[f"{name}_impossible"] = int((decoded[name].log_likelihood == -torch.inf).sum())
    return found, decoded


def learn(task: Task, method: str, amount: float) -> dict[str, Any]:
    """One row of the first table, and what a sign test needs."""
    fit = engine(method, task.model, amount).run(task.train, iterations=ROUNDS, tolerance=1e-9, progress=False)
    found, decoded = scores(fit, train=task.train, test=task.test)
    test = decoded["test"]
    return {**found, "entropy": tag_entropy(test.posterior.marginals), "tags": test.structure.numpy()}


def learn_labelled(task: Task, method: str, amount: float, labelled: int) -> dict[str, Any]:
    """Learn from the rest of the text, starting from some labelled sentences; scores on held-out text along the way."""
    order = np.random.default_rng(0).permutation(len(task.train))
    some, rest = (task.train.select(np.sort(part)) for part in (order[:labelled], order[labelled:]))
    gold = torch.from_numpy(some.tags)
    supervised = pu.from_labelled(task.model, some, structure=gold, estimate=pu.AddLambda(amount))
    start = pu.EM(task.model, init=supervised).run(rest, iterations=0, progress=False)
    along: dict[int, float] = {}

    def score(fit: pu.Fit) -> dict[str, float]:
        at = int(fit.rows[-1]["iteration"])
        if at <= 10 or at % 20 == 0:  # accuracy moves fast at first
            along[at] = 100 * pu.evaluate.accuracy(task.test.tags, fit.predict(task.test))
        return {}

    started = engine(method, task.model, amount, start, early=1e-7)
    fit = started.run(rest, iterations=ROUNDS, tolerance=1e-9, progress=False, score=score)
    found, _ = scores(fit, train=rest, test=task.test)
    along[fit.report.iterations] = found["test_all"]
    best = max(along, key=along.__getitem__)
    return {**found, "start": along[0], "peak": along[best], "peak_at": best}


def table(task: Task, processes: int) -> None:
    amounts = {**AMOUNTS, "0.1, scaled": pu.AddLambda(0.1).scaled(len(task.train) / PAPER).amount}
    jobs = [
        (f"{method}, smoothing {name}", learn, (task, method, amount))
        for name, amount in amounts.items()
        for method in ("DA", "EM")
    ]
    found = {}
    for name, result in in_processes(jobs, processes):
        figure(name, **plain(result))
        found[name] = result
    shown = ("e_steps", "train_bits", "test_bits", "train_all", "train_ambiguous", "test_all", "test_ambiguous")
    rows = []
    for name in amounts:
        em, da = (found[f"{method}, smoothing {name}"] for method in ("EM", "DA"))
        words, sentences = _tests(task.test, da["tags"], em["tags"])
        over = da["objective"] - em["objective"]
        figure(f"DA against EM, smoothing {name}", objective=round(over, 2), words=words, sentences=sentences)
        for method, one in (("EM", em), ("DA", da)):
            bits = [f"{one[key]:.3f}" if "bits" in key else one[key] for key in shown]
            rows.append([f"{name} ({amounts[name]:.4g})", method, *bits, f"{one['entropy']:.3f}"])
        rows[-1] += [f"{over:+.1f}", words, sentences]
        rows[-2] += ["", "", ""]
    markdown(
        ["smoothing", "", *(key.replace("_", " ") for key in shown), "entropy", "objective", "words", "sentences"], rows
    )


def _tests(test: pu.data.Corpus, first: np.ndarray, second: np.ndarray) -> list[str]:
    """Where the first is right and the second is not, and the other way round, in words and in sentences."""
    both = sign_test_tokens(test.tags, first, second), sign_test_sentences(test.tags, first, second, test.offsets)
    return [f"{one.wins} : {one.losses}, p = {one.p_value:.1g}" for one in both]


def split(task: Task, processes: int) -> None:
    part = len(task.train) / 10
    rows = []
    for name, amount in (("0.1, a tenth of it", 0.01), ("0.1, scaled", pu.AddLambda(0.1).scaled(part / PAPER).amount)):
        both: dict[str, dict[str, Jackknife]] = {}
        for method in ("EM", "DA"):
            trials = jackknife_fits(
                lambda _, method=method, amount=amount: engine(method, task.model, amount, early=1e-7),
                task.train,
                lambda fit, mine, _: scores(fit, train=mine, test=task.test)[0],
                use="part",
                processes=processes,
                iterations=ROUNDS,
                tolerance=1e-7,
            )
            both[method] = trials.scores
            shown = {key: f"{one.mean:.3f} ({one.deviation:.3f})" for key, one in trials.scores.items()}
            figure(f"ten parts, {method}, smoothing {name} ({amount:.2g})", **shown)
        for method, found in both.items():
            about = ("e_steps", "train_bits", "test_bits", "train_all", "test_all", "test_ambiguous")
            rows.append([f"{name} ({amount:.2g})", method])
            rows[-1] += [f"{found[key].mean:.2f} ({found[key].deviation:.2f})" for key in about]
        better = {
            key: sum(sign * (a - b) > 0 for a, b in zip(both["DA"][key].values, both["EM"][key].values, strict=True))
            for key, sign in (("test_all", 1), ("objective", 1), ("train_bits", -1), ("test_bits", -1))
        }
        figure(f"ten parts, DA better than EM, smoothing {name}", **better)
        rows[-1] += [better["test_all"], better["train_bits"], better["test_bits"], better["objective"]]
        rows[-2] += [""] * 4
    names = ["E steps", "train bits", "test bits", "train all", "test all", "test ambiguous"]
    markdown(["smoothing", "", *names, "DA better: test all", "train bits", "test bits", "objective"], rows)


def labelled(task: Task, processes: int, sizes: Sequence[int]) -> None:
    amount = pu.AddLambda(0.1).scaled(len(task.train) / PAPER).amount
    jobs = [
        (f"{method} from {n} labelled", learn_labelled, (task, method, amount, n))
        for n in sizes
        for method in ("SDA", "DA", "EM")
    ]
    found = {}
    for name, result in in_processes(jobs, processes):
        figure(name, **plain(result))
        found[name] = result
    rows = []
    for n in sizes:
        em, da, sda = (found[f"{method} from {n} labelled"] for method in ("EM", "DA", "SDA"))
        peaks = [f"{one['test_all']:.2f} ({one['peak']:.2f} after {one['peak_at']})" for one in (em, da, sda)]
        steps = " / ".join(str(one["e_steps"]) for one in (em, da, sda))
        over = [f"{one['objective'] - em['objective']:+.0f}" for one in (da, sda)]
        rows.append([n, em["start"], *peaks, steps, *over])
    markdown(["labelled", "start", "EM", "DA", "SDA", "E steps", "objective, DA - EM", "SDA - EM"], rows)


def main() -> None:
    asked = arguments(__doc__, only="", small=False, processes=2)
    path = DATA / "wsj_nltk.mrg.xz"
    if not path.exists():
        sys.exit(f"the WSJ sample is not at {path}: set PYRO_UNSUP_DATA to the folder that has it")
    corpus = pu.data.read_brackets(path)
    small = asked.small
    task = Task.of(corpus.select(np.arange(150)).compact() if small else corpus)
    only, processes = asked.only, asked.processes
    choices = task.model.declarations()["emission"].layout.support.sum(0).numpy()[task.test.words]
    figure(
        "WSJ sample",
        train=[len(task.train), task.train.tokens],
        test=[len(task.test), task.test.tokens],
        new_words=int(np.isin(task.test.words, task.train.words, invert=True).sum()),
        random_all=round(100 * float(np.mean(1 / choices)), 2),
        random_ambiguous=round(100 * float(np.mean(1 / choices[choices > 1])), 2),
        processes=processes,
    )
    if only in ("", "table"):
        table(task, processes)
    if only in ("", "split"):
        split(task, processes)
    if only in ("", "labelled"):
        # 100, 5,000, 10,000 and 20,000 sentences, if there were 47,208; and a hundred as such.
        labelled(task, processes, (7, 40) if small else (7, 100, 375, 750, 1500))


if __name__ == "__main__":
    main()
