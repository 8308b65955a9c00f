"""Weighted observations, and the elements of parameters that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

#: From observations, their weights and the distribution to one number (or block of numbers) a cell.
Term = Callable[[Tensor, Tensor, Any], Tensor]
#: Distances below so many roundings of the observations are none.
ROUNDING = 1e3


@dataclass
class Observations:
    """Observations of one site.

    :param dist: of batch shape (*cells), or one that broadcasts to it.
    :param value: (*cells, *event), or of a shape that broadcasts to it.
    :param weight: (*cells) posterior probabilities; 0 for what is missing.
    :param index: by parameter, the element of the estimated tensor that each element of the distribution's own one is,
        (*batch of the parameter); None if they are the same.
    """

    dist: Any
    value: Tensor
    weight: Tensor
    index: Mapping[str, Tensor | None]


@dataclass
class Cells:
    """Weighted observations of all sites that share some parameters.

    :param sites: the observations.
    :param shapes: of the tensors that are estimated, by parameter.
    :param blocks: how many of the last axes of a parameter belong together: 1 for the mean of a vector.
    :param priors: of parameters that have one.

    >>> import torch
    >>> import pyro.distributions as dist
    >>> from pyro_unsup.estimate.closed_forms import Cells, Observations
    >>> x, weight = torch.tensor([[1.0], [2.0], [6.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    >>> seen = Observations(dist.Poisson(torch.ones(2)), x, weight, {"rate": None})
    >>> cells = Cells([seen], {"rate": torch.Size([2])})
    >>> cells.total("rate", lambda x, w, d: w * x)
    tensor([2., 7.])
    """

    sites: list[Observations]
    shapes: Mapping[str, torch.Size]
    blocks: Mapping[str, int] = field(default_factory=dict)
    priors: Mapping[str, Any] = field(default_factory=dict)

    def total(self, name: str, term: Term, block: int | None = None) -> Tensor:
        """The sum of something over all cells that belong to each element of a parameter.

        :param name: of the parameter.
        :param term: of the sum. It gives (*cells, *block).
        :param block: how many axes of a term, and of the result, belong to one element; that of the parameter, if it
            is not given.
        """
        block = self.blocks.get(name, 0) if block is None else block
        found: Tensor | None = None
        for site in self.sites:
            each = term(site.value, site.weight, site.dist)
            one = self._gathered(name, each, block, site.index[name])
            found = one if found is None else found + one
        assert found is not None
        return found

    def outer(self, name: str, away: Callable[[Tensor, Any], Tensor]) -> Tensor:
        """The weighted sum of products of vectors with themselves, (*elements, D, D).

        :param away: from observations and the distribution to vectors, (*cells, D).
        """
        found: Tensor | None = None
        for site in self.sites:
            x, w = away(site.value, site.dist), site.weight
            x = x.expand(*torch.broadcast_shapes(w.shape, x.shape[:-1]), x.shape[-1])
            if site.index[name] is None and w.dim() == x.dim() - 1 == 2 and self.shapes[name][:-2] == w.shape[1:]:
                one = torch.matmul((w.unsqueeze(-1) * x).permute(1, 2, 0), x.transpose(0, 1))  # one product a state
            else:
                one = self._gathered(name, (w.unsqueeze(-1) * x).unsqueeze(-1) * x.unsqueeze(-2), 2, site.index[name])
            found = one if found is None else found + one
        assert found is not None
        return found

    def _gathered(self, name: str, each: Tensor, block: int, index: Tensor | None) -> Tensor:
        shape = self.shapes[name][: len(self.shapes[name]) - self.blocks.get(name, 0)]  # of elements
        own = shape if index is None else index.shape
        tail = each.shape[each.dim() - block :]
        each = each.sum_to_size((*(1,) * (each.dim() - block - len(own)), *own, *tail)).reshape((*own, *tail))
        if index is None:
            return each
        flat = each.new_zeros(shape.numel(), *tail).index_add(0, index.reshape(-1), each.reshape(-1, *tail))
        return flat.reshape((*shape, *tail))

    def spread(self, name: str, value: Tensor, site: Observations) -> Tensor:
        """A new value of a parameter, as the distribution of a site would have it."""
        index, block = site.index[name], self.blocks.get(name, 0)
        if index is None:
            return value
        tail = value.shape[value.dim() - block :]
        return value.reshape(-1, *tail)[index]

    def now(self, new: Mapping[str, Tensor], name: str) -> Callable[[Any], Tensor]:
        """A parameter as it will be: its new value, or the one that the distribution has."""
        by_site = {id(site.dist): site for site in self.sites}

        def found(dist: Any) -> Tensor:
            if name in new:
                return self.spread(name, new[name], by_site[id(dist)])
            value: Tensor = getattr(dist, name)
            return value

        return found


def weights_of(x: Tensor, w: Tensor, d: Any) -> Tensor:
    """The weights themselves, for :meth:`Cells.total`."""
    return w


def weighted_sum(x: Tensor, w: Tensor, d: Any) -> Tensor:
    """Weighted observations, for :meth:`Cells.total`."""
    return w * x


def ratio(above: Tensor, below: Tensor, where: Tensor | float = torch.nan) -> Tensor:
    """A ratio; ``where`` nothing is below."""
    return torch.where(below > 0, above / below.clamp(min=torch.finfo(below.dtype).tiny), where)


def spread_or_zero(squares: Tensor, n: Tensor, sizes: Tensor) -> Tensor:
    """Variances from sums of squared distances; zero where they are nothing but rounding, on one observation.

    :param squares: weighted sums of squared distances from means.
    :param n: weights.
    :param sizes: weighted sums of squares of the observations themselves.
    """
    least = (ROUNDING * torch.finfo(n.dtype).eps) ** 2
    variance = ratio(squares, n)
    return torch.where(variance > least * ratio(sizes, n), variance, torch.where(variance.isnan(), variance, 0.0))
