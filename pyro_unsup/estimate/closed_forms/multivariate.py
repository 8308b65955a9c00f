"""Families of vectors."""

from __future__ import annotations

from collections.abc import Set

import torch
from torch import Tensor

from .cells import Cells, ratio, spread_or_zero, weights_of
from .registry import NoClosedForm, register


def _one_covariance(cells: Cells, name: str | None) -> bool:
    """Whether all observations of a mean have one covariance. Only then is it their plain weighted mean.

    :param name: of the covariances, if they are estimated too.
    """
    if name is not None and cells.shapes[name][:-2] == cells.shapes["loc"][:-1]:  # a covariance for every mean
        places = [(site.index["loc"], site.index[name]) for site in cells.sites]
        if all(a is b or (a is not None and b is not None and torch.equal(a, b)) for a, b in places):
            return True
    elements = cells.shapes["loc"][:-1]
    by_state = all(site.index["loc"] is None and site.dist.batch_shape == elements for site in cells.sites)
    return by_state and (name is not None or len(cells.sites) == 1)


@register(torch.distributions.MultivariateNormal)
def multivariate_normal(cells: Cells, wanted: Set[str]) -> dict[str, Tensor]:
    """Weighted mean and covariance. One covariance for all states is the mean of theirs."""
    new: dict[str, Tensor] = {}
    spread = wanted - {"loc"}
    if "loc" in wanted:
        if not _one_covariance(cells, next(iter(spread), None)):
            raise NoClosedForm
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
