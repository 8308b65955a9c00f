"""``pyro-unsup pack``: a text becomes a corpus on disk, which other commands take."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyro_unsup as pu

from .conftest import Run


def test_a_text_becomes_a_folder_that_fit_takes(run: Run, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("The dog sees the cat\nthe cat sleeps\n" * 20)
    result = run("pack", text, "--out", tmp_path / "corpus", "--lowercase", "--min-count", 2)
    assert result.exit_code == 0
    assert result.stdout == f"{tmp_path / 'corpus'}: 40 sentences, 160 words, 6 different\n"
    corpus = pu.data.Corpus.open(tmp_path / "corpus")
    assert corpus == pu.data.read_lines(text, lowercase=True, min_count=2)
    words = ["--tags", 2, "--algorithm", "em", "--max-iterations", 2, "--out"]
    for source, name in ((tmp_path / "corpus", "one"), (text, "other")):
        more = ["--format", "lines", "--lowercase", "--min-count", 2] if source == text else []
        assert run("fit", "tagger", source, *words, tmp_path / name, *more).exit_code == 0
    assert pu.load(tmp_path / "one").objective == pytest.approx(pu.load(tmp_path / "other").objective)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "text: no sentence in it, expected at least one"), (b"a\n\xff", "text:2: byte 0xff is not UTF-8")],
)
def test_bad_texts(run: Run, tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "text").write_bytes(content)
    result = run("pack", tmp_path / "text", "--out", tmp_path / "corpus")
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not (tmp_path / "corpus").exists()


def test_no_such_file_and_a_folder_of_something_else(run: Run, tmp_path: Path) -> None:
    result = run("pack", tmp_path / "nothing", "--out", tmp_path / "corpus")
    assert result.exit_code == 2
    assert "nothing: cannot be read: No such file or directory" in " ".join(result.stderr.split())
    (tmp_path / "text").write_text("a b\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").write_text("x")
    result = run("pack", tmp_path / "text", "--out", tmp_path / "mine")
    assert result.exit_code == 2
    assert "exists and is not a corpus folder" in " ".join(result.stderr.split())
    assert (tmp_path / "mine" / "letter").read_text() == "x"
