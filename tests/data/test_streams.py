"""Texts a few examples at a time: where they are cut, when they are read, and which lines errors name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyro_unsup.data import (
    Corpus,
    Vocab,
    blocks,
    read_bitext,
    read_brackets,
    read_conllu,
    read_documents,
    read_lines,
    read_segmented,
    read_tagged,
    toy,
    write_brackets,
    write_tagged,
)
from pyro_unsup.data.opening import Block
from pyro_unsup.data.segmented import has_symbols
from pyro_unsup.data.streams import Cut, by_gap, by_line, by_tree, each_line
from pyro_unsup.errors import InputError

TEXT = toy.sentences(23, seed=2)


def put(path: Path, format: str) -> tuple[Any, Cut]:
    """A text in some format, its reader, and how it is cut."""
    if format == "brackets":
        write_brackets(TEXT, None, path)
        return read_brackets, by_tree
    if format == "lines":
        path.write_text("".join(f"\n{' '.join(TEXT.sentence(i))}\n" for i in range(len(TEXT))))
        return read_lines, by_line
    write_tagged(TEXT, None, path, format)  # type: ignore[arg-type]
    if format == "conllu":
        return read_conllu, partial(by_gap, comment="#")
    return partial(read_tagged, form=format), by_line if format == "slashes" else by_gap


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("format", ["lines", "columns", "slashes", "conllu", "brackets"])
def test_blocks_hold_the_same_sentences_as_the_whole(tmp_path: Path, format: str, size: int) -> None:
    reader, cut = put(tmp_path / "text", format)
    parts = [reader(block, vocab=TEXT.vocab) for block in blocks(tmp_path / "text", size, cut)]
    assert [len(part) for part in parts] == [min(size, 23 - at) for at in range(0, 23, size)]
    assert np.array_equal(np.concatenate([part.words for part in parts]), TEXT.words)
    assert np.array_equal(np.concatenate([part.lengths for part in parts]), TEXT.lengths)


def cuts(cut: Cut, text: str, size: int = 1) -> list[list[int]]:
    """The numbers of the lines in each block."""
    lines = enumerate(text.split("\n"), 1)
    return [[number for number, _ in block.lines] for block in blocks("text", size, cut, lines)]


def test_where_texts_are_cut() -> None:
    assert cuts(by_line, "a\n\n \nb\nc", 2) == [[1, 4], [5]]
    assert cuts(each_line, "a\n\nb", 2) == [[1, 2], [3]]
    assert cuts(by_gap, "\n\na\nb\n\n\nc") == [[3, 4, 4], [7, 7]]
    assert cuts(partial(by_gap, comment="#"), "# one\na\n\n# nothing\n\n# two\nb\n\n") == [[1, 2, 2], [6, 7, 7]]
    assert cuts(by_tree, "(S (A a)\n   (B b))\n\n(A a) (A b)\n(S\n (A a)") == [[1, 2], [4], [5, 6]]
    assert cuts(partial(by_line, counts=partial(has_symbols, word_sep="/", symbol_sep="-")), "a-b/c\n/-/\nc") == [
        [1],
        [3],
    ]
    assert cuts(by_line, "\n\n") == cuts(by_gap, "\n\n") == cuts(by_tree, "\n") == []


def test_a_sentence_without_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyro_unsup.data.streams.MOST_LINES", 5)
    for cut, line in ((by_gap, "a N"), (by_tree, "(S")):
        read: list[int] = []

        def lines(line: str = line, read: list[int] = read) -> Iterator[tuple[int, str]]:
            for number in range(1, 100):
                read.append(number)
                yield number, line

        next(blocks("text", 1, cut, lines()))
        assert len(read) < 10


@pytest.mark.parametrize(
    ("read", "cut", "text", "message"),
    [
        (read_lines, by_line, "a\nb\nc\n", "text:3: the word 'c' is not in the given set of 2"),
        (read_tagged, by_gap, "a A\n\nb B\nc A\n", "text:4: the word 'c' is not in the given set of 2"),
        (read_conllu, by_gap, "1\ta\n", "text:1: expected 10 tab-separated columns, found 2"),
        (read_brackets, by_tree, "(A a)\n(B b\n", "text:2: this bracket is still open at the end of the file; add )"),
        (read_segmented, by_line, "ab\nabc\n", "text:2: the word 'c' is not in the given set of 2"),
        (read_documents, each_line, "a\n\nb\n", "text:2: an empty document, expected at least one word; drop it, or"),
    ],
)
def test_errors_name_the_lines_of_the_text(read: Any, cut: Cut, text: str, message: str) -> None:
    options = {} if read is read_documents else {"vocab": Vocab(["a", "b"])}
    found = blocks("text", 1, cut, enumerate(text.splitlines(), 1))
    with pytest.raises(InputError) as error:
        list(map(partial(read, **options), found))
    assert str(error.value).startswith(message)


def test_pairs_of_sentences() -> None:
    vocabs = {"source_vocab": Vocab(["a"]), "target_vocab": Vocab(["b"])}
    lines = enumerate(["a ||| b", "a a ||| b", "a ||| b b", "a |||"], 1)
    found = blocks("text", 2, each_line, lines)
    assert read_bitext(next(found), **vocabs).source.lengths.tolist() == [1, 2]
    with pytest.raises(InputError, match="text:4: the target side is empty, expected at least one word; drop the pair"):
        read_bitext(next(found), **vocabs)


def test_a_pipe_is_read_as_it_comes_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block is there before anything after it has been written."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as stdin, os.fdopen(writing, "wb", buffering=0) as pipe:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stdin))
        found = blocks("-", 2)
        for number in range(3):
            pipe.write(b"a word\n" * 2 + b"half a")
            block = next(found)
            assert [line for _, line in block.lines] == ["half aa word" if number else "a word", "a word"]
        pipe.close()
        assert [block.lines for block in found] == [[(7, "half a")]]


def test_a_block_is_named_as_its_text() -> None:
    block = Block("-", [(3, "a b")])
    assert (str(block), os.fspath(block)) == ("-", "-")
    assert isinstance(read_lines(block), Corpus)
