"""Ragged batches: flat (rows end to end, with lengths) and padded (a rectangle, with lengths)."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Size, Tensor

from ..errors import StructureError

_Kind = TypeVar("_Kind")


class Rows:
    """Which rows of a flat batch belong to which example.

    All index tensors are made on the CPU, from lengths that stay there, and moved where they are needed. So a structure
    needs no numbers from another device to know its own shape.

    :param lengths: (B,) rows of each example.

    >>> import torch
    >>> from pyro_unsup.distributions.ragged import Rows
    >>> rows = Rows(torch.tensor([2, 0, 1]))
    >>> rows.owner.tolist(), rows.position.tolist(), rows.longest
    ([0, 0, 2], [0, 1, 0], 2)
    """

    #: What is made from the lengths when it is first asked for. Rows of the same lengths are the same rows.
    NOT_COMPARED = ("_known",)

    def __init__(self, lengths: Tensor) -> None:
        self.lengths = lengths.cpu()
        self._known: dict[Any, Any] = {}

    def __len__(self) -> int:
        return len(self.lengths)

    def known(self, kind: Callable[[Rows], _Kind]) -> _Kind:
        """Something that is made from these rows, once: distributions over the same data share it."""
        if kind not in self._known:
            self._known[kind] = kind(self)
        made: _Kind = self._known[kind]
        return made

    @cached_property
    def size(self) -> int:
        """How many rows there are in all."""
        return int(self.lengths.sum())

    @cached_property
    def longest(self) -> int:
        """The rows of the longest example, at least 1."""
        return max(1, int(self.lengths.max())) if len(self.lengths) else 1

    @cached_property
    def offsets(self) -> Tensor:  # (B + 1,)
        return offsets_of(self.lengths)

    @cached_property
    def owner(self) -> Tensor:  # (rows,)
        """The example of each row."""
        return torch.repeat_interleave(torch.arange(len(self.lengths)), self.lengths)

    @cached_property
    def position(self) -> Tensor:  # (rows,)
        """The place of each row in its example, from 0."""
        return torch.arange(self.size) - self.offsets[self.owner]

    @cached_property
    def place(self) -> Tensor:  # (rows,)
        """The place of each row in a rectangle of B x longest."""
        return self.owner * self.longest + self.position

    def pad(self, flat: Tensor, lead: int, fill: float = 0.0) -> Tensor:
        """A rectangle: (*lead, rows, *rest) -> (*lead, B, longest, *rest).

        :param lead: how many axes come before the rows.
        """
        shape = (*flat.shape[:lead], len(self) * self.longest, *flat.shape[lead + 1 :])
        padded = flat.new_full(shape, fill).index_copy(lead, self.place.to(flat.device), flat)
        found: Tensor = padded.unflatten(lead, (len(self), self.longest))
        return found

    def flatten(self, padded: Tensor, lead: int) -> Tensor:
        """The way back: (*lead, B, longest, *rest) -> (*lead, rows, *rest)."""
        return padded.flatten(lead, lead + 1).index_select(lead, self.place.to(padded.device))

    def select(self, examples: Tensor) -> Tensor:  # (n,) -> (their rows,)
        """Where the rows of some examples lie."""
        lengths = self.lengths[examples]
        shift = self.offsets[:-1][examples] - offsets_of(lengths)[:-1]
        return torch.arange(int(lengths.sum())) + torch.repeat_interleave(shift, lengths)

    def sum(self, x: Tensor, lead: int) -> Tensor:  # (*lead, rows, *rest) -> (*lead, B)
        """The sum over all that belongs to each example."""
        each = x.flatten(lead + 1).sum(-1) if x.dim() > lead + 1 else x
        return each.new_zeros(*each.shape[:lead], len(self)).index_add(lead, self.owner.to(x.device), each)


def offsets_of(lengths: Tensor) -> Tensor:  # (B,) -> (B + 1,)
    """Where each sequence starts in the flat form, and where the last one ends."""
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def valid(lengths: Tensor, time: int) -> Tensor:  # (*batch,) -> (*batch, time)
    """True at the positions that exist."""
    return torch.arange(time, device=lengths.device) < lengths.unsqueeze(-1)


def flatten(padded: Tensor, lengths: Tensor) -> Tensor:  # (B, T, *rest), (B,) -> (tokens, *rest)
    """Drop the padding."""
    if len(lengths) and int(lengths.min()) == padded.shape[1]:  # there is none, as with one series
        return padded.flatten(0, 1)
    return padded[valid(lengths, padded.shape[1])]


def pad(flat: Tensor, lengths: Tensor, fill: float = 0, time: int | None = None) -> Tensor:
    """Make a rectangle: (tokens, *rest), (B,) -> (B, T, *rest)."""
    time = int(lengths.max()) if time is None else time
    padded = flat.new_full((len(lengths), time, *flat.shape[1:]), fill)
    padded[valid(lengths, time)] = flat
    return padded


def check_lengths(lengths: Tensor, limit: int | None = None) -> Tensor:
    """Lengths as int64 on the CPU, all of them possible."""
    if lengths is None:
        raise StructureError(
            "there are neither data nor lengths: give the data; or, to draw some, the lengths of examples"
        )
    try:
        lengths = torch.as_tensor(lengths)
    except (TypeError, ValueError, RuntimeError):
        raise StructureError(f"lengths must be integers, one an example, actual {lengths!r:.80}") from None
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise StructureError(f"lengths must be integers, actual dtype = {lengths.dtype}")
    lengths = lengths.long().cpu()
    if lengths.numel() and int(lengths.min()) < 0:
        raise StructureError(f"lengths must not be negative, actual smallest = {int(lengths.min())}")
    if limit is not None and lengths.numel() and int(lengths.max()) > limit:
        raise StructureError(f"a length of {int(lengths.max())} exceeds the {limit} positions given")
    return lengths


def broadcast(one: Size, other: Size) -> Size:
    """The shape of both together. Torch's own function takes as long as a few hundred sentences."""
    if len(one) == 0 or one == other:
        return other
    return one if len(other) == 0 else Size(torch.broadcast_shapes(one, other))
