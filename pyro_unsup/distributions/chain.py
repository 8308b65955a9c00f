"""The chain: a hidden Markov model of first or second order, over sequences of any length."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping

import torch
from pyro.distributions import TorchDistribution
from torch import Tensor

from ..errors import StructureError
from ..kernels.running import Place
from .chain_stepwise import ChainStretch
from .parts import States
from .semiring import Sum
from .sequences import Sequences
from .series import ChainPosterior
from .stretch import CompiledStretch, is_large
from .structure import Potentials, Stretch


class Chain(Sequences):
    """Observations emitted by a hidden chain of states, the states summed out: a hidden Markov model.

    The story, for a sequence of length n: draw state z_1 from ``start``, z_t from ``transition`` given the state before
    it (first order) or the two before it (second order), observation x_t from ``emission`` given z_t; then, if there is
    a stop event, stop. Weights are logs of anything: the joint weight is their product, and

    .. math:: \\log p(x) = \\log \\sum_z w(z_1) \\prod_{t>1} w(z_t \\mid z_{t-1}) \\prod_t w(x_t \\mid z_t)
              \\; [w(\\mathrm{stop} \\mid z_n)].

    O(n K^2), or O(n K^3) for the second order, and less where -inf in ``emission`` leaves a word few states: the cost
    follows the pairs and triples of states that the words allow. On CPU a compiled kernel does the work.

    A structure is the state of each observation. Its parts are states, (rows, K).

    :param start: (*batch, K).
    :param transition: (*batch, K, K) axes (old, new), or (*batch, K, K + 1) whose last column is the stop event.
        Second order: (*batch, K, K, K) axes (older, old, new), or (*batch, K, K, K + 1). With ``by_step``: one table
        for each position, (*batch, T, K, K), or (rows, K, K) of flat values.
    :param emission: (*batch, K, V) log-weights of words, where states that a word does not allow have -inf; or a
        distribution of batch shape (..., K), such as ``Normal(mean, scale)`` with K means. Axes before K broadcast
        with the value: (T, K) has parameters for every step, (B, 1, K) for every sequence.
    :param lengths: () or (B,). A sequence of length 0 is skipped: probability 1, no counts.
    :param second: makes the chain second order: transition out of the first position, (*batch, K, K [+ 1]).
    :param flat: False: values are padded, ``(*B, T, *event)``. True: values lie end to end,
        ``(sum of lengths, *event)``, and cost no padding.
    :param mask: which values were observed, of the shape of a value or of its steps. NaN is missing without a mask.
        What is missing is integrated out.
    :param by_step: whether there is a transition table for every position. That of position t leads from t - 1 to t;
        that of the first position is not used.

    Example, three sentences of a two-state chain over three words::

        >>> import torch
        >>> import pyro_unsup as pu
        >>> start, transition = torch.zeros(2), torch.zeros(2, 2)
        >>> emission = torch.zeros(2, 3)
        >>> chain = pu.Chain(start, transition, emission, torch.tensor([1, 2, 3]), flat=True)
        >>> chain.log_prob(torch.tensor([0, 1, 2, 0, 1, 2])).exp()  # 2, 4 and 8 paths of weight 1
        tensor([2., 4., 8.])

    A series of measurements, one of them missing::

        >>> import pyro.distributions as dist
        >>> stay = torch.tensor([[0.9, 0.1], [0.1, 0.9]]).log()
        >>> series = torch.tensor([-1.2, -0.8, torch.nan, 1.1, 0.9])
        >>> chain = pu.Chain(torch.zeros(2) - 0.6931, stay, dist.Normal(torch.tensor([-1.0, 1.0]), 0.5), len(series))
        >>> chain.posterior(series).mode()
        tensor([0, 0, 0, 1, 1])

    **References:**

    [1] L. R. Rabiner (1989) "A tutorial on hidden Markov models".
    [2] B. Merialdo (1994) "Tagging English text with a probabilistic model" (the second order).
    [3] W. Zucchini and I. L. MacDonald (2009) "Hidden Markov models for time series".
    """

    part = "states"
    kernel = "pyro_unsup.kernels.chain"
    wide_definition = True

    def __init__(
        self,
        start: Tensor,
        transition: Tensor,
        emission: Tensor | TorchDistribution,
        lengths: Tensor | int,
        second: Tensor | None = None,
        flat: bool = False,
        validate_args: bool | None = None,
        *,
        mask: Tensor | None = None,
        by_step: bool = False,
    ) -> None:
        transition, self.by_step = torch.as_tensor(transition), by_step
        stops = transition.dim() > 1 and transition.shape[-1] == transition.shape[-2] + 1
        if by_step and (stops or second is not None):
            raise StructureError("transitions by step are those of a first-order chain without a stop event")
        new = "K+1" if stops else "K"
        axes = {"start": "K", "transition": "N K K" if by_step else f"K {new}", "emission": "K V"}
        if second is not None:
            axes |= {"transition": f"K K {new}", "second": f"K {new}"}
        if by_step and not flat:  # padded values may be wider than the longest sequence, and so may covariates
            longest = int(torch.as_tensor(lengths).max()) if torch.as_tensor(lengths).dim() else transition.shape[-3]
            transition = transition[..., :longest, :, :]
        weights = {"start": start, "transition": transition, "emission": None, "second": second}
        super().__init__(weights, emission, lengths, flat, axes, mask, validate_args)
        if by_step and self.sizes["N"] != self.event_shape[0]:
            raise StructureError(
                f"transitions by step need one table for each of {self.event_shape[0]} positions, actual "
                f"{self.sizes['N']} (shape {tuple(transition.shape)}): are the covariates as long as the data?"
            )

    def check_weights(self) -> None:
        super().check_weights()
        if self.density is None or self.event_shape[0] < 2:
            return
        # A table of words may have states that only end a sentence. In a series that is a mistake, and hard to find.
        dead = (self.weights["transition"].detach() == -torch.inf).all(-1)
        if self.by_step:  # of padded series, positions behind the end may hold anything, and first ones are not used
            position = self.rows.position if self.is_flat else torch.arange(dead.shape[-2])
            ahead = self.rows.lengths.max() if not self.is_flat and self.rows.lengths.numel() else position.max() + 1
            dead = dead & ((position > 0) & (position < ahead)).to(dead.device).unsqueeze(-1)
        if bool(dead.any()) and self.by_step:
            *_, step, state = dead.nonzero()[0].tolist()
            raise StructureError(
                f"nothing can follow state {state} at step {step}: row {state} of transition[{step}] is -inf "
                "everywhere. Expected at least one weight above zero in each row of each step; is a covariate missing "
                "or infinite?"
            )
        if bool(dead.any()) and self.second_order:
            *_, older, state = dead.nonzero()[0].tolist()
            raise StructureError(
                f"nothing can follow state {state} after state {older}: transition[{older}, {state}] is -inf "
                "everywhere. Expected at least one weight above zero in each row"
            )
        if bool(dead.any()):
            *_, state = dead.nonzero()[0].tolist()
            raise StructureError(
                f"nothing can follow state {state}: row {state} of transition is -inf everywhere. Expected at least "
                "one weight above zero in each row; let the state follow itself, or leave it out"
            )

    @property
    def shared_groups(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("ends",) if self.by_step else ("steps", "ends")

    def _misfit(self, name: str, axes: tuple[str, ...], known: Mapping[str, int]) -> StructureError:
        error = super()._misfit(name, axes, known)
        if name not in ("transition", "second") or self.by_step:
            return error
        return StructureError(f"{error}. Its last axis is K, or K + 1 in all tables with a stop event")

    @property
    def second_order(self) -> bool:
        """Whether a state depends on the two before it."""
        return "second" in self.weights

    def potentials(self, value: Tensor) -> Potentials:
        """States, with their words and the start; and the steps between states and the ends, the same at all positions.

        The context of a state is (a, b): b the state before it, and a the one before b. In a first-order chain a is
        always 0; in a second-order chain a = K stands for "b is the first state". Steps are (a, b, new), ends (a, b).
        """
        owner = self.rows.owner.to(value.device)
        first = (self.rows.position == 0).to(value.device).unsqueeze(-1)  # (tokens, 1)
        states = self.look_up(self.table("emission").mT, owner, value.long())  # (*draws, tokens, K)
        states = states + torch.where(first, self.spread(self.table("start"), owner), 0.0)
        steps = self.table("transition")
        if self.by_step:
            steps = self.steps_by_row().unsqueeze(-3)  # (*draws, rows, 1, K, K)
            return {"states": states, "steps": steps, "ends": steps.new_zeros(*self.draws, 1, 1, self.sizes["K"])}
        if self.second_order:
            second = self.table("second").unsqueeze(-3)
            batch = torch.broadcast_shapes(steps.shape[:-3], second.shape[:-3])
            steps = torch.cat([steps.expand(*batch, *steps.shape[-3:]), second.expand(*batch, *second.shape[-3:])], -3)
        else:
            steps = steps.unsqueeze(-3)
        K = self.sizes["K"]
        ends = steps[..., K] if steps.shape[-1] > K else steps.new_zeros(steps.shape[:-1])
        return {"states": states, "steps": steps[..., :K], "ends": ends}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        """The message at t holds, for every context (a, b) that ends there, the sum over all ways to arrive::

        m_1[pad, b] = state_1[b]
        m_t[b, c]   = state_t[c] + sum_a  m_{t-1}[a, b] + step[a, b, c]      second order
        m_t[0, c]   = state_t[c] + sum_b  m_{t-1}[0, b] + step[0, b, c]      first order; step_t, if it varies
        total       = sum_{a, b}  m_n[a, b] + end[a, b]
        """
        message = next(iter(deque(self.messages(potentials, sum_), maxlen=1)))
        return sum_((message + potentials["ends"]).flatten(-2), -1)

    def messages(self, potentials: Potentials, sum_: Sum) -> Iterator[Tensor]:  # (*draws, B, A, K)
        """The messages of :meth:`total`, position after position. Behind its end, a sequence keeps its last one."""
        flat, steps = potentials["states"], potentials["steps"]
        states = self.rows.pad(flat, flat.dim() - 2).unsqueeze(-2)  # (*draws, B, T, 1, K)
        lengths = self.rows.lengths.to(flat.device)[:, None, None]
        message = states[..., 0, :, :]  # (*draws, B, A, K)
        if self.second_order:
            none = torch.full_like(message, -torch.inf).expand(*message.shape[:-2], self.sizes["K"], -1)
            message = torch.cat([none, message], -2)
        yield message
        each = self.rows.pad(steps, flat.dim() - 2) if self.by_step else None  # (*draws, B, T, 1, K, K)
        for t in range(1, states.shape[-3]):
            step = steps if each is None else each[..., t, :, :, :]
            arrived = states[..., t, :, :] + sum_(message.unsqueeze(-1) + step, -3 if self.second_order else -2)
            if self.second_order:
                arrived = torch.cat([arrived, torch.full_like(arrived[..., :1, :], -torch.inf)], -2)
            message = torch.where(t < lengths, arrived, message)
            yield message

    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, tokens, K) -> (*draws, tokens)
        return parts.argmax(-1)

    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, tokens) -> (*draws, tokens, K)
        return structure.unsqueeze(-1) == torch.arange(self.sizes["K"], device=structure.device)

    def best_parts(self, gain: Tensor) -> Tensor:
        return gain.argmax(-1)  # without steps, every position is on its own

    def parts(self, value: Tensor) -> States:
        words, lengths, form = self.described(value)
        return States(words, lengths, self.sizes["K"], form)

    def check_structure(self, structure: Tensor) -> None:
        K = self.sizes["K"]
        if structure.shape != (self.rows.size,):
            raise StructureError(
                f"a structure has shape ({self.rows.size},), actual shape {tuple(structure.shape)}: one state a word"
            )
        if structure.numel() and (int(structure.min()) < 0 or int(structure.max()) >= K):
            raise StructureError(
                f"states must lie in 0 .. {K - 1}, actual range {int(structure.min())} .. {int(structure.max())}"
            )

    def stepwise(self, value: Tensor, places: Mapping[str, Place], batch_size: int) -> Stretch | None:
        plain = not (self.by_step or self.own_words) and places.keys() == self.weights.keys()
        columns = places["emission"].columns if plain else None
        whole = all(place.whole for name, place in places.items() if name != "emission")
        if columns is None or not whole or is_large(len(value), len(self.rows), batch_size):
            return None
        words, offsets = columns[value.long().numpy()], self.rows.offsets.numpy()
        if not self.second_order:
            return ChainStretch(words, offsets)
        return CompiledStretch("trigram_stepwise", ("start", "transition", "second", "emission"), (words, offsets))

    def posterior(self, value: Tensor) -> ChainPosterior:
        """Everything about the states of ``value``: filtered, predicted and smoothed, with forecasts and residuals."""
        return ChainPosterior(*self.laid_flat(torch.as_tensor(value)))

    # -- transitions that vary by step

    def steps_by_row(self) -> Tensor:  # (*draws, rows, K, K)
        """The transitions to every row, of a chain that lies flat."""
        table, lead = self.table("transition"), len(self.draws)  # (*draws, 1 or B, rows, K, K)
        if table.shape[lead] == 1:
            return table.squeeze(lead)
        owner = self.rows.owner.to(table.device)  # examples have tables of their own
        return table[..., owner, torch.arange(len(owner), device=table.device), :, :]

    def _flat_table(self, name: str, batched: bool) -> Tensor:
        table = super()._flat_table(name, batched)
        if name != "transition" or not self.by_step:
            return table
        lead = len(self.draws)
        table = table if batched else table.unsqueeze(0)  # (*draws, 1 or B, T, K, K)
        wide = table.expand(*table.shape[:lead], len(self.rows), *table.shape[lead + 1 :])
        flat = self.rows.flatten(wide[..., : self.rows.longest, :, :], lead)  # (*draws, rows, K, K)
        return flat.unsqueeze(lead) if batched else flat

    def _own_weights(self, name: str, examples: Tensor) -> Tensor:
        if name != "transition" or not self.by_step:
            return super()._own_weights(name, examples)
        w = self.weights[name]
        return w.index_select(w.dim() - 3, self.rows.select(examples).to(w.device))
