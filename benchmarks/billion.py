"""A billion tokens: a text into a corpus on disk, and one pass of stepwise EM over it.

    python -m benchmarks.billion                        # half an hour, and 4.5 GB of disk
    python -m benchmarks.billion --tokens 20000000      # a minute

The words are those of :mod:`benchmarks.large`. First a text of some million tokens is read: by ``read_lines`` into
memory, and by ``pack_lines`` into a corpus on disk, side by side. Then a corpus of all tokens is written to disk, and a
bigram tagger of 45 states learns from it in one pass, in mini-batches of 100 sentences, with checkpoints. The peak is
that of resident memory (``ru_maxrss``), of which what is loaded before any data is told apart; pages of the mapped file
are given back as they are read.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import pyro_unsup as pu

from .common import arguments, figure, report, side_by_side
from .large import TAGS, peak, pieces

TEXT, PIECE, BATCH = 4_000_000, 4_000_000, 100


def reading(folder: Path) -> None:
    """A text into a corpus, both ways."""
    text, tokens = folder / "text", 0
    with open(text, "w") as stream:
        for piece in pieces(TEXT):
            tokens += piece.tokens
            names = list(piece.vocab)
            for first, last in zip(piece.offsets, piece.offsets[1:], strict=False):
                stream.write(" ".join([names[k] for k in piece.words[first:last]]) + "\n")
    runs = {
        "pack": lambda: pu.data.pack_lines(text, folder / "packed"),
        "read": lambda: pu.data.read_lines(text),
    }
    seconds = side_by_side(runs, repeats=5)
    million = {f"million_tokens_a_second_{name}": round(tokens / 1e6 / one, 2) for name, one in seconds.items()}
    report("pack_lines", seconds["pack"], "read_lines", seconds["read"], tokens=tokens, **million)
    assert pu.data.Corpus.open(folder / "packed") == pu.data.read_lines(text)


def one_pass(folder: Path, checkpoint: Path) -> dict[str, Any]:
    """One pass, and what it took."""
    tiny = next(pieces(22_000))
    small = pu.StepwiseEM(pu.models.Tagger(2, tiny.vocab), batch_size=BATCH)
    small.run_stream(pu.data.Portions(tiny, tokens=10_000), cut=True, progress=False)  # loads everything
    before = peak()
    corpus = pu.data.Corpus.open(folder)
    began = time.perf_counter()
    engine = pu.StepwiseEM(pu.models.Tagger(TAGS, corpus.vocab), pu.AddLambda(0.1), batch_size=BATCH)
    parts = pu.data.Portions(corpus, tokens=PIECE, seed=0)
    fit = engine.run_stream(parts, cut=True, checkpoint=checkpoint)
    seconds = time.perf_counter() - began
    first, last = fit.rows[0]["objective"], fit.rows[-1]["objective"]
    return {
        "tokens": corpus.tokens,
        "portions": len(parts),
        "updates": fit.config["updates"],
        "seconds": round(seconds, 1),
        "million_tokens_a_second": round(corpus.tokens / seconds / 1e6, 2),
        "log_likelihood_a_mini_batch": [round(first, 1), round(last, 1)],
        "peak_mib": round(peak()),
        "before_any_data_mib": round(before),
    }


def main() -> None:
    said = arguments(__doc__, tokens=1_000_000_000, folder="")
    with tempfile.TemporaryDirectory(prefix="pyro-unsup-billion-") as temporary:
        where = Path(said.folder or temporary)
        reading(Path(temporary))
        if not (where / "corpus").exists():
            began = time.perf_counter()
            pu.data.write_flat(pieces(said.tokens), where / "corpus")
            figure("written", seconds=round(time.perf_counter() - began, 1))
        # In a process of its own, so that what writing took is not counted.
        found = pu.launch(lambda: one_pass(where / "corpus", where / "checkpoint"), 1, threads=torch.get_num_threads())
        figure("one pass", threads=torch.get_num_threads(), **found)


if __name__ == "__main__":
    main()
