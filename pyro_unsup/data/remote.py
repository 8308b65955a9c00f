"""Real corpora by name, fetched once into a cache folder and checked ever after.

What is checked: a registry entry has a SHA-256 where a trusted one is published, and a file that differs is refused.
The other entries have none, and there the first download is taken on trust: its SHA-256 is written beside the file
(``FILE.sha256``, as ``sha256sum`` writes it), and every later load and download must match it. That guards against
damage and silent change, not against a first download that was already wrong.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyro_unsup.data.archive import newsgroups
from pyro_unsup.data.files import write_text
from pyro_unsup.data.opening import read_plain
from pyro_unsup.errors import InputError

__all__ = ["REGISTRY", "File", "Source", "fetch", "names"]

MEGABYTE = 1_000_000
CHUNK = 1 << 16  # bytes of a download at a time
MAX_RECORD = 1 << 12  # bytes of the record of a checksum
TIMEOUT = (10.0, 60.0)  # seconds to connect, and between two pieces


@dataclass(frozen=True)
class File:
    """One file to download.

    :param name: its name in the cache, and under ``base_url``.
    :param url: where it is published.
    :param sha256: its checksum, or None to trust the first download.
    :param max_bytes: a larger file is refused.

    >>> from pyro_unsup.data.remote import REGISTRY
    >>> REGISTRY["bernstein-ratner"].parts["train"].name
    'br-phono.txt'
    """

    name: str
    url: str
    sha256: str | None
    max_bytes: int


@dataclass(frozen=True)
class Source:
    """One corpus.

    :param parts: the file that holds each part.
    :param licence: as its publishers state it.
    :param unpack: for archives: turns a file and a part into lines of text.

    >>> from pyro_unsup.data.remote import REGISTRY
    >>> sorted(REGISTRY["ud-english-ewt"].parts), REGISTRY["ud-english-ewt"].licence
    (['dev', 'test', 'train'], 'CC BY-SA 4.0')
    """

    parts: dict[str, File]
    licence: str
    unpack: Callable[[Path, str], Iterator[str]] | None = None


def names() -> tuple[str, ...]:
    """The corpora that :func:`fetch` knows.

    >>> from pyro_unsup.data.remote import names
    >>> names()
    ('20news', 'bernstein-ratner', 'ud-chinese-gsd', 'ud-english-ewt', 'ud-french-sequoia')
    """
    return tuple(sorted(REGISTRY))


def fetch(
    name: str,
    part: str = "train",
    cache: str | os.PathLike[str] | None = None,
    base_url: str | None = None,
) -> Path:
    """Downloads a part of a corpus unless the cache has it, checks it, and returns the file.

    Treebanks are CoNLL-U. ``bernstein-ratner`` has one utterance a line, words split by spaces, a character a phoneme,
    and one part only. ``20news`` has one document a line: part, group, number and words, split by tabs; the words are
    the runs of letters in subject and body, in lower case.

    The licence of each corpus is its own, see ``REGISTRY[name].licence``. For which checksums are known and which are
    recorded at the first download see the top of this module.

    :param name: one of :func:`names`.
    :param part: ``train``, ``dev`` or ``test``, as far as the corpus has them.
    :param cache: the folder for downloads, by default one of the operating system's for caches.
    :param base_url: a mirror: files are fetched from there under their names in the registry.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from pyro_unsup.data.remote import fetch
    >>> with tempfile.TemporaryDirectory() as cache:
    ...     Path(cache, "bernstein-ratner").mkdir()
    ...     size = Path(cache, "bernstein-ratner", "br-phono.txt").write_text("yu want tu")  # as if fetched before
    ...     fetch("bernstein-ratner", cache=cache).name
    'br-phono.txt'
    """
    if name not in REGISTRY:
        raise InputError(f"no corpus is called {name!r}; choose one of {', '.join(names())}")
    source = REGISTRY[name]
    if part not in source.parts:
        raise InputError(f"{name} has no part {part!r}; choose one of {', '.join(source.parts)}")
    if base_url is not None and not base_url.startswith(("https://", "http://")):
        raise InputError(f"expected a base_url that begins with https:// or http://, got {base_url!r}")
    file = source.parts[part]
    path = (_default_cache() if cache is None else Path(cache)) / name / file.name
    if path.exists():
        _check(path, file.sha256)
    else:
        _download(path, file, file.url if base_url is None else f"{base_url.rstrip('/')}/{file.name}")
    return path if source.unpack is None else _unpacked(path, part, source.unpack)


def _import_pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise InputError("downloads need the package pooch; run: pip install pooch") from error
    return pooch


def _default_cache() -> Path:
    return Path(_import_pooch().os_cache("pyro-unsup"))


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _expected(path: Path, published: str | None) -> str | None:
    """The checksum that the file must have: the published one, else the recorded one, else none yet."""
    record = _record(path)
    if published is not None or not record.exists():
        return published
    try:
        recorded = read_plain(record, MAX_RECORD)[:64]
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", record) from error
    except UnicodeDecodeError:
        recorded = ""
    if not re.fullmatch("[0-9a-f]{64}", recorded):
        raise InputError("expected a SHA-256 of 64 hexadecimal digits; delete the file to record it again", record)
    return recorded


def _compare(path: Path, published: str | None, expected: str | None, actual: str, fix: str) -> None:
    if expected is not None and actual != expected:
        if published is None:
            fix += f"; if the corpus was published anew and you trust it, delete {_record(path).name} too"
        raise InputError(f"expected SHA-256 {expected}, got {actual}; {fix}", path)


def _check(path: Path, published: str | None) -> None:
    """Compares a file of the cache with the checksum expected, or records its own as the one to expect."""
    expected = _expected(path, published)
    try:
        with path.open("rb") as stream:
            actual = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path) from error
    _compare(path, published, expected, actual, "delete the file to fetch it again")
    if expected is None:
        with write_text(_record(path)) as stream_out:
            stream_out.write(f"{actual}  {path.name}\n")


def _download(path: Path, file: File, url: str) -> None:
    pooch = _import_pooch()
    import requests  # comes with pooch

    expected = _expected(path, file.sha256)

    def stream(url: str, temporary: str, _: object) -> None:
        """Called by pooch, which keeps the temporary file only if this returns."""
        digest = _stream(url, Path(temporary), file)
        _compare(path, file.sha256, expected, digest, f"nothing was kept of {url}, fetch it again")

    try:
        keeper = pooch.create(path=path.parent, base_url="", registry={file.name: None}, urls={file.name: url})
        keeper.fetch(file.name, downloader=stream)
    except requests.RequestException as error:
        what = f"the download broke off ({type(error).__name__})"
        if error.response is not None:
            what = f"the server answered {error.response.status_code} {error.response.reason}"
        raise InputError(
            f"{what} for {url}; check the connection, or give a mirror by base_url (--mirror)", path
        ) from error
    except OSError as error:
        what = error.strerror or str(error)
        raise InputError(f"cannot be written: {what}; choose another folder by cache", path) from error
    _check(path, file.sha256)


def _stream(url: str, target: Path, file: File) -> str:
    """Downloads into ``target`` and returns the SHA-256 of what came."""
    import requests

    digest, received = hashlib.sha256(), 0
    too_large = f"expected at most {file.max_bytes:,} bytes from {url}, got more; nothing was kept"
    # Without packing on the way the bytes that arrive can be counted against the length announced.
    with requests.get(url, stream=True, timeout=TIMEOUT, headers={"Accept-Encoding": "identity"}) as response:
        response.raise_for_status()
        if url.startswith("https:") and not response.url.startswith("https:"):
            raise InputError(f"{url} leads to {response.url}, which is not encrypted; nothing was kept", file.name)
        announced = response.headers.get("Content-Length", "")
        if announced.isdecimal() and int(announced) > file.max_bytes:
            raise InputError(too_large, file.name)
        with target.open("wb") as stream:
            for piece in response.iter_content(CHUNK):
                received += len(piece)
                if received > file.max_bytes:
                    raise InputError(too_large, file.name)
                digest.update(piece)
                stream.write(piece)
        if announced.isdecimal() and "Content-Encoding" not in response.headers and received != int(announced):
            what = f"expected {int(announced):,} bytes from {url}, got {received:,}"
            raise InputError(f"{what}; nothing was kept, fetch it again", file.name)
    return digest.hexdigest()


def _unpacked(archive: Path, part: str, unpack: Callable[[Path, str], Iterator[str]]) -> Path:
    """The text made from a part of an archive: made once, and checked like a download."""
    path = archive.with_name(f"{archive.name.removesuffix('.tar.gz')}-{part}.txt")
    if not path.exists():
        _record(path).unlink(missing_ok=True)
        with write_text(path) as stream:
            stream.writelines(line + "\n" for line in unpack(archive, part))
    _check(path, None)
    return path


def _treebank(repository: str, prefix: str) -> dict[str, File]:
    url = f"https://raw.githubusercontent.com/UniversalDependencies/{repository}/r2.15"
    files = {part: f"{prefix}-ud-{part}.conllu" for part in ("train", "dev", "test")}
    return {part: File(file, f"{url}/{file}", None, 50 * MEGABYTE) for part, file in files.items()}


_NEWSGROUPS = File(
    "20news-bydate.tar.gz",
    "https://ndownloader.figshare.com/files/5975967",
    "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",  # as scikit-learn checks it
    30 * MEGABYTE,
)
_BERNSTEIN_RATNER = File(
    "br-phono.txt",
    "https://raw.githubusercontent.com/kamperh/dpdp_aernn/7712514027931093f179e984eb19810c32f31e92/data/br-phono.txt",
    None,
    MEGABYTE,
)

#: Every corpus by name.
REGISTRY: dict[str, Source] = {
    "20news": Source({"train": _NEWSGROUPS, "test": _NEWSGROUPS}, "none stated", newsgroups),
    "bernstein-ratner": Source({"train": _BERNSTEIN_RATNER}, "none stated (CHILDES, Bernstein-Ratner 1987)"),
    "ud-chinese-gsd": Source(_treebank("UD_Chinese-GSD", "zh_gsd"), "CC BY-SA 4.0"),
    "ud-english-ewt": Source(_treebank("UD_English-EWT", "en_ewt"), "CC BY-SA 4.0"),
    "ud-french-sequoia": Source(_treebank("UD_French-Sequoia", "fr_sequoia"), "LGPL-LR"),
}
