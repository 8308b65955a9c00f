"""Binary trees on CPU: log Z, span posteriors and counts in one pass over a flat ragged corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .bracketing_log import all_ratios, decode_pass, log_pass
from .bracketing_scaled import scaled_pass
from .limits import LIMIT
from .threads import even_cuts, map_threads, threads_for

Array = np.ndarray[Any, Any]


@dataclass
class BracketingWeights:
    """Log-weights, or counts laid out as they are.

    :param yields: (2, Y), row 0 as distituent and row 1 as constituent.
    :param contexts: (2, X).
    :param node: (W + 1,) by width, of each constituent of two words or more.
    :param tree: (W + 1,) by length, of each sentence.
    """

    yields: Tensor
    contexts: Tensor
    node: Tensor
    tree: Tensor

    def arrays(self) -> list[Array]:
        """As the passes want them: float64, and the two weights of a type side by side."""
        return [
            self.yields.double().T.contiguous().numpy(),
            self.contexts.double().T.contiguous().numpy(),
            self.node.double().contiguous().numpy(),
            self.tree.double().contiguous().numpy(),
        ]


@dataclass
class BracketingSums:
    """What a pass found.

    :param log_z: (B,).
    :param marginals: (spans,) posterior probability of each span; empty if counts were not wanted.
    :param counts: of all sentences, each weighed by its scale; None if they were not wanted.
    """

    log_z: Tensor
    marginals: Tensor
    counts: BracketingWeights | None


def bracketing_pass(
    weights: BracketingWeights,
    spans: Array,  # (spans, 2) int
    lengths: Array,  # (B,) int64
    scale: Array | None = None,  # (B,) float64
    want_counts: bool = True,
) -> BracketingSums:
    """log Z of each sentence, and what is expected of its spans."""
    tables = weights.arrays()
    offsets = _offsets(lengths)
    B = len(lengths)
    scale = np.ones(B) if scale is None else scale
    log_z, trouble = np.zeros(B), np.zeros(B, bool)
    marginals = np.zeros(len(spans) if want_counts else 0)
    limit = LIMIT[np.dtype(np.float64)]

    # A sentence takes about as long as its spans and their splits are many.
    cost = lengths * (lengths + 1) * (lengths + 20) if B else np.zeros(1, np.int64)
    cuts = even_cuts(cost, min(threads_for(int(lengths.sum())), max(B, 1)))

    def work(shard: int) -> list[Array]:
        counts = [np.zeros(x.shape if want_counts else (0,) * x.ndim) for x in tables]
        if B:
            where = (spans, lengths, offsets, cuts[shard], cuts[shard + 1])
            scaled_pass(*tables, *where, scale, want_counts, limit, log_z, trouble, marginals, *counts)
        return counts

    counts, *others = map_threads(work, range(len(cuts) - 1))
    for more in others:  # always in the same order
        for into, found in zip(counts, more, strict=True):
            into += found
    again = np.flatnonzero(trouble)
    if len(again):
        log_pass(*tables, spans, lengths, offsets, again, scale, want_counts, log_z, marginals, *counts)
    found_counts = _counts(counts, weights.yields.dtype) if want_counts else None
    return BracketingSums(torch.from_numpy(log_z), torch.from_numpy(marginals), found_counts)


def bracketing_ratios(weights: BracketingWeights, spans: Array, lengths: Array) -> Array:  # (spans,)
    """What each constituent multiplies the weight of a tree by, in logs; 0 for spans that every tree has."""
    ratio = np.zeros(len(spans))
    all_ratios(*weights.arrays()[:3], spans, lengths, _offsets(lengths), ratio)
    return ratio


def bracketing_decode(score: Array, lengths: Array, uniforms: Array | None = None) -> Tensor:  # (spans,) -> (spans,)
    """Constituents (1) and distituents (0) of the tree with the highest score, or of one drawn by uniform numbers.

    :param score: (spans,) what each constituent adds.
    :param uniforms: (words,) float64 in [0, 1): draw in proportion to exp(score).
    """
    structure = np.empty(len(score), np.int64)
    given = np.empty(0) if uniforms is None else uniforms
    decode_pass(score, lengths, _offsets(lengths), given, structure)
    return torch.from_numpy(structure)


def _offsets(lengths: Array) -> Array:  # (B,) -> (B + 1,)
    return np.concatenate([[0], np.cumsum(lengths * (lengths + 1) // 2)]).astype(np.int64)


def _counts(counts: list[Array], dtype: torch.dtype) -> BracketingWeights:
    yields, contexts, node, tree = (torch.from_numpy(x).to(dtype) for x in counts)
    return BracketingWeights(yields.T, contexts.T, node, tree)
