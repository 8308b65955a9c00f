"""The chain: a hidden Markov model of first or second order, over sequences of any length."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import torch
from torch import Size, Tensor

from ..errors import StructureError
from ..kernels.threads import TOKENS_A_THREAD
from .chain_stepwise import ChainStretch
from .parts import States
from .ragged import Rows, check_lengths, flatten, pad
from .semiring import Sum
from .structure import Potentials, Structure


class Chain(Structure):
    """Words emitted by a hidden chain of states, the states summed out.

    The story, for a sequence of length n: draw state z_1 from ``start``, z_t from ``transition`` given the state before
    it (first order) or the two before it (second order), word x_t from ``emission`` given z_t; then, if there is a stop
    event, stop. Weights are logs of anything: the joint weight is their product, and

    .. math:: \\log p(x) = \\log \\sum_z w(z_1) \\prod_{t>1} w(z_t \\mid z_{t-1}) \\prod_t w(x_t \\mid z_t)
              \\; [w(\\mathrm{stop} \\mid z_n)].

    O(n K^2), or O(n K^3) for the second order, and less where -inf in ``emission`` leaves a word few states: the cost
    follows the pairs and triples of states that the words allow. On CPU a compiled kernel does the work.

    A structure is the state of each word. Its parts are states, (tokens, K).

    :param start: (*batch, K).
    :param transition: (*batch, K, K) axes (old, new), or (*batch, K, K + 1) whose last column is the stop event.
        Second order: (*batch, K, K, K) axes (older, old, new), or (*batch, K, K, K + 1).
    :param emission: (*batch, K, V). States that a word does not allow have -inf.
    :param lengths: () or (B,). A sequence of length 0 is skipped: probability 1, no counts.
    :param second: makes the chain second order: transition out of the first position, (*batch, K, K [+ 1]).
    :param flat: False: values are padded, ``(*B, T)``. True: values lie end to end, ``(sum of lengths,)``, and cost no
        padding.

    Example, three sentences of a two-state chain over three words::

        >>> import torch
        >>> import pyro_unsup as pu
        >>> start, transition = torch.zeros(2), torch.zeros(2, 2)
        >>> emission = torch.zeros(2, 3)
        >>> chain = pu.Chain(start, transition, emission, torch.tensor([1, 2, 3]), flat=True)
        >>> chain.log_prob(torch.tensor([0, 1, 2, 0, 1, 2])).exp()  # 2, 4 and 8 paths of weight 1
        tensor([2., 4., 8.])

    **References:**

    [1] L. R. Rabiner (1989) "A tutorial on hidden Markov models".
    [2] B. Merialdo (1994) "Tagging English text with a probabilistic model" (the second order).
    """

    part = "states"
    shared_groups = ("steps", "ends")
    kernel = "pyro_unsup.kernels.chain"

    def __init__(
        self,
        start: Tensor,
        transition: Tensor,
        emission: Tensor,
        lengths: Tensor | int,
        second: Tensor | None = None,
        flat: bool = False,
        validate_args: bool | None = None,
    ) -> None:
        lengths = check_lengths(torch.as_tensor(lengths))
        if flat and lengths.dim() != 1:
            raise StructureError(f"a flat chain needs lengths of shape (B,), actual shape {tuple(lengths.shape)}")
        self.is_flat, self._shape = flat, lengths.shape
        self._form: tuple[Size, int] | None = None  # of the padded values that were laid flat: batch, and longest
        transition = torch.as_tensor(transition)
        stops = transition.dim() > 1 and transition.shape[-1] == transition.shape[-2] + 1
        new = "K+1" if stops else "K"
        axes = {"start": "K", "transition": f"K {new}", "emission": "K V"}
        if second is not None:
            axes |= {"transition": f"K K {new}", "second": f"K {new}"}
        size = int(lengths.sum()) if flat else int(lengths.max()) if lengths.numel() else 0
        weights = {"start": start, "transition": transition, "emission": emission, "second": second}
        super().__init__(weights, lengths, Size([size]), axes, validate_args)

    @property
    def examples(self) -> Size:
        return Size([len(self.rows)]) if self.is_flat else self._shape  # padded values have any number of batch axes

    def _misfit(self, name: str, axes: tuple[str, ...], known: Mapping[str, int]) -> StructureError:
        error = super()._misfit(name, axes, known)
        if name not in ("transition", "second"):
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
        m_t[0, c]   = state_t[c] + sum_b  m_{t-1}[0, b] + step[0, b, c]      first order
        total       = sum_{a, b}  m_n[a, b] + end[a, b]
        """
        flat, steps, ends = potentials["states"], potentials["steps"], potentials["ends"]
        states = self.rows.pad(flat, flat.dim() - 2).unsqueeze(-2)  # (*draws, B, T, 1, K)
        lengths = self.rows.lengths.to(flat.device)[:, None, None]
        message = states[..., 0, :, :]  # (*draws, B, A, K)
        if self.second_order:
            none = torch.full_like(message, -torch.inf).expand(*message.shape[:-2], self.sizes["K"], -1)
            message = torch.cat([none, message], -2)
        for t in range(1, states.shape[-3]):
            arrived = states[..., t, :, :] + sum_(message.unsqueeze(-1) + steps, -3 if self.second_order else -2)
            if self.second_order:
                arrived = torch.cat([arrived, torch.full_like(arrived[..., :1, :], -torch.inf)], -2)
            message = torch.where(t < lengths, arrived, message)
        return sum_((message + ends).flatten(-2), -1)

    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, tokens, K) -> (*draws, tokens)
        return parts.argmax(-1)

    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, tokens) -> (*draws, tokens, K)
        return structure.unsqueeze(-1) == torch.arange(self.sizes["K"], device=structure.device)

    def best_parts(self, gain: Tensor) -> Tensor:
        return gain.argmax(-1)  # without steps, every position is on its own

    def parts(self, value: Tensor) -> States:
        dist, words = self.laid_flat(value)
        return States(words, dist.rows.lengths, self.sizes["K"], None if self.is_flat else value.shape)

    def check_value(self, value: Tensor) -> None:
        self.check_integers(value, self.sizes["V"])

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

    def stepwise(self, value: Tensor, touched: Mapping[str, Tensor | None], batch_size: int) -> ChainStretch | None:
        dist, words = self.laid_flat(value)
        lengths = dist.rows.lengths
        large = len(words) * batch_size >= TOKENS_A_THREAD * len(lengths)  # better done by several threads
        one_table = all(w.dim() == len(self.table_axes[name]) for name, w in self.weights.items())
        if large or not one_table or self.second_order or words.device.type != "cpu":
            return None
        columns = touched["emission"]
        words = words.long() if columns is None else columns[words.long()]
        return ChainStretch(words.numpy(), dist.rows.offsets.numpy())

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw words of the given lengths, from the chain's weights restricted to those lengths."""
        if any(
            w.dim() > len(self.table_axes[name]) and w.shape[: -len(self.table_axes[name])].numel() > 1
            for name, w in self.weights.items()
        ):
            raise StructureError("sample() draws from one set of weights at a time: use Predictive with parallel=False")
        lengths = self.rows.lengths.repeat(Size(sample_shape).numel())
        w = {
            name: x.detach().reshape(x.shape[x.dim() - len(self.table_axes[name]) :])
            for name, x in self.weights.items()
        }
        with torch.no_grad():
            # Summing the words out of every position leaves a chain over states alone, with one "word".
            mass = torch.logsumexp(w["emission"], -1, keepdim=True)  # (K, 1)
            blank = torch.zeros(int(lengths.sum()), dtype=torch.long, device=mass.device)
            blanks = Chain(w["start"], w["transition"], mass, lengths, w.get("second"), flat=True)
            states = blanks.posterior(blank).sample()
            # One multinomial call a state, not one row of the vocabulary a token.
            words = torch.zeros_like(states)
            for k in states.unique():
                here = (states == k).nonzero()[:, 0]
                words[here] = torch.multinomial(w["emission"][k].softmax(-1), len(here), replacement=True)
        if self.is_flat:
            return words.reshape(*sample_shape, -1)
        padded = pad(words, lengths, time=self.event_shape[0])
        return padded.reshape(*sample_shape, *self._shape, self.event_shape[0])

    # -- values that are padded

    def _weights_batch(self) -> Size:
        if self.is_flat:
            return super()._weights_batch()
        batches = [w.shape[: w.dim() - len(self.table_axes[name])] for name, w in self.weights.items()]
        return Size(torch.broadcast_shapes(*batches, self._shape))

    def laid_flat(self, value: Tensor) -> tuple[Chain, Tensor]:  # (sum of lengths,) or (*examples, T) -> (tokens,)
        if self.is_flat:
            return super().laid_flat(value)
        self.check_weights()
        if value.dim() < 1 or value.shape[-1] < self.event_shape[0]:
            raise StructureError(f"lengths reach {self.event_shape[0]}, actual value of shape {tuple(value.shape)}")
        shape, T = Size(torch.broadcast_shapes(self._shape, value.shape[:-1])), value.shape[-1]
        if shape != value.shape[:-1]:
            raise StructureError(f"{shape.numel()} lengths for {value.shape[:-1].numel()} sequences")
        new = copy(self)
        new._shape, new._form = shape, (shape, T)
        batch = Size(
            torch.broadcast_shapes(*(w.shape[: w.dim() - len(self.table_axes[n])] for n, w in self.weights.items()))
        )
        new.draws = batch[: max(len(batch) - len(shape), 0)]
        new.weights = {name: new.table(name) if batch else w for name, w in self.weights.items()}
        new.is_flat = True
        new.rows = Rows(self.lengths.expand(shape).reshape(-1))
        new._weights_batch()
        words = new._flatten(value)
        new._event_shape = words.shape
        if "states" in self.extra:
            whole = (*value.shape, self.sizes["K"])
            try:
                wide = self.extra["states"].expand(whole)
            except RuntimeError:
                raise StructureError(
                    f"there are states of shape {whole}, which do not fit potentials of shape "
                    f"{tuple(self.extra['states'].shape)}"
                ) from None
            new.extra = {**self.extra, "states": new._flatten(wide)}
        new.check_value(words)
        return new, words

    def select(self, value: Tensor, examples: Tensor) -> tuple[Chain, Tensor]:
        """The chain of some sequences, lying flat."""
        dist, value = (self, value) if self.is_flat else self.laid_flat(value)
        new, value = super(Chain, dist).select(value, examples)
        new._form = None
        return new, value

    def _flatten(self, padded: Tensor) -> Tensor:  # (*examples, T, *rest) -> (tokens, *rest)
        assert self._form is not None
        shape, T = self._form
        return flatten(padded.reshape(shape.numel(), T, *padded.shape[len(shape) + 1 :]), self.rows.lengths)

    def flat_structure(self, structure: Tensor) -> Tensor:
        return structure if self._form is None else self._flatten(structure)

    def shaped(self, flat: Tensor, fill: float) -> Tensor:  # (*draws, tokens, *rest) -> (*draws, *examples, T, *rest)
        if self._form is None:
            return flat
        shape, T = self._form
        lead = flat.dim() - 2 if flat.is_floating_point() else flat.dim() - 1  # marginals have states, structures not
        padded = flat.new_full((*flat.shape[:lead], len(self.rows) * T, *flat.shape[lead + 1 :]), fill)
        place = (self.rows.owner * T + self.rows.position).to(flat.device)
        return padded.index_copy(lead, place, flat).reshape(*flat.shape[:lead], *shape, T, *flat.shape[lead + 1 :])

    def by_example(self, total: Tensor) -> Tensor:
        return super().by_example(total if self._form is None else total.reshape(*total.shape[:-1], *self._form[0]))
