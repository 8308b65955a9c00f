"""What structures are made of, one by one, for those who say which parts they want: arcs, brackets, states, segments,
links, clusters.

A structure's parts lie as its posterior's marginals do, and what is known of them are tensors that broadcast to that
shape: ``parts.head``, ``parts.width``. All are made when they are first asked for.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Size, Tensor

from ..errors import StructureError
from .alignment_grid import Grid
from .bracketing_sum import spans_of
from .dependency_sum import arc_lengths, arcs_of
from .ragged import offsets_of, pad
from .segments import row_index

#: One label, several, or a function that says yes or no to a label.
Test = Collection[Any] | Callable[[Any], bool] | int


class Labels:
    """What numbers stand for.

    :param names: labels of a whole table, and which of them each number of these data is; None if all of them, in
        order.
    """

    def __init__(self, names: Sequence[Any], places: Tensor | None = None) -> None:
        self.names, self.places = names, places

    def which(self, test: Test, what: str) -> Tensor:  # (numbers,) bool
        """The numbers whose labels pass.

        :raises StructureError: if labels were given, and none of them exists.
        """
        here = self.names if self.places is None else [self.names[k] for k in self.places.tolist()]
        if callable(test):
            return torch.tensor([bool(test(name)) for name in here], dtype=torch.bool)
        wanted = {test} if isinstance(test, str | int) else set(test)
        found = torch.tensor([name in wanted for name in here], dtype=torch.bool)
        if self.places is None and wanted and not bool(found.any()):
            raise StructureError(
                f"none of {sorted(map(repr, wanted))!s:.200} is known as '{what}': there are "
                f"{[self.names[k] for k in range(min(len(self.names), 10))]!s:.200}"
            )
        return found


@dataclass(frozen=True, eq=False)
class Parts:
    """The parts that data could have, under all structures.

    :param labels: names by axis, as the model's tables declare them (:class:`pyro_unsup.tables.Axis`).
    """

    #: By the name of a field that holds numbers, the axis that has its labels.
    AXES: ClassVar[Mapping[str, str]] = {}

    labels: Mapping[str, Labels] = field(default_factory=dict, kw_only=True)

    @property
    @abstractmethod
    def shape(self) -> Size:
        """Of the marginals of the posterior."""

    @property
    @abstractmethod
    def example(self) -> Tensor:
        """The number of the sentence, pair or document that each part belongs to; -1 in padding."""

    @property
    @abstractmethod
    def examples(self) -> int:
        """How many of those there are."""

    def has(self, name: str, test: Test) -> Tensor:  # bool
        """Which parts have a label that passes, such as ``parts.has("tag_of_child", {"VERB", "AUX"})``.

        :param name: a field of numbers.
        :param test: labels, or a function of one. Where the model has no labels, numbers are their own.
        """
        if name not in self.AXES:
            raise StructureError(f"'{name}' has no labels: expected one of {', '.join(self.AXES)}")
        numbers: Tensor = getattr(self, name)
        labels = self.labels.get(self.AXES[name])
        if labels is None:
            labels = Labels(range(int(numbers.max()) + 1 if numbers.numel() else 0))
        passed = labels.which(test, name)
        known = (numbers >= 0) & (numbers < len(passed))
        return known & passed[torch.where(known, numbers, 0).long()] if len(passed) else known

    def made_of(self) -> list[Tensor]:
        """What it takes to say whether these are the same parts as others."""
        return [x for f in fields(self) if isinstance(x := getattr(self, f.name), Tensor)]


@dataclass(frozen=True, eq=False)
class Arcs(Parts):
    """Of dependency trees. All are (cells,), in the order of :func:`.arcs_of`.

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

    @property
    def examples(self) -> int:
        return len(self.lengths)

    @property
    def example(self) -> Tensor:
        return self.sentence

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
    def length(self) -> Tensor:
        """Words in the sentence."""
        return self.lengths[self.sentence]

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


@dataclass(frozen=True, eq=False)
class Brackets(Parts):
    """Of binary trees: spans as constituents. All are (spans,), in the order of :func:`.spans_of`."""

    AXES = {"yields": "yield", "contexts": "context"}  # noqa: RUF012

    spans: Tensor  # (spans, 2)
    lengths: Tensor  # (B,)

    @property
    def shape(self) -> Size:
        return Size([len(self.spans)])

    @property
    def examples(self) -> int:
        return len(self.lengths)

    @property
    def example(self) -> Tensor:
        return self.sentence

    @cached_property
    def _cells(self) -> tuple[Tensor, Tensor, Tensor]:
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

    @cached_property
    def length(self) -> Tensor:
        """Words in the sentence."""
        return self.lengths[self.sentence]

    @property
    def yields(self) -> Tensor:
        return self.spans[:, 0]

    @property
    def contexts(self) -> Tensor:
        return self.spans[:, 1]


@dataclass(frozen=True, eq=False)
class States(Parts):
    """Of chains: (tokens, K) if words lie flat, (*batch, T, K) if they are padded (-1 then)."""

    AXES = {"state": "tag", "word": "word"}  # noqa: RUF012

    words: Tensor  # (tokens,)
    lengths: Tensor  # (B,)
    states: int
    padded: Size | None = None

    @property
    def shape(self) -> Size:
        return Size([*(self.words.shape if self.padded is None else self.padded), self.states])

    @property
    def examples(self) -> int:
        return len(self.lengths)

    @property
    def example(self) -> Tensor:
        return self.sentence

    @cached_property
    def state(self) -> Tensor:  # (K,)
        return torch.arange(self.states)

    @cached_property
    def sentence(self) -> Tensor:  # (tokens, 1)
        return self._shaped(row_index(self.lengths))

    @cached_property
    def position(self) -> Tensor:  # (tokens, 1)
        """Place in the sentence, from 0."""
        return self._shaped(torch.arange(len(self.words)) - offsets_of(self.lengths)[row_index(self.lengths)])

    @cached_property
    def length(self) -> Tensor:  # (tokens, 1)
        """Words in the sentence."""
        return self._shaped(self.lengths[row_index(self.lengths)])

    @cached_property
    def word(self) -> Tensor:  # (tokens, 1)
        return self._shaped(self.words.long())

    def _shaped(self, flat: Tensor) -> Tensor:
        if self.padded is not None:
            flat = pad(flat, self.lengths, -1, self.padded[-1]).reshape(self.padded)
        return flat.unsqueeze(-1)


@dataclass(frozen=True, eq=False)
class Pieces(Parts):
    """Of segmentations: (symbols, L), by the last symbol of a segment and its width."""

    AXES = {"segment": "segment"}  # noqa: RUF012

    segment: Tensor  # (symbols, L) which type it is; -1 if it cannot be one
    lengths: Tensor  # (B,)

    @property
    def shape(self) -> Size:
        return self.segment.shape

    @property
    def examples(self) -> int:
        return len(self.lengths)

    @property
    def example(self) -> Tensor:
        return self.sentence

    @cached_property
    def sentence(self) -> Tensor:  # (symbols, 1)
        return row_index(self.lengths).unsqueeze(-1)

    @cached_property
    def width(self) -> Tensor:  # (L,)
        return torch.arange(1, self.segment.shape[1] + 1)

    @cached_property
    def end(self) -> Tensor:  # (symbols, 1)
        """The symbol after the last one of the segment, from 0."""
        rows = self.sentence[:, 0]
        return (torch.arange(len(rows)) - offsets_of(self.lengths)[rows] + 1).unsqueeze(-1)

    @cached_property
    def start(self) -> Tensor:  # (symbols, L)
        """The first symbol; negative where there is no such segment."""
        return self.end - self.width

    @cached_property
    def length(self) -> Tensor:  # (symbols, 1)
        """Symbols in the sentence."""
        return self.lengths[self.sentence]


@dataclass(frozen=True, eq=False)
class Links(Parts):
    """Of alignments: (cells,) as they lie in the grids. Of two directions that agree, (cells, 2): fields are (cells, 1)
    then, and ``turned`` tells the directions apart."""

    grid: Grid
    turned: Tensor  # () or (2,) bool: whether source words choose

    @property
    def shape(self) -> Size:
        return Size([self.grid.cells, *self.turned.shape])

    @property
    def examples(self) -> int:
        return len(self.grid)

    @property
    def example(self) -> Tensor:
        return self.pair

    @cached_property
    def _cells(self) -> tuple[Tensor, Tensor]:
        return self.grid.parts()

    @cached_property
    def pair(self) -> Tensor:
        return self._shaped(self.grid.pair[self._cells[0]])

    @cached_property
    def source(self) -> Tensor:
        """k for the k-th word of the source sentence, 0 for the null word."""
        return self._shaped(self.grid.place[self._cells[0]])

    @cached_property
    def target(self) -> Tensor:
        return self._shaped(self._cells[1])

    @cached_property
    def source_length(self) -> Tensor:
        return self.grid.source_lengths[self.pair]

    @cached_property
    def target_length(self) -> Tensor:
        return self.grid.target_lengths[self.pair]

    @cached_property
    def null(self) -> Tensor:  # bool
        """Whether one of the two is the null word."""
        return (self.source == 0) | (self.target == 0)

    def made_of(self) -> list[Tensor]:
        grid = self.grid
        return [grid.source_lengths, grid.target_lengths, grid.pair, grid.place, self.turned]

    def _shaped(self, cells: Tensor) -> Tensor:
        return cells.unsqueeze(-1) if self.turned.dim() else cells


@dataclass(frozen=True, eq=False)
class Clusters(Parts):
    """Of mixtures: (B, K), documents by clusters."""

    AXES = {"cluster": "cluster", "words": "word"}  # noqa: RUF012

    bags: Tensor  # (cells, 2)
    lengths: Tensor  # (B,)
    clusters: int

    @property
    def shape(self) -> Size:
        return Size([len(self.lengths), self.clusters])

    @property
    def examples(self) -> int:
        return len(self.lengths)

    @property
    def example(self) -> Tensor:
        return self.document

    @cached_property
    def document(self) -> Tensor:  # (B, 1)
        return torch.arange(len(self.lengths)).unsqueeze(-1)

    @cached_property
    def cluster(self) -> Tensor:  # (K,)
        return torch.arange(self.clusters)

    @property
    def words(self) -> Tensor:  # (cells,)
        """The different words of all documents."""
        return self.bags[:, 0]

    def holds(self, test: Test) -> Tensor:  # (B, 1) bool
        """Which documents hold a word that passes."""
        found = row_index(self.lengths)[self.has("words", test)]
        return torch.zeros(len(self.lengths), dtype=torch.bool).index_fill(0, found, True).unsqueeze(-1)
