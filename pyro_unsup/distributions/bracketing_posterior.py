"""What is known about the tree of a sentence, given its spans."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from .bracketing_sum import BracketingParts, SpanScores, expected_counts, spans_of
from .structured import Posterior


class BracketingPosterior(Posterior):
    """Posterior over binary trees. A tree is a vector over all spans of all sentences, in the order of
    :func:`.spans_of`: 1 for a constituent, 0 for a distituent, -1 throughout where a sentence has no tree at all.
    """

    def __init__(
        self,
        weights: dict[str, Tensor],
        parts: BracketingParts,
        spans: Tensor,  # (spans, 2)
        lengths: Tensor,  # (B,)
    ) -> None:
        self._weights, self._parts = weights, parts
        self._spans, self._lengths = spans.contiguous(), lengths.contiguous()

    @cached_property
    def _sums(self) -> tuple[Tensor, Tensor]:  # (B,), (spans,) in float64
        from ..kernels.bracketing import bracketing_pass

        return bracketing_pass(self._parts.kernel_weights(), self._spans.numpy(), self._lengths.numpy())

    @cached_property
    def log_partition(self) -> Tensor:  # type: ignore[override]  # (B,)
        return self._sums[0].to(self._parts.yields.dtype)

    @cached_property
    def counts(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Expected uses of every weight, over the whole batch, shaped as the weights that were given."""
        log_z, marginals = self._sums
        scale = (log_z > -torch.inf).double()
        found = expected_counts(self._parts, self._spans, self._lengths, marginals, scale)
        return {name: getattr(found, name).reshape(w.shape) for name, w in self._weights.items()}

    @cached_property
    def marginals(self) -> Tensor:  # type: ignore[override]  # (spans,)
        """Posterior probability that each span is a constituent; 0 where a sentence has no tree."""
        return self._sums[1].to(self._parts.yields.dtype)

    def mode(self) -> Tensor:  # (spans,)
        """The best tree; of equals, the one that splits further left, from the top."""
        return self._decode(self._ratios, None)

    def mbr(self) -> Tensor:  # (spans,)
        """The tree with the highest expected number of right constituents."""
        return self._decode(self._sums[1].numpy(), None)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (spans,)
        uniforms = torch.rand(int(self._lengths.sum()), dtype=torch.float64, generator=generator)
        return self._decode(self._ratios, uniforms.numpy())

    @cached_property
    def entropy(self) -> Tensor:  # (B,)
        """H = log Z - E[log weight], and the weight is a product over spans."""
        yields, contexts, node, tree = (x.double() for x in self._parts.tables())
        parts = BracketingParts(yields, contexts, node, tree, self._parts.power)
        scores = SpanScores.of(parts, self._spans, self._lengths)
        log_z, yes = self._sums
        expected = _product(yes, scores.inside) + _product(1 - yes, scores.outside)
        owner = spans_of(self._lengths)[0]
        total = torch.where(self._lengths > 0, scores.tree, 0.0).index_add(0, owner, expected)
        entropy = torch.where(log_z > -torch.inf, log_z - total, 0.0)
        return entropy.clamp(min=0.0).to(self._parts.yields.dtype)

    @cached_property
    def _ratios(self) -> np.ndarray:
        from ..kernels.bracketing import bracketing_ratios

        return bracketing_ratios(self._parts.kernel_weights(), self._spans.numpy(), self._lengths.numpy())

    def _decode(self, score: np.ndarray, uniforms: np.ndarray | None) -> Tensor:
        from ..kernels.bracketing import bracketing_decode

        found = bracketing_decode(score, self._lengths.numpy(), uniforms)
        impossible = self._sums[0] == -torch.inf
        return found.masked_fill(impossible[spans_of(self._lengths)[0]], -1) if bool(impossible.any()) else found


def _product(probability: Tensor, log_weight: Tensor) -> Tensor:
    """0 times -inf is 0: what is impossible does not happen."""
    return torch.where(probability > 0, probability * log_weight, 0.0)
