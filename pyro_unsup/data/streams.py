"""A text, a few examples at a time: for long or endless streams."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from pyro_unsup.data.opening import LIMITS, Block, Limits, open_text

#: What a stream is read with: any amount of text, in lines of the usual length.
ENDLESS = Limits(max_bytes=sys.maxsize)
#: Lines of one sentence, beyond which its end is not waited for.
MOST_LINES = 2 * LIMITS.max_sentence

Line = tuple[int, str]
#: Cuts lines into examples.
Cut = Callable[[Iterable[Line]], Iterator[list[Line]]]


def each_line(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Every line is an example, even an empty one: pairs of sentences, documents."""
    return ([line] for line in lines)


def by_line(lines: Iterable[Line], counts: Callable[[str], object] = str.strip) -> Iterator[list[Line]]:
    """Every line is an example unless it is blank, or does not count."""
    return ([(number, line)] for number, line in lines if counts(line))


def by_gap(lines: Iterable[Line], comment: str | None = None) -> Iterator[list[Line]]:
    """Blank lines separate the examples: a word a line, as in columns and CoNLL-U."""
    found: list[Line] = []
    words = 0
    for number, line in chain(lines, [(0, "")]):
        blank = not line.strip()
        if words and (blank or len(found) > MOST_LINES):
            yield [*found, (found[-1][0], "")]
        if blank or len(found) > MOST_LINES:
            found, words = [], 0
        if not blank:
            found.append((number, line))
            words += comment is None or not line.startswith(comment)


def by_tree(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """A line ends an example if it closes all brackets that are open."""
    found: list[Line] = []
    depth = 0
    for number, line in lines:
        if line.strip():
            found.append((number, line))
            depth += line.count("(") - line.count(")")
        if found and (depth <= 0 or len(found) > MOST_LINES):
            yield found
            found, depth = [], 0
    if found:
        yield found


def blocks(
    path: str | os.PathLike[str], size: int, cut: Cut = by_line, lines: Iterable[Line] | None = None
) -> Iterator[Block]:
    """Cut a text into blocks of so many examples, each of which any reader takes for a file of its own.

    A block is given as soon as a pipe has held it, and nothing of it is kept; the last one may be short. Errors name
    the lines of the whole text. The vocabulary has to be given, for it could not grow from block to block::

        engine.run_stream(read_lines(block, vocab=vocab) for block in blocks("-", 100))

    :param path: a file (plain, gzip, bzip2 or xz), or ``-`` for standard input.
    :param cut: what an example is: :func:`by_line`, :func:`each_line`, :func:`by_gap`, :func:`by_tree`.
    :param lines: the lines of the text with their numbers, if it is open already.
    :param size: examples in a block, at most.

    >>> from pyro_unsup.data import Vocab, blocks, read_lines
    >>> text = enumerate(["a b", "", "b", "a a"], 1)
    >>> for block in blocks("text", 2, lines=text):
    ...     print(block.lines, read_lines(block, vocab=Vocab(["a", "b"])).words)
    [(1, 'a b'), (3, 'b')] [0 1 1]
    [(4, 'a a')] [0 0]
    """
    examples = cut(open_text(path, ENDLESS) if lines is None else lines)
    while some := list(chain.from_iterable(islice(examples, size))):
        yield Block(os.fspath(path), some)
