"""One E step of the constituent-context model: against supar, tempered against plain, as it grows; and what EM learns.

    python -m benchmarks.ccm                   # all of it, a few minutes
    python -m benchmarks.ccm --quick           # the ratios only
    python -m benchmarks.ccm --plot growth.png # also draw how time grows

7,000 random tag sequences of length 1 to 10, 47,835 tags. The peer is supar's constituency CRF (``pip install supar``;
without it that row is left out): marginals of all spans, sentences batched by length so that nothing is padded. First
on the same problem, one weight for each pair of first and last tag, where both must find the same sum; then a whole E
step of the model, whose tables have 98,638 yields and 1,226 contexts, through Pyro, in float64. On a busy machine set
``OMP_NUM_THREADS=1``: the peer's many small products wait for each other's threads.

What EM learns is measured on the WSJ sample (in ``PYRO_UNSUP_DATA``, or ``../shared/data``), at most ten tags without
punctuation: micro-averaged F of brackets that are neither single tags nor whole sentences, on the training text.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.distributions import Bracketing
from pyro_unsup.distributions.bracketing import constituents
from pyro_unsup.distributions.bracketing_sum import spans_of
from pyro_unsup.models import CCM

from .common import ROOT, figure, peers_data, report, side_by_side

DATA = Path(os.environ.get("PYRO_UNSUP_DATA", ROOT.parent / "shared" / "data"))
PUNCTUATION = (",", ".", ":", "``", "''", "-LRB-", "-RRB-", "$", "#")


def problem() -> tuple[pu.data.Corpus, torch.Tensor]:
    """The tag sequences, and a log-weight for each pair of first and last tag."""
    raw = np.load(peers_data() / "tree.npz")
    vocab = pu.data.Vocab(str(k) for k in range(int(raw["T"])))
    corpus = pu.data.Corpus(raw["tokens"], np.concatenate([[0], np.cumsum(raw["lens"])]), vocab)
    return corpus, torch.from_numpy(raw["span"])


def supar_marginals(corpus: pu.data.Corpus, span: torch.Tensor) -> Callable[[], float] | None:
    """Marginals by supar, for the log-weights of the pair of tags at either end of a span; gives the sum of log Z."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from supar.structs import ConstituencyCRF
    except ImportError:
        return None
    batches = []
    for n in range(2, 11):  # supar has no trees of one word
        rows = np.flatnonzero(corpus.lengths == n)
        starts = corpus.offsets[rows][:, None] + np.arange(n)
        batches.append(torch.from_numpy(corpus.words[starts]).long())
    single = span.float()

    def run() -> float:
        total = 0.0
        for x in batches:
            scores = torch.zeros(len(x), x.shape[1] + 1, x.shape[1] + 1)
            scores[:, :-1, 1:] = single[x[:, :, None], x[:, None, :]]
            crf = ConstituencyCRF(scores, torch.full((len(x),), x.shape[1]))
            _ = crf.marginals
            total += float(crf.log_partition.detach().sum())
        return total

    return run


def same_problem(corpus: pu.data.Corpus, span: torch.Tensor) -> Callable[[], float]:
    lengths = torch.from_numpy(corpus.lengths)
    owner, start, end = spans_of(lengths)
    words, offsets = torch.from_numpy(corpus.words).long(), torch.from_numpy(corpus.offsets)
    pair = words[offsets[owner] + start] * len(span) + words[offsets[owner] + end - 1]
    value = torch.stack([pair, torch.zeros_like(pair)], 1)
    yields = torch.stack([torch.zeros(span.numel(), dtype=span.dtype), span.reshape(-1)])
    trees = Bracketing(yields, torch.zeros(2, 1, dtype=span.dtype), lengths)

    def run() -> float:
        posterior = trees.posterior(value)
        assert len(posterior.marginals) == len(value)
        return float(posterior.log_partition[lengths > 1].sum())

    return run


def e_step(corpus: pu.data.Corpus, model: Callable[..., Any], start: Any) -> pu.EM:
    em = pu.EM(model, init=start)
    em.start(corpus)
    em.look()
    return em


def ratios() -> None:
    corpus, span = problem()
    ccm = CCM.of(corpus)
    start = ccm.split_start(corpus)
    plain, tempered = e_step(corpus, ccm, start), e_step(corpus, pu.temper(ccm, 0.5), start)
    ours = same_problem(corpus, span)
    runs: dict[str, Callable[[], Any]] = {"ours": ours, "plain": plain.look}
    peer = supar_marginals(corpus, span)
    if peer is None:
        figure("supar is not installed: its rows are left out (pip install supar)")
    else:
        found = ours(), peer()
        assert abs(found[0] - found[1]) < 1e-5 * abs(found[0]), found
        runs["supar"] = peer
    seconds = side_by_side(runs, repeats=31)
    about = {"threads": torch.get_num_threads(), "sentences": len(corpus), "tokens": corpus.tokens}
    if peer is not None:
        report("span posteriors, the same weights", seconds["ours"], "supar", seconds["supar"], **about)
        report("CCM E step", seconds["plain"], "supar", seconds["supar"], **about, yields=len(ccm.inventory.yields))
    pair = side_by_side({"plain": plain.look, "tempered": tempered.look}, repeats=101)
    report("CCM tempered E step", pair["tempered"], "plain E step", pair["plain"], **about)


def text(sentences: int, words: int, seed: int = 0) -> pu.data.Corpus:
    """Random sentences of one length."""
    rng = np.random.default_rng(seed)
    tokens = np.minimum((30 ** rng.random(sentences * words)).astype(np.int64), 29)
    return pu.data.Corpus(tokens, np.arange(sentences + 1) * words, pu.data.Vocab(str(k) for k in range(30)))


def time_one(sentences: int, words: int) -> float:
    corpus = text(sentences, words)
    model = CCM.of(corpus)
    em = e_step(corpus, model, model.split_start(corpus))
    return side_by_side({"ours": em.look}, repeats=7)["ours"]


def time_trees(sentences: int, words: int) -> float:
    """Seconds a sentence for posteriors and counts, with tables so small that only the trees take time."""
    generator = torch.Generator().manual_seed(0)
    size = sentences * words * (words + 1) // 2
    value = torch.randint(50, (size, 2), generator=generator)
    yields, contexts = 0.1 * torch.randn(2, 2, 50, generator=generator, dtype=torch.float64)
    trees = Bracketing(yields, contexts, torch.full((sentences,), words))
    return side_by_side({"ours": lambda: trees.posterior(value).counts}, repeats=7)["ours"] / sentences


def growth(plot: str | None) -> None:
    lengths = [20, 40, 80, 160, 320, 640]
    by_length = [time_trees(max(4, 4000 // n), n) for n in lengths]
    sizes = [2_000, 4_000, 8_000, 16_000, 32_000]
    by_size = [time_one(n, 10) for n in sizes]
    slopes = [_slope(lengths[-3:], by_length[-3:]), _slope(sizes[-3:], by_size[-3:])]
    figure("growth in length", words=lengths, seconds_a_sentence=_rounded(by_length), last_exponent=round(slopes[0], 2))
    figure("growth in sentences", sentences=sizes, seconds=_rounded(by_size), last_exponent=round(slopes[1], 2))
    if plot is None:
        return
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure_, axes = plt.subplots(1, 2, figsize=(9, 3.5))
    for ax, x, y, label in (
        (axes[0], lengths, by_length, "words in a sentence"),
        (axes[1], sizes, by_size, "sentences of ten words"),
    ):
        power = 3 if ax is axes[0] else 1
        ax.loglog(x, y, "o-", label="E step")
        ax.loglog(x, [y[-1] * (n / x[-1]) ** power for n in x], ":", label="n³" if power == 3 else "n")
        ax.set(xlabel=label, ylabel="seconds")
        ax.legend()
    figure_.tight_layout()
    figure_.savefig(plot)


def _slope(x: list[int], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _rounded(values: list[float]) -> list[float]:
    return [float(f"{value:.3g}") for value in values]


def bracket_f(corpus: pu.data.Corpus, trees: torch.Tensor) -> tuple[float, float, float]:
    """Recall, precision and F of brackets, micro-averaged, without single words and whole sentences; in percent."""
    assert corpus.spans is not None
    assert corpus.span_offsets is not None
    lengths = torch.from_numpy(corpus.lengths)
    found = {tuple(row) for row in constituents(trees, lengths).tolist() if 1 < row[2] - row[1] < lengths[row[0]]}
    owner = np.repeat(np.arange(len(corpus)), np.diff(corpus.span_offsets)).tolist()
    gold = {(b, i, j) for b, (i, j) in zip(owner, corpus.spans.tolist(), strict=True) if j - i < lengths[b]}
    right = len(found & gold)
    return 100 * right / len(gold), 100 * right / len(found), 200 * right / (len(found) + len(gold))


def learning() -> None:
    path = DATA / "wsj_nltk.mrg.xz"
    if not path.exists():
        figure(f"the WSJ sample is not at {path}: set PYRO_UNSUP_DATA")
        return
    corpus = pu.data.read_brackets(path).drop_tags(*PUNCTUATION).tags_as_words().filter(max_length=10).compact()
    lengths = torch.from_numpy(corpus.lengths)
    owner, begin, end = spans_of(lengths)
    figure("WSJ sample", sentences=len(corpus), tokens=corpus.tokens, tags=len(corpus.vocab))
    for name, edge in (("right-branching", end == lengths[owner]), ("left-branching", begin == 0)):
        recall, precision, f = bracket_f(corpus, edge | (end - begin == 1))
        figure(name, recall=round(recall, 1), precision=round(precision, 1), f=round(f, 1))
    estimate = pu.DirichletMAP()
    for variant in (1, 2):
        for smoothing in ((0.1, 0.1), (0.5, 2.0), (2.0, 8.0)):
            for kind in ("split", "uniform"):
                ccm = CCM.of(corpus, variant=variant, prior=(1 + smoothing[0], 1 + smoothing[1]))
                make = ccm.split_start if kind == "split" else ccm.uniform_start
                began = time.perf_counter()
                em = pu.EM(ccm, estimate, make(corpus, estimate=estimate))
                fit = em.run(corpus, iterations=1000, tolerance=1e-9, progress=False)
                recall, precision, f = bracket_f(corpus, fit.predict(corpus))
                figure(
                    f"CCM {variant}, EM ({kind}), smoothing {smoothing[0]:g}/{smoothing[1]:g}",
                    e_steps=fit.report.iterations + 1,
                    bits_a_tag=round(-fit.log_likelihood(corpus) / corpus.tokens / np.log(2), 4),
                    recall=round(recall, 1),
                    precision=round(precision, 1),
                    f=round(f, 1),
                    seconds=round(time.perf_counter() - began, 2),
                )


if __name__ == "__main__":
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    ratios()
    if "--quick" not in sys.argv:
        growth(sys.argv[sys.argv.index("--plot") + 1] if "--plot" in sys.argv else None)
        learning()
