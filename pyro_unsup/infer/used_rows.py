"""Which rows of a table each example uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..estimate.table_rows import TableRows
from .own_weights import OwnExpectation


@dataclass(frozen=True)
class Pairs:
    """The pairs of an example and a row that it uses, of one table, sorted by example. Their cells lie end to end.

    :param examples: (pairs,)
    :param rows: (pairs,) numbers among the rows that have a choice (:class:`.TableRows`).
    :param offsets: (pairs + 1,) where the cells of each pair begin.
    :param cuts: (all examples + 1,) where the cells of each example begin.
    :param places: (cells of all pairs,) where they lie in tables side by side, (all examples, cells of a table).
    """

    examples: Array
    rows: Array
    offsets: Array
    cuts: Array
    places: Tensor

    @staticmethod
    def of(table: TableRows, examples: Array, rows: Array, many: int) -> Pairs:
        """:param many: how many examples there are."""
        lengths = np.diff(table.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        cuts = offsets[np.searchsorted(examples, np.arange(many + 1))]
        cells = torch.from_numpy(np.repeat(table.offsets[rows] - offsets[:-1], lengths) + np.arange(offsets[-1]))
        own = cells if table.cells is None else table.cells[cells]
        begin = torch.from_numpy(np.repeat(examples * table.layout.shape.numel(), lengths))
        return Pairs(examples, rows, offsets, cuts, own + begin)

    def tables(self, values: Array, others: Tensor, first: int, last: int) -> Tensor:  # (last - first, *others.shape)
        """Tables of some examples: the values of the rows that they use, and placeholders in the other rows."""
        found = others.expand(last - first, *others.shape).clone()
        mine, places = self._of(first, last, others.numel())
        found.view(-1)[places] = torch.from_numpy(values[mine]).to(others.dtype)
        return found

    def gather(self, tables: Tensor, first: int, last: int) -> tuple[slice, Array]:  # (last - first, *layout.shape)
        """The cells of the pairs of some examples: which they are among all, and what they are."""
        mine, places = self._of(first, last, tables[0].numel())
        return mine, tables.flatten()[places].double().numpy()

    def _of(self, first: int, last: int, cells: int) -> tuple[slice, Tensor]:
        mine = slice(int(self.cuts[first]), int(self.cuts[last]))
        return mine, self.places[mine] - first * cells


def used_rows(
    expect: OwnExpectation, uniform: Mapping[str, Tensor], tables: Mapping[str, TableRows]
) -> dict[str, tuple[Array, Array]]:
    """By table, the pairs of an example and a row that it uses, two of (pairs,), sorted by example.

    They are those with expected counts under uniform weights: where no allowed outcome has weight zero, a row without
    counts has no part in any structure.
    """
    found: dict[str, list[tuple[Array, Array]]] = {name: [] for name in tables}

    def even(first: int, last: int) -> dict[str, Tensor]:
        return {name: w.expand(last - first, *w.shape) for name, w in uniform.items()}

    for first, _, one in expect(even, 0):
        for name, rows in tables.items():
            flat = one.counts[name].flatten(1)
            cells = (flat if rows.cells is None else flat[:, rows.cells]).numpy()
            examples, numbers = np.nonzero(np.add.reduceat(cells, rows.offsets[:-1], axis=1) > 0)
            found[name].append((examples + first, numbers))
    return {
        name: (np.concatenate([a for a, _ in each]), np.concatenate([b for _, b in each]))
        for name, each in found.items()
    }
