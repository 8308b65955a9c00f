"""Components for binary trees, and for what else has a width."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...distributions.parts import Brackets, Constituents, Labels, Pieces, Stretches
from ...distributions.ragged import offsets_of
from ..component import component
from .ranges import within


@component
def fragments(parts: Brackets | Constituents, separators: Any) -> Tensor:
    """No constituent breaks off inside of what lies between two separators, such as commas; in binary trees.

    :param separators: symbols. Each is a fragment of its own.

    >>> import pyro_unsup as pu
    >>> sentences = pu.data.Corpus([0, 1, 2, 0, 1], [0, 5], pu.data.Vocab(["DT", "NN", ","]))
    >>> model = pu.constrain(pu.models.CCM.of(sentences), pu.components.fragments(","))
    >>> posterior = pu.EM(model).run(sentences, iterations=0).posterior(sentences)
    >>> posterior.marginals[5:9].round(decimals=4)  # of the four spans of two words
    tensor([1., 0., 0., 1.], dtype=torch.float64)
    """
    wanted = _known(parts, separators)
    tokens = int(parts.lengths.sum())
    alone = torch.zeros(tokens, dtype=torch.bool).index_fill(0, _places_of(parts, wanted), True)
    # A cut before each word that is the first one, a separator, or next to one; and one at the end.
    first = offsets_of(parts.lengths)
    cut = torch.zeros(tokens + 1, dtype=torch.bool).index_fill(0, first, True)
    cut[:-1] |= alone
    cut[1:] |= alone
    word = offsets_of(parts.lengths)[parts.sentence] + parts.start
    passed = cut.long().cumsum(0)
    end = word + parts.width
    inside = passed[end - 1] - passed[word]
    return (inside == 0) | (cut[word] & cut[end])


@component
def ends_in(parts: Brackets | Constituents, tags: Any) -> Tensor:
    """Spans of two words or more whose last word has one of these tags. Yields that are not known are none of them.

    :param tags: such as those of determiners: ``~ends_in("DT")`` is all other spans.

    >>> import pyro_unsup as pu
    >>> sentences = pu.data.Corpus([2, 0, 1], [0, 3], pu.data.Vocab(["DT", "NN", "VB"]))
    >>> model = pu.prefer(pu.models.CCM.of(sentences), ~pu.components.ends_in("DT"), weight=9)
    >>> pu.EM(model).run(sentences, iterations=0).posterior(sentences).marginals[3:5].round(decimals=3)  # VB DT, DT NN
    tensor([0., 1.], dtype=torch.float64)
    """
    wanted = _known(parts, tags)
    if isinstance(parts, Constituents):
        return (parts.width > 1) & parts.has("last_word", lambda symbol: symbol in wanted)
    return (parts.width > 1) & parts.has("yields", lambda symbols: bool(symbols) and symbols[-1] in wanted)


@component
def starts_with(parts: Brackets | Constituents, tags: Any) -> Tensor:
    """Spans of two words or more whose first word has one of these tags. Yields that are not known are none of them.

    :param tags: such as those of determiners.

    >>> import pyro_unsup as pu
    >>> sentences = pu.data.Corpus([2, 0, 1], [0, 3], pu.data.Vocab(["DT", "NN", "VB"]))
    >>> model = pu.prefer(pu.models.CCM.of(sentences), pu.components.starts_with("DT"), weight=9)
    >>> pu.EM(model).run(sentences, iterations=0).posterior(sentences).marginals[3:5].round(decimals=3)  # VB DT, DT NN
    tensor([0., 1.], dtype=torch.float64)
    """
    wanted = _known(parts, tags)
    if isinstance(parts, Constituents):
        return (parts.width > 1) & parts.has("first_word", lambda symbol: symbol in wanted)
    return (parts.width > 1) & parts.has("yields", lambda symbols: bool(symbols) and symbols[0] in wanted)


@component
def width(parts: Brackets | Constituents | Pieces | Stretches, least: int = 1, most: int | None = None) -> Tensor:
    """Spans of so many words: constituents of trees, segments (symbols then), or how long a state lasts.

    Every tree has the spans of single words and the whole sentence.

    :param least: the smallest width.
    :param most: the largest one; None for all.

    >>> import pyro_unsup as pu
    >>> text = pu.data.Corpus([0, 1, 2, 3, 4, 5], [0, 6], pu.data.Vocab(["t", "h", "e", "d", "o", "g"]))
    >>> model = pu.prefer(pu.models.Segmenter.of(text), pu.components.width(3, 3), weight=9)
    >>> ends = pu.EM(model).run(text, iterations=0).posterior(text).mode()
    >>> ends.nonzero().squeeze(-1).tolist()  # the, dog
    [2, 5]
    """
    return within(parts.duration if isinstance(parts, Stretches) else parts.width, least, most, "width")


def _known(parts: Brackets | Constituents, symbols: Any) -> set[Any]:
    """The symbols, if the model has one of them. It is told of those that it does not have."""
    wanted = {symbols} if isinstance(symbols, str | int) else set(symbols)
    labels = parts.labels.get("word" if isinstance(parts, Constituents) else "yield")
    if labels is not None:
        names = labels.names
        if isinstance(parts, Brackets):
            names = sorted({symbol for one in names for symbol in one or ()}, key=repr)
        Labels(names, missed=labels.missed).which(wanted, "tags")
    return wanted


def _places_of(parts: Brackets | Constituents, wanted: set[Any]) -> Tensor:  # (n,)
    """Where some symbols are, among the words of all sentences."""
    single = parts.width == 1
    word = offsets_of(parts.lengths)[parts.sentence] + parts.start
    if isinstance(parts, Constituents):
        return word[single & parts.has("first_word", lambda symbol: symbol in wanted)]
    # Who stands where is in the contexts of single words: a symbol to the left, one to the right.
    before = word[single & parts.has("contexts", lambda context: context[0] in wanted)] - 1
    after = word[single & parts.has("contexts", lambda context: context[-1] in wanted)] + 1
    return torch.cat([before, after])
