"""A small fit of every model, with data that have gold structure, for the tests of reports."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

import pyro_unsup as pu
from pyro_unsup.data import toy

NAMES = ("tagger", "dmv", "ccm", "dmv-ccm", "pcfg", "segmenter", "aligner", "hmm-aligner", "clusterer", "hmm")
LABELS = ("tagger", "clusterer")
TREES = ("dmv", "ccm", "dmv-ccm", "pcfg")


class Case(NamedTuple):
    """A fit and its data."""

    fit: pu.Fit
    data: Any


@cache
def case(name: str) -> Case:
    """The fit of a model, the same for all tests."""
    return _MAKERS[name]()


def run(model: Any, data: Any, *args: Any, iterations: int = 8, **options: Any) -> pu.Fit:
    return pu.EM(model, *args).run(data, iterations=iterations, progress=False, processes=1, **options)


def _tagger() -> Case:
    corpus = toy.sentences(60, seed=1)
    return Case(run(pu.models.Tagger(12, corpus.vocab), corpus, restarts=2), corpus)


def _trees() -> tuple[Any, Any]:
    corpus = toy.sentences(80, seed=1)
    whole = corpus.drop_tags("PUNCT").filter(max_length=8)
    return whole, pu.data.short_tag_sequences(corpus, 8, ["PUNCT"])


def _dmv() -> Case:
    whole, tags = _trees()
    return Case(run(pu.prefer(pu.models.DMV.of(tags), pu.components.universal()), tags), whole)


def _ccm() -> Case:
    whole, tags = _trees()
    model, how = pu.models.CCM.of(tags, prior=(3.0, 9.0)), pu.DirichletMAP()
    return Case(run(model, tags, how, model.split_start(tags, estimate=how)), whole)


def _dmv_ccm() -> Case:
    whole, tags = _trees()
    model = pu.models.DMVCCM.of(tags)
    return Case(run(model, tags, None, model.start(tags), iterations=3), whole)


def _pcfg() -> Case:
    whole, tags = _trees()
    model = pu.models.PCFG.of(tags, 3, 6)
    return Case(run(model, tags, pu.AddLambda(0.1), model.split_start(tags)), whole)


def _segmenter() -> Case:
    lines = toy.utterances(40, seed=1)
    model = pu.models.Segmenter.of(lines, max_length=6, penalty=1.6)
    return Case(run(model, lines, None, pu.init.uniform()), lines)


def _aligner() -> Case:
    pairs = toy.bitext(40, seed=1)
    return Case(run(pu.models.Aligner.of(pairs), pairs, None, pu.init.uniform(), iterations=4), pairs)


def _hmm_aligner() -> Case:
    first, pairs = case("aligner")
    model = pu.models.HMMAligner.like(first.model)
    return Case(run(model, pairs, None, model.start_from(first.weights), iterations=2), pairs)


def _clusterer() -> Case:
    corpus, labels, topics = toy.documents(40, seed=1, topics=3)
    words = [corpus.sentence(i) for i in range(len(corpus))]
    documents = pu.data.Documents.of(words, [topics[k] for k in labels]).drop_frequent(5)
    return Case(run(pu.models.Clusterer(3, documents.vocab), documents, pu.AddLambda(0.1), restarts=2), documents)


def _hmm() -> Case:
    random = np.random.default_rng(1)
    rates = np.repeat([3.0, 15.0, 3.0], [40, 30, 50])
    return Case(
        run(pu.models.HMM(2, "poisson"), random.poisson(rates).astype(float), restarts=2), random.poisson(rates)
    )


_MAKERS = {
    "tagger": _tagger,
    "dmv": _dmv,
    "ccm": _ccm,
    "dmv-ccm": _dmv_ccm,
    "pcfg": _pcfg,
    "segmenter": _segmenter,
    "aligner": _aligner,
    "hmm-aligner": _hmm_aligner,
    "clusterer": _clusterer,
    "hmm": _hmm,
}
