"""CoNLL-U out: a corpus, or a CoNLL-U file again with other heads or other tags."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TextIO

import numpy as np

from pyro_unsup.data.arrays import IntArray, check_length
from pyro_unsup.data.conllu import DEPREL, DEPS, HEAD, ID, UPOS, XPOS, read_conllu, word_cells
from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.files import write_text
from pyro_unsup.data.lines import check_cell
from pyro_unsup.data.opening import open_text
from pyro_unsup.errors import InputError

#: Relations: of the root, of punctuation, of any other word, and of one whose head is not known.
ROOT, PUNCTUATION, OTHER, UNKNOWN = "root", "punct", "dep", "_"
#: The universal tag of punctuation. Universal Dependencies wants the relation ``punct`` for it.
PUNCT = "PUNCT"


def write_conllu(
    corpus: Corpus,
    heads: Any,  # (tokens,)
    out: str | os.PathLike[str] | TextIO,
    column: Literal["xpos", "upos"] = "xpos",
) -> None:
    """Write words, tags and heads. A file appears only when it is complete; :func:`.read_conllu` reads it back.

    The relation of the root is ``root``, that of words with the universal tag ``PUNCT`` is ``punct``, that of others
    ``dep``. A sentence without words is left out.

    :param heads: such as a parser predicts, 0 for the root and -1 (written ``_``) where not known: one root a
        sentence and no cycles. None for the corpus's own.
    :param out: a path, ``-`` for standard output, or an open text stream.
    :param column: that of the tags.

    >>> import sys
    >>> from pyro_unsup.data import Corpus, Vocab, write_conllu
    >>> corpus = Corpus([0, 1], [0, 2], Vocab(["cats", "sleep"]), [0, 1], Vocab(["NNS", "VBP"]))
    >>> write_conllu(corpus, [2, 0], sys.stdout)
    1  cats  _  _  NNS  _  2  dep  _  _
    2  sleep  _  _  VBP  _  0  root  _  _
    """
    if column not in ("xpos", "upos"):
        raise InputError(f"no column {column!r}, expected one of xpos, upos")
    if heads is None and corpus.heads is None:
        raise InputError("this corpus has no heads to write; give some")
    arcs = _checked(corpus, corpus.heads if heads is None else heads)
    tags = ["_"] * corpus.tokens if corpus.tags is None or corpus.tagset is None else corpus.tagset.decode(corpus.tags)
    for one in {*tags, *corpus.vocab.decode(np.unique(corpus.words))}:
        check_cell(one)
    with write_text(out) as stream:
        for i in np.flatnonzero(corpus.lengths).tolist():
            here = slice(int(corpus.offsets[i]), int(corpus.offsets[i + 1]))
            pairs = zip(corpus.sentence(i), tags[here], arcs[here].tolist(), strict=True)
            for number, (word, tag, head) in enumerate(pairs, 1):
                stream.write(row_of(number, word, tag, head, column))
            stream.write("\n")


def write_heads(
    source: str | os.PathLike[str] | Sequence[str],
    heads: Any,  # (tokens,)
    out: str | os.PathLike[str] | TextIO,
) -> None:
    """Write a CoNLL-U file again with other heads: all else stays, comments, ranges and empty nodes too.

    HEAD, DEPREL and DEPS of every word change. The relation of the root is ``root``, that of words with the universal
    tag ``PUNCT`` is ``punct``, that of others ``dep``. DEPS says the same where the sentence had enhanced dependencies
    or empty nodes, and is ``_`` elsewhere.

    :param source: the file, or its lines. It may be overwritten: it is read to its end before anything is written.
    :param heads: one a word of the file, 0 for the root and -1 (written ``_``) where not known: one root a sentence
        and no cycles. Where some words were not parsed, :func:`.spread_heads` finds heads for them.
    :param out: a path, ``-`` for standard output, or an open text stream.

    >>> import sys
    >>> from pyro_unsup.data import write_heads
    >>> columns = ["1 cats _ NNS _ _ 0 root _ _".split(), "2 sleep _ VBP _ _ 1 _ _ _".split()]
    >>> lines = ["# by hand", *(chr(9).join(row) for row in columns)]
    >>> write_heads(lines, [2, 0], sys.stdout)
    # by hand
    1  cats  _  NNS  _  _  2  dep  _  _
    2  sleep  _  VBP  _  _  0  root  _  _
    """
    lines, text = _source(source)
    pairs = zip(_checked(text, heads).tolist(), word_cells(lines, UPOS), strict=True)
    arcs = [_arc(head, tag == PUNCT) for head, tag in pairs]
    enhanced = np.repeat(_enhanced(lines), text.lengths).tolist()
    deps = [f"{head}:{relation}" if yes else UNKNOWN for (head, relation), yes in zip(arcs, enhanced, strict=True)]
    cells = [(*arc, more if arc[0] != UNKNOWN else UNKNOWN) for arc, more in zip(arcs, deps, strict=True)]
    with write_text(out) as stream:
        stream.writelines(_changed(lines, (HEAD, DEPREL, DEPS), cells))


def write_tags(
    source: str | os.PathLike[str] | Sequence[str],
    tags: Sequence[str],  # (tokens,)
    out: str | os.PathLike[str] | TextIO,
    column: Literal["xpos", "upos"] = "xpos",
) -> None:
    """Write a CoNLL-U file again with other tags in one column: all else stays, comments, ranges and empty nodes too.

    :param source: the file, or its lines. It may be overwritten: it is read to its end before anything is written.
    :param tags: one a word of the file.
    :param out: a path, ``-`` for standard output, or an open text stream.
    :param column: that of the tags.

    >>> import sys
    >>> from pyro_unsup.data import write_tags
    >>> columns = ["1 cats cat NOUN _ Number=Plur 2 nsubj _ _".split(), "2 sleep sleep VERB _ _ 0 root _ _".split()]
    >>> write_tags([chr(9).join(row) for row in columns], ["7", "3"], sys.stdout)
    1  cats  cat  NOUN  7  Number=Plur  2  nsubj  _  _
    2  sleep  sleep  VERB  3  _  0  root  _  _
    """
    if column not in ("xpos", "upos"):
        raise InputError(f"no column {column!r}, expected one of xpos, upos")
    lines, text = _source(source)
    if len(tags) != text.tokens:
        raise InputError(f"tags: expected {text.tokens}, one a word of the file, found {len(tags)}")
    for tag in set(tags):
        check_cell(tag)
    with write_text(out) as stream:
        stream.writelines(_changed(lines, (XPOS if column == "xpos" else UPOS,), [(tag,) for tag in tags]))


def _source(source: str | os.PathLike[str] | Sequence[str]) -> tuple[Sequence[str], Corpus]:
    """The lines of a CoNLL-U file, and the words in them."""
    if isinstance(source, str | os.PathLike):
        lines: Sequence[str] = [line for _, line in open_text(source)]
        return lines, read_conllu(source, None, allow_multiple_roots=True, lines=lines)
    return source, read_conllu("the source", None, allow_multiple_roots=True, lines=source)


def _enhanced(lines: Sequence[str]) -> list[bool]:
    """Whether each sentence has enhanced dependencies, as it must if it has empty nodes."""
    found: list[bool] = []
    inside = False
    for line in lines:
        if not line or line.isspace():
            inside = False
        elif line[0] != "#":
            if not inside:
                found.append(False)
                inside = True
            row = line.split("\t")
            found[-1] |= row[DEPS] != UNKNOWN or "." in row[ID]
    return found


def _changed(lines: Sequence[str], columns: tuple[int, ...], cells: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """The lines with other cells in some columns, one tuple a word."""
    left = iter(cells)
    ended = True
    for line in lines:
        ended = not line or line.isspace()
        row = [] if ended or line[0] == "#" else line.split("\t")
        if row and row[ID].isdecimal():
            for column, cell in zip(columns, next(left), strict=True):
                row[column] = cell
            line = "\t".join(row)
        yield f"{line}\n"
    if not ended:
        yield "\n"  # which belongs to every sentence


def row_of(number: int, word: str, tag: str, head: int, column: str) -> str:
    """The line of a word, of which no more is known than its tag, by its column, and perhaps its head."""
    both = f"{tag}\t_" if column == "upos" else f"_\t{tag}"
    arc = _arc(head, column == "upos" and tag == PUNCT)
    return "\t".join((str(number), word, "_", both, "_", *arc, "_", "_")) + "\n"


def _arc(head: int, punctuation: bool = False) -> tuple[str, str]:
    """HEAD and DEPREL of a word."""
    if head < 0:
        return UNKNOWN, UNKNOWN
    return str(head), (PUNCTUATION if punctuation else OTHER) if head else ROOT


def _checked(corpus: Corpus, heads: Any) -> IntArray:
    """Heads that make a tree of every sentence."""
    array = np.asarray(heads.detach().cpu() if hasattr(heads, "detach") else heads)
    check_length(array, corpus.tokens, "heads")
    found = replace(corpus, heads=array).heads  # in range, and no cycles
    assert found is not None
    owner = np.repeat(np.arange(len(corpus)), corpus.lengths)
    roots, unknown = (np.bincount(owner[some], minlength=len(corpus)) for some in (found == 0, found < 0))
    # In a tree that is known in part, the root may be among the unknown.
    bad = np.flatnonzero((roots > 1) | ((roots == 0) & (unknown == 0) & (corpus.lengths > 0)))
    if bad.size:
        raise InputError(f"the heads of sentence {bad[0]} have {roots[bad[0]]} roots, expected one")
    return found
