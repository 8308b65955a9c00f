"""When is scaled real arithmetic exact enough? A certificate, checked on every sequence.

Passes in scaled real space keep forward messages ``a_t`` that sum to 1 and backward messages ``b_t`` with
``a_t . b_t = 1``. What underflows on the way forwards was below ``tiny`` (the smallest normal number) after scaling, so
it would have added at most ``tiny * b`` to a total of 1. Hence, if no backward message (divided by its scale factor)
exceeds a limit, the mass lost is below ``tiny * limit`` a step and state, which for the limits below is far under the
rounding error. A sequence that breaks the limit is done again in log space.

For this, a backward message must not be too small. It would be, if a path were lost in both directions: no message
would tell of it. So what is possible never becomes zero. Weights that underflow become ``tiny``. A backward message
that is below ``least``, but possible, becomes ``least``. As ``least`` is far above ``tiny``, what a larger message lost
is too little to matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ..array import Array

#: No reordering that could hide a NaN or an infinity: the certificate relies on them.
FAST = {"reassoc", "contract", "arcp", "nsz"}

LIMIT = {np.dtype(np.float64): 1e250, np.dtype(np.float32): 1e24}

#: What a backward message is at least, where it is possible.
LEAST = {np.dtype(np.float64): 2.0**-982, np.dtype(np.float32): 2.0**-106}


def tiny(dtype: np.dtype[Any]) -> float:
    """The smallest normal number."""
    return float(np.finfo(dtype).tiny)


@njit(cache=True, nogil=True)
def keep_possible(logs: Array, real: Array, least: float) -> None:
    """Make real weights that underflowed the least number, in place."""
    for k in range(logs.size):
        if real.flat[k] < least and logs.flat[k] > -np.inf:
            real.flat[k] = least


def kept_exp(logs: Array) -> Array:
    """Real weights, the smallest normal number where they underflow."""
    real: Array = np.exp(logs)
    keep_possible(logs, real, tiny(real.dtype))
    return real


@njit(cache=True, nogil=True)
def leads_on(edges: Array, weights: Array, onward: Array) -> bool:  # (K,) each
    """Whether some next state is possible, however unlikely."""
    for k in range(len(edges)):  # noqa: SIM110 (numba compiles loops, not generators)
        if edges[k] > 0 and weights[k] > 0 and onward[k] > 0:
            return True
    return False
