"""Flat arrays of integers: their types, and checks that say what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.mapped import extremes
from pyro_unsup.errors import InputError

IntArray = npt.NDArray[np.int32]
OffsetArray = npt.NDArray[np.int64]


def integers(value: npt.ArrayLike, name: str, kind: str, pairs: bool = False) -> npt.NDArray[Any]:
    """A contiguous array of dtype ``kind``, shape ``(count,)``, or ``(brackets, 2)`` for pairs."""
    array, shape = np.asarray(value), "(brackets, 2)" if pairs else "(count,)"
    if array.size == 0:
        array = array.astype(kind).reshape((0, 2) if pairs else (0,))
    if array.dtype.kind not in "iu" or array.ndim != 1 + pairs or (pairs and array.shape[1] != 2):
        raise InputError(f"{name}: expected integers of shape {shape}, found {array.dtype} of shape {array.shape}")
    limits = np.iinfo(kind)
    if array.size and array.dtype != np.dtype(kind):
        low, high = extremes(array)
        if not (limits.min <= low and high <= limits.max):
            raise InputError(f"{name}: expected values that fit {limits.bits} bits, found {low} to {high}")
    return np.ascontiguousarray(array, dtype=kind)


def check_length(array: npt.NDArray[Any], wanted: int, name: str) -> None:
    """Raise unless the shape is ``(wanted,)``."""
    if array.shape != (wanted,):
        raise InputError(f"{name}: expected shape ({wanted},), found {array.shape}")


def check_range(array: npt.NDArray[Any], low: int, high: int | npt.NDArray[Any], name: str) -> None:
    """Raise unless every value lies from ``low`` to ``high``, one bound for all or one for each."""
    if isinstance(high, int):  # without a truth value for every cell: arrays may be large
        least, most = extremes(array) if array.size else (low, high)
        if low <= least and most <= high:
            return
    bad = np.flatnonzero((array < low) | (array > high))
    if bad.size:
        top = high if isinstance(high, int) else int(high[bad[0]])
        raise InputError(f"{name}: expected values from {low} to {top}, found {array[bad[0]]} at position {bad[0]}")


def check_offsets(offsets: OffsetArray, total: int, name: str, of: str) -> None:
    """Raise unless the offsets cut ``total`` items into pieces, one after the other."""
    ends = (int(offsets[0]), int(offsets[-1])) if len(offsets) else None
    if ends != (0, total):
        found = "none" if ends is None else f"{ends[0]} to {ends[1]}"
        raise InputError(f"{name}: expected numbers from 0 to the {total} {of}, found {found}")
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])
    if falls.size:
        raise InputError(f"{name}: expected numbers that never fall, found a fall after position {falls[0]}")


def same(one: object, other: object) -> bool:
    """Whether two fields, arrays or not, are alike in type and value."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return type(one) is type(other) and one == other


def gather(offsets: OffsetArray, rows: OffsetArray) -> tuple[OffsetArray | slice, OffsetArray]:
    """Where the items of ``rows`` lie in a flat array, and the offsets they get when laid end to end.

    >>> import numpy as np
    >>> from pyro_unsup.data.arrays import gather
    >>> where, ends = gather(np.array([0, 2, 5]), np.array([1, 0]))
    >>> where.tolist(), ends.tolist()
    ([2, 3, 4, 0, 1], [0, 3, 5])
    >>> gather(np.array([0, 2, 5]), np.array([1]))
    (slice(2, 5, None), array([0, 3]))
    """
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
        ends = offsets[rows[0] : rows[-1] + 2]
        return slice(int(ends[0]), int(ends[-1])), ends - ends[0]
    starts, lengths = offsets[rows], offsets[rows + 1] - offsets[rows]
    ends = np.concatenate(([0], np.cumsum(lengths)))
    return np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lengths), ends
