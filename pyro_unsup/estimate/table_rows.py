"""The rows of any table as flat arrays: dense, with a support, or ragged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..errors import TableError
from ..tables import Declaration, Layout


@dataclass(frozen=True)
class TableRows:
    """The cells of rows that have a choice, two outcomes or more, row by row.

    A row with one allowed outcome is certain, whatever is believed about it: its weight is 1.

    :param numbers: (rows,) which rows of the table these are.
    :param offsets: (rows + 1,) int64, where each begins.
    :param cells: (cells,) where each cell lies in the flattened table; None if all of them are here.
    """

    layout: Layout
    numbers: Array
    offsets: Array
    cells: Tensor | None

    @staticmethod
    def of(layout: Layout) -> TableRows:
        """The rows of a table."""
        if layout.row_lengths is None and layout.support is None:
            count, size = layout.rows.numel(), layout.shape[-1]
            kept = np.arange(count if size > 1 else 0)
            cells = None if size > 1 else torch.zeros(0, dtype=torch.long)
            return TableRows(layout, kept, np.arange(len(kept) + 1) * size, cells)
        lengths = layout.row_lengths if layout.support is None else layout.support.sum(-1).flatten()
        assert lengths is not None
        free = lengths > 1
        offsets = np.concatenate([[0], np.cumsum(lengths[free].numpy())]).astype(np.int64)
        cells = None
        if layout.support is not None:
            cells = (layout.support.flatten(0, -2) & free[:, None]).flatten().nonzero().squeeze(-1)
        elif not bool(free.all()):
            cells = free.repeat_interleave(lengths).nonzero().squeeze(-1)
        return TableRows(layout, free.nonzero().squeeze(-1).numpy(), offsets, cells)

    def gather(self, table: Tensor) -> Array:  # layout.shape -> (cells,) float64
        """The cells of a table; never the table's own memory."""
        flat = table.detach().double().flatten()
        return (flat.clone() if self.cells is None else flat[self.cells]).numpy()

    def scatter(self, x: Tensor) -> Tensor:  # (*batch, cells) -> (*batch, *layout.shape)
        """Log-weights put in their places; rows without a choice have weight 1, structural zeros 0."""
        shape = (*x.shape[:-1], *self.layout.shape)
        if self.cells is None:
            return x.reshape(shape)
        certain = self.layout.mask(torch.zeros(self.layout.shape, dtype=x.dtype)).flatten()
        return certain.expand(*x.shape[:-1], -1).index_copy(-1, self.cells, x).reshape(shape)

    def patterns(self, declaration: Declaration) -> tuple[Tensor, Tensor]:
        """Which outcomes rows have: (some, N) each way there is, -1 beyond its end, and (rows,) the way of each row."""
        layout, count = self.layout, len(self.numbers)
        if layout.row_lengths is None and layout.support is None:
            return torch.arange(layout.shape[-1])[None], torch.zeros(count, dtype=torch.long)
        if layout.support is not None:
            ways, which = torch.unique(layout.support.flatten(0, -2)[self.numbers], dim=0, return_inverse=True)
            order = torch.argsort(~ways, dim=-1, stable=True)  # allowed outcomes first
            padded = order.where(ways.gather(-1, order), -1)
            return padded[:, : int(ways.sum(-1).max())], which
        axes = declaration.axes
        if axes is None or axes[-1].cells is None:
            raise TableError(
                f"table '{declaration.name}': a covariance between the outcomes of a ragged table needs to know which "
                "outcome each cell is: declare its axes, or use covariance='diagonal'"
            )
        columns = axes[-1].cells if self.cells is None else axes[-1].cells[self.cells]
        lengths = torch.from_numpy(np.diff(self.offsets))
        padded = torch.full((count, int(lengths.max())), -1, dtype=torch.long)
        padded[torch.arange(padded.shape[1]) < lengths[:, None]] = columns.long()
        return padded, torch.arange(count)
