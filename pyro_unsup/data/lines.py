"""Plain tokenised text, and the builder that every reader hands its sentences to."""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from functools import cache
from typing import Unpack

import numpy as np

from pyro_unsup.data.arrays import IntArray, OffsetArray
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.forms import Forms
from pyro_unsup.data.opening import LIMITS, Limits, open_text
from pyro_unsup.data.options import Options
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError

UNKNOWN = "<unk>"
SHOWN = 60  # characters of a foreign text in a message


def read_lines(path: str | os.PathLike[str], **options: Unpack[Options]) -> Corpus:
    """Plain text, one sentence a line, words split by white space. Blank lines are skipped.

    :param path: a file (plain, gzip, bzip2 or xz), or ``-`` for standard input.
    :param options: see :class:`Options`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pyro_unsup.data import read_lines
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "small.txt")
    ...     size = file.write_text("the dog sees the cat")
    ...     corpus = read_lines(file, min_count=2)
    >>> corpus.sentence(0)
    ['the', '<unk>', '<unk>', 'the', '<unk>']
    """
    builder = CorpusBuilder(path, **options)
    for number, line in open_text(path, builder.limits):
        words = line.split()
        if words:
            builder.add(words, number)
    return builder.finish()


class CorpusBuilder:
    """Sentences in, a corpus out. Ids are given as words come by, so no string is kept twice.

    :param path: the file, for errors.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        vocab: Vocab | None = None,
        tagset: Vocab | None = None,
        lowercase: bool = False,
        strip_accents: bool = False,
        numbers: bool = False,
        prefix: int | None = None,
        min_count: int = 1,
        unknown: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        if vocab is not None and (min_count > 1 or unknown is not None):
            raise InputError("min_count and unknown make a new vocabulary; leave them out where one is given", path)
        self.path, self.limits = path, limits
        self._vocab, self._tagset = vocab, tagset
        seen = Forms(lowercase, strip_accents, numbers, prefix)
        self._seen, self._min_count = None if seen == Forms() else cache(seen), min_count
        self._unknown = UNKNOWN if unknown is None and min_count > 1 else unknown
        self._word_ids: dict[str, int] = {} if vocab is None else vocab.index
        self._tag_ids: dict[str, int] = {} if tagset is None else tagset.index
        self._words, self._tags, self._heads, self._spans = array("i"), array("i"), array("i"), array("i")
        self._offsets, self._span_offsets = array("q", [0]), array("q", [0])
        self._span_labels, self._has_labels = array("i"), False
        self._label_ids: dict[str, int] = {}
        self._keep = bytearray()

    def add(
        self,
        words: Sequence[str],
        lines: int | Sequence[int],
        tags: Sequence[str] | None = None,
        heads: Sequence[int] | None = None,
        spans: Sequence[tuple[int, int]] | None = None,
        span_labels: Sequence[str] | None = None,
        keep: Sequence[bool] | None = None,
    ) -> None:
        """Add a sentence.

        :param lines: the line number of each word, or of them all.
        :param spans: distinct and sorted brackets.
        :param span_labels: of these, for all sentences or for none.
        :param keep: false for words to leave out in the end; they need not be in the vocabulary, nor their tags in
            the tagset.
        """
        line = lines if isinstance(lines, int) else lines[0]
        if len(words) > self.limits.max_sentence:
            raise self.too_long(line)
        if (tags is None) != (len(self._tags) == 0) and len(self._offsets) > 1:
            here, before = ("no tags", "has some") if tags is None else ("tags", "has none")
            raise self.error(
                f"{here} in this sentence, but the text before it {before}; tag all of it or nothing", line
            )
        if self._seen is not None:
            words = [self._seen(word) for word in words]
        if keep is None:
            keep = [True] * len(words)
        self._keep.extend(keep)
        self._words.extend(self._encode(words, lines, keep, self._word_ids, self._vocab, "word"))
        self._offsets.append(len(self._words))
        if tags is not None:
            self._tags.extend(self._encode(tags, lines, keep, self._tag_ids, self._tagset, "tag"))
        if heads is not None:
            self._heads.extend(heads)
        if spans is not None:
            for span in spans:
                self._spans.extend(span)
            self._span_offsets.append(len(self._spans) // 2)
        if span_labels is not None:
            self._has_labels = True
            self._span_labels.extend(self._label_ids.setdefault(one, len(self._label_ids)) for one in span_labels)

    def _encode(
        self,
        strings: Sequence[str],
        lines: int | Sequence[int],
        keep: Sequence[bool],
        ids: dict[str, int],
        given: Vocab | None,
        what: str,
    ) -> list[int]:
        found = [ids.get(one, -1) for one in strings]
        if -1 in found:  # seldom, so that the line above is the whole cost
            for place, one in enumerate(strings):
                if found[place] < 0:
                    line = lines if isinstance(lines, int) else lines[place]
                    found[place] = self._new(one, line, ids, given, what) if keep[place] else 0
        return found

    def _new(self, one: str, line: int, ids: dict[str, int], given: Vocab | None, what: str) -> int:
        if not one or one.isspace():
            raise self.error(f"an empty {what}, expected at least one character", line)
        if given is None:
            return ids.setdefault(one, len(ids))
        if given.unknown is not None:
            return ids[given.unknown]
        fix = "use a vocabulary with an unknown symbol" if what == "word" else f"expected one of {', '.join(given)}"
        raise self.error(f"the {what} {show(one)} is not in the given set of {len(given):,}; {show(fix, False)}", line)

    def error(self, what: str, line: int) -> InputError:
        """An error at a line of this file, to be raised by the caller."""
        return InputError(what, self.path, line)

    def too_long(self, line: int) -> InputError:
        """The error for a sentence beyond the limit."""
        most = f"more than {self.limits.max_sentence:,} words"
        fix = "is a sentence break missing? Else break the sentence (in Python, or raise Limits.max_sentence)"
        return self.error(f"a sentence of {most}; {fix}", line)

    @property
    def heads(self) -> IntArray:
        """The heads so far, shape ``(tokens,)``."""
        return np.array(self._heads, dtype=np.int32)

    @property
    def offsets(self) -> OffsetArray:
        """Where the sentences so far start and end, shape ``(sentences + 1,)``."""
        return np.array(self._offsets, dtype=np.int64)

    def finish(self) -> Corpus:
        """The corpus of all sentences added."""
        if not any(self._keep):
            raise InputError("no sentence in it, expected at least one", self.path)
        heads, has_spans = self.heads, len(self._span_offsets) > 1
        corpus = Corpus(
            words=np.array(self._words, dtype=np.int32),
            offsets=self.offsets,
            vocab=Vocab(self._word_ids) if self._vocab is None else self._vocab,
            tags=np.array(self._tags, dtype=np.int32) if self._tags else None,
            tagset=(Vocab(self._tag_ids) if self._tagset is None else self._tagset) if self._tags else None,
            heads=heads if (heads >= 0).any() else None,
            spans=np.array(self._spans, dtype=np.int32).reshape(-1, 2) if has_spans else None,
            span_offsets=np.array(self._span_offsets, dtype=np.int64) if has_spans else None,
            span_labels=np.array(self._span_labels, dtype=np.int32) if self._has_labels else None,
            span_labelset=Vocab(self._label_ids) if self._has_labels else None,
        )
        if not all(self._keep):
            corpus = corpus.keep_tokens(np.frombuffer(self._keep, dtype=np.bool_))
        return corpus if self._unknown is None else corpus.merge_rare(self._min_count, self._unknown)


def show(text: str, quote: bool = True) -> str:
    """A text from outside, short enough for a one-line message.

    >>> from pyro_unsup.data.lines import show
    >>> show("a" * 100)
    "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...'"
    """
    short = text if len(text) <= SHOWN else text[:SHOWN] + "..."
    return repr(short) if quote else short


def check_cell(text: str) -> None:
    """Raise if a text cannot be written as one cell of a line."""
    if not text or text.isspace() or any(end in text for end in "\t\r\n\0"):
        raise InputError(f"{show(text)} cannot be written, expected text without tabs and line ends; rename it")
