"""The parts of structures that are choices: which word a word is linked to, and which cluster a document is in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Size, Tensor

from ..segments import row_index
from .base import Parts, Test

if TYPE_CHECKING:
    from ..alignment.grid import Grid


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
