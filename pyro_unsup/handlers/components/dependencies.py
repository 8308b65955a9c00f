"""Components for dependency trees. The first six are those of Cohen & Smith (2010)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from ...distributions.parts import Arcs
from ...distributions.ragged import offsets_of
from ...distributions.segments import row_index
from ..component import component
from .ranges import within


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


@component
def arc(
    parts: Arcs, heads: Any = None, children: Any = None, direction: Literal["left", "right"] | None = None
) -> Tensor:
    """Arcs from words with certain tags to words with certain tags. The root's arc is none of them.

    :param heads: tags of heads; None for all.
    :param children: tags of children; None for all.
    :param direction: of the child, seen from its head: ``"left"`` or ``"right"``; None for both.

    >>> import pyro_unsup as pu
    >>> model = pu.models.DMV(tags=pu.data.Vocab(["DT", "NN", "VB"]))
    >>> liked = pu.prefer(model, pu.components.arc("VB", "NN") | pu.components.arc("NN", "DT", "left"), weight=5)
    >>> pu.EM(liked, init=pu.init.uniform()).run([[0, 1, 2]], iterations=0).posterior([[0, 1, 2]]).mode()
    tensor([2, 3, 0])
    """
    found = parts.head > 0
    if direction is not None:
        found = found & ((parts.child < parts.head) == (direction == "left"))
    for name, tags in (("tag_of_head", heads), ("tag_of_child", children)):
        found = found if tags is None else found & parts.has(name, tags)
    return found


@component
def root(parts: Arcs, tags: Any) -> Tensor:
    """The root's arc, to a word with certain tags.

    :param tags: such as those of verbs.

    >>> import pyro_unsup as pu
    >>> model = pu.prefer(pu.models.DMV(tags=pu.data.Vocab(["DT", "NN", "VB"])), pu.components.root("VB"), weight=9)
    >>> pu.EM(model, init=pu.init.uniform()).run([[0, 2, 1]], iterations=0).posterior([[0, 2, 1]]).mode()[1]  # VB
    tensor(0)
    """
    return (parts.head == 0) & parts.has("tag_of_child", tags)


@component
def distance(parts: Arcs, least: int = 1, most: int | None = None) -> Tensor:
    """Arcs between words that are so many words apart. Neighbours are 1 apart. The root's arc is none of them.

    To forbid all other arcs, use :func:`short_dependencies`, which leaves the root free.

    :param least: the smallest distance.
    :param most: the largest one; None for all.

    >>> import pyro_unsup as pu
    >>> near = pu.components.arc("NN", "JJ") & pu.components.distance(most=2)
    >>> near
    both(arc(heads='NN', children='JJ', direction=None), distance(least=1, most=2))
    >>> model = pu.prefer(pu.models.DMV(tags=3), pu.components.distance(most=1), weight=9)
    >>> heads = pu.EM(model, init=pu.init.uniform()).run([[0, 1, 1, 2]], iterations=0).posterior([[0, 1, 1, 2]]).mode()
    >>> max(abs(int(head) - child) for child, head in enumerate(heads, 1) if head)
    1
    """
    return within(parts.distance, least, most, "distance")
