"""Links: read, written, read again, and refused with file and line."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data import Bitext, Corpus, Links, Vocab, read_links, write_links
from pyro_unsup.errors import InputError

A = Vocab(["a"])
#: Three pairs, of 2, 1, 3 source words and 1, 2, 2 target words.
BITEXT = Bitext(Corpus([0] * 6, [0, 2, 3, 6], A), Corpus([0] * 5, [0, 1, 3, 5], A))
LINKS = Links(3, [[0, 1, 0], [2, 0, 1], [2, 2, 0]], [True, False, True])


def put(tmp_path: Path, text: str, name: str = "links") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("1 2 1 S\n3 3 1 S\n3 1 2 P\n", "wa"),
        ("0001 2 1\n\n0003 1 2 P 0.7\n0003 3 1 1.0\n", "wa"),
        ("1-0\n\n0?1 2-0\n", "pharaoh"),
        ("1-0\n \n2-0 0?1 2?0", "pharaoh"),
    ],
)
def test_two_formats(tmp_path: Path, text: str, format: str) -> None:
    path = put(tmp_path, text)
    assert read_links(path, BITEXT) == LINKS
    assert read_links(path, BITEXT, format) == LINKS  # type: ignore[arg-type]


def test_written_and_read_again(tmp_path: Path) -> None:
    for format, text in (("wa", "1 2 1 S\n3 1 2 P\n3 3 1 S\n"), ("pharaoh", "1-0\n\n0?1 2-0\n")):
        out = StringIO()
        write_links(LINKS, out, format)  # type: ignore[arg-type]
        assert out.getvalue() == text
        write_links(LINKS, tmp_path / "out", format)  # type: ignore[arg-type]
        assert read_links(tmp_path / "out", BITEXT) == LINKS
    none = Links(3, [])
    write_links(none, tmp_path / "out")
    assert (tmp_path / "out").read_text() == "\n\n\n"
    assert read_links(tmp_path / "out", BITEXT) == none
    with pytest.raises(InputError, match="no format 'xml', expected wa or pharaoh"):
        write_links(LINKS, tmp_path / "out", "xml")  # type: ignore[arg-type]


def test_links_are_sorted_and_counted_once() -> None:
    links = Links(2, [[1, 1, 1], [0, 3, 2], [1, 1, 1], [0, 3, 1]], [False, False, True, False])
    assert links.rows.tolist() == [[0, 3, 1], [0, 3, 2], [1, 1, 1]]
    assert links.sure.tolist() == [False, False, True]
    assert links.offsets.tolist() == [0, 2, 3]
    assert repr(links) == "Links(2 pairs, 1 sure, 2 possible)"
    assert links != LINKS
    some = links.select([1, 0, 1])
    assert some.rows.tolist() == [[0, 1, 1], [1, 3, 1], [1, 3, 2], [2, 1, 1]]
    assert links.select([False, True]).rows.tolist() == [[0, 1, 1]]
    assert len(links.select(np.array([], np.int64))) == 0


def test_which_pairs_are_annotated(tmp_path: Path) -> None:
    """A .wa names the pairs that it is about; Pharaoh has a line for each pair."""
    some = read_links(put(tmp_path, "1 2 1 S\n3 3 1 P\n"), BITEXT)
    assert some.annotated.tolist() == [True, False, True]
    assert read_links(put(tmp_path, "1-0\n\n2-0\n"), BITEXT).annotated.tolist() == [True, True, True]
    assert Links(3, some.rows, some.sure).annotated.tolist() == [True, True, True]
    assert some == Links(3, some.rows, some.sure)  # the same links
    assert some.select([2, 1]).annotated.tolist() == [True, False]
    assert some.select(some.annotated) == Links(2, [[0, 1, 0], [1, 2, 0]], [True, False])
    text = Bitext(BITEXT.source, BITEXT.target, some)
    assert text.turned().links.annotated.tolist() == [True, False, True]  # type: ignore[union-attr]
    assert repr(some) == "Links(3 pairs, 2 of them annotated, 1 sure, 1 possible)"
    with pytest.raises(InputError, match=r"annotated: expected shape \(3,\)"):
        Links(3, [], annotated=[True, False])
    with pytest.raises(InputError, match="a link of pair 1, which is said not to be annotated"):
        Links(2, [[1, 0, 0]], annotated=[True, False])


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("1 1 1 S\n4 1 1 S\n", 2, "sentence 4, expected 1 to 3, as in the bitext"),
        ("0 1 1 S\n", 1, "sentence 0, expected 1 to 3, as in the bitext"),
        ("1 3 1 S\n", 1, "source word 3 is out of range: sentence 1 has 2 words, counted from 1"),
        ("\n1 1 2 P\n", 2, "target word 2 is out of range: sentence 1 has 1 words, counted from 1"),
        ("1 0 1 S\n", 1, "source word 0 is out of range: sentence 1 has 2 words, counted from 1"),
        ("1 1 1 X\n", 1, "expected sentence, source word, target word and S or P, found '1 1 1 X'"),
        ("1 1\n", 1, "expected sentence, source word, target word and S or P, found '1 1'"),
        ("1 1 -1 S\n", 1, "expected three whole numbers and S or P, found '1 1 -1 S'"),
        ("1 1 \u0661 S\n", 1, "expected three whole numbers and S or P, found '1 1 \u0661 S'"),
        ("1-0\n2-0\n\n", 2, "source word 2 in '2-0' is out of range: this pair has 1, counted from 0"),
        ("1-1\n\n\n", 1, "target word 1 in '1-1' is out of range: this pair has 1, counted from 0"),
        ("1-0\n0:0\n\n", 2, "expected links like 0-0 or 0?1, found '0:0'"),
        ("1-0\n", 2, "expected a line for each of 3 pairs, found 1"),
        ("", 1, "expected a line for each of 3 pairs, found 0"),
        ("1-0\n\n\n\n", 4, "expected a line for each of 3 pairs, found more"),
    ],
)
def test_bad_links(tmp_path: Path, text: str, line: int, what: str) -> None:
    path = put(tmp_path, text)
    with pytest.raises(InputError) as error:
        read_links(path, BITEXT)
    assert str(error.value) == f"{path}:{line}: {what}"


def test_bad_arrays() -> None:
    with pytest.raises(
        InputError, match=r"links: expected integers of shape \(links, 3\), found int64 of shape \(2,\)"
    ):
        Links(2, np.array([0, 1]))
    with pytest.raises(InputError, match="expected pairs from 0 to 1 and places from 0, found pairs 2 to 2"):
        Links(2, [[2, 0, 0]])
    with pytest.raises(InputError, match=r"sure: expected shape \(1,\), found \(2,\)"):
        Links(2, [[1, 0, 0]], [True, False])
    with pytest.raises(InputError, match="a link to target word 1 of pair 0, which has 1 words; places count from 0"):
        Links(3, [[0, 0, 1]]).check(BITEXT)
    with pytest.raises(InputError, match=r"pairs of sentences of these links: expected shape \(2,\), found \(3,\)"):
        Links(2, []).check(BITEXT)
    with pytest.raises(InputError, match="no format 'x', expected auto, wa or pharaoh"):
        read_links("-", BITEXT, "x")  # type: ignore[arg-type]


def test_any_file_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "fuzz"

    @settings(max_examples=200, derandomize=True, deadline=None, database=None)
    @given(st.binary(max_size=40) | st.text("0123 -?SP\n.", max_size=40).map(str.encode))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        message = f"{path}:"
        try:
            read_links(path, BITEXT).check(BITEXT)
        except InputError as error:
            message = str(error)
        assert message.startswith(f"{path}:")
        assert "\n" not in message

    check()


def test_probabilities_are_written_beside_links_and_skipped_when_read(tmp_path: Path) -> None:
    text = Bitext.of([("a b c", "d e"), ("a", "b")])
    links = Links(2, [[0, 0, 1], [0, 2, 0], [1, 0, 0]], [True, False, True])
    for format, wanted in (
        ("pharaoh", "0-1:0.9700 2?0:1.0000\n0-0:0.0000\n"),
        ("wa", "1 1 2 S 0.9700\n1 3 1 P 1.0000\n2 1 1 S 0.0000\n"),
    ):
        write_links(links, tmp_path / format, format, [0.97, 1, 0])  # type: ignore[arg-type]
        assert (tmp_path / format).read_text() == wanted
        assert read_links(tmp_path / format, text) == links
    with pytest.raises(InputError, match="probabilities"):
        write_links(links, tmp_path / "x", "wa", [0.5, 0.5])
    with pytest.raises(InputError, match=r"probabilities lie between 0 and 1, found 0 to 1\.5"):
        write_links(links, tmp_path / "x", "wa", [0, 1.5, 1])
