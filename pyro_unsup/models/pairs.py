"""What a model of sentences and their translations accepts as data, and what it makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..distributions.alignment.grid import Grid
from ..errors import StructureError


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of sentences as a model sees them.

    :param grid: how their words lie.
    :param cells: (cells,) the number of each pair of words: below the size of the lexicon, two words that it has; from
        there on the null word with one, the target word if the row is that of the null word, the source word if the
        column is; -1 for two words that have never met, and where two null words would.
    """

    grid: Grid
    cells: Tensor

    def __len__(self) -> int:
        return len(self.grid)

    @property
    def lengths(self) -> Tensor:  # (B,)
        """Words in each pair."""
        return self.grid.source_lengths + self.grid.target_lengths

    @cached_property
    def unseen(self) -> bool:
        """Whether there are words that the lexicon does not have, or that have never met."""
        return int((self.cells < 0).sum()) > len(self)

    def select(self, indices: Any) -> Pairs:
        """Some of the pairs, in any order."""
        grid, where = self.grid.select(torch.as_tensor(np.asarray(indices, dtype=np.int64)))
        return Pairs(grid, self.cells[where])


def sides(bitext: Any) -> tuple[Any, Any]:
    """The source and the target sentences of a bitext, or of a tuple of the two."""
    if hasattr(bitext, "source") and hasattr(bitext, "target"):
        return bitext.source, bitext.target
    if isinstance(bitext, tuple) and len(bitext) == 2:
        return bitext
    raise StructureError(
        f"expected pairs of sentences: a bitext, or a tuple of source and target sentences, actual {type(bitext)}"
    )


def check_vocab(given: Any, known: Any, name: str) -> None:
    """Raise unless sentences number their words as the model does; plain numbers are taken at their word."""
    if given is None or isinstance(known, int) or given is known or list(given) == list(known):
        return
    raise StructureError(
        f"the {name} sentences number their words by another vocabulary than the model's: re-encode them, "
        "corpus.with_vocab(...)"
    )
