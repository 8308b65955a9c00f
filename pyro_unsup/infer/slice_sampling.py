"""Slice sampling of many numbers at once, each with a density of its own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

#: Steps out, at most, to both sides together.
STEPS = 100
#: Cuts of an interval, at most.
CUTS = 200


def slice_sample(log_density: Callable[[Tensor], Tensor], x: Tensor, width: float = 1.0) -> Tensor:
    """A draw of every number that leaves its density as it is (Neal 2003): stepping out, and shrinking.

    :param log_density: from numbers to the log-densities of each, which do not depend on each other.
    :param x: where they are.
    :param width: of a step out.

    >>> import torch
    >>> from pyro_unsup.infer.slice_sampling import slice_sample
    >>> torch.manual_seed(0)  # doctest: +ELLIPSIS
    <torch...>
    >>> x = torch.zeros(4000)
    >>> for _ in range(20):
    ...     x = slice_sample(lambda y: -0.5 * y**2, x)
    >>> round(float(x.std()), 1)
    1.0
    """
    level = log_density(x) + torch.rand_like(x).log()
    low = x - width * torch.rand_like(x)
    high = low + width
    left = (STEPS * torch.rand_like(x)).floor()  # how many of them to the left, at random: else it would not be exact
    for sign, end, most in ((-1, low, left), (1, high, STEPS - 1 - left)):
        for step in range(STEPS):
            outside = (log_density(end) > level) & (step < most)
            if not bool(outside.any()):
                break
            end += sign * width * outside
    found, done = x.clone(), torch.zeros_like(x, dtype=torch.bool)
    for _ in range(CUTS):
        tried = torch.where(done, found, low + (high - low) * torch.rand_like(x))
        inside = log_density(tried) > level
        found = torch.where(~done & inside, tried, found)
        done = done | inside
        if bool(done.all()):
            break
        low, high = (torch.where(~done & (tried < x), tried, low), torch.where(~done & (tried >= x), tried, high))
    return found
