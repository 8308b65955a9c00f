"""What is known about the segmentation of a sentence, given the numbers of its possible segments."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from .ragged import offsets_of
from .segmentation_sum import SegmentationParts, kernel_cells, kernel_pass
from .structured import Posterior


class SegmentationPosterior(Posterior):
    """Posterior over segmentations. A segmentation is a vector over all symbols: 1 where a segment ends, 0 inside one,
    -1 throughout where a sentence has no segmentation at all.
    """

    def __init__(
        self,
        weights: dict[str, Tensor],
        parts: SegmentationParts,
        cells: Tensor,  # (symbols, L)
        lengths: Tensor,  # (B,)
    ) -> None:
        self._weights, self._parts = weights, parts
        self._cells, self._lengths = kernel_cells(cells), lengths

    @cached_property
    def _sums(self) -> tuple[Tensor, dict[str, Tensor]]:
        log_z, found = kernel_pass(self._parts, self._cells, self._lengths)
        return log_z, {name: getattr(found, name).reshape(w.shape) for name, w in self._weights.items()}

    @cached_property
    def log_partition(self) -> Tensor:  # type: ignore[override]  # (B,)
        return self._sums[0].to(self._parts.segments.dtype)

    @property
    def counts(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Expected uses of every weight, over the whole batch, shaped as the weights that were given."""
        return self._sums[1]

    @cached_property
    def marginals(self) -> Tensor:  # type: ignore[override]  # (symbols, L)
        """Posterior probability of every segment, by its end and its length; 0 where a sentence has none."""
        return self._marginals.to(self._parts.segments.dtype)

    @cached_property
    def cuts(self) -> Tensor:  # (symbols,)
        """Posterior probability that a segment ends at each symbol."""
        return self.marginals.sum(-1)

    def mode(self) -> Tensor:  # (symbols,)
        """The best segmentation; of equals, the one with the shorter segments, from the end."""
        return self._decode(self._scores, None)

    def mbr(self) -> Tensor:  # (symbols,)
        """The segmentation with the highest expected number of right segments."""
        gain = np.where(self._cells.numpy() >= 0, self._marginals.numpy(), -np.inf)
        found = self._decode(gain, None)
        impossible = self._sums[0] == -torch.inf
        return found.masked_fill(impossible.repeat_interleave(self._lengths), -1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (symbols,)
        uniforms = torch.rand(len(self._cells), dtype=torch.float64, generator=generator)
        return self._decode(self._scores, uniforms.numpy())

    @cached_property
    def entropy(self) -> Tensor:  # (B,)
        """H = log Z - E[log weight], and the weight is a product over segments."""
        log_z, share = self._sums[0], self._marginals
        each = torch.where(share > 0, share * torch.from_numpy(self._scores), 0.0).sum(-1)
        owner = torch.repeat_interleave(torch.arange(len(self._lengths)), self._lengths)
        stop = torch.where(self._lengths > 0, self._parts.stop[1].double(), 0.0)
        entropy = torch.where(log_z > -torch.inf, log_z - stop.index_add(0, owner, each), 0.0)
        return entropy.clamp(min=0.0).to(self._parts.segments.dtype)

    @cached_property
    def _marginals(self) -> Tensor:  # (symbols, L) float64
        # With a type of its own for every segment, the counts of types are the posteriors of segments.
        own = torch.arange(self._cells.numel(), dtype=torch.int32).reshape(self._cells.shape)
        parts = SegmentationParts(*(x.double() for x in self._parts.tables()))
        weights = parts.segments[self._cells.long().clamp(min=0)].masked_fill(self._cells < 0, -torch.inf)
        parts = SegmentationParts(weights.reshape(-1), parts.length, parts.stop)
        found = kernel_pass(parts, own, self._lengths)[1]
        assert found is not None
        return found.segments.reshape(own.shape).clamp(max=1.0)

    @cached_property
    def _scores(self) -> np.ndarray:
        from ..kernels.segmentation import segmentation_scores

        cells, offsets = self._cells.numpy(), offsets_of(self._lengths).numpy()
        return segmentation_scores(self._parts.kernel_weights(), cells, offsets)

    def _decode(self, score: np.ndarray, uniforms: np.ndarray | None) -> Tensor:
        from ..kernels.segmentation import segmentation_decode

        found = segmentation_decode(score, offsets_of(self._lengths).numpy(), uniforms)
        if self._parts.stop[1] == -torch.inf:  # no segmentation may end
            found.fill_(-1)
        return found
