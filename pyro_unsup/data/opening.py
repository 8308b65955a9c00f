"""Text in: line by line, plain or packed, within limits, with the line in every error."""

from __future__ import annotations

import bz2
import lzma
import os
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from io import BufferedIOBase
from itertools import chain
from typing import Protocol

import numpy as np

from pyro_unsup.errors import EncodingError, InputError

CHUNK = 1 << 16  # bytes read or unpacked at a time, at most
TELLING = 10  # bytes that tell packed data from text
_XZ_MEMORY = 512 << 20  # bytes; the strongest preset of xz asks for 65 MB


@dataclass(frozen=True)
class Limits:
    """What a reader accepts before it suspects a damaged or hostile file.

    :param max_bytes: bytes of text, after unpacking.
    :param max_ratio: unpacked bytes for one packed byte, asked only beyond the first ``ratio_from`` unpacked bytes.
    :param max_line: bytes in a line.
    :param max_sentence: words in a sentence.

    >>> from pyro_unsup.data import Limits
    >>> Limits(max_sentence=100)
    Limits(max_bytes=2000000000, max_ratio=200, ratio_from=1000000, max_line=1000000, max_sentence=100)
    """

    max_bytes: int = 2_000_000_000
    max_ratio: int = 200
    ratio_from: int = 1_000_000
    max_line: int = 1_000_000
    max_sentence: int = 100_000


LIMITS = Limits()


@dataclass(frozen=True)
class Block:
    """Some lines of a text, which every reader takes in the place of a file.

    :param path: of the text, for errors.
    :param lines: the lines, with their numbers in the text.
    """

    path: str
    lines: Sequence[tuple[int, str]]

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path


def open_text(path: str | os.PathLike[str], limits: Limits = LIMITS) -> Iterator[tuple[int, str]]:
    """Lines of a UTF-8 text with their numbers from 1, without line ends. The file is opened at the first step.

    Plain text, gzip, bzip2 or xz, told apart by their first bytes and unpacked as they stream. A byte order mark is
    dropped; lines end in LF or CRLF. Anything else raises :class:`~pyro_unsup.errors.InputError` with file and line.

    :param path: the file, or ``-`` for standard input. What a pipe holds is given as it comes; or a :class:`Block`.
    """
    if isinstance(path, Block):
        return iter(path.lines)
    return enumerate(chain.from_iterable(_blocks(path, limits)), 1)


def _blocks(path: str | os.PathLike[str], limits: Limits) -> Iterator[list[str]]:
    for line, block in whole_lines(path, limits):
        yield from _good_lines(block, line, path, limits)


def whole_lines(path: str | os.PathLike[str], limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Blocks of lines as bytes, the last line of each without its line feed, and the number of the first.

    Only how long lines are is checked, and roughly: :func:`check_lines` looks at the rest.
    """
    line, pending = 1, b""  # pending: the start of the line with this number
    chunks = open_bytes(path, limits)
    while True:
        try:
            chunk = next(chunks, None)
        except InputError as error:
            raise error if error.path is not None else InputError(error.what, path, line) from error
        if chunk is None:
            break
        cut = chunk.rfind(b"\n")
        if cut < 0:
            pending += chunk
        else:
            block = pending + chunk[:cut]
            yield line, block
            line += block.count(b"\n") + 1
            pending = chunk[cut + 1 :]
        if len(pending) > limits.max_line + len(b"\r"):
            raise _too_long(path, line, limits)
    if pending:
        yield line, pending


def check_lines(block: bytes, first: int, path: str | os.PathLike[str], limits: Limits) -> bytes:
    """A block of whole lines, without a byte order mark, if they are what :func:`open_text` would give."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    longest = int(np.diff(ends, prepend=-1, append=len(block)).max()) - 1
    returns = block.count(b"\r")
    good = b"\0" not in block and longest * 4 <= limits.max_line  # a character takes up to four bytes
    good = good and returns == block.count(b"\r\n") + block.endswith(b"\r")
    try:
        if good and not (first == 1 and block[:1] >= b"\xef"):
            block.decode("utf-8")
            return block
    except UnicodeDecodeError:
        pass
    return "\n".join(_lines(block, first, path, limits)).encode()  # which says what is wrong, if something is


def _good_lines(block: bytes, first: int, path: str | os.PathLike[str], limits: Limits) -> Iterator[list[str]]:
    """The lines of a block. If one of them is bad, those before it, and then the error: a stream keeps what is good."""
    try:
        lines = _lines(block, first, path, limits)
    except InputError as error:
        good = 0 if error.line is None else error.line - first
        if good:
            yield from _good_lines(b"\n".join(block.split(b"\n", good)[:good]), first, path, limits)
        raise
    yield lines


def _lines(block: bytes, first: int, path: str | os.PathLike[str], limits: Limits) -> list[str]:
    """The lines of a block of whole lines, the last one without its line feed."""
    if first == 1:
        if block.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InputError("UTF-16 text, expected UTF-8; convert it first (iconv -f UTF-16 -t UTF-8)", path, 1)
        block = block.removeprefix(b"\xef\xbb\xbf")
    nul = block.find(b"\0")
    if nul >= 0:
        line = first + block.count(b"\n", 0, nul)
        raise InputError("a NUL byte, expected UTF-8 text; is this a binary file?", path, line)
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        line, byte = first + block.count(b"\n", 0, error.start), block[error.start]
        raise EncodingError(f"byte 0x{byte:02x} is not UTF-8; convert the file to UTF-8 first", path, line) from error
    lines = text.split("\n")
    if "\r" in text:
        lines = [one.removesuffix("\r") for one in lines]
        bare = next((number for number, one in enumerate(lines, first) if "\r" in one), None)
        if bare is not None:
            raise InputError("a bare carriage return, expected lines that end in LF or CRLF; convert them", path, bare)
    if max(map(len, lines)) * 4 > limits.max_line:  # a character takes up to four bytes
        for number, one in enumerate(lines, first):
            if len(one.encode()) > limits.max_line:
                raise _too_long(path, number, limits)
    return lines


def _too_long(path: str | os.PathLike[str], line: int, limits: Limits) -> InputError:
    what = f"a line of more than {limits.max_line:,} bytes; break the line (in Python, or raise Limits.max_line)"
    return InputError(what, path, line)


def open_bytes(path: str | os.PathLike[str], limits: Limits) -> Iterator[bytes]:
    """The bytes of a file, unpacked."""
    try:
        with nullcontext(_stdin()) if os.fspath(path) == "-" else open(path, "rb") as stream:
            start = _start(stream)
            packing = next((name for name, magic in _MAGIC.items() if start.startswith(magic)), None)
            if packing == "bzip2" and start[4:10] not in _BZIP2_BLOCKS:
                packing = None  # a text may well begin with these three letters
            total = 0
            for chunk in _plain(start, stream) if packing is None else _unpack(packing, start, stream, limits):
                total += len(chunk)
                if total > limits.max_bytes:
                    raise InputError(
                        f"more than {limits.max_bytes:,} bytes of text; split the file (in Python, or raise "
                        "Limits.max_bytes)"
                    )
                yield chunk
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot be read: {getattr(error, 'strerror', None) or error}", path) from error


def check_plain(path: str | os.PathLike[str], most: int | None = None) -> None:
    """Raise unless this is a plain file, and has at most so many bytes: a device or a pipe may have no end."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise InputError("not a plain file", path)
    if most is not None and found.st_size > most:
        raise InputError(f"larger than {most:,} bytes, too large for such a file", path)


def read_plain(path: str | os.PathLike[str], most: int) -> str:
    """The UTF-8 text of a plain file."""
    check_plain(path, most)
    with open(path, encoding="utf-8", newline="") as stream:
        return stream.read()


def _stdin() -> BufferedIOBase:
    if sys.stdin is None:
        raise InputError("there is no standard input; give a file", "-")
    return sys.stdin.buffer  # type: ignore[return-value]


def _start(stream: BufferedIOBase) -> bytes:
    """The first bytes, enough of them to tell packed data. Here and below, a pipe is never waited on for more."""
    start = stream.read1(CHUNK)
    while len(start) < TELLING and (more := stream.read1(CHUNK)):
        start += more
    return start


def _plain(start: bytes, stream: BufferedIOBase) -> Iterator[bytes]:
    while start:
        yield start
        start = stream.read1(CHUNK)


class _Unpacker(Protocol):
    """What bz2 and lzma offer: unpack a bounded amount, and say when more input is wanted."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    """zlib in the manners of bz2 and lzma."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)  # 16: with the header and checksum of gzip
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = not self._zlib.unconsumed_tail and len(out) < max_length
        return out

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data


_MAGIC = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ\0"}
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # the start of data, the end of an empty stream


def _unpacker(packing: str) -> _Unpacker:
    if packing == "gzip":
        return _Gzip()
    return bz2.BZ2Decompressor() if packing == "bzip2" else lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


def _unpack(packing: str, data: bytes, stream: BufferedIOBase, limits: Limits) -> Iterator[bytes]:
    """Unpack one stream after the other: all three formats may be concatenated, and padded with zeros in between."""
    magic, packed, unpacked = _MAGIC[packing], len(data), 0
    try:
        while data:
            unpacker = _unpacker(packing)
            while not unpacker.eof:
                chunk = unpacker.decompress(data, CHUNK)
                unpacked += len(chunk)
                if unpacked > max(limits.max_ratio * packed, limits.ratio_from):
                    what = f"{packing} data that grow more than {limits.max_ratio} times look like a decompression bomb"
                    raise InputError(f"{what}; unpack the file yourself if you trust it")
                if chunk:
                    yield chunk
                data = b""
                if unpacker.needs_input and not unpacker.eof:
                    data = stream.read1(CHUNK)
                    packed += len(data)
                    if not data:
                        raise InputError(f"the {packing} data end too early, the file is cut short; fetch it again")
            data = unpacker.unused_data.lstrip(b"\0")
            while len(data) < len(magic) and (more := stream.read1(CHUNK)):
                packed += len(more)
                data = (data + more).lstrip(b"\0")
            if data and not data.startswith(magic):
                raise InputError(f"there are other bytes after the end of the {packing} data; fetch the file again")
    except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
        raise InputError(f"the {packing} data are damaged ({error}); fetch the file again") from error
