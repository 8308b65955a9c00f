"""How long hidden states last: tables of log-weights, made from distributions over 0, 1, 2, ..."""

from __future__ import annotations

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from ..errors import StructureError
from .semiring import LOG

#: A tail is summed until its terms are e to the power of this, beside the largest of them.
NEGLIGIBLE = -50.0
#: So many terms at the least, and at the most. A longer tail is so heavy that one minus the rest is exact enough.
FEWEST_TERMS, MOST_TERMS = 1 << 6, 1 << 14


def duration_table(duration: TorchDistribution, longest: int, renormalise: bool = False) -> Tensor:  # (*batch, K, D)
    """Log-weights of lasting for 1 to D positions, if a state lasts for one more than a draw from a distribution.

    :param duration: over 0, 1, 2, ..., of batch shape (*batch, K): ``Poisson``, ``NegativeBinomial``, ``Geometric``.
    :param longest: D, the longest duration. Longer ones are cut off.
    :param renormalise: whether the weights of what is left shall sum to one.

    >>> import torch
    >>> import pyro.distributions as dist
    >>> from pyro_unsup.distributions import duration_table
    >>> duration_table(dist.Geometric(torch.tensor([0.5])), 3).exp()
    tensor([[0.5000, 0.2500, 0.1250]])
    >>> duration_table(dist.Geometric(torch.tensor([0.5])), 3, renormalise=True).exp()
    tensor([[0.5714, 0.2857, 0.1429]])
    """
    if not isinstance(longest, int) or longest < 1:
        raise StructureError(f"longest must be a whole number of positions, at least 1, actual {longest!r:.80}")
    table = _log_weights(duration, 0, longest)
    return table - LOG(table, -1).unsqueeze(-1) if renormalise else table


def longer(duration: TorchDistribution, longest: int) -> Tensor:  # (*batch, K)
    """The log-weight of all durations above the longest.

    Its terms are summed as far as they matter. One minus the rest would lose all digits of a small tail.
    """
    tail, done = _tail(duration, longest)
    if bool(done.all()):
        return LOG(tail, -1)
    rest = 1 - _log_weights(duration, 0, longest).exp().sum(-1)
    return torch.where(done, LOG(tail, -1), rest.clamp(min=torch.finfo(rest.dtype).tiny).log())


def whole_durations(
    duration: TorchDistribution, inside: Tensor, last: Tensor | None = None
) -> tuple[Tensor, Tensor] | None:
    """What an M step estimates the distribution of durations from: draws from it, and how many of each are expected.

    A stretch that was cut off would have lasted for as long as the distribution says, given that it lasted so long. So
    new parameters are those of weighted observations, in closed form if the family has one.

    :param duration: of batch shape (K,), as it was in the E step.
    :param inside: (K, D) expected numbers of stretches, by state and duration.
    :param last: (K, D) the same of stretches that were cut off.
    :return: draws, (n, 1), and their weights, (n, K); None if a tail is too heavy to be laid out.
    """
    with torch.no_grad():
        D = inside.shape[-1]
        table, counts = _log_weights(duration, 0, D), inside
        if last is not None:
            tail, done = _tail(duration, D)
            if not bool(done.all()):
                return None
            share = last.log() - survivor(table, LOG(tail, -1))  # of each cut, by how long it was
            share = torch.logcumsumexp(share, -1)
            lasted = torch.cat([table + share, tail + share[..., -1:]], -1).exp()
            counts = torch.cat([inside, torch.zeros_like(tail)], -1) + lasted
        return torch.arange(counts.shape[-1]).to(counts).unsqueeze(-1), counts.mT


def survivor(table: Tensor, beyond: Tensor | None = None) -> Tensor:  # (*batch, K, D)
    """Log-weights of lasting for at least 1 to D positions: the survivor function.

    :param table: (*batch, K, D) log-weights of lasting for exactly so many.
    :param beyond: (*batch, K) log-weight of lasting for more than D; None if that is impossible.

    >>> import torch
    >>> from pyro_unsup.distributions import survivor
    >>> survivor(torch.tensor([[0.5, 0.25, 0.25]]).log()).exp()
    tensor([[1.0000, 0.5000, 0.2500]])
    """
    D = table.shape[-1]
    if beyond is not None:
        lead = torch.broadcast_shapes(table.shape[:-1], beyond.shape)
        table = torch.cat([table.expand(*lead, D), beyond.expand(lead).unsqueeze(-1)], -1)
    least, lasts = torch.arange(D, device=table.device), torch.arange(table.shape[-1], device=table.device)
    return LOG(table.unsqueeze(-2).masked_fill(lasts < least.unsqueeze(-1), -torch.inf), -1)


def check_duration(duration: TorchDistribution, states: int) -> None:
    """Raise unless this is a distribution over whole numbers whose batch ends in the states."""
    shape, event = tuple(duration.batch_shape), tuple(duration.event_shape)
    if not shape or shape[-1] != states or event:
        raise StructureError(
            f"the durations must be a distribution over whole numbers whose batch shape ends in the {states} states; "
            f"actual batch shape {shape}, event shape {event} of a {type(duration).__name__}. Parameters of shape "
            f"(..., {states}) give that"
        )
    support = duration.support
    if not getattr(support, "is_discrete", False) or not bool(support.check(torch.zeros(shape)).all()):
        raise StructureError(
            f"the durations must be a distribution over 0, 1, 2, ..., to which one is added; actual support {support} "
            f"of a {type(duration).__name__}"
        )


def _tail(duration: TorchDistribution, longest: int) -> tuple[Tensor, Tensor]:  # (*batch, K, n), (*batch, K)
    """Log-weights of durations above the longest, as many as matter; and for which states these are all."""
    size = FEWEST_TERMS
    while True:
        tail = _log_weights(duration, longest, size)
        done = tail[..., -1].detach() <= tail.detach().amax(-1) + NEGLIGIBLE
        if bool(done.all()) or size >= MOST_TERMS:
            return tail, done
        size *= 4


def _log_weights(duration: TorchDistribution, first: int, size: int) -> Tensor:  # (*batch, K, size)
    """log p of so many whole numbers, -inf outside of the support."""
    own = [x for x in vars(duration).values() if isinstance(x, Tensor) and x.is_floating_point()]
    numbers = torch.arange(first, first + size).to(own[0] if own else torch.empty(0))
    numbers = numbers.reshape(size, *(1,) * len(duration.batch_shape))
    inside = duration.support.check(numbers)
    found = duration.log_prob(torch.where(inside, numbers, 0.0))
    return torch.where(inside, found, -torch.inf).movedim(0, -1)
