"""A runner of commands, and a small text with a model of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pyro_unsup.cli import app
from pyro_unsup.data import toy, write_tagged

Run = Callable[..., Result]


def run_command(*arguments: object, stdin: bytes | str | None = None) -> Result:
    """Run a command in this process. Whatever happens, a user must never see a traceback."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], input=stdin)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


@pytest.fixture(scope="session")
def run() -> Run:
    return run_command


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text (``text.tagged``, ``text.conllu``, ``plain.txt``), its dictionary, and two models of it:
    ``model`` with five anonymous tags and ``named`` with a dictionary."""
    folder = tmp_path_factory.mktemp("world")
    corpus = toy.sentences(150, seed=3)
    write_tagged(corpus, None, folder / "text.tagged")
    write_tagged(corpus, None, folder / "text.slashes.tagged", "slashes")
    write_tagged(corpus, None, folder / "text.conllu", "conllu")
    plain = "".join(" ".join(corpus.sentence(i)) + "\n" for i in range(len(corpus)))
    (folder / "plain.txt").write_text(plain)
    lines = "".join(f"{word} {' '.join(tags)}\n" for word, tags in toy.tag_dictionary().items())
    (folder / "dictionary.txt").write_text(lines)
    (folder / "new.txt").write_text("the Dog will run .\nzebras laughed LOUDLY !\n")
    for arguments in (
        ("--tags", 5, "--out", folder / "model"),
        ("--dictionary", folder / "dictionary.txt", "--order", 2, "--stop", "--out", folder / "named"),
    ):
        result = run_command("fit", "tagger", folder / "text.tagged", "--iterations", 30, *arguments)
        assert result.exit_code == 0, result.stderr
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder, to see that nothing has changed."""
    return {str(one.relative_to(folder)): one.read_bytes() if one.is_file() else None for one in folder.rglob("*")}
