"""Penn Treebank brackets: ``( (S (NP (DT the) (NN dog)) (VP (VBZ barks))) )``."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Unpack

from pyro_unsup.data.corpus import Corpus
from pyro_unsup.data.lines import CorpusBuilder, show
from pyro_unsup.data.opening import open_text
from pyro_unsup.data.options import Options

TRACE = "-NONE-"  # the tag of what is understood, not written
#: Tags of the Penn Treebank for what is not spoken as a word: punctuation, brackets and currency signs.
PUNCTUATION = (",", ".", ":", "``", "''", "-LRB-", "-RRB-", "$", "#")
NO_LABEL = "X"  # of a bracket that has none, nor one of the same words in it
DEPTH = 10_000  # open brackets, beyond which a file is taken for damaged
_TOKEN = re.compile(r"[()]|[^\s()]+")


def read_brackets(path: str | os.PathLike[str], labels: bool = False, **options: Unpack[Options]) -> Corpus:
    """Words, tags and brackets. A tree may span lines, and a line may hold several trees.

    Traces (``-NONE-``) go, and brackets left without a word with them. Tags lose their function tags (``NN-TMP``
    becomes ``NN``; ``-LRB-`` stays). The brackets are the distinct ones of two words or more: unary chains fall
    together, and the whole sentence is one of them.

    :param path: a file (plain, gzip, bzip2 or xz), or ``-`` for standard input.
    :param labels: keep the labels of brackets, too (``span_labels``), without their function tags. Of a unary chain it
        is the highest one; a bracket without a label has that of the bracket in it.
    :param options: see :class:`~pyro_unsup.data.options.Options`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pyro_unsup.data import read_brackets
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "small.mrg")
    ...     size = file.write_text("(S (NP (DT the) (NN dog)) (VP (VBZ barks)))")
    ...     corpus = read_brackets(file)
    >>> corpus.sentence_tags(0), corpus.spans.tolist()
    (['DT', 'NN', 'VBZ'], [[0, 2], [0, 3]])
    """
    builder = CorpusBuilder(path, **options)
    tree = _Tree(builder, labels)
    for number, line in open_text(path, builder.limits):
        for token in _TOKEN.findall(line):
            if token == "(":
                tree.open(number)
            elif token == ")":
                tree.close(number)
            else:
                tree.name(token, number)
    if tree.stack:
        open_here = f"this bracket and {len(tree.stack) - 1} in it are" if len(tree.stack) > 1 else "this bracket is"
        raise builder.error(f"{open_here} still open at the end of the file; add )", tree.stack[0].line)
    return builder.finish()


def short_tag_sequences(corpus: Corpus, max_length: int = 10, drop: Sequence[str] = PUNCTUATION) -> Corpus:
    """What grammar induction learns from: tags in the place of words, without punctuation, in short sentences.

    Sentences are measured after punctuation has gone. Brackets shrink to what is left of them.

    :param corpus: a tagged corpus, such as :func:`read_brackets` gives.
    :param max_length: tags in the longest sentence that is kept.
    :param drop: tags to leave out.

    >>> from pyro_unsup.data import short_tag_sequences, toy
    >>> short_tag_sequences(toy.sentences(1000, seed=7), max_length=6, drop=["PUNCT"]).sentence(0)
    ['PROPN', 'VERB', 'DET', 'NOUN', 'DET', 'NOUN']
    """
    return corpus.drop_tags(*drop).filter(max_length=max_length).tags_as_words().compact()


def plain_tag(tag: str) -> str:
    """A tag without its function tags.

    >>> from pyro_unsup.data.brackets import plain_tag
    >>> [plain_tag(tag) for tag in ("NN-TMP", "NP=2", "-LRB-", "PRP$")]
    ['NN', 'NP', '-LRB-', 'PRP$']
    """
    return tag if tag.startswith("-") else re.split("[-=]", tag, maxsplit=1)[0] or tag


class _Tree:
    """The tree at hand: a stack of open brackets over the words so far, never recursion."""

    def __init__(self, builder: CorpusBuilder, labels: bool) -> None:
        self.builder, self.labels = builder, labels
        self.stack: list[_Bracket] = []
        self.words: list[str] = []
        self.tags: list[str] = []
        self.lines: list[int] = []
        self.spans: dict[tuple[int, int], str] = {}

    def open(self, line: int) -> None:
        if self.stack:
            if self.stack[-1].has_word:
                raise self.builder.error(f"a bracket after the word of {self.stack[-1]}; expected )", line)
            self.stack[-1].has_brackets = True
            if len(self.stack) >= DEPTH:
                raise self.builder.error(f"more than {DEPTH:,} open brackets; is a ) missing?", line)
        self.stack.append(_Bracket(len(self.words), line))

    def name(self, token: str, line: int) -> None:
        if not self.stack:
            raise self.builder.error(f"{show(token)} outside of any bracket, expected (", line)
        top = self.stack[-1]
        if top.has_word or top.has_brackets:
            raise self.builder.error(f"{show(token)} inside {top}, expected one word or brackets, not both", line)
        if top.label is None:
            top.label = token
            return
        top.has_word = True
        if top.label != TRACE:
            self.words.append(token)
            self.tags.append(plain_tag(top.label))
            self.lines.append(line)
            if len(self.words) > self.builder.limits.max_sentence:
                raise self.builder.too_long(line)

    def close(self, line: int) -> None:
        if not self.stack:
            raise self.builder.error("a ) without its (", line)
        top = self.stack.pop()
        if not top.has_word and not top.has_brackets:
            raise self.builder.error(f"{top} is empty, expected a word or brackets in it", line)
        if len(self.words) - top.start > 1:
            span = top.start, len(self.words)
            self.spans[span] = self.spans.get(span, NO_LABEL) if top.label is None else plain_tag(top.label)
        if not self.stack:
            if self.words:
                spans = sorted(self.spans)
                names = [self.spans[span] for span in spans] if self.labels else None
                self.builder.add(self.words, self.lines, self.tags, spans=spans, span_labels=names)
            self.words, self.tags, self.lines, self.spans = [], [], [], {}


class _Bracket:
    __slots__ = ("has_brackets", "has_word", "label", "line", "start")

    def __init__(self, start: int, line: int) -> None:
        self.start, self.line = start, line  # start: words before it
        self.label: str | None = None
        self.has_word = self.has_brackets = False

    def __str__(self) -> str:
        return "a bracket without a label" if self.label is None else f"the bracket {show(self.label)}"
