"""New sentences without spaces, drawn by a segmenter."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..distributions import Segmentation
from ..models import Segmenter
from .draws import Values
from .table_draws import draw_outcomes

Array = np.ndarray[Any, Any]


class NewSymbols:
    """The symbols of a :class:`.Segmenter`: sentences of given lengths, made of segments that it knows.

    A sentence of n symbols is drawn from all sequences of known segments with n symbols in all, in proportion to their
    weight: the product of ``segments`` and the penalty of each. First come the cuts, with all segments of a width
    summed out, and then a segment for each width. The column of unknown segments has no spelling, and draws nothing.

    :param data: as the model takes them.
    """

    def __init__(self, model: Segmenter, data: Any) -> None:
        found = model.index(data)
        self._lengths, L = found.lengths, model.max_length
        self._penalty = model._length
        widths = torch.from_numpy(model.types.widths)
        known = (widths <= L).nonzero()[:, 0]
        self._by_width = known[torch.argsort(widths[known], stable=True)]  # (S',) types, short ones first
        counts = torch.bincount(widths[known], minlength=L + 1)[1:]
        self._last = counts.cumsum(0)  # (L,) where the types of each width end
        self._first = self._last - counts
        self._width = widths[self._by_width] - 1
        self._spelled = _spelled(model)  # (S, longest) from the last symbol back
        N = int(self._lengths.sum())
        ends = torch.cumsum(self._lengths, 0)
        start = torch.repeat_interleave(ends - self._lengths, self._lengths)
        room = torch.arange(N) - start + 1  # symbols of the sentence up to here
        width = torch.arange(L)
        self._cells = torch.where(width < room[:, None], width, -1)  # (N, L) segments by width alone
        self.observed = {"symbols": _symbols(model, found.cells)}
        self.owners = {"symbols": np.repeat(np.arange(len(self._lengths)), self._lengths)}

    def __call__(self, values: Values) -> dict[str, Tensor]:  # (n, symbols)
        """One data set a draw."""
        table = values["segments"][:, self._by_width].double()  # (n, S')
        n, L = len(table), self._cells.shape[1]
        mass = table.new_zeros(n, L).index_add(1, self._width, table)
        penalty = self._penalty.expand(n, 1, -1)
        stop = values["stop"].double().log()[:, None]
        cuts = Segmentation(mass.log()[:, None], penalty, stop, self._lengths)
        ends = cuts.posterior(self._cells).sample(generator=_generator())  # (n, N)
        # The end of the segment that each symbol is in, and the end of the one before it.
        N = ends.shape[1]
        number = torch.arange(N)
        after = torch.where(ends == 1, number, N).flip(-1).cummin(-1).values.flip(-1)
        before = torch.where(ends == 1, number, -1).cummax(-1).values
        previous = torch.nn.functional.pad(before[:, :-1], (1, 0), value=-1)  # the last end before each symbol
        width = after - previous.gather(-1, after) - 1  # less one, as columns are
        types = draw_outcomes(table, self._first[width], self._last[width])  # one a symbol; that at the end counts
        chosen = self._by_width[types.gather(-1, after)]
        return {"symbols": self._spelled[chosen, after - number]}


def _generator() -> torch.Generator:
    """A generator that goes on from the global one."""
    return torch.Generator().manual_seed(int(torch.randint(2**62, ())))


def _spelled(model: Segmenter) -> Tensor:  # (S, longest)
    """The symbols of every segment from the last one back; 0 beyond the first."""
    shorter, last = model.types.nodes.unbind(1)
    node, columns = model.types.chosen.clone(), []
    for _ in range(int(model.types.widths.max())):
        there = node >= 0
        columns.append(torch.where(there, last[node.clamp(min=0)], 0))
        node = torch.where(there, shorter[node.clamp(min=0)], -1)
    return torch.stack(columns, 1)


def _symbols(model: Segmenter, cells: Tensor) -> Array:  # (N, L) -> (N,)
    """The symbols of sentences: the last ones of any segment that ends there. One more than all, if none is known."""
    known = (cells >= 0) & (cells < len(model.types))
    which = torch.where(known, cells, -1).amax(-1).long()
    last = model.types.nodes[model.types.chosen[which.clamp(min=0)], 1]
    return np.asarray(torch.where(which >= 0, last, model.symbols))
