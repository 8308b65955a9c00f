"""The parts of sequences: the states of words, and segments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Size, Tensor

from ..ragged import offsets_of, pad
from ..segments import row_index
from .base import InSentences


@dataclass(frozen=True, eq=False)
class States(InSentences):
    """Of chains: (tokens, K) if words lie flat, (*batch, T, K) if they are padded (-1 then)."""

    AXES = {"state": "tag", "word": "word"}  # noqa: RUF012

    words: Tensor  # (tokens,)
    lengths: Tensor  # (B,)
    states: int
    padded: Size | None = None

    @property
    def shape(self) -> Size:
        return Size([*((len(self.words),) if self.padded is None else self.padded), self.states])

    @cached_property
    def state(self) -> Tensor:  # (K,)
        return torch.arange(self.states)

    @cached_property
    def sentence(self) -> Tensor:  # (tokens, 1)
        return self._shaped(row_index(self.lengths))

    @cached_property
    def position(self) -> Tensor:  # (tokens, 1)
        """Place in the sentence, from 0."""
        return self._shaped(torch.arange(len(self.words)) - offsets_of(self.lengths)[row_index(self.lengths)])

    @cached_property
    def length(self) -> Tensor:  # (tokens, 1)
        """Words in the sentence."""
        return self._shaped(self.lengths[row_index(self.lengths)])

    @cached_property
    def word(self) -> Tensor:  # (tokens, 1)
        return self._shaped(self.words.long())

    def _shaped(self, flat: Tensor) -> Tensor:
        return _in_form(flat, self.lengths, self.padded).unsqueeze(-1)


@dataclass(frozen=True, eq=False)
class Pieces(InSentences):
    """Of segmentations: (symbols, L), by the last symbol of a segment and its width."""

    AXES = {"segment": "segment"}  # noqa: RUF012

    segment: Tensor  # (symbols, L) which type it is; -1 if it cannot be one
    lengths: Tensor  # (B,)

    @property
    def shape(self) -> Size:
        return self.segment.shape

    @cached_property
    def sentence(self) -> Tensor:  # (symbols, 1)
        return row_index(self.lengths).unsqueeze(-1)

    @cached_property
    def width(self) -> Tensor:  # (L,)
        return torch.arange(1, self.segment.shape[1] + 1)

    @cached_property
    def end(self) -> Tensor:  # (symbols, 1)
        """The symbol after the last one of the segment, from 0."""
        rows = self.sentence[:, 0]
        return (torch.arange(len(rows)) - offsets_of(self.lengths)[rows] + 1).unsqueeze(-1)

    @cached_property
    def start(self) -> Tensor:  # (symbols, L)
        """The first symbol; negative where there is no such segment."""
        return self.end - self.width


@dataclass(frozen=True, eq=False)
class Stretches(InSentences):
    """Of semi-Markov chains: (tokens, D, K), by the last word of a stretch, its duration and its state.

    If words are padded, (*batch, T, D, K), and -1 where there are none.
    """

    AXES = {"state": "state", "last_word": "word"}  # noqa: RUF012

    words: Tensor  # (tokens,)
    lengths: Tensor  # (B,)
    longest: int
    states: int
    padded: Size | None = None

    @property
    def shape(self) -> Size:
        return Size([*((len(self.words),) if self.padded is None else self.padded), self.longest, self.states])

    @cached_property
    def sentence(self) -> Tensor:  # (tokens, 1, 1)
        return self._shaped(row_index(self.lengths))

    @cached_property
    def end(self) -> Tensor:  # (tokens, 1, 1)
        """The word after the last one of the stretch, from 0."""
        rows = row_index(self.lengths)
        return self._shaped(torch.arange(len(rows)) - offsets_of(self.lengths)[rows] + 1)

    @cached_property
    def duration(self) -> Tensor:  # (D, 1)
        return torch.arange(1, self.longest + 1).unsqueeze(-1)

    @cached_property
    def start(self) -> Tensor:  # (tokens, D, 1)
        """The first word; negative where there is no such stretch."""
        return self.end - self.duration

    @cached_property
    def state(self) -> Tensor:  # (K,)
        return torch.arange(self.states)

    @cached_property
    def last_word(self) -> Tensor:  # (tokens, 1, 1)
        return self._shaped(self.words)

    def _shaped(self, flat: Tensor) -> Tensor:
        return _in_form(flat, self.lengths, self.padded)[..., None, None]


def _in_form(flat: Tensor, lengths: Tensor, padded: Size | None) -> Tensor:
    """One number a word: (tokens,), or (*batch, T) if words are padded, and -1 where there are none."""
    return flat if padded is None else pad(flat, lengths, -1, padded[-1]).reshape(padded)
