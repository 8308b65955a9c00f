"""The chain: a hidden Markov model of first or second order, over sequences of any length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import constraints

from ..errors import StructureError
from ..kernels.threads import TOKENS_A_THREAD
from .chain_posterior import ChainPosterior
from .chain_stepwise import ChainStretch
from .chain_sum import ChainParts, log_partition, reference_log_partition
from .parts import States
from .ragged import check_lengths, flatten, offsets_of, pad
from .structured import Structure, one_set


class Chain(Structure):
    """Words emitted by a hidden chain of states, the states summed out.

    The story, for a sequence of length n: draw state z_1 from ``start``, z_t from ``transition`` given the state before
    it (first order) or the two before it (second order), word x_t from ``emission`` given z_t; then, if there is a stop
    event, stop. Weights are logs of anything: the joint weight is their product, and

    .. math:: \\log p(x) = \\log \\sum_z w(z_1) \\prod_{t>1} w(z_t \\mid z_{t-1}) \\prod_t w(x_t \\mid z_t)
              \\; [w(\\mathrm{stop} \\mid z_n)].

    O(n K^2), or O(n K^3) for the second order, and less where -inf in ``emission`` leaves a word few states: the cost
    follows the pairs and triples of states that the words allow. On CPU a compiled kernel does the work.

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
        self.start, self.transition, self.emission, self.second = start, transition, emission, second
        self.flat = flat
        self.lengths = check_lengths(torch.as_tensor(lengths))
        self._parts = self._check()
        if flat and self.lengths.dim() != 1:
            raise StructureError(f"a flat chain needs lengths of shape (B,), actual shape {tuple(self.lengths.shape)}")
        batch = torch.broadcast_shapes(self._parts.batch_shape, self.lengths.shape)
        size = int(self.lengths.sum()) if flat else int(self.lengths.max()) if self.lengths.numel() else 0
        super().__init__(batch, Size([size]), validate_args=False)
        if validate_args is not None:
            self._validate_args = validate_args

    def _check(self) -> ChainParts:
        K = self.start.shape[-1]
        order = 1 if self.second is None else 2
        tables = {"transition": (self.transition, order), "emission": (self.emission, 1)}
        if self.second is not None:
            tables["second"] = (self.second, 1)
        for name, (table, rows) in tables.items():
            if table.dim() < rows + 1 or table.shape[-rows - 1 : -1] != (K,) * rows:
                raise StructureError(
                    f"start has {K} states, so {name} of a chain of order {order} should end in shape "
                    f"{(K,) * rows} + (outcomes,), actual shape {tuple(table.shape)}"
                )
        outcomes = {t.shape[-1] for t in (self.transition, self.second) if t is not None}
        if len(outcomes) > 1 or outcomes - {K, K + 1}:
            raise StructureError(f"transitions lead to {K} states, or {K} + 1 with a stop event, actual {outcomes}")
        return ChainParts.of(self.start, self.transition, self.second, self.emission)

    @property
    def weights(self) -> dict[str, Tensor]:
        found = {"start": self.start, "transition": self.transition, "emission": self.emission}
        return found if self.second is None else {**found, "second": self.second}

    def with_weights(self, weights: dict[str, Tensor]) -> Chain:
        w = {**self.weights, **weights}
        new = Chain(w["start"], w["transition"], w["emission"], self.lengths, w.get("second"), self.flat)
        new._batch_shape = self._batch_shape
        return new

    def expand(self, batch_shape: Any, _instance: Any = None) -> Chain:
        new = self.with_weights({})
        new._batch_shape = Size(batch_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        return constraints.independent(constraints.integer_interval(0, self.emission.shape[-1] - 1), 1)

    def log_prob(self, value: Tensor) -> Tensor:  # (sum of lengths,) or (*batch, T) -> batch_shape
        words, lengths = self._data(value)
        self._check_words(words)
        if self._parts.batch_shape.numel() == 1:
            total = log_partition(self._parts.squeezed(), words, lengths)
            shape = self.lengths.shape if self.flat else value.shape[:-1]
            return total.reshape(shape).expand(torch.broadcast_shapes(shape, self._batch_shape))
        padded = pad(words, lengths, time=self.event_shape[0]) if self.flat else value  # weights differ in the batch
        total = reference_log_partition(self._parts, padded.long(), self.lengths)
        return total.expand(torch.broadcast_shapes(total.shape, self._batch_shape))

    def _check_words(self, words: Tensor) -> None:
        V = self.emission.shape[-1]
        if words.is_floating_point() or words.dtype == torch.bool:
            raise StructureError(f"words must be integers, actual dtype {words.dtype}")
        if len(words) and (int(words.min()) < 0 or int(words.max()) >= V):
            raise StructureError(
                f"words must lie in 0 .. {V - 1} (emission has {V} columns), "
                f"actual range {int(words.min())} .. {int(words.max())}"
            )

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # both (sum of lengths,) or (*batch, T) -> (*batch,)
        words, lengths = self._data(value)
        states, _ = self._data(structure)
        states, words, p = states.long(), words.long(), self._parts.squeezed()
        if len(states) and (int(states.min()) < 0 or int(states.max()) >= len(p.start)):
            raise StructureError(
                f"states must lie in 0 .. {len(p.start) - 1}, actual range {int(states.min())} .. {int(states.max())}"
            )
        owner = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
        first = torch.ones(len(words), dtype=torch.bool)
        first[1:] = owner[1:] != owner[:-1]
        last = first.roll(-1)
        # The context (a, b) that each position leaves behind, as ChainParts numbers it.
        a = torch.where(first, len(p.start), states.roll(1)) if p.second_order else torch.zeros_like(states)
        start = p.start[states[first]]
        onward = p.trans[a[~last], states[~last], states[~first]]
        stop = p.stop[a[last], states[last]]
        total = start.new_zeros(len(lengths)).index_add(0, owner, p.emission[states, words])
        total = total.index_add(0, owner[first], start).index_add(0, owner[~last], onward)
        total = total.index_add(0, owner[last], stop)
        return total.reshape(self.lengths.shape if self.flat else value.shape[:-1])

    def posterior(self, value: Tensor) -> ChainPosterior:
        one_set(self._parts.batch_shape)
        words, lengths = self._data(value)
        self._check_words(words)
        self._parts.check()
        names = {name: w.detach() for name, w in self.weights.items()}
        shape = None if self.flat else value.shape
        return ChainPosterior(names, self._parts.squeezed().detach(), words, lengths, shape)

    def parts(self, value: Tensor) -> States:
        words, lengths = self._data(value)
        return States(words, lengths, self.start.shape[-1], None if self.flat else value.shape)

    def apart(self, value: Tensor, factors: Tensor) -> tuple[Chain, Tensor]:
        words, lengths = self._data(value)
        self._check_words(words)
        if not self.flat:
            factors = flatten(factors.reshape(-1, *factors.shape[-2:]), lengths)
        numbers, rows = words.long(), self.emission.mT  # (*batch, V, K)
        # Only words that are weighed need a column of their own.
        some = slice(None) if factors.requires_grad else (factors != 0).any(-1).nonzero()[:, 0]
        own = rows.index_select(-2, numbers[some]) + factors[some]
        numbers = numbers.clone()
        numbers[some] = rows.shape[-2] + torch.arange(own.shape[-2])
        if not self.flat:
            numbers = pad(numbers, lengths, time=value.shape[-1]).reshape(value.shape)
        return self.with_weights({"emission": torch.cat([rows, own], -2).mT}), numbers

    def stepwise(self, value: Tensor, touched: Mapping[str, Tensor | None], batch_size: int) -> ChainStretch | None:
        words, lengths = self._data(value)
        large = len(words) * batch_size >= TOKENS_A_THREAD * len(lengths)  # better done by several threads
        one_table = self.start.dim() == 1 and self.transition.dim() == self.emission.dim() == 2
        if large or not one_table or self.second is not None or words.device.type != "cpu":
            return None
        self._check_words(words)
        columns = touched["emission"]
        words = words.long() if columns is None else columns[words.long()]
        return ChainStretch(words.numpy(), offsets_of(lengths).numpy())

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw words of the given lengths, from the chain's weights restricted to those lengths."""
        if self._parts.batch_shape.numel() != 1:
            raise StructureError("sample() draws from one set of weights at a time: with Predictive, parallel=False")
        p = self._parts.squeezed().detach()
        lengths = self.lengths.reshape(-1).repeat(Size(sample_shape).numel())
        with torch.no_grad():
            # Summing the words out of every position leaves a chain over states alone, with one "word".
            mass = torch.logsumexp(p.emission, -1, keepdim=True)  # (K, 1)
            blank = torch.zeros(int(lengths.sum()), dtype=torch.long)
            blanks = ChainPosterior({}, ChainParts(p.start, p.trans, p.stop, mass), blank, lengths, None)
            states = blanks.sample()
            # One multinomial call a state, not one row of the vocabulary a token.
            words = torch.zeros_like(states)
            for k in states.unique():
                here = (states == k).nonzero()[:, 0]
                words[here] = torch.multinomial(p.emission[k].softmax(-1), len(here), replacement=True)
        if self.flat:
            return words.reshape(*sample_shape, -1)
        padded = pad(words, lengths, time=self.event_shape[0])
        return padded.reshape(*sample_shape, *self.lengths.shape, self.event_shape[0])

    def _data(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The value lying flat, and its lengths, (tokens,) and (B,)."""
        if self.flat:
            if value.shape != self.event_shape:
                raise StructureError(
                    f"a flat value should have shape {tuple(self.event_shape)} (the sum of lengths), "
                    f"actual {tuple(value.shape)}"
                )
            return value, self.lengths
        if value.dim() < 1 or value.shape[-1] < self.event_shape[0]:
            raise StructureError(f"lengths reach {self.event_shape[0]}, actual value of shape {tuple(value.shape)}")
        lengths = self.lengths.expand(torch.broadcast_shapes(self.lengths.shape, value.shape[:-1])).reshape(-1)
        value = value.reshape(-1, value.shape[-1])
        if len(value) != len(lengths):
            raise StructureError(f"{len(lengths)} lengths for {len(value)} sequences")
        return flatten(value, lengths), lengths
