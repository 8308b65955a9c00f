"""Whether numbers are uniform: chi-squared, and simultaneous bands of their distribution function."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]

#: Sets of uniform numbers that tell how far a distribution function may stray, and the seed of their generator.
SIMULATED, SEED = 4000, 1
#: Where distribution functions are compared, at most.
POINTS = 200


def chi_squared(u: Floats) -> float:  # (N,)
    """p-value of the chi-squared test: numbers in equal bins, at least five expected in each and at most 20 bins.

    >>> import numpy as np
    >>> from pyro_unsup.evaluate.uniformity import chi_squared
    >>> chi_squared(np.arange(100) / 100) > 0.99, chi_squared(np.full(100, 0.3)) < 1e-9
    (True, True)
    """
    bins = max(2, min(20, len(u) // 5))
    counts = np.bincount(np.minimum((u * bins).astype(int), bins - 1), minlength=bins)
    return float(stats.chisquare(counts).pvalue)


def ecdf_p(u: Floats) -> float:  # (N,)
    """p-value of the empirical distribution function: how often that of uniform numbers strays as far at any point [1].

    At every point the count of smaller numbers is binomial. The statistic is the smallest tail probability of all
    points.

    **References:** [1] T. Säilynoja, P.-C. Bürkner and A. Vehtari (2022) "Graphical test for discrete uniformity and
    its applications in goodness-of-fit evaluation and multiple sample comparison".

    >>> import numpy as np
    >>> from pyro_unsup.evaluate.uniformity import ecdf_p
    >>> ecdf_p((np.arange(100) + 0.5) / 100) > 0.9, ecdf_p(np.linspace(0.2, 0.8, 100)) < 0.01
    (True, True)
    """
    n = len(u)
    simulated = _simulated(n)
    found = _smallest_tail(_counts(u[None], n), n)[0]
    return float((1 + (simulated <= found * (1 + 1e-9)).sum()) / (1 + len(simulated)))


def ecdf_band(n: int, level: float = 0.95) -> tuple[Floats, Floats, Floats]:  # (P,) each
    """Points, and the lower and upper limits between which the distribution function of n uniform numbers lies at all
    points with this probability.

    >>> from pyro_unsup.evaluate.uniformity import ecdf_band
    >>> points, low, high = ecdf_band(100)
    >>> bool((low <= points).all() and (points <= high).all())
    True
    """
    gamma = float(np.quantile(_simulated(n), 1 - level))
    points = _points(n)
    low = stats.binom.ppf(gamma / 2, n, points) / n
    high = stats.binom.ppf(1 - gamma / 2, n, points) / n
    return points, low, high


def holm(p: Floats) -> Floats:  # (M,)
    """p-values of many tests, adjusted so that the chance of any false alarm is kept (Holm's method).

    >>> import numpy as np
    >>> from pyro_unsup.evaluate.uniformity import holm
    >>> holm(np.array([0.01, 0.5, 0.03])).round(2).tolist()
    [0.03, 0.5, 0.06]
    """
    order = np.argsort(p)
    scaled = np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p))))
    found = np.empty(len(p))
    found[order] = np.minimum(scaled, 1.0)
    return found


def _points(n: int) -> Floats:
    size = min(n, POINTS)
    return np.arange(1, size) / size if size > 1 else np.array([0.5])


def _counts(u: Floats, n: int) -> NDArray[np.int64]:  # (R, N) -> (R, P)
    """How many numbers of each row are at most as large as each point."""
    points = _points(n)
    bins = np.searchsorted(points, u, side="left")  # the first point that is not below
    size = len(points) + 1
    cells = np.bincount((np.arange(len(u))[:, None] * size + bins).ravel(), minlength=len(u) * size)
    found: Any = cells.reshape(len(u), size).cumsum(1)[:, :-1]
    return found  # type: ignore[no-any-return]


def _smallest_tail(counts: NDArray[np.int64], n: int) -> Floats:  # (R, P) -> (R,)
    points = _points(n)
    every = np.arange(n + 1)[:, None]
    tail = 2 * np.minimum(stats.binom.cdf(every, n, points), stats.binom.sf(every - 1, n, points))  # (N + 1, P)
    found: Floats = tail[counts, np.arange(len(points))].min(1)
    return found


@lru_cache(maxsize=16)
def _simulated(n: int) -> Floats:  # (SIMULATED,)
    u = np.random.default_rng(SEED).random((SIMULATED, n))
    return _smallest_tail(_counts(u, n), n)
