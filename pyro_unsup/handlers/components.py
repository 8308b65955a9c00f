"""Ready components for :func:`pyro_unsup.constrain`: what is known of a language, as constraints on parts.

A component is a function from the parts of the data to truth values, and anyone can write one. Those here have a name
and settings besides, so that fits under them can be saved. They combine, by ``both`` or ``&``:

    >>> import pyro_unsup as pu
    >>> pu.components.short_dependencies(limit=4) & pu.components.verb_as_root(["VERB", "AUX"])
    both(short_dependencies(limit=4), verb_as_root(tags=['VERB', 'AUX']))

The first six are those of Cohen & Smith for dependency trees.

**References:** [1] S. B. Cohen and N. A. Smith (2010) "Variational inference for grammar induction with prior
knowledge".
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor

from ..distributions.parts import Arcs, Brackets, Clusters, Links, Pieces, States
from ..distributions.ragged import offsets_of
from ..distributions.segments import row_index
from .component import both, component

__all__ = [
    "all_right",
    "both",
    "fragments",
    "left_chain",
    "near_diagonal",
    "noun_sequence",
    "right_attach",
    "seeds",
    "short_dependencies",
    "spelled_with",
    "verb_as_root",
    "word_tags",
]


# -- dependency trees


@component
def right_attach(parts: Arcs) -> Tensor:
    """Every word's head is to its right; so the root is the last word.

    >>> import pyro_unsup as pu
    >>> sentences = [[0, 1, 1, 2]]
    >>> model = pu.constrain(pu.models.DMV(tags=3), pu.components.right_attach())
    >>> heads = pu.EM(model, init=pu.init.uniform()).run(sentences, iterations=0).posterior(sentences).mode()
    >>> all(head == 0 or head > child for child, head in enumerate(heads, 1))
    True
    """
    return (parts.head == 0) | (parts.head > parts.child)


@component
def all_right(parts: Arcs) -> Tensor:
    """The last word is the head of all others.

    >>> import pyro_unsup as pu
    >>> model = pu.constrain(pu.models.DMV(tags=3), pu.components.all_right())
    >>> pu.EM(model, init=pu.init.uniform()).run([[0, 1, 1, 2]], iterations=0).posterior([[0, 1, 1, 2]]).mode()
    tensor([4, 4, 4, 0])
    """
    return torch.where(parts.child < parts.length, parts.head == parts.length, parts.head == 0)


@component
def left_chain(parts: Arcs) -> Tensor:
    """Every word's head is the next one.

    >>> import pyro_unsup as pu
    >>> model = pu.constrain(pu.models.DMV(tags=3), pu.components.left_chain())
    >>> pu.EM(model, init=pu.init.uniform()).run([[0, 1, 1, 2]], iterations=0).posterior([[0, 1, 1, 2]]).mode()
    tensor([2, 3, 4, 0])
    """
    return torch.where(parts.child < parts.length, parts.head == parts.child + 1, parts.head == 0)


@component
def verb_as_root(parts: Arcs, tags: Any) -> Tensor:
    """The root is a verb.

    :param tags: of verbs.

    >>> import pyro_unsup as pu
    >>> model = pu.constrain(pu.models.DMV(tags=pu.data.Vocab(["DT", "NN", "VB"])), pu.components.verb_as_root("VB"))
    >>> pu.EM(model, init=pu.init.uniform()).run([[0, 2, 1]], iterations=0).posterior([[0, 2, 1]]).mode()[1]  # VB
    tensor(0)
    """
    return (parts.head > 0) | parts.has("tag_of_child", tags)


@component
def noun_sequence(parts: Arcs, tags: Any = "NN") -> Tensor:
    """In a run of nouns, the last is the head of all others.

    :param tags: of nouns.

    >>> import pyro_unsup as pu
    >>> model = pu.constrain(pu.models.DMV(tags=pu.data.Vocab(["DT", "NN", "VB"])), pu.components.noun_sequence("NN"))
    >>> heads = pu.EM(model, init=pu.init.uniform()).run([[1, 1, 1, 2]], iterations=0).posterior([[1, 1, 1, 2]]).mode()
    >>> heads[:2]  # of the first two nouns: the third
    tensor([3, 3])
    """
    noun, sentence = parts.has("tags", tags), row_index(parts.lengths)  # (tokens,)
    place = torch.arange(len(noun))
    goes_on = torch.zeros_like(noun)
    goes_on[:-1] = noun[:-1] & noun[1:] & (sentence[:-1] == sentence[1:])
    last = torch.where(goes_on, len(noun), place).flip(0).cummin(0).values.flip(0)  # of the run that a word is in
    number = last - offsets_of(parts.lengths)[sentence] + 1
    return ~goes_on[parts.child_word] | (parts.head == number[parts.child_word])


@component
def short_dependencies(parts: Arcs, limit: int = 4) -> Tensor:
    """No word is further from its head than so many words. The root may be anywhere.

    >>> import pyro_unsup as pu
    >>> model = pu.constrain(pu.models.DMV(tags=3), pu.components.short_dependencies(1))
    >>> heads = pu.EM(model, init=pu.init.uniform()).run([[0, 1, 1, 2]], iterations=0).posterior([[0, 1, 1, 2]]).mode()
    >>> max(abs(int(head) - child) for child, head in enumerate(heads, 1) if head)
    1
    """
    return parts.distance <= limit


# -- other structures


@component
def fragments(parts: Brackets, separators: Any) -> Tensor:
    """No constituent breaks off inside of what lies between two separators, such as commas; in binary trees.

    :param separators: symbols. Each is a fragment of its own.

    >>> import pyro_unsup as pu
    >>> sentences = pu.data.Corpus([0, 1, 2, 0, 1], [0, 5], pu.data.Vocab(["DT", "NN", ","]))
    >>> model = pu.constrain(pu.models.CCM.of(sentences), pu.components.fragments(","))
    >>> posterior = pu.EM(model).run(sentences, iterations=0).posterior(sentences)
    >>> posterior.marginals[5:9].round(decimals=4)  # of the four spans of two words
    tensor([1., 0., 0., 1.], dtype=torch.float64)
    """
    wanted = {separators} if isinstance(separators, str | int) else set(separators)
    single = parts.width == 1
    word = offsets_of(parts.lengths)[parts.sentence] + parts.start
    # Who stands where is in the contexts of single words: a symbol to the left, one to the right.
    before = word[single & parts.has("contexts", lambda context: context[0] in wanted)] - 1
    after = word[single & parts.has("contexts", lambda context: context[-1] in wanted)] + 1
    tokens = int(parts.lengths.sum())
    alone = torch.zeros(tokens, dtype=torch.bool).index_fill(0, torch.cat([before, after]), True)
    # A cut before each word that is the first one, a separator, or next to one; and one at the end.
    first = offsets_of(parts.lengths)
    cut = torch.zeros(tokens + 1, dtype=torch.bool).index_fill(0, first, True)
    cut[:-1] |= alone
    cut[1:] |= alone
    passed = cut.long().cumsum(0)
    end = word + parts.width
    inside = passed[end - 1] - passed[word]
    return (inside == 0) | (cut[word] & cut[end])


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
