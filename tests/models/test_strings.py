"""Models that know their vocabulary take words as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Bitext, Corpus, Documents
from tests.matrix.models import MODELS

LINES = ["the dog barks", "a cat sleeps", "the cat barks"]
WORDS = [line.split() for line in LINES]
TREES = ["D N V", "N V", "D N V D N"]


def tagger() -> tuple[Any, Any]:
    corpus = Corpus.of(WORDS)
    return pu.models.Tagger(2, corpus.vocab), corpus


def dmv() -> tuple[Any, Any]:
    corpus = Corpus.of(TREES)
    return pu.models.DMV.of(corpus), corpus


def ccm() -> tuple[Any, Any]:
    corpus = Corpus.of(TREES)
    return pu.models.CCM.of(corpus), corpus


def pcfg() -> tuple[Any, Any]:
    corpus = Corpus.of(TREES)
    return pu.models.PCFG.of(corpus, 2, 3), corpus


def simple_pcfg() -> tuple[Any, Any]:
    corpus = Corpus.of(TREES)
    return pu.models.SimplePCFG.of(corpus, 2, 3), corpus


def clusterer() -> tuple[Any, Any]:
    documents = Documents.of(WORDS)
    return pu.models.Clusterer(2, documents.vocab), documents


def segmenter() -> tuple[Any, Any]:
    corpus = Corpus.of([list("thedog"), list("acat")])
    return pu.models.Segmenter.of(corpus), corpus


def aligner() -> tuple[Any, Any]:
    bitext = Bitext.of([("the house", "das haus"), ("a book", "ein buch")])
    return pu.models.Aligner.of(bitext), bitext


CASES: list[tuple[Callable[[], tuple[Any, Any]], Callable[[], Any]]] = [
    (tagger, lambda: LINES),
    (tagger, lambda: WORDS),
    (tagger, lambda: (line.split() for line in LINES)),
    (tagger, lambda: np.array([np.array(words) for words in WORDS], dtype=object)),
    (dmv, lambda: TREES),
    (dmv, lambda: [line.split() for line in TREES]),
    (ccm, lambda: TREES),
    (pcfg, lambda: TREES),
    (simple_pcfg, lambda: TREES),
    (clusterer, lambda: LINES),
    (clusterer, lambda: WORDS),
    (segmenter, lambda: ["thedog", "acat"]),
    (segmenter, lambda: [list("thedog"), list("acat")]),
    (aligner, lambda: (["the house", "a book"], ["das haus", "ein buch"])),
]


@pytest.mark.parametrize(("make", "data"), CASES)
def test_words_train_as_their_corpus_does(make: Any, data: Any) -> None:
    model, corpus = make()
    known = pu.EM(model).run(corpus, iterations=4, progress=False)
    found = pu.EM(model).run(data(), iterations=4, progress=False)
    assert found.objective == pytest.approx(known.objective, rel=1e-12)
    for name, w in known.weights.items():
        torch.testing.assert_close(found.weights[name], w)


def test_mini_batches_of_words() -> None:
    model, corpus = tagger()
    known = pu.StepwiseEM(model, batch_size=2).run(corpus, iterations=2, progress=False)
    found = pu.StepwiseEM(model, batch_size=2).run(iter(WORDS), iterations=2, progress=False)
    assert found.objective == pytest.approx(known.objective, rel=1e-12)


def test_words_that_nobody_knows_are_an_error() -> None:
    model, _ = tagger()
    with pytest.raises(pu.UnsupError, match="'elephant' is not among the 6 known types"):
        pu.EM(model).run(["the elephant"], iterations=1)
    with pytest.raises(pu.UnsupError, match="strings need a vocabulary"):
        pu.EM(pu.models.Tagger(2, 6)).run(WORDS, iterations=1)
    with pytest.raises(pu.UnsupError, match="expected sentences, actual int"):
        pu.EM(model).run(3, iterations=1)


def test_arrays_are_as_good_as_tensors() -> None:
    def mixture(x: Any) -> None:
        share = pu.table("share", 2)
        centre = pyro.param("centre", lambda: torch.tensor([-1.0, 1.0], dtype=torch.float64))
        with pyro.plate("data", len(x)):
            k = pyro.sample("k", pu.Categorical(share))
            pyro.sample("x", dist.Normal(centre[k], 1.0), obs=x)

    x = np.array([-3.0, -2.5, 2.0, 2.5])
    known = pu.EM(mixture).run(torch.from_numpy(x), iterations=3, progress=False)
    assert pu.EM(mixture).run(x, iterations=3, progress=False).objective == known.objective
    tables = [np.log([0.5, 0.5]), np.log([[0.9, 0.1], [0.2, 0.8]]), np.log([[0.7, 0.3], [0.4, 0.6]])]
    arrays = pu.Chain(*tables, np.array([3]))
    tensors = pu.Chain(*(torch.from_numpy(t) for t in tables), torch.tensor([3]))
    value = np.array([[0, 1, 0]])
    assert torch.equal(arrays.log_prob(value), tensors.log_prob(torch.from_numpy(value)))
    assert torch.equal(arrays.posterior(value).marginals, tensors.posterior(torch.from_numpy(value)).marginals)


def test_all_models_are_here() -> None:
    """A new model has to say what it does with words. (An HMM has numbers.)"""
    assert {type(make()[0]).__name__ for make, _ in CASES} | {"DMVCCM", "HMMAligner", "HMM"} == {
        type(m.make()).__name__ for m in MODELS.values() if not m.hidden
    }
