"""Components for links between words, and for clusters."""

from __future__ import annotations

import unicodedata
from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor

from ...distributions.parts import Clusters, Links
from ...errors import StructureError
from ..component import Tying, component


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
    if isinstance(width, bool) or not isinstance(width, int | float) or not 0 <= width <= 1:
        raise StructureError(f"near_diagonal: the width should be a number from 0 to 1, actual {width!r:.40}")
    apart = (parts.source / parts.source_length - parts.target / parts.target_length).abs()
    return parts.null | (apart <= width)


@component
def cognates(parts: Links, letters: int = 4) -> Tensor:
    """Links between words that begin with the same letters, whatever their case and accents. Names and numbers that are
    the same are among them. A shorter word has to be the same as a whole.

    :param letters: so many.

    >>> import pyro_unsup as pu
    >>> pairs = pu.data.Bitext.of([("la nation libre", "the free nation"), ("une nation", "a nation")])
    >>> plain = pu.models.Aligner.of(pairs)
    >>> fit = pu.EM(pu.prefer(plain, pu.components.cognates()), init=pu.init.uniform()).run(pairs, iterations=0)
    >>> [0, 1, 2] in fit.predict(pairs).tolist()  # in pair 0, word 1 with word 2
    True
    """
    if isinstance(letters, bool) or not isinstance(letters, int) or letters < 1:
        raise StructureError(f"cognates: letters should be a whole number, 1 or more, actual {letters!r:.40}")
    return parts.alike(lambda word: _letters(word)[:letters])


@component
def punctuation_alike(parts: Links) -> Tensor:
    """Punctuation is linked with the same sign, words with words; both may have no link.

    >>> import pyro_unsup as pu
    >>> pairs = pu.data.Bitext.of([("oui !", "yes !"), ("oui ?", "yes ?")])
    >>> model = pu.constrain(pu.models.Aligner.of(pairs), pu.components.punctuation_alike())
    >>> fit = pu.EM(model, init=pu.init.uniform()).run(pairs, iterations=3, progress=False)
    >>> fit.predict(pairs).tolist()
    [[0, 0, 0], [0, 1, 1], [1, 0, 0], [1, 1, 1]]
    """
    return parts.null | parts.alike(lambda word: "" if any(map(str.isalnum, str(word))) else word)


@component
def links_into(parts: Links, place: int) -> Tensor:
    """Links to the word at one place of the sentence that is chosen from: the source sentence where target words
    choose, the target sentence where source words do.

    As features of :func:`.regularise`, one for each place, they make links nearly one to one: no word is expected to be
    chosen more than once (Graça, Ganchev & Taskar 2010, "bijectivity").

    :param place: 1 for the first word.

    >>> import pyro_unsup as pu
    >>> pairs = pu.data.toy.bitext(5, seed=1)
    >>> places = [pu.components.links_into(k) for k in range(1, 10)]  # of sentences of up to nine words
    >>> free = pu.models.Aligner.of(pairs, agreement=None)
    >>> model = pu.regularise(free, places, [1.0] * 9, each=True)
    >>> fit = pu.EM(model, init=pu.init.uniform()).run(pairs, iterations=5, progress=False)
    >>> bool((model.expectations["forward"] < 1.001).all())
    True
    """
    chosen, chooser = parts.source, parts.target
    if parts.turned.dim():
        chosen, chooser = (x.expand(parts.shape) for x in (chosen, chooser))
    turned = parts.turned.to(chosen.device)
    return torch.where(turned, chooser, chosen).eq(place) & torch.where(turned, chosen, chooser).gt(0)


class Symmetric(Tying):
    """That the two directions of an aligner expect each link equally often; see :func:`symmetric`."""

    def __call__(self, parts: Links) -> Tensor:
        if parts.turned.dim():
            raise StructureError(
                "symmetric() ties the two directions of an aligner, each with a posterior of its own: use "
                "agreement=None, or agreement='2008'"
            )
        return torch.where(parts.null, 0.0, torch.where(parts.turned, -1.0, 1.0))

    def __repr__(self) -> str:
        return f"symmetric(tolerance={self.tolerance:g})"


def symmetric(tolerance: float = 1e-3) -> Symmetric:
    """The two directions of an aligner expect each link of two words equally often, for :func:`.regularise` (Graça,
    Ganchev & Taskar 2010, "Learning tractable word alignment models with complex constraints").

    Every pair of sentences keeps to it on its own. Links to the null words are free. The model has two directions that
    do not learn from each other in another way: ``agreement=None``.

    :param tolerance: how far the two expectations of a link may be apart. A smaller one takes more time.

    >>> import pyro_unsup as pu
    >>> pairs = pu.data.toy.bitext(5, seed=1)
    >>> free = pu.models.Aligner.of(pairs, agreement=None)
    >>> model = pu.regularise(free, pu.components.symmetric())
    >>> fit = pu.EM(model, init=pu.init.uniform()).run(pairs, iterations=5, progress=False)
    >>> bool((model.apart < 1e-3).all())
    True
    """
    return Symmetric(tolerance)


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


def _letters(word: Any) -> str:
    """A word without case and accents."""
    return "".join(one for one in unicodedata.normalize("NFD", str(word)).casefold() if not unicodedata.combining(one))
