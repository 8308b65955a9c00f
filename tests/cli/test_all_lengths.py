"""`evaluate` of parsers: sentences as long as those of training, and once more all lengths."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import pyro_unsup as pu
from pyro_unsup.data import short_tag_sequences, toy, write_brackets, write_tagged
from pyro_unsup.tasks import grammar

from .conftest import Run

FILES = {"dmv": "text.conllu", "ccm": "text.mrg", "dmv-ccm": "text.conllu"}


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """A treebank in two formats, and a model of each kind, of its sentences of at most 6 tags."""
    folder = tmp_path_factory.mktemp("parsers")
    text = toy.sentences(80, seed=4)
    write_tagged(text, None, folder / "text.conllu", "conllu")
    write_brackets(text, None, folder / "text.mrg")
    for kind, file in FILES.items():
        fit = ("fit", kind, folder / file, "--max-length", 6, "--max-iterations", 3, "--out", folder / kind)
        result = run(*fit)
        assert result.exit_code == 0, result.stderr
    return folder


@pytest.mark.parametrize("kind", FILES)
def test_all_lengths_are_scored_too(parsers: Path, run: Run, kind: str) -> None:
    evaluate = ("evaluate", parsers / kind, parsers / FILES[kind])
    both = json.loads(run(*evaluate, "--json").stdout)
    short = json.loads(run(*evaluate, "--max-length", 6, "--json").stdout)
    whole = json.loads(run(*evaluate, "--max-length", 1000, "--json").stdout)
    assert both.pop("all_lengths") == whole
    assert both == short
    assert short["sentences"] < whole["sentences"]


def test_two_tables(parsers: Path, run: Run) -> None:
    evaluate = ("evaluate", parsers / "dmv", parsers / "text.conllu")
    both, one = run(*evaluate), run(*evaluate, "--max-length", 1000)
    assert both.exit_code == 0, both.stderr
    first, second = both.stdout.split("all lengths")
    assert "directed" in first
    assert second.split() == one.stdout.split()
    assert "all lengths" not in one.stdout
    assert both.stderr.count("undirected: or whose head is a gold child") == 1


def test_sentences_that_are_far_too_long_are_left_out(monkeypatch: pytest.MonkeyPatch, parsers: Path, run: Run) -> None:
    text = short_tag_sequences(pu.data.read_conllu(parsers / "text.conllu"), 1000, grammar.punctuation())
    longest = int(text.lengths.max())
    monkeypatch.setattr(grammar, "LONGEST", longest - 1)
    result = run("evaluate", parsers / "dmv", parsers / "text.conllu")
    many = int((text.lengths < longest).sum())
    left = f"({len(text) - many} of {len(text)} are longer than {longest - 1} and left out)"
    assert f"all lengths: {many} sentences {left}\n" in result.stderr


def test_nothing_is_said_twice(tmp_path: Path, parsers: Path, run: Run) -> None:
    text = pu.data.read_conllu(parsers / "text.conllu")
    short = text.select([i for i in range(len(text)) if len(text.sentence(i)) <= 6])
    write_tagged(short, None, tmp_path / "short.conllu", "conllu")
    result = run("evaluate", parsers / "dmv", tmp_path / "short.conllu", "--json")
    assert "all_lengths" not in json.loads(result.stdout)
