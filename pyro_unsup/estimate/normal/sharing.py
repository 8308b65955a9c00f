"""Rows of one family share an expert: what one of them learns moves the others.

A row is the sum of two Gaussian experts, its own and its family's [1]:

    eta_row = mu_row + b_family + own,    b ~ N(0, rho Sigma),    own ~ N(0, (1 - rho) Sigma),

so that each row still has the covariance Sigma, and rows of one family have rho Sigma in common. The posterior of b is
its own Gaussian factor, and is best in closed form: of n rows, with k = 1 / rho + n / (1 - rho),

    b ~ N(sum_rows (m - mu) / ((1 - rho) k), Sigma / k),

which costs the bound (N / 2) log(k rho) + b' Sigma^-1 b / (2 rho), and moves the mean of each row's prior by b.

**References:**

[1] S. Cohen and N. Smith (2009) "Shared logistic normal distributions for soft parameter tying in unsupervised grammar
induction".
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ...array import Array
from ...errors import TableError
from ...tables import Declaration
from ..table_rows import TableRows
from .logistic_normal_updates import NormalRows


@dataclass(frozen=True)
class Sharing:
    """Which rows share an expert.

    :param fraction: rho, the part of the covariance that they share.
    :param size: (rows,) int, how many rows there are in the family of each; 1 stands alone, and shares nothing.
    :param first: (families,) int, one row of each family of two or more.
    :param slots: (cells,) int, the same number for the same outcome of the same family.
    """

    fraction: float
    size: Array
    first: Array
    slots: Array

    @property
    def own(self) -> Array:  # (rows,)
        """The part of the covariance that is each row's own."""
        return np.where(self.size > 1, 1 - self.fraction, 1.0)

    def expert(self, moved: Array, rows: NormalRows) -> Array:  # (cells,) -> (cells,)
        """The mean of b, given m - mu, at every cell."""
        heard = np.bincount(self.slots, moved)[self.slots]
        n = rows.spread(self.size)
        return np.where(n > 1, heard * self.fraction / (1 - self.fraction + n * self.fraction), 0.0)

    def cost(self, expert: Array, rows: NormalRows) -> float:
        """What the experts cost the bound; the rows' precision is that of their own part."""
        squares = (rows.quadratic(expert) * self.own)[self.first]
        growth = np.log1p(self.size * self.fraction / (1 - self.fraction))
        return float(0.5 * ((rows.lengths * growth)[self.first].sum() + squares.sum() / self.fraction))


def sharing_of(
    declaration: Declaration, rows: TableRows, families: Mapping[Any, Hashable], fraction: float
) -> Sharing | None:
    """Rows whose contexts are of the same families and that have the same outcomes; None if no two rows do."""
    axes = declaration.axes
    if axes is None or declaration.layout.row_lengths is not None:
        raise TableError(
            f"table '{declaration.name}': rows can share only where families are known by the labels of axes, in a "
            "dense table: declare its axes, or leave shared at 0"
        )
    ways = rows.patterns(declaration)[1].tolist()  # rows of one family may differ in what they allow
    contexts = [[(True, families[x]) if x in families else (False, x) for x in axis.labels] for axis in axes[:-1]]
    labels = list(product(*contexts))
    numbers: dict[Hashable, int] = {}
    keys = ((labels[row], way) for row, way in zip(rows.numbers.tolist(), ways, strict=True))
    family = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    sizes = np.bincount(family, minlength=1)
    if not (sizes > 1).any():
        return None
    lengths = np.diff(rows.offsets)
    _, first = np.unique(family, return_index=True)
    starts = np.concatenate([[0], np.cumsum(lengths[first])])[:-1]  # slots of each family
    within = np.arange(rows.offsets[-1]) - np.repeat(rows.offsets[:-1], lengths)
    return Sharing(fraction, sizes[family], first[sizes > 1], np.repeat(starts[family], lengths) + within)
