"""Growing one alignment out of two."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True)
def grow_diag_final_and(
    forward: Array,  # (cells,) bool, source words down and target words across, pair after pair
    backward: Array,
    source_lengths: Array,  # (B,)
    target_lengths: Array,
    result: Array,  # (cells,) bool, out
) -> None:
    """Links that both have, then their neighbours that one has, then links of words that have none yet."""
    down = np.array([-1, 0, 1, 0, -1, -1, 1, 1])
    across = np.array([0, -1, 0, 1, -1, 1, -1, 1])
    at = 0
    for b in range(len(source_lengths)):
        height, width = source_lengths[b], target_lengths[b]
        size = height * width
        one, other = forward[at : at + size].reshape(height, width), backward[at : at + size].reshape(height, width)
        found = result[at : at + size].reshape(height, width)
        rows, columns = np.zeros(height, np.bool_), np.zeros(width, np.bool_)
        for i in range(height):
            for j in range(width):
                found[i, j] = one[i, j] and other[i, j]
                if found[i, j]:
                    rows[i] = columns[j] = True
        grown = True
        while grown:
            grown = False
            for i in range(height):
                for j in range(width):
                    if not found[i, j]:
                        continue
                    for k in range(8):
                        m, n = i + down[k], j + across[k]
                        if m < 0 or n < 0 or m >= height or n >= width or found[m, n] or (rows[m] and columns[n]):
                            continue
                        if one[m, n] or other[m, n]:
                            found[m, n] = rows[m] = columns[n] = grown = True
        for way in range(2):
            links = one if way == 0 else other
            for i in range(height):
                for j in range(width):
                    if links[i, j] and not rows[i] and not columns[j]:
                        found[i, j] = rows[i] = columns[j] = True
        at += size
