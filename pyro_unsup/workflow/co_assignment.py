"""How probable it is that two places have the same label, on average over draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..distributions import Chain, Structure

Array = np.ndarray[Any, Any]

#: Numbers that are held at a time.
ROOM = 2**24
#: Multiplications for one draw, up to which pairs in one sequence are exact.
WORK = 2**26


class CoAssignment:
    """P(same label | data, draw) of pairs of places, added up over draws.

    Examples are independent given a draw: of places in two examples it is the sum over labels of the product of both
    probabilities. In one sequence, it is a product of the transitions between the two, given all data. Where that would
    take too long (many labels, or a long series), and in chains of second order, it is counted in one drawn structure a
    draw, which is right on average.

    :param fn: the distribution of structures.
    :param units: (U,) those that are compared.
    :param places: how many there are in all.
    """

    def __init__(self, fn: Structure, units: Array, places: int) -> None:
        self.units, self._fn = torch.from_numpy(units), fn
        owner = fn.owner("structure") if fn.part == "states" else torch.arange(len(fn.rows))
        flat = len(owner) == places  # padded data are not
        own = owner[self.units] if flat else torch.zeros(len(units), dtype=torch.long)
        self._together = (own[:, None] == own).fill_diagonal_(False)  # (U, U) in one example
        K, longest = int(fn.sizes["K"]), int(fn.rows.longest)
        first_order = isinstance(fn, Chain) and not fn.second_order and flat
        small = len(units) * longest * K**3 <= WORK and fn.rows.size * K * K <= ROOM
        #: Whether pairs in one example are exact.
        self.exact = not bool(self._together.any()) or (first_order and small)
        self._cells = len(units) ** 2 + (fn.rows.size * K * K + len(units) * K * K if self.exact else 0)
        self._sum = torch.zeros(len(units), len(units), dtype=torch.float64)
        self._squares = torch.zeros_like(self._sum)
        self._count = 0

    def add(self, posterior: Any, structure: Tensor | None, draws: int) -> None:
        """What some draws tell.

        :param structure: drawn for them, (draws, places), unless all is exact.
        """
        every = posterior.marginals.double().reshape(draws, -1, int(self._fn.sizes["K"]))  # (draws, places, K)
        steps = None
        if self.exact and bool(self._together.any()):
            steps = posterior.pairwise.double().reshape(draws, *every.shape[1:], every.shape[-1])
        for part in torch.arange(draws).split(max(1, ROOM // max(1, self._cells))):
            p = every[part][:, self.units]  # (n, U, K)
            same = p @ p.mT
            if steps is not None:
                same = torch.where(self._together, self._along(every[part], steps[part]), same)
            elif not self.exact:
                assert structure is not None
                labels = structure.reshape(draws, -1)[part][:, self.units]
                agree = (labels[:, :, None] == labels[:, None]) & (labels[:, None] >= 0)
                same = torch.where(self._together, agree.double(), same)
            same.diagonal(dim1=-2, dim2=-1).copy_(p.sum(-1))  # 1, or 0 where there is no structure
            self._sum += same.sum(0)
            self._squares += same.square().sum(0)
            self._count += len(part)

    def _along(self, p: Tensor, pairs: Tensor) -> Tensor:  # (n, N, K), (n, N, K, K) -> (n, U, U)
        """Of pairs in one sequence: how probable the label of the first is at the second, step after step."""
        n, N = p.shape[:2]
        before = torch.nn.functional.pad(p[:, :-1], (0, 0, 1, 0))
        moves = torch.where(before[..., None] > 0, pairs / before[..., None], 0.0)  # given the label before
        owner, units = self._fn.owner("structure"), self.units
        slot = torch.full((N,), -1)
        slot[units] = torch.arange(len(units))
        found = p.new_zeros(n, len(units), len(units))
        reached = torch.diag_embed(p[:, units])  # (n, U, K, K): the label at the first place, and here
        for distance in range(1, int(self._fn.rows.longest)):
            here = (units + distance).clamp(max=N - 1)
            inside = (units + distance < N) & (owner[here] == owner[units])
            if not bool(inside.any()):
                break
            reached = reached @ moves[:, here]
            other = torch.where(inside, slot[here], -1)
            mine = (other >= 0).nonzero()[:, 0]
            value = reached[:, mine].diagonal(dim1=-2, dim2=-1).sum(-1)
            found[:, mine, other[mine]] = value
            found[:, other[mine], mine] = value
        return found

    @property
    def mean(self) -> Array:  # (U, U)
        """The probability, on average over draws."""
        return np.asarray(self._sum / self._count)

    @property
    def error(self) -> Array:  # (U, U)
        """The standard error of the mean, if draws are independent; NaN of one draw."""
        if self._count < 2:
            return np.full(self._sum.shape, np.nan)
        spread = (self._squares / self._count - (self._sum / self._count).square()).clamp(min=0)
        return np.asarray((spread / (self._count - 1)).sqrt())
