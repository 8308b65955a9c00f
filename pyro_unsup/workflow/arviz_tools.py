"""What the workflow asks of ArviZ, 0.x or 1.x: R-hat and the effective sample size."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..results.arviz import dataset

Array = np.ndarray[Any, Any]


def by_arviz(values: Array, what: str) -> Array:  # (chains, draws, N) -> (N,)
    """``arviz.rhat`` or ``arviz.ess`` of each number; NaN where it never moves, or there are fewer than four draws.

    R-hat of one chain compares its halves.

    >>> import numpy as np
    >>> from pyro_unsup.workflow.arviz_tools import by_arviz
    >>> by_arviz(np.random.default_rng(0).normal(size=(2, 100, 3)), "rhat").round(1)
    array([1., 1., 1.])
    """
    moving = np.ptp(values, axis=(0, 1)) > 0
    found = np.full(values.shape[-1], np.nan)
    if values.shape[0] == 1 and what == "rhat":
        half = values.shape[1] // 2
        values = np.concatenate([values[:, :half], values[:, values.shape[1] - half :]])
    if values.shape[1] < 4 or not moving.any():
        return found
    data = dataset({"x": values[..., moving]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ArviZ on few draws, and on its own future
        import arviz

        known: Any = getattr(arviz, what)(data)
    found[moving] = np.asarray(known["x"])
    return found
