"""Every reader on every kind of bad input: a corpus or a one-line error with the file in it, never anything else."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data import Corpus, pack_lines, read_brackets, read_conllu, read_lines, read_tagged
from pyro_unsup.errors import InputError

Reader = Callable[..., Corpus]

TOO_LONG = "a line of more than 1,000,000 bytes; break the line (in Python, or raise Limits.max_line)"


def columns(path: Path) -> Corpus:
    return read_tagged(path, "columns")


def slashes(path: Path) -> Corpus:
    return read_tagged(path, "slashes")


def packed(path: Path) -> Corpus:
    return pack_lines(path, path.with_name("corpus"))


CONLLU = (
    "# text = a dog's life\n"
    "1\ta\ta\tDET\tDT\t_\t4\tdet\t_\t_\n"
    "2-3\tdog's\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tdog\tdog\tNOUN\tNN\t_\t4\tnmod\t_\t_\n"
    "3\t's\t's\tPART\tPOS\t_\t2\tcase\t_\t_\n"
    "3.1\tx\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "4\tlife\tlife\tNOUN\tNN\t_\t0\troot\t_\t_\n\n"
    "1\tyes\tyes\tINTJ\tUH\t_\t0\troot\t_\t_\n\n"
)
READERS: dict[str, tuple[Reader, str]] = {
    "conllu": (read_conllu, CONLLU),
    "brackets": (read_brackets, "( (S (NP-SBJ (DT a) (NN dog))\n (VP (VBZ is) (NP (-NONE- *))) (. .)))\n(UH yes)\n"),
    "columns": (columns, "a DT B\ndog NN I\n\nyes UH O\n1 000\tCD\tO\n\n"),
    "slashes": (slashes, "a/DT dog/NN 1\\/2/CD\nyes/UH\n"),
    "lines": (read_lines, "a dog 's life\nyes\n"),
    "packed lines": (packed, "a dog 's life\nyes\n"),
}
CASES = [pytest.param(reader, text, id=name) for name, (reader, text) in READERS.items()]
every_reader = pytest.mark.parametrize(("reader", "text"), CASES)


def refusal(reader: Reader, path: Path) -> InputError:
    with pytest.raises(InputError) as error:
        reader(path)
    assert str(error.value).startswith(f"{path}:")
    assert "\n" not in str(error.value)
    return error.value


@every_reader
@pytest.mark.parametrize(
    ("content", "line", "what"),
    [
        (b"", None, "no sentence in it, expected at least one"),
        (b"\n \n\n", None, "no sentence in it, expected at least one"),
        (b"TEXT\n\0", "last", "a NUL byte, expected UTF-8 text; is this a binary file?"),
        (b"TEXT\xff", "last", "byte 0xff is not UTF-8; convert the file to UTF-8 first"),
        (b"TEXT\xed\xa0\x80", "last", "byte 0xed is not UTF-8; convert the file to UTF-8 first"),
        (b"TEXTa\rb", "last", "a bare carriage return, expected lines that end in LF or CRLF; convert them"),
        (b"\xff\xfeT\0", 1, "UTF-16 text, expected UTF-8; convert it first (iconv -f UTF-16 -t UTF-8)"),
        (b"TEXT" + b"x" * 1_100_000, "last", TOO_LONG),
    ],
)
def test_bad_text(tmp_path: Path, reader: Reader, text: str, content: bytes, line: int | str | None, what: str) -> None:
    path = tmp_path / "bad"
    path.write_bytes(content.replace(b"TEXT", text.encode()))
    error = refusal(reader, path)
    last = text.count("\n") + 1 + content.count(b"\n")
    assert (error.what, error.line) == (what, last if line == "last" else line)


@every_reader
def test_marks_and_line_ends_that_are_fine(tmp_path: Path, reader: Reader, text: str) -> None:
    path = tmp_path / "fine"
    path.write_bytes(text.encode())
    corpus = reader(path)
    assert len(corpus) == 2
    for content in (
        b"\xef\xbb\xbf" + text.encode(),
        text.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(),
        text.rstrip("\n").encode(),
    ):
        path.write_bytes(content)
        assert reader(path) == corpus


@every_reader
def test_packed_files(tmp_path: Path, reader: Reader, text: str) -> None:
    path = tmp_path / "packed"
    path.write_bytes(text.encode())
    corpus = reader(path)
    for packing, pack in (("gzip", gzip.compress), ("bzip2", bz2.compress), ("xz", lzma.compress)):
        packed = pack(text.encode())
        path.write_bytes(packed)
        assert reader(path) == corpus
        path.write_bytes(packed[:-5])
        cut = refusal(reader, path)
        assert cut.what == f"the {packing} data end too early, the file is cut short; fetch it again"
        assert cut.line is not None
        path.write_bytes(pack(b"\n" * 3_000_000 + text.encode()))
        assert refusal(reader, path).what.startswith(f"{packing} data that grow more than 200 times look like a decomp")


@every_reader
def test_missing_files(tmp_path: Path, reader: Reader, text: str) -> None:
    assert str(refusal(reader, tmp_path / "no")) == f"{tmp_path / 'no'}: cannot be read: No such file or directory"
    assert refusal(reader, tmp_path).what == "cannot be read: Is a directory"


@st.composite
def damaged(draw: st.DrawFn, text: str) -> bytes:
    """A good file with a few pieces of it cut out, doubled, moved or overwritten; perhaps packed before or after."""
    content = bytearray(text.encode())
    packer = draw(st.sampled_from([None, None, None, gzip.compress, bz2.compress, lzma.compress]))
    first = draw(st.booleans())
    if packer is not None and first:
        content = bytearray(packer(bytes(content)))
    alphabet = sorted(
        {bytes([byte]) for byte in text.encode()} | {b"\0", b"\r", b"\xff", b"_", b"9", b"-", b"\xc2\xa0"}
    )
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 40)))
        piece = bytes(content[start:end])
        junk = st.lists(st.sampled_from(alphabet), max_size=4).map(b"".join) | st.binary(max_size=4)
        place = draw(st.integers(0, len(content)))
        match draw(st.sampled_from(["cut", "double", "move", "overwrite"])):
            case "cut":
                del content[start:end]
            case "double":
                content[place:place] = piece
            case "move":
                del content[start:end]
                content[place:place] = piece
            case _:
                content[start:end] = draw(junk)
    return bytes(content) if packer is None or first else packer(bytes(content))


@every_reader
def test_any_file_is_read_or_refused(tmp_path: Path, reader: Reader, text: str) -> None:
    path = tmp_path / "fuzz"

    @settings(max_examples=500, derandomize=True, deadline=None, database=None)
    @given(st.binary(max_size=120) | st.text("ab12\t\n ()/\\_-.#", max_size=60).map(str.encode) | damaged(text))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        message = f"{path}:"
        try:
            lengths = reader(path).lengths
        except InputError as error:
            message = str(error)
        else:
            assert (lengths > 0).all()
            assert len(lengths) > 0
        assert message.startswith(f"{path}:")
        assert "\n" not in message

    check()
