"""The words of two languages that occur together, numbered."""

from __future__ import annotations

from collections.abc import Sized
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..distributions.alignment.grid import Grid, Words
from ..errors import StructureError
from ..tables import Axis
from .pairs import Pairs

#: How many threads could share a large text.
SHARDS = 4


class Lexicon:
    """Which target words each source word meets: the cells of a translation table, row by row.

    Two words meet if a pair of sentences has one on either side. There are as many numbers as meetings, never as many
    as pairs of words. The table of the other direction has the same meetings by target words (:attr:`turned`).

    :param source: how many source words there are.
    :param target: how many target words.
    :param sizes: (source,) how many target words each source word meets.
    :param met: (P,) int32, those target words, in order for each source word.

    >>> import torch
    >>> from pyro_unsup.models.lexicon import Lexicon
    >>> words, lengths = torch.tensor([0, 1, 0]), torch.tensor([2, 1])
    >>> lexicon = Lexicon.of(words, lengths, torch.tensor([0, 2, 0]), torch.tensor([2, 1]), 2, 3)
    >>> lexicon.sizes.tolist(), lexicon.met.tolist()
    ([2, 2], [0, 2, 0, 2])
    """

    def __init__(self, source: int, target: int, sizes: Tensor, met: Tensor) -> None:
        self.source, self.target, self.sizes, self.met = source, target, sizes, met
        if sizes.shape != (source,) or sizes.dtype != torch.int64 or met.dtype != torch.int32 or met.dim() != 1:
            raise StructureError(
                f"a lexicon has an int64 size for each of its {source} source words, and int32 words that they meet, "
                f"actual {tuple(sizes.shape)} {sizes.dtype}, {tuple(met.shape)} {met.dtype}"
            )
        if len(met) == 0 or int(sizes.min()) < 0 or int(sizes.sum()) != len(met):
            raise StructureError(f"the sizes add up to {int(sizes.sum())}, but {len(met)} words are met")
        self.offsets = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
        rises = (met[1:] > met[:-1]).clone()
        inner = self.offsets[1:-1]
        rises[inner[(inner > 0) & (inner < len(met))] - 1] = True
        if int(met.min()) < 0 or int(met.max()) >= target or not bool(rises.all()):
            raise StructureError(f"the words that a word meets should rise, within 0 .. {target - 1}")

    @staticmethod
    def of(
        source: Tensor,  # (tokens,)
        source_lengths: Tensor,  # (B,)
        target: Tensor,
        target_lengths: Tensor,
        source_size: int,
        target_size: int,
    ) -> Lexicon:
        """The meetings in these pairs of sentences."""
        from ..kernels.lexicon import meetings, sort_by

        grid = Grid(source_lengths, target_lengths)
        _check("source", source, source_lengths, source_size - 1)
        _check("target", target, target_lengths, target_size - 1)
        order, at = sort_by(_row_words(source, grid, source_size), source_size + 1)
        pair = grid.pair.numpy()[order[: at[source_size]]]
        sizes, met = meetings(at[: source_size + 1], pair, grid.targets.numpy(), target.int().numpy(), target_size)
        if len(met) == 0:
            raise StructureError("no two words meet: expected a pair of sentences with words on both sides")
        return Lexicon(source_size, target_size, torch.from_numpy(sizes), torch.from_numpy(met))

    def __len__(self) -> int:
        return len(self.met)

    @cached_property
    def _turned(self) -> tuple[Array, Array]:  # (target,), (P + source,)
        from ..kernels.lexicon import turn

        place = np.empty(len(self) + self.source, np.int32 if len(self) + self.source < 2**31 else np.int64)
        place[len(self) :] = np.arange(len(self), len(place))
        return turn(self.met.numpy(), self.target, place), place

    @property
    def turned_sizes(self) -> Tensor:  # (target,)
        """How many source words each target word meets."""
        return torch.from_numpy(self._turned[0])

    @property
    def turned(self) -> Tensor:  # (P + source,)
        """The number of each meeting by target words; and of each source word that meets the null word, after those."""
        return torch.from_numpy(self._turned[1])

    def from_turned(self, table: Tensor) -> Tensor:  # (*batch, P + source) -> the same
        """A table by target words, and of the null word last, in the order of one by source words."""
        result: Tensor = _Permuted.apply(table, self._turned[1], self._turned_back)
        return result

    @cached_property
    def _turned_back(self) -> Array:  # (P + source,)
        back = np.empty_like(self._turned[1])
        back[self._turned[1]] = np.arange(len(back), dtype=back.dtype)
        return back

    def find(
        self,
        source: Tensor,
        source_lengths: Tensor,
        target: Tensor,
        target_lengths: Tensor,
        names: tuple[Any, Any] | None = None,
    ) -> Pairs:
        """Pairs of sentences by the numbers of this lexicon, rows in the order of their words.

        :param source: (tokens,) one more than the last source word stands for words that are not known.
        :param target: (tokens,), likewise.
        :param names: the vocabularies, for rules that ask for words.
        """
        from ..kernels.lexicon import number_cells, sort_by

        given = Grid(source_lengths, target_lengths)
        _check("source", source, source_lengths, self.source)
        _check("target", target, target_lengths, self.target)
        words = _row_words(source, given, self.source)
        words[words == self.source] += (given.place.numpy() > 0)[words == self.source]  # the unknown come last
        order, at = sort_by(words, self.source + 2)
        pair, place = (torch.from_numpy(x.numpy()[order]) for x in (given.pair, given.place))
        grid = Grid(source_lengths, target_lengths, pair, place)
        starts = grid.starts.numpy()
        wide = len(self) + max(self.source, self.target) >= 2**31
        cells = np.full(int(starts[-1]), -1, np.int64 if wide else np.int32)
        where = (at[: self.source + 2], starts, pair.numpy(), grid.targets.numpy(), target.int().numpy())
        number_cells(*where, self.offsets.numpy(), self.met.numpy(), self.target, cells)
        even = np.searchsorted(starts[at], starts[-1] * np.arange(1, SHARDS) / SHARDS)
        cuts = np.unique(np.concatenate([[0], at[even], [len(order)]]))
        known = Words(source, target, names or (self.source, self.target))
        whole = Grid(source_lengths, target_lengths, pair, place, torch.from_numpy(cuts), known)
        return Pairs(whole, torch.from_numpy(cells))

    def renumber(self, pairs: Pairs) -> tuple[Pairs, Tensor, Tensor, Tensor]:
        """A few pairs, with cells numbered anew. The time depends on these pairs, not on the size of the lexicon.

        :return: the pairs; the numbers here of what they use: two words, target words that meet the null word, and
            source words that do.
        """
        from ..kernels.lexicon import renumber

        rows, cells = pairs.grid.rows, pairs.cells.numpy()
        new, used = np.empty_like(cells), np.empty((3, len(cells)), np.int64)
        sizes = renumber(cells, rows.starts, rows.null, self._scratch, self.target, used, new)
        links, targets, sources = (torch.from_numpy(x[:n].copy()) for x, n in zip(used, sizes, strict=True))
        return Pairs(pairs.grid, torch.from_numpy(new)), links, targets, sources

    @cached_property
    def _scratch(self) -> Array:
        return np.full(len(self) + self.target + self.source, -1, np.int32)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_scratch"}

    def __repr__(self) -> str:
        return f"Lexicon({self.source:,} x {self.target:,} words, {len(self):,} pairs that meet)"


class _Permuted(torch.autograd.Function):
    """A large table in another order. No cell is repeated, so the gradient is reordered back without any sum."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, order: Array, inverse: Array) -> Tensor:
        from ..kernels.lexicon import scatter

        ctx.order, ctx.inverse = order, inverse
        if table.dim() > 1:
            return table[..., torch.from_numpy(order).long()]
        return torch.from_numpy(scatter(table.detach().contiguous().numpy(), inverse))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Permuted.apply(grad, ctx.inverse, ctx.order), None, None


class _Joined(torch.autograd.Function):
    """The first cells of two large tables added up, the others as they are. The map is symmetric: it is its own
    gradient."""

    @staticmethod
    def forward(ctx: Any, one: Tensor, other: Tensor, shared: int) -> tuple[Tensor, Tensor]:
        from ..kernels.lexicon import add

        ctx.shared = shared
        if one.dim() > 1 or other.dim() > 1:
            both = one[..., :shared] + other[..., :shared]
            return torch.cat([both, one[..., shared:]], -1), torch.cat([both, other[..., shared:]], -1)
        first, second = add(one.detach().contiguous().numpy(), other.detach().contiguous().numpy(), shared)
        return torch.from_numpy(first), torch.from_numpy(second)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        return *_Joined.apply(*grads, ctx.shared), None


def join(one: Tensor, other: Tensor, shared: int) -> tuple[Tensor, Tensor]:  # (*batch, C), (*batch, C')
    """Two tables of log-weights whose first cells stand for the same: each gets the sum there, and keeps its others.

    >>> import torch
    >>> from pyro_unsup.models.lexicon import join
    >>> join(torch.tensor([1, 2, 3]), torch.tensor([10, 20, 30]), 2)
    (tensor([11, 22,  3]), tensor([11, 22, 30]))
    """
    found: tuple[Tensor, Tensor] = _Joined.apply(one, other, shared)
    return found


def _row_words(source: Tensor, grid: Grid, null: int) -> Array:  # (tokens,) -> (rows,)
    """The word of each row, and a number of its own for the null word."""
    words = np.full(len(grid.pair), null, np.int64)
    words[grid.place.numpy() > 0] = source.numpy()
    return words


def _check(name: str, words: Tensor, lengths: Tensor, most: int) -> None:
    if words.dim() != 1 or len(words) != int(lengths.sum()):
        raise StructureError(f"the {name} lengths add up to {int(lengths.sum())}, actual words {tuple(words.shape)}")
    if len(words) and (int(words.min()) < 0 or int(words.max()) > most):
        raise StructureError(
            f"{name} words must lie in 0 .. {most}, actual range {int(words.min())} .. {int(words.max())}"
        )


def lexicon_axes(lexicon: Lexicon, source: int | Sized, target: int | Sized) -> dict[str, tuple[Axis, Axis]]:
    """The axes of a table by source words (``"forward"``) and of one by target words (``"backward"``).

    Words are labels; that of the null word is empty.
    """
    rows = {
        name: Axis(name, partial(_rows, lexicon, words, sizes))
        for name, words, sizes in (("source", source, "sizes"), ("target", target, "turned_sizes"))
    }
    return {
        "forward": (rows["source"], Axis("target", target, partial(_met, lexicon))),
        "backward": (rows["target"], Axis("source", source, partial(_met_back, lexicon))),
    }


def _rows(lexicon: Lexicon, words: Any, sizes: str) -> list[Any]:
    names = range(words) if isinstance(words, int) else words
    return [*(names[i] for i in getattr(lexicon, sizes).nonzero()[:, 0].tolist()), ""]


def _met(lexicon: Lexicon) -> Tensor:  # (P + target,)
    return torch.cat([lexicon.met.long(), torch.arange(lexicon.target)])


def _met_back(lexicon: Lexicon) -> Tensor:  # (P + source,)
    words = torch.repeat_interleave(torch.arange(lexicon.source), lexicon.sizes)
    cells = torch.empty_like(words)
    cells[lexicon.turned[: len(lexicon)].long()] = words
    return torch.cat([cells, torch.arange(lexicon.source)])
