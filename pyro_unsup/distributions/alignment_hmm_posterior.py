"""What is known about the alignment of two sentences, given their words, if links jump."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .alignment_grid import Grid
from .alignment_hmm_sum import HMMParts, Padded, expected, place_sum, swept, trellises
from .structured import Posterior

if TYPE_CHECKING:
    from ..kernels.alignment_hmm import Swept

#: Pairs whose entropy is found at a time.
ENTROPY_BATCH = 64


class AlignmentHMMPosterior(Posterior):
    """Posterior over alignments of one direction. An alignment is a vector over the cells of all grids: 1 where a word
    chooses the other (or the null word), 0 elsewhere; -1 throughout a pair that has no alignment at all.
    """

    def __init__(
        self,
        weights: dict[str, Tensor],
        parts: HMMParts,
        value: Tensor,  # (cells,)
        grid: Grid,
        turned: bool,
    ) -> None:
        self._weights, self._parts = weights, HMMParts(*(x.detach() for x in parts.tables()))
        self._value, self._grid, self._turned = value, grid, turned

    @cached_property
    def log_partition(self) -> Tensor:  # type: ignore[override]  # (B,)
        return torch.from_numpy(self._found.log_z).to(self._parts.translation.dtype)

    @cached_property
    def counts(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Expected uses of every weight, over the whole batch, shaped as the weights that were given."""
        tables = list(self._parts.tables())
        possible = (self.log_partition > -torch.inf).double()
        result = expected(self._found, tables, self._value, self._grid, self._turned, possible)
        named = dict(zip(("translation", "null", "word", "jump", "room", "share"), result, strict=True))
        return {name: named[name].reshape(w.shape) for name, w in self._weights.items()}

    @cached_property
    def marginals(self) -> Tensor:  # type: ignore[override]  # (cells,)
        """Posterior probability of each choice; 0 for cells that this direction has no use for."""
        return torch.from_numpy(self._found.posterior)

    def mode(self) -> Tensor:  # (cells,)
        """The best alignment as a whole; of equals, words without a link, then jumps from the first place."""
        return self._decode(None)

    def mbr(self) -> Tensor:  # (cells,)
        """Every word takes its most probable choice: of equals the null word, then the first word."""
        padded = Padded.of(self._grid, self._turned)
        B, T, S = padded.shape
        each = torch.full((B * T * S,), -1.0, dtype=self.marginals.dtype)
        each[padded.at] = self.marginals[padded.cell]
        best = each.reshape(B * T, S).argmax(-1, keepdim=True) if T else torch.zeros(0, 1, dtype=torch.long)
        chosen = torch.zeros(B * T, S, dtype=torch.int8).scatter(1, best, 1).reshape(-1)
        found = torch.zeros(len(self._value), dtype=torch.int8).index_copy(0, padded.cell, chosen[padded.at])
        impossible = self.log_partition == -torch.inf
        if bool(impossible.any()):
            row, _ = self._grid.parts()
            found = found.masked_fill(impossible[self._grid.pair[row]], -1)
        return found

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (cells,)
        words = int((self._grid.source_lengths if self._turned else self._grid.target_lengths).sum())
        return self._decode(torch.rand(len(self._grid) + words, dtype=torch.float64, generator=generator))

    @cached_property
    def entropy(self) -> Tensor:  # (B,)
        """H = log Z - E[log weight]; the expectation is d/db at b = 1 of log Z with every log-weight times b."""
        pieces = [self._entropy(pairs) for pairs in torch.arange(len(self._grid)).split(ENTROPY_BATCH)]
        return torch.cat(pieces) if pieces else self.log_partition

    def _entropy(self, pairs: Tensor) -> Tensor:  # (n,) -> (n,)
        grid, cells = self._grid.select(pairs)
        parts, padded = self._parts.of_pairs(pairs), Padded.of(grid, self._turned)
        b = torch.ones(len(pairs), dtype=parts.translation.dtype, requires_grad=True)
        with torch.enable_grad():
            tables = (*padded.weights(parts, self._value[cells]), *padded.jumps(parts))
            link, null, jump, end = (_times(x, b) for x in tables)
            total = place_sum(link, null, jump, end, padded.lengths)
        slope = torch.autograd.grad(total.sum(), b, materialize_grads=True, allow_unused=True)[0]
        return (total - slope).detach()

    def _decode(self, uniforms: Tensor | None) -> Tensor:
        from ..kernels.alignment_hmm import decode

        given = None if uniforms is None else uniforms.numpy()
        where = trellises(self._grid)
        return torch.from_numpy(decode(self._parts.kernel_weights(), self._value.numpy(), where, self._turned, given))

    @cached_property
    def _found(self) -> Swept:
        return swept(self._parts, self._value, self._grid, self._turned, True)


def _times(logs: Tensor, b: Tensor) -> Tensor:  # (B, *rest), (B,) -> (B, *rest)
    """Log-weights times b, -inf staying -inf without a NaN gradient."""
    dead = logs == -torch.inf
    return (logs.masked_fill(dead, 0.0) * b.reshape(-1, *[1] * (logs.dim() - 1))).masked_fill(dead, -torch.inf)
