"""CoNLL-U and CoNLL-X: ten columns a word, a blank line after each sentence."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, Unpack

import numpy as np

from pyro_unsup.data.arrays import OffsetArray
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.lines import CorpusBuilder, show
from pyro_unsup.data.opening import open_text
from pyro_unsup.data.options import Options
from pyro_unsup.data.trees import find_cycle
from pyro_unsup.errors import InputError

COLUMNS = 10
ID, FORM, LEMMA, UPOS, XPOS, HEAD, DEPREL, DEPS = 0, 1, 2, 3, 4, 6, 7, 8
_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})", re.ASCII)  # 3-4: one written word that holds two
_EMPTY = re.compile(r"(0|[1-9][0-9]{0,8})\.[1-9][0-9]{0,8}", re.ASCII)  # 8.1: a word that is understood, not written
_WORDS = {"form": FORM, "lemma": LEMMA}
_TAGS = {"xpos": XPOS, "upos": UPOS}
_HEAD = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


def read_conllu(
    path: str | os.PathLike[str],
    tags: Literal["xpos", "upos"] | None = "xpos",
    words: Literal["form", "lemma"] = "form",
    *,
    drop_upos: Collection[str] = (),
    allow_multiple_roots: bool = False,
    lines: Iterable[str] | None = None,
    **options: Unpack[Options],
) -> Corpus:
    """Sentences with tags and heads. Ranges (``3-4``) and empty nodes (``8.1``) are skipped; heads still count words.

    Each sentence must be a tree. A head ``_`` is not known (-1). Where no word has a tag, or a head, the corpus has
    none.

    :param path: a file (plain, gzip, bzip2 or xz), or ``-`` for standard input.
    :param tags: the column of tags: ``xpos`` (CoNLL-X: POSTAG), ``upos`` (CoNLL-X: CPOSTAG), or None to leave them.
    :param words: the column of words.
    :param drop_upos: leave out words with these UPOS tags (``{"PUNCT", "SYM"}``, say); their dependents climb to the
        nearest ancestor that stays, see :meth:`~pyro_unsup.data.corpus.Corpus.keep_tokens`.
    :param allow_multiple_roots: accept sentences with several words at the root.
    :param lines: the lines of the file, where they have been read already; the path is then but a name for errors.
    :param options: see :class:`~pyro_unsup.data.options.Options`.

    >>> import tempfile
    >>> from pyro_unsup.data import read_conllu, toy, write_conllu
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_conllu(toy.sentences(3, seed=1), None, folder + "/toy.conllu")
    ...     corpus = read_conllu(folder + "/toy.conllu")
    >>> corpus.sentence(0), corpus.heads[corpus.offsets[0] : corpus.offsets[1]].tolist()
    (['Mark', 'must', 'cook', 'the', 'woman', '.'], [3, 3, 0, 5, 3, 3])
    """
    builder = CorpusBuilder(path, **options)
    sentences = _Sentences(builder, _column(words, _WORDS), None if tags is None else _column(tags, _TAGS), drop_upos)
    rows, places = sentences.rows, sentences.lines
    for number, line in open_text(path, builder.limits) if lines is None else enumerate(lines, 1):
        if not line or line.isspace():
            sentences.flush()
        elif line[0] != "#":
            row = line.split("\t")
            if len(row) != COLUMNS:
                hint = "; separate them by tabs" if len(row) == 1 else ""
                raise builder.error(f"expected {COLUMNS} tab-separated columns, found {len(row)}{hint}", number)
            if row[ID] == str(len(rows) + 1):
                rows.append(row)
                places.append(number)
                if len(rows) > builder.limits.max_sentence:
                    raise builder.too_long(places[0])
            else:
                sentences.skip(row[ID], number)
    sentences.flush()
    _check_trees(builder, np.array(sentences.all_lines, dtype=np.int64), allow_multiple_roots)
    return builder.finish()


def word_cells(lines: Iterable[str], column: int) -> list[str]:
    """A column of a CoNLL-U file that has been checked before, word by word, without ranges and empty nodes.

    >>> from pyro_unsup.data.conllu import FORM, word_cells
    >>> word_cells(["# a comment", "1-2\\tdes" + "\\t_" * 8, "1\\tde" + "\\t_" * 8, "2\\tles" + "\\t_" * 8, ""], FORM)
    ['de', 'les']
    """
    rows = (line.split("\t") for line in lines if line and line[0].isdecimal())
    return [row[column] for row in rows if row[ID].isdecimal()]


def _column(name: str, columns: dict[str, int]) -> int:
    if name not in columns:
        raise InputError(f"no column {name!r}, expected one of {', '.join(columns)}")
    return columns[name]


class _Sentences:
    """The rows of the sentence at hand, and where to put it when it ends."""

    def __init__(self, builder: CorpusBuilder, word: int, tag: int | None, drop_upos: Collection[str]) -> None:
        self.builder, self.word, self.tag, self.drop = builder, word, tag, frozenset(drop_upos)
        self.rows: list[list[str]] = []
        self.lines: list[int] = []  # of the rows
        self.all_lines = array("q")  # of every word of the file
        self.range_end, self.range_line = 0, 0
        self.numbers = {"_": -1}  # heads met so far

    def skip(self, name: str, line: int) -> None:
        """Pass over a range or an empty node in its right place; anything else is out of order."""
        done = len(self.rows)
        if (found := _RANGE.fullmatch(name)) is not None:
            first, last = map(int, found.groups())
            if first == done + 1 and last >= first and first > self.range_end:
                self.range_end, self.range_line = last, line
                return
        elif (found := _EMPTY.fullmatch(name)) is not None and int(found[1]) == done:
            return
        raise self.builder.error(f"expected the word number {done + 1}, found {show(name)}; number them 1, 2, 3", line)

    def flush(self) -> None:
        """Hand the sentence over."""
        rows, lines = self.rows, self.lines
        if self.range_end > len(rows):
            raise self.builder.error(f"a range up to word {self.range_end} of {len(rows)}", self.range_line)
        self.range_end = 0
        if not rows:
            return
        columns = list(zip(*rows, strict=True))
        keep = [tag not in self.drop for tag in columns[UPOS]] if self.drop else None
        tags = None if self.tag is None else self._known_tags(columns[self.tag], keep)
        self.builder.add(columns[self.word], lines, tags, self._numbers(columns[HEAD]), keep=keep)
        self.all_lines.extend(lines)
        rows.clear()
        lines.clear()

    def _known_tags(self, tags: Sequence[str], keep: Sequence[bool] | None) -> Sequence[str] | None:
        if "_" not in tags:
            return tags
        missing = [tag == "_" and (keep is None or keep[place]) for place, tag in enumerate(tags)]
        if all(tag == "_" for tag in tags):
            return None
        if any(missing):
            what = "a word without a tag in a sentence with tags; tag it, or choose another column"
            raise self.builder.error(what, self.lines[missing.index(True)])
        return tags

    def _numbers(self, heads: Sequence[str]) -> list[int]:
        seen = self.numbers
        found = [seen.get(head, -2) for head in heads]
        if -2 in found:
            for place, head in enumerate(heads):
                if found[place] == -2:
                    if not _HEAD.fullmatch(head) or int(head) > self.builder.limits.max_sentence:
                        raise self.builder.error(_bad_head(show(head), len(heads)), self.lines[place])
                    found[place] = seen[head] = int(head)
        return found


def _bad_head(head: str, words: int) -> str:
    return f"the head {head}, expected a number from 0 to {words} or _"


def _check_trees(builder: CorpusBuilder, lines: OffsetArray, allow_multiple_roots: bool) -> None:
    """All sentences at once: heads in range, no word its own ancestor, one root."""
    heads, offsets = builder.heads, builder.offsets
    lengths = np.diff(offsets)
    place = np.arange(1, len(heads) + 1) - np.repeat(offsets[:-1], lengths)  # (tokens,) from 1 in each sentence
    words = np.repeat(lengths, lengths)
    for at in np.flatnonzero(heads > words)[:1]:
        raise builder.error(_bad_head(repr(str(heads[at])), words[at]), int(lines[at]))
    for at in np.flatnonzero(heads == place)[:1]:
        raise builder.error(f"word {place[at]} is its own head, expected a tree", int(lines[at]))
    loop = find_cycle(heads, offsets)
    if loop is not None:
        raise builder.error(f"the heads form a cycle through word {place[loop]}, expected a tree", int(lines[loop]))
    roots = np.flatnonzero(heads == 0)
    second = np.flatnonzero(np.diff(np.searchsorted(offsets, roots, side="right")) == 0)
    if second.size and not allow_multiple_roots:
        at = roots[second[0] + 1]
        fix = "mend it or pass allow_multiple_roots=True"
        raise builder.error(f"a second root in the sentence at word {place[at]}, expected one; {fix}", int(lines[at]))
