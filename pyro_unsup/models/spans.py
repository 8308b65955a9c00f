"""Sentences as a model of their spans sees them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ..distributions.cells import span_lengths
from ..distributions.ragged import offsets_of
from .base import runs


@dataclass(frozen=True, eq=False)
class Spans:
    """Every span of every sentence by its columns in the tables of a model.

    :param cells: (spans, 2) columns of yield and context, in the order of :func:`.spans_of`.
    :param lengths: (B,) words in each sentence.
    :param before: (words,) the context of the empty span before each word; None in a model without empty spans.
    :param after: (B,) that of the empty span at the end of each sentence.
    """

    cells: Tensor
    lengths: Tensor
    before: Tensor | None = None
    after: Tensor | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def select(self, indices: Any) -> Spans:
        """The same of some sentences: integers in any order, or one truth value a sentence."""
        which = torch.as_tensor(indices)
        which = which if which.numel() else which.long()
        lengths = self.lengths[which]
        cells = self.cells[runs(self._spans[:-1][which], span_lengths(lengths))]
        if self.before is None or self.after is None:
            return Spans(cells, lengths)
        return Spans(cells, lengths, self.before[runs(self._words[:-1][which], lengths)], self.after[which])

    @cached_property
    def gaps(self) -> Tensor:  # (gaps,)
        """The contexts of all empty spans: those before words, then those at the end of sentences that have words."""
        if self.before is None or self.after is None:
            return self.lengths[:0]
        return torch.cat([self.before, self.after[self.lengths > 0]])

    @cached_property
    def _spans(self) -> Tensor:  # (B + 1,)
        return offsets_of(span_lengths(self.lengths))

    @cached_property
    def _words(self) -> Tensor:  # (B + 1,)
        return offsets_of(self.lengths)


def with_gaps(
    yields: Tensor,  # (*batch, 2, Y)
    contexts: Tensor,  # (*batch, 2, X)
    y: Tensor,  # (spans,) columns of yields, or (spans + gaps,)
    x: Tensor,  # (spans + gaps,) columns of contexts
    spans: Spans,
) -> tuple[Tensor, Tensor]:  # (*batch, 2, Y + words), (spans,)
    """Weigh empty spans too: yields with a column more for each word, and the yields of spans by those columns.

    No tree has empty spans. So the weight of the one before a word can go with the word, which every tree has; and that
    of the one at the end of a sentence with the last word.
    """
    count, words = len(spans.cells), int(spans._words[-1])
    gaps = contexts[..., 0, x[count:]]
    if len(y) > count:
        gaps = gaps + yields[..., 0, y[count:]]
    single = runs(spans._spans[:-1], spans.lengths)
    last = spans._words[1:][spans.lengths > 0] - 1
    weight = (yields[..., 1, y[single]] + gaps[..., :words]).index_add(-1, last, gaps[..., words:])
    columns = torch.stack([torch.zeros_like(weight), weight], -2)  # as a distituent it is never met
    wider = torch.cat([yields.expand(*columns.shape[:-1], -1), columns], -1)
    return wider, y[:count].index_copy(0, single, yields.shape[-1] + torch.arange(words))
