"""What the posteriors of several runs say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..errors import UnsupError


def mean_posterior(model: Any, decoded: Sequence[Any]) -> tuple[Tensor, list[Tensor], Any]:
    """The mean of the posterior probabilities of several runs, the structure of each, and all together.

    :param decoded: of each run, the best first. Where states are but numbers, those of the others are numbered anew.
    """
    first, structures = decoded[0], [decoded[0].structure]
    marginals = first.posterior.marginals
    each = [marginals]
    for one in decoded[1:]:
        own, structure = one.posterior.marginals, one.structure
        if own.shape != marginals.shape:
            raise UnsupError(
                "consensus takes fits whose structures have the same parts: here the posterior of one is of shape "
                f"{tuple(marginals.shape)}, of another {tuple(own.shape)}. Such fits differ in the number of states or "
                "labels, or in the longest segment"
            )
        if model.interchangeable:
            order = matched(marginals.reshape(-1, marginals.shape[-1]), own.reshape(-1, own.shape[-1]))
            number = order.argsort()[structure.long().clamp(min=0)]
            own, structure = own[..., order], torch.where(structure < 0, structure, number)  # -1 is no state
        each.append(own)
        structures.append(structure)
    mean = torch.stack([one.double() for one in each]).mean(0)
    best = first.posterior.mbr(mean)
    return mean, structures, replace(first, structure=best, posterior=MeanPosterior(first.posterior, mean))


class MeanPosterior:
    """A posterior whose probabilities of parts are the mean of those of several runs. All else is that of the first.

    :param first: the posterior of the first run.
    :param marginals: in the shape of its marginals.
    """

    def __init__(self, first: Any, marginals: Tensor) -> None:
        self._first, self.marginals = first, marginals

    @property
    def smoothed(self) -> Tensor:  # (rows, K)
        """The same, one row a step, of a chain."""
        found: Tensor = self._first.smoothed
        return self.marginals.reshape(found.shape)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_first" not in self.__dict__:  # while it is copied
            raise AttributeError(name)
        return getattr(self._first, name)


def matched(reference: Tensor, other: Tensor) -> Tensor:  # (rows, K) each -> (K,)
    """By state of a reference, the state of another posterior that goes with it: those that share the most mass.

    >>> import torch
    >>> from pyro_unsup.tasks.agreement import matched
    >>> matched(torch.eye(3), torch.eye(3)[[2, 0, 1]])
    tensor([2, 0, 1])
    """
    from scipy.optimize import linear_sum_assignment

    _, columns = linear_sum_assignment((reference.double().T @ other.double()).numpy(), maximize=True)
    return torch.from_numpy(columns)
