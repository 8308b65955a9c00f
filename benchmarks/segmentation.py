"""Word segmentation: one E step against posteriors alone, indexing, and as sentences grow.

    python -m benchmarks.segmentation                   # all of it
    python -m benchmarks.segmentation --quick           # without growth

10,000 random utterances without spaces, of 3.4 words on average; the model has all their substrings of at most eight
symbols. A whole E step of it, with penalties for length, through Pyro, is compared with expected counts for random
weights alone, which is the part that other libraries have: ``python -m benchmarks.peers --only segmentation``.

What is learned: ``pyro-unsup reproduce liang-klein-2009 --only segmentation``.
"""

from __future__ import annotations

import os

import torch

import pyro_unsup as pu
from pyro_unsup.distributions import Segmentation
from pyro_unsup.models import Segmenter

from .common import arguments, figure, report, side_by_side
from .peers.segmentation import LONGEST, our_counts
from .peers.texts import PHONEMES, offsets, utterances


def ratios() -> None:
    made = utterances(10_000)
    text = pu.data.Segmented(
        pu.data.Corpus(made["symbols"], offsets(made["lengths"]), pu.data.Vocab(list(PHONEMES))), made["ends"]
    )
    model = Segmenter.of(text, max_length=LONGEST)
    em = pu.EM(model, init=pu.init.uniform())
    state = em.init(text)
    for _ in range(5):  # weights that are no longer all the same
        state, _ = em.step(state)
    runs = {
        "indexing": lambda: Segmenter.of(text, max_length=LONGEST),
        "counts": our_counts(made).run,
        "E step": lambda: em.e_step(state),
    }
    seconds = side_by_side(runs, repeats=31)
    about = {"threads": torch.get_num_threads(), "sentences": len(text), "symbols": text.tokens}
    figure("indexing all substrings", seconds=round(seconds["indexing"], 4), types=len(model.types), **about)
    times = round(seconds["E step"] / seconds["counts"], 2)
    alone = "expected counts alone"
    report("segmenter E step", seconds["E step"], alone, seconds["counts"], **about, times_the_counts=times)


def growth() -> None:
    """Seconds for counts of sentences of one length, all the same number of symbols in all."""
    symbols, seconds, sizes = 200_000, [], [10, 100, 1_000, 10_000]
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(5_000, generator=generator, dtype=torch.float64).log_softmax(-1)
    penalty, stop = -(torch.arange(LONGEST + 1).double() ** 1.6), torch.tensor([0.7, 0.3]).double().log()
    for n in sizes:
        cells = torch.randint(len(weights), (symbols, LONGEST), generator=generator, dtype=torch.int32)
        cells[torch.arange(LONGEST) > (torch.arange(symbols) % n)[:, None]] = -1
        dist = Segmentation(weights, penalty, stop, torch.full((symbols // n,), n))
        seconds.append(side_by_side({"ours": lambda d=dist, c=cells: d.posterior(c).counts}, repeats=7)["ours"])
    figure("growth in length", symbols=symbols, lengths=sizes, seconds=[round(s, 4) for s in seconds])


if __name__ == "__main__":
    asked = arguments(__doc__, quick=False)
    figure("machine", cores=os.cpu_count(), threads=torch.get_num_threads(), torch=torch.__version__)
    ratios()
    if not asked.quick:
        growth()
