"""Documents as bags of words: which words each has and how often, and perhaps what it is about."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TextIO, Unpack

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.arrays import (
    IntArray,
    OffsetArray,
    check_length,
    check_offsets,
    check_range,
    gather,
    integers,
    same,
)
from pyro_unsup.data.files import write_arrays, write_text
from pyro_unsup.data.folders import in_plain_values, opened
from pyro_unsup.data.mapped import mapping_of, release, take
from pyro_unsup.data.options import Options
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError

_VOCABS = ("vocab", "labelset")
_ARRAYS = {"words": "i4", "counts": "i4", "offsets": "i8", "labels": "i4"}


@dataclass(frozen=True, eq=False, repr=False)
class Documents:
    """Bags of words, one after the other. Arrays are shared between collections: never write into them.

    :param words: a word id for each cell, shape ``(cells,)``; a cell is a word of a document.
    :param counts: how often the word occurs in that document, 1 or more, shape ``(cells,)``.
    :param offsets: document ``i`` has the cells ``offsets[i]:offsets[i + 1]``, shape ``(documents + 1,)``.
    :param vocab: the strings of the word ids.
    :param labels: what each document is about, shape ``(documents,)``, with their ``labelset``.
    :param left_out: documents that a reader or a filter left out because no word of theirs remained.
    :param recoded: files that were not UTF-8, and were read as Latin-1.

    >>> from pyro_unsup.data import Documents, Vocab
    >>> documents = Documents.count([0, 1, 0, 2], [0, 3, 4], Vocab(["a", "b", "c"]))
    >>> documents, documents.bag(0)
    (Documents(2 documents, 4 tokens, 3 types), {'a': 2, 'b': 1})
    """

    words: IntArray
    counts: IntArray
    offsets: OffsetArray
    vocab: Vocab
    labels: IntArray | None = None
    labelset: Vocab | None = None
    left_out: int = 0
    recoded: int = 0

    def __post_init__(self) -> None:
        for name, kind in _ARRAYS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, integers(value, name, kind))
        check_offsets(self.offsets, len(self.words), "offsets", "cells")
        check_range(self.words, 0, len(self.vocab) - 1, "words")
        check_length(self.counts, len(self.words), "counts")
        check_range(self.counts, 1, np.iinfo(np.int32).max, "counts")
        if (self.labels is None) != (self.labelset is None):
            raise InputError("labels and labelset belong together, found only one of them; give both or neither")
        if self.labels is not None and self.labelset is not None:
            check_length(self.labels, len(self), "labels")
            check_range(self.labels, 0, len(self.labelset) - 1, "labels")

    @classmethod
    def of(
        cls, texts: Iterable[str | Iterable[str]], labels: Sequence[str] | None = None, **options: Unpack[Options]
    ) -> Documents:
        """Documents from Python: strings, or lists of words. The words of a string are what is between white space.

        :param texts: any iterable, such as a list, a generator, or a column of a table.
        :param labels: what each document is about, if that is known.
        :param options: see :class:`~pyro_unsup.data.options.Options`.

        >>> from pyro_unsup.data import Documents
        >>> Documents.of(["ball goal ball", ["moon", "orbit"]], labels=["sport", "space"])
        Documents(2 documents, 5 tokens, 4 types, 2 labels)
        """
        from pyro_unsup.data.from_python import documents_of

        return documents_of(texts, labels, **options)

    @classmethod
    def of_matrix(cls, matrix: Any, vocabulary: Iterable[str], labels: Sequence[str] | None = None) -> Documents:
        """Documents from a matrix of counts, such as scikit-learn's ``CountVectorizer`` makes.

        :param matrix: shape ``(documents, words)``, sparse or dense, how often each word occurs.
        :param vocabulary: the word of each column, such as ``vectorizer.get_feature_names_out()``.
        :param labels: what each document is about, if that is known.

        >>> from pyro_unsup.data import Documents
        >>> Documents.of_matrix([[2, 0, 1], [0, 3, 0]], ["ball", "moon", "goal"]).bag(0)
        {'ball': 2, 'goal': 1}
        """
        from pyro_unsup.data.from_python import documents_of_matrix

        return documents_of_matrix(matrix, vocabulary, labels)

    @classmethod
    def count(
        cls,
        words: npt.ArrayLike,  # (tokens,)
        offsets: npt.ArrayLike,  # (documents + 1,)
        vocab: Vocab,
        labels: npt.ArrayLike | None = None,  # (documents,)
        labelset: Vocab | None = None,
    ) -> Documents:
        """Count words that lie end to end, as those of a :class:`.Corpus` do."""
        flat, ends = integers(words, "words", "i4"), integers(offsets, "offsets", "i8")
        check_offsets(ends, len(flat), "offsets", "words")
        check_range(flat, 0, len(vocab) - 1, "words")
        owner = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
        cells, counts = np.unique(owner * len(vocab) + flat, return_counts=True)
        found = np.searchsorted(cells, np.arange(len(ends)) * len(vocab))
        kept = None if labels is None else integers(labels, "labels", "i4")
        return cls((cells % max(len(vocab), 1)).astype("i4"), counts.astype("i4"), found, vocab, kept, labelset)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def tokens(self) -> int:
        """Number of words in all, each as often as it occurs."""
        return int(self.counts.sum(dtype=np.int64))

    @property
    def lengths(self) -> OffsetArray:
        """Words in each document, each as often as it occurs, shape ``(documents,)``."""
        lengths, some = np.zeros(len(self), np.int64), np.diff(self.offsets) > 0
        lengths[some] = np.add.reduceat(self.counts, self.offsets[:-1][some], dtype=np.int64)
        release(self.counts)
        return lengths

    @property
    def on_disk(self) -> bool:
        """Whether the words are mapped from a file, so that they take no memory until they are looked at."""
        return mapping_of(self.words) is not None

    @property
    def frequencies(self) -> OffsetArray:
        """How often each word of the vocabulary occurs, shape ``(types,)``."""
        return np.bincount(self.words, self.counts, minlength=len(self.vocab)).astype(np.int64)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Documents):
            return NotImplemented
        return all(same(getattr(self, field.name), getattr(other, field.name)) for field in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        parts = [f"{len(self):,} documents", f"{self.tokens:,} tokens", f"{len(self.vocab):,} types"]
        parts += [] if self.labelset is None else [f"{len(self.labelset):,} labels"]
        parts += [f"{self.left_out:,} empty ones left out"] if self.left_out else []
        parts += [f"{self.recoded:,} files read as Latin-1"] if self.recoded else []
        return f"Documents({', '.join(parts)})"

    def bag(self, i: int) -> dict[str, int]:
        """The words of document ``i`` and how often they occur."""
        if not -len(self) <= i < len(self):
            raise IndexError(f"document {i} of {len(self)}")
        cells = slice(int(self.offsets[i % len(self)]), int(self.offsets[i % len(self) + 1]))
        return dict(zip(self.vocab.decode(self.words[cells]), self.counts[cells].tolist(), strict=True))

    def label(self, i: int) -> str:
        """The label of document ``i``."""
        if self.labels is None or self.labelset is None:
            raise InputError("these documents have no labels; read them from a labelled file")
        return self.labelset[int(self.labels[i])]

    def select(self, indices: npt.ArrayLike) -> Documents:
        """The documents at ``indices`` (integers in any order, or one truth value a document)."""
        chosen = np.asarray(indices)
        if chosen.dtype == np.bool_:
            check_length(chosen, len(self), "the mask over documents")
            chosen = np.flatnonzero(chosen)
        chosen = integers(chosen, "indices", "i8")
        check_range(chosen, 0, len(self) - 1, "indices")
        where, offsets = gather(self.offsets, chosen)
        labels = None if self.labels is None else self.labels[chosen]
        words, counts = take(self.words, where), take(self.counts, where)
        return self._with(words=words, counts=counts, offsets=offsets, labels=labels)

    def drop_frequent(self, n: int = 50) -> Documents:
        """Without the ``n`` most frequent words (of equals, those first in the vocabulary): they say little."""
        if n < 0:
            raise InputError(f"expected a number of words of 0 or more, found {n}")
        if n == 0:
            return self
        keep = np.ones(len(self.vocab), dtype=np.bool_)
        keep[np.argsort(-self.frequencies, kind="stable")[:n]] = False
        return self.keep_words(keep)

    def drop_rare(self, least: int = 5) -> Documents:
        """Without the words that occur fewer than ``least`` times in all."""
        return self if least <= 0 else self.keep_words(self.frequencies >= least)

    def keep_words(self, keep: npt.NDArray[np.bool_]) -> Documents:
        """Only the words where ``keep``, shape ``(types,)``, is true; they alone stay in the vocabulary.

        A document that has none of them tells nothing about words: it is left out, and ``left_out`` counts it.
        """
        keep = np.asarray(keep, dtype=np.bool_)
        check_length(keep, len(self.vocab), "the mask over words")
        unknown = self.vocab.unknown
        vocab = Vocab(
            (one for one, kept in zip(self.vocab, keep, strict=True) if kept),
            None if unknown is None or not keep[self.vocab.index[unknown]] else unknown,
        )
        mask = keep[self.words]
        ids = (np.cumsum(keep, dtype=np.int32) - 1)[self.words[mask]]
        offsets = np.concatenate(([0], np.cumsum(mask)))[self.offsets]
        return self._with(words=ids, counts=self.counts[mask], offsets=offsets, vocab=vocab)._without_empty()

    def _without_empty(self) -> Documents:
        empty = self.offsets[1:] == self.offsets[:-1]
        if empty.all():
            raise InputError("no document has a word left; drop fewer words")
        return self.select(~empty)._with(left_out=self.left_out + int(empty.sum())) if empty.any() else self

    def with_vocab(self, vocab: Vocab, lowercase: bool = False) -> Documents:
        """The same words by the ids of another vocabulary (that of a trained model, say).

        Words outside it become its unknown symbol, or are dropped where it has none, as if they had been filtered out.
        Documents stay, even those that are left without words: predictions are one a document.

        :param lowercase: fold the words to lower case first.
        """
        unknown = -1 if vocab.unknown is None else vocab.index[vocab.unknown]
        forms = [one.lower() for one in self.vocab] if lowercase else self.vocab
        lookup = np.array([vocab.index.get(one, unknown) for one in forms], dtype=np.int32)
        words = lookup[self.words]
        owner = np.repeat(np.arange(len(self)), np.diff(self.offsets))[words >= 0]
        counts, words = self.counts[words >= 0], words[words >= 0]
        # Several words of a document may have become one.
        cells, which = np.unique(owner * len(vocab) + words, return_inverse=True)
        sums = np.bincount(which, counts, len(cells)).astype(np.int64)
        return self._with(
            words=(cells % max(len(vocab), 1)).astype(np.int32),
            counts=integers(sums, "counts", "i4"),
            offsets=np.searchsorted(cells, np.arange(len(self) + 1) * len(vocab)),
            vocab=vocab,
        )

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder of ``.npy`` arrays and one JSON file, all or nothing. Older documents there are replaced.

        (Not how many were left out on reading: what is saved is what there is.)

        >>> import tempfile
        >>> from pyro_unsup.data import Documents, Vocab
        >>> documents = Documents.count([0, 1, 0, 2], [0, 3, 4], Vocab(["a", "b", "c"]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     documents.save(folder + "/documents")
        ...     again = Documents.open(folder + "/documents", mmap=False)
        >>> again == documents, again.on_disk
        (True, False)
        """
        write_arrays(folder, "documents", *in_plain_values(self, _VOCABS, _ARRAYS))

    @classmethod
    def open(cls, folder: str | os.PathLike[str], mmap: bool = True) -> Documents:
        """Read what :meth:`save` wrote. With ``mmap`` the arrays stay on disk until they are touched, and engines
        look at a part of them at a time."""
        return opened(cls, folder, "documents", _VOCABS, _ARRAYS, mmap)

    def _with(self, **changes: Any) -> Documents:
        """A copy with some fields changed. The new values are known to be right, so nothing is checked."""
        made = object.__new__(Documents)
        for field in fields(self):
            object.__setattr__(made, field.name, changes.get(field.name, getattr(self, field.name)))
        return made


def write_labels(
    labels: npt.ArrayLike,  # (documents,)
    out: str | os.PathLike[str] | TextIO,
    names: Iterable[str] | None = None,
) -> None:
    """Write a label a line, in the order of the documents. A file appears under its name only when it is complete.

    :param labels: ids, such as the predicted clusters; or strings.
    :param out: a path, ``-`` for standard output, or an open text stream.
    :param names: of the ids; without them ids are written as numbers.

    >>> import sys
    >>> from pyro_unsup.data import write_labels
    >>> write_labels([1, 0], sys.stdout, names=["space", "hockey"])
    hockey
    space
    """
    found, known = np.asarray(labels), None if names is None else list(names)
    if found.ndim != 1:
        raise InputError(f"labels: expected shape (documents,), found {found.shape}")
    if found.dtype.kind in "iu" and known is not None:
        check_range(found, 0, len(known) - 1, "labels")
        written = [known[i] for i in found.tolist()]
    else:
        written = [str(one) for one in found.tolist()]
    for one in set(written):
        if not one or one.isspace() or any(end in one for end in "\t\r\n\0"):
            raise InputError(f"{one!r:.80} cannot be written, expected text without tabs and line ends; rename it")
    with write_text(out) as stream:
        stream.writelines(f"{one}\n" for one in written)
