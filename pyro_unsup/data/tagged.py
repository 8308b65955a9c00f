"""Tagged text in two forms, ``word TAG`` a line and ``word/TAG`` side by side; and the writer of tags."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, pairwise
from typing import Literal, TextIO, Unpack

import numpy as np
import numpy.typing as npt

from pyro_unsup.data.conllu_out import row_of
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.files import write_text
from pyro_unsup.data.lines import CorpusBuilder, check_cell, show
from pyro_unsup.data.opening import open_text
from pyro_unsup.data.options import Options
from pyro_unsup.data.vocab import Vocab
from pyro_unsup.errors import InputError

_ESCAPED = re.compile(r"\\([\\/])")
_Writer = Callable[[list[str], list[str], list[int] | None], Iterator[str]]  # words, tags, heads -> text
_FORMS = ("columns", "slashes", "conllu")


def read_tagged(
    path: str | os.PathLike[str],
    form: Literal["auto", "columns", "slashes"] = "auto",
    tag_column: int = 1,
    **options: Unpack[Options],
) -> Corpus:
    r"""Tagged text.

    ``columns``: ``word TAG`` and perhaps more columns a line, a blank line after each sentence. Columns are split by
    tabs where a line has any (so that words may hold spaces), else by white space.

    ``slashes``: ``word/TAG word/TAG``, one sentence a line. The last slash splits; ``\/`` is a slash and ``\\`` a
    backslash inside a word or a tag.

    :param path: a file (plain, gzip, bzip2 or xz), or ``-`` for standard input.
    :param form: ``auto`` takes ``slashes`` where every piece of the first line has a slash inside it.
    :param tag_column: with ``columns``, the column of the tags, from 0; the word is column 0.
    :param options: see :class:`~pyro_unsup.data.options.Options`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pyro_unsup.data import read_tagged
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "small.tagged")
    ...     size = file.write_text("the/DT dog/NN barks/VBZ")
    ...     corpus = read_tagged(file)
    >>> corpus.sentence(0), corpus.sentence_tags(0)
    (['the', 'dog', 'barks'], ['DT', 'NN', 'VBZ'])
    """
    if form not in ("auto", "columns", "slashes"):
        raise InputError(f"no form {form!r}, expected auto, columns or slashes")
    if tag_column < 1:
        raise InputError(f"tag column {tag_column}, expected 1 or more; column 0 holds the words")
    builder = CorpusBuilder(path, **options)
    lines = open_text(path, builder.limits)
    first = next(((number, line) for number, line in lines if line and not line.isspace()), (1, ""))
    if form == "auto":
        form = form_of(first[1])
    if form == "slashes":
        _read_slashes(builder, chain([first], lines))
    else:
        _read_columns(builder, chain([first], lines), tag_column)
    return builder.finish()


def form_of(line: str) -> Literal["columns", "slashes"]:
    """The form that the first line of a text tells."""
    return "slashes" if all(split_slash(piece) for piece in line.split()) else "columns"


def _read_slashes(builder: CorpusBuilder, lines: Iterable[tuple[int, str]]) -> None:
    for number, line in lines:
        pieces = line.split()
        pairs = [split_slash(piece) for piece in pieces]
        if None in pairs:
            found = show(pieces[pairs.index(None)])
            raise builder.error(f"expected word/TAG, found {found}; put a tag after the last slash", number)
        if pieces:
            words, tags = zip(*(pair for pair in pairs if pair is not None), strict=True)
            builder.add(words, number, tags)


def _read_columns(builder: CorpusBuilder, lines: Iterable[tuple[int, str]], tag_column: int) -> None:
    words: list[str] = []
    tags: list[str] = []
    numbers: list[int] = []
    width, width_line = 0, 0
    for number, line in chain(lines, [(0, "")]):
        if not line or line.isspace():
            if words:
                builder.add(words, numbers, tags)
                words, tags, numbers = [], [], []
            continue
        row = line.rstrip(" ").split("\t") if "\t" in line else line.split()
        if len(row) != width:
            if width:
                what = f"expected {width} columns as on line {width_line}, found {len(row)}"
                raise builder.error(f"{what}; mend the line, or use tabs where words hold spaces", number)
            if len(row) <= tag_column:
                what = f"expected a tag in column {tag_column} (from 0), found {len(row)} columns"
                raise builder.error(f"{what}; read text without tags as plain lines", number)
            width, width_line = len(row), number
        words.append(row[0])
        tags.append(row[tag_column])
        numbers.append(number)
        if len(words) > builder.limits.max_sentence:
            raise builder.too_long(numbers[0])


def split_slash(piece: str) -> tuple[str, str] | None:
    r"""Word and tag at the last slash that is not escaped, or None where one of them would be empty.

    >>> from pyro_unsup.data.tagged import split_slash
    >>> split_slash("dog/NN"), split_slash(r"1\/2/CD"), split_slash("dog"), split_slash("/NN")
    (('dog', 'NN'), ('1/2', 'CD'), None, None)
    """
    at = piece.rfind("/")
    while at > 0 and _is_escaped(piece, at):
        at = piece.rfind("/", 0, at)
    word, tag = piece[: max(at, 0)], piece[at + 1 :]
    if not word or not tag:
        return None
    return (word, tag) if "\\" not in piece else (_ESCAPED.sub(r"\1", word), _ESCAPED.sub(r"\1", tag))


def _is_escaped(piece: str, at: int) -> bool:
    before = at - 1
    while before >= 0 and piece[before] == "\\":
        before -= 1
    return (at - before) % 2 == 0


def write_tagged(
    corpus: Corpus,
    tags: npt.ArrayLike | None,  # (tokens,)
    out: str | os.PathLike[str] | TextIO,
    format: Literal["columns", "slashes", "conllu"] = "columns",
    *,
    tagset: Vocab | None = None,
    column: Literal["xpos", "upos"] = "xpos",
) -> None:
    r"""Write the words of a corpus with tags. A file appears under its name only when it is complete.

    To write new text that a model with an unknown symbol has tagged, give the corpus with its own words, not the one
    by the model's vocabulary.

    :param tags: tag ids or names, shape ``(tokens,)``; None for the corpus's own tags.
    :param out: a path, ``-`` for standard output, or an open text stream.
    :param format: ``columns`` is ``word TAG`` a line, with a tab in the place of the space where a word has spaces;
        ``slashes`` is ``word/TAG``, one sentence a line; ``conllu`` is CoNLL-U with the known heads.
    :param tagset: names of tag ids; without it ids of induced tags are written as numbers.
    :param column: with ``conllu``, the column of the tags.

    >>> import sys
    >>> from pyro_unsup.data import Corpus, Vocab, write_tagged
    >>> corpus = Corpus([0, 1], [0, 2], Vocab(["cats", "sleep"]))
    >>> write_tagged(corpus, [1, 0], sys.stdout, "slashes", tagset=Vocab(["V", "N"]))
    cats/N sleep/V
    """
    if format not in _FORMS:
        raise InputError(f"no format {format!r}, expected one of {', '.join(_FORMS)}")
    names = _names(corpus, tags, tagset)
    used = set(corpus.vocab.decode(np.unique(corpus.words).tolist())) | set(names)
    for one in used:
        check_cell(one)
        if format == "slashes" and one.split() != [one]:
            raise InputError(f"{show(one)} holds white space, which word/TAG cannot show; write columns instead")
    write: _Writer = partial(_conllu, column) if format == "conllu" else _columns if format == "columns" else _slashes
    with write_text(out) as stream:
        for i, (start, end) in enumerate(pairwise(corpus.offsets.tolist())):
            heads = None if corpus.heads is None else corpus.heads[start:end].tolist()
            stream.writelines(write(corpus.sentence(i), names[start:end], heads))


def _names(corpus: Corpus, tags: npt.ArrayLike | None, tagset: Vocab | None) -> list[str]:
    if tags is None:
        if corpus.tags is None:
            raise InputError("this corpus has no tags to write; give some")
        tags, tagset = corpus.tags, corpus.tagset
    array = np.asarray(tags)
    if array.shape != (corpus.tokens,):
        raise InputError(f"tags: expected shape ({corpus.tokens},), found {array.shape}")
    if array.dtype.kind not in "iu" or tagset is None:
        return [str(one) for one in array.tolist()]
    if array.size and not (array.min() >= 0 and array.max() < len(tagset)):
        raise InputError(f"tags: expected ids from 0 to {len(tagset) - 1}, found {array.min()} to {array.max()}")
    return tagset.decode(array.tolist())


def _columns(words: list[str], tags: list[str], heads: list[int] | None) -> Iterator[str]:
    for word, tag in zip(words, tags, strict=True):
        yield f"{word} {tag}\n" if word.split() == [word] and tag.split() == [tag] else f"{word}\t{tag}\n"
    yield "\n"


def _slashes(words: list[str], tags: list[str], heads: list[int] | None) -> Iterator[str]:
    pairs = ([one.replace("\\", "\\\\").replace("/", "\\/") for one in pair] for pair in zip(words, tags, strict=True))
    yield " ".join("/".join(pair) for pair in pairs) + "\n"


def _conllu(column: str, words: list[str], tags: list[str], heads: list[int] | None) -> Iterator[str]:
    for number, (word, tag) in enumerate(zip(words, tags, strict=True), 1):
        yield row_of(number, word, tag, -1 if heads is None else heads[number - 1], column)
    yield "\n"
