"""Grids of words: how the pairs of sentences that are to be aligned lie in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from ...errors import StructureError
from ..ragged import Rows as Ragged
from ..ragged import check_lengths, offsets_of

if TYPE_CHECKING:
    from ...kernels.alignment.rows import Rows, Trellises

T = TypeVar("T")

#: Rows lie pair by pair, in one shard.
NOT_GIVEN = torch.empty(0)
#: What refers to values, and what is as large as they are and quickly made again: it stays in its process.
_LEFT = {"fitting", "_by_way", "numbers", "owner"}


@dataclass(frozen=True, eq=False)
class Words:
    """Which words the pairs of sentences have.

    :param source: (source words,) the number of each, pair by pair.
    :param target: (target words,)
    :param names: what numbers of source words and of target words stand for: vocabularies, or how many words there are.
        A number behind the last one is a word that is not known.
    """

    source: Tensor
    target: Tensor
    names: tuple[Any, Any]

    def of(self, turned: bool) -> Tensor:
        """The words that may be chosen in one direction."""
        return self.target if turned else self.source


@dataclass(frozen=True, eq=False)
class Grid:
    """Pairs of sentences, each as a grid: source words down, target words across, the null word first in both.

    A pair of I source and J target words has I + 1 rows of J + 1 cells. Cells lie row by row, and rows pair by pair,
    unless told otherwise: any order of all rows will do, and that of the vocabulary is by far the fastest for a large
    table (rows that use the same part of it are neighbours then).

    In one direction target words choose among source words. ``turned``, source words choose among target words.

    :param source_lengths: (B,) I of each pair.
    :param target_lengths: (B,) J of each pair.
    :param pair: (rows,) the pair that each row belongs to.
    :param place: (rows,) which source word it is, from 1; 0 is the null word.
    :param cuts: (shards + 1,) cuts the rows into runs that have no cell of the table in common; each may have a thread
        of its own.
    :param words: which words these are, if that is known.

    >>> import torch
    >>> from pyro_unsup.distributions.alignment.grid import Grid
    >>> grid = Grid(torch.tensor([1, 2]), torch.tensor([2, 1]))
    >>> grid.place.tolist(), grid.starts.tolist()
    ([0, 1, 0, 1, 2], [0, 3, 6, 8, 10, 12])
    >>> grid.choices(turned=False).tolist()  # the cells of each target word; 12 is none
    [[1, 4, 12], [2, 5, 12], [7, 9, 11]]
    """

    source_lengths: Tensor
    target_lengths: Tensor
    pair: Tensor = NOT_GIVEN
    place: Tensor = NOT_GIVEN
    cuts: Tensor = NOT_GIVEN
    words: Words | None = None

    def __post_init__(self) -> None:
        for name in ("source_lengths", "target_lengths"):
            lengths = check_lengths(getattr(self, name))
            if lengths.dim() != 1:
                raise StructureError(f"{name} should have shape (B,), actual shape {tuple(lengths.shape)}")
            object.__setattr__(self, name, lengths)
        if len(self.source_lengths) != len(self.target_lengths):
            raise StructureError(
                f"{len(self.source_lengths)} source sentences but {len(self.target_lengths)} target sentences: "
                "they should come in pairs"
            )
        if self.pair is NOT_GIVEN:
            object.__setattr__(self, "pair", torch.repeat_interleave(self.source_lengths + 1))
            first = offsets_of(self.source_lengths + 1)
            object.__setattr__(self, "place", torch.arange(len(self.pair)) - first[self.pair])
        rows = int(self.source_lengths.sum()) + len(self.source_lengths)
        if self.pair.shape != (rows,) or self.place.shape != (rows,):
            raise StructureError(f"expected {rows} rows with a pair and a place each, actual {tuple(self.pair.shape)}")
        if self.cuts is NOT_GIVEN:
            object.__setattr__(self, "cuts", torch.tensor([0, rows]))

    def __len__(self) -> int:
        return len(self.source_lengths)

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in self.__dict__.items() if key not in _LEFT}

    @cached_property
    def cells(self) -> int:
        """How many cells there are in all."""
        return int(((self.source_lengths + 1) * (self.target_lengths + 1)).sum())

    @cached_property
    def starts(self) -> Tensor:  # (rows + 1,)
        """Where the cells of each row begin, and where the last ones end."""
        return offsets_of(self.target_lengths[self.pair] + 1)

    @cached_property
    def null_column(self) -> Tensor:  # (source words,)
        """The cells in which source words choose the null word."""
        return self.starts[:-1][self.place > 0]

    @cached_property
    def targets(self) -> Tensor:  # (B + 1,)
        """Where the target words of each pair begin."""
        return offsets_of(self.target_lengths)

    @cached_property
    def rows(self) -> Rows:
        """The same for the kernels."""
        from ...kernels.alignment.rows import Rows

        return Rows.of(self)

    @cached_property
    def trellises(self) -> Trellises:
        """The rows of each pair, for the kernels."""
        from ...kernels.alignment.rows import Trellises

        return Trellises.of(self)

    @cached_property
    def fitting(self) -> dict[bool, tuple[Callable[[], Tensor | None], int, int]]:
        """Which value was found to fit a table of which size, by direction: it need not be looked at in every sweep."""
        return {}

    @cached_property
    def numbers(self) -> Tensor:  # (cells,) int32
        """Every cell by a number of its own."""
        return torch.arange(self.cells, dtype=torch.int32)

    @cached_property
    def owner(self) -> Tensor:  # (cells,)
        """The pair of every cell."""
        return torch.repeat_interleave(self.pair, self.target_lengths[self.pair] + 1)

    def parts(self) -> tuple[Tensor, Tensor]:  # (cells,), (cells,)
        """The row and the column of every cell; column 0 is the null word."""
        row = torch.repeat_interleave(self.target_lengths[self.pair] + 1)
        return row, torch.arange(len(row)) - self.starts[row]

    # -- one direction

    def choosers(self, turned: bool) -> Tensor:  # (B,)
        """How many words of each pair choose."""
        return self.source_lengths if turned else self.target_lengths

    def chosen(self, turned: bool) -> Tensor:  # (B,)
        """Among how many words they choose, the null word left out."""
        return self.target_lengths if turned else self.source_lengths

    def widest(self, turned: bool) -> int:
        """The largest of those numbers."""
        return self._once("widest", turned, lambda: int(self.chosen(turned).max()) if len(self) else 0)

    def used(self, turned: bool) -> Tensor:  # (cells,) bool
        """The cells that one direction uses: all but those of the other's null words."""
        return self._once("used", turned, lambda: self._inner(turned))

    def null(self, turned: bool) -> Tensor:  # (cells,) bool
        """The cells of its own null words."""
        return self._once("null", turned, lambda: ~self._inner(not turned))

    def _inner(self, turned: bool) -> Tensor:  # (cells,) bool
        row, column = self.parts()
        return (self.place[row] if turned else column) > 0

    def choices(self, turned: bool) -> Tensor:  # (words that choose, widest + 1)
        """The cells that each word may choose, the null word first, then words as they stand in their sentence.

        Words that choose come pair by pair. Where there is no choice, the number of all cells stands.
        """
        return self._once("choices", turned, lambda: self._choices(turned))

    def _choices(self, turned: bool) -> Tensor:
        order, first = self._by_pair
        words, size = Ragged(self.choosers(turned)), self.chosen(turned)
        pair, t = words.owner.unsqueeze(-1), words.position.unsqueeze(-1) + 1
        other = torch.arange(self.widest(turned) + 1)
        there = other <= size[pair]
        down, across = (t, other) if turned else (torch.minimum(other, size[pair]), t)
        return torch.where(there, self.starts[order[first[pair] + down]] + across, self.cells)

    def _once(self, what: str, turned: bool, make: Callable[[], T]) -> T:
        known = self.__dict__.setdefault("_by_way", {})
        if (what, turned) not in known:
            known[what, turned] = make()
        found: T = known[what, turned]
        return found

    # -- some pairs

    @cached_property
    def _by_pair(self) -> tuple[Tensor, Tensor]:  # (rows,), (B,)
        """Rows pair by pair, by their place; and where the rows of each pair begin among them."""
        widest = int(self.source_lengths.max()) + 1 if len(self) else 1
        return torch.argsort(self.pair * widest + self.place), offsets_of(self.source_lengths + 1)[:-1]

    def select(self, pairs: Tensor) -> tuple[Grid, Tensor]:  # (n,) -> its grids, (their cells,)
        """The grids of some pairs, rows pair by pair; and where their cells lie in this one."""
        order, first = self._by_pair
        rows = order[ranges(first[pairs], self.source_lengths[pairs] + 1)]
        cells = ranges(self.starts[rows], self.target_lengths[self.pair[rows]] + 1)
        return Grid(self.source_lengths[pairs], self.target_lengths[pairs], words=self._words(pairs)), cells

    def _words(self, pairs: Tensor) -> Words | None:
        if self.words is None:
            return None
        one, other = (
            words[ranges(offsets_of(sizes)[:-1][pairs], sizes[pairs])]
            for words, sizes in ((self.words.source, self.source_lengths), (self.words.target, self.target_lengths))
        )
        return Words(one, other, self.words.names)


def ranges(starts: Tensor, sizes: Tensor) -> Tensor:  # (n,), (n,) -> (sum of sizes,)
    """All numbers from each start on, so many of each."""
    shift = starts - offsets_of(sizes)[:-1]
    return torch.arange(int(sizes.sum())) + torch.repeat_interleave(shift, sizes)
