"""Unigram segmentation: expected counts for the same weights, an EM iteration, and a whole training.

Counts and the sum of log-partition functions must be the same as torch-struct's. sentencepiece learns another model
(it prunes a vocabulary of its own), so beside it stands the F1 of word boundaries against the true ones (``f1``).
"""

from __future__ import annotations

import io
import os
import tempfile
import time
import warnings
from itertools import pairwise
from typing import Any

import numpy as np

from .problem import BATCH, Contender, Curve, Job, Problem, batches, squares, threads
from .texts import PHONEMES, Arrays, offsets, utterances

LONGEST, ITERATIONS, PIECES = 8, 20, 1_300


def _text(data: Arrays) -> Any:
    import pyro_unsup as pu

    corpus = pu.data.Corpus(data["symbols"], offsets(data["lengths"]), pu.data.Vocab(list(PHONEMES)))
    return pu.data.Segmented(corpus, data["ends"])


def _lines(data: Arrays) -> list[str]:
    symbols, ends = "".join(PHONEMES[k] for k in data["symbols"].tolist()), offsets(data["lengths"]).tolist()
    return [symbols[a:b] for a, b in pairwise(ends)]


def _f1(data: Arrays, ends: np.ndarray) -> float:
    """Of boundaries inside utterances."""
    inside = np.ones(len(ends), np.bool_)
    inside[np.cumsum(data["lengths"]) - 1] = False
    gold, found = data["ends"] & inside, ends & inside
    return float(2 * (gold & found).sum() / max(gold.sum() + found.sum(), 1))


def _weighed(data: Arrays) -> tuple[Any, Any]:
    """Numbers of all substrings by where they end (symbols, L), and log-weights for them."""
    import torch

    import pyro_unsup as pu

    text = _text(data)
    model = pu.models.Segmenter.of(text, max_length=LONGEST)
    weights = torch.from_numpy(np.random.default_rng(0).normal(-5, 1, len(model.types)))
    return model.index(text).cells, weights


def our_counts(data: Arrays) -> Job:
    import torch

    from pyro_unsup.distributions import Segmentation

    cells, weights = _weighed(data)
    lengths = torch.from_numpy(data["lengths"])
    free, never = torch.zeros(LONGEST + 1, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    segmentation = Segmentation(weights, free, never, lengths)

    def run() -> tuple[float, Any]:
        posterior = segmentation.posterior(cells)
        return float(posterior.log_partition.sum()), posterior.counts["segments"]

    return Job(run, lambda found: {"log_partition": found[0], "counts": squares(found[1])})


def torch_struct(data: Arrays) -> Job:
    import torch
    from torch_struct import SemiMarkovCRF

    warnings.filterwarnings("ignore")
    cells, weights = _weighed(data)
    texts = []
    for places in batches(np.arange(len(cells)), data["lengths"], BATCH):
        by_end, n = cells[torch.from_numpy(places)].long(), places.shape[1]
        by_start = torch.full((*places.shape, LONGEST + 1), len(weights))  # from length 0, which none has
        for width in range(1, min(LONGEST, n) + 1):
            by_start[:, : n - width + 1, width] = by_end[:, width - 1 :, width - 1]
        texts.append(by_start)
    single = torch.cat([weights.float(), torch.tensor([-1e5])])

    def run() -> tuple[float, torch.Tensor]:
        counts, total = torch.zeros(len(single)), 0.0
        for numbers in texts:
            crf = SemiMarkovCRF(single[numbers][..., None, None])
            counts.index_add_(0, numbers.reshape(-1), crf.marginals.detach().reshape(-1))
            total += float(crf.partition.detach().sum())
        return total, counts[:-1]

    return Job(run, lambda found: {"log_partition": found[0], "counts": squares(found[1].double())})


def our_iteration(data: Arrays) -> Job:
    import pyro_unsup as pu

    text = _text(data)
    model = pu.models.Segmenter.of(text, max_length=LONGEST)
    em = pu.EM(model, init=pu.init.uniform()).session()
    segments = model.index(text)
    em.start(segments)
    return Job(lambda: em.step(segments), lambda loss: {"types": len(model.types)})


def our_training(data: Arrays) -> Job:
    import pyro_unsup as pu

    text = _text(data)

    def run() -> Any:
        em = pu.EM(pu.models.Segmenter.of(text, max_length=LONGEST), init=pu.init.uniform())
        return em.run(text, iterations=ITERATIONS, tolerance=0.0, progress=False)

    return Job(run, lambda fit: {"f1": fit.evaluate(text)["boundary_f1"]})


def _sentencepiece(lines: list[str], iterations: int = 2) -> bytes:
    import sentencepiece

    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=out,
        model_type="unigram",
        vocab_size=PIECES,
        hard_vocab_limit=False,
        character_coverage=1.0,
        max_sentencepiece_length=LONGEST,
        add_dummy_prefix=False,
        num_sub_iterations=iterations,
        num_threads=threads(),
    )
    return out.getvalue()


def sentencepiece_training(data: Arrays) -> Job:
    import sentencepiece

    lines = _lines(data)

    def answer(model: bytes) -> dict[str, float]:
        pieces = sentencepiece.SentencePieceProcessor(model_proto=model).encode(lines, out_type=str)
        ends = np.zeros(len(data["symbols"]), np.bool_)
        ends[np.cumsum([len(piece) for line in pieces for piece in line]) - 1] = True
        return {"f1": _f1(data, ends)}

    return Job(lambda: _sentencepiece(lines), answer)


def sentencepiece_iteration(data: Arrays) -> Job:
    lines = _lines(data)

    def trained(iterations: int) -> tuple[float, int]:
        """Seconds, and iterations in all: it tells each on the standard error."""
        with tempfile.TemporaryFile("w+", errors="replace") as log:
            kept = os.dup(2)
            os.dup2(log.fileno(), 2)
            began = time.perf_counter()
            try:
                _sentencepiece(lines, iterations)
            finally:
                os.dup2(kept, 2)
                os.close(kept)
            seconds = time.perf_counter() - began
            log.seek(0)
            return seconds, log.read().count("sub_iter=")

    def run() -> dict[str, float]:
        (few_s, few), (many_s, many) = trained(1), trained(9)
        return {"seconds": max(many_s - few_s, 1e-6) / (many - few), "iterations": many}

    return Job(run, lambda found: {"iterations": found["iterations"]})


CURVES = {
    "symbols": Curve(
        "sentences",
        tuple({"sentences": n} for n in (2_500, 10_000, 40_000)),
        ({"sentences": 300}, {"sentences": 600}),
        "utterances",
    )
}
TINY = {"sentences": 200}
OTHER = "another model: its own seed vocabulary, pruned down to 1,300 pieces"

PROBLEMS = (
    Problem(
        "segmentation, counts", "E step", utterances, TINY, CURVES,
        (
            Contender("ours", our_counts),
            Contender("torch-struct", torch_struct, "torch-struct", "float32", agrees=("log_partition", "counts")),
        ),
        1,
    ),
    Problem(
        "segmentation, iteration", "EM iteration", utterances, TINY, CURVES,
        (
            Contender("ours", our_iteration),
            Contender(
                "sentencepiece", sentencepiece_iteration, "sentencepiece", OTHER,
                "on small texts most of ours is a pass through Pyro, a few milliseconds; besides, its vocabulary is "
                "a small part of all substrings",
            ),
        ),
        1,
    ),
    Problem(
        "segmentation, training", "whole training", utterances, TINY, CURVES,
        (
            Contender("ours, 20 iterations", our_training),
            Contender(
                "sentencepiece", sentencepiece_training, "sentencepiece", OTHER,
                "on small texts most of ours is a pass through Pyro, a few milliseconds, in each of 20 iterations; "
                "besides, it prunes its vocabulary as it goes, and ours keeps all substrings",
            ),
        ),
        1,
    ),
)  # fmt: skip
