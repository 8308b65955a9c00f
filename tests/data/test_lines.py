"""Plain text, and the reader chosen by the name of the file."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest

import pyro_unsup.data as data
from pyro_unsup.data import Limits, Vocab, read_lines
from pyro_unsup.data.lines import show
from pyro_unsup.errors import InputError


def put(tmp_path: Path, text: str, name: str = "text.txt") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_a_line_is_a_sentence(tmp_path: Path) -> None:
    corpus = read_lines(put(tmp_path, "the dog  barks\n\n \t\n語\u3000です\n"))
    assert [corpus.sentence(i) for i in range(len(corpus))] == [["the", "dog", "barks"], ["語", "です"]]
    assert (corpus.tags, corpus.heads, corpus.spans) == (None, None, None)


def test_options(tmp_path: Path) -> None:
    path = put(tmp_path, "The the cat\nA cat\n")
    corpus = read_lines(path, lowercase=True, min_count=2, unknown="?")
    assert corpus.vocab == Vocab(["the", "cat", "?"], unknown="?")
    assert corpus.words.tolist() == [0, 0, 1, 2, 1]
    assert read_lines(path, vocab=corpus.vocab).words.tolist() == [2, 0, 1, 2, 1]
    with pytest.raises(InputError) as error:
        read_lines(path, vocab=Vocab(["The", "the", "cat"]))
    fix = "use a vocabulary with an unknown symbol"
    assert str(error.value) == f"{path}:2: the word 'A' is not in the given set of 3; {fix}"
    with pytest.raises(InputError, match="1: a sentence of more than 2 words"):
        read_lines(path, limits=Limits(max_sentence=2))
    with pytest.raises(InputError, match=r"text\.txt: no sentence in it, expected at least one$"):
        read_lines(put(tmp_path, "\n\n"))


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=BytesIO(b"a b\n")))
    assert read_lines("-").sentence(0) == ["a", "b"]


def test_foreign_text_is_shown_short() -> None:
    assert show("a\nb") == "'a\\nb'"
    assert len(show("x" * 10_000)) < 100


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.conllu", "1\tx\t_\t_\tN\t_\t0\t_\t_\t_\n", ["x"]),
        ("a.CONLL", "1\tx\t_\t_\tN\t_\t0\t_\t_\t_\n", ["x"]),
        ("a.b.mrg", "(S (N x) (V y))", ["x", "y"]),
        ("a.pos", "x/N y/V\n", ["x", "y"]),
        ("a.tsv", "x\tN\ny\tV\n", ["x", "y"]),
        ("a.txt", "x y\n", ["x", "y"]),
    ],
)
@pytest.mark.parametrize("packing", ["", ".gz", ".bz2", ".xz"])
def test_read_goes_by_the_name(tmp_path: Path, name: str, text: str, words: list[str], packing: str) -> None:
    corpus = data.read(put(tmp_path, text, name + packing))  # the content tells whether it is packed, not the name
    assert corpus.sentence(0) == words


def test_read_asks_for_a_format(tmp_path: Path) -> None:
    path = put(tmp_path, "x N\n", "corpus")
    with pytest.raises(InputError) as error:
        data.read(path)
    which = "conllu, brackets, tagged, lines"
    assert str(error.value) == f"{path}: cannot tell the format from the name; give one of {which}"
    with pytest.raises(InputError, match=r"^-: cannot tell the format from the name"):
        data.read("-")
    with pytest.raises(InputError, match=f"no format 'xml', expected auto or one of {which}"):
        data.read(path, format="xml")  # type: ignore[arg-type]
    assert data.read(path, format="tagged", lowercase=True).sentence_tags(0) == ["N"]
    assert data.read(path, format="lines").sentence(0) == ["x", "N"]


def test_submodules_come_when_asked_for() -> None:
    with pytest.raises(AttributeError, match=r"module 'pyro_unsup\.data' has no attribute 'nonsense'"):
        data.nonsense  # noqa: B018


@pytest.mark.parametrize(
    ("name", "sentences", "tokens", "types"),
    [("br-phono.txt", 9790, 33399, 1321), ("zh/pku199801.seg.txt.xz", 19484, 1121447, None)],
)
def test_real_text(real_data: Path, name: str, sentences: int, tokens: int, types: int | None) -> None:
    corpus = read_lines(real_data / name)
    assert (len(corpus), corpus.tokens) == (sentences, tokens)
    assert types is None or len(corpus.vocab) == types
