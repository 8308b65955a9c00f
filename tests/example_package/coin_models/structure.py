"""A structure: which of K coins each example was flipped with."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from pyro_unsup.distributions import Structure
from pyro_unsup.distributions.semiring import Sum
from pyro_unsup.distributions.structure import Potentials


class CoinChoice(Structure):
    """Each example picks a coin and flips it; what is seen is how often each side came up.

    log p(x) = log sum_k coin[k] * side[k, 0] ^ x[0] * side[k, 1] ^ x[1]

    :param coin: (*batch, K) log-weights.
    :param side: (*batch, K, 2) log-weights.
    :param examples: how many there are, B. A value has shape (B, 2), a structure (B,).
    """

    axes = {"coin": "K", "side": "K 2"}  # noqa: RUF012
    part = "coins"

    def __init__(self, coin: Tensor, side: Tensor, examples: int) -> None:
        one_row = torch.ones(examples, dtype=torch.long)  # of a value, for each example
        super().__init__({"coin": coin, "side": side}, one_row, (examples, 2))

    def potentials(self, value: Tensor) -> Potentials:
        """log p(x, k) of each coin, (*draws, B, K)."""
        side = self.spread(self.table("side"), self.rows.owner)  # (*draws, 1 or B, K, 2)
        return {"coins": self.table("coin") + (side * value.unsqueeze(-2)).sum(-1)}

    def total(self, potentials: Potentials, sum_: Sum) -> Tensor:
        return sum_(potentials["coins"], -1)

    def to_structure(self, parts: Tensor) -> Tensor:  # (*draws, B, K) -> (*draws, B)
        return parts.argmax(-1)

    def to_parts(self, structure: Tensor) -> Tensor:  # (*draws, B) -> (*draws, B, K)
        return one_hot(structure, self.sizes["K"]).bool()
