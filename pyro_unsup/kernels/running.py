"""Running counts of one table, as the passes of stepwise EM change them in place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..array import Array

#: What compiled code wants to know of a table: its cells, the sums of its rows, the pseudo-counts of each row, and of
#: each cell.
Flat = tuple[Array, Array, Array, float]


@dataclass(frozen=True)
class RunningCounts:
    """Counts of a table up to a scale that all tables share. Weights are ``cells + extra / scale``, over their rows.

    :param cells: (outcomes, *rows) float64, one outcome of all rows after the other; (cells,) of a ragged table.
    :param row_sums: (*rows,).
    :param extra: pseudo-counts of every cell.
    :param row_extra: (*rows,) those of a row together.
    """

    cells: Array
    row_sums: Array
    extra: float
    row_extra: Array

    @property
    def flat(self) -> Flat:
        """The same, each array with one axis."""
        return self.cells.reshape(-1), self.row_sums.reshape(-1), self.row_extra.reshape(-1), self.extra

    @property
    def possible(self) -> bool:
        """Whether no row is empty. It stays so, for counts only grow before their scale is folded into them."""
        return bool((self.row_sums + self.row_extra > 0).all())


@dataclass(frozen=True)
class Place:
    """Where a weight of a distribution lies in a table.

    :param cells: of the weight's shape: which of the cells of the running counts each is, -1 for one that is
        impossible.
    :param table: how many rows the table has.
    :param ends: (rows,) where the rows of a ragged table end; None if it is dense.
    """

    cells: Array
    table: int
    ends: Array | None = None

    @cached_property
    def rows(self) -> Array:
        """The row of each cell; any, of those that are impossible."""
        found: Array = self.cells % self.table if self.ends is None else np.searchsorted(self.ends, self.cells, "right")
        return found

    @property
    def columns(self) -> Array | None:  # (n,)
        """Which outcomes of the table it has, if it has them in all rows, row by row; None if not."""
        if self.ends is not None or self.cells.size % self.table:
            return None
        cells = self.cells.reshape(self.table, -1)
        found: Array = cells[0] // self.table
        expected = found * self.table + np.arange(self.table)[:, None]
        return found if np.array_equal(cells, expected) else None

    @property
    def whole(self) -> bool:
        """Whether it is the whole table, as it lies."""
        found = self.columns
        return found is not None and np.array_equal(found, np.arange(len(found)))
