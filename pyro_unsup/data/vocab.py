"""A vocabulary: strings numbered from 0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pyro_unsup.data.arrays import IntArray
from pyro_unsup.errors import InputError


@dataclass(frozen=True, init=False, repr=False)
class Vocab:
    """An ordered set of strings, numbered from 0. It never changes.

    :param types: the strings, all different; the first gets id 0.
    :param unknown: the member that stands for every string not in the set; without one such a string is an error.

    >>> from pyro_unsup.data import Vocab
    >>> vocab = Vocab(["the", "dog", "<unk>"], unknown="<unk>")
    >>> vocab.encode(["the", "cat"]).tolist(), vocab.decode([1, 2])
    ([0, 2], ['dog', '<unk>'])
    """

    types: tuple[str, ...]
    unknown: str | None

    def __init__(self, types: Iterable[str], unknown: str | None = None) -> None:
        object.__setattr__(self, "types", tuple(types))
        object.__setattr__(self, "unknown", unknown)
        if isinstance(types, str) or not all(isinstance(one, str) for one in self.types):
            raise InputError("a vocabulary is a list of strings, found something else; turn its members into str first")
        if len(self.index) != len(self.types):
            twice = next(one for position, one in enumerate(self.types) if self.index[one] != position)
            raise InputError(f"{twice!r} is twice in the vocabulary, expected distinct strings; drop one of them")
        if unknown is not None and unknown not in self.index:
            raise InputError(f"the unknown symbol {unknown!r} is not in the vocabulary; add it to the types")

    @cached_property
    def index(self) -> dict[str, int]:
        """From string to id. Do not write to it."""
        return {one: position for position, one in enumerate(self.types)}

    def __len__(self) -> int:
        return len(self.types)

    def __iter__(self) -> Iterator[str]:
        return iter(self.types)

    def __contains__(self, one: object) -> bool:
        return one in self.index

    def __getitem__(self, position: int) -> str:
        return self.types[position]

    def __repr__(self) -> str:
        return f"Vocab({len(self):,} types" + ("" if self.unknown is None else f", unknown={self.unknown!r}") + ")"

    def id(self, one: str) -> int:
        """The id of one string, by the unknown symbol where it is not a member.

        >>> from pyro_unsup.data import Vocab
        >>> vocab = Vocab(["the", "dog"])
        >>> vocab.id("dog"), vocab.index
        (1, {'the': 0, 'dog': 1})
        """
        found = self.index.get(one, None if self.unknown is None else self.index[self.unknown])
        if found is None:
            raise InputError(f"{one!r} is not among the {len(self):,} known types, which have no unknown symbol")
        return found

    def encode(self, strings: Iterable[str]) -> IntArray:
        """Ids of strings, shape ``(len(strings),)``."""
        return np.array([self.id(one) for one in strings], dtype=np.int32)

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Strings of ids."""
        return [self.types[one] for one in ids]


def coarsen(tagset: Vocab, mapping: Mapping[str, str]) -> tuple[Vocab, IntArray]:
    """Every value of ``mapping`` in order as a new tagset, and the new id of each old tag, shape ``(len(tagset),)``.

    >>> from pyro_unsup.data import Vocab
    >>> from pyro_unsup.data.vocab import coarsen
    >>> coarse, ids = coarsen(Vocab(["NNS", "VB", "NN"]), {"NN": "N", "NNS": "N", "VB": "V"})
    >>> coarse.types, ids.tolist()
    (('N', 'V'), [0, 1, 0])
    """
    missing = [tag for tag in tagset if tag not in mapping]
    if missing:
        raise InputError(f"the tag map has no entry for {', '.join(map(repr, missing[:5]))}; add one for each tag")
    coarse = Vocab(dict.fromkeys(mapping.values()))
    return coarse, coarse.encode(mapping[tag] for tag in tagset)


def compact(ids: IntArray, vocab: Vocab) -> tuple[IntArray, Vocab]:
    """The ids by a vocabulary of those that occur alone (the unknown symbol stays), and that vocabulary.

    >>> import numpy as np
    >>> from pyro_unsup.data import Vocab
    >>> from pyro_unsup.data.vocab import compact
    >>> ids, vocab = compact(np.array([2, 0, 2]), Vocab(["a", "b", "c"]))
    >>> ids.tolist(), vocab.types
    ([1, 0, 1], ('a', 'c'))
    """
    used = np.bincount(ids, minlength=len(vocab)) > 0
    if vocab.unknown is not None:
        used[vocab.index[vocab.unknown]] = True
    fewer = Vocab((one for one, kept in zip(vocab, used, strict=True) if kept), vocab.unknown)
    return (np.cumsum(used, dtype=np.int32) - 1)[ids], fewer
