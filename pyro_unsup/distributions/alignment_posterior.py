"""What is known about the alignment of two sentences, given their words."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from .alignment_grid import Grid
from .alignment_sum import AlignmentParts, Posteriors, expected_counts, posteriors, sweep
from .structured import Posterior


class AlignmentPosterior(Posterior):
    """Posterior over alignments of one direction. An alignment is a vector over the cells of all grids: 1 where a word
    chooses the other (or the null word), 0 elsewhere; -1 throughout a pair that has no alignment at all.
    """

    def __init__(
        self,
        weights: dict[str, Tensor],
        parts: AlignmentParts,
        value: Tensor,  # (cells,)
        grid: Grid,
        turned: bool,
    ) -> None:
        self._weights, self._parts = weights, parts
        self._value, self._grid, self._turned = value, grid, turned

    @cached_property
    def log_partition(self) -> Tensor:  # type: ignore[override]  # (B,)
        return sweep(self._parts, self._value, self._grid, self._turned)[2].to(self._parts.translation.dtype)

    @cached_property
    def counts(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Expected uses of every weight, over the whole batch, shaped as the weights that were given."""
        real, found, log_z = sweep(self._parts, self._value, self._grid, self._turned)
        scale = (log_z > -torch.inf).double()
        wanted = ("null" in self._weights, "word" in self._weights)
        result = expected_counts(self._parts, self._value, self._grid, self._turned, (real, found), scale, wanted)
        named = dict(zip(("translation", "null", "word"), result, strict=True))
        return {name: x.reshape(w.shape) for name, w in self._weights.items() if (x := named[name]) is not None}

    @cached_property
    def marginals(self) -> Tensor:  # type: ignore[override]  # (cells,)
        """Posterior probability of each choice; 0 for cells that this direction has no use for."""
        return self._each.spread().to(self._parts.translation.dtype)

    def mode(self) -> Tensor:  # (cells,)
        """Every word takes its most probable choice: of equals the null word, then the first word."""
        return self._structure(self._best(self._each.p))

    def mbr(self) -> Tensor:  # (cells,)
        """The same as :meth:`mode`, since every word chooses alone."""
        return self.mode()

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (cells,)
        # The largest of independent Gumbel variables around log-weights is a draw in proportion to the weights.
        uniforms = torch.rand(len(self._each.p), dtype=torch.float64, generator=generator)
        return self._structure(self._best(self._each.p.log() - (-uniforms.log()).log()))

    @cached_property
    def entropy(self) -> Tensor:  # (B,)
        p = self._each.p
        each = torch.where(p > 0, -p * p.log(), 0.0)
        total = torch.zeros(len(self._grid), dtype=torch.float64).index_add(0, self._each.choices.pair, each)
        return total.to(self._parts.translation.dtype)

    @cached_property
    def _each(self) -> Posteriors:
        return posteriors(self._parts, self._value, self._grid, self._turned)

    def _best(self, scores: Tensor) -> Tensor:  # (n,) -> (n,) bool
        """The first of the highest choices of every word."""
        chooser = self._each.choices.chooser
        words = len(self._each.choices.owner)
        top = scores.new_full((words,), -torch.inf).scatter_reduce(0, chooser, scores, "amax")
        best = (scores == top[chooser]).nonzero()[:, 0]
        first = torch.full((words,), len(scores)).scatter_reduce(0, chooser[best], best, "amin")
        return torch.zeros(len(scores), dtype=torch.bool).index_fill(0, first, True)

    def _structure(self, chosen: Tensor) -> Tensor:  # (n,) bool -> (cells,)
        found = torch.zeros(len(self._value), dtype=torch.int8)
        found[self._each.choices.cell[chosen]] = 1
        impossible = self.log_partition == -torch.inf
        if bool(impossible.any()):
            row, _ = self._grid.parts()
            found = found.masked_fill(impossible[self._grid.pair[row]], -1)
        return found
