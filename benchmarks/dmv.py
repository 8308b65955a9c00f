"""One E step of the dependency model with valence: against supar, and as it grows.

    python -m benchmarks.dmv                    # all of it
    python -m benchmarks.dmv --quick            # the ratios only
    python -m benchmarks.dmv --only growth      # or ratios

7,000 random tag sequences of length 1 to 10, 47,835 tags. The peer is supar's dependency CRF (``pip install supar``;
without it those rows are left out): marginals of all arcs, sentences batched by length so that nothing is padded. It
has no valence: a tree weighs the product of its arcs. First the same problem, stops that weigh nothing, where both must
find the same sum; then a whole E step of the model, with stops, through Pyro, in float64. With one thread, then two.
What is learned: ``pyro-unsup reproduce berg-kirkpatrick-2010 --only grammar-wsj``, and ``cohen-smith-2010``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.distributions import Dependency
from pyro_unsup.models import DMV

from .common import arguments, figure, peers_data, report, side_by_side

Tables = tuple[torch.Tensor, torch.Tensor]


def problem() -> tuple[pu.data.Corpus, Tables]:
    """The tag sequences; log-weights of roots (K,), and of arcs (K, 2, K) by head, direction and child."""
    raw = np.load(peers_data() / "tree.npz")
    vocab = pu.data.Vocab(str(k) for k in range(int(raw["T"])))
    corpus = pu.data.Corpus(raw["tokens"], np.concatenate([[0], np.cumsum(raw["lens"])]), vocab)
    return corpus, (torch.from_numpy(raw["root"]), torch.from_numpy(raw["arc"]).transpose(1, 2).contiguous())


def supar_marginals(corpus: pu.data.Corpus, tables: Tables) -> Callable[[], float] | None:
    """Marginals of arcs by supar; gives the sum of log Z, of sentences of more than a word."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from supar.structs import DependencyCRF
    except ImportError:
        return None
    root, arc = (table.float() for table in tables)
    batches = []
    for n in range(2, int(corpus.lengths.max()) + 1):
        starts = corpus.offsets[:-1][corpus.lengths == n][:, None] + np.arange(n)
        batches.append(torch.from_numpy(corpus.words[starts]).long())

    def run() -> float:
        total = 0.0
        for tags in batches:
            size, n = tags.shape
            place = torch.arange(n)
            right = (place[None, :] < place[:, None]).long()  # by child and head: does the head come first?
            scores = torch.zeros(size, n + 1, n + 1)  # likewise, after a root
            scores[:, 1:, 0] = root[tags]
            scores[:, 1:, 1:] = arc[tags[:, None, :], right, tags[:, :, None]]
            crf = DependencyCRF(scores, torch.full((size,), n), multiroot=False)
            _ = crf.marginals
            total += float(crf.log_partition.detach().sum())
        return total

    return run


def same_problem(corpus: pu.data.Corpus, tables: Tables) -> Callable[[], float]:
    lengths, tags = torch.from_numpy(corpus.lengths), torch.from_numpy(corpus.words).long()
    trees = Dependency(*tables, torch.zeros(len(tables[0]), 2, 2, 2, dtype=torch.float64), lengths)
    cells = int((lengths * (lengths + 1)).sum())

    def run() -> float:
        posterior = trees.posterior(tags)
        assert len(posterior.marginals) == cells
        return float(posterior.log_partition[lengths > 1].sum())

    return run


def e_step(corpus: pu.data.Corpus, engine: pu.EM | pu.Gradient) -> Callable[[], Any]:
    """An E step of the engine, through Pyro."""
    engine.start(corpus)
    return engine.look if isinstance(engine, pu.EM) else lambda: engine.gradient(corpus)


def ratios() -> None:
    corpus, tables = problem()
    model = DMV.of(corpus)
    start = model.harmonic_start(corpus)
    classes = ({str(k) for k in range(6)}, {str(k) for k in range(6, 12)})  # as many nouns and verbs as Penn tags have
    featured = pu.LogLinear(pu.templates.dependency(classes), kappa=1, fit_start=True)
    ours, peer = same_problem(corpus, tables), supar_marginals(corpus, tables)
    runs = {
        "ours": ours,
        "E step": e_step(corpus, pu.EM(model, init=start)),
        "gradient": e_step(corpus, pu.Gradient(model, featured, start)),
    }
    if peer is None:
        figure("supar is not installed: its rows are left out (pip install supar)")
    else:
        found = ours(), peer()
        assert abs(found[0] - found[1]) < 1e-5 * abs(found[0]), found
        runs["supar"] = peer
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        seconds = side_by_side(runs, repeats=31)
        about = {"threads": threads, "sentences": len(corpus), "tokens": corpus.tokens}
        if peer is not None:
            report("arc posteriors, the same weights", seconds["ours"], "supar", seconds["supar"], **about)
            report("DMV E step", seconds["E step"], "supar", seconds["supar"], **about)
        report("DMV direct gradient with features", seconds["gradient"], "DMV E step", seconds["E step"], **about)
    torch.set_num_threads(before)


def growth() -> None:
    """Seconds by the length of sentences, and by their number; one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    lengths = [10, 20, 40, 80, 160]
    by_length = [time_one(max(4, 8000 // n), n) / max(4, 8000 // n) for n in lengths]
    sizes = [4_000, 8_000, 16_000, 32_000]
    by_size = [time_one(n, 10) for n in sizes]
    figure(
        "growth in length",
        words=lengths,
        seconds_a_sentence=[float(f"{s:.3g}") for s in by_length],
        exponents=_exponents(lengths, by_length),
    )
    figure(
        "growth in sentences",
        sentences=sizes,
        seconds=[float(f"{s:.3g}") for s in by_size],
        exponents=_exponents(sizes, by_size),
    )
    torch.set_num_threads(before)


def time_one(sentences: int, words: int) -> float:
    """An E step on random sentences of one length, 30 tags."""
    rng = np.random.default_rng(0)
    tokens = np.minimum((30 ** rng.random(sentences * words)).astype(np.int64), 29)
    vocab = pu.data.Vocab(str(k) for k in range(30))
    corpus = pu.data.Corpus(tokens, np.arange(sentences + 1) * words, vocab)
    model = DMV.of(corpus)
    return side_by_side({"ours": e_step(corpus, pu.EM(model, init=model.harmonic_start(corpus)))}, repeats=7)["ours"]


def _exponents(sizes: list[int], seconds: list[float]) -> list[float]:
    """The power that time grows with, from each size to the next."""
    return [round(float(e), 2) for e in np.diff(np.log(seconds)) / np.diff(np.log(sizes))]


def main() -> None:
    asked = arguments(__doc__, ("ratios", "growth"), quick=False, only="")
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    only = "ratios" if asked.quick else asked.only
    if only in ("", "ratios"):
        ratios()
    if only in ("", "growth"):
        growth()


if __name__ == "__main__":
    main()
