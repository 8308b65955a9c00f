"""One E step of the constituent-context model: against posteriors alone, tempered against plain, and as it grows.

    python -m benchmarks.ccm                   # all of it
    python -m benchmarks.ccm --quick           # the ratios only
    python -m benchmarks.ccm --only growth     # or ratios
    python -m benchmarks.ccm --plot growth.png # also draw how time grows

7,000 random tag sequences of length 1 to 10. A whole E step of the model, with its tables of nearly 100,000 yields,
through Pyro, in float64, is compared with posteriors of all spans from one weight for each pair of first and last tag,
which is the part that other libraries have: ``python -m benchmarks.peers --only binary``.

What it learns: ``pyro-unsup reproduce smith-eisner-2004``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.distributions import Bracketing
from pyro_unsup.models import CCM

from .common import arguments, figure, report, side_by_side
from .peers.texts import TAGS, Arrays, offsets, tag_sequences
from .peers.trees import our_brackets


def problem() -> tuple[pu.data.Corpus, Arrays]:
    """The tag sequences, also as arrays, with log-weights of what trees are made of."""
    made = tag_sequences(7_000, 0, single=True)
    return pu.data.Corpus(made["tags"], offsets(made["lengths"]), pu.data.Vocab(str(k) for k in range(TAGS))), made


def e_step(corpus: pu.data.Corpus, model: Callable[..., Any], start: Any) -> Callable[[], Any]:
    em = pu.EM(model, init=start)
    state = em.init(corpus)
    em.e_step(state)
    return lambda: em.e_step(state)


def ratios() -> None:
    corpus, made = problem()
    ccm = CCM.of(corpus)
    start = ccm.split_start(corpus)
    plain, tempered = e_step(corpus, ccm, start), e_step(corpus, pu.temper(ccm, 0.5), start)
    seconds = side_by_side({"plain": plain, "posteriors": our_brackets(made).run}, repeats=31)
    about = {"threads": torch.get_num_threads(), "sentences": len(corpus), "tokens": corpus.tokens}
    report(
        "CCM E step",
        seconds["plain"],
        "span posteriors alone",
        seconds["posteriors"],
        **about,
        yields=len(ccm.inventory.yields),
        times_the_posteriors=round(seconds["plain"] / seconds["posteriors"], 2),
    )
    pair = side_by_side({"plain": plain, "tempered": tempered}, repeats=101)
    report("CCM tempered E step", pair["tempered"], "plain E step", pair["plain"], **about)


def text(sentences: int, words: int, seed: int = 0) -> pu.data.Corpus:
    """Random sentences of one length."""
    rng = np.random.default_rng(seed)
    tokens = np.minimum((30 ** rng.random(sentences * words)).astype(np.int64), 29)
    return pu.data.Corpus(tokens, np.arange(sentences + 1) * words, pu.data.Vocab(str(k) for k in range(30)))


def time_one(sentences: int, words: int) -> float:
    corpus = text(sentences, words)
    model = CCM.of(corpus)
    ours = e_step(corpus, model, model.split_start(corpus))
    return side_by_side({"ours": ours}, repeats=7)["ours"]


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
        ax.set(xlabel=label, ylabel="seconds a sentence" if power == 3 else "seconds")
        ax.set_xticks(x, [f"{n:,}" for n in x])
        ax.set_xticks([], minor=True)
        ax.legend()
    figure_.tight_layout()
    figure_.savefig(plot)


def _slope(x: list[int], y: list[float]) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def _rounded(values: list[float]) -> list[float]:
    return [float(f"{value:.3g}") for value in values]


def main() -> None:
    asked = arguments(__doc__, ("ratios", "growth"), quick=False, only="", plot="")
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    only = "ratios" if asked.quick else asked.only
    if only in ("", "ratios"):
        ratios()
    if only in ("", "growth"):
        growth(asked.plot or None)


if __name__ == "__main__":
    main()
