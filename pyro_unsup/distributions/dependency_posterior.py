"""What is known about the dependency tree of a sentence, given its tags."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from .dependency_sum import DependencyParts, arcs_of, kernel_pass, kernel_tags
from .structured import Posterior


class DependencyPosterior(Posterior):
    """Posterior over projective dependency trees with one root. A tree is the head of each word: 0 for the root, k for
    the k-th word of its sentence, -1 throughout where a sentence has no tree at all.
    """

    def __init__(
        self,
        weights: dict[str, Tensor],
        parts: DependencyParts,
        tags: Tensor,  # (tokens,)
        lengths: Tensor,  # (B,)
    ) -> None:
        self._weights, self._parts = weights, parts
        self._tags, self._lengths = kernel_tags(tags), lengths.contiguous()

    @cached_property
    def _sums(self) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """log Z (B,), posteriors of arcs (cells,), decisions (tokens, 2, 2, 2), all float64; and counts."""
        found = kernel_pass(self._parts, self._tags, self._lengths, parts_too=True)
        counts = {name: getattr(found.counts, name).reshape(w.shape).to(w) for name, w in self._weights.items()}
        return found.log_z, found.counts.arcs, found.decisions, counts

    @cached_property
    def log_partition(self) -> Tensor:  # type: ignore[override]  # (B,)
        return self._sums[0].to(self._parts.root.dtype)

    @property
    def counts(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Expected uses of every weight, over the whole batch, shaped as the weights that were given."""
        return self._sums[3]

    @cached_property
    def marginals(self) -> Tensor:  # type: ignore[override]  # (cells,)
        """Posterior probability of every arc, in the order of :func:`.arcs_of`: sentence by sentence a matrix
        (n, n + 1), a row for each word and in it a column for each head, the root first. Rows sum to one; all are 0
        where a sentence has no tree."""
        return self._sums[1].to(self._parts.root.dtype)

    def mode(self) -> Tensor:  # (tokens,)
        """The best tree; of equals, the one whose root, and then whose splits from the top, are further left."""
        return self._decode(self._parts)

    def mbr(self) -> Tensor:  # (tokens,)
        """The tree with the highest expected number of right heads; of equals, as :meth:`mode`."""
        even = [torch.zeros_like(x) for x in self._parts.tables()[:3]]
        found = self._decode(DependencyParts(even[0], even[1], even[2], self._sums[1]))
        impossible = self._sums[0] == -torch.inf
        return found.masked_fill(impossible.repeat_interleave(self._lengths), -1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (tokens,)
        uniforms = torch.rand(len(self._tags), 2, dtype=torch.float64, generator=generator)
        return self._decode(self._parts, uniforms)

    @cached_property
    def entropy(self) -> Tensor:  # (B,)
        """H = log Z - E[log weight], and the weight is a product over arcs and decisions."""
        log_z, arcs, decisions, _ = self._sums
        root, attach, stop, extra = (x.double() for x in self._parts.tables())
        parts = replace(self._parts, root=root, attach=attach, stop=stop, arcs=extra)
        owner, head, child = arcs_of(self._lengths)
        scores = parts.arc_scores(self._tags, self._lengths, owner, head, child)
        scores = scores if extra.numel() == 0 else scores + extra
        word = torch.repeat_interleave(torch.arange(len(self._lengths)), self._lengths)
        steps = _product(decisions, stop[self._tags]).sum((1, 2, 3))
        total = torch.zeros_like(log_z).index_add(0, owner, _product(arcs, scores)).index_add(0, word, steps)
        entropy = torch.where(log_z > -torch.inf, log_z - total, 0.0)
        return entropy.clamp(min=0.0).to(self._parts.root.dtype)

    def _decode(self, parts: DependencyParts, uniforms: Tensor | None = None) -> Tensor:
        from ..kernels.dependency import dependency_decode

        given = None if uniforms is None else uniforms.numpy()
        return dependency_decode(parts.kernel_weights(), self._tags.numpy(), self._lengths.numpy(), given)


def _product(probability: Tensor, log_weight: Tensor) -> Tensor:
    """0 times -inf is 0: what is impossible does not happen."""
    return torch.where(probability > 0, probability * log_weight, 0.0)
