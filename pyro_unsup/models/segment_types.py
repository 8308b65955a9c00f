"""The segments that a model knows, numbered; and sentences as the numbers of all their segments."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..distributions.ragged import offsets_of
from ..errors import StructureError
from .base import Examples


class Segments(Examples):
    """Sentences as the model sees them.

    :param cells: (symbols, L) int32, the number of the segment that ends at each symbol, by its length; -1 where that
        reaches back beyond the start of the sentence.
    :param lengths: (B,) symbols in each sentence.
    """


class SegmentTypes:
    """Which sequences of symbols are segments, and by what numbers.

    They are nodes in a tree of prefixes: each is a shorter node and one symbol more, so that a list of pairs holds them
    all, the number of the shorter node (-1 for none) and the last symbol. A node comes after the shorter one; not every
    node need be a segment. Those of a text are numbered as they first occur, so that what a sentence uses lies close
    together.

    :param symbols: how many symbols there are.
    :param nodes: (N, 2) int64.
    :param chosen: (S,) int64, the nodes that are segments, in the order of their numbers; all of them if not given.

    >>> import torch
    >>> from pyro_unsup.models.segment_types import SegmentTypes
    >>> known, segments = SegmentTypes.of(torch.tensor([1, 0, 1]), torch.tensor([3]), symbols=2, longest=2)
    >>> known.nodes.tolist()  # 1, 10, 0, 01
    [[-1, 1], [0, 0], [-1, 0], [2, 1]]
    >>> segments.cells.tolist()
    [[0, -1], [2, 1], [0, 3]]
    >>> known.find(torch.tensor([1, 1]), torch.tensor([2]), longest=2).cells.tolist()  # 11 is not known
    [[0, -1], [0, 4]]
    """

    def __init__(self, symbols: int, nodes: Tensor, chosen: Tensor | None = None) -> None:
        from ..kernels.prefixes import table_of  # numba loads when it is first needed

        if nodes.dim() != 2 or nodes.shape[1] != 2 or len(nodes) == 0 or nodes.dtype != torch.int64:
            shape = tuple(nodes.shape)
            raise StructureError(f"nodes should be pairs of int64, shape (n, 2), actual {shape}, {nodes.dtype}")
        self.symbols, self.nodes = symbols, nodes
        self.chosen = torch.arange(len(nodes)) if chosen is None else chosen
        shorter, last = nodes.numpy().T
        if last.min() < 0 or last.max() >= symbols:
            raise StructureError(
                f"nodes should name symbols 0 .. {symbols - 1}, actual range {last.min()} .. {last.max()}"
            )
        if shorter.min() < -1 or bool((shorter >= np.arange(len(nodes))).any()):
            raise StructureError("nodes should go on from -1 or from an earlier node, found one that does not")
        *self._table, twice = table_of(np.ascontiguousarray(nodes.numpy()), len(nodes), symbols)
        if twice >= 0:
            raise StructureError(f"nodes must be all different, found {nodes[twice].tolist()} twice")
        order = self.chosen.numpy()
        if order.ndim != 1 or len(order) == 0 or order.dtype != np.int64:
            raise StructureError("the nodes that are segments should be a vector of int64, at least one")
        if order.min() < 0 or order.max() >= len(nodes) or np.bincount(order).max() > 1:
            raise StructureError(f"the nodes that are segments should be among the {len(nodes)}, each once")
        self._number = np.full(len(nodes), len(order), np.int32)  # of each node
        self._number[order] = np.arange(len(order))

    def __len__(self) -> int:
        return len(self.chosen)

    @staticmethod
    def of(words: Tensor, lengths: Tensor, symbols: int, longest: int) -> tuple[SegmentTypes, Segments]:
        """All sequences of at most ``longest`` symbols in these sentences, and the sentences by their numbers.

        :param words: (symbols in all,) the sentences end to end, at least one symbol.
        :param lengths: (B,).
        """
        counts = lengths.numpy()
        ends = np.repeat(np.cumsum(counts), counts)
        nodes, cells = _grow(words.numpy(), np.arange(len(words)), ends, symbols, longest)
        return SegmentTypes(symbols, torch.from_numpy(nodes)), Segments(torch.from_numpy(cells), lengths)

    @staticmethod
    def listed(segments: Sequence[Sequence[int]], symbols: int) -> SegmentTypes:
        """These sequences of symbol numbers."""
        sizes = np.array([len(one) for one in segments], np.int64)
        if len(sizes) == 0 or sizes.min() < 1:
            raise StructureError("a lexicon needs at least one segment, and each at least one symbol")
        words, ends = np.concatenate([np.asarray(one, np.int64) for one in segments]), np.cumsum(sizes)
        if words.min() < 0 or words.max() >= symbols:
            raise StructureError(f"symbols must lie in 0 .. {symbols - 1}, actual range {words.min()} .. {words.max()}")
        nodes, cells = _grow(words, ends - sizes, ends, symbols, int(sizes.max()))
        chosen = np.unique(cells[ends - 1, sizes - 1]).astype(np.int64)
        return SegmentTypes(symbols, torch.from_numpy(nodes), torch.from_numpy(chosen))

    def find(self, words: Tensor, lengths: Tensor, longest: int) -> Segments:  # (symbols in all,), (B,)
        """Sentences by the numbers of their segments; how many there are, where a segment is not known.

        :param words: symbol numbers; those beyond the last symbol are in no segment that is known.
        """
        from ..kernels.prefixes import look_up

        cells = np.empty((len(words), longest), np.int32)
        flat, offsets = np.ascontiguousarray(words.numpy(), np.int64), offsets_of(lengths).numpy()
        look_up(*self._table, self._number, len(self), flat, offsets, self.symbols, cells)
        return Segments(torch.from_numpy(cells), lengths)

    @cached_property
    def widths(self) -> Array:  # (S,)
        """Symbols in each segment."""
        shorter = self.nodes[:, 0].numpy()
        every = np.zeros(len(shorter), np.int64)
        while not every.all():
            every = np.where(shorter < 0, 1, np.where(every[shorter] > 0, every[shorter] + 1, 0))
        found: Array = every[self.chosen.numpy()]
        return found

    def strings(self, names: Sequence[str], between: str = "") -> list[str]:
        """The segments as strings, by the names of the symbols, with perhaps something between those."""
        return self._joined(names, between)

    def labels(self, names: Any) -> list[Any]:  # S + 1
        """The segments by the names of their symbols, and the empty one for whatever is not known.

        Strings where every symbol is one character, else tuples of symbols.
        """
        parts = list(names)
        if not all(isinstance(one, str) and len(one) == 1 for one in parts):
            parts = [(one,) for one in parts]
        empty = parts[0][:0]
        return [*self._joined(parts, empty), empty]

    def _joined(self, parts: Sequence[Any], between: Any) -> list[Any]:
        found: list[Any] = []
        for shorter, last in self.nodes.tolist():
            found.append(found[shorter] + between + parts[last] if shorter >= 0 else parts[last])
        return [found[node] for node in self.chosen.tolist()]


def _grow(words: Array, starts: Array, ends: Array, symbols: int, longest: int) -> tuple[Array, Array]:
    """The nodes of all sequences that begin at some places, and their numbers by last symbol and length."""
    from ..kernels.prefixes import grow

    cells = np.full((len(words), longest), -1, np.int32)
    nodes = grow(np.ascontiguousarray(words, np.int64), starts, ends, symbols, longest, cells)
    return nodes, cells
