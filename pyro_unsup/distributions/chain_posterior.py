"""What is known about the states of a chain, given its words."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Size, Tensor

from .chain_sum import ChainParts, log_partition, path_sum
from .ragged import offsets_of, pad
from .structured import Posterior

if TYPE_CHECKING:
    import numpy as np

#: Sequences whose entropy is found at a time.
ENTROPY_BATCH = 256


class ChainPosterior(Posterior):
    """Posterior over state sequences. Values come flat, or padded (-1, or 0 for marginals) if the words were padded."""

    def __init__(
        self,
        weights: dict[str, Tensor],
        parts: ChainParts,
        words: Tensor,  # (tokens,)
        lengths: Tensor,  # (B,)
        shape: Size | None,  # of the padded words; None if they were flat
    ) -> None:
        self._weights, self._parts, self._words, self._lengths, self._shape = weights, parts, words, lengths, shape

    @cached_property
    def log_partition(self) -> Tensor:  # type: ignore[override]  # (*batch,)
        total = log_partition(self._parts, self._words, self._lengths)
        return total if self._shape is None else total.reshape(self._shape[:-1])

    @cached_property
    def counts(self) -> dict[str, Tensor]:  # type: ignore[override]
        """Expected uses of every weight, over the whole batch, shaped as the weights given to the chain."""
        w = {name: x.clone().requires_grad_() for name, x in self._weights.items()}
        parts = ChainParts.of(w["start"], w["transition"], w.get("second"), w["emission"]).squeezed()
        with torch.enable_grad():
            total = log_partition(parts, self._words, self._lengths).sum()
        found = torch.autograd.grad(total, list(w.values()))
        return dict(zip(w, found, strict=True))

    @cached_property
    def marginals(self) -> Tensor:  # type: ignore[override]  # (tokens, K) or (*batch, T, K)
        """Posterior probability of each state at each position."""
        p = self._parts
        # With a "word" of its own for every token, the emission counts are the state posteriors.
        emission = p.emission[:, self._words.long()].requires_grad_()  # (K, tokens)
        own = torch.arange(len(self._words))
        with torch.enable_grad():
            total = log_partition(ChainParts(p.start, p.trans, p.stop, emission), own, self._lengths).sum()
        return self._shaped(torch.autograd.grad(total, emission)[0].T.contiguous(), 0)

    def mode(self) -> Tensor:  # (tokens,) or (*batch, T)
        """Viterbi states; ties go to the lowest state, from the end. -1 where a sequence has no path at all."""
        return self._shaped(self._decode(None), -1)

    def mbr(self) -> Tensor:  # (tokens,) or (*batch, T)
        """The most probable state of each position on its own; -1 where a sequence has no path at all."""
        return self.marginals.argmax(-1).masked_fill(self.marginals.sum(-1) == 0, -1)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:  # (tokens,) or (*batch, T)
        uniforms = torch.rand(len(self._words), dtype=torch.float64, generator=generator)
        return self._shaped(self._decode(uniforms.numpy()), -1)

    @cached_property
    def entropy(self) -> Tensor:  # (*batch,)
        """H = log Z - E[log weight]; the expectation is d/db at b = 1 of log Z with every log-weight times b."""
        p = self._parts
        if len(self._words) == 0:
            return torch.zeros_like(self.log_partition)
        words, pieces = self._words.split(self._lengths.tolist()), []
        for i in range(0, len(words), ENTROPY_BATCH):
            lengths = self._lengths[i : i + ENTROPY_BATCH]
            padded = pad(torch.cat(words[i : i + ENTROPY_BATCH]), lengths)
            b = torch.ones(len(lengths), dtype=p.start.dtype, requires_grad=True)
            with torch.enable_grad():
                tables = (
                    _times(p.start, b),
                    _times(p.trans, b),
                    _times(p.stop, b),
                    _times(p.emission.T[padded.long()], b, batched=True),
                )
                total = path_sum(*tables, lengths)
            slope = torch.autograd.grad(total.sum(), b, materialize_grads=True)[0]
            pieces.append((total - slope).detach())
        entropy = torch.cat(pieces) if pieces else self._lengths.new_zeros(0).to(p.start.dtype)
        return entropy if self._shape is None else entropy.reshape(self._shape[:-1])

    def _decode(self, uniforms: np.ndarray | None) -> Tensor:
        from ..kernels.chain import chain_decode

        words, offsets = self._words.contiguous().numpy(), offsets_of(self._lengths).numpy()
        return chain_decode(self._parts.kernel_weights(), words, offsets, uniforms)[0]

    def _shaped(self, flat: Tensor, fill: int) -> Tensor:
        if self._shape is None:
            return flat
        return pad(flat, self._lengths, fill, self._shape[-1]).reshape(*self._shape, *flat.shape[1:])


def _times(table: Tensor, b: Tensor, batched: bool = False) -> Tensor:  # (*rest), (B,) -> (B, *rest)
    """Log-weights times b, -inf staying -inf without a NaN gradient."""
    dead = table == -torch.inf
    table = table.masked_fill(dead, 0.0)
    table = table if batched else table.unsqueeze(0)
    return (table * b.reshape(-1, *[1] * (table.dim() - 1))).masked_fill(dead, -torch.inf)
