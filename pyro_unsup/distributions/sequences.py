"""Sequences of observations behind hidden states: padded or flat, words or measurements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from functools import reduce
from typing import Any, ClassVar, TypeVar

import torch
from pyro.distributions import TorchDistribution
from torch import Size, Tensor
from torch.distributions import constraints

from ..errors import StructureError
from .emission import Densities, check_emission
from .ragged import Rows, broadcast, check_lengths, flatten
from .structure import Structure, heated

Self = TypeVar("Self", bound="Sequences")


class Sequences(Structure):
    """The base class of structures in which every position of a sequence has a state, and every state emits.

    States emit words, by a table of log-weights; or anything else, by a distribution. In the second case
    :meth:`laid_flat` computes the log-density of every observation in every state. From there on each observation is a
    word of its own, and the densities are its column of the emission table.

    :param weights: log-weights by name. That of ``emission`` is None.
    :param emission: (*batch, K, V) log-weights, or a distribution of batch shape (..., K).
    :param lengths: () or (B,).
    :param flat: whether values lie end to end.
    :param axes: of all tables; that of emissions is ``K V``.
    :param mask: True for observed values, if the emission is a distribution.
    """

    #: Whether every observation has a column of its own in the emission table.
    own_words = False
    #: Axes of the parts at a position, by their letters.
    part_axes: ClassVar[tuple[str, ...]] = ("K",)
    #: How many axes the structure of a position has.
    structure_dim: ClassVar[int] = 0

    def __init__(
        self,
        weights: Mapping[str, Tensor | None],
        emission: Tensor | TorchDistribution,
        lengths: Tensor | int,
        flat: bool,
        axes: Mapping[str, str],
        mask: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        lengths = check_lengths(torch.as_tensor(lengths))
        if flat and lengths.dim() != 1:
            raise StructureError(f"flat values need lengths of shape (B,), actual shape {tuple(lengths.shape)}")
        self.is_flat, self._shape = flat, lengths.shape
        self._form: tuple[Size, int] | None = None  # of the padded values that were laid flat: batch, and longest
        self.density: Densities | None = None
        self.heat = 1.0
        self.data: tuple[Densities, Tensor] | None = None  # of a distribution that is bound to its observations
        event = Size()
        if isinstance(emission, torch.distributions.Distribution):
            check_emission(emission, torch.as_tensor(weights["start"]).shape[-1])
            self.density, event = Densities(emission, mask), emission.event_shape
        elif mask is not None:
            raise StructureError("a mask needs an emission that is a distribution; a table has words, and no gaps")
        else:
            weights = {**weights, "emission": emission}
        size = int(lengths.sum()) if flat else int(lengths.max()) if lengths.numel() else 0
        super().__init__(weights, lengths, Size([size, *event]), axes, validate_args)

    @property
    def examples(self) -> Size:
        return Size([len(self.rows)]) if self.is_flat else self._shape  # padded values have any number of batch axes

    @property
    def emission(self) -> Tensor | TorchDistribution:
        """The table of emissions, or the distribution."""
        return self.weights["emission"] if self.density is None else self.density.emission

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        if self.density is None:
            return constraints.independent(constraints.integer, 1)  # type: ignore[attr-defined]
        return constraints.independent(self.density.emission.support, 1)

    def factors(self) -> dict[str, Tensor]:
        found = dict(self.weights)
        if self.density is not None and self.density.last is not None:
            found["emission"] = self.density.last
        return found

    def prepare(self, value: Tensor) -> None:
        if self.density is not None:
            self.laid_flat(value)

    def check_value(self, value: Tensor) -> None:
        if not self.own_words:
            self.check_integers(value, self.sizes["V"])

    # -- batches of weights

    def _batches(self) -> Iterator[Size]:
        yield from super()._batches()
        if self.density is not None and len(self.density.emission.batch_shape) > 2:
            yield self.density.emission.batch_shape[:-2]

    def _weights_batch(self) -> Size:
        if self.is_flat:
            return super()._weights_batch()
        batches = list(self._batches())
        try:
            return reduce(broadcast, batches, Size(self._shape))
        except RuntimeError:
            raise StructureError(
                f"weights and emissions should have batches that fit the sequences, {tuple(self._shape)}, or 1 in "
                f"their place; actual batches {[tuple(batch) for batch in batches if batch]}"
            ) from None

    def with_temperature(self: Self, temperature: float) -> Self:
        new = super().with_temperature(temperature)
        if new is not self:
            new.heat = self.heat * temperature
        return new

    # -- how data lie

    def laid_flat(self: Self, value: Tensor) -> tuple[Self, Tensor]:  # (rows, *event) or (*examples, T, *event)
        value = torch.as_tensor(value)
        self.check_weights()
        event = len(self.event_shape) - 1
        if self.is_flat:
            if value.shape != self.event_shape:
                raise StructureError(
                    f"expected {self.what} of shape {tuple(self.event_shape)}, all examples end to end; actual shape "
                    f"{tuple(value.shape)}"
                )
            new, flat = self, value
        else:
            new, flat = self._unpadded(value, event)
        if self.density is None:
            new.check_value(flat)
            return new, flat
        density = self.density.of(value, new.rows, new._form).to(self.weights["start"].dtype)  # (*draws, rows, K)
        bound = copy(new)
        lead = new.draws or density.shape[:-2]
        table = density.mT.unsqueeze(-3) if lead else density.mT
        bound.weights = {**new.weights, "emission": heated(table, self.heat) if self.heat != 1 else table}
        if self.heat != 1:
            bound._unheated = {**new.unheated, "emission": table}
        bound.density, bound.own_words, bound.data = None, True, (self.density, flat)
        bound._event_shape = Size([new.rows.size])
        bound.table_axes = {**new.table_axes, "emission": ("K", "V")}
        bound.sizes = {**new.sizes, "V": new.rows.size}  # which may be 0
        bound._weights_batch()
        return bound, torch.arange(new.rows.size, device=value.device)

    def _unpadded(self: Self, value: Tensor, event: int) -> tuple[Self, Tensor]:
        """The distribution and a padded value, lying flat."""
        time = value.dim() - event - 1
        if time < 0 or value.shape[time] < self.event_shape[0] or value.shape[time + 1 :] != self.event_shape[1:]:
            raise StructureError(
                f"lengths reach {self.event_shape[0]} and an observation has shape {tuple(self.event_shape[1:])}, "
                f"actual value of shape {tuple(value.shape)}"
            )
        shape, T = value.shape[:time], value.shape[time]
        if (
            any(n not in (1, m) for n, m in zip(self._shape[::-1], shape[::-1], strict=False))
            or len(self._shape) > time
        ):
            raise StructureError(f"{self._shape.numel()} lengths for {shape.numel()} sequences")
        new = copy(self)
        new._shape, new._form = shape, (shape, T)
        batch = reduce(broadcast, self._batches(), Size())
        new.draws = batch[: max(len(batch) - len(shape), 0)]
        new.rows = Rows(self.lengths.expand(shape).reshape(-1))
        new.weights = {name: new._flat_table(name, bool(batch)) for name in self.weights}
        new.is_flat = True
        new._weights_batch()
        flat = new._flatten(value)
        new._event_shape = flat.shape
        if self.part in self.extra:
            whole = (*value.shape[: time + 1], *(self.sizes[axis] for axis in self.part_axes))
            try:
                wide = self.extra[self.part].expand(whole)
            except RuntimeError:
                raise StructureError(
                    f"there are {self.part} of shape {whole}, which do not fit potentials of shape "
                    f"{tuple(self.extra[self.part].shape)}"
                ) from None
            new.extra = {**self.extra, self.part: new._flatten(wide)}
        return new, flat

    def _flat_table(self, name: str, batched: bool) -> Tensor:
        """A table, with an axis for examples where some table has one."""
        return self.table(name) if batched else self.weights[name]

    def select(self: Self, value: Tensor, examples: Tensor) -> tuple[Self, Tensor]:
        """The distribution of some sequences, lying flat."""
        dist, value = (self, value) if self.is_flat and self.density is None else self.laid_flat(value)
        new, value = super(Sequences, dist).select(value, examples)
        new._form = None
        return new, value

    def _flatten(self, padded: Tensor) -> Tensor:  # (*examples, T, *rest) -> (rows, *rest)
        assert self._form is not None
        shape, T = self._form
        return flatten(padded.reshape(shape.numel(), T, *padded.shape[len(shape) + 1 :]), self.rows.lengths)

    def flat_structure(self, structure: Tensor) -> Tensor:
        return structure if self._form is None else self._flatten(structure)

    def shaped(self, flat: Tensor, fill: float) -> Tensor:  # (*draws, rows, *rest) -> (*draws, *examples, T, *rest)
        if self._form is None:
            return flat
        own = len(self.part_axes) if flat.is_floating_point() else self.structure_dim  # marginals, or structures
        return self.padded(flat, flat.dim() - own - 1, fill)

    def padded(self, flat: Tensor, lead: int, fill: float) -> Tensor:
        """What lies flat, in the form of the value: (*lead, rows, *rest) -> (*lead, *examples, T, *rest).

        :param flat: (*lead, rows, *rest).
        :param lead: how many axes come before the rows.
        :param fill: what stands where there is nothing.
        """
        if self._form is None:
            return flat
        shape, T = self._form
        padded = flat.new_full((*flat.shape[:lead], len(self.rows) * T, *flat.shape[lead + 1 :]), fill)
        place = (self.rows.owner * T + self.rows.position).to(flat.device)
        return padded.index_copy(lead, place, flat).reshape(*flat.shape[:lead], *shape, T, *flat.shape[lead + 1 :])

    def described(self, value: Tensor) -> tuple[Tensor, Tensor, Size | None]:
        """Observations end to end, (rows, *event), the length of each sequence, and the form of a padded value."""
        dist, words = self.laid_flat(value)
        words = words if dist.data is None else dist.data[1]
        form = None if self.is_flat else value.shape[: value.dim() - len(self.event_shape) + 1]
        return words, dist.rows.lengths, form

    def by_example(self, total: Tensor) -> Tensor:
        return super().by_example(total if self._form is None else total.reshape((*total.shape[:-1], *self._form[0])))

    # -- new data

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw observations of the given lengths, from the weights restricted to those lengths."""
        shape = Size(sample_shape)
        with torch.no_grad():
            if shape:
                drawn = [self.sample() for _ in range(shape.numel())]
                return torch.stack(drawn).reshape(*shape, *drawn[0].shape)
            states = self.draw_states()  # (*draws, rows)
            if bool((states < 0).any()):
                raise StructureError("no sequence of states has one of the given lengths: its weights are all -inf")
            lead = states.dim() - 1
            if self.density is not None:
                form = None if self.is_flat else (self._shape, self.event_shape[0])
                found = self.density.draw(states, self.rows, form)
            else:
                found = self._draw_words(states)
            if self.is_flat:
                return found
            new = copy(self)
            new._form = (self._shape, self.event_shape[0])
            return new.padded(found, lead, 0)

    def draw_states(self) -> Tensor:  # (*draws, rows)
        """States of sequences of the given lengths, without data."""
        return self.draw_structure()

    def draw_structure(self) -> Tensor:  # (*draws, rows, ...)
        """A structure of the given lengths, without data."""
        # Summing the observations out of every position leaves states alone, with one "word".
        blanks = copy(self)
        blanks.weights, blanks.extra = {name: w.detach() for name, w in self.weights.items()}, {}
        if self.density is None:
            mass = torch.logsumexp(blanks.weights["emission"], -1, keepdim=True)  # (*batch, K, 1)
        else:
            mass = blanks.weights["start"].new_zeros(*self.density.emission.batch_shape[:-2], self.sizes["K"], 1)
        blanks.weights["emission"] = mass
        blanks.density, blanks._unheated, blanks._event_shape = None, None, self.event_shape[:1]
        blanks._measure()
        blanks._weights_batch()
        shape = self.event_shape[:1] if self.is_flat else (*self._shape, self.event_shape[0])
        return blanks.posterior(torch.zeros(shape, dtype=torch.long, device=mass.device))._decode(True, None)

    def _draw_words(self, states: Tensor) -> Tensor:  # (*draws, rows)
        emission = self.weights["emission"]
        if states.dim() > 1 and self.one_set:  # one set of weights a draw
            wide = self.table("emission").expand(*self.draws, 1, *emission.shape[-2:]).flatten(0, -4)
            new = copy(self)
            drawn = []
            for one, own in zip(wide, states.reshape(len(wide), -1), strict=True):
                new.weights = {"emission": one}
                drawn.append(new._draw_words(own))
            return torch.stack(drawn).reshape(states.shape)
        if states.dim() > 1 or emission.shape[:-2].numel() > 1:
            raise StructureError("sample() draws from weights that all examples share: these have their own")
        emission = emission.reshape(emission.shape[-2:])
        # One multinomial call a state, not one row of the vocabulary a token.
        words = torch.zeros_like(states)
        for k in states.unique():
            here = (states == k).nonzero()[:, 0]
            words[here] = torch.multinomial(emission[k].softmax(-1), len(here), replacement=True)
        return words
