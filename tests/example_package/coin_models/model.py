"""A model: tables for the structure, and what it takes to build the model again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyro
import torch
from torch import Tensor

from pyro_unsup.tables import Declaration, Layout, declare

from .structure import CoinChoice


@dataclass(frozen=True)
class Flips:
    """Data.

    :param counts: (B, 2) how often each side came up.
    :param structure: (B,) the coin of each example, where that is known.
    """

    counts: Tensor
    structure: Tensor | None = None

    def __len__(self) -> int:
        return len(self.counts)

    def select(self, indices: Any) -> Flips:
        """The examples at these places."""
        return Flips(self.counts[indices], None if self.structure is None else self.structure[indices])


class CoinModel:
    """A mixture of coins."""

    task = "coin"

    def __init__(self, coins: int) -> None:
        self.coins = coins
        one = torch.tensor(1.0, dtype=torch.float64)
        self._tables = {
            "coin": Declaration("coin", Layout.dense(coins), one),
            "side": Declaration("side", Layout.dense(coins, 2), one),
        }

    def __call__(self, flips: Flips) -> Tensor:
        coin, side = (declare(table) for table in self._tables.values())
        with pyro.plate("examples", len(flips)):
            return pyro.sample("flips", CoinChoice(coin, side, len(flips)), obs=flips.counts)

    def declarations(self) -> dict[str, Declaration]:
        return dict(self._tables)

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {"coins": self.coins}, {}

    @classmethod
    def from_settings(cls, plain: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> CoinModel:
        return cls(**plain)

    def __repr__(self) -> str:
        return f"CoinModel(coins={self.coins})"
