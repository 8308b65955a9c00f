"""``pyro-unsup fetch``, and completion by the shell."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from pyro_unsup.data import remote

from ..data.server import Server
from .conftest import Run


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    Thread(target=found.http.serve_forever, daemon=True).start()
    yield found
    found.http.shutdown()
    found.http.server_close()


def test_all_are_listed(run: Run) -> None:
    result = run("fetch")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in remote.names())


def test_prints_the_file_alone(run: Run, server: Server, tmp_path: Path) -> None:
    server.files["/br-phono.txt"] = b"yu want tu\n"
    result = run("fetch", "bernstein-ratner", "--cache", tmp_path, "--mirror", server.url)
    assert result.exit_code == 0
    assert result.stdout == f"{tmp_path / 'bernstein-ratner' / 'br-phono.txt'}\n"
    assert Path(result.stdout.strip()).read_bytes() == b"yu want tu\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "no corpus is called 'nothing'; choose one of 20news, "),
        (["bernstein-ratner", "--part", "dev"], "bernstein-ratner has no part 'dev'; choose one of train"),
        (["bernstein-ratner", "--mirror", "ftp://x"], "expected a base_url that begins with https:// or http://"),
    ],
)
def test_what_is_refused(run: Run, tmp_path: Path, words: list[str], message: str) -> None:
    result = run("fetch", *words, "--cache", tmp_path)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("pyro-unsup f", {"fit", "forecast", "fetch"}),
        ("pyro-unsup fit tag", {"tagger"}),
        ("pyro-unsup fit tagger --tag", {"--tags"}),
    ],
)
def test_completion(typed: str, expected: set[str]) -> None:
    words = {"_PYRO_UNSUP_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    command = [sys.executable, "-c", "from pyro_unsup.cli import app; app(prog_name='pyro-unsup')"]
    ended = subprocess.run(command, env={**os.environ, **words}, capture_output=True, text=True, check=False)
    assert expected <= set(ended.stdout.split())
