"""Components for tags and segments."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

from torch import Tensor

from ...distributions.parts import Pieces, States
from ..component import component


@component
def word_tags(parts: States, tags: Any) -> Tensor:
    """Some words have certain tags only.

    :param tags: by word, its tags, such as ``{"the": ["DT"], "that": ["DT", "IN", "WDT"]}``. Other words are free.

    >>> import pyro_unsup as pu
    >>> words, tags = pu.data.Vocab(["the", "dog"]), pu.data.Vocab(["DT", "NN"])
    >>> model = pu.constrain(pu.models.Tagger(tags=tags, vocab=words), pu.components.word_tags({"the": "DT"}))
    >>> pu.EM(model).run([[0, 1]], iterations=0).posterior([[0, 1]]).marginals[0].round(decimals=4)
    tensor([1., 0.], dtype=torch.float64)
    """
    lists = dict(tags)
    by_tag: dict[Any, set[Any]] = {}
    for word, mine in lists.items():
        for tag in [mine] if isinstance(mine, str | int) else mine:
            by_tag.setdefault(tag, set()).add(word)
    allowed = [parts.has("word", words.__contains__) & parts.has("state", tag) for tag, words in by_tag.items()]
    return reduce(or_, allowed, ~parts.has("word", lists.keys()))


@component
def spelled_with(parts: Pieces, symbols: Any) -> Tensor:
    """Every segment has one of these symbols in it, such as a vowel. Segments that are not known may be anything.

    >>> import pyro_unsup as pu
    >>> text = pu.data.Corpus([0, 1, 2, 3, 4, 5], [0, 6], pu.data.Vocab(["t", "h", "e", "d", "o", "g"]))
    >>> model = pu.constrain(pu.models.Segmenter.of(text), pu.components.spelled_with("eo"))
    >>> ends = pu.EM(model).run(text, iterations=0).posterior(text).mode()
    >>> int(ends.sum())  # the vowels allow two words at most
    2
    """
    wanted = {symbols} if isinstance(symbols, int) else set(symbols)
    return parts.has("segment", lambda segment: not segment or not wanted.isdisjoint(segment))


@component
def closed_classes(parts: States, tags: Any, words: Any) -> Tensor:
    """Words of closed classes (articles, say) have a tag of those classes, and no other word has one.

    :param tags: of closed classes.
    :param words: all that these have.

    >>> import pyro_unsup as pu
    >>> words, tags = pu.data.Vocab(["the", "dog"]), pu.data.Vocab(["DT", "NN"])
    >>> rule = pu.components.closed_classes("DT", ["the", "a"])
    >>> model = pu.prefer(pu.models.Tagger(tags=tags, vocab=words), rule, weight=9)
    >>> pu.EM(model).run([[0, 1]], iterations=0).posterior([[0, 1]]).mode()
    tensor([0, 1])
    """
    wanted = {words} if isinstance(words, str | int) else set(words)
    return parts.has("word", wanted.__contains__) == parts.has("state", tags)
