"""Trees out: brackets of a corpus as text in the style of the Penn Treebank, or as trees of nltk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

import numpy as np

from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.files import write_text
from pyro_unsup.data.lines import show
from pyro_unsup.data.spans import Rows, bracket_rows, check_nested, tidy_rows
from pyro_unsup.errors import InputError

LABEL = "X"  # of a constituent that has no name
NO_TAG = "_"  # of a word that has no tag
_ESCAPES = str.maketrans({"(": "-LRB-", ")": "-RRB-"})  # as the Penn Treebank spells them


def write_brackets(
    corpus: Corpus,
    brackets: Any,  # (brackets, 3)
    out: str | os.PathLike[str] | TextIO,
    label: str | Sequence[str] = LABEL,
    space: str | None = None,
) -> None:
    """Write one tree a line: ``(X (DT the) (X (NN dog) (VBZ barks)))``. A file appears only when it is complete.

    Every sentence gets a bracket around it; one without words is a blank line. Round brackets in words and tags are
    spelled ``-LRB-`` and ``-RRB-``. :func:`.read_brackets` reads it back: words, tags and brackets of two words or more
    are the same.

    :param brackets: rows (sentence, start, end), such as a parser predicts; None for the corpus's own.
    :param out: a path, ``-`` for standard output, or an open text stream.
    :param label: what the constituents are called: one name for all, or one for each of ``brackets``. Of two for one
        bracket the last is taken.
    :param space: what to write for white space inside a word, such as ``_``. By default it is an error, for trees could
        not be read back.

    >>> import sys
    >>> from pyro_unsup.data import Corpus, Vocab, write_brackets
    >>> corpus = Corpus([0, 1, 2], [0, 3], Vocab(["the", "dog", "barks"]), [0, 1, 2], Vocab(["DT", "NN", "VBZ"]))
    >>> write_brackets(corpus, [[0, 0, 2]], sys.stdout)
    (X (X (DT the) (NN dog)) (VBZ barks))
    """
    rows = _rows(corpus, brackets)
    named = _named(brackets, label)
    names = [] if corpus.tags is None or corpus.tagset is None else corpus.tagset.decode(np.unique(corpus.tags))
    used = corpus.vocab.decode(np.unique(corpus.words))
    for one in (
        *dict.fromkeys(named.values()),
        *names,
        *(used if space is None else (space.join(word.split()) for word in used)),
    ):
        if one.split() != [one] or "\0" in one:
            raise InputError(f"{show(one)} cannot be written in brackets, expected text without white space; rename it")

    def spelt(word: str) -> str:
        return (word if space is None else space.join(word.split())).translate(_ESCAPES)

    with write_text(out) as stream:
        for words, tags, opening, closing in _sentences(corpus, rows, named):
            pieces = (
                "".join(f"({one.translate(_ESCAPES)} " for one in before)
                + f"({tag.translate(_ESCAPES)} {spelt(word)})"
                + ")" * after
                for word, tag, before, after in zip(words, tags, opening, closing, strict=True)
            )
            stream.write(" ".join(pieces) + "\n")


def nltk_trees(corpus: Corpus, brackets: Any = None, label: str | Sequence[str] = LABEL) -> list[Any]:
    """One ``nltk.Tree`` a sentence, to be drawn, transformed or printed. Words without tags are leaves themselves.

    :param corpus: the words, and their tags if it has some.
    :param brackets: rows (sentence, start, end), such as a parser predicts; None for the corpus's own.
    :param label: what the constituents are called: one name for all, or one for each of ``brackets``.

    >>> from pyro_unsup.data import Corpus, Vocab, nltk_trees
    >>> corpus = Corpus([0, 1, 2], [0, 3], Vocab(["the", "dog", "barks"]))
    >>> print(nltk_trees(corpus, [[0, 0, 2]])[0])
    (X (X the dog) barks)
    """
    try:
        from nltk.tree import Tree  # type: ignore[import-untyped]
    except ImportError:
        raise InputError("trees of nltk need nltk; install it (pip install nltk)") from None
    trees = []
    named = _named(brackets, label)
    for words, tags, opening, closing in _sentences(corpus, _rows(corpus, brackets), named):
        stack: list[tuple[str, list[Any]]] = [("", [])]
        for word, tag, before, after in zip(words, tags, opening, closing, strict=True):
            stack += [(one, []) for one in before]
            stack[-1][1].append(word if corpus.tags is None else Tree(tag, [word]))
            for _ in range(after):
                node = Tree(*stack.pop())
                stack[-1][1].append(node)
        trees.append(stack[0][1][0] if words else Tree(named[None], []))
    return trees


def _named(brackets: Any, label: str | Sequence[str]) -> dict[Any, str]:
    """The name of each bracket, as a row, and of all others, under None."""
    if isinstance(label, str):
        return {None: label}
    rows = [] if brackets is None else [tuple(row) for row in np.asarray(brackets).reshape(-1, 3).tolist()]
    if len(rows) != len(label):
        raise InputError(f"expected one label for each of the {len(rows)} brackets, actual {len(label)} labels")
    return {None: LABEL, **dict(zip(rows, label, strict=True))}


def _rows(corpus: Corpus, brackets: Any) -> Rows:
    rows = tidy_rows(bracket_rows(corpus) if brackets is None else brackets, corpus.lengths, "brackets")
    check_nested(rows, corpus.lengths, "brackets")
    return rows


def _sentences(
    corpus: Corpus, rows: Rows, named: dict[Any, str]
) -> Iterator[tuple[list[str], Sequence[str], list[list[str]], list[int]]]:
    """Words and tags of each sentence, the names of the brackets that open before each word, and how many close."""
    inner = rows[rows[:, 2] - rows[:, 1] < corpus.lengths[rows[:, 0]]]
    inner = inner[np.lexsort((-inner[:, 2], inner[:, 1], inner[:, 0]))]  # the wider opens first
    ends = np.searchsorted(inner[:, 0], np.arange(len(corpus) + 1))
    for i in range(len(corpus)):
        words = corpus.sentence(i)
        tags = [NO_TAG] * len(words) if corpus.tags is None else corpus.sentence_tags(i)
        opening: list[list[str]] = [[] for _ in words]
        closing = [0] * len(words)
        whole = [(i, 0, len(words))] if words else []  # around every sentence
        for row in (*whole, *map(tuple, inner[ends[i] : ends[i + 1]].tolist())):
            opening[row[1]].append(named.get(row, named[None]))
            closing[row[2] - 1] += 1
        yield words, tags, opening, closing
