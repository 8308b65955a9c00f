"""What mini-batches of stepwise EM in compiled code have in common: weights read off running counts, and what is added
to these.

For each structure there is a ``stepwise_pass`` of the same form. It goes from mini-batch to mini-batch: it reads the
weights that the examples use, runs the structure's own pass in scaled real numbers on them, and adds the expected
counts. An example that real numbers cannot do exactly ends it before its mini-batch, nothing of which is done then; so
does a scale that needs to be folded into the tables.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .exp_log import TINY, _log
from .limits import FAST, LEAST, LIMIT

BOUND, SMALLEST = LIMIT[np.dtype(np.float64)], LEAST[np.dtype(np.float64)]

#: How these passes are compiled. Rows without counts were looked for before.
stepping = njit(cache=True, nogil=True, fastmath=FAST, error_model="numpy")

# A table is its cells, the sums of its rows, the pseudo-counts of each row, and those of each cell; counts are all to
# be multiplied by a scale, and ``over`` is one over that. Helpers for single cells take numbers, not arrays: to hand
# over an array takes longer than what they do.


@stepping
def real(count, unit, beta):
    """The weight of a cell as a real number, above 0 if it is possible.

    :param unit: one over the sum of its row.
    """
    found = count * unit
    if beta != 1.0:
        found = found**beta
    return max(found, TINY) if count > 0 else 0.0


@stepping
def log_share(count, total, beta):
    """The log of a cell's share of its row."""
    found = count / total
    if found >= TINY:
        return beta * _log(found)
    return beta * (np.log(count) - np.log(total)) if count > 0 else -np.inf


@stepping
def most_rows(offsets, order, batch_size):  # (B + 1,), (n,)
    """How many rows the largest mini-batch has."""
    most = 0
    for begin in range(0, len(order), batch_size):
        rows = 0
        for b in order[begin : begin + batch_size]:
            rows += offsets[b + 1] - offsets[b]
        most = max(most, rows)
    return most


@stepping
def row_units(sums, more, over, units):  # (rows,)
    """One over the sum of each row."""
    for row in range(len(sums)):
        units[row] = 1.0 / (sums[row] + more[row] * over)


@stepping
def summed(log_z, trouble, size):  # (at least size,) both
    """log Z of some examples together, and whether real numbers could do them all."""
    total, fine = 0.0, True
    for i in range(size):
        total += log_z[i]
        fine = fine and not trouble[i]
    return total, fine
