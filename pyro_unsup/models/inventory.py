"""The yields and contexts that sentences have, numbered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..errors import StructureError
from ..tables import Axis

#: What rows are for, and what stands for yields and contexts that are not known.
KINDS, UNKNOWN = ("distituent", "constituent"), ("<unknown>",)


@dataclass(frozen=True)
class Found:
    """Yield and context of every span, numbered; and the lengths of the sentences.

    :param yields: (spans,) one more than the last known one where a yield is not known.
    :param contexts: (spans,) likewise.
    :param widths: (spans,).
    :param lengths: (B,).
    """

    yields: Array
    contexts: Array
    widths: Array
    lengths: Array


class Inventory:
    """Which yields (sequences of symbols) and contexts (a symbol on either side) are known, and by what numbers.

    Yields go from narrow to wide, and among those of one width as they first occur, so that what a sentence uses lies
    close together. Each but the single symbols is a narrower yield and one symbol more, so that a list of pairs holds
    them all: the number of the narrower one (-1 for none) and the last symbol. Contexts are pairs of symbols; where
    there is none, before the first word or after the last, the number of symbols stands for it. As that is on the left
    or on the right, the two edges of a sentence are different.

    :param symbols: how many symbols there are.
    :param yields: (Y, 2).
    :param contexts: (X, 2).

    >>> import torch
    >>> from pyro_unsup.models.inventory import Inventory
    >>> known = Inventory.of(torch.tensor([1, 0, 1]), torch.tensor([3]), symbols=2)
    >>> known.yields.tolist()  # 1, 0; 10, 01; 101
    [[-1, 1], [-1, 0], [0, 0], [1, 1], [2, 1]]
    >>> known.find(torch.tensor([0, 1]), torch.tensor([2])).yields.tolist()
    [1, 0, 3]
    """

    def __init__(self, symbols: int, yields: Tensor, contexts: Tensor) -> None:
        self.symbols, self.yields, self.contexts = symbols, yields, contexts
        for name, pairs in (("yields", yields), ("contexts", contexts)):
            if pairs.dim() != 2 or pairs.shape[1] != 2 or len(pairs) == 0 or pairs.dtype != torch.int64:
                shape = tuple(pairs.shape)
                raise StructureError(f"{name} should be pairs of int64, shape (n, 2), actual {shape}, {pairs.dtype}")
        _check_symbols("yields", yields[:, 1], symbols - 1)
        _check_symbols("contexts", contexts, symbols)
        self.widths = _count_widths(yields[:, 0].numpy())  # (W,) how many yields have one symbol, two, ...
        self._yields = _Keys("yields", _yield_keys(yields[:, 0].numpy(), yields[:, 1].numpy(), symbols))
        self._contexts = _Keys("contexts", _context_keys(contexts[:, 0].numpy(), contexts[:, 1].numpy(), symbols))

    @staticmethod
    def of(words: Tensor, lengths: Tensor, symbols: int, empty_spans: bool = False) -> Inventory:  # (tokens,), (B,)
        """Those that occur in these sentences; perhaps also the contexts of spans of no words."""
        known = np.full(len(words), -1)  # the yield that starts at each word, by number
        pairs, contexts, total = [np.empty((0, 2), np.int64)], [np.empty(0, np.int64)], 0
        for at, last, left, right, _ in _by_width(words.numpy(), lengths.numpy(), symbols):
            keys, first, which = np.unique(
                _yield_keys(known[at], last, symbols), return_index=True, return_inverse=True
            )
            order = np.argsort(first)
            pairs.append(np.stack([keys // symbols - 1, keys % symbols], 1)[order])
            known[at] = total + np.argsort(order)[which]
            total += len(keys)
            contexts.append(np.unique(_context_keys(left, right, symbols)))
        contexts += _gap_keys(words.numpy(), lengths.numpy(), symbols) if empty_spans else ()
        around = np.unique(np.concatenate(contexts))
        both = np.stack([around // (symbols + 1), around % (symbols + 1)], 1)
        return Inventory(symbols, torch.from_numpy(np.concatenate(pairs)), torch.from_numpy(both))

    def find(self, words: Tensor, lengths: Tensor) -> Found:  # (tokens,), (B,)
        """The number of each span's yield and context."""
        counts = lengths.numpy()
        sizes = counts * (counts + 1) // 2
        yields, contexts, widths = (np.empty(int(sizes.sum()), np.int64) for _ in range(3))
        known = np.full(len(words), -1)
        steps = _by_width(words.numpy(), counts, self.symbols)
        for w, (at, last, left, right, place) in enumerate(steps, start=1):
            known[at] = self._yields.find(_yield_keys(known[at], last, self.symbols))
            yields[place] = known[at]
            contexts[place] = self._contexts.find(_context_keys(left, right, self.symbols))
            widths[place] = w
        return Found(yields, contexts, widths, counts)

    def find_gaps(self, words: Tensor, lengths: Tensor) -> tuple[Array, Array]:  # (tokens,), (B,) -> (tokens,), (B,)
        """The number of the context of the empty span before each word, and at the end of each sentence.

        That of a sentence without words means nothing.
        """
        before, last = _gap_keys(words.numpy(), lengths.numpy(), self.symbols)
        after = np.zeros(len(lengths), np.int64)
        after[lengths.numpy() > 0] = self._contexts.find(last)
        return self._contexts.find(before), after


def _by_width(words: Array, lengths: Array, symbols: int) -> Iterator[tuple[Array, Array, Array, Array, Array]]:
    """All spans of one width after those of another: where they start, their last symbol, the symbols to their left and
    right, and their places in the order of spans."""
    words = words.astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    owner = np.repeat(np.arange(len(lengths)), lengths)
    n, start = lengths[owner], np.arange(len(words)) - offsets[owner]
    spans = np.concatenate([[0], np.cumsum(lengths * (lengths + 1) // 2)])[owner]
    before = np.where(start > 0, np.roll(words, 1), symbols)
    after = np.where(start < n - 1, np.roll(words, -1), symbols)
    for w in range(1, int(lengths.max(initial=0)) + 1):
        at = np.flatnonzero(start + w <= n)
        row = (w - 1) * n[at] - (w - 1) * (w - 2) // 2  # narrower spans of the same sentence
        yield at, words[at + w - 1], before[at], after[at + w - 1], spans[at] + row + start[at]


def _gap_keys(words: Array, lengths: Array, symbols: int) -> tuple[Array, Array]:
    """The contexts of empty spans: before each word, and at the end of each sentence that has words."""
    words = words.astype(np.int64)
    some = lengths > 0
    ends = np.cumsum(lengths)[some]
    before = np.roll(words, 1)
    before[ends - lengths[some]] = symbols
    after = np.full(len(ends), symbols)
    return _context_keys(before, words, symbols), _context_keys(words[ends - 1], after, symbols)


def _yield_keys(prefix: Array, last: Array, symbols: int) -> Array:
    return (prefix + 1) * symbols + last


def _context_keys(left: Array, right: Array, symbols: int) -> Array:
    return left * (symbols + 1) + right


class _Keys:
    """Distinct keys, to be looked up."""

    def __init__(self, name: str, keys: Array) -> None:
        self._order = np.argsort(keys)
        self._sorted = keys[self._order]
        if not bool((np.diff(self._sorted) > 0).all()):
            raise StructureError(f"{name} must be all different, found one twice")

    def find(self, keys: Array) -> Array:
        """The number of each key; how many there are, for a key that is not among them."""
        place = np.minimum(np.searchsorted(self._sorted, keys), len(self._sorted) - 1)
        return np.where(self._sorted[place] == keys, self._order[place], len(self._sorted))


def _check_symbols(name: str, found: Tensor, most: int) -> None:
    if int(found.min()) < 0 or int(found.max()) > most:
        raise StructureError(
            f"{name} should name symbols 0 .. {most}, actual range {int(found.min())} .. {int(found.max())}"
        )


def _count_widths(narrower: Array) -> Array:  # (Y,) -> (W,)
    ends = [0]
    least, most = -1, 0  # the yields that those of the next width may go on from
    while ends[-1] < len(narrower):
        rest = narrower[ends[-1] :]
        fits = (rest >= least) & (rest < most)
        size = len(rest) if fits.all() else int(np.argmin(fits))
        if size == 0:
            raise StructureError(f"yield {ends[-1]} goes on from yield {rest[0]}, which is not one symbol narrower")
        least, most = ends[-1], ends[-1] + size
        ends.append(most)
    return np.diff(ends)


def span_axes(
    inventory: Inventory,
    vocab: Any,
    ends: Array | None,  # (widths + 1,) where the yields of each width begin in a row; None for one row of them all
    empty_yield: bool,
) -> dict[str, tuple[Axis, ...]]:
    """The axes of the tables ``yield`` and ``context``. Yields and contexts are tuples of symbols."""
    names = range(vocab) if isinstance(vocab, int) else vocab
    yields, kind = partial(_yields, inventory, names, empty_yield), Axis("kind", KINDS)
    contexts = (kind, Axis("context", partial(_contexts, inventory, names)))
    if ends is None:
        return {"yield": (kind, Axis("yield", yields)), "context": contexts}
    widths = range(1, len(ends))
    kinds = Axis("kind", [kind for kind in KINDS for _ in widths])
    cells = partial(_cells, len(inventory.yields), ends)
    return {"yield": (kinds, Axis("width", [*widths] * 2), Axis("yield", yields, cells)), "context": contexts}


def _yields(inventory: Inventory, names: Sequence[Any], empty: bool) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for narrower, last in inventory.yields.tolist():
        found.append((*(found[narrower] if narrower >= 0 else ()), names[last]))
    return [*found, UNKNOWN, *([()] if empty else [])]


def _contexts(inventory: Inventory, names: Sequence[Any]) -> list[tuple[Any, ...]]:
    left, right = [*names, "<start>"], [*names, "<end>"]
    return [*((left[a], right[b]) for a, b in inventory.contexts.tolist()), UNKNOWN]


def _cells(known: int, ends: Array) -> Tensor:  # (cells,)
    """Which yield each cell is: those of a width in order, and the unknown one after them; for both kinds."""
    cells = torch.full((int(ends[-1]),), known)
    last = torch.zeros(len(cells), dtype=torch.bool)
    last[torch.from_numpy(ends[1:]) - 1] = True
    cells[~last] = torch.arange(known)
    return cells.repeat(2)
