"""A server to download from, and a registry that a test may change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pyro_unsup.data import remote

from .server import Server


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.http.shutdown()
    thread.join()
    made.http.server_close()


@pytest.fixture
def publish(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Changes the registry entry of a corpus of one file."""

    def change(name: str = "bernstein-ratner", **changes: object) -> None:
        source = remote.REGISTRY[name]
        parts = {part: replace(file, **changes) for part, file in source.parts.items()}
        monkeypatch.setitem(remote.REGISTRY, name, replace(source, parts=parts))

    return change
