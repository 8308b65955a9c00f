"""Pareto-smoothed importance sampling, by ArviZ 0.x or 1.x."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Above this tail index, importance weights cannot be relied on.
GOOD = 0.7


def psis(log_ratios: Floats) -> tuple[Floats, float]:  # (S,) -> (S,)
    """Smoothed log weights, which sum to one, and the tail index k-hat of the ratios.

    >>> import numpy as np
    >>> from pyro_unsup.workflow.psis import psis
    >>> weights, k = psis(np.random.default_rng(0).normal(size=1000) * 0.1)
    >>> round(float(np.exp(weights).sum()), 6), bool(k < 0.7)
    (1.0, True)
    """
    x = np.asarray(log_ratios, dtype=np.float64)
    if np.ptp(x) < 1e-12:  # all the same: nothing has a tail
        return np.full(len(x), -np.log(len(x))), -np.inf
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of ArviZ on its own future
        import arviz

        if hasattr(arviz, "psislw"):
            smoothed: Any = arviz.psislw(x)
        else:
            from arviz_stats.base import array_stats  # type: ignore[import-not-found, unused-ignore]

            smoothed = array_stats.psislw(-x)  # which takes log-likelihoods, the ratios upside down
    weights, k = np.asarray(smoothed[0], dtype=np.float64), float(np.asarray(smoothed[1]))
    top = weights.max()
    weights = weights - (top + np.log(np.exp(weights - top).sum()))
    return weights, float("inf") if np.isnan(k) else k


def khat(log_ratios: Floats) -> float:  # (S,)
    """The tail index of importance ratios: below 0.7 they can be relied on.

    >>> import numpy as np
    >>> from pyro_unsup.workflow.psis import khat
    >>> khat(np.random.default_rng(0).standard_cauchy(500)) > 0.7
    True
    """
    return psis(log_ratios)[1]
