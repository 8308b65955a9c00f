"""Components for links between words, and for clusters."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from torch import Tensor

from ...distributions.parts import Clusters, Links
from ..component import component


@component
def near_diagonal(parts: Links, width: float = 0.25) -> Tensor:
    """Words are linked to words at about the same place of their sentences, or to none.

    :param width: how far the places may differ, as a share of the sentences.

    >>> import pyro_unsup as pu
    >>> pairs = pu.data.toy.bitext(5, seed=1)
    >>> free = pu.models.Aligner.of(pairs, agreement=None)
    >>> near = pu.constrain(free, pu.components.near_diagonal(0.3))
    >>> start = pu.init.uniform()
    >>> first, second = (pu.EM(model, init=start).run(pairs, iterations=0).objective for model in (free, near))
    >>> first > second, near.fallbacks
    (True, 0)
    """
    apart = (parts.source / parts.source_length - parts.target / parts.target_length).abs()
    return parts.null | (apart <= width)


@component
def seeds(parts: Clusters, words: Any) -> Tensor:
    """A document with a word that is the seed of a cluster is in that cluster (or in one of them, if there are more).

    :param words: by cluster, its seeds, such as ``{0: ["hockey", "goalie"], 1: ["orbit"]}``.

    >>> import pyro_unsup as pu
    >>> documents = pu.data.toy.documents(5, seed=1).corpus
    >>> first = documents.sentence(0)[0]
    >>> model = pu.constrain(pu.models.Clusterer(2, documents.vocab), pu.components.seeds({1: [first]}))
    >>> pu.EM(model).run(documents, iterations=0).posterior(documents).mode()[0]
    tensor(1)
    """
    each = [(parts.holds(mine), parts.has("cluster", cluster)) for cluster, mine in dict(words).items()]
    free = ~reduce(or_, [held for held, _ in each])
    return reduce(or_, [held & here for held, here in each], free)
