"""Data in portions that fit in memory, in an order of their own."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from pyro_unsup.errors import InputError


class _Selectable(Protocol):
    @property
    def offsets(self) -> npt.NDArray[Any]: ...
    def __len__(self) -> int: ...
    def select(self, indices: npt.ArrayLike) -> Any: ...


class Portions:
    """A corpus or documents, some sentences after the other: what does not fit in memory, portion by portion.

    ``StepwiseEM(model).run_stream(Portions(corpus), cut=True)`` learns from all of it in one pass. The number of
    portions is known, so the progress bar tells how long it will take, and a resumed run goes on at its portion.

    :param data: a corpus that was opened from a folder (:meth:`.Corpus.open`), or in memory.
    :param tokens: of a portion, about.
    :param seed: of the order of the portions; None for that of the data.

        >>> from pyro_unsup.data import Portions, toy
        >>> corpus = toy.sentences(50, seed=1)
        >>> portions = Portions(corpus, tokens=100)
        >>> len(portions), sum(len(portion) for portion in portions), portions.examples
        (4, 50, 50)
        >>> len(portions.after(2)), next(iter(portions.after(2))) == list(portions)[2]
        (2, True)
    """

    def __init__(self, data: _Selectable, tokens: int = 2_000_000, seed: int | None = None) -> None:
        if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 1:
            raise InputError(f"tokens should be a whole number, 1 or more, actual {tokens!r:.80}")
        if not len(data):
            raise InputError("there is nothing in the data, expected at least one example")
        self.data = data
        self.examples = len(data)  #: in all portions
        many = max(1, round(int(data.offsets[-1]) / tokens))
        targets = int(data.offsets[-1]) * np.arange(1, many) // many
        self._bounds = np.unique([0, *np.searchsorted(data.offsets, targets), len(data)])
        size = len(self._bounds) - 1
        self._order = np.arange(size) if seed is None else np.random.default_rng(seed).permutation(size)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Any]:
        for k in self._order:
            yield self.data.select(np.arange(self._bounds[k], self._bounds[k + 1]))

    def after(self, number: int) -> Self:
        """The portions that come after the first so many."""
        rest = copy(self)
        rest._order = self._order[number:]
        return rest

    def __repr__(self) -> str:
        return f"Portions({self.data!r}, {len(self):,} portions)"
