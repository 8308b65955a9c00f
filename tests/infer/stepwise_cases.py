"""Data, estimators and models to test learning from mini-batches with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import AddLambda, DirichletMAP, DirichletVB, Normalise
from pyro_unsup.data import toy
from pyro_unsup.estimate.base import normalise_rows
from pyro_unsup.models import Tagger
from pyro_unsup.tables import Declaration

CORPUS = toy.sentences(60, seed=3)


@dataclass(frozen=True)
class Sharpened:
    """An estimator of one's own, that no engine knows: relative frequencies of counts to a power."""

    power: float = 1.1

    def weights(self, declaration: Declaration, counts: Tensor, old: Tensor) -> Tensor:
        return normalise_rows(declaration, counts**self.power, old)

    def log_prior(self, declaration: Declaration, log_weights: Tensor) -> float:
        return 0.0


ESTIMATORS = {
    "normalise": Normalise(),
    "add": AddLambda(0.3),
    "map": DirichletMAP(1.7),
    "vb": DirichletVB(0.4),
    "own": Sharpened(),
    "by table": {"emission": AddLambda(0.1), "start": Sharpened()},
}


def corpus(n: int = 12, V: int = 4, longest: int = 5, seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(V, size=rng.integers(1, longest + 1)).tolist() for _ in range(n)]


def close(a: dict[str, Tensor], b: dict[str, Tensor], tolerance: float = 1e-10) -> None:
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name].exp(), b[name].exp(), rtol=tolerance, atol=tolerance)


def small(kind: str) -> tuple[Any, Any]:
    """A model of each kind, and something to learn from."""
    sentences = toy.sentences(12, seed=1).filter(max_length=8)
    if kind == "ccm":
        return pu.models.CCM.of(sentences), sentences
    if kind == "clusterer":
        return pu.models.Clusterer(3, sentences.vocab), sentences
    if kind == "segmenter":
        return pu.models.Segmenter.of(sentences, max_length=3), sentences
    if kind == "aligner":
        pairs = ([s[::-1] for s in corpus(12)], corpus(12))
        return pu.models.Aligner.of(pairs, source=4, target=4), pairs
    return Tagger(3, sentences.vocab, order=2, stop=True), sentences


def _sentences(V: int) -> list[list[int]]:
    return [*corpus(16, V, 7, 2), [], [1], [0, 1]]


def _tagger(order: int = 1, stop: bool = False, dictionary: bool = False) -> tuple[Any, Any]:
    if not dictionary:
        return Tagger(4, 5, order, stop=stop), _sentences(5)
    mask = torch.arange(7)[:, None] % 5 != torch.arange(5)  # tags of some words, and a tag of few of them
    mask[6] = torch.arange(5) == 2
    return Tagger(
        7, 5, order, dictionary=mask & (torch.arange(7)[:, None] % 3 != torch.arange(5) % 3), stop=stop
    ), _sentences(5)


def _aligner(agreement: str | None, null: float | None = None) -> tuple[Any, Any]:
    data = [*corpus(16, 5, 6, 2), [], [1], [2, 1]], [*corpus(16, 5, 6, 3), [2], [], [2, 1]]
    lexicon = pu.models.Aligner.of(data, source=5, target=5).lexicon
    some = pu.models.Aligner.of(tuple(one[:10] for one in data), source=5, target=5).lexicon  # words that never met
    return pu.models.Aligner(5, 5, lexicon if null is None else some, agreement, null), data


#: Models whose mini-batches are compiled, with data that have examples of length 0 and 1.
COMPILED: dict[str, Callable[[], tuple[Any, Any]]] = {
    "tagger": _tagger,
    "tagger, stop": lambda: _tagger(stop=True),
    "trigram tagger": lambda: _tagger(2),
    "trigram tagger, stop": lambda: _tagger(2, True),
    "trigram tagger, dictionary": lambda: _tagger(2, True, True),
    "segmenter": lambda: (pu.models.Segmenter.of(_sentences(3), vocab=3, max_length=4), _sentences(3)),
    "dmv": lambda: (pu.models.DMV(3), _sentences(3)),
    "dmv, valence 2": lambda: (pu.models.DMV(3, valence=2), _sentences(3)),
    "clusterer": lambda: (pu.models.Clusterer(3, 6), _sentences(6)),
    "ccm": lambda: (pu.models.CCM.of(_sentences(4), vocab=4), _sentences(4)),
    "ccm, variant 2": lambda: (pu.models.CCM.of(_sentences(4), vocab=4, variant=2), _sentences(4)),
    "pcfg": lambda: (pu.models.PCFG(2, 3, 4), _sentences(4)),
    "simple pcfg": lambda: (pu.models.SimplePCFG(2, 3, 4), _sentences(4)),
    "aligner": lambda: _aligner(None),
    "aligner, null": lambda: _aligner(None, 0.2),
    "aligner, product": lambda: _aligner("product"),
    "aligner, product, null": lambda: _aligner("product", 0.2),
    "dmv-ccm": lambda: (pu.models.DMVCCM.of(_sentences(4), vocab=4), _sentences(4)),
    "dmv-ccm, left": lambda: (pu.models.DMVCCM.of(_sentences(4), vocab=4, variant=2, order="left"), _sentences(4)),
}


def mixture(words: Tensor, batch: int) -> None:
    """Words of one of two kinds, of which a plate takes some at a time."""
    share, kinds = pu.table("share", 2), pu.table("kinds", 2, 5)
    with pyro.plate("words", len(words), subsample_size=batch) as chosen:
        kind = pyro.sample("kind", pu.Categorical(share))
        pyro.sample("word", pu.Categorical(kinds[kind]), obs=words[chosen])
