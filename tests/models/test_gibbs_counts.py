"""What labels count in the tables of a model: against the gradient of their log-probability."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pyro import poutine

import pyro_unsup as pu
from pyro_unsup.distributions import Structure
from tests.matrix.models import DOCUMENTS, LETTERS, WORDS

MASK = torch.ones(3, len(WORDS.vocab), dtype=torch.bool)
MASK[2, 0] = MASK[0, 3] = False
CASES = {
    "bigrams": (lambda: pu.models.Tagger(3, WORDS.vocab), WORDS),
    "bigrams that stop": (lambda: pu.models.Tagger(3, WORDS.vocab, stop=True), WORDS),
    "trigrams": (lambda: pu.models.Tagger(3, WORDS.vocab, order=2), WORDS),
    "trigrams that stop": (lambda: pu.models.Tagger(3, WORDS.vocab, order=2, stop=True), WORDS),
    "a dictionary": (lambda: pu.models.Tagger(3, WORDS.vocab, dictionary=MASK), WORDS),
    "words that do not occur": (lambda: pu.models.Tagger(3, len(WORDS.vocab) + 4), [[1, 0, 9], [3]]),
    "clusters": (lambda: pu.models.Clusterer(3, DOCUMENTS.vocab), DOCUMENTS),
    "segments": (lambda: pu.models.Segmenter.of(LETTERS, max_length=4), LETTERS),
}


@pytest.mark.parametrize("name", CASES)
def test_counts_are_the_gradient_of_the_log_probability(name: str) -> None:
    make, data = CASES[name]
    model: Any = make()
    state = model.gibbs_state()(model, data)
    state.draw_start(np.random.default_rng(0))
    state.labels = state.labels
    leaves = {
        table: d.layout.mask(torch.zeros(d.layout.shape, dtype=torch.float64)).requires_grad_()
        for table, d in model.declarations().items()
    }
    trace = poutine.trace(pu.given(model, leaves)).get_trace(data)
    site = next(s for s in trace.nodes.values() if s["type"] == "sample" and isinstance(s["fn"], Structure))
    score = site["fn"].score(site["value"], torch.from_numpy(state.labels.astype(np.int64))).sum()
    expected = torch.autograd.grad(score, list(leaves.values()), allow_unused=True)
    found = state.table_counts()
    assert set(found) == set(leaves)
    for (table, leaf), counts in zip(leaves.items(), expected, strict=True):
        gradient = torch.zeros_like(leaf) if counts is None else counts
        np.testing.assert_allclose(found[table], gradient.detach(), atol=1e-9)
    assert sum(int(x.sum()) for x in found.values()) > 0
