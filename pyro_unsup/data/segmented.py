"""Text without spaces, and where its words end: lines with gold spaces in, lines with spaces out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TextIO, Unpack

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.arrays import IntArray, OffsetArray, check_length, gather
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.files import write_text
from pyro_unsup.data.lines import CorpusBuilder, show
from pyro_unsup.data.opening import open_text
from pyro_unsup.data.options import Options
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError
from pyro_unsup.graphemes import graphemes

Ends = npt.NDArray[np.bool_]
Symbols = Literal["graphemes", "characters"]


@dataclass(frozen=True, eq=False, repr=False)
class Segmented:
    """Sentences of symbols without spaces, and perhaps where the words in them end.

    A model takes it as it takes a :class:`.Corpus`, and sees the symbols only.

    :param symbols: one symbol a "word".
    :param ends: true at the last symbol of each word, shape ``(symbols,)``; None where it is not known.

    >>> import numpy as np
    >>> from pyro_unsup.data import Corpus, Segmented, Vocab
    >>> text = Segmented(Corpus([0, 1, 1, 0], [0, 3, 4], Vocab(["a", "b"])), np.array([True, False, True, True]))
    >>> text, text.lines()
    (Segmented(2 sentences, 4 symbols, 3 words), ['a bb', 'a'])
    """

    symbols: Corpus
    ends: Ends | None = None

    def __post_init__(self) -> None:
        if self.ends is None:
            return
        ends = np.ascontiguousarray(self.ends)
        if ends.dtype != np.bool_:
            raise InputError(f"ends: expected truth values, one a symbol, found {ends.dtype}")
        check_length(ends, self.tokens, "ends")
        last = self.offsets[1:][self.lengths > 0] - 1
        if not ends[last].all():
            sentence = int(np.flatnonzero(self.lengths > 0)[np.argmin(ends[last])])
            raise InputError(f"ends: expected a word to end with every sentence, found none at that of {sentence}")
        object.__setattr__(self, "ends", ends)

    def __len__(self) -> int:
        return len(self.symbols)

    @property
    def on_disk(self) -> bool:
        """Whether the symbols are mapped from a file."""
        return self.symbols.on_disk

    @property
    def words(self) -> IntArray:
        """Symbol ids, shape ``(symbols,)``."""
        return self.symbols.words

    @property
    def offsets(self) -> OffsetArray:
        """Where sentences start and end, shape ``(sentences + 1,)``."""
        return self.symbols.offsets

    @property
    def vocab(self) -> Vocab:
        """The strings of the symbol ids."""
        return self.symbols.vocab

    @property
    def lengths(self) -> OffsetArray:
        """Symbols in each sentence, shape ``(sentences,)``."""
        return self.symbols.lengths

    @property
    def tokens(self) -> int:
        """Number of symbols in all."""
        return self.symbols.tokens

    @property
    def word_lengths(self) -> OffsetArray:
        """Symbols in each gold word, shape ``(words,)``."""
        if self.ends is None:
            raise InputError("this text has no gold words; read one that has")
        return np.diff(np.flatnonzero(self.ends), prepend=-1)

    def __repr__(self) -> str:
        known = "no gold" if self.ends is None else f"{int(self.ends.sum()):,} words"
        return f"Segmented({len(self):,} sentences, {self.tokens:,} symbols, {known})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Segmented):
            return NotImplemented
        both = (self.ends is None) == (other.ends is None)
        return both and self.symbols == other.symbols and np.array_equal(self.ends, other.ends)  # type: ignore[arg-type]

    __hash__ = None  # type: ignore[assignment]

    def select(self, indices: npt.ArrayLike) -> Segmented:
        """The sentences at ``indices`` (integers in any order, or one truth value a sentence)."""
        chosen = self.symbols.select(indices)
        if self.ends is None:
            return Segmented(chosen)
        which = np.asarray(indices)
        rows = np.arange(len(self))[which.astype(np.int64) if which.size == 0 else which]
        return Segmented(chosen, self.ends[gather(self.offsets, rows)[0]])

    def with_vocab(self, vocab: Vocab) -> Segmented:
        """The same symbols by the ids of another vocabulary (that of a trained model, say)."""
        return Segmented(self.symbols.with_vocab(vocab), self.ends)

    def lines(self, ends: npt.ArrayLike | None = None, word_sep: str = " ", symbol_sep: str = "") -> list[str]:
        """One string a sentence, with its words apart.

        :param ends: where words end, shape ``(symbols,)``; None for the gold ones.
        :param word_sep: what goes between words.
        :param symbol_sep: what goes between the symbols of a word.
        """
        found = self.ends if ends is None else np.asarray(ends)
        if found is None:
            raise InputError("this text has no gold words; give the ends of some")
        check_length(found, self.tokens, "ends")
        if not np.isin(found, (0, 1)).all():
            raise InputError("ends: expected 1 where a word ends and 0 elsewhere, found another number")
        after = np.where(found, word_sep, symbol_sep).astype(object)
        after[self.offsets[1:][self.lengths > 0] - 1] = ""
        pieces = (np.array(self.vocab.types, dtype=object)[self.words] + after).tolist()
        return ["".join(pieces[start:end]) for start, end in pairwise(self.offsets.tolist())]


def read_segmented(
    path: str | os.PathLike[str],
    gold: bool = True,
    *,
    word_sep: str | None = None,
    symbol_sep: str | None = None,
    symbols: Symbols = "graphemes",
    max_segment: int | None = None,
    **options: Unpack[Options],
) -> Segmented:
    """Text of which the words are to be found, one sentence a line. Blank lines are skipped.

    :param path: a file (plain, gzip, bzip2 or xz), or ``-`` for standard input.
    :param gold: words are apart in the text: take note of where, and put them together. False: nothing is known of
        words. White space (or ``word_sep``) goes all the same.
    :param word_sep: what is between words; by default white space.
    :param symbol_sep: what is between the symbols of a word; by default ``symbols`` says.
    :param symbols: what a symbol is, if nothing is between them: ``graphemes``, what people take for one character (a
        letter with its accents); or ``characters``, every code point.
    :param max_segment: refuse a text with a longer gold word, in symbols: a model with shorter segments cannot find it.
    :param options: see :class:`~pyro_unsup.data.options.Options`; symbols are its words.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pyro_unsup.data import read_segmented
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "small.txt")
    ...     size = file.write_text("the dog")
    ...     text = read_segmented(file)
    >>> text.symbols.sentence(0), text.ends.tolist()
    (['t', 'h', 'e', 'd', 'o', 'g'], [False, False, True, False, False, True])
    """
    for name, given in (("word_sep", word_sep), ("symbol_sep", symbol_sep)):
        if given == "":
            raise InputError(f"{name} is empty, expected at least one character, or None for the default", path)
    if symbol_sep is not None and (word_sep == symbol_sep or (word_sep is None and symbol_sep.isspace())):
        raise InputError("words and symbols have the same separator, expected two different ones; set word_sep", path)
    if symbols not in ("graphemes", "characters"):
        raise InputError(f"symbols: expected graphemes or characters, found {symbols!r}", path)
    builder = CorpusBuilder(path, **options)
    sizes: list[int] = []  # symbols of each word
    for number, line in open_text(path, builder.limits):
        words = [_symbols(one, symbol_sep, symbols) for one in line.split(word_sep)]
        found = [one for word in words for one in word]
        if not found:
            continue
        if len(found) > builder.limits.max_sentence:
            most = f"more than {builder.limits.max_sentence:,} symbols"
            raise builder.error(f"a line of {most}; break the line (in Python, or raise Limits.max_sentence)", number)
        here = [len(word) for word in words if word]
        if gold and max_segment is not None and max(here) > max_segment:
            what = f"a word of {max(here)} symbols, {show(line.split(word_sep)[_longest(words)])}"
            raise builder.error(f"{what}, expected at most {max_segment}; allow longer segments", number)
        sizes += here
        builder.add(found, number)
    corpus = builder.finish()
    if not gold:
        return Segmented(corpus)
    ends = np.zeros(corpus.tokens, np.bool_)
    ends[np.cumsum(sizes) - 1] = True
    return Segmented(corpus, ends)


def has_symbols(line: str, word_sep: str | None = None, symbol_sep: str | None = None) -> bool:
    """Whether anything is left of a line without its separators."""
    return any(_symbols(one, symbol_sep or None) for one in line.split(word_sep or None))


def _symbols(word: str, symbol_sep: str | None, symbols: Symbols = "graphemes") -> list[str]:
    if symbol_sep is not None:
        return [one for one in word.split(symbol_sep) if one]
    text = "".join(word.split())
    return graphemes(text) if symbols == "graphemes" else list(text)


def _longest(words: list[list[str]]) -> int:
    return max(range(len(words)), key=lambda i: len(words[i]))


def write_segmented(
    text: Segmented | Corpus,
    ends: npt.ArrayLike | None,  # (symbols,)
    out: str | os.PathLike[str] | TextIO,
    *,
    word_sep: str = " ",
    symbol_sep: str = "",
) -> None:
    """Write a text with its words apart, one sentence a line. A file appears under its name only when it is complete.

    :param text: the symbols.
    :param ends: 1 where a word ends, as ``fit.predict`` gives it; None for the gold words.
    :param out: a path, ``-`` for standard output, or an open text stream.
    :param word_sep: what goes between words.
    :param symbol_sep: what goes between the symbols of a word.

    >>> import sys
    >>> from pyro_unsup.data import Corpus, Vocab, write_segmented
    >>> text = Corpus([0, 1, 2], [0, 3], Vocab(["a", "d", "o"]))
    >>> write_segmented(text, [1, 0, 1], sys.stdout)
    a do
    """
    found = text if isinstance(text, Segmented) else Segmented(text)
    for one in found.vocab.decode(np.unique(found.words).tolist()):
        apart = word_sep in one or (symbol_sep and symbol_sep in one) or one.split() != [one] or one == "\0"
        if apart or not (symbol_sep or len(graphemes(one)) == 1):
            fix = "set word_sep and symbol_sep to what no symbol has"
            raise InputError(f"the symbol {show(one)} could not be told apart from its neighbours; {fix}")
    lines = found.lines(ends, word_sep, symbol_sep)
    with write_text(out) as stream:
        stream.writelines(f"{line}\n" for line in lines)
