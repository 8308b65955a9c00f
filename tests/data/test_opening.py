"""Opening text: plain and packed, within limits, with the line in every error."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data.opening import CHUNK, Limits, open_text
from pyro_unsup.errors import InputError

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}
PACKED = [name for name in PACKERS if name != "plain"]


def put(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "text"
    path.write_bytes(content)
    return path


def refused(path: Path, limits: Limits | None = None) -> InputError:
    with pytest.raises(InputError) as error:
        list(open_text(path, limits or Limits()))
    assert "\n" not in str(error.value)
    return error.value


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_are_numbered_and_stripped_of_their_ends(tmp_path: Path, packing: str, end: str) -> None:
    lines = ["first", "", "drittes Wörtchen 語 \x0b \u2028 \x85", "no end"]
    path = put(tmp_path, PACKERS[packing](end.join(lines).encode()))
    assert list(open_text(path)) == list(enumerate(lines, 1))
    path = put(tmp_path, PACKERS[packing](b"\xef\xbb\xbf" + (end.join(lines) + end).encode()))
    assert list(open_text(str(path))) == list(enumerate(lines, 1))


@pytest.mark.parametrize("packing", PACKERS)
def test_an_empty_file_has_no_lines(tmp_path: Path, packing: str) -> None:
    assert list(open_text(put(tmp_path, PACKERS[packing](b"")))) == []
    assert list(open_text(put(tmp_path, PACKERS[packing](b"\n")))) == [(1, "")]


@pytest.mark.parametrize("packing", PACKERS)
def test_long_texts_come_in_pieces(tmp_path: Path, packing: str) -> None:
    lines = [f"{number} {'é' * (number * 37 % 3001)}" for number in range(300)]  # lines straddle the chunks
    content = "\r\n".join(lines).encode()
    assert len(content) > 10 * CHUNK
    assert [line for _, line in open_text(put(tmp_path, PACKERS[packing](content)))] == lines


@pytest.mark.parametrize("packing", PACKED)
def test_packed_pieces_may_follow_each_other(tmp_path: Path, packing: str) -> None:
    pack = PACKERS[packing]
    path = put(tmp_path, pack(b"one\n") + bytes(4) + pack(b"") + pack(b"two\n") + bytes(8))
    assert list(open_text(path)) == [(1, "one"), (2, "two")]
    path = put(tmp_path, pack(b"one\n") + b"rubbish")
    error = refused(path)
    assert error.what == f"there are other bytes after the end of the {packing} data; fetch the file again"
    assert error.line == 2


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for pack in PACKERS.values():
        stream = io.BytesIO(pack(b"one\ntwo"))
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=stream))
        assert list(open_text("-")) == [(1, "one"), (2, "two")]
        assert not stream.closed
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"one\n\0")))
    with pytest.raises(InputError, match=r"^-:2: a NUL byte, expected UTF-8 text; is this a binary file\?$"):
        list(open_text("-"))
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=r"^-: there is no standard input; give a file$"):
        list(open_text("-"))


def test_a_text_may_begin_like_bzip2(tmp_path: Path) -> None:
    assert list(open_text(put(tmp_path, b"BZh is a word\n"))) == [(1, "BZh is a word")]


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"a\nb\0c\n", "a NUL byte, expected UTF-8 text; is this a binary file?"),
        (b"a\nb\xff\n", "byte 0xff is not UTF-8; convert the file to UTF-8 first"),
        (b"a\nlone \xed\xa0\x80 surrogate\n", "byte 0xed is not UTF-8; convert the file to UTF-8 first"),
        (b"a\nb\xc3", "byte 0xc3 is not UTF-8; convert the file to UTF-8 first"),
        (b"a\r\nold\rMac\n", "a bare carriage return, expected lines that end in LF or CRLF; convert them"),
        (
            b"a\n" + 2000 * b"x" + b"\nb",
            "a line of more than 1,000 bytes; break the line (in Python, or raise Limits.max_line)",
        ),
        (
            b"a\n" + 400 * "語".encode(),
            "a line of more than 1,000 bytes; break the line (in Python, or raise Limits.max_line)",
        ),
    ],
)
def test_bad_text_names_its_line(tmp_path: Path, packing: str, content: bytes, what: str) -> None:
    error = refused(put(tmp_path, PACKERS[packing](content)), Limits(max_line=1000))
    assert (error.what, error.line) == (what, 2)
    error = refused(put(tmp_path, PACKERS[packing](30000 * b"good\r\n" + content)), Limits(max_line=1000))
    assert (error.what, error.line) == (what, 30002)


def test_utf16_is_told_apart(tmp_path: Path) -> None:
    error = refused(put(tmp_path, "text\n".encode("utf-16")))
    assert (error.what, error.line) == ("UTF-16 text, expected UTF-8; convert it first (iconv -f UTF-16 -t UTF-8)", 1)


def test_a_line_without_end_is_stopped_early(tmp_path: Path) -> None:
    path = put(tmp_path, b"x" * (20 * CHUNK))
    assert (
        refused(path).what
        == "a line of more than 1,000,000 bytes; break the line (in Python, or raise Limits.max_line)"
    )
    ((_, line),) = open_text(path, Limits(max_line=20 * CHUNK))
    assert len(line) == 20 * CHUNK
    assert len(list(open_text(put(tmp_path, b"x" * 1000 + b"\r\n"), Limits(max_line=1000)))) == 1


@pytest.mark.parametrize("packing", PACKERS)
def test_too_much_text(tmp_path: Path, packing: str) -> None:
    path = put(tmp_path, PACKERS[packing](np.random.default_rng(0).bytes(100_000).hex().encode().replace(b"a", b"\n")))
    error = refused(path, Limits(max_bytes=100_000))
    assert error.what == "more than 100,000 bytes of text; split the file (in Python, or raise Limits.max_bytes)"
    assert error.line is not None
    assert error.line > 1


@pytest.mark.parametrize("packing", PACKED)
def test_a_bomb_is_stopped_early(tmp_path: Path, packing: str) -> None:
    text = b"spam\n" * 1_000_000
    path = put(tmp_path, PACKERS[packing](text))
    seen: list[int] = []
    with pytest.raises(InputError) as error:
        seen.extend(number for number, _ in open_text(path))
    what = f"{packing} data that grow more than 200 times look like a decompression bomb"
    assert error.value.what == f"{what}; unpack the file yourself if you trust it"
    assert 5 * len(seen) <= max(200 * path.stat().st_size, 1_000_000) < len(text)
    assert sum(1 for _ in open_text(path, Limits(max_ratio=100_000))) == 1_000_000


@pytest.mark.parametrize("packing", PACKED)
def test_small_repetitive_files_are_no_bombs(tmp_path: Path, packing: str) -> None:
    path = put(tmp_path, PACKERS[packing](b"spam\n" * 190_000))
    assert sum(1 for _ in open_text(path)) == 190_000


@pytest.mark.parametrize("packing", PACKED)
def test_a_cut_file_is_named_so_wherever_it_is_cut(tmp_path: Path, packing: str) -> None:
    content = PACKERS[packing](b"one\ntwo\nthree\n")
    start = {"gzip": 2, "bzip2": 10, "xz": 6}[packing]  # before that it cannot be told what it is
    for cut in range(start, len(content)):
        error = refused(put(tmp_path, content[:cut]))
        assert error.what == f"the {packing} data end too early, the file is cut short; fetch it again"
        assert error.line is not None


@pytest.mark.parametrize("packing", PACKED)
def test_damaged_data(tmp_path: Path, packing: str) -> None:
    content = bytearray(PACKERS[packing](np.random.default_rng(0).bytes(3000).hex().encode()))
    content[len(content) // 2] ^= 0xFF
    assert refused(put(tmp_path, bytes(content))).what.startswith(f"the {packing} data are damaged (")


def test_xz_that_asks_for_too_much_memory(tmp_path: Path) -> None:
    content = bytearray(lzma.compress(b"text\n"))
    content[16] = 40  # the largest dictionary there is, 4 GB, in a block header of 8 bytes and their checksum
    content[20:24] = zlib.crc32(content[12:20]).to_bytes(4, "little")
    assert refused(put(tmp_path, bytes(content))).what.startswith(
        "the xz data are damaged (Memory usage limit exceeded"
    )


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    assert str(refused(tmp_path / "nowhere")) == f"{tmp_path / 'nowhere'}: cannot be read: No such file or directory"
    assert refused(tmp_path).what == "cannot be read: Is a directory"
    assert refused(Path("a\0b")).what == "cannot be read: embedded null byte"


@settings(max_examples=500, derandomize=True, deadline=None)
@given(content=st.binary(max_size=200), cut=st.integers(0, 300), packing=st.sampled_from(list(PACKERS)))
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, cut: int, packing: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(PACKERS[packing](content)[:cut])
    lines: list[tuple[int, str]] = []
    message = f"{path}:1: "
    try:
        lines = list(open_text(path))
    except InputError as error:
        message = str(error)
    assert re.fullmatch(rf"{re.escape(str(path))}:[0-9]+: .*", message)
    assert [number for number, _ in lines] == list(range(1, len(lines) + 1))
    assert not any("\n" in line or "\r" in line or "\0" in line for _, line in lines)


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (b"\xff", "byte 0xff is not UTF-8; convert the file to UTF-8 first"),
        (b"\0", "a NUL byte, expected UTF-8 text; is this a binary file?"),
        (b"x\ry", "a bare carriage return, expected lines that end in LF or CRLF; convert them"),
        (b"x" * 1001, "a line of more than 1,000 bytes; break the line (in Python, or raise Limits.max_line)"),
    ],
)
def test_lines_before_a_bad_one_are_given(tmp_path: Path, bad: bytes, what: str) -> None:
    lines = [f"line {k} \u00e9" for k in range(1, 901)]
    for after in (b"", b"\nmore\n\0\xff\n"):
        path = put(tmp_path, "\n".join(lines).encode() + b"\n" + bad + after)
        found: list[tuple[int, str]] = []
        with pytest.raises(InputError) as error:
            found.extend(open_text(path, Limits(max_line=1000)))
        assert found == list(enumerate(lines, 1))
        assert (error.value.line, error.value.what) == (901, what)
