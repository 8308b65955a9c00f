"""Ragged batches: flat (end to end, with lengths) and padded (a rectangle, with lengths)."""

from __future__ import annotations

import torch
from torch import Size, Tensor

from ..errors import StructureError


def offsets_of(lengths: Tensor) -> Tensor:  # (B,) -> (B + 1,)
    """Where each sequence starts in the flat form, and where the last one ends."""
    return torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])


def valid(lengths: Tensor, time: int) -> Tensor:  # (*batch,) -> (*batch, time)
    """True at the positions that exist."""
    return torch.arange(time, device=lengths.device) < lengths.unsqueeze(-1)


def flatten(padded: Tensor, lengths: Tensor) -> Tensor:  # (B, T, *rest), (B,) -> (tokens, *rest)
    """Drop the padding."""
    return padded[valid(lengths, padded.shape[1])]


def pad(flat: Tensor, lengths: Tensor, fill: float = 0, time: int | None = None) -> Tensor:
    """Make a rectangle: (tokens, *rest), (B,) -> (B, T, *rest)."""
    time = int(lengths.max()) if time is None else time
    padded = flat.new_full((len(lengths), time, *flat.shape[1:]), fill)
    padded[valid(lengths, time)] = flat
    return padded


def check_lengths(lengths: Tensor, limit: int | None = None) -> Tensor:
    """Lengths as int64, all of them possible."""
    lengths = torch.as_tensor(lengths)
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise StructureError(f"lengths must be integers, actual dtype = {lengths.dtype}")
    lengths = lengths.long()
    if lengths.numel() and int(lengths.min()) < 0:
        raise StructureError(f"lengths must not be negative, actual smallest = {int(lengths.min())}")
    if limit is not None and lengths.numel() and int(lengths.max()) > limit:
        raise StructureError(f"a length of {int(lengths.max())} exceeds the {limit} positions given")
    return lengths


def broadcast(one: Size, other: Size) -> Size:
    """The shape of both together. Torch's own function takes as long as a few hundred sentences."""
    return other if len(one) == 0 or one == other else Size(torch.broadcast_shapes(one, other))
