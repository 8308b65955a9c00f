"""A vector for every label of an axis; those of words share vectors of endings and shapes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...tables import Axis
from ..templates.tagging import has_digit, has_hyphen, is_capital, suffixes, word_shape

#: What is looked at in a word besides its endings.
LOOKS: dict[str, Callable[[str], bool | str]] = {
    "digit": has_digit,
    "hyphen": has_hyphen,
    "capital": is_capital,
    "shape": word_shape,
}


class LabelVectors(nn.Module):
    """(labels, size) vectors. Labels that are the same have the same vector (rows of a ragged table may repeat them).

    >>> from pyro_unsup.estimate.neural.label_vectors import LabelVectors
    >>> from pyro_unsup.tables import Axis
    >>> LabelVectors(Axis("word", ["dog", "dogs"]), size=4, spelled=["word"], longest=1).spelling
    [('digit', False), ('hyphen', False), ('capital', False), ('shape', 'x'), ('ending', 'g'), ('ending', 's')]
    """

    index: Tensor | None  # (labels,)
    pieces: Tensor  # (spellings of all words,)
    offsets: Tensor  # (words,)

    def __init__(self, axis: Axis, size: int, spelled: Collection[str], longest: int) -> None:
        super().__init__()
        places: dict[Any, int] = {}
        index = torch.tensor([places.setdefault(label, len(places)) for label in axis.labels])
        repeats = len(places) < len(index)
        self.register_buffer("index", index if repeats else None, persistent=False)
        self.own = nn.Parameter(torch.randn(len(places), size))
        self.spelling: list[tuple[str, Any]] = []
        words = list(places)
        # Numbers stand for words where a model was made without a vocabulary, and symbols may be tuples.
        if axis.name in spelled and all(isinstance(word, str) for word in words):
            found = [spell(word, longest) for word in words]
            numbers = {key: i for i, key in enumerate(dict.fromkeys(key for one in found for key in one))}
            self.spelling = list(numbers)
            sizes = torch.tensor([0, *(len(one) for one in found)])
            self.register_buffer("pieces", torch.tensor([numbers[k] for one in found for k in one]), persistent=False)
            self.register_buffer("offsets", sizes.cumsum(0)[:-1], persistent=False)
            self.pieces_of = nn.Parameter(torch.randn(len(numbers), size))

    def forward(self) -> Tensor:  # (labels, size)
        found: Tensor = self.own
        if self.spelling:
            found = found + functional.embedding_bag(self.pieces, self.pieces_of, self.offsets, mode="sum")
        return found if self.index is None else found[self.index]


def spell(word: str, longest: int) -> Sequence[tuple[str, Any]]:
    """What there is to see of a word.

    >>> from pyro_unsup.estimate.neural.label_vectors import spell
    >>> spell("X-1", longest=2)
    [('digit', True), ('hyphen', True), ('capital', True), ('shape', 'X-9'), ('ending', '1'), ('ending', '-1')]
    """
    return [*((name, look(word)) for name, look in LOOKS.items()), *(("ending", x) for x in suffixes(word, longest))]
