"""What is known about the states of a chain, filtered, predicted and smoothed, and what it says of observations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from pyro.distributions import TorchDistribution
from torch import Size, Tensor

from ..errors import StructureError
from ..kernels.threads import plain_torch
from .compiled import by_weights, stacked, weight_sets
from .emission import observed_cells
from .forecast import Forecast
from .gaps import conditional
from .posterior import Posterior
from .semiring import LOG
from .tails import log_tails, quantile_of_log

if TYPE_CHECKING:
    from .chain import Chain
    from .pairs import Pairs
    from .semimarkov import SemiMarkov


class SeriesPosterior(Posterior, ABC):
    """The posterior over the states of sequences, and what it says of observations.

    Probabilities of states are given all observations (``smoothed``), those up to now (``filtered``), or those before
    now (``predicted``). All have the form of the data, with an axis of states: (*draws, rows, K), or
    (*draws, *batch, T, K) of padded data.
    """

    prior: Chain | SemiMarkov

    @property
    @abstractmethod
    def smoothed(self) -> Tensor:  # (*draws, rows, K)
        """P(state | all observations)."""

    @property
    @abstractmethod
    def pairwise(self) -> Tensor:  # (*draws, rows, K, K)
        """P(state before, state | all observations); zeros at the first position of a sequence."""

    @cached_property
    def filtered(self) -> Tensor:  # (*draws, rows, K)
        """P(state | observations up to it)."""
        return self.prior.padded(self._forward[1], len(self.prior.draws), 0.0)

    @cached_property
    def predicted(self) -> Tensor:  # (*draws, rows, K)
        """P(state | observations before it)."""
        return self.prior.padded(self._predicted, len(self.prior.draws), 0.0)

    @cached_property
    def step_log_likelihood(self) -> Tensor:  # (*draws, rows)
        """log p(observation | observations before it). They add up to log Z, unless the end says something, too: a stop
        event, or a last stretch that ends with its sequence."""
        return self.prior.padded(self._forward[0], len(self.prior.draws), 0.0)

    def forecast(
        self,
        steps: int,
        transition: Tensor | None = None,  # (*batch, steps, K, K)
        emission: TorchDistribution | None = None,
    ) -> Forecast:
        """States and observations after the end of every sequence.

        :param steps: how many.
        :param transition: log-weights of the moves to come, if they vary by step.
        :param emission: of the observations to come, if its parameters vary by step: batch shape (..., steps, K).
        """
        dist = self.prior
        if steps < 1:
            raise StructureError(f"a forecast needs at least 1 step, actual {steps}")
        states = torch.stack(self._states_to_come(steps, transition), -2)  # (*draws, B, steps, K)
        if emission is None and dist.data is not None:
            emission = dist.data[0].emission
            if len(emission.batch_shape) > 1 and emission.batch_shape[-2] > 1:
                raise StructureError("the emission varies by step: give forecast that of the steps to come, emission=")
        form = dist._form[0] if dist._form is not None else Size([len(dist.rows)])
        return Forecast(states.reshape((*dist.draws, *form, *states.shape[-2:])), emission)

    def simulate(self, sample_shape: Any = ()) -> Tensor:  # (*sample_shape, *form of the data)
        """The data with draws in the place of missing values, given all that was observed."""
        density, value = self._observations
        drawn = [self._simulated(density, value) for _ in range(max(Size(sample_shape).numel(), 1))]
        shape = drawn[0].shape
        return torch.stack(drawn).reshape(*sample_shape, *shape) if sample_shape else drawn[0]

    def _simulated(self, density: Any, value: Tensor) -> Tensor:
        dist, event = self.prior, density.emission.event_shape
        if dist.draws:
            raise StructureError("values are simulated for one set of weights at a time")
        seen = observed_cells(value, event, density.mask)
        if seen is None:
            return dist.padded(value, 0, 0.0)
        states = self._drawn_states()
        drawn = density.draw(states.clamp(min=0), dist.rows, dist._form)
        drawn = conditional(density.emission, states.clamp(min=0), value, seen, drawn.to(value))
        return dist.padded(torch.where(seen, value, drawn), 0, torch.nan)

    def residuals(self, randomise: bool = False) -> Tensor:  # (rows, *event)
        """Pseudo-residuals: standard normal, if the model is right (forecast residuals of Zucchini and MacDonald).

        ``u = P(X < x | the past)``, by the standard normal's quantile function. Whole numbers have an interval of u:
        its middle counts, or a random point of it. Missing values have NaN.

        :param randomise: take a random point of the interval.
        """
        density, value = self._observations
        emission, event = density.emission, density.emission.event_shape
        if self.prior.draws:
            raise StructureError("residuals are those of one set of weights")
        value = value if value.is_floating_point() else value.to(self._predicted.dtype)
        seen = observed_cells(value, event, density.mask)
        wide = torch.where(seen, value, torch.ones_like(value)) if seen is not None else value
        part = torch.rand_like(wide) if randomise else torch.full_like(wide, 0.5)
        lead = -1 - len(event)
        tails = log_tails(emission, wide.unsqueeze(lead), part.unsqueeze(lead))  # (rows, K, *event) each
        shares = self._predicted.log().reshape(*self._predicted.shape, *(1,) * len(event))
        below, above = (torch.logsumexp(shares + one, lead) for one in tails)
        found = torch.where(below < above, quantile_of_log(below), -quantile_of_log(above))
        return self.prior.padded(found if seen is None else torch.where(seen, found, torch.nan), 0, torch.nan)

    # -- how it is found

    @property
    @abstractmethod
    def _forward(self) -> tuple[Tensor, Tensor]:
        """log p(x_t | past), (*draws, rows), and filtered probabilities, (*draws, rows, K)."""

    @property
    @abstractmethod
    def _predicted(self) -> Tensor:  # (*draws, rows, K)
        """P(state | observations before it), end to end."""

    @abstractmethod
    def _states_to_come(self, steps: int, transition: Tensor | None) -> list[Tensor]:  # (*draws, B, K) each
        """Probabilities of the states at each step after the end."""

    @abstractmethod
    def _drawn_states(self) -> Tensor:  # (*draws, rows)
        """A draw of the states from the posterior."""

    @property
    def _observations(self) -> tuple[Any, Tensor]:
        if self.prior.data is None:
            raise StructureError("these states emit words by a table: give it a distribution as its emission")
        return self.prior.data


class ChainPosterior(SeriesPosterior):
    """The posterior over the states of a chain, and what it says of observations.

    Probabilities of states are given all observations (``smoothed``), those up to now (``filtered``), or those before
    now (``predicted``). All have the form of the data, with an axis of states: (*draws, rows, K), or
    (*draws, *batch, T, K) of padded data.

    The example is the umbrella world of Russell and Norvig: it rains or not, and someone has an umbrella or not::

        >>> import torch
        >>> import pyro.distributions as dist
        >>> import pyro_unsup as pu
        >>> start, stay = torch.tensor([0.5, 0.5]).log(), torch.tensor([[0.7, 0.3], [0.3, 0.7]]).log()
        >>> umbrella = torch.tensor([1.0, 1.0, 0.0, 1.0, 1.0])
        >>> days = pu.Chain(start, stay, dist.Bernoulli(torch.tensor([0.9, 0.2])), 5).posterior(umbrella)
        >>> days.filtered[:, 0]
        tensor([0.8182, 0.8834, 0.1907, 0.7308, 0.8673])
        >>> days.smoothed[:, 0]
        tensor([0.8673, 0.8204, 0.3075, 0.8204, 0.8673])
        >>> days.step_log_likelihood.sum(), days.forecast(2).states[:, 0]
        (tensor(-3.3725), tensor([0.6469, 0.5588]))
    """

    prior: Chain

    @property
    def smoothed(self) -> Tensor:  # (*draws, rows, K)
        """P(state | all observations)."""
        return self.marginals

    @cached_property
    def pairwise(self) -> Tensor:  # (*draws, rows, K, K)
        """P(state before, state | all observations); zeros at the first position of a sequence."""
        dist = self.prior
        if dist.second_order:
            return dist.padded(self._pairs.before_and_now, len(dist.draws), 0.0)
        found = Posterior(_by_step(dist), self.value).expected["steps"].squeeze(-3)
        return dist.padded(found, len(dist.draws), 0.0)

    # -- how it is found

    def _drawn_states(self) -> Tensor:
        return self._masked(self._decode(True, None))

    def _states_to_come(self, steps: int, transition: Tensor | None) -> list[Tensor]:
        dist = self.prior
        if dist.by_step and transition is None:
            raise StructureError("transitions vary by step: give forecast those of the steps to come, transition=")
        if dist.second_order:
            if transition is not None:
                raise StructureError("transitions of a second-order chain do not vary by step: leave transition out")
            return self._pairs.states_to_come(steps)
        K = dist.sizes["K"]
        empty = (dist.rows.lengths == 0).unsqueeze(-1)  # (B, 1)
        now = self._last_filtered  # (*draws, B, K)
        if transition is None:
            moves = [dist.table("transition")[..., :K]] * steps  # without the stop event: the sequence goes on
        else:
            table = torch.as_tensor(transition)
            if table.dim() < 3 or table.shape[-3] != steps:
                raise StructureError(
                    f"expected transitions of shape (..., {steps}, {K}, {K}), actual {tuple(table.shape)}"
                )
            moves = list(table.unbind(-3))
        found = []
        for i, move in enumerate(moves):
            after = moved(now, move)
            now = after if i else torch.where(empty.to(now.device), now, after)  # nothing before: the start itself
            found.append(now)
        return found

    @property
    def _last_filtered(self) -> Tensor:  # (*draws, B, K)
        """Of the last position of every sequence; the start of those that have none."""
        dist, filtered = self.prior, self._forward[1]
        lead, empty = len(dist.draws), dist.rows.lengths == 0
        start = dist.table("start").softmax(-1).expand(*dist.draws, len(dist.rows), filtered.shape[-1])
        last = dist.rows.offsets[1:][~empty] - 1
        found: Tensor = start.index_copy(
            lead,
            (~empty).nonzero()[:, 0].to(start.device),
            filtered.index_select(lead, last.to(start.device)).to(start),
        )
        return found

    @cached_property
    def _pairs(self) -> Pairs:
        """The same states of a second-order chain, two at a time."""
        from .pairs import Pairs  # which is made of chains

        return Pairs(self)

    @cached_property
    def _predicted(self) -> Tensor:  # (*draws, rows, K)
        dist, K, lead = self.prior, self.prior.sizes["K"], len(self.prior.draws)
        if dist.second_order:
            return self._pairs.predicted
        before = self._forward[1].roll(1, lead)  # the state before, whatever stands there at first positions
        owner = dist.rows.owner.to(before.device)
        moves = dist.steps_by_row() if dist.by_step else dist.spread(dist.table("transition"), owner)[..., :K]
        after = moved(before, moves)
        first = (dist.rows.position == 0).to(before.device).unsqueeze(-1)
        return torch.where(first, dist.spread(dist.table("start"), owner).softmax(-1), after)

    @cached_property
    def _forward(self) -> tuple[Tensor, Tensor]:
        """log p(x_t | past), (*draws, rows), and filtered probabilities, (*draws, rows, K)."""
        dist, kernel = self.prior, self._kernel
        if by_weights(dist, kernel, "forward") and not dist.second_order and not dist.extra:
            with plain_torch():
                found = [kernel.forward(dist, one, self.value) for one in weight_sets(dist)]
            if all(one is not None for one in found):
                like = next(iter(dist.weights.values()))
                both = [stacked([one[i] for one in found], dist.draws).to(like) for i in (0, 1)]
                return both[0], both[1]
        with torch.no_grad():
            messages = torch.stack(list(dist.messages(self.potentials, LOG)), -3)  # (*draws, B, T, A, K)
        whole = messages.flatten(-2).logsumexp(-1)  # (*draws, B, T)
        each = torch.diff(whole, prepend=torch.zeros_like(whole[..., :1]))
        shares = (messages.logsumexp(-2) - whole.unsqueeze(-1)).exp()
        lead = len(dist.draws)
        return dist.rows.flatten(each, lead), dist.rows.flatten(shares, lead)


def _by_step(chain: Chain) -> Chain:
    """The same chain with a table of transitions for every position."""
    if chain.by_step:
        return chain
    new, K = copy(chain), chain.sizes["K"]
    owner, table = chain.rows.owner, chain.table("transition")
    lead = len(chain.draws)
    moves = chain.spread(table[..., :K], owner.to(table.device))
    moves = moves.expand(*moves.shape[:lead], chain.rows.size, K, K)
    new.weights = {**chain.weights, "transition": moves.unsqueeze(lead) if lead else moves}
    new.all_axes = {**chain.all_axes, "transition": "N K K"}
    new.by_step = True
    if table.shape[-1] > K:  # the stop event counts for the states of last positions
        ends = chain.spread(table[..., K], owner.to(table.device))
        last = (chain.rows.position == chain.rows.lengths[owner] - 1).to(table.device).unsqueeze(-1)
        new = new.with_potentials(states=torch.where(last, ends, 0.0))
    new._measure()
    new._weights_batch()
    return new


def moved(shares: Tensor, moves: Tensor) -> Tensor:  # (..., K), (..., K, K) -> (..., K)
    """Probabilities of the states after a step, given that there is one: rows need not sum to one."""
    top = moves.amax((-1, -2), keepdim=True)
    found = (shares.unsqueeze(-2) @ (moves - top).exp()).squeeze(-2)
    return found / found.sum(-1, keepdim=True)
