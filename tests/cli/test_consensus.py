"""Restarts that decode together: saved with the model, predicted, scored, and refused where there is but one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import read_conllu, read_tagged, write_links

from .beliefs_cases import SIZE, TEXTS, small_texts
from .conftest import Run

RESTARTS = ("--max-iterations", 2, "--restarts", 3, "--jobs", 1, "--noise", 1.5)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_texts(tmp_path_factory.mktemp("texts"))


@pytest.fixture(scope="module")
def models(texts: Path, tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """Of every kind, a model with three runs."""
    folder = tmp_path_factory.mktemp("models")
    for kind, (name, *options) in TEXTS.items():
        fit = ("fit", kind, texts / str(name), *options, *RESTARTS, "--out", folder / kind)
        result = run(*fit)
        assert result.exit_code == 0, result.stderr
        assert f"all 3 runs are saved; what they agree on: pyro-unsup predict {folder / kind} FILE" in result.stderr
    pairs = pu.data.toy.bitext(SIZE, seed=3)
    assert pairs.links is not None
    write_links(pairs.links, folder / "links.wa", "wa")
    return folder


@pytest.mark.parametrize("kind", TEXTS)
def test_predict_and_evaluate(texts: Path, models: Path, run: Run, kind: str) -> None:
    text, gold = texts / str(TEXTS[kind][0]), ("--gold", models / "links.wa") if kind == "aligner" else ()
    fit = pu.load(models / kind)
    assert [one.objective for one in fit.runs] == fit.report.restarts
    alone, several = (run("predict", models / kind, text, *more) for more in ((), ("--consensus",)))
    assert several.exit_code == 0, several.stderr
    assert several.stdout.count("\n") == alone.stdout.count("\n")
    assert "consensus of 3 runs: two of them have " in several.stderr
    assert "consensus" not in alone.stderr
    scores = json.loads(run("evaluate", models / kind, text, *gold, "--consensus", "--json").stdout)
    assert scores["runs"] == 3
    assert 0 <= scores["agreement"] <= 1
    plain = json.loads(run("evaluate", models / kind, text, *gold, "--json").stdout)
    assert scores.keys() - plain.keys() == {"runs", "agreement"}
    table = run("evaluate", models / kind, text, *gold, "--consensus")
    assert f"consensus of 3 runs: two of them have {100 * scores['agreement']:.1f} % in common" in table.stderr


def test_the_numbers_are_those_of_the_library(texts: Path, models: Path, run: Run) -> None:
    text = read_tagged(texts / "text.tagged")
    found = pu.load(models / "tagger").consensus(text, how="viterbi")
    scores = json.loads(run("evaluate", models / "tagger", texts / "text.tagged", "--consensus", "--json").stdout)
    assert scores["many_to_one"] == found.evaluate(text)["many_to_one"]
    assert scores["agreement"] == found.agreement
    lines = run("predict", models / "tagger", texts / "text.tagged", "--consensus", "--probabilities").stdout
    rows = [line.split("\t") for line in lines.splitlines() if line]
    assert [int(row[1]) for row in rows] == found.structure.tolist()
    chosen = found.marginals.gather(1, found.structure[:, None].long())[:, 0]
    assert [float(row[2]) for row in rows] == pytest.approx(chosen.tolist(), abs=1e-4)  # the mean of all runs


def test_other_models_by_name(texts: Path, models: Path, run: Run, tmp_path: Path) -> None:
    text, options = texts / "text.conllu", TEXTS["dmv"][1:]
    two = run("fit", "dmv", text, *options, "--valence", 2, "--max-iterations", 2, "--out", tmp_path / "two")
    assert two.exit_code == 0, two.stderr
    both = run("predict", models / "dmv", text, "--with", tmp_path / "two")
    assert "consensus of 2 runs" in both.stderr
    assert both.exit_code == 0
    every = json.loads(
        run("evaluate", models / "dmv", text, "--with", tmp_path / "two", "--consensus", "--json").stdout
    )
    assert every["runs"] == 4
    fits = [pu.load(models / "dmv"), pu.load(tmp_path / "two")]
    corpus = pu.data.short_tag_sequences(read_conllu(text, "upos"), 6, ["PUNCT"])
    assert every["directed"] == pu.consensus([*fits[0].runs, fits[1]], corpus, how="mbr").evaluate(corpus)["directed"]


def test_without_preferences(texts: Path, run: Run, tmp_path: Path) -> None:
    text, options = texts / "text.conllu", TEXTS["dmv"][1:]
    rule = ("--prefer", "distance=1", "--prefer-weight", 30)
    assert run("fit", "dmv", text, *options, *rule, *RESTARTS, "--out", tmp_path / "m").exit_code == 0
    heeding, free = (
        run("predict", tmp_path / "m", text, "--consensus", *more).stdout for more in ((), ("--without-preferences",))
    )
    assert heeding != free


def test_refused(texts: Path, models: Path, run: Run, tmp_path: Path) -> None:
    name, *options = TEXTS["tagger"]
    text = texts / str(name)
    fit = ("fit", "tagger", text, *options, "--max-iterations", 1)
    assert run(*fit, "--out", tmp_path / "one").exit_code == 0
    assert run(*fit, "--restarts", 2, "--jobs", 1, "--best-only", "--out", tmp_path / "best").exit_code == 0
    for folder in ("one", "best"):
        for command in ("predict", "evaluate"):
            result = run(command, tmp_path / folder, text, "--consensus")
            assert result.exit_code == 2
            assert f"error: {tmp_path / folder}: holds one run, and --consensus is of several: train" in result.stderr
    result = run("predict", tmp_path / "one", text, "--with", models / "ccm")
    said = (
        f"error: {models / 'ccm'}: is for the task ccm, and {tmp_path / 'one'} for tagger; --with takes models of one"
    )
    assert said in result.stderr
    assert run("fit", "tagger", text, "--tags", 5, "--max-iterations", 1, "--out", tmp_path / "five").exit_code == 0
    result = run("predict", tmp_path / "one", text, "--with", tmp_path / "five")
    assert "takes fits whose structures have the same parts: here the posterior of one is of shape" in result.stderr
    assert "no such folder" in run("predict", tmp_path / "one", text, "--with", tmp_path / "none").stderr
    pu.data.Corpus.of(["a b"]).save(tmp_path / "corpus")
    result = run("predict", tmp_path / "one", text, "--with", tmp_path / "corpus")
    assert "holds no model; --with takes models that `pyro-unsup fit` wrote" in result.stderr


def test_series(tmp_path: Path, run: Run) -> None:
    values = torch.randn(60, generator=torch.Generator().manual_seed(1)) + 5 * (torch.arange(60) % 20 < 10)
    (tmp_path / "s.csv").write_text("x\n" + "".join(f"{x:.3f}\n" for x in values.tolist()))
    fit = ("fit", "hmm", tmp_path / "s.csv", "--states", 2, "--max-iterations", 3, "--restarts", 3, "--jobs", 1)
    result = run(*fit, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.stderr
    found = run("predict", tmp_path / "m", tmp_path / "s.csv", "--consensus")
    assert found.exit_code == 0, found.stderr
    rows = [[float(cell) for cell in line.split("\t")] for line in found.stdout.splitlines()[1:]]
    expected = pu.load(tmp_path / "m").consensus(values.double().round(decimals=3))
    assert [int(row[0]) for row in rows] == expected.structure.tolist()
    assert torch.allclose(torch.tensor([row[1:] for row in rows]).double(), expected.marginals, atol=1e-3)
    result = run("predict", tmp_path / "m", tmp_path / "s.csv", "--consensus", "--given", "past")
    assert "error: --given past is of one model: leave it out, or leave out --consensus and --with" in result.stderr
    assert "No such option" in run("evaluate", tmp_path / "m", tmp_path / "s.csv", "--consensus").stderr
