"""Archives read as data, member by member, within limits. Nothing in them is ever extracted under a name of its own."""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Iterator
from gzip import GzipFile
from io import RawIOBase
from pathlib import Path, PurePosixPath

from pyro_unsup.errors import InputError

_DOCUMENT = re.compile(r"20news-bydate-[a-z]+/[A-Za-z0-9._-]+/[0-9]{1,9}")


class _Capped(RawIOBase):
    """A packed stream that refuses to unpack more than so many bytes."""

    def __init__(self, stream: GzipFile, limit: int, path: Path) -> None:
        self._stream, self._left, self._limit, self._path = stream, limit, limit, path

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise InputError(
                f"expected at most {self._limit:,} bytes unpacked, found more; delete the file", self._path
            )
        return data


def members(path: Path, max_bytes: int, max_total: int, max_members: int) -> Iterator[tuple[str, bytes]]:
    """The files in a ``.tar.gz``, one after the other, as names and bytes. Nothing is written to disk.

    :param max_bytes: of one file.
    :param max_total: of the whole archive unpacked.
    :param max_members: files and folders together.
    """
    try:
        with GzipFile(path) as unpacked, tarfile.open(fileobj=_Capped(unpacked, max_total, path), mode="r|") as archive:
            for count, member in enumerate(archive, 1):
                inside = PurePosixPath(member.name)
                if inside.is_absolute() or ".." in inside.parts or "\\" in member.name:
                    raise InputError(f"{member.name!r} points out of the archive; delete the file", path)
                if not (member.isfile() or member.isdir()):
                    raise InputError(f"{member.name!r} is a link or a device, expected plain files; delete it", path)
                if count > max_members or member.size > max_bytes:
                    limits = f"{max_members:,} members of {max_bytes:,} bytes"
                    raise InputError(f"expected at most {limits}, found more at {member.name!r}; delete the file", path)
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None:
                    yield member.name, content.read(max_bytes)
    except InputError:
        raise
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, ArithmeticError, MemoryError) as error:
        raise InputError(f"not a whole .tar.gz ({error}); delete the file to fetch it again", path) from error


def newsgroups(path: Path, part: str) -> Iterator[str]:
    """The documents of a part of 20 Newsgroups as lines, sorted by group and number; see :func:`.remote.fetch`."""
    found = []
    for name, content in members(path, max_bytes=1_000_000, max_total=200_000_000, max_members=50_000):
        if _DOCUMENT.fullmatch(name) and name.startswith(f"20news-bydate-{part}/"):
            rest = name.split("/")[1:]
            head, _, body = content.decode("latin-1").partition("\n\n")
            subject = re.search("^subject:(.*)", head, re.IGNORECASE | re.MULTILINE)
            words = re.findall("[a-z]+", f"{subject.group(1) if subject else ''}\n{body}".lower())
            found.append((rest[0], int(rest[1]), " ".join(words)))
    if not found:
        raise InputError(f"no documents of the part {part!r} in the archive; delete the file to fetch it again", path)
    for group, number, text in sorted(found):
        yield f"{part}\t{group}\t{number}\t{text}"
