"""What was learned about a table, as a distribution over its probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyro.distributions as dist
import torch
from torch import Tensor

from ..distributions import RowDirichlet
from ..distributions.row_logistic_normal import RowLogisticNormal
from ..errors import UnsupError
from ..estimate import TablePosterior
from ..estimate.table_rows import TableRows
from ..estimate.variational import concentration_of
from ..tables import Declaration, Layout

if TYPE_CHECKING:
    from .fit import Fit

#: How far from one the sum of a normalised row may be, in units of the precision of its weights.
ROUNDING = 32


def table_posterior(fit: Fit, declaration: Declaration, dtype: torch.dtype) -> Any:
    """q(theta) of a table: a distribution with the values of the model's own site, probabilities.

    That site lies as the table does, or, if the table has a support or is ragged, flat over the cells that are allowed.
    Which q it is stands in ``fit.posteriors``, where training has put what its estimators say of themselves:

    * logistic-normal rows, of which the estimator remembers means and variances (:class:`.LogisticNormal`). After
      :class:`.HierarchicalEM` it is the learned prior, with means and covariances: what is drawn are the tables of a
      new example, rows softmax(eta) with eta ~ N(mu, Sigma), Sigma whole if it is;
    * Dirichlet rows: the weights are exp(E[log theta]), from which the Dirichlet follows (:class:`.DirichletVB`,
      :class:`.EmpiricalDirichlet`). Initial weights that were never updated sum to one, as no Dirichlet's do: a point;
    * otherwise a point.
    """
    layout, weights = declaration.layout, fit.weights[declaration.name]
    flat, across = _row_lengths(layout), len(layout.shape) - 1
    kind = fit.posteriors.get(declaration.name, TablePosterior.POINT)
    if kind is TablePosterior.LOGISTIC_NORMAL:
        mean, variance = _normal(fit, declaration)
        lengths, mean = torch.tensor(layout.shape[-1:]) if flat is None else flat, to_site(layout, mean).to(dtype)
        if variance.shape == layout.shape:
            normal = RowLogisticNormal(mean, to_site(layout, variance).to(dtype), lengths)
        else:
            normal = RowLogisticNormal(mean, None, lengths, covariance=_blocks(layout, variance).to(dtype))
        return normal.to_event(across) if flat is None else normal
    precise = _remembered(fit, declaration.name, "weights")
    dirichlet = kind is TablePosterior.DIRICHLET
    found = _concentration(layout, weights if precise is None else precise) if dirichlet else None
    if found is not None:
        alpha = to_site(layout, found).to(dtype)
        return dist.Dirichlet(alpha).to_event(across) if flat is None else RowDirichlet(alpha, flat)
    point = to_site(layout, layout.normalise(weights.double()).exp()).to(dtype)
    return dist.Delta(point, event_dim=point.dim())


def is_point(q: Any) -> bool:
    """Whether nothing is uncertain."""
    return isinstance(q, dist.Delta)


def to_site(layout: Layout, table: Tensor) -> Tensor:
    """A table as the value of the model's site."""
    return table if layout.support is None else table[layout.support]


def to_table(layout: Layout, value: Tensor) -> Tensor:  # (*batch, *site) -> (*batch, *layout.shape)
    """Values of the model's site as tables; structural zeros are 0."""
    if layout.support is None:
        return value
    table = value.new_zeros(*value.shape[:-1], *layout.shape)
    table[..., layout.support] = value
    return table


def _row_lengths(layout: Layout) -> Tensor | None:
    """Of the rows of a site that lies flat; None if it lies as the table does."""
    return layout.row_lengths if layout.support is None else layout.support.sum(-1).reshape(-1)


def _remembered(fit: Fit, table: str, what: str) -> Tensor | None:
    """What an estimator remembers of a table. One that is not the only one with a memory goes by its first table."""
    keys = (f"{prefix}{table}.{what}" for prefix in ("", *(f"{first}." for first in fit.weights)))
    return next((fit.memory[key] for key in keys if key in fit.memory), None)


def _normal(fit: Fit, declaration: Declaration) -> tuple[Tensor, Tensor]:
    """Means and variances of a logistic normal, layout.shape each; any will do for cells that have no choice. Whole
    covariances, (rows, N, N), are as they are remembered."""
    mean, variance, whole = (_remembered(fit, declaration.name, what) for what in ("mean", "variance", "covariance"))
    variance = whole if variance is None else variance
    if mean is None or variance is None:
        raise UnsupError(
            f"table '{declaration.name}' has logistic-normal rows, but the fit has no means and variances of them: "
            f"expected '{declaration.name}.mean' and '{declaration.name}.variance' in fit.memory"
        )
    shape, cells = declaration.layout.shape, TableRows.of(declaration.layout).cells
    where = torch.arange(shape.numel()) if cells is None else cells

    def placed(x: Tensor, other: float) -> Tensor:
        return x.new_full((shape.numel(),), other).index_copy(0, where, x).reshape(shape)

    return placed(mean, 0.0), placed(variance, 1.0) if variance.dim() == 1 else variance


def _blocks(layout: Layout, covariance: Tensor) -> Tensor:  # (rows that have a choice, N, N)
    """The covariances of all rows, as the site lies: (rows, N, N), or (*rows, 1, N, N) if it lies as the table does."""
    lengths, size = _row_lengths(layout), covariance.shape[-1]
    if lengths is None:
        return covariance.reshape(*layout.rows, 1, size, size)
    every = torch.eye(size, dtype=covariance.dtype).repeat(len(lengths), 1, 1)
    every[torch.from_numpy(TableRows.of(layout).numbers)] = covariance
    return every


def _concentration(layout: Layout, weights: Tensor) -> Tensor | None:  # layout.shape
    """Of the Dirichlet rows with these E[log theta]; None if rows sum to one, as far as their precision tells: they are
    points, where the concentration would be infinite."""
    logs = weights.double()
    missing = 1 - layout.row_sum(logs.exp())
    cells = layout.row_sum(layout.allowed().double())
    rounding = ROUNDING * torch.finfo(weights.dtype).eps + cells * torch.finfo(torch.float64).eps  # of logs, of the sum
    if bool((missing <= rounding).all()):
        return None
    found = concentration_of(layout, logs)
    return None if found is None or bool((found <= 0)[layout.allowed()].any()) else found
