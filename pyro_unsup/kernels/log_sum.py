"""Log-sum-exp, for kernels that work in log space."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def log_sum(x: np.ndarray[Any, Any]) -> float:  # (n,)
    """log of the sum of exp(x); -inf where nothing is possible, or nothing is there."""
    top = -np.inf
    for i in range(len(x)):
        top = max(top, x[i])
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(len(x)):
        total += np.exp(x[i] - top)
    return float(top + np.log(total))
