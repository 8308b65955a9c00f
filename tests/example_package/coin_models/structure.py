"""A structure: which of K coins each example was flipped with."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Size, Tensor
from torch.distributions import constraints

from pyro_unsup.distributions import Posterior, Structure


class CoinChoice(Structure):
    """Each example picks a coin and flips it; what is seen is how often each side came up.

    log p(x) = log sum_k coin[k] * side[k, 0] ^ x[0] * side[k, 1] ^ x[1]

    :param coin: (K,) log-weights.
    :param side: (K, 2) log-weights.
    :param examples: how many there are, B. A value has shape (B, 2).
    """

    support = constraints.independent(constraints.nonnegative_integer, 1)

    def __init__(self, coin: Tensor, side: Tensor, examples: int) -> None:
        self.coin, self.side = coin, side
        super().__init__(Size([examples]), Size([2]), validate_args=False)

    @property
    def weights(self) -> dict[str, Tensor]:
        return {"coin": self.coin, "side": self.side}

    def with_weights(self, weights: dict[str, Tensor]) -> CoinChoice:
        new = copy(self)
        for name, w in weights.items():
            setattr(new, name, w)
        return new

    def expand(self, batch_shape: Any, _instance: Any = None) -> CoinChoice:
        new = copy(self)
        new._batch_shape = Size(batch_shape)
        return new

    def scores(self, value: Tensor) -> Tensor:  # (B, 2) -> (B, K)
        """log p(x, k) of each coin."""
        return self.coin + value.to(self.side) @ self.side.mT

    def log_prob(self, value: Tensor) -> Tensor:  # (B, 2) -> (B,)
        return self.scores(value).logsumexp(-1)

    def score(self, value: Tensor, structure: Tensor) -> Tensor:  # (B, 2), (B,) -> (B,)
        return self.scores(value).gather(-1, structure.unsqueeze(-1)).squeeze(-1)

    def posterior(self, value: Tensor) -> CoinPosterior:
        return CoinPosterior(self, value)


class CoinPosterior(Posterior):
    """The coin of each example."""

    def __init__(self, choice: CoinChoice, value: Tensor) -> None:
        scores = choice.scores(value).detach()
        self.log_partition = scores.logsumexp(-1)  # (B,)
        self.marginals = scores.softmax(-1)  # (B, K)
        self.counts = {"coin": self.marginals.sum(0), "side": self.marginals.mT @ value.to(self.marginals)}

    def mode(self) -> Tensor:  # (B,)
        return self.marginals.argmax(-1)

    def mbr(self) -> Tensor:  # (B,)
        return self.mode()

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (B,)
        return torch.multinomial(self.marginals, 1, generator=generator).squeeze(-1)

    @property
    def entropy(self) -> Tensor:  # (B,)
        return torch.special.entr(self.marginals).sum(-1)
