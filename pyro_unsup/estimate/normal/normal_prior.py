"""The Gaussian prior of all rows of a table, and the experts that they may share."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...array import Array
from ...tables import Declaration
from ..table_rows import TableRows
from .covariance import inverses
from .logistic_normal_updates import NormalRows, Posterior, divergence
from .sharing import Sharing, sharing_of


@dataclass(frozen=True)
class TablePrior:
    """What is believed of the rows of a table.

    :param rows: each on its own.
    :param sharing: what they have in common, if they have; the covariances of ``rows`` are then of their own part.
    """

    rows: NormalRows
    sharing: Sharing | None = None

    @staticmethod
    def of(
        declaration: Declaration,
        rows: TableRows,
        mean: Array,  # (cells,)
        covariance: Tensor,  # () or broadcastable to the table: variances; or (outcomes, outcomes) if `whole`
        whole: bool,
        families: Mapping[Any, Hashable] | None = None,
        shared: float = 0.0,
    ) -> TablePrior:
        """:param families: of the labels of rows, which share this part of the covariance."""
        if not len(mean):
            return TablePrior(NormalRows(rows.offsets, mean, mean))  # no row has a choice
        sharing = None if families is None or not shared else sharing_of(declaration, rows, families, shared)
        lengths = np.diff(rows.offsets)
        own = np.ones(len(lengths)) if sharing is None else sharing.own
        if not whole:
            precision = 1 / rows.gather(covariance.expand(declaration.layout.shape))
            return TablePrior(NormalRows(rows.offsets, mean, precision / np.repeat(own, lengths)), sharing)
        blocks, which, log_det = inverses(declaration, rows, covariance)
        # Each way to cut and scale the covariance once.
        ways, which = np.unique(np.stack([which, own]), axis=1, return_inverse=True)
        cut, part = ways[0].astype(np.int64), ways[1]
        sizes = np.zeros(len(cut), dtype=np.int64)
        sizes[which] = lengths
        blocks, log_det = blocks[cut] / part[:, None, None], log_det[cut] - sizes * np.log(part)
        diagonals = np.diagonal(blocks, axis1=1, axis2=2)[which]
        inside = np.arange(diagonals.shape[1]) < lengths[:, None]
        return TablePrior(NormalRows(rows.offsets, mean, diagonals[inside], blocks, which, log_det), sharing)

    def given(self, posterior: Posterior) -> NormalRows:
        """The rows around the experts that suit a posterior best."""
        if self.sharing is None:
            return self.rows
        expert = self.sharing.expert(posterior.mean - self.rows.mean, self.rows)
        return replace(self.rows, mean=self.rows.mean + expert)

    def log_prior(self, posterior: Posterior, rows: NormalRows) -> float:
        """Minus the divergence of the posterior from the prior, with these experts as the means of its rows."""
        cost = 0.0 if self.sharing is None else self.sharing.cost(rows.mean - self.rows.mean, self.rows)
        return -float(divergence(rows, posterior).sum()) - cost


def learned(rows: NormalRows, posterior: Posterior, jitter: float) -> Tensor:  # (outcomes, outcomes)
    """The covariance that suits the posteriors of rows of one size best: the mean of diag s2 + (m - mu)(m - mu)'.

    :param jitter: added to its diagonal, as a prior exp(-rows / 2 * jitter * trace(inverse)) would.
    """
    shape = (len(rows.lengths), -1)
    apart = torch.from_numpy(posterior.mean - rows.mean).reshape(shape)
    spread = torch.from_numpy(posterior.variance).reshape(shape).mean(0) + jitter
    return apart.mT @ apart / len(apart) + spread.diag()
