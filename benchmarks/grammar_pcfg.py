"""Unlabelled brackets by grammars with labels: tables by EM, and networks by SVI.

    OMP_NUM_THREADS=1 python -m benchmarks.grammar_pcfg  # the WSJ sample and Chinese, up to 10 words
    OMP_NUM_THREADS=1 python -m benchmarks.grammar_pcfg --corpus wsj --train-length 40 --epochs 4 --models factored

``--models`` takes one by its name, or those whose names contain a text. Every model learns from tags of sentences
without punctuation, of at most ``--train-length`` words, with four seeds. Its trees (MBR) are scored on sentences of
the same corpus of at most 10 and of at most 20 words, and on all. F is without whole sentences and single words.
Tables: 100 iterations of EM from the split start, with noise and smoothing of ``fit pcfg``. Networks: Adam with step
.002, betas .75 and .999, gradients clipped at 3, batches of 8, one draw of z.

The loss is that of training by tag, in nats: -log p for tables and neural grammars, -ELBO for compound ones. The table
tells all seeds, the one that the loss would choose without gold trees, and the mean.

The Chinese treebank has dependencies and no brackets. Gold brackets there are the words below each head, where these
stand side by side.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import pyro
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.optim import ClippedAdam

import pyro_unsup as pu
from pyro_unsup.data import Corpus, bracket_rows, short_tag_sequences
from pyro_unsup.evaluate import bracket_scores, left_branching, right_branching
from pyro_unsup.models import PCFG, CompoundPCFG, NeuralPCFG, SimplePCFG

from .common import arguments, corpora, figure, markdown, spread

SEEDS, ITERATIONS, BATCH = 4, 100, 8
LENGTHS = (10, 20, 1000)
TABLES, NETWORKS = (15, 30), (30, 60)
NOISE, SMOOTHING = 1.0, 0.01

MODELS: dict[str, tuple[Any, tuple[int, int], dict[str, Any]]] = {
    "PCFG, EM": (PCFG, TABLES, {}),
    "SimplePCFG, EM": (SimplePCFG, TABLES, {}),
    "SimplePCFG, EM, more labels": (SimplePCFG, NETWORKS, {}),
    "neural": (NeuralPCFG, NETWORKS, {}),
    "neural, factored": (NeuralPCFG, NETWORKS, {"factored": True}),
    "compound, factored": (CompoundPCFG, NETWORKS, {"factored": True}),
    "compound": (CompoundPCFG, NETWORKS, {}),
}


def yields(corpus: Corpus) -> np.ndarray[Any, Any]:
    """The words below each head, where they are two or more and stand side by side: (brackets, 3)."""
    found = []
    for sentence in range(len(corpus)):
        first, last = corpus.offsets[sentence], corpus.offsets[sentence + 1]
        assert corpus.heads is not None
        heads = corpus.heads[first:last]
        below = np.eye(last - first, dtype=bool)
        for word in range(last - first):
            head, steps = heads[word], 0
            while head > 0 and steps < last - first:
                below[head - 1, word] = True
                head, steps = heads[head - 1], steps + 1
        for words in below:
            at = np.flatnonzero(words)
            if len(at) > 1 and at[-1] - at[0] == len(at) - 1:
                found.append((sentence, at[0], at[-1] + 1))
    return np.unique(np.array(found), axis=0)


def learned(name: str, corpus: Corpus, seed: int, epochs: int) -> tuple[Any, float]:
    """A model, and its loss by tag."""
    kind, labels, options = MODELS[name]
    if kind in (PCFG, SimplePCFG):
        model = kind.of(corpus, *labels)
        em = pu.EM(model, pu.AddLambda(SMOOTHING), init=model.split_start(corpus, noise=NOISE))
        fit = em.run(corpus, iterations=ITERATIONS, tolerance=1e-5, seed=seed, progress=False)
        return fit, -fit.log_likelihood(corpus) / corpus.tokens
    pyro.set_rng_seed(seed)
    pyro.clear_param_store()
    model = kind.of(corpus, *labels, **options)
    svi = SVI(model, model.guide, ClippedAdam({"lr": 0.002, "betas": (0.75, 0.999), "clip_norm": 3.0}), Trace_ELBO())
    loss = 0.0
    for _ in range(epochs):
        loss = sum(svi.step(corpus.select(some.numpy())) for some in torch.randperm(len(corpus)).split(BATCH))
    return model, loss / corpus.tokens


def trees(found: Any, corpus: Corpus) -> np.ndarray[Any, Any]:
    """Brackets of a corpus, some sentences at a time."""
    rows = []
    for some in np.array_split(np.arange(len(corpus)), max(len(corpus) // 500, 1)):
        part = corpus.select(some)
        mine = found.decode(part).brackets if isinstance(found, pu.Fit) else found.brackets(part)
        rows.append(mine + np.array([some[0], 0, 0]))
    return np.concatenate(rows)


def scores(rows: np.ndarray[Any, Any], gold: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> list[float]:
    """F of sentences of at most so many words."""
    found = []
    for most in LENGTHS:
        keep = lengths <= most
        some = [x[keep[x[:, 0]]] for x in (gold, rows)]
        number = np.cumsum(keep) - 1
        some = [np.column_stack([number[x[:, 0]], x[:, 1:]]) for x in some]
        found.append(100 * bracket_scores(some[0], some[1], lengths[keep])["f1"])
    return found


def learning(name: str, corpus: Corpus, models: str, train_length: int, epochs: int, seeds: int) -> None:
    train = corpus.filter(max_length=train_length)
    gold = bracket_rows(corpus) if corpus.spans is not None else yields(corpus)
    figure(name, sentences=len(corpus), trained_on=len(train), tags=train.tokens, kinds=len(corpus.vocab))
    table = []
    for model in MODELS:
        if not (model == models if models in MODELS else models in model):
            continue
        runs = []
        for seed in range(seeds):
            start = time.perf_counter()
            found, loss = learned(model, train, seed, epochs)
            spent, f = time.perf_counter() - start, scores(trees(found, corpus), gold, corpus.lengths)
            runs.append((loss, *f))
            shown = [round(x, 1) for x in f]
            figure(f"{name}, {model}, seed {seed}", loss=round(loss, 4), f=shown, seconds=round(spent))
        loss, best, *_ = min(runs)
        means = [spread([one[k] for one in runs], 1) for k in (1, 2, 3)]
        table.append([model, ", ".join(f"{one[1]:.1f}" for one in runs), f"{best:.1f}", f"{loss:.3f}", *means])
    sides = {"right-branching": right_branching(corpus.lengths), "left-branching": left_branching(corpus.lengths)}
    for label, made in sides.items():
        table.append([label, "", "", "", *(f"{x:.1f}" for x in scores(made, gold, corpus.lengths))])
    print()
    columns = ["F, up to 10 words, by seed", "chosen by loss", "its loss", "up to 10: mean (sd)", "up to 20", "all"]
    markdown(["", *columns], table)


def main() -> None:
    asked = arguments(__doc__, corpus="", models="", train_length=10, epochs=20, seeds=SEEDS, data="")
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    for name, source in {"wsj": "wsj", "zh": "zh-bare"}.items():
        if asked.corpus in ("", name):
            corpus = short_tag_sequences(corpora(asked.data, source)[source], 1000).filter(min_length=2)
            learning(name, corpus, asked.models, asked.train_length, asked.epochs, asked.seeds)


if __name__ == "__main__":
    main()
