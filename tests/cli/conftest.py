"""A runner of commands, and a small text with a model of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from pyro_unsup.cli import app
from pyro_unsup.cli.board import Board
from pyro_unsup.data import toy, write_brackets, write_links, write_tagged
from pyro_unsup.infer.loop import Info

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
        result = run_command("fit", "tagger", folder / "text.tagged", "--max-iterations", 30, *arguments)
        assert result.exit_code == 0, result.stderr
    return folder


def contents(folder: Path) -> dict[str, bytes | None]:
    """Everything in a folder, to see that nothing has changed."""
    return {str(one.relative_to(folder)): one.read_bytes() if one.is_file() else None for one in folder.rglob("*")}


def tensors(folder: Path) -> bytes:
    (found,) = folder.glob("*.safetensors")
    return found.read_bytes()


@pytest.fixture
def stop_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None, int], None]:
    """Make runs stop as if the user had asked to, when this restart reaches this iteration; None lets them run."""
    note = Board.note

    def set_stop(restart: int | None, iteration: int = 0) -> None:
        def stopping(board: Board, number: int, info: Info) -> bool:
            if (number, info.iteration) == (restart, iteration):
                board.stop()
            return note(board, number, info)

        monkeypatch.setattr(Board, "note", stopping)

    return set_stop


#: A text for each kind of model but taggers, and how to fit one to it.
TEXTS: dict[str, tuple[object, ...]] = {
    "ccm": ("trees.mrg", "--smooth", 0.1),
    "pcfg": ("trees.mrg", "--nonterminals", 3, "--preterminals", 5, "--smooth", 0.1),
    "clusterer": ("documents.txt", "--clusters", 3, "--drop-frequent", 4, "--min-count", 2, "--smooth", 0.1),
    "segmenter": ("lines.txt", "--max-length", 6),
    "aligner": ("pairs.txt",),
}


@pytest.fixture(scope="session")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the texts of all kinds of models, and a model of each text by the name of its kind."""
    folder = tmp_path_factory.mktemp("zoo")
    write_brackets(toy.sentences(60, seed=3), None, folder / "trees.mrg")
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in toy.utterances(40, seed=3).segmented))
    corpus, labels, topics = toy.documents(40, seed=3, topics=3)
    rows = (f"{topics[label]}\t{' '.join(corpus.sentence(i))}\n" for i, label in enumerate(labels))
    (folder / "documents.txt").write_text("".join(rows))
    bitext = toy.bitext(50, seed=3)
    sides = [[" ".join(text.sentence(i)) for i in range(50)] for text in (bitext.source, bitext.target)]
    (folder / "pairs.txt").write_text("".join(f"{one} ||| {other}\n" for one, other in zip(*sides, strict=True)))
    for name, lines in zip(("source.txt", "target.txt"), sides, strict=True):
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    assert bitext.links is not None
    write_links(bitext.links, folder / "links.wa", "wa")
    for kind, (text, *options) in TEXTS.items():
        result = run_command("fit", kind, folder / str(text), *options, "--max-iterations", 12, "--out", folder / kind)
        assert result.exit_code == 0, result.stderr
    return folder
