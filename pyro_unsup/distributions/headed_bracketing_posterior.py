"""What is known about the headed binary tree of a sentence, given its tags and spans."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .bracketing_sum import BracketingParts, SpanScores, spans_of
from .dependency_sum import DependencyParts, arcs_of
from .headed_bracketing_sum import HeadedParts, headed_counts, kernel_data, kernel_pass
from .structured import Posterior

if TYPE_CHECKING:
    from ..kernels.headed_bracketing import HeadedSums


class HeadedBracketingPosterior(Posterior):
    """Posterior over projective dependency trees with one root, and the binary trees that go with them.

    A tree is the head of each word: 0 for the root, k for the k-th word of its sentence, -1 throughout where a sentence
    has no tree at all. :func:`.brackets_of` tells its constituents.
    """

    def __init__(
        self,
        weights: dict[str, Tensor],
        parts: HeadedParts,
        tags: Tensor,  # (tokens,)
        spans: Tensor,  # (spans, 2)
        lengths: Tensor,  # (B,)
        order: str,
    ) -> None:
        self._weights, self._parts = weights, parts
        self._tags, self._spans, self._lengths = tags.long(), spans, lengths
        self._data = kernel_data(tags, spans, lengths, order)

    @cached_property
    def _sums(self) -> HeadedSums:
        return kernel_pass(self._parts, self._data)

    @cached_property
    def log_partition(self) -> Tensor:  # type: ignore[override]  # (B,)
        return self._cast(self._sums.log_z)

    @cached_property
    def counts(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Expected uses of every weight, over the whole batch, shaped as the weights that were given."""
        found = headed_counts(self._parts, self._data, self._sums, torch.ones_like(self._sums.log_z))
        tables = {**vars(found.dependency), **vars(found.bracketing)}
        return {name: tables[name].reshape(w.shape) for name, w in self._weights.items()}

    @cached_property
    def marginals(self) -> Tensor:  # type: ignore[override]  # (cells,)
        """Posterior probability of every arc, in the order of :func:`.arcs_of`: sentence by sentence a matrix
        (n, n + 1), a row for each word and in it a column for each head, the root first. Rows sum to one; all are 0
        where a sentence has no tree."""
        return self._cast(self._sums.arcs)

    @cached_property
    def spans(self) -> Tensor:  # (spans,)
        """Posterior probability that each span is a constituent, in the order of :func:`.spans_of`; 0 where a sentence
        has no tree."""
        return self._cast(self._sums.spans)

    def mode(self) -> Tensor:  # (tokens,)
        """The best tree; of equals, the one whose root, and then whose splits from the top, are further left."""
        return self._decode()

    def mbr(self) -> Tensor:  # (tokens,)
        """The tree with the highest expected number of right heads."""
        from ..kernels.dependency import dependency_decode

        even = [torch.zeros_like(x).detach() for x in self._parts.dependency.tables()[:3]]
        arcs = DependencyParts(even[0], even[1], even[2], self._sums.arcs)
        found = dependency_decode(arcs.kernel_weights(), self._data.tags, self._data.lengths)
        impossible = self._sums.log_z == -torch.inf
        return found.masked_fill(impossible.repeat_interleave(self._lengths), -1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (tokens,)
        return self._decode(torch.rand(len(self._tags), 2, dtype=torch.float64, generator=generator))

    @cached_property
    def entropy(self) -> Tensor:  # (B,)
        """H = log Z - E[log weight], and the weight is a product over arcs, decisions and spans."""
        sums, lengths = self._sums, self._lengths
        root, attach, stop, extra, yields, contexts, node, tree = (x.double() for x in self._parts.tables())
        dependency = DependencyParts(root, attach, stop, extra)
        bracketing = replace(self._parts.bracketing, yields=yields, contexts=contexts, node=node, tree=tree)
        total = _arc_part(dependency, sums, self._tags, lengths) + _span_part(bracketing, sums, self._spans, lengths)
        entropy = torch.where(sums.log_z > -torch.inf, sums.log_z - total, 0.0)
        return self._cast(entropy.clamp(min=0.0))

    def _decode(self, uniforms: Tensor | None = None) -> Tensor:
        from ..kernels.headed_bracketing import headed_decode

        tables = self._parts.dependency.kernel_weights(), self._parts.bracketing.kernel_weights()
        return headed_decode(*tables, self._data, None if uniforms is None else uniforms.numpy())

    def _cast(self, x: Tensor) -> Tensor:
        return x.to(self._parts.dependency.root.dtype)


def _arc_part(parts: DependencyParts, sums: HeadedSums, tags: Tensor, lengths: Tensor) -> Tensor:  # (B,)
    """The expected log-weight of arcs and decisions."""
    owner, head, child = arcs_of(lengths)
    scores = parts.arc_scores(tags, lengths, owner, head, child)
    scores = scores if parts.arcs.numel() == 0 else scores + parts.arcs
    word = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    steps = _product(sums.decisions, parts.stop[tags]).sum((1, 2, 3))
    return torch.zeros_like(sums.log_z).index_add(0, owner, _product(sums.arcs, scores)).index_add(0, word, steps)


def _span_part(parts: BracketingParts, sums: HeadedSums, spans: Tensor, lengths: Tensor) -> Tensor:  # (B,)
    """The expected log-weight of spans, as constituents or distituents."""
    scores, yes = SpanScores.of(parts, spans, lengths), sums.spans
    expected = _product(yes, scores.inside) + _product(1 - yes, scores.outside)
    return torch.where(lengths > 0, scores.tree, 0.0).index_add(0, spans_of(lengths)[0], expected)


def _product(probability: Tensor, log_weight: Tensor) -> Tensor:
    """0 times -inf is 0: what is impossible does not happen."""
    return torch.where(probability > 0, probability * log_weight, 0.0)
