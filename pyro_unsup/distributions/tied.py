"""Two structures whose posteriors expect the same of every part: each is summed under what the other one holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import StructureError
from .balance import Balanced, Side, balance, potentials
from .posterior import Posterior
from .structure import Structure
from .wrapped import Wrapped


class Terms(NamedTuple):
    """What ties two structures.

    :param signs: (parts,) 1 where the expectations of both shall be equal, -1 likewise, 0 where they need not.
    :param example: (parts,) that each part belongs to.
    :param tolerance: how far they may be apart.
    :param found: is told what was found.
    """

    signs: Tensor
    example: Tensor
    tolerance: float
    found: Callable[[Balanced], None]


class Tie:
    """What two tied structures share: both of them, and multipliers that are searched for once, when they are needed.

    :param terms: what they agree on.
    """

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.sides: list[Side] = []
        self._known: tuple[list[Side], Tensor] | None = None

    def join(self, dist: Structure, value: Tensor) -> Tied:
        """One more side, which observes this."""
        self.sides.append(dist.laid_flat(value))
        return Tied(self.sides[-1][0], self, len(self.sides) - 1)

    def replace(self, base: Structure, side: int) -> Tied:
        """One side with another structure. The other side is what it became last: handlers change one by one."""
        self.sides[side] = base, self.sides[side][1]
        return Tied(base, self, side)

    def multipliers(self, base: Structure, value: Tensor, side: int) -> Tensor:  # (parts,)
        """Those of both, for one side as it is."""
        sides = list(self.sides)
        if len(sides) != 2:
            raise StructureError(
                f"two structures are to be tied, and the model has {len(sides)} so far: it cannot be asked for the "
                "first one's probability before it has come to the second"
            )
        if value is not sides[side][1] and not torch.equal(value, sides[side][1]):
            raise StructureError("structures that are tied know the probability of the data that they observe, only")
        sides[side] = base, sides[side][1]
        known = self._known
        if known is None or any(a[0] is not b[0] for a, b in zip(known[0], sides, strict=True)):
            found = balance((_still(sides[0]), _still(sides[1])), *self.terms[:3])
            self.terms.found(found)
            known = self._known = sides, found.multipliers
        return known[1]


class Tied(Wrapped):
    """One of two structures whose posteriors are the closest to theirs that expect the same of every part.

    :param tie: to the other one.
    :param side: which of the two it is.
    """

    tied = True

    def __init__(self, base: Structure, tie: Tie, side: int) -> None:
        super().__init__(base)
        self._tie, self._side = tie, side

    def around(self, base: Structure) -> Tied:
        return self._tie.replace(base, self._side)

    def log_prob(self, value: Tensor) -> Tensor:
        """Its share of the dual at the multipliers; the shares of both add up to it."""
        total: Tensor = self._weighed(value).log_prob(value)
        return total

    def posterior(self, value: Tensor) -> Posterior:
        return self._weighed(value).posterior(value)

    def score(self, value: Tensor, structure: Tensor) -> Tensor:
        return self._weighed(value).score(value, structure)

    def _weighed(self, value: Tensor) -> Structure:
        found = self._tie.multipliers(self.base, value, self._side)
        more = potentials(found, self._tie.terms.signs, self._side)
        return self.base.with_potentials(**{self.base.part: more.to(next(iter(self.base.weights.values())))})

    @property
    def terms(self) -> Terms:
        """What ties it to the other one."""
        return self._tie.terms


def tied_again(before: Sequence[Structure], after: Sequence[Side]) -> list[Structure]:
    """Structures that are tied as others are, or not at all if those are not.

    :param after: with the data that each shall observe.
    """
    if not isinstance(before[0], Tied):
        return [dist for dist, _ in after]
    tie = Tie(before[0].terms)
    return [tie.join(dist, value) for dist, value in after]


def _still(side: Side) -> Side:
    """A side without a gradient."""
    return side[0].detached(), side[1]
