"""Downloads against a server on this machine: what is kept, what is refused, and in which words."""

from __future__ import annotations

import gzip
import hashlib
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace

import pytest

from pyro_unsup.data import remote
from pyro_unsup.errors import InputError

from .server import Server, left

TEXT = b"yu want tu si D6 bUk\nlUk\n"
SHA = hashlib.sha256(TEXT).hexdigest()
NAME = "br-phono.txt"


def test_first_download_is_recorded_and_later_loads_need_no_server(server: Server, tmp_path: Path) -> None:
    server.files[f"/{NAME}"] = TEXT
    path = remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url)
    assert path == tmp_path / "bernstein-ratner" / NAME
    assert path.read_bytes() == TEXT
    assert path.with_name(f"{NAME}.sha256").read_text() == f"{SHA}  {NAME}\n"
    assert remote.fetch("bernstein-ratner", cache=tmp_path, base_url="http://127.0.0.1:9") == path
    assert server.requests == 1
    assert left(tmp_path) == [f"bernstein-ratner/{NAME}", f"bernstein-ratner/{NAME}.sha256"]


def test_cache_folder_by_default(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pooch

    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / project)
    server.files[f"/{NAME}"] = TEXT
    path = remote.fetch("bernstein-ratner", base_url=server.url + "/")
    assert path == tmp_path / "pyro-unsup" / "bernstein-ratner" / NAME


def test_altered_file_in_the_cache(server: Server, tmp_path: Path) -> None:
    server.files[f"/{NAME}"] = TEXT
    path = remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url)
    path.write_bytes(TEXT + b"more\n")
    other = hashlib.sha256(TEXT + b"more\n").hexdigest()
    with pytest.raises(InputError) as caught:
        remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url)
    assert str(caught.value) == (
        f"{path}: expected SHA-256 {SHA}, got {other}; delete the file to fetch it again; "
        f"if the corpus was published anew and you trust it, delete {NAME}.sha256 too"
    )
    path.unlink()
    assert remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url).read_bytes() == TEXT


def test_a_changed_download_is_refused_after_the_first(server: Server, tmp_path: Path) -> None:
    server.files[f"/{NAME}"] = TEXT
    remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url).unlink()
    server.files[f"/{NAME}"] = b"something else\n"
    with pytest.raises(
        InputError, match=f"expected SHA-256 {SHA}, got .*nothing was kept of {server.url}.*{NAME}.sha256"
    ):
        remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url)
    assert left(tmp_path) == [f"bernstein-ratner/{NAME}.sha256"]


def test_known_checksum(server: Server, tmp_path: Path, publish: Callable[..., None]) -> None:
    server.files[f"/{NAME}"] = TEXT
    publish(sha256="0" * 64)
    with pytest.raises(InputError) as caught:
        remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url)
    where = tmp_path / "bernstein-ratner" / NAME
    assert str(caught.value) == (
        f"{where}: expected SHA-256 {'0' * 64}, got {SHA}; nothing was kept of {server.url}/{NAME}, fetch it again"
    )
    assert left(tmp_path) == []
    publish(sha256=SHA)
    assert remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url).read_bytes() == TEXT
    assert left(tmp_path) == [f"bernstein-ratner/{NAME}"]


def test_known_checksum_beats_a_recorded_one(tmp_path: Path, publish: Callable[..., None]) -> None:
    publish(sha256="0" * 64)
    path = tmp_path / "bernstein-ratner" / NAME
    path.parent.mkdir()
    path.write_bytes(TEXT)
    path.with_name(f"{NAME}.sha256").write_text(f"{SHA}  {NAME}\n")
    with pytest.raises(InputError, match=f"expected SHA-256 {'0' * 64}, got {SHA}; delete the file to fetch it again$"):
        remote.fetch("bernstein-ratner", cache=tmp_path)


def test_malformed_record(tmp_path: Path) -> None:
    path = tmp_path / "bernstein-ratner" / NAME
    path.parent.mkdir()
    path.write_bytes(TEXT)
    path.with_name(f"{NAME}.sha256").write_bytes(b"\xff\xfe?")
    with pytest.raises(InputError, match=r"br-phono.txt.sha256: expected a SHA-256 of 64 hexadecimal digits; delete"):
        remote.fetch("bernstein-ratner", cache=tmp_path)


def test_not_found(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"the server answered 404 Not Found for {server.url}/{NAME}; check the conn"):
        remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url)
    assert left(tmp_path) == []


def test_no_server(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"the download broke off \(ConnectionError\) for http://127.0.0.1:9/br-phono"):
        remote.fetch("bernstein-ratner", cache=tmp_path, base_url="http://127.0.0.1:9")


def test_truncated(server: Server, tmp_path: Path) -> None:
    def cut_short(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(TEXT)

    server.files[f"/{NAME}"] = cut_short
    with pytest.raises(InputError, match=r"the download broke off \(\w+\) for http://127"):
        remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url)
    assert left(tmp_path) == []


def test_oversize_announced(server: Server, tmp_path: Path, publish: Callable[..., None]) -> None:
    server.files[f"/{NAME}"] = TEXT
    publish(max_bytes=len(TEXT) - 1)
    with pytest.raises(InputError, match=f"expected at most {len(TEXT) - 1} bytes from {server.url}/{NAME}, got more"):
        remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url)
    assert left(tmp_path) == []
    publish(max_bytes=len(TEXT))
    assert remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url).read_bytes() == TEXT


def test_oversize_unannounced(server: Server, tmp_path: Path, publish: Callable[..., None]) -> None:
    def too_much(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        try:
            for _ in range(300):
                handler.wfile.write(bytes(1 << 16))
        except OSError:  # the client hung up, as it should
            pass

    server.files[f"/{NAME}"] = too_much
    publish(max_bytes=300_000)
    with pytest.raises(InputError, match=r"expected at most 300,000 bytes from .*, got more; nothing was kept"):
        remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url)
    assert left(tmp_path) == []


def test_packed_on_the_way_is_capped_after_unpacking(
    server: Server, tmp_path: Path, publish: Callable[..., None]
) -> None:
    def packed(handler: BaseHTTPRequestHandler) -> None:
        body = gzip.compress(bytes(1_000_000))
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    server.files[f"/{NAME}"] = packed
    publish(max_bytes=300_000)
    with pytest.raises(InputError, match="expected at most 300,000 bytes"):
        remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url)


class Answer(SimpleNamespace):
    """What requests returns, as far as it is looked at: for servers that cannot be run here."""

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None: ...

    def raise_for_status(self) -> None: ...

    def iter_content(self, _: int) -> list[bytes]:
        return [TEXT]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            Answer(url="http://elsewhere/", headers={}),
            "leads to http://elsewhere/, which is not encrypted; nothing was",
        ),
        (
            Answer(url="https://same/", headers={"Content-Length": "1000"}),
            "expected 1,000 bytes from .*, got 25; nothing",
        ),
    ],
    ids=["redirect out of encryption", "short body that the HTTP library lets pass"],
)
def test_untrusty_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, message: str) -> None:
    monkeypatch.setattr("requests.get", lambda url, **_: answer)
    with pytest.raises(InputError, match=message):
        remote.fetch("bernstein-ratner", cache=tmp_path)
    assert left(tmp_path) == []


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no corpus is called 'wsj'; choose one of 20news, bernstein-ratner, ud-ch"):
        remote.fetch("wsj", cache=tmp_path)
    with pytest.raises(InputError, match=r"bernstein-ratner has no part 'dev'; choose one of train"):
        remote.fetch("bernstein-ratner", part="dev", cache=tmp_path)
    with pytest.raises(
        InputError, match=r"expected a base_url that begins with https:// or http://, got 'file:///etc'"
    ):
        remote.fetch("bernstein-ratner", cache=tmp_path, base_url="file:///etc")


def test_cache_that_cannot_be_written(server: Server, tmp_path: Path) -> None:
    server.files[f"/{NAME}"] = TEXT
    (tmp_path / "bernstein-ratner").write_text("a file where the folder should be")
    with pytest.raises(InputError, match="choose another folder by cache"):
        remote.fetch("bernstein-ratner", cache=tmp_path, base_url=server.url)


def test_without_pooch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(InputError, match="downloads need the package pooch; run: pip install pooch"):
        remote.fetch("bernstein-ratner", cache=tmp_path)


def test_registry_is_sound() -> None:
    for source in remote.REGISTRY.values():
        assert source.licence
        for file in source.parts.values():
            assert file.url.startswith("https://")
            assert file.sha256 is None or len(file.sha256) == 64
            assert "/" not in file.name
    ewt = remote.REGISTRY["ud-english-ewt"].parts
    assert {part: file.name for part, file in ewt.items()} == {
        "train": "en_ewt-ud-train.conllu",
        "dev": "en_ewt-ud-dev.conllu",
        "test": "en_ewt-ud-test.conllu",
    }


def test_treebank_part(server: Server, tmp_path: Path) -> None:
    server.files["/fr_sequoia-ud-dev.conllu"] = TEXT
    path = remote.fetch("ud-french-sequoia", part="dev", cache=tmp_path, base_url=server.url)
    assert path.name == "fr_sequoia-ud-dev.conllu"
