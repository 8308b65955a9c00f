"""The parts of trees: arcs from head to child, and brackets around constituents."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Size, Tensor

from ..cells import arc_lengths, arcs_of, span_lengths, spans_of
from ..ragged import offsets_of
from .base import InSentences


@dataclass(frozen=True, eq=False)
class Arcs(InSentences):
    """Of dependency trees. All are (cells,), in the order of :func:`.arcs_of`.

    >>> import torch
    >>> from pyro_unsup.distributions.parts.trees import Arcs
    >>> arcs = Arcs(torch.tensor([4, 7]), torch.tensor([2]))
    >>> arcs.head.tolist(), arcs.child.tolist(), arcs.distance.tolist()
    ([0, 1, 2, 0, 1, 2], [1, 1, 1, 2, 2, 2], [0, 0, 1, 0, 1, 0])
    """

    AXES = {"tags": "child", "tag_of_child": "child", "tag_of_head": "head"}  # noqa: RUF012

    tags: Tensor  # (tokens,)
    lengths: Tensor  # (B,)

    @property
    def shape(self) -> Size:
        return Size([int(arc_lengths(self.lengths).sum())])

    @cached_property
    def _cells(self) -> tuple[Tensor, Tensor, Tensor]:
        return arcs_of(self.lengths)

    @property
    def sentence(self) -> Tensor:
        return self._cells[0]

    @property
    def head(self) -> Tensor:
        """0 for the root, k for the k-th word."""
        return self._cells[1]

    @property
    def child(self) -> Tensor:
        """k for the k-th word."""
        return self._cells[2]

    @cached_property
    def distance(self) -> Tensor:
        """From head to child, in words; 0 for the root's arc."""
        return torch.where(self.head > 0, (self.head - self.child).abs(), 0)

    @cached_property
    def child_word(self) -> Tensor:
        """The child by its place among all words, from 0."""
        return offsets_of(self.lengths)[self.sentence] + self.child - 1

    @cached_property
    def tag_of_child(self) -> Tensor:
        return self.tags[self.child_word]

    @cached_property
    def tag_of_head(self) -> Tensor:
        """-1 for the root."""
        place = torch.where(self.head > 0, self.child_word - self.child + self.head, 0)
        return torch.where(self.head > 0, self.tags[place], -1)


class Spans(InSentences):
    """Parts that are spans of words, in the order of :func:`.spans_of`."""

    @cached_property
    def _cells(self) -> tuple[Tensor, ...]:
        return spans_of(self.lengths)

    @property
    def sentence(self) -> Tensor:
        return self._cells[0]

    @property
    def start(self) -> Tensor:
        """The first word of the span, from 0."""
        return self._cells[1]

    @property
    def end(self) -> Tensor:
        """The word after its last."""
        return self._cells[2]

    @cached_property
    def width(self) -> Tensor:
        return self.end - self.start


@dataclass(frozen=True, eq=False)
class Brackets(Spans):
    """Of binary trees: spans as constituents. All are (spans,)."""

    AXES = {"yields": "yield", "contexts": "context"}  # noqa: RUF012

    spans: Tensor  # (spans, 2)
    lengths: Tensor  # (B,)

    @property
    def shape(self) -> Size:
        return Size([len(self.spans)])

    @property
    def yields(self) -> Tensor:
        return self.spans[:, 0]

    @property
    def contexts(self) -> Tensor:
        return self.spans[:, 1]


@dataclass(frozen=True, eq=False)
class Constituents(Spans):
    """Of labelled trees: (spans, N + P), spans by labels, nonterminals first. What goes with spans is (spans, 1)."""

    AXES = {"label": "label", "first_word": "word", "last_word": "word"}  # noqa: RUF012

    words: Tensor  # (tokens,)
    lengths: Tensor  # (B,)
    nonterminals: int
    preterminals: int

    @property
    def shape(self) -> Size:
        return Size([int(span_lengths(self.lengths).sum()), self.nonterminals + self.preterminals])

    @cached_property
    def _cells(self) -> tuple[Tensor, ...]:
        return tuple(x.unsqueeze(-1) for x in spans_of(self.lengths))

    @cached_property
    def label(self) -> Tensor:  # (N + P,)
        return torch.arange(self.shape[1])

    @cached_property
    def first_word(self) -> Tensor:
        return self.words[offsets_of(self.lengths)[self.sentence] + self.start]

    @cached_property
    def last_word(self) -> Tensor:
        return self.words[offsets_of(self.lengths)[self.sentence] + self.end - 1]
