"""A chain of second order as one of first order, whose states are pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .chain import Chain
from .series import ChainPosterior

if TYPE_CHECKING:
    from torch import Size


class Pairs:
    """What is known of pairs (a, b): the state b of a position, and the state a before it.

    At first positions a is K, which stands for "nothing". The step from (a, b) to (b, c) has the weight of c after a
    and b. So filters and forecasts of a second-order chain are those of a :class:`.Chain` with K (K + 1) states.

    :param posterior: of a second-order chain that lies flat.
    """

    def __init__(self, posterior: ChainPosterior) -> None:
        self.second = posterior.prior
        self.K = self.second.sizes["K"]
        self.chain = self._chain()
        self.posterior = ChainPosterior(self.chain, posterior.value)

    def _chain(self) -> Chain:
        dist, K = self.second, self.K
        start, emission = dist.table("start"), dist.table("emission")  # (*draws, 1 or B, ...)
        steps, second = dist.table("transition"), dist.table("second").unsqueeze(-3)
        lead: Size = torch.broadcast_shapes(start.shape[:-1], steps.shape[:-3], second.shape[:-3])
        steps = torch.cat([x.expand(*lead, *x.shape[-3:]) for x in (steps, second)], -3)  # (..., K + 1, K, K [+ 1])
        moves = start.new_full((*lead, K + 1, K, K + 1, K), -torch.inf)
        same = torch.arange(K, device=start.device)
        moves[..., :, same, same, :] = steps[..., :K]  # what is the state now is the state before, one step later
        table = moves.reshape(*lead, (K + 1) * K, (K + 1) * K)
        if steps.shape[-1] > K:  # the stop event
            table = torch.cat([table, steps[..., K].reshape(*lead, (K + 1) * K, 1)], -1)
        begins = start.new_full((*lead, K + 1, K), -torch.inf)
        begins[..., K, :] = start
        begins, words = begins.reshape(*lead, (K + 1) * K), torch.cat([emission] * (K + 1), -2)
        if not dist.draws and begins.shape[0] == table.shape[0] == words.shape[0] == 1:
            begins, table, words = begins[0], table[0], words[0]
        chain = Chain(begins, table, words, dist.rows.lengths, flat=True, validate_args=False)
        chain.own_words = dist.own_words
        if "states" in dist.extra:
            chain = chain.with_potentials(states=torch.cat([dist.extra["states"]] * (K + 1), -1))
        return chain

    def _now(self, shares: Tensor) -> Tensor:  # (..., (K + 1) K) -> (..., K)
        wide: Tensor = shares.unflatten(-1, (self.K + 1, self.K))
        return wide.sum(-2)

    @property
    def predicted(self) -> Tensor:  # (*draws, rows, K)
        """P(state | observations before it)."""
        return self._now(self.posterior._predicted)

    @property
    def before_and_now(self) -> Tensor:  # (*draws, rows, K, K)
        """P(state before, state | all observations); zeros at the first position of a sequence."""
        wide: Tensor = self.posterior.marginals.unflatten(-1, (self.K + 1, self.K))
        return wide[..., : self.K, :]

    def states_to_come(self, steps: int) -> list[Tensor]:  # (*draws, B, K) each
        """Probabilities of the states at each step after the end."""
        return [self._now(one) for one in self.posterior._states_to_come(steps, None)]
