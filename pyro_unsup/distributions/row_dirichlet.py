"""A Dirichlet for every row of a ragged table, as one Pyro distribution over the flat cells."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import TorchDistribution
from torch import Size, Tensor
from torch.distributions import Transform, biject_to, constraints, transform_to
from torch.distributions.utils import broadcast_all

from .segments import row_index, segment_log_softmax, segment_sum


class RowSimplex(constraints.Constraint):
    """Flat vectors whose rows, of the given lengths, each lie on a simplex."""

    event_dim = 1

    def __init__(self, row_lengths: Tensor) -> None:  # (rows,)
        self.row_lengths = row_lengths
        self.rows = row_index(row_lengths)

    def check(self, value: Tensor) -> Tensor:
        sums = segment_sum(value, self.rows, len(self.row_lengths))
        rounding = torch.finfo(value.dtype).eps * self.row_lengths  # of a sum of so many terms
        return (value >= 0).all(-1) & ((sums - 1).abs() < 1e-5 + rounding).all(-1)

    def __repr__(self) -> str:
        return f"RowSimplex({len(self.row_lengths)} rows)"


class RowSoftmax(Transform):
    """Free coordinates to rows on a simplex: the last cell of each row has logit 0 (additive log-ratio).

    :math:`|\\partial y / \\partial x| = \\prod_c y_c`, over all cells, the last ones included.
    """

    domain = constraints.real_vector
    bijective = True

    def __init__(self, row_lengths: Tensor, cache_size: int = 0) -> None:  # (rows,)
        super().__init__(cache_size=cache_size)
        self.row_lengths = row_lengths
        self.rows = row_index(row_lengths)
        self.codomain = RowSimplex(row_lengths)
        last = torch.zeros(len(self.rows), dtype=torch.bool, device=row_lengths.device)
        last[row_lengths.cumsum(0) - 1] = True
        self._free = (~last).nonzero().squeeze(-1)
        self._last = last.nonzero().squeeze(-1)

    def with_cache(self, cache_size: int = 1) -> RowSoftmax:
        return self if cache_size == self._cache_size else RowSoftmax(self.row_lengths, cache_size)

    def forward_shape(self, shape: Size) -> Size:
        return Size((*shape[:-1], len(self.rows)))

    def inverse_shape(self, shape: Size) -> Size:
        return Size((*shape[:-1], len(self._free)))

    def _call(self, x: Tensor) -> Tensor:  # (*batch, cells - rows) -> (*batch, cells)
        return self._log(x).exp()

    def _inverse(self, y: Tensor) -> Tensor:
        log_y = y.clamp(min=torch.finfo(y.dtype).tiny).log()
        return log_y[..., self._free] - log_y[..., self._last[self.rows[self._free]]]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._log(x).sum(-1)  # from x: cells of y may have underflowed

    def _log(self, x: Tensor) -> Tensor:  # (*batch, cells - rows) -> (*batch, cells)
        logits = x.new_zeros(*x.shape[:-1], len(self.rows)).index_copy(-1, self._free, x)
        return segment_log_softmax(logits, self.rows, len(self.row_lengths))


@biject_to.register(RowSimplex)
@transform_to.register(RowSimplex)
def _row_softmax(constraint: RowSimplex) -> RowSoftmax:
    return RowSoftmax(constraint.row_lengths)


class RowDirichlet(TorchDistribution):
    """Independent Dirichlets over the rows of a ragged table.

    .. math:: \\log p(y) = \\sum_r \\Big[ \\log\\Gamma(\\textstyle\\sum_{c \\in r} \\alpha_c)
              + \\sum_{c \\in r} (\\alpha_c - 1) \\log y_c - \\log\\Gamma(\\alpha_c) \\Big]

    :param concentration: (*batch, cells), all positive.
    :param row_lengths: (rows,), summing to the number of cells.

    >>> import torch
    >>> from pyro_unsup.distributions import RowDirichlet
    >>> RowDirichlet(torch.ones(3), torch.tensor([2, 1])).log_prob(torch.tensor([0.3, 0.7, 1.0])).item()
    0.0
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}  # noqa: RUF012
    has_rsample = True

    def __init__(self, concentration: Tensor, row_lengths: Tensor, validate_args: bool | None = None) -> None:
        if concentration.shape[-1] != int(row_lengths.sum()):
            raise ValueError(
                f"expected {int(row_lengths.sum())} cells (the sum of row_lengths), actual shape of "
                f"concentration = {tuple(concentration.shape)}"
            )
        if int(row_lengths.min()) < 1:
            raise ValueError(f"expected positive row_lengths, actual smallest = {int(row_lengths.min())}")
        self.concentration = concentration
        self.row_lengths = row_lengths
        self._rows = row_index(row_lengths)
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=1)
    def support(self) -> RowSimplex:
        return RowSimplex(self.row_lengths)

    def expand(self, batch_shape: Any, _instance: Any = None) -> RowDirichlet:
        concentration = self.concentration.expand(*batch_shape, *self.event_shape)
        new = RowDirichlet(concentration, self.row_lengths, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Tensor:
        total = segment_sum(self.concentration, self._rows, len(self.row_lengths))
        return self.concentration / total[..., self._rows]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(Size(sample_shape))
        alpha = self.concentration.expand(shape)
        # Gamma(a) is Gamma(a + 1) U^(1/a), whose log stays finite where a small a makes the number itself underflow.
        log_gamma = torch._standard_gamma(alpha + 1).log() - torch.empty_like(alpha).exponential_() / alpha
        return segment_log_softmax(log_gamma, self._rows, len(self.row_lengths)).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        alpha, value = broadcast_all(self.concentration, value)
        if self._validate_args:
            self._validate_sample(value)
        total = segment_sum(alpha, self._rows, len(self.row_lengths))
        log_value = value.clamp(min=torch.finfo(value.dtype).tiny).log()
        return total.lgamma().sum(-1) + ((alpha - 1) * log_value - alpha.lgamma()).sum(-1)
