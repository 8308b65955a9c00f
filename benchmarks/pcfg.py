"""What a probabilistic context-free grammar learns of the WSJ sample, and how its E step grows.

    python -m benchmarks.pcfg                      # all of it
    python -m benchmarks.pcfg --only learning      # or speed
    python -m benchmarks.pcfg --only learning --processes 1

Learning: tags of sentences of at most ten words, without punctuation. The recipe (how many labels, how different they
are at the start, how much is added to counts) is chosen without gold trees: it is the one with the fewest bits a tag on
every fifth sentence, learned from the others. Then four seeds learn from all sentences. F is without whole sentences
and single words.

Speed beside torch-struct: ``python -m benchmarks.definitions --only "PCFG, kernel"``.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.data import bracket_rows, short_tag_sequences
from pyro_unsup.evaluate import bits_per_word, bracket_scores, left_branching, right_branching
from pyro_unsup.models import PCFG, SimplePCFG
from pyro_unsup.tasks import find

from .common import arguments, corpora, figure, in_processes, markdown, plain, side_by_side, spread

LABELS = ((5, 15), (10, 20), (15, 30))  # nonterminals and preterminals
NOISE = (1.0, 3.0, 10.0)
SMOOTHING = (0.001, 0.01, 0.1)
SEEDS, ITERATIONS, TOLERANCE = 4, 100, 1e-5

Recipe = tuple[tuple[int, int], float, float]


def learn(corpus: pu.data.Corpus, recipe: Recipe, seed: int) -> pu.Fit:
    labels, noise, smooth = recipe
    model = PCFG.of(corpus, *labels)
    em = pu.EM(model, pu.AddLambda(smooth), init=model.split_start(corpus, noise=noise))
    return em.run(corpus, iterations=ITERATIONS, tolerance=TOLERANCE, seed=seed, progress=False)


def held_out(corpus: pu.data.Corpus, recipe: Recipe) -> dict[str, Any]:
    """Bits a tag of every fifth sentence, learned from the others."""
    fifth = np.arange(len(corpus)) % 5 == 4
    train, test = corpus.select(np.flatnonzero(~fifth)), corpus.select(np.flatnonzero(fifth))
    decoded = find("pcfg").decode(learn(train, recipe, 0), test)
    tokens = int(test.lengths[test.lengths > 1].sum())
    return {"bits": bits_per_word(float(decoded.log_likelihood.sum()), tokens)}


def scored(corpus: pu.data.Corpus, recipe: Recipe, seed: int) -> dict[str, Any]:
    fit = learn(corpus, recipe, seed)
    found, gold = {"objective": fit.objective, "iterations": fit.rows[-1]["iteration"]}, bracket_rows(corpus)
    for how in ("mbr", "viterbi"):
        rows = find("pcfg").decode(fit, corpus, how=how).brackets
        found[how] = bracket_scores(gold, rows, corpus.lengths)["f1"]
    return found


def learning(processes: int, data: str) -> None:
    corpus = short_tag_sequences(corpora(data, "wsj")["wsj"])
    figure("WSJ sample, <= 10", sentences=len(corpus), tokens=corpus.tokens, tags=len(corpus.vocab))
    recipes = {_name(one): one for one in itertools.product(LABELS, NOISE, SMOOTHING)}
    tried = dict(in_processes([(name, held_out, (corpus, one)) for name, one in recipes.items()], processes))
    for name, one in sorted(tried.items(), key=lambda pair: pair[1]["bits"]):
        figure(f"held out: {name}", **plain(one))
    best = min(tried, key=lambda name: tried[name]["bits"])
    jobs = [(f"seed {seed}", scored, (corpus, recipes[best], seed)) for seed in range(SEEDS)]
    found = dict(in_processes(jobs, processes))
    names = [f"seed {seed}" for seed in range(SEEDS)]
    rows = [[name, found[name]["objective"], *(100 * found[name][how] for how in ("mbr", "viterbi"))] for name in names]
    rows.append(
        ["mean (sd)", "", *(spread([100 * found[name][how] for name in names], 1) for how in ("mbr", "viterbi"))]
    )
    gold, lengths = bracket_rows(corpus), corpus.lengths
    for name, made in (("right-branching", right_branching(lengths)), ("left-branching", left_branching(lengths))):
        rows.append([name, "", 100 * bracket_scores(gold, made, lengths)["f1"], ""])
    print(f"\nchosen without gold trees: {best}")
    markdown(["", "objective", "F, MBR", "F, Viterbi"], rows)


def _name(recipe: Recipe) -> str:
    (nonterminals, preterminals), noise, smooth = recipe
    return f"{nonterminals} + {preterminals} labels, noise {noise:g}, smoothing {smooth:g}"


def step(sentences: int, words: int, labels: tuple[int, int], kind: Any = PCFG) -> Callable[[], Any]:
    """An E step on random words."""
    random = np.random.default_rng(0).integers(0, 30, sentences * words)
    text = pu.data.Corpus(random, np.arange(sentences + 1) * words, pu.data.Vocab(str(k) for k in range(30)))
    em = pu.EM(kind.of(text, *labels), init=pu.init.noise(1.0))
    state = em.init(text)
    return lambda: em.e_step(state)


def speed() -> None:
    lengths = [10, 20, 40, 80]
    times = [side_by_side({"ours": step(10, n, (30, 60))}, repeats=5)["ours"] / 10 for n in lengths]
    figure("growth in length, 30 + 60 labels", words=lengths, seconds_a_sentence=[float(f"{t:.3g}") for t in times])
    sizes = [(5, 10), (10, 20), (20, 40), (40, 80)]
    times = [side_by_side({"ours": step(10, 20, size)}, repeats=5)["ours"] / 10 for size in sizes]
    figure("growth in labels, 20 words", labels=sizes, seconds_a_sentence=[float(f"{t:.3g}") for t in times])
    both = {kind.__name__: step(10, 20, (30, 60), kind) for kind in (PCFG, SimplePCFG)}
    found = {name: float(f"{t / 10:.3g}") for name, t in side_by_side(both, repeats=9).items()}
    figure("full and factored rules, 30 + 60 labels, 20 words, seconds a sentence", **found)
    sizes = [(30, 60), (60, 120), (128, 256), (256, 512), (512, 1024)]
    for n in (20, 40):
        times = [side_by_side({"ours": step(10, n, size, SimplePCFG)}, repeats=3)["ours"] / 10 for size in sizes]
        figure(f"factored rules, {n} words", labels=sizes, seconds_a_sentence=[float(f"{t:.3g}") for t in times])


def main() -> None:
    asked = arguments(__doc__, ("speed", "learning"), only="", processes=2, data="")
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    if asked.only in ("", "speed"):
        speed()
    if asked.only in ("", "learning"):
        learning(asked.processes, asked.data)


if __name__ == "__main__":
    main()
