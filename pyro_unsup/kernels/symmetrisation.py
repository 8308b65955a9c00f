"""One alignment out of two: by growing, or by competition."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..array import Array


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


@njit(cache=True, nogil=True)
def compete(
    p: Array,  # (cells,) source words down and target words across, pair after pair
    threshold: float,
    source_lengths: Array,  # (B,)
    target_lengths: Array,
    result: Array,  # (cells,) bool, out
) -> None:
    """Cells from a threshold on, connected by such cells to a highest one of their row and of their column."""
    at = 0
    for b in range(len(source_lengths)):
        height, width = source_lengths[b], target_lengths[b]
        size = height * width
        scores, found = p[at : at + size].reshape(height, width), result[at : at + size].reshape(height, width)
        found[:] = True
        for i in range(height):
            _keep_peak(scores[i], threshold, found[i])
        for j in range(width):
            _keep_peak(scores[:, j], threshold, found[:, j])
        at += size


@njit(cache=True, nogil=True)
def _keep_peak(scores: Array, threshold: float, found: Array) -> None:  # (n,), (n,)
    """Leave out what has no stretch of scores from the threshold on to a highest one."""
    top = -np.inf
    for k in range(len(scores)):
        top = max(top, scores[k])
    first = 0
    while first < len(scores):
        last, peak = first, False
        while last < len(scores) and scores[last] >= threshold:
            peak |= scores[last] == top
            last += 1
        if not peak:
            found[first : last + 1] = False  # with the cell that ended the stretch
        elif last < len(scores):
            found[last] = False
        first = last + 1
