"""How many edits lie between words."""

from __future__ import annotations

import numpy as np
from numba import njit

from ..array import Array


@njit(cache=True, nogil=True)
def distances(
    letters: Array,  # all words end to end
    starts: Array,  # (words + 1,)
    left: Array,  # (n,) numbers of words
    right: Array,  # (n,)
) -> Array:  # (n,)
    """Levenshtein distances of pairs of words."""
    found = np.empty(len(left), np.int64)
    longest = 0
    for w in range(len(starts) - 1):
        longest = max(longest, starts[w + 1] - starts[w])
    row = np.empty(longest + 1, np.int64)
    for i in range(len(left)):
        a, a_end, b, b_end = starts[left[i]], starts[left[i] + 1], starts[right[i]], starts[right[i] + 1]
        for k in range(b_end - b + 1):
            row[k] = k
        for j in range(a, a_end):
            corner = row[0]
            row[0] = j - a + 1
            for k in range(b_end - b):
                cost = corner if letters[j] == letters[b + k] else corner + 1
                corner = row[k + 1]
                row[k + 1] = min(cost, row[k] + 1, corner + 1)
        found[i] = row[b_end - b]
    return found
