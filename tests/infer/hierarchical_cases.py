"""Models and data for weights of their own of every example, and a way to run them."""

from __future__ import annotations

from typing import Any

import pyro
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import HierarchicalEM
from pyro_unsup import components as c
from pyro_unsup.models import CCM, DMV, DMVCCM, Aligner, Clusterer, Segmenter, Tagger

SENTENCES = [[0, 1, 2, 0], [2, 1], [0, 1, 1, 3], [3, 3, 0, 1], [1]]
BITEXT = ([[0, 1], [0, 2], [1], [2, 1, 0]], [[3, 4], [3, 5], [4, 3], [5, 4]])
MASK = torch.tensor([[True, True, False, True], [False, True, True, True]])


def clusters(words: Tensor) -> None:
    """Nobody's library model, a ragged table in it: one word an example."""
    share, kinds = pu.table("share", 2), pu.table("kinds", row_lengths=[3, 5])
    with pyro.plate("words", len(words)):
        kind = pyro.sample("kind", pu.Categorical(share))
        table = torch.stack([torch.cat([kinds[:3], kinds.new_full((2,), -torch.inf)]), kinds[3:]])
        pyro.sample("word", pu.Categorical(table[kind]), obs=words)


#: Those that take the weights of many examples at once, and others.
TOGETHER: dict[str, tuple[Any, Any]] = {
    "trees": (DMV(4), SENTENCES),
    "bigram": (Tagger(2, 4), SENTENCES),
    "trigram with a dictionary": (Tagger(2, 4, 2, MASK, stop=True), SENTENCES),
    "brackets": (CCM.of(SENTENCES, vocab=4, empty_spans=True), SENTENCES),
    "brackets given widths": (CCM.of(SENTENCES, vocab=4, variant=2), SENTENCES),
    "both": (DMVCCM.of(SENTENCES, vocab=4), SENTENCES),
    "segments": (Segmenter.of(SENTENCES, vocab=4, max_length=3), SENTENCES),
    "documents": (Clusterer(2, 4), SENTENCES),
}
APART: dict[str, tuple[Any, Any]] = {
    "links": (Aligner.of(BITEXT, source=3, target=6, agreement=None), BITEXT),
    "enumerated": (clusters, torch.tensor([0, 1, 2, 4, 4, 0])),
    "constrained": (pu.constrain(DMV(4), c.short_dependencies(limit=1)), SENTENCES),
}
CASES = {**TOGETHER, **APART}
#: Families of outcomes, by labels of all kinds of tables.
LABELS = {0: "even", 2: "even", "left": "side", "right": "side", (0,): "from 0", (0, 1): "from 0"}
covariances = pytest.mark.parametrize("covariance", ["diagonal", "full"])


def run(model: Any, data: Any, iterations: int = 6, **options: Any) -> pu.Fit:
    of_run = {
        key: options.pop(key) for key in ("seed", "resume", "restarts", "processes", "checkpoint") & options.keys()
    }
    return HierarchicalEM(model, **options).run(data, iterations=iterations, tolerance=0, progress=False, **of_run)


def objectives(fit: pu.Fit) -> list[float]:
    return [row["objective"] for row in fit.rows]
