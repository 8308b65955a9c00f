"""One small fit of each kind."""

from __future__ import annotations

import pytest

import pyro_unsup as pu


@pytest.fixture(scope="package")
def corpus() -> pu.data.Corpus:
    """A tagged text with heads and brackets."""
    return pu.data.toy.sentences(40, seed=3)


@pytest.fixture(scope="package")
def tagger(corpus: pu.data.Corpus) -> pu.Fit:
    return pu.EM(pu.models.Tagger(tags=4, vocab=corpus.vocab)).run(corpus, iterations=3, progress=False)


@pytest.fixture(scope="package")
def dmv(corpus: pu.data.Corpus) -> pu.Fit:
    tags = corpus.tags_as_words()
    return pu.EM(pu.models.DMV(tags.vocab)).run(tags, iterations=3, progress=False)


@pytest.fixture(scope="package")
def ccm(corpus: pu.data.Corpus) -> pu.Fit:
    tags = corpus.tags_as_words()
    return pu.EM(pu.models.CCM.of(tags)).run(tags, iterations=3, progress=False)
