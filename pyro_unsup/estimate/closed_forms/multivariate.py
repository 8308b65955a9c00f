"""Families of vectors."""

from __future__ import annotations

from collections.abc import Set

import torch
from torch import Tensor

from .cells import Cells, ratio, spread_or_zero, weights_of
from .registry import register


@register(torch.distributions.MultivariateNormal)
def multivariate_normal(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """Weighted mean and covariance. One covariance for all states is the mean of theirs."""
    new: dict[str, Tensor] = {}
    spread = wanted - {"loc"}
    if "loc" in wanted:
        n = cells.total("loc", weights_of, block=0)
        new["loc"] = ratio(cells.total("loc", lambda x, w, d: w.unsqueeze(-1) * x), n.unsqueeze(-1))
    if not spread:
        return new
    name, loc = next(iter(spread)), cells.now(new, "loc")
    n = cells.total(name, weights_of, block=0)
    covariance = ratio(cells.outer(name, lambda x, d: x - loc(d)), n.unsqueeze(-1).unsqueeze(-1))
    sizes = cells.total(name, lambda x, w, d: w.unsqueeze(-1) * x**2, block=1)
    own = covariance.diagonal(dim1=-2, dim2=-1)
    flat = spread_or_zero(own * n.unsqueeze(-1), n.unsqueeze(-1), sizes) == 0  # (*elements, D)
    covariance = torch.where(
        flat.any(-1)[..., None, None], 0.0, covariance
    )  # on one observation: refused by the caller
    if name == "covariance_matrix":
        new[name] = covariance
    else:
        lower, wrong = torch.linalg.cholesky_ex(covariance)
        lower = torch.where((wrong > 0)[..., None, None], 0.0, lower)  # a state on a line: refused by the caller
        new[name] = lower if name == "scale_tril" else torch.cholesky_inverse(lower)
    return new
