"""Empirical Bayes for logistic-normal priors: fresh weights for every sentence, and a prior learned from all of them.

Each sentence draws its own eta for every row of a table, and the prior N(mu, Sigma) of a row is what sentences have in
common. A pair is a sentence and a row that it may use. Pairs that a sentence cannot use are left out: their weights
meet no data, so they integrate to one under any prior, and add nothing to the bound. For the same reason a prior is
re-estimated from the pairs of its row alone; untouched sentences do not hold it where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ...array import Array
from ...errors import TableError
from ...tables import Declaration
from ..table_rows import TableRows
from .covariance import LARGEST, cut
from .logistic_normal_updates import TOLERANCE, NormalRows, Posterior, divergence, fitted

#: What is added to variances when they are re-estimated: the scale of a prior exp(-pairs / 2 * JITTER * trace(inverse))
#: of each row, which keeps them from collapsing and is part of the bound.
JITTER = 1e-6


@dataclass(frozen=True)
class RowPriors:
    """A Gaussian for every row of a table with two outcomes or more.

    :param rows: where the cells of each row lie in the table.
    :param mean: (cells,)
    :param covariance: (cells,) variances, or (rows, N, N), each in the upper left corner of a block that is the
        identity beyond it.
    """

    rows: TableRows
    mean: Array
    covariance: Array

    @staticmethod
    def start(
        declaration: Declaration,
        log_weights: Tensor,  # layout.shape
        covariance: Tensor | float = 1.0,  # () or (outcomes,) variances, or (outcomes, outcomes)
        full: bool = False,
    ) -> RowPriors:
        """Means at these log-weights (a harmonic start, say), and the same covariance for all rows.

        :param covariance: as :func:`.covariance_of` gives it; each row has that of its own outcomes.
        :param full: whether variances, too, are to become a full covariance; a matrix is one anyway.
        """
        name, layout, given = declaration.name, declaration.layout, torch.as_tensor(covariance, dtype=torch.float64)
        rows = TableRows.of(layout)
        mean, lengths = rows.gather(log_weights), np.diff(rows.offsets)
        if not np.isfinite(mean).all():
            raise TableError(
                f"table '{name}': the mean of a logistic normal must be finite: smooth the initial weights"
            )
        if not len(mean):
            return RowPriors(rows, mean, mean)
        if given.dim() < 2 and not full:
            return RowPriors(rows, mean, rows.gather(given.expand(layout.shape)))
        size = int(lengths.max())
        if len(lengths) * size**2 > LARGEST:
            raise TableError(
                f"table '{name}': {len(lengths)} covariances of {size} outcomes do not fit: use covariance='diagonal'"
            )
        if given.dim() == 2:
            parts, which = cut(declaration, rows, given)
            return RowPriors(rows, mean, parts[which].numpy())
        places, blocks = np.arange(size), np.zeros((len(lengths), size, size))
        diagonal = np.ones((len(lengths), size))
        diagonal[places < lengths[:, None]] = rows.gather(given.expand(layout.shape))
        blocks[:, places, places] = diagonal
        return RowPriors(rows, mean, blocks)

    @property
    def full(self) -> bool:
        return self.covariance.ndim == 3

    def cells(self, pairs: Array) -> Array:  # (pairs,) -> (cells of all pairs,)
        """The cells of the rows that pairs use, end to end: the order of everything that belongs to pairs.

        :param pairs: the row of each pair, as a number among ``rows.numbers``.
        """
        lengths = np.diff(self.rows.offsets)[pairs]
        starts = np.cumsum(lengths) - lengths
        return np.repeat(self.rows.offsets[pairs] - starts, lengths) + np.arange(lengths.sum())

    def of_pairs(self, pairs: Array) -> NormalRows:
        """The prior of every pair."""
        cells = self.cells(pairs)
        offsets = np.concatenate([[0], np.cumsum(np.diff(self.rows.offsets)[pairs])]).astype(np.int64)
        precision, blocks, log_det = self._inverses()
        if blocks is None:
            return NormalRows(offsets, self.mean[cells], precision[cells])
        return NormalRows(offsets, self.mean[cells], precision[cells], blocks, np.asarray(pairs, np.int64), log_det)

    def log_prior(self, pairs: Array) -> float:
        """The part of the bound that keeps covariances from collapsing."""
        lengths = np.diff(self.rows.offsets)
        many = np.repeat(np.bincount(pairs, minlength=len(lengths)), lengths)
        return -0.5 * JITTER * float((many * self._inverses()[0]).sum())

    def _inverses(self) -> tuple[Array, Array | None, Array | None]:
        if not self.full:
            return 1 / self.covariance, None, None
        factors = torch.linalg.cholesky(torch.from_numpy(self.covariance))
        blocks = torch.cholesky_inverse(factors).contiguous().numpy()
        log_det = -2 * factors.diagonal(dim1=-2, dim2=-1).log().sum(-1).numpy()
        inside = np.arange(blocks.shape[1]) < np.diff(self.rows.offsets)[:, None]
        return np.diagonal(blocks, axis1=1, axis2=2)[inside], blocks, log_det


@dataclass(frozen=True)
class Sentences:
    """The posteriors of all pairs.

    :param posterior: N(m, diag s2), flat in the order of :meth:`RowPriors.cells`.
    :param log_weights: psi, what an E step of each sentence takes for its rows.
    :param divergence: (pairs,) from the prior. The bound is log Z under ``log_weights``, minus their sum, plus
        :meth:`RowPriors.log_prior`.
    """

    posterior: Posterior
    log_weights: Array
    divergence: Array


def expected(
    counts: Array,  # (cells of all pairs,)
    pairs: Array,  # (pairs,)
    prior: RowPriors,
    start: Posterior | None = None,
    *,
    tolerance: float = TOLERANCE,
    strict: bool = False,
) -> Sentences:
    """The best posterior of every pair for the counts that its sentence expects of its row.

    :param start: the posteriors of the iteration before, which are near.
    :param strict: check the bound after every coordinate step.
    """
    rows = prior.of_pairs(pairs)
    if counts.shape != rows.mean.shape:
        raise TableError(f"expected counts for {len(rows.mean)} cells, those of every pair, actual {counts.shape}")
    found = fitted(counts, rows, start, tolerance=tolerance, strict=strict)
    return Sentences(found, found.log_weights(rows.offsets), divergence(rows, found))


def reestimated(prior: RowPriors, pairs: Array, posterior: Posterior) -> RowPriors:
    """The priors that suit the posteriors best:

        mu = mean m,    Sigma = mean [diag s2 + (m - mu)(m - mu)'] + JITTER I,

    the means over the pairs of a row. A row without pairs keeps its prior.
    """
    from ...kernels.logistic_normal import add_outer

    lengths, cells = np.diff(prior.rows.offsets), prior.cells(pairs)
    many = np.bincount(pairs, minlength=len(lengths))
    times, met = np.repeat(np.maximum(many, 1), lengths), np.repeat(many > 0, lengths)

    def average(x: Array) -> Array:
        found: Array = np.bincount(cells, x, minlength=len(met)) / times
        return found

    mean = np.where(met, average(posterior.mean), prior.mean)
    apart = posterior.mean - mean[cells]
    if not prior.full:
        variance = average(posterior.variance + apart * apart) + JITTER
        return replace(prior, mean=mean, covariance=np.where(met, variance, prior.covariance))
    offsets = np.concatenate([[0], np.cumsum(lengths[pairs])]).astype(np.int64)
    outer = np.zeros_like(prior.covariance)
    add_outer(apart, pairs, offsets, outer)
    outer /= np.maximum(many, 1)[:, None, None]
    places = np.arange(outer.shape[1])
    inside = places < lengths[:, None]
    diagonal = np.ones(inside.shape)
    diagonal[inside] = average(posterior.variance) + JITTER
    outer[:, places, places] += diagonal
    return replace(prior, mean=mean, covariance=np.where((many > 0)[:, None, None], outer, prior.covariance))
