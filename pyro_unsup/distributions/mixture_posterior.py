"""What is known about the cluster of a bag of words."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from .mixture_sum import cluster_scores, log_partition
from .ragged import offsets_of
from .semiring import LOG
from .structured import Posterior


class MixturePosterior(Posterior):
    """Posterior over clusters, one a bag: 0 .. K - 1, or -1 for a bag that is impossible in all of them."""

    def __init__(
        self,
        weights: dict[str, Tensor],
        bags: Tensor,  # (cells, 2)
        lengths: Tensor,  # (B,)
    ) -> None:
        self._weights, self._bags, self._lengths = weights, bags.contiguous(), lengths
        K, V = weights["words"].shape[-2:]
        self._cluster, self._words = weights["cluster"].reshape(K), weights["words"].reshape(K, V)

    @cached_property
    def scores(self) -> Tensor:  # (B, K)
        """log p(bag, cluster), in float64."""
        if self._words.device.type != "cpu":
            return cluster_scores(self._cluster.double(), self._words.double(), self._bags, self._lengths)
        from ..kernels.mixture import mixture_scores

        offsets = offsets_of(self._lengths).numpy()
        return mixture_scores(self._cluster, self._words, self._bags.numpy(), offsets)

    @cached_property
    def log_partition(self) -> Tensor:  # type: ignore[override]  # (B,)
        return LOG(self.scores, -1).to(self._words.dtype)

    @cached_property
    def counts(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Expected uses of every weight, over all bags, shaped as the weights that were given."""
        leaves = [w.clone().requires_grad_() for w in (self._cluster, self._words)]
        with torch.enable_grad():
            total = log_partition(leaves[0], leaves[1], self._bags, self._lengths)
        found = torch.autograd.grad(total.sum(), leaves)
        return {name: n.reshape(self._weights[name].shape) for name, n in zip(("cluster", "words"), found, strict=True)}

    @cached_property
    def marginals(self) -> Tensor:  # type: ignore[override]  # (B, K)
        """Posterior probability of each cluster; zeros where a bag is impossible."""
        return self._exact.to(self._words.dtype)

    def mode(self) -> Tensor:  # (B,)
        """The most probable cluster of each bag; of equals, the lowest."""
        return self.scores.argmax(-1).masked_fill(self._impossible, -1)

    def mbr(self) -> Tensor:  # (B,)
        """The same as :meth:`mode`: a bag has one cluster, so the most probable one is right most often."""
        return self.mode()

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (B,)
        dead = self._impossible.unsqueeze(-1)
        drawn = torch.multinomial(self._exact.masked_fill(dead, 1.0), 1, generator=generator).squeeze(-1)
        return drawn.masked_fill(self._impossible, -1)

    @cached_property
    def entropy(self) -> Tensor:  # (B,)
        p = self._exact
        return -torch.where(p > 0, p * p.log(), 0.0).sum(-1).to(self._words.dtype)

    @cached_property
    def _exact(self) -> Tensor:  # (B, K) float64
        log_z = LOG(self.scores, -1).unsqueeze(-1)
        return torch.where(self.scores > -torch.inf, (self.scores - log_z).exp(), 0.0)

    @cached_property
    def _impossible(self) -> Tensor:  # (B,)
        return (self.scores == -torch.inf).all(-1)
