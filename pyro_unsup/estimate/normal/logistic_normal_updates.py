"""The maths of logistic-normal rows: a Gaussian posterior for each, and the bound that its steps never lower.

A row's weights are theta = softmax(eta), eta ~ N(mu, Sigma). The posterior of eta is N(m, diag s2), and

    E[log theta_i] >= psi_i = m_i - log zeta + 1 - sum_j exp(m_j + s2_j / 2) / zeta

for any zeta > 0. The sum over j is the best zeta, and leaves psi = m - log zeta. With expected counts f, a row adds
f . psi - KL(N(m, diag s2) || N(mu, Sigma)) to the bound on the log evidence.

Arrays are flat: the cells of a row lie side by side, rows end to end. Rows may be those of a table, or the rows that
each sentence of a corpus uses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...array import Array
from ...errors import FitError, TableError

#: A row has settled where what it could gain is below this, relative to its counts.
TOLERANCE = 1e-10
#: Rounds of coordinate steps; rows that have settled leave earlier, most of them after three or four.
SWEEPS = 50
#: Variances above this come down slowly step by step, and are first tried narrow.
WIDE = 20.0
#: Relative fall of a row's bound that rounding explains.
MAY_FALL = 1e-9


@dataclass(frozen=True)
class NormalRows:
    """Gaussian priors of rows that lie flat.

    :param offsets: (rows + 1,) int64, where each row begins. Rows have at least two cells.
    :param mean: (cells,)
    :param precision: (cells,), the diagonals of the inverse covariances.
    :param blocks: (some, N, N), whole inverse covariances, each in the upper left corner; None if they are diagonal.
    :param which: (rows,) int64, the block of each row.
    :param log_det: (some,), the log determinants of the blocks.
    """

    offsets: Array
    mean: Array
    precision: Array
    blocks: Array | None = None
    which: Array | None = None
    log_det: Array | None = None

    @cached_property
    def lengths(self) -> Array:  # (rows,)
        return np.diff(self.offsets)

    def sum(self, x: Array) -> Array:  # (cells,) -> (rows,)
        """Add up every row."""
        return np.add.reduceat(x, self.offsets[:-1]) if len(x) else np.zeros(0)

    def spread(self, x: Array) -> Array:  # (rows,) -> (cells,)
        """Give every cell its row's value."""
        return np.repeat(x, self.lengths)

    def draw(self, generator: torch.Generator, draws: int) -> Tensor:  # (draws, cells)
        """Draws of all rows."""
        noise = torch.randn(draws, len(self.mean), generator=generator, dtype=torch.float64)
        if self.blocks is None or self.which is None:
            return torch.from_numpy(self.mean) + noise / torch.from_numpy(self.precision).sqrt()
        found = torch.from_numpy(self.mean).repeat(draws, 1)
        sizes = torch.from_numpy(self.lengths)
        starts = torch.from_numpy(self.offsets[:-1])
        for k, size in sorted({(int(k), int(n)) for k, n in zip(self.which, self.lengths, strict=True)}):
            # Inverse covariance P = L L': L'^-1 z has covariance P^-1.
            factor = torch.linalg.cholesky(torch.from_numpy(self.blocks[k][:size, :size].copy()))
            mine = starts[(torch.from_numpy(self.which) == k) & (sizes == size)]
            cells = (mine[:, None] + torch.arange(size)).flatten()
            wide = noise[:, cells].reshape(draws * len(mine), size).T
            part = torch.linalg.solve_triangular(factor.T, wide, upper=True).T
            found[:, cells] += part.reshape(draws, -1)
        return found

    def quadratic(self, x: Array) -> Array:  # (cells,) -> (rows,)
        """x' P x of every row."""
        if self.blocks is None:
            return self.sum(self.precision * x * x)
        from ...kernels.logistic_normal import in_threads, quadratics

        out = np.empty(len(self.lengths))
        in_threads(lambda a, b: quadratics(x, self.blocks, self.which, self.offsets, out, a, b), self.offsets)
        return out


@dataclass(frozen=True)
class Posterior:
    """N(m, diag s2) for every row, flat."""

    mean: Array  # (cells,)
    variance: Array  # (cells,)

    def log_zeta(self, offsets: Array) -> Array:  # (rows,)
        """The best zeta of every row, in logs."""
        from ...kernels.logistic_normal import in_threads, log_zetas

        out = np.empty(len(offsets) - 1)
        in_threads(lambda a, b: log_zetas(self.mean, self.variance, offsets, out, a, b), offsets)
        return out

    def log_weights(self, offsets: Array) -> Array:  # (cells,)
        """psi: below E[log theta], and sub-normalised."""
        found: Array = self.mean - np.repeat(self.log_zeta(offsets), np.diff(offsets))
        return found


def at_prior(rows: NormalRows) -> Posterior:
    """What a posterior is without counts: as near to the prior as a diagonal Gaussian gets."""
    return Posterior(rows.mean.copy(), 1 / rows.precision)


def divergence(rows: NormalRows, posterior: Posterior) -> Array:  # (rows,)
    """KL of the posterior from the prior, of every row."""
    scale = rows.precision * posterior.variance
    if rows.blocks is None:
        spread = rows.sum(scale - 1 - np.log(scale))
    else:
        assert rows.log_det is not None
        spread = rows.sum(scale - 1 - np.log(posterior.variance)) - rows.log_det[rows.which]
    return 0.5 * (spread + rows.quadratic(posterior.mean - rows.mean))


def bound(counts: Array, rows: NormalRows, posterior: Posterior, log_zeta: Array | None = None) -> Array:  # (rows,)
    """What every row adds to the bound: f . psi - KL, for any zeta; by default for the best."""
    best, heard = posterior.log_zeta(rows.offsets), rows.sum(counts)
    # A row without counts may have any zeta, also one so far too small that its exponential is not finite.
    cost = best if log_zeta is None else log_zeta + np.expm1(np.minimum(best - log_zeta, 700))
    found: Array = rows.sum(counts * posterior.mean) - heard * cost - divergence(rows, posterior)
    return found


def fitted(
    counts: Array,  # (cells,)
    rows: NormalRows,
    start: Posterior | None = None,
    *,
    tolerance: float = TOLERANCE,
    sweeps: int = SWEEPS,
    strict: bool = False,
    name: str = "rows",
) -> Posterior:
    """The best posterior for these expected counts, by coordinate steps that never lower the bound of any row.

    Means go by Newton's method with zeta at its best, variances one by one with zeta fixed, then zeta again. The bound
    is concave, so there is one best posterior; from a near start it takes a few steps.

    :param start: where to begin, by default at the prior.
    :param tolerance: what a row may leave ungained, relative to its counts.
    :param strict: check the bound after every step.
    :param name: of the table, for errors.
    :raises FitError: if ``strict`` and a step lowered the bound of a row.
    """
    from ...kernels.logistic_normal import diagonal_means, full_means, in_threads, variances

    if not (np.isfinite(counts).all() and (counts >= 0).all()):
        raise TableError(f"table '{name}': expected counts must be finite and not negative")
    start = at_prior(rows) if start is None else start
    now = Posterior(start.mean.copy(), _narrowed(counts, rows, start))
    state = (rows.offsets, now.mean, now.variance)
    watch = _Watch(counts, rows, now, name) if strict else None
    active = np.ones(len(rows.lengths), dtype=np.bool_)
    for _ in range(sweeps):
        moved = np.zeros_like(active)
        todo = (*state, active, moved, tolerance)
        step: Callable[[int, int], None]
        if rows.blocks is None:
            step = _over(diagonal_means, counts, rows.mean, rows.precision, *todo)
        else:
            step = _over(full_means, counts, rows.mean, rows.blocks, rows.which, *todo)
        in_threads(step, rows.offsets)
        if watch is not None:
            watch.check("mean", zeta=True)
        in_threads(_over(variances, counts, rows.precision, *todo), rows.offsets)
        if watch is not None:
            watch.check("variance", zeta=False)
            watch.check("zeta", zeta=True)
        active = moved
        if not active.any():
            break
    return now


def _narrowed(counts: Array, rows: NormalRows, start: Posterior) -> Array:  # (cells,)
    """The variances to start with: where some are wide, those that a row's counts would leave it with, if better.

    With zeta fixed a variance falls by about its log in one step, and the wide ones of a row hold each other up.
    """
    if not (start.variance > WIDE).any():
        return start.variance.copy()
    share = rows.spread(rows.sum(counts) / rows.lengths)
    narrow = Posterior(start.mean, np.minimum(start.variance, 1 / (rows.precision + share)))
    better = rows.spread(bound(counts, rows, narrow) > bound(counts, rows, start))
    return np.where(better, narrow.variance, start.variance)


def _over(kernel: Callable[..., None], *args: Any) -> Callable[[int, int], None]:
    return lambda first, last: kernel(*args, first, last)


class _Watch:
    """Compares the bound of every row before and after a step."""

    def __init__(self, counts: Array, rows: NormalRows, posterior: Posterior, name: str) -> None:
        self.counts, self.rows, self.posterior, self.name = counts, rows, posterior, name
        self.log_zeta = posterior.log_zeta(rows.offsets)
        self.before = bound(counts, rows, posterior, self.log_zeta)

    def check(self, step: str, zeta: bool) -> None:
        """:param zeta: whether the step ends with zeta at its best."""
        if zeta:
            self.log_zeta = self.posterior.log_zeta(self.rows.offsets)
        after = bound(self.counts, self.rows, self.posterior, self.log_zeta)
        fell = after < self.before - MAY_FALL * np.maximum(1, np.abs(self.before))
        if not np.isfinite(after).all() or fell.any():
            row = int(np.argmax(fell | ~np.isfinite(after)))
            raise FitError(
                f"table '{self.name}': the {step} step lowered the bound of row {row} from {self.before[row]!r} to "
                f"{after[row]!r}: please report it, with these counts and this prior"
            )
        self.before = after
