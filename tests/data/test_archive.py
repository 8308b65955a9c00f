"""Archives: read within limits, refused where they reach out of themselves, and turned into text."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pyro_unsup.data import remote
from pyro_unsup.data.archive import members
from pyro_unsup.errors import InputError

from .server import Server, left


def archive(*entries: tuple[str, bytes | str]) -> bytes:
    """A .tar.gz of files (bytes) and symbolic links (str)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if isinstance(content, str):
                info.type, info.linkname = tarfile.SYMTYPE, content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


GOOD = (
    ("20news-bydate-train/sci.space/101", b"From: a\nSubject: Re: Moon!\n\nThe moon's 2 caf\xe9s.\n\nYes.\n"),
    ("20news-bydate-train/alt.atheism/20", b"Subject: none\n\nHello"),
    ("20news-bydate-train/alt.atheism/3", b"no header at all"),
    ("20news-bydate-test/sci.space/7", b"SUBJECT: Late\n\nNews"),
)


@pytest.fixture
def newsgroups(server: Server, tmp_path: Path, publish: Callable[..., None]) -> Callable[..., Path]:
    """Serves an archive as 20 Newsgroups and fetches a part of it."""

    def get(data: bytes, part: str = "train") -> Path:
        server.files["/20news-bydate.tar.gz"] = data
        publish("20news", sha256=None)
        return remote.fetch("20news", part=part, cache=tmp_path, base_url=server.url)

    return get


def test_newsgroups(server: Server, newsgroups: Callable[..., Path]) -> None:
    data = archive(*GOOD)
    path = newsgroups(data)
    assert path.name == "20news-bydate-train.txt"
    assert path.read_text() == (
        "train\talt.atheism\t3\t\n"
        "train\talt.atheism\t20\tnone hello\n"
        "train\tsci.space\t101\tre moon the moon s caf s yes\n"
    )
    assert newsgroups(data, "test").read_text() == "test\tsci.space\t7\tlate news\n"
    assert newsgroups(data) == path
    assert server.requests == 1
    path.write_text("altered")
    with pytest.raises(InputError, match=r"20news-bydate-train.txt: expected SHA-256"):
        newsgroups(data)


def test_newsgroups_refuse_the_wrong_archive(server: Server, tmp_path: Path) -> None:
    server.files["/20news-bydate.tar.gz"] = archive(*GOOD)
    with pytest.raises(
        InputError, match="expected SHA-256 8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d"
    ):
        remote.fetch("20news", cache=tmp_path, base_url=server.url)
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (archive(("../../evil", b"x")), r"'../../evil' points out of the archive"),
        (archive(("/etc/evil", b"x")), r"'/etc/evil' points out of the archive"),
        (archive(("a\\..\\evil", b"x")), r"points out of the archive"),
        (archive(("20news-bydate-train/a/1", "/etc/passwd")), r"is a link or a device, expected plain files"),
        (
            archive(("20news-bydate-train/a/1", bytes(1_000_001))),
            r"50,000 members of 1,000,000 bytes, found more at '20",
        ),
        (archive(*GOOD)[:-40], r"not a whole .tar.gz"),
        (gzip.compress(bytes(512) + b"no archive at all"), r"no documents of the part 'train'"),
        (b"not packed", r"not a whole .tar.gz \(Not a gzipped file"),
        (archive(("other", b"x")), r"no documents of the part 'train' in the archive"),
    ],
    ids=["traversal", "absolute", "backslash", "link", "large", "truncated", "empty", "plain", "other"],
)
def test_hostile_archives(newsgroups: Callable[..., Path], tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        newsgroups(data)
    assert "\n" not in str(caught.value)
    assert left(tmp_path) == ["20news/20news-bydate.tar.gz", "20news/20news-bydate.tar.gz.sha256"]
    assert not (tmp_path.parent / "evil").exists()


def test_archive_limits(tmp_path: Path) -> None:
    path = tmp_path / "some.tar.gz"
    path.write_bytes(archive(("a", bytes(5000)), ("b", b"2"), ("c", b"3")))
    read = list(members(path, max_bytes=5000, max_total=20_000, max_members=3))
    assert [(name, len(content)) for name, content in read] == [("a", 5000), ("b", 1), ("c", 1)]
    with pytest.raises(
        InputError, match="expected at most 2 members of 5,000 bytes, found more at 'c'; delete the file"
    ):
        list(members(path, max_bytes=5000, max_total=20_000, max_members=2))
    with pytest.raises(InputError, match="expected at most 6,000 bytes unpacked, found more; delete the file"):
        list(members(path, max_bytes=5000, max_total=6_000, max_members=3))
