"""Data, estimators and models to test learning from mini-batches with."""

from __future__ import annotations

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


def mixture(words: Tensor, batch: int) -> None:
    """Words of one of two kinds, of which a plate takes some at a time."""
    share, kinds = pu.table("share", 2), pu.table("kinds", 2, 5)
    with pyro.plate("words", len(words), subsample_size=batch) as chosen:
        kind = pyro.sample("kind", pu.Categorical(share))
        pyro.sample("word", pu.Categorical(kinds[kind]), obs=words[chosen])
