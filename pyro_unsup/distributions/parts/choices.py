"""The parts of structures that are choices: which word a word is linked to, and which cluster a document is in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from ...errors import StructureError
from ..ragged import offsets_of
from ..segments import row_index
from .base import Labels, Parts, Test

if TYPE_CHECKING:
    from ..alignment.grid import Grid, Words


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

    @cached_property
    def source_word(self) -> Tensor:
        """The number of the source word in its vocabulary, -1 for the null word."""
        words = self._known
        first = offsets_of(self.grid.source_lengths)[self.pair]
        return self._word(words.source, first + self.source - 1, self.source)

    @cached_property
    def target_word(self) -> Tensor:
        words = self._known
        return self._word(words.target, self.grid.targets[self.pair] + self.target - 1, self.target)

    def has(self, name: str, test: Test) -> Tensor:  # bool
        """Which links have a source word or a target word that passes, such as ``parts.has("source_word", {"the"})``.

        :param name: ``"source_word"`` or ``"target_word"``.
        :param test: words, or a function of one. Where the model has no vocabulary, numbers are their own.
        """
        if name not in ("source_word", "target_word"):
            raise StructureError(f"'{name}' has no labels: expected one of source_word, target_word")
        numbers: Tensor = getattr(self, name)
        passed = Labels(self._names(name == "target_word")).which(test, name)
        known = (numbers >= 0) & (numbers < len(passed))
        return known & passed[torch.where(known, numbers, 0)]

    def alike(self, key: Callable[[Any], Any]) -> Tensor:  # bool
        """Which links join words that look the same to a function, such as ``str.lower``. Words that are not known, and
        the null word, look like no other.

        :param key: from a word to anything that can be compared; None looks like no other.
        """
        seen: dict[Any, int] = {}
        codes = []
        for side, numbers in enumerate((self.source_word, self.target_word)):
            names = self._names(side == 1)
            code = torch.full((len(names) + 1,), -1 - side)  # of words that are not known, and of no word: the last
            for number in numbers.unique().tolist():
                look = key(names[number]) if 0 <= number < len(names) else None
                if look is not None:
                    code[number] = seen.setdefault(look, len(seen))
            codes.append(code[numbers.clamp(max=len(names))])  # -1 is the last
        return codes[0] == codes[1]

    @property
    def _known(self) -> Words:
        if self.grid.words is None:
            raise StructureError("these pairs do not tell their words: rules about words need a model of the library")
        return self.grid.words

    def _names(self, target: bool) -> Any:
        names = self._known.names[int(target)]
        return range(names) if isinstance(names, int) else names

    @staticmethod
    def _word(words: Tensor, place: Tensor, number: Tensor) -> Tensor:
        found = words.long()[place.clamp(min=0)] if len(words) else torch.zeros_like(place)
        return torch.where(number > 0, found, -1)

    def made_of(self) -> list[Tensor]:
        grid = self.grid
        words = [] if grid.words is None else [grid.words.source, grid.words.target]
        return [grid.source_lengths, grid.target_lengths, grid.pair, grid.place, self.turned, *words]

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
