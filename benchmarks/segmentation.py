"""Word segmentation against sentencepiece and torch-struct, and as it grows.

    python -m benchmarks.segmentation                   # all of it
    python -m benchmarks.segmentation --quick           # the ratios only

The text is ``br-phono.txt`` (in ``PYRO_UNSUP_DATA``, or ``../shared/data``), 9,790 utterances, 95,809 phonemes without
spaces. First 20 EM iterations of the penalised unigram model, all 174,560 substrings of at most ten phonemes found and
numbered too, against one whole training of sentencepiece's unigram model (``pip install sentencepiece``), which prunes
its vocabulary down to 400 or 1,300 pieces on the way. Then one E step against torch-struct's semi-Markov model (``pip
install --no-deps torch-struct``), utterances batched by length so that nothing is padded, in float32: on the same
weights both must find the same sum. Peers that are not installed are left out.

What is learned: ``pyro-unsup reproduce liang-klein-2009 --only segmentation``.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import pyro_unsup as pu
from pyro_unsup.distributions import Segmentation
from pyro_unsup.models import Segmenter
from pyro_unsup.reproduce import Corpora

from .common import DATA, arguments, figure, report, side_by_side

LONGEST, ITERATIONS = 10, 20
#: Symbols of a batch of torch-struct's; larger ones are no faster.
BATCH = 10_000


def train(text: pu.data.Segmented) -> pu.Fit:
    """Indexing and EM, everything from the flat symbols on."""
    em = pu.EM(Segmenter.of(text, max_length=LONGEST), init=pu.uniform())
    return em.run(text, iterations=ITERATIONS, tolerance=0.0, progress=False)


def sentencepiece_training(lines: list[str], pieces: int) -> Callable[[], Any] | None:
    try:
        import sentencepiece
    except ImportError:
        return None

    def run() -> bytes:
        out = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=out,
            model_type="unigram",
            vocab_size=pieces,
            hard_vocab_limit=False,
            character_coverage=1.0,
            max_sentencepiece_length=LONGEST,
            add_dummy_prefix=False,
            num_threads=torch.get_num_threads(),
            minloglevel=2,
        )
        return out.getvalue()

    return run


def semi_markov(text: pu.data.Segmented, cells: torch.Tensor, log_weights: torch.Tensor) -> Callable[[], float] | None:
    """Expected counts of all segments by torch-struct; gives the sum of log Z."""
    try:
        from torch_struct import SemiMarkovCRF
    except ImportError:
        return None
    warnings.filterwarnings("ignore", message=".*does not define `arg_constraints`")
    batches = []
    for n in np.unique(text.lengths):
        if n < 2:  # torch-struct has no sequences of one
            continue
        rows = np.flatnonzero(text.lengths == n)
        for some in np.array_split(rows, -(-len(rows) * int(n) // BATCH)):
            ends = torch.from_numpy(text.offsets[some])[:, None] + torch.arange(int(n))
            by_end = cells[ends].long()  # (B, n, L); torch-struct wants them by where they begin, from length 0
            by_start = torch.full((len(some), int(n), LONGEST + 1), len(log_weights))
            for width in range(1, min(LONGEST, int(n)) + 1):
                by_start[:, : int(n) - width + 1, width] = by_end[:, width - 1 :, width - 1]
            batches.append(by_start)
    single = torch.cat([log_weights.float(), torch.tensor([-1e5])])

    def run() -> float:
        counts, total = torch.zeros(len(single)), 0.0
        for numbers in batches:
            crf = SemiMarkovCRF(single[numbers][..., None, None].clone())
            counts.index_add_(0, numbers.reshape(-1), crf.marginals.detach().reshape(-1))
            total += float(crf.partition.detach().sum())
        return total

    return run


def ratios(text: pu.data.Segmented) -> None:
    lines = [line.replace(" ", "") for line in text.lines()]
    about = {"threads": torch.get_num_threads(), "sentences": len(text), "symbols": text.tokens}
    for pieces in (400, 1300):
        peer = sentencepiece_training(lines, pieces)
        if peer is None:
            figure("sentencepiece is not installed: its rows are left out (pip install sentencepiece)")
            break
        seconds = side_by_side({"ours": lambda: train(text), "theirs": peer}, repeats=7)
        name = f"{ITERATIONS} EM iterations with indexing, against a training down to {pieces} pieces"
        report(name, seconds["ours"], "sentencepiece", seconds["theirs"], **about)

    model = Segmenter.of(text, max_length=LONGEST)
    em = pu.EM(model, init=pu.uniform())
    em.run(text, iterations=5, tolerance=0.0, progress=False)  # weights that are no longer all the same
    segments, lengths = model.index(text), torch.from_numpy(text.lengths)
    plain = Segmentation(em.weights["segments"], torch.zeros(LONGEST + 1).double(), torch.zeros(2).double(), lengths)
    runs: dict[str, Callable[[], Any]] = {
        "indexing": lambda: Segmenter.of(text, max_length=LONGEST),
        "same": lambda: plain.posterior(segments.cells).counts,
        "model": em.look,
    }
    crf = semi_markov(text, segments.cells, em.weights["segments"])
    if crf is None:
        figure("torch-struct is not installed: its rows are left out (pip install --no-deps torch-struct)")
    else:
        found = float(plain.log_prob(segments.cells)[lengths > 1].sum()), crf()
        assert abs(found[0] - found[1]) < 1e-4 * abs(found[0]), found
        theirs = side_by_side({"theirs": crf}, repeats=3)["theirs"]
    ours = side_by_side(runs, repeats=31)
    figure("indexing all substrings", seconds=round(ours["indexing"], 4), types=len(model.types), **about)
    if crf is not None:
        report("expected counts, the same weights", ours["same"], "torch-struct", theirs, **about)
        report("E step of the model", ours["model"], "torch-struct", theirs, **about)


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
    ratios(Corpora(DATA)["speech"])
    if not asked.quick:
        growth()
