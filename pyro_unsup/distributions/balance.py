"""The search for what makes two structures expect the same of every part, example by example."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..array import Array
from ..kernels import balance as kernel
from ..kernels.threads import in_parts
from .structure import Structure

#: Evaluations of the dual at most.
STEPS = 1000
#: Moves that the next one is extrapolated from.
MEMORY = 8
#: Parts that are looked at together, to bound memory.
PARTS = 1 << 19
#: Examples that are done are left out once they have this share of the parts at hand.
DONE = 0.25

#: A structure, and the data that it observes, lying flat.
Side = tuple[Structure, Tensor]


class Balanced(NamedTuple):
    """What was found.

    :param multipliers: (parts,) of each part; +inf if one side holds it impossible, and so neither may have it.
    :param apart: (B,) the largest difference of two expectations in each example.
    """

    multipliers: Tensor
    apart: Tensor


def potentials(multipliers: Tensor, signs: Tensor, side: int) -> Tensor:  # (parts,)
    """What multipliers add to the log-potentials of one side."""
    return torch.where(multipliers == torch.inf, -torch.inf, multipliers * (signs if side else -signs))


def balance(sides: tuple[Side, Side], signs: Tensor, example: Tensor, tolerance: float) -> Balanced:
    """The multipliers at which the dual is lowest: the sum of both log Z, of the first side with the multiplier of each
    part taken off its log-potential, of the second with it put on.

    The dual is convex, its slope the difference of the two expectations. Of a part alone, the lowest point is known: by
    how much the logits of both differ, halved. Each step goes most of that way for all parts at once, and is
    extrapolated from the last few steps (Anderson acceleration, each example on its own). A step that raises the dual
    of an example is taken back there.

    :param sides: two structures whose parts lie as the numbers of their values do, in the same order.
    :param signs: (parts,) 1 where expectations shall be equal, 0 where they need not.
    :param example: (parts,) that each part belongs to.
    :param tolerance: how far the expectations of a part may be apart.
    """
    size = len(sides[0][0].rows)
    multipliers, apart = torch.zeros(len(signs), dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
    ends = torch.bincount(example, minlength=size).cumsum(0)
    with torch.no_grad():
        for first, last in _runs(ends.tolist()):
            search: _Search | None = _Search.of(sides, signs, example, torch.arange(first, last))
            for _ in range(STEPS):
                if search is None:
                    break
                search.step(tolerance)
                search = search.left(multipliers, apart)
            if search is not None:
                search.note(multipliers, apart, np.ones(len(search.going), np.bool_))
    return Balanced(multipliers, apart)


def _runs(ends: list[int]) -> list[tuple[int, int]]:
    """Runs of examples that are not too large.

    :param ends: how many parts the examples up to each have.
    """
    cuts, least = [0], PARTS
    for k, end in enumerate(ends):
        if end >= least or k + 1 == len(ends):
            cuts.append(k + 1)
            least = end + PARTS
    return list(pairwise(cuts))


@dataclass
class _Search:
    """Some examples, B of them with n parts, which lie example after example. What the arrays hold, the kernel says.

    :param where: (n,) their parts among all parts.
    :param examples: (B,) their numbers among all examples.
    :param owner: (n,) the example of each part, among these.
    """

    sides: tuple[Side, Side]
    signs: Tensor
    where: Tensor
    examples: Tensor
    owner: Tensor
    by_part: dict[str, Array] = field(default_factory=dict)
    by_example: dict[str, Array] = field(default_factory=dict)

    @staticmethod
    def of(sides: tuple[Side, Side], signs: Tensor, example: Tensor, examples: Tensor) -> _Search:
        new = _Search(*_selected(sides, signs, example, examples))
        n, size = len(new.where), len(examples)
        new.by_part = {name: np.zeros(n) for name in ("at", "best", "residual", "curvature")}
        new.by_part |= {name: np.zeros((MEMORY, n)) for name in ("moves", "turns")}
        new.by_example = {"lowest": np.full(size, np.inf), "length": np.full(size, kernel.LONGEST)}
        new.by_example |= {name: np.zeros(size, np.int64) for name in ("stored", "newest")}
        new.by_example |= {"apart": np.zeros(size), "going": np.ones(size, np.bool_)}
        return new

    @property
    def going(self) -> Array:  # (B,)
        """Which of them the search goes on for."""
        return self.by_example["going"]

    def step(self, tolerance: float) -> None:
        """Look at what is tried, and choose what is tried next."""
        at, dual, found = torch.from_numpy(self.by_part["at"]), torch.zeros(len(self.going), dtype=torch.float64), []
        barred = torch.from_numpy(self.by_part["best"]) == torch.inf
        for k, (dist, value) in enumerate(self.sides):
            more = potentials(torch.where(barred, torch.inf, at), self.signs, k)
            posterior = dist.with_potentials(**{dist.part: more}).posterior(value)
            found.append(posterior.expected[dist.part].double().contiguous().numpy())
            dual += posterior.log_partition.double()
        offsets = np.concatenate([[0], np.cumsum(np.bincount(self.owner.numpy(), minlength=len(self.going)))])
        given = (*found, self.signs.numpy(), dual.numpy(), offsets, tolerance)
        state = (*self.by_part.values(), *self.by_example.values())
        in_parts(lambda a, b: kernel.step(*given, a, b, *state), len(self.going), len(at))

    def left(self, multipliers: Tensor, apart: Tensor) -> _Search | None:
        """Note what was found of the examples that are done, and leave them out if they are many."""
        done = ~self.going
        if not done.any():
            return self
        self.note(multipliers, apart, done)
        if done.all():
            return None
        if float(done[self.owner.numpy()].mean()) < DONE:
            return self
        left = torch.from_numpy(np.flatnonzero(self.going))
        sides, signs, kept, _, owner = _selected(self.sides, self.signs, self.owner, left)
        by_part = {name: np.ascontiguousarray(x[..., kept.numpy()]) for name, x in self.by_part.items()}
        by_example = {name: x[left.numpy()] for name, x in self.by_example.items()}
        return _Search(sides, signs, self.where[kept], self.examples[left], owner, by_part, by_example)

    def note(self, multipliers: Tensor, apart: Tensor, which: Array) -> None:  # (B,) bool
        """Note what was found of some of them."""
        here = which[self.owner.numpy()]
        multipliers[self.where[here]] = torch.from_numpy(self.by_part["best"][here])
        apart[self.examples[which]] = torch.from_numpy(self.by_example["apart"][which])


def _selected(
    sides: tuple[Side, Side], signs: Tensor, example: Tensor, examples: Tensor
) -> tuple[tuple[Side, Side], Tensor, Tensor, Tensor, Tensor]:
    """Both sides, signs, where the parts lie, the numbers of the examples and whose each part is, of some examples."""
    (one, value), (other, data) = sides
    _, where = one.select(torch.arange(len(value)), examples)
    numbers = torch.full((len(one.rows),), -1).index_copy(0, examples, torch.arange(len(examples)))
    chosen = one.select(value, examples), other.select(data, examples)
    return chosen, signs[where], where, examples, numbers[example[where]]
