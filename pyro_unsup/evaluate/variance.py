"""How much of the spread of a score is due to the start, and how much to the order of the data?

Run the same training from each of several starts with each of several orders. With X the score of a run, the law of
total variance splits its spread:

    var(X) = var(E[X | start]) + E[var(X | start)]

the first term being due to the start, the second to the order. The second splits again, since every start meets every
order: what an order does whatever the start, var(E[X | order]), and what it does to this start and not to others.

**References:** [1] P. Liang and D. Klein (2009) "Online EM for unsupervised models", section 4.4 and Table 2
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import Array, to_numpy


@dataclass(frozen=True)
class SeedVariance:
    """Standard deviations over the runs that were made (not estimates for runs that were not): squares add up.

    :param mean: of all runs.
    :param total: of all runs; ``total ** 2 == initial ** 2 + order ** 2``.
    :param initial: due to the start.
    :param order: due to the order; ``order ** 2 == order_alone ** 2 + interaction ** 2``.
    :param order_alone: the part of ``order`` that is the same for every start.
    :param interaction: the rest of it.

    >>> from pyro_unsup.evaluate import seed_variance
    >>> found = seed_variance([[0.5, 0.6], [0.7, 0.8]])  # two starts, two orders each
    >>> round(found.mean, 3), round(found.initial, 3), round(found.order, 3)
    (0.65, 0.1, 0.05)
    """

    mean: float
    total: float
    initial: float
    order: float
    order_alone: float
    interaction: float

    def __str__(self) -> str:
        return f"{self.mean:.4g} ±{self.initial:.2g}, {self.order:.2g}"


def seed_variance(scores: Array | Mapping[tuple[int, int], float]) -> SeedVariance:
    """Decompose the variance of scores over starts and orders.

    :param scores: shape (starts, orders); or by pairs of seeds (start, order), every start with every order. Batch EM
        has but one order.

    >>> from pyro_unsup.evaluate import seed_variance
    >>> print(seed_variance([[50.0, 52.0], [54.0, 56.0]]))
    53 ±2, 1
    """
    table = _table(scores) if isinstance(scores, Mapping) else to_numpy(scores).astype(np.float64)
    if table.ndim != 2 or table.size == 0:
        raise UnsupError(f"scores must have shape (starts, orders) and at least one entry, actual shape {table.shape}")
    if not np.isfinite(table).all():
        start, order = np.argwhere(~np.isfinite(table))[0]
        raise UnsupError(f"the score of start {start} with order {order} is {table[start, order]}, expected a number")
    mean = table.mean()
    starts, orders = table.mean(axis=1), table.mean(axis=0)
    rest = table - starts[:, None] - orders + mean
    return SeedVariance(
        mean=float(mean),
        total=float(table.std()),
        initial=float(starts.std()),
        order=math.sqrt(table.var(axis=1).mean()),
        order_alone=float(orders.std()),
        interaction=math.sqrt((rest**2).mean()),
    )


def _table(scores: Mapping[tuple[int, int], float]) -> np.ndarray:
    starts, orders = (sorted({pair[side] for pair in scores}) for side in (0, 1))
    missing = [(start, order) for start in starts for order in orders if (start, order) not in scores]
    if missing:
        raise UnsupError(
            f"{len(missing)} of {len(starts)} x {len(orders)} runs are missing, the first is (start, order) = "
            f"{missing[0]}: run every start with every order"
        )
    return np.array([[scores[start, order] for order in orders] for start in starts], dtype=np.float64)
