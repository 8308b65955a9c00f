"""Jumps from link to link: which weight each of them has, and what it takes for them to stay in the sentence.

A jump goes from one place in a sentence to another, and has one of 2 W + 1 weights: one for each offset between -W and
W, one for all jumps of W or more to the right, one for those to the left. The last two are shared by the places that
far. Jumps of different kinds have weights of their own: those from before the sentence to the first link; those from
link to link; and those from the last link to the end of the sentence. There may be several kinds from link to link
(inner kinds): one for each class of the word that is left, one for each direction of the jump before, or one for each
combination of both.

How much room there is around a place is one of (W + 1)^2 + 2 W cases, (W + 1)^2 for each inner kind. For a place in the
sentence: how many words lie to the left of it, and to the right, W standing for more. Before the sentence: how many
words it has. At the end: how far the last link may be, one more than that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from ...errors import StructureError

#: Directions of a jump, where the next jump depends on it: back, to the same word, to the next one, further ahead.
DIRECTIONS = ("back", "same", "next", "ahead")


def directions(order: int) -> int:
    """How many directions of the jump before are told apart.

    >>> from pyro_unsup.distributions.alignment.jumps import directions
    >>> directions(1), directions(2)
    (1, 4)
    """
    if order not in (1, 2):
        raise StructureError(f"order must be 1, or 2 for jumps that depend on the jump before, actual {order!r:.80}")
    return 1 if order == 1 else len(DIRECTIONS)


def reach_of(jump: Tensor) -> int:  # (*batch, kinds, 2 W + 1)
    """W."""
    if jump.dim() < 2 or jump.shape[-2] < 3 or jump.shape[-1] < 3 or jump.shape[-1] % 2 == 0:
        raise StructureError(
            "jump should have shape (kinds, 2 W + 1), for 3 kinds or more and offsets -W .. W with W at least 1, "
            f"actual {tuple(jump.shape)}"
        )
    return (jump.shape[-1] - 1) // 2


def inner_of(jump: Tensor) -> int:  # (*batch, kinds, 2 W + 1)
    """How many kinds of jumps from link to link there are."""
    return jump.shape[-2] - 2


def rooms(reach: int, inner: int = 1) -> int:
    """How many cases of room there are.

    :param inner: kinds of jumps from link to link.

    >>> from pyro_unsup.distributions.alignment.jumps import rooms
    >>> rooms(5), rooms(5, inner=2)
    (46, 82)
    """
    return inner * (reach + 1) ** 2 + 2 * reach


@dataclass(frozen=True)
class Jumps:
    """All jumps in sentences of some sizes: which weight, which room, how many share it, and whether there is one.

    :param weight: (B, *places) among the kinds times (2 W + 1).
    :param room: (B, *places) among the cases of room.
    :param many: (B, *places) how many places share the weight.
    :param there: (B, *places) bool.
    """

    weight: Tensor
    room: Tensor
    many: Tensor
    there: Tensor

    def logs(
        self,
        jump: Tensor,  # (*draws, 1 or B, kinds, 2 W + 1)
        room: Tensor,  # (*draws, 1 or B, rooms)
        share: Tensor,  # (*draws, 1 or B, most)
    ) -> Tensor:  # (*draws, B, *places)
        """The log-weight of each."""
        found = _each(jump.flatten(-2), self.weight) + _each(room, self.room) + _each(share, self.many - 1)
        return torch.where(self.there.to(found.device), found, -torch.inf)


def _each(table: Tensor, index: Tensor) -> Tensor:  # (*draws, 1 or B, n), (B, *places) -> (*draws, B, *places)
    """Numbers from the table of each pair, or from the one that all share."""
    lead, B = table.shape[:-2], len(index)
    where = index.flatten(1).to(table.device).expand(*lead, B, -1)
    found: Tensor = table.expand(*lead, B, -1).gather(-1, where).unflatten(-1, index.shape[1:])
    return found


def jumps_within(
    sizes: Tensor,  # (B,)
    reach: int,
    most: int,
    kinds: Tensor | None = None,  # (B, directions, most + 1)
    inner: int = 1,
) -> Jumps:  # (B, directions, most + 1, most)
    """Jumps from each place (0 is before the sentence) to each place from 1 on, in sentences of these sizes.

    :param kinds: the inner kind of jumps from each place, by the direction of the jump before; all of one kind if not
        given.
    :param inner: how many inner kinds there are.
    """
    W, size = reach, sizes[:, None, None, None]
    kind = torch.zeros(1, 1, 1, 1, dtype=torch.long) if kinds is None else kinds.unsqueeze(-1)
    old, new = torch.arange(most + 1)[:, None], torch.arange(1, most + 1)
    offset = new - old
    there = (old <= size) & (new <= size)
    many = torch.where(offset >= W, size - old - W + 1, torch.where(offset <= -W, old - W, 1))
    weight = torch.where(old > 0, 1 + kind, 0) * (2 * W + 1) + offset.clamp(-W, W) + W
    left, right = (old - 1).clamp(0, W), (size - old).clamp(0, W)
    within = (kind * (W + 1) + left) * (W + 1) + right
    room = torch.where(old == 0, inner * (W + 1) ** 2 + size.clamp(1, W) - 1, within)
    shape = torch.broadcast_shapes(there.shape, weight.shape)
    every = (weight, room, many.clamp(min=1), there)
    return Jumps(*(x.expand(shape) for x in every))


def jumps_to_the_end(sizes: Tensor, reach: int, most: int, inner: int = 1) -> Jumps:  # (B,) -> (B, most + 1)
    """Jumps from each place to the end of the sentence."""
    W, size = reach, sizes[:, None]
    offset = size + 1 - torch.arange(most + 1)
    there = offset > 0
    many = torch.where(offset >= W, size - W + 2, 1)
    room = (inner * (W + 1) ** 2 + W + (size + 1).clamp(max=W) - 1).expand(there.shape)
    weight = (inner + 1) * (2 * W + 1) + offset.clamp(1, W) + W
    return Jumps(weight, room, many.clamp(min=1).expand(there.shape), there)


def direction_of(reach: int) -> Tensor:  # (2 W + 1,)
    """The direction of a jump, by the number of its weight.

    >>> from pyro_unsup.distributions.alignment.jumps import direction_of
    >>> direction_of(2).tolist()
    [0, 0, 1, 2, 3]
    """
    offset = torch.arange(-reach, reach + 1)
    return (offset > -1).long() + (offset > 0).long() + (offset > 1).long()


def evenly(most: int, like: Tensor) -> Tensor:  # (most,)
    """The log-weight of one of n places that share a weight evenly, for n from 1 on."""
    return -torch.arange(1, most + 1, dtype=torch.float64).log().to(like)


def again(jump: Tensor) -> Tensor:  # (*batch, kinds, 2 W + 1) -> (*batch, rooms)
    """Room for jumps that are drawn again until they stay in the sentence.

    Jumps that would leave it are drawn again, perhaps many times, and ``1 + q + q^2 + ... = 1 / (1 - q)``, q being the
    sum of their weights. That is the weight of the room: jumps within the sentence then add up to one, wherever they
    start from. What has been drawn in vain counts as well, in expectation. Thus EM is exact in closed form: counts are
    the gradient as ever, and tables are normalised by their rows.

    :param jump: log-weights that add up to at most 1 in each row.
    """
    possible, kind = possible_jumps(reach_of(jump), inner_of(jump))
    weights = jump.exp()[..., kind, :]  # (*batch, rooms, 2 W + 1)
    inside = torch.where(possible, weights, 0.0).sum(-1)
    # 1 - q is what is inside, and what is missing from a total of 1: rounding alone, as a rule.
    missing = 1 - weights.sum(-1)
    known = missing.detach()
    rounding = 64 * torch.finfo(jump.dtype).eps
    left = inside + (missing - known) + torch.where(known > rounding, known, 0.0)
    return -torch.where(left > 0, left, 1.0).log()


@cache
def possible_jumps(reach: int, inner: int = 1) -> tuple[Tensor, Tensor]:  # (rooms, 2 W + 1) bool, (rooms,)
    """The jumps that stay in the sentence, by room; and the kind of jump that each room is for."""
    W = reach
    offset = torch.arange(-W, W + 1)
    left, right = torch.arange(W + 1)[:, None, None], torch.arange(W + 1)[:, None]
    within = ((offset >= -left) & (offset <= right)).reshape(-1, 2 * W + 1).repeat(inner, 1)
    far = (offset > 0) & (offset <= torch.arange(1, W + 1)[:, None])
    kinds = torch.arange(1, inner + 1).repeat_interleave((W + 1) ** 2)
    begin, end = torch.zeros(W, dtype=torch.long), torch.full((W,), inner + 1)
    return torch.cat([within, far, far]), torch.cat([kinds, begin, end])
