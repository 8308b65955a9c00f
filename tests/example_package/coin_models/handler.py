"""A handler: some coins are favoured over others, by log-weights that are not learned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from pyro_unsup.handlers import Handled, Handler

from .structure import CoinChoice


class FavourMessenger(Handler):
    """Adds a log-weight to the choice of each coin.

    :param bonus: (K,) log-weights.
    """

    def __init__(self, bonus: Tensor) -> None:
        super().__init__()
        self.bonus = bonus

    def _pyro_sample(self, msg: Any) -> None:
        fn = msg["fn"]
        if isinstance(fn, CoinChoice):
            msg["fn"] = fn.with_potentials(coins=self.bonus)

    def settings(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {}, {"bonus": self.bonus}

    def __repr__(self) -> str:
        return f"favour({self.bonus.tolist()})"


def favour(model: Callable[..., Any], bonus: Tensor) -> Handled:
    """The model with some coins favoured."""
    return FavourMessenger(bonus).around(model)
