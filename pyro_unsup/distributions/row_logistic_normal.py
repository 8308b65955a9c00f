"""A logistic normal for each row of a ragged table, as one Pyro distribution over the flat cells."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import torch
from pyro.distributions import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints

from .row_dirichlet import RowSimplex
from .segments import row_index, segment_log_softmax, segment_sum


class RowLogisticNormal(TorchDistribution):
    """Independent logistic normals over the rows of a ragged table: each row is softmax(eta), with a Gaussian eta for
    every cell of it, the last included.

    Adding a number to all etas of a row changes nothing, so they are integrated along that line. With the precisions
    w = 1 / variance, and z = log y - mean, whose average by w in the row is z*, a row of n cells has the density

    .. math:: \\log p(y) = - \\sum_c \\log y_c - \\tfrac{n - 1}{2} \\log 2 \\pi + \\tfrac{1}{2} \\sum_c \\log w_c
              - \\tfrac{1}{2} \\log \\sum_c w_c - \\tfrac{1}{2} \\sum_c w_c (z_c - z^*)^2

    in all coordinates but one, as a Dirichlet has. (The first term is the Jacobian of the softmax; the others are the
    Gaussian of the differences eta_c - eta_n, its inverse covariance by the formula of Sherman and Morrison.) A row of
    one cell is certain.

    With a covariance S for each row, the precision w becomes the matrix P = S^-1: the determinant of P takes the place
    of the product of w, 1' P 1 that of its sum, and quadratic forms in P that of weighted squares.

    :param mean: of eta, (*batch, cells).
    :param variance: of eta, (*batch, cells), all positive; None if ``covariance`` is given.
    :param row_lengths: (rows,), summing to the number of cells.
    :param covariance: of the etas of each row, (*batch, rows, N, N), in the upper left corner of a block that is the
        identity beyond it; N is the longest row.

    >>> import torch
    >>> from pyro_unsup.distributions import RowLogisticNormal
    >>> row = RowLogisticNormal(torch.zeros(2), torch.full((2,), 0.5), torch.tensor([2]))
    >>> row.log_prob(torch.tensor([0.5, 0.5])).exp()  # 1 / sqrt(2 pi) for the logit, times 4
    tensor(1.5958)
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "scale": constraints.independent(constraints.positive, 1),
    }
    has_rsample = True

    def __init__(
        self,
        mean: Tensor,
        variance: Tensor | None,
        row_lengths: Tensor,
        validate_args: bool | None = None,
        *,
        covariance: Tensor | None = None,
    ) -> None:
        if (variance is None) == (covariance is None):
            raise ValueError("expected either a variance or a covariance")
        self._rows = row_index(row_lengths)
        self._factor: Tensor | None = None
        if covariance is not None:
            rows, longest = len(row_lengths), int(row_lengths.max())
            if covariance.shape[-3:] != (rows, longest, longest):
                raise ValueError(
                    f"expected a covariance of shape (*batch, {rows}, {longest}, {longest}), actual shape = "
                    f"{tuple(covariance.shape)}"
                )
            first = row_lengths.cumsum(0) - row_lengths
            within = torch.arange(len(self._rows), device=row_lengths.device) - first[self._rows]
            self._places = self._rows * longest + within  # of cells among those of the blocks
            variance = covariance.diagonal(dim1=-2, dim2=-1).flatten(-2)[..., self._places]
            self._factor = torch.linalg.cholesky(covariance)
        assert variance is not None
        mean, variance = torch.broadcast_tensors(mean, variance)
        if mean.shape[-1:] != (int(row_lengths.sum()),):
            raise ValueError(
                f"expected {int(row_lengths.sum())} cells (the sum of row_lengths), actual shape of "
                f"mean = {tuple(mean.shape)}"
            )
        if int(row_lengths.min()) < 1:
            raise ValueError(f"expected positive row_lengths, actual smallest = {int(row_lengths.min())}")
        self.loc, self.scale = mean, variance.sqrt()
        self.row_lengths = row_lengths
        super().__init__(mean.shape[:-1], mean.shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=1)
    def support(self) -> RowSimplex:
        return RowSimplex(self.row_lengths)

    def expand(self, batch_shape: Any, _instance: Any = None) -> RowLogisticNormal:
        new = copy(self)
        new._batch_shape = Size(batch_shape)
        shape = new._batch_shape + self.event_shape
        new.loc, new.scale = self.loc.expand(shape), self.scale.expand(shape)
        if self._factor is not None:
            new._factor = self._factor.expand(new._batch_shape + self._factor.shape[-3:])
        return new

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        noise = torch.randn(self._extended_shape(Size(sample_shape)), dtype=self.loc.dtype, device=self.loc.device)
        if self._factor is not None:
            noise = self._of_blocks(self._factor @ self._in_blocks(noise))
        else:
            noise = self.scale * noise
        return segment_log_softmax(self.loc + noise, self._rows, len(self.row_lengths)).exp()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        log_y = value.clamp(min=torch.finfo(value.dtype).tiny).log()
        free = len(self._rows) - len(self.row_lengths)
        gaussian = self._gaussian(log_y - self.loc) if self._factor is None else self._full_gaussian(log_y - self.loc)
        return gaussian - 0.5 * free * math.log(2 * math.pi) - log_y.sum(-1)

    def _gaussian(self, z: Tensor) -> Tensor:
        w, z = torch.broadcast_tensors(self.scale**-2, z)
        total = self._sum(w)
        apart = z - (self._sum(w * z) / total)[..., self._rows]
        found: Tensor = -self.scale.log().sum(-1) - 0.5 * (total.log().sum(-1) + (w * apart**2).sum(-1))
        return found

    def _full_gaussian(self, z: Tensor) -> Tensor:
        """The same with L L' = S: what is multiplied by L^-1 has P in its squares."""
        assert self._factor is not None
        both = torch.cat([self._in_blocks(z), self._in_blocks(torch.ones_like(z))], -1)  # (*batch, rows, N, 2)
        z, one = torch.linalg.solve_triangular(self._factor, both, upper=False).unbind(-1)
        total = one.square().sum(-1)
        apart = z - ((one * z).sum(-1) / total)[..., None] * one
        log_det = self._factor.diagonal(dim1=-2, dim2=-1).log().sum((-1, -2))
        found: Tensor = -log_det - 0.5 * (total.log().sum(-1) + apart.square().sum((-1, -2)))
        return found

    def _in_blocks(self, x: Tensor) -> Tensor:  # (*batch, cells) -> (*batch, rows, N, 1)
        rows, longest = len(self.row_lengths), int(self.row_lengths.max())
        padded: Tensor = x.new_zeros(*x.shape[:-1], rows * longest).index_copy(-1, self._places, x)
        return padded.reshape(*x.shape[:-1], rows, longest, 1)

    def _of_blocks(self, x: Tensor) -> Tensor:  # (*batch, rows, N, 1) -> (*batch, cells)
        return x.flatten(-3)[..., self._places]

    def _sum(self, x: Tensor) -> Tensor:  # (*batch, cells) -> (*batch, rows)
        return segment_sum(x, self._rows, len(self.row_lengths))
