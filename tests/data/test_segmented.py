"""Lines with gold spaces, in and out."""

from __future__ import annotations

import gzip
import io
import sys
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data import Corpus, Limits, Segmented, Vocab, read_segmented, toy, write_segmented
from pyro_unsup.errors import InputError

WORDS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=5)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_gold_spaces_are_noted_and_removed(tmp_path: Path) -> None:
    text = read_segmented(written(tmp_path, "yu want\n\n  6 \t dOgi \nyu\n"))
    assert repr(text) == "Segmented(3 sentences, 13 symbols, 5 words)"
    assert text.word_lengths.tolist() == [2, 4, 1, 4, 2]
    with pytest.raises(InputError, match="this text has no gold words; read one that has"):
        Segmented(text.symbols).word_lengths  # noqa: B018
    assert [text.symbols.sentence(i) for i in range(3)] == [list("yuwant"), list("6dOgi"), list("yu")]
    assert np.flatnonzero(text.ends).tolist() == [1, 5, 6, 10, 12]
    assert text.lines() == ["yu want", "6 dOgi", "yu"]
    assert text.vocab.types == tuple("yuwant6dOgi")
    assert (len(text), text.tokens, text.lengths.tolist()) == (3, 13, [6, 5, 2])


def test_lines_without_gold(tmp_path: Path) -> None:
    text = read_segmented(written(tmp_path, "yuwant\n6 dOgi\n"), gold=False)
    assert repr(text) == "Segmented(2 sentences, 11 symbols, no gold)"
    assert text.ends is None
    assert text.symbols.sentence(1) == list("6dOgi")
    with pytest.raises(InputError, match="this text has no gold words; give the ends of some"):
        text.lines()
    assert text.lines(np.ones(11, bool))[0] == "y u w a n t"


def test_symbols_of_several_characters(tmp_path: Path) -> None:
    path = written(tmp_path, "hh ih | dh  eh r\n|ow |\n")
    text = read_segmented(path, symbol_sep=" ", word_sep="|")
    assert text.symbols.sentence(0) == ["hh", "ih", "dh", "eh", "r"]
    assert text.ends.tolist() == [False, True, False, False, True, True]
    dots = read_segmented(written(tmp_path, "hh.ih dh.eh.r\now\n"), symbol_sep=".")
    assert dots == text
    assert text.lines(word_sep=" ", symbol_sep=".") == ["hh.ih dh.eh.r", "ow"]
    out = tmp_path / "out.txt"
    write_segmented(text, None, out, word_sep=" | ", symbol_sep=" ")
    assert out.read_text() == "hh ih | dh eh r\now\n"
    assert read_segmented(out, symbol_sep=" ", word_sep="|") == text


def test_packed_files_standard_input_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"Ab a\r\nba\r\n"))
    lower = read_segmented(path, lowercase=True)
    assert lower.vocab.types == ("a", "b")
    assert lower.lines() == ["ab a", "ba"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ab a\nba\n")))
    assert read_segmented("-") == lower
    known = read_segmented(path, vocab=Vocab(["a", "?"], unknown="?"))
    assert known.lines() == ["?? a", "?a"]


@settings(max_examples=50, deadline=None, derandomize=True)
@given(lines=st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_what_is_written_is_read_again(lines: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n".join(" ".join(words) for words in lines), encoding="utf-8")
    text = read_segmented(path)
    assert [line.split(" ") for line in text.lines()] == lines
    stream = io.StringIO()
    write_segmented(text, text.ends.astype(np.int64), stream)
    assert stream.getvalue() == "".join(" ".join(words) + "\n" for words in lines)


def test_predicted_ends_are_written(tmp_path: Path) -> None:
    text = read_segmented(written(tmp_path, "abc\nab\n"), gold=False)
    out = tmp_path / "out.txt"
    write_segmented(text, [0, 1, 1, 1, 1], out)
    assert out.read_text() == "ab c\na b\n"
    write_segmented(text.symbols, np.array([1, 0, 1, 0, 1]), out)
    assert out.read_text() == "a bc\nab\n"


def test_select_and_with_vocab(tmp_path: Path) -> None:
    text = read_segmented(written(tmp_path, "a bc\nab\nc a\n"))
    assert text.select([2, 0]).lines() == ["c a", "a bc"]
    assert text.select(np.array([False, True, True])).lines() == ["ab", "c a"]
    assert len(text.select([])) == 0
    assert Segmented(text.symbols).select([1]).ends is None
    other = text.with_vocab(Vocab(["c", "b", "a"]))
    assert other.lines() == text.lines()
    assert other.words.tolist() != text.words.tolist()
    assert text != other
    assert text == text.select([0, 1, 2])
    assert text != Segmented(text.symbols)
    assert text != "text"


def test_toy_utterances_fit_in() -> None:
    heard = toy.utterances(5, seed=7)
    assert Segmented(heard.phonemes, heard.ends).lines() == heard.segmented
    assert heard == Segmented(heard.phonemes, heard.ends)
    assert heard.select([2, 0]).lines() == [heard.segmented[2], heard.segmented[0]]


def test_empty_sentences_have_empty_lines() -> None:
    text = Segmented(Corpus([0, 0], [0, 0, 1, 1, 2, 2], Vocab(["a"])), np.array([True, True]))
    assert text.lines() == ["", "a", "", "a", ""]


def test_errors_in_files(tmp_path: Path) -> None:
    path = written(tmp_path, "ab\nabc abcde a\n")
    for options, message in (
        ({"max_segment": 4}, ":2: a word of 5 symbols, 'abcde', expected at most 4; allow longer segments"),
        (
            {"limits": Limits(max_sentence=8)},
            ":2: a line of more than 8 symbols; break the line (in Python, or raise Limits.max_sentence)",
        ),
        (
            {"vocab": Vocab(["a", "b"])},
            ":2: the word 'c' is not in the given set of 2; use a vocabulary with an unknown",
        ),
        ({"symbol_sep": ""}, ": symbol_sep is empty, expected at least one character, or None for the default"),
        ({"word_sep": ""}, ": word_sep is empty"),
        ({"symbol_sep": " "}, ": words and symbols have the same separator, expected two different ones; set word_sep"),
        ({"symbol_sep": "|", "word_sep": "|"}, ": words and symbols have the same separator"),
    ):
        with pytest.raises(InputError) as error:
            read_segmented(path, **options)
        assert str(error.value).startswith(f"{path}{message}")
    assert read_segmented(path, max_segment=5).tokens == 11
    assert read_segmented(path, gold=False, max_segment=4).tokens == 11
    with pytest.raises(InputError, match="no sentence in it, expected at least one"):
        read_segmented(written(tmp_path, "\n \n"))
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_segmented(tmp_path / "nowhere")


def test_errors_in_arrays() -> None:
    corpus = Corpus([0, 1, 0], [0, 2, 3], Vocab(["a", "b c"]))
    for ends, message in (
        (np.array([0, 1, 1]), "ends: expected truth values, one a symbol, found int64"),
        (np.array([True]), "ends: expected shape (3,), found (1,)"),
        (np.array([True, True, False]), "ends: expected a word to end with every sentence, found none at that of 1"),
    ):
        with pytest.raises(InputError) as error:
            Segmented(corpus, ends)
        assert str(error.value) == message
    text = Segmented(corpus)
    with pytest.raises(InputError, match="expected 1 where a word ends and 0 elsewhere, found another number"):
        text.lines([-1, -1, 1])
    with pytest.raises(InputError, match=r"ends: expected shape \(3,\), found \(2,\)"):
        text.lines([1, 1])
    for names, options in ((["a", "b c"], {}), (["a", "bc"], {}), (["a", "b-c"], {"symbol_sep": "-"})):
        named = Segmented(Corpus([0, 1, 0], [0, 2, 3], Vocab(names)))
        with pytest.raises(InputError, match=rf"the symbol '{names[1]}' could not be told apart from its neighbours"):
            write_segmented(named, [1, 1, 1], io.StringIO(), **options)


VIETNAMESE = "tiê\u0301ng viê\u0323t"  # decomposed: an accent is a code point of its own
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467 ok"


@pytest.mark.parametrize(("text", "symbols"), [(VIETNAMESE, 9), (FAMILY, 3), ("中文 字", 3), ("re\u0301sume\u0301", 6)])
def test_what_people_take_for_one_character_is_one_symbol(text: str, symbols: int, tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text(text + "\n", encoding="utf-8")
    found = read_segmented(file)
    assert found.tokens == symbols
    assert found.lines() == [" ".join(text.split())]
    write_segmented(found, np.ones(symbols, int), tmp_path / "cut.txt")
    pieces = (tmp_path / "cut.txt").read_text(encoding="utf-8").split()
    assert len(pieces) == symbols
    assert not any(unicodedata.combining(piece[0]) for piece in pieces)


def test_code_points_are_symbols_if_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "text.txt"
    file.write_text(VIETNAMESE + "\n", encoding="utf-8")
    assert read_segmented(file, symbols="characters").tokens == len(VIETNAMESE.replace(" ", ""))
    with pytest.raises(InputError, match="symbols: expected graphemes or characters, found 'bytes'"):
        read_segmented(file, symbols="bytes")  # type: ignore[arg-type]
