"""How the arcs and the spans of sentences lie: flat, sentence by sentence."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from .ragged import Rows, offsets_of


def arc_lengths(lengths: Tensor) -> Tensor:  # (B,) -> (B,)
    """How many cells for arcs each sentence has."""
    return lengths * (lengths + 1)


def arcs_of(lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (B,) -> three of (cells,)
    """The sentence, head and child of every cell for an arc: sentence by sentence, a row for each child, and in it a
    column for each head. Children are numbered from 1, and head 0 is the root. A word has a cell as its own head, too,
    that is never used.

    >>> import torch
    >>> from pyro_unsup.distributions.cells import arcs_of
    >>> [x.tolist() for x in arcs_of(torch.tensor([1, 2]))]
    [[0, 0, 1, 1, 1, 1, 1, 1], [0, 1, 0, 1, 2, 0, 1, 2], [1, 1, 1, 1, 1, 2, 2, 2]]
    """
    device = lengths.device
    sentence = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)  # one row a child
    child = torch.arange(len(sentence), device=device) - offsets_of(lengths)[sentence] + 1
    size = lengths[sentence] + 1
    row = torch.repeat_interleave(torch.arange(len(size), device=device), size)
    return sentence[row], torch.arange(len(row), device=device) - offsets_of(size)[row], child[row]


def span_lengths(lengths: Tensor) -> Tensor:  # (B,) -> (B,)
    """How many spans each sentence has."""
    return lengths * (lengths + 1) // 2


def spans_of(lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # (B,) -> three of (spans,)
    """The sentence, start and end of every span, in the order that values and structures use: sentence by sentence,
    narrow spans first, and from left to right among those of one width.

    >>> import torch
    >>> from pyro_unsup.distributions.cells import spans_of
    >>> [x.tolist() for x in spans_of(torch.tensor([1, 3]))]
    [[0, 1, 1, 1, 1, 1, 1], [0, 0, 1, 2, 0, 1, 0], [1, 1, 2, 3, 2, 3, 3]]
    """
    device = lengths.device
    sentence = torch.repeat_interleave(torch.arange(len(lengths), device=device), lengths)  # one row a width
    width = torch.arange(len(sentence), device=device) - offsets_of(lengths)[sentence] + 1
    size = lengths[sentence] - width + 1
    row = torch.repeat_interleave(torch.arange(len(size), device=device), size)
    start = torch.arange(len(row), device=device) - offsets_of(size)[row]
    return sentence[row], start, start + width[row]


class ArcCells:
    """Where the arcs of sentences lie, on the CPU. All are (cells,).

    :param rows: the words of the sentences.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.owner, self.head, self.child = arcs_of(rows.lengths)

    @cached_property
    def child_word(self) -> Tensor:
        """The child by its place among all words, from 0."""
        return self.rows.offsets[self.owner] + self.child - 1

    @cached_property
    def head_word(self) -> Tensor:
        """The head in the same way; the child itself for the root."""
        return torch.where(self.head > 0, self.child_word - self.child + self.head, self.child_word)

    @cached_property
    def place(self) -> Tensor:
        """The place in a chart (B, longest, longest + 1) by child and head."""
        return (self.owner * self.rows.longest + self.child - 1) * (self.rows.longest + 1) + self.head


class SpanCells:
    """Where the spans of sentences lie, on the CPU. All are (spans,).

    :param rows: the words of the sentences.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.owner, self.start, self.end = spans_of(rows.lengths)

    @cached_property
    def width(self) -> Tensor:
        return self.end - self.start

    @cached_property
    def always(self) -> Tensor:  # bool
        """Spans that every tree has: single words, and whole sentences."""
        return (self.width == 1) | (self.width == self.rows.lengths[self.owner])

    @cached_property
    def place(self) -> Tensor:
        """The place in a chart (B, longest, longest) by start and width."""
        return (self.owner * self.rows.longest + self.start) * self.rows.longest + self.width - 1

    @cached_property
    def by_width(self) -> Tensor:
        """The place in a triangle that has longest + 1 - w starts for spans of w words, each with B sentences."""
        return self._in_triangle(self.start)

    @cached_property
    def mirrored(self) -> Tensor:
        """The same, if sentences are read from right to left."""
        return self._in_triangle(self.rows.lengths[self.owner] - self.end)

    def _in_triangle(self, start: Tensor) -> Tensor:
        narrower = self.width - 1  # widths
        before = narrower * self.rows.longest - narrower * (narrower - 1) // 2
        return (before + start) * len(self.rows) + self.owner


def crossing(some: Tensor) -> Tensor:  # (*batch, N + 1, N + 1) bool -> the same
    """Which spans, by fenceposts, cross one of these: they overlap, and neither holds the other."""
    size = some.shape[-1]
    less = torch.ones(size, size, device=some.device).triu(1)  # [a, b]: a < b
    given = some.to(less.dtype)
    # i < a < j < b: first whether some b lies beyond j, then whether such an a lies between i and j.
    later = less @ (given @ less.mT * less)
    # a < i < b < j, in the same way.
    earlier = (less.mT @ given * less) @ less
    return ((later > 0) | (earlier > 0)) & (less > 0)


def by_first(chart: Tensor | None, row: Tensor, size: int, axis: int = -1) -> Tensor:
    """A chart (*batch, size, widths, *rest) by first word, with the spans of the next width added.

    One tensor that grows costs less than a list of its rows: each step of a recursion then is a few operations.

    :param row: (*batch, starts, *rest), by first word.
    :param axis: of the starts in ``row``, from the end.
    """
    missing = size - row.shape[axis]
    column = pad(row, (0, 0) * (-axis - 1) + (0, missing), value=-torch.inf).unsqueeze(row.dim() + axis + 1)
    return column if chart is None else torch.cat([chart, column], axis)


def by_last(chart: Tensor | None, row: Tensor, size: int, axis: int = -1) -> Tensor:
    """The same by last word, the widest first: as the other part of a span, when its first part grows."""
    missing = size - row.shape[axis]
    column = pad(row, (0, 0) * (-axis - 1) + (missing, 0), value=-torch.inf).unsqueeze(row.dim() + axis + 1)
    return column if chart is None else torch.cat([column, chart], axis)
