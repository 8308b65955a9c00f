"""A pool of memory for large tables, which is used again when they are gone.

A system hands out fresh memory page by page, each of them cleared first. For tables of megabytes that are made anew in
every iteration this takes longer than the arithmetic on them.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from pyro_unsup.array import Array

from .threads import in_parts

#: Smaller arrays (in bytes) do not use the pool.
LARGE = 1 << 20

#: How many free pieces are kept; the oldest is dropped first.
WAITING = 8

_waiting: deque[Array] = deque(maxlen=WAITING)


def room(size: int, dtype: Any = np.float64) -> Array:  # -> (size,)
    """An uninitialised array, as ``np.empty``. Its memory is used again when no view of it is left.

    >>> from pyro_unsup.kernels.room import room
    >>> room(3).shape
    (3,)
    """
    wanted = size * np.dtype(dtype).itemsize
    if wanted < LARGE:
        return np.empty(size, dtype)
    step = 1 << (wanted.bit_length() - 4)  # tables of about the same size can follow each other
    return np.asarray(_Loan(_piece(-(-wanted // step) * step), size, dtype))


def zeros(size: int) -> Array:  # -> (size,)
    """:func:`room` with zeros in it."""
    if size * 8 < LARGE:
        return np.zeros(size)
    found = room(size)
    in_parts(lambda first, last: found[first:last].fill(0.0), size)
    return found


def _piece(size: int) -> Array:  # -> (size,) bytes
    for _ in range(len(_waiting)):
        try:
            piece = _waiting.popleft()
        except IndexError:  # another thread was faster
            break
        if len(piece) == size:
            return piece
        _waiting.append(piece)
    return np.empty(size, np.uint8)


class _Loan:
    """The memory of an array. All views refer to it; when the last view dies, the memory returns to the pool."""

    def __init__(self, piece: Array, size: int, dtype: Any) -> None:
        self._piece, self._wait = piece, _waiting.append
        self.__array_interface__ = piece[: size * np.dtype(dtype).itemsize].view(dtype).__array_interface__

    def __del__(self) -> None:
        self._wait(self._piece)
