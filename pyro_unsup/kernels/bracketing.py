"""Binary trees on CPU: log Z and span posteriors in one pass over a flat ragged corpus, and counts from those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from .bracketing_log import all_ratios, decode_pass, log_pass
from .bracketing_scaled import count_pass, scaled_pass, within
from .limits import LIMIT
from .threads import even_cuts, map_threads, threads_for

Array = np.ndarray[Any, Any]
_Result = TypeVar("_Result")


@dataclass
class BracketingTables:
    """Log-weights, or counts laid out in the same way.

    :param yields: (2, Y), row 0 as distituent and row 1 as constituent.
    :param contexts: (2, X).
    :param node: (W + 1,) by width, of each constituent of two words or more.
    :param tree: (W + 1,) by length, of each sentence.
    :param power: that all weights are raised to.
    """

    yields: Tensor
    contexts: Tensor
    node: Tensor
    tree: Tensor
    power: float = 1.0

    def arrays(self) -> list[Array]:
        """As the passes want them: float64, the two weights of a type side by side, and raised to the power."""
        tables = [np.stack([*x.double().numpy()], 1) for x in (self.yields, self.contexts)]
        tables += [x.double().contiguous().numpy() for x in (self.node, self.tree)]
        if self.power != 1:
            tables = [np.multiply(x, self.power, out=x if i < 2 else None) for i, x in enumerate(tables)]
        return tables


def spans_within(spans: Tensor, yields: int, contexts: int) -> bool:  # (spans, 2)
    """Whether every span has a yield and a context below these numbers."""
    return bool(within(spans.cpu().contiguous().numpy(), yields, contexts))


def bracketing_pass(
    weights: BracketingTables,
    spans: Array,  # (spans, 2) int
    lengths: Array,  # (B,) int64
    want_marginals: bool = True,
) -> tuple[Tensor, Tensor]:
    """log Z of each sentence, (B,), and the posterior of each span, (spans,): 0 where a sentence has no tree at all."""
    tables, offsets = weights.arrays(), _offsets(lengths)
    log_z, trouble = np.zeros(len(lengths)), np.zeros(len(lengths), bool)
    marginals = np.empty(len(spans) if want_marginals else 0)
    limit = LIMIT[np.dtype(np.float64)]
    _in_shards(
        lambda a, b: scaled_pass(*tables, spans, lengths, offsets, a, b, limit, log_z, trouble, marginals), lengths
    )
    again = np.flatnonzero(trouble)
    if len(again):
        log_pass(*tables, spans, lengths, offsets, again, log_z, marginals)
    return torch.from_numpy(log_z), torch.from_numpy(marginals)


def bracketing_counts(
    like: BracketingTables,
    spans: Array,  # (spans, 2) int
    lengths: Array,  # (B,) int64
    marginals: Array,  # (spans,) float64
    scale: Array,  # (B,) float64
) -> BracketingTables:
    """How often each weight is expected to be used, each sentence weighed by its scale; 0 leaves a sentence out."""
    offsets = _offsets(lengths)

    def work(first: int, last: int) -> list[Array]:
        counts = [np.zeros(x.shape[::-1]) for x in (like.yields, like.contexts, like.node, like.tree)]
        count_pass(spans, lengths, offsets, first, last, scale, marginals, *counts)
        return counts

    counts, *others = _in_shards(work, lengths)
    for more in others:  # always in the same order
        for into, one in zip(counts, more, strict=True):
            into += one
    yields, contexts, node, tree = (torch.from_numpy(np.ascontiguousarray(x.T)).to(like.yields.dtype) for x in counts)
    return BracketingTables(yields, contexts, node, tree)


def bracketing_ratios(weights: BracketingTables, spans: Array, lengths: Array) -> Array:  # (spans,)
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


def _in_shards(work: Callable[[int, int], _Result], lengths: Array) -> list[_Result]:
    """Run a pass over ranges of the sentences, one thread each."""
    # A sentence takes about as long as its spans and their splits are many.
    cost = lengths * (lengths + 1) * (lengths + 20) if len(lengths) else np.zeros(1, np.int64)
    cuts = np.minimum(even_cuts(cost, min(threads_for(int(lengths.sum())), len(cost))), len(lengths))
    return map_threads(lambda shard: work(cuts[shard], cuts[shard + 1]), range(len(cuts) - 1))
