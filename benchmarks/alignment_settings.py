"""Alignment of Hansards: what a model sees of words, and how counts become tables; chosen on 37 trial sentences.

    python -m benchmarks.alignment_settings                       # 30,000 pairs, five minutes
    python -m benchmarks.alignment_settings --pairs 30000,all     # half an hour more

The first pairs of Hansards and the 447 + 37 sentences of the NAACL 2003 task without their links (in ``--data`` or
``PYRO_UNSUP_DATA``). Five iterations of Model 1, then five by jumps, both by agreement, the probability of no link
learned. Links are those of competitive thresholding of the mean posterior at 0.5. Each row of the table is a setting:
alignment error rates in per cent on the trial sentences, which choose, and on the test sentences, which do not.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import pyro_unsup as pu
from pyro_unsup.data import Bitext, Corpus, Vocab
from pyro_unsup.data.forms import Forms
from pyro_unsup.models import Aligner, HMMAligner
from pyro_unsup.reproduce.berg_kirkpatrick_2010_alignment import scores, trained
from pyro_unsup.reproduce.liang_klein_2009_alignment import NEEDS, hansards
from pyro_unsup.tasks.decoding.aligner import decode

from .common import arguments, corpora, figure, markdown

ESTIMATORS: dict[str, Any] = {
    "relative frequencies": None,
    "VB, 0.01": pu.DirichletVB(0.01),
    "VB, 0.1": pu.DirichletVB(0.1),
    "smoothed l0, 1": pu.SparseL0(1.0),
    "smoothed l0, 10": pu.SparseL0(10.0),
}
PREFIXES = (None, 4, 5, 6, 7)
#: With all pairs, which take ten times as long.
FEW_ESTIMATORS, FEW_PREFIXES = ("relative frequencies", "VB, 0.1", "smoothed l0, 1"), (None, 5, 6, 7)
TABLES = ("translation_forward", "translation_backward")


def seen(text: Corpus, forms: Forms) -> Corpus:
    """A text as a model sees it."""
    words = forms.each(text.vocab)
    vocab = Vocab(dict.fromkeys(words))
    return Corpus(np.array([vocab.index[word] for word in words], np.int32)[text.words], text.offsets, vocab)


def error(fit: Any, gold: Bitext) -> float:
    found = scores(fit, gold, decode(fit, gold, "competitive", 0.5))
    return round(100 * found["aer"], 2)


def learning(size: int | None, data: str) -> None:
    found = corpora(data, *NEEDS)
    whole, test = hansards(found, size)
    trial, rows = found["hansards-trial"], []
    for prefix in FEW_PREFIXES if size is None else PREFIXES:
        forms = Forms(prefix=prefix)
        text = Bitext(seen(whole.source, forms), seen(whole.target, forms))
        words = Aligner.of(text)
        pairs = words.index(text)
        first = trained(words, pu.init.uniform(), pairs)
        model = HMMAligner.like(words, null="learn")
        for name in FEW_ESTIMATORS if size is None else ESTIMATORS:
            began, how = time.perf_counter(), ESTIMATORS[name]
            fit = trained(model, model.start_from(first), pairs, None if how is None else dict.fromkeys(TABLES, how))
            fit.config = {"prefix": prefix}
            row = {"trial": error(fit, trial), "test": error(fit, test)}
            letters = "all" if prefix is None else prefix
            figure(f"{len(text)} pairs, letters {letters}, {name}", **row, seconds=round(time.perf_counter() - began))
            rows.append([len(text), letters, name, row["trial"], row["test"]])
    markdown(["pairs", "letters", "tables", "trial", "test"], rows)
    best = min(rows, key=lambda row: row[3])
    print(
        f"\nThe trial sentences choose letters {best[1]}, {best[2]}: {best[3]:.2f} there, {best[4]:.2f} on the test.\n"
    )


def main() -> None:
    asked = arguments(__doc__, pairs="30000", data="")
    for size in asked.pairs.split(","):
        learning(None if size == "all" else int(size), asked.data)


if __name__ == "__main__":
    main()
