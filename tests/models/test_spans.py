"""Indexed sentences: some of them are what indexing those alone gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.models import CCM

from .test_ccm import CORPUS, EMPTY, SENTENCES, VARIANTS


@VARIANTS
@EMPTY
def test_some_sentences_of_an_index(variant: int, empty: bool) -> None:
    corpus = CORPUS.select([3, 1, 0])
    model = CCM.of(CORPUS, variant=variant, empty_spans=empty)
    spans = model.index(CORPUS)
    assert len(spans) == len(CORPUS)
    for which in ([3, 1, 0], torch.tensor([3, 1, 0]), np.array([3, 1, 0])):
        chosen, wanted = spans.select(which), model.index(corpus)
        assert len(chosen) == 3
        for name in ("cells", "lengths", "before", "after"):
            ours, theirs = getattr(chosen, name), getattr(wanted, name)
            assert ours is theirs is None or torch.equal(ours, theirs)
    mask = np.array([True, False, True, False, False, True])
    assert torch.equal(spans.select(mask).cells, spans.select([0, 2, 5]).cells)
    assert len(spans.select([])) == 0
    assert torch.equal(chosen.select([2]).cells, spans.select([0]).cells)
    em = pu.EM(model).session()
    assert em.evaluate_loss(chosen) == pytest.approx(em.evaluate_loss(corpus), rel=1e-12)


def test_every_empty_span_of_the_training_text_is_known() -> None:
    model = CCM.of(CORPUS, empty_spans=True)
    spans, contexts = model.index(CORPUS), model.inventory.contexts.tolist()
    before = [[a, b] for sentence in SENTENCES for a, b in zip([4, *sentence], sentence, strict=False)]
    assert [contexts[k] for k in spans.before.tolist()] == before
    assert [contexts[k] for k in spans.after.tolist()] == [[sentence[-1], 4] for sentence in SENTENCES]
    assert len(spans.gaps) == CORPUS.tokens + len(CORPUS)
    assert len(CCM.of(CORPUS).index(CORPUS).gaps) == 0
