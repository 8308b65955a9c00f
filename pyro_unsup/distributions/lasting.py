"""What is known about states that last: filtered, predicted and smoothed, and what it says of observations."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..errors import StructureError
from .duration import survivor
from .series import ChainPosterior, SeriesPosterior, moved

if TYPE_CHECKING:
    from .chain import Chain
    from .semimarkov import SemiMarkov


class SemiMarkovPosterior(SeriesPosterior):
    """The posterior over states that last, and what it says of observations.

    What comes next depends on a state and on its age, how long it has lasted so far. So filters and forecasts are those
    of a :class:`.Chain` whose states are pairs of both. From age a, with the weights w of durations and S of lasting at
    least so long, a state grows older with weight S(a + 1) / S(a), or is left with weight w(a) / S(a). It costs
    O(n K^2 D^2). Weights should be probabilities: what comes later is not looked at.

        >>> import torch
        >>> import pyro.distributions as dist
        >>> import pyro_unsup as pu
        >>> other = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).log()
        >>> normal, last = dist.Normal(torch.tensor([-1.0, 1.0]), 0.5), dist.Poisson(torch.tensor([2.0, 2.0]))
        >>> chain = pu.SemiMarkov(torch.tensor([0.5, 0.5]).log(), other, last, normal, 4, censored=True, longest=20)
        >>> days = chain.posterior(torch.tensor([-1.1, -0.9, -1.2, 1.0]))
        >>> days.filtered.argmax(-1)
        tensor([0, 0, 0, 1])
        >>> days.forecast(3).states[:, 1]  # it has just begun, and lasts for 3 on average
        tensor([0.8645, 0.6124, 0.4125])
        >>> torch.allclose(days.step_log_likelihood.sum(), days.log_partition)
        True
    """

    prior: SemiMarkov

    @cached_property
    def smoothed(self) -> Tensor:  # (*draws, rows, K)
        """P(state | all observations)."""
        return self.prior.padded(self._covers, len(self.prior.draws), 0.0)

    @cached_property
    def pairwise(self) -> Tensor:  # (*draws, rows, K, K)
        """P(state before, state | all observations); zeros at the first position of a sequence.

        Two neighbours are of one stretch, or one stretch ends and the next begins. Given that one begins, the state
        before it depends on the past alone.
        """
        dist, parts, lead = self.prior, self._marginals, len(self.prior.draws)  # (*draws, rows, D, K)
        K, D = dist.sizes["K"], dist.sizes["D"]
        begins = torch.zeros_like(parts[..., 0, :])
        for d in range(min(D, dist.rows.longest)):  # of stretches that end d later
            begins = begins + pad(parts[..., d:, d, :], (0, 0, 0, d))
        covers = self._covers
        owner = dist.rows.owner.to(covers.device)
        ages = self._ages._forward[1].unflatten(-1, (K, D))
        ended = (ages * dist.spread(self._leave, owner).exp()).sum(-1)  # (*draws, rows, K)
        ended = ended.roll(1, lead).unsqueeze(-1)
        steps = dist.spread(dist.table("transition"), owner)
        came = ended * (steps - steps.amax((-1, -2), keepdim=True)).exp()  # (*draws, rows, K before, K)
        came = came / came.sum(-2, keepdim=True).clamp(min=torch.finfo(came.dtype).tiny)
        found = came * begins.unsqueeze(-2) + torch.diag_embed(covers - begins)
        first = (dist.rows.position == 0).to(found.device)[:, None, None]
        return dist.padded(torch.where(first, 0.0, found), lead, 0.0)

    # -- how it is found

    @cached_property
    def _covers(self) -> Tensor:  # (*draws, rows, K)
        dist, parts = self.prior, self._marginals  # (*draws, rows, D, K)
        covers = torch.zeros_like(parts[..., 0, :])
        for d in range(min(dist.sizes["D"], dist.rows.longest)):  # of stretches that end d later, and last for more
            covers = covers + pad(parts[..., d:, d:, :].sum(-2), (0, 0, 0, d))
        return covers

    @cached_property
    def _lasts(self) -> Tensor:  # (*draws, 1 or B, K, D)
        """log S(a): of lasting for at least so long."""
        dist = self.prior
        return dist.table("last") if dist.censored else survivor(dist.table("duration"))

    @cached_property
    def _leave(self) -> Tensor:  # (*draws, 1 or B, K, D)
        """log w(a) / S(a): of being left at this age."""
        return _less(self.prior.table("duration"), self._lasts)

    @cached_property
    def _ages(self) -> ChainPosterior:
        """The posterior of the chain of states and ages."""
        chain = self._chain
        return ChainPosterior(chain, self.value)

    @cached_property
    def _chain(self) -> Chain:
        from .chain import Chain

        dist = self.prior
        if dist.extra:
            raise StructureError(
                "filtered probabilities and forecasts are those of a model without constraints on stretches"
            )
        K, D = dist.sizes["K"], dist.sizes["D"]
        tables = {name: dist.table(name) for name in dist.weights}  # (*draws, 1 or B, ...)
        start, steps, duration, emission = (tables[name] for name in ("start", "transition", "duration", "emission"))
        lasts, leave = self._lasts, self._leave  # (..., K, D)
        older = _less(lasts[..., 1:], lasts[..., :-1])  # (..., K, D - 1)
        batch = torch.broadcast_shapes(start.shape[:-1], steps.shape[:-2], duration.shape[:-2])
        moves = start.new_full((*batch, K, D, K, D), -torch.inf)
        begin = lasts[..., 0].unsqueeze(-2).unsqueeze(-2)  # (..., 1, 1, K): S(1) is 1, if durations sum to one
        moves[..., 0] = leave.unsqueeze(-1) + steps.unsqueeze(-2) + begin  # (..., K, D, K): to age 1 of another state
        stays = moves.diagonal(dim1=-4, dim2=-2)  # (..., D, D, K) a view
        if D > 1:
            stays.diagonal(1, dim1=-3, dim2=-2).copy_(older)  # (..., K, D - 1)
        moves = moves.reshape(*batch, K * D, K * D)
        if not dist.censored:  # the last stretch ends with its sequence
            moves = torch.cat([moves, leave.expand(*batch, K, D).reshape(*batch, K * D, 1)], -1)
        begins = start.new_full((*batch, K, D), -torch.inf)
        begins[..., 0] = start + lasts[..., 0]
        words = emission.repeat_interleave(D, -2)
        begins = begins.reshape(*batch, K * D)
        if not dist.draws and begins.shape[0] == moves.shape[0] == words.shape[0] == 1:
            begins, moves, words = begins[0], moves[0], words[0]
        chain = Chain(begins, moves, words, dist.rows.lengths, flat=True, validate_args=False)
        chain.own_words = dist.own_words
        return chain

    def _by_state(self, shares: Tensor) -> Tensor:  # (..., K D) -> (..., K)
        wide: Tensor = shares.unflatten(-1, (self.prior.sizes["K"], self.prior.sizes["D"]))
        return wide.sum(-1)

    @cached_property
    def _forward(self) -> tuple[Tensor, Tensor]:
        each, shares = self._ages._forward
        return each, self._by_state(shares)

    @cached_property
    def _predicted(self) -> Tensor:
        return self._by_state(self._ages._predicted)

    def _drawn_states(self) -> Tensor:
        return self._masked(self._decode(True, None))[..., 0]

    def _states_to_come(self, steps: int, transition: Tensor | None) -> list[Tensor]:
        if transition is not None:
            raise StructureError("transitions of states that last do not vary by step: leave transition out")
        if self.prior.censored:
            return [self._by_state(one) for one in self._ages._states_to_come(steps, None)]
        # The last stretch has ended: what comes is a fresh one.
        K, D = self.prior.sizes["K"], self.prior.sizes["D"]
        chain, ages = self._chain, self._ages
        table = chain.table("transition")
        ended = ages._last_filtered * (table[..., K * D] - table[..., K * D].amax(-1, keepdim=True)).exp()
        ended = self._by_state(ended)  # (*draws, B, K)
        lasts = survivor(self.prior.table("duration"))[..., 0]  # (..., K)
        steps_ = self.prior.table("transition") + lasts.unsqueeze(-2)
        begun = (ended.unsqueeze(-2) @ (steps_ - steps_.amax((-1, -2), keepdim=True)).exp()).squeeze(-2)
        now = torch.zeros_like(ages._last_filtered).unflatten(-1, (K, D))
        now[..., 0] = begun
        now = (now / now.sum((-1, -2), keepdim=True)).flatten(-2)
        empty = (chain.rows.lengths == 0).unsqueeze(-1).to(now.device)
        now = torch.where(empty, ages._last_filtered, now)  # nothing before: the start itself
        found = [now]
        for _ in range(steps - 1):
            found.append(moved(found[-1], table[..., : K * D]))
        return [self._by_state(one) for one in found]


def _less(a: Tensor, b: Tensor) -> Tensor:
    """The difference of logs; what is impossible stays so."""
    return torch.where(a == -torch.inf, a, a - b)
