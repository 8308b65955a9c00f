"""Arrays that are mapped from a file: they lie on disk, and only what is looked at takes memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

#: Rows of a mapped array that are looked at together.
BLOCK = 1 << 20


def mapping_of(array: npt.NDArray[Any] | None) -> mmap.mmap | None:
    """The mapping of a file that an array is a view of; None for an array in memory."""
    found: Any = array
    while isinstance(found, np.ndarray):
        found = found.base
    return found if isinstance(found, mmap.mmap) else None


def release(*arrays: npt.NDArray[Any] | None) -> None:
    """Free the memory that mapped arrays use. Their content stays in the file.

    (Whatever had been written into them would be lost; arrays of a corpus are never written into.)
    """
    for mapping in map(mapping_of, arrays):
        if mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            mapping.madvise(mmap.MADV_DONTNEED)


def extremes(array: npt.NDArray[Any]) -> tuple[int, int]:
    """The least and the largest number of an array that has some; of a mapped one block by block, each given back.

    >>> import numpy as np
    >>> from pyro_unsup.data.mapped import extremes
    >>> extremes(np.array([3, 1, 2]))
    (1, 3)
    """
    if mapping_of(array) is None:
        return int(array.min()), int(array.max())
    found = []
    for at in range(0, len(array), BLOCK):
        block = array[at : at + BLOCK]
        found.append((int(block.min()), int(block.max())))
        release(array)
    return min(low for low, _ in found), max(high for _, high in found)


def take(array: npt.NDArray[Any], where: npt.NDArray[Any] | slice) -> npt.NDArray[Any]:
    """Some of an array. Of a mapped one a copy, so that nothing else of the file stays in memory.

    >>> import numpy as np
    >>> from pyro_unsup.data.mapped import take
    >>> take(np.array([3, 1, 2]), slice(1, 3)).tolist()
    [1, 2]
    """
    if mapping_of(array) is None:
        return array[where]
    part = np.array(array[where])
    release(array)
    return part


def in_blocks(array: npt.NDArray[Any]) -> Iterator[bytes]:
    """The bytes of an array, some at a time; of a mapped one each block is given back.

    >>> import numpy as np
    >>> from pyro_unsup.data.mapped import in_blocks
    >>> b"".join(in_blocks(np.array([3, 1], np.int8)))
    b'\\x03\\x01'
    """
    flat = array.reshape(-1)
    for at in range(0, len(flat), BLOCK):
        yield flat[at : at + BLOCK].tobytes()
        release(array)
