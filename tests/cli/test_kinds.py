"""Every kind of model on the command line: what the library gives, whatever the engine, broken off or not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import (
    read_bitext,
    read_brackets,
    read_documents,
    read_segmented,
    short_tag_sequences,
)
from pyro_unsup.infer.stepwise import StepwiseEM

from .conftest import TEXTS, Run, contents, tensors

KINDS = tuple(TEXTS)
PUNCT = ("PUNCT",)


def data_of(kind: str, zoo: Path) -> Any:
    if kind in ("ccm", "pcfg"):
        return short_tag_sequences(read_brackets(zoo / "trees.mrg"), 10, PUNCT)
    if kind == "clusterer":
        return read_documents(zoo / "documents.txt").drop_frequent(4).drop_rare(2)
    return read_segmented(zoo / "lines.txt") if kind == "segmenter" else read_bitext(zoo / "pairs.txt")


def model_of(kind: str, data: Any) -> tuple[Any, Any, Any]:
    """The model, its estimator and its start, as the command line should make them."""
    if kind == "ccm":
        model = pu.models.CCM.of(data, prior=1.1)
        return model, pu.DirichletMAP(), model.split_start(data, estimate=pu.DirichletMAP())
    if kind == "pcfg":
        model = pu.models.PCFG.of(data, 3, 5)
        return model, pu.AddLambda(0.1), model.split_start(data)
    if kind == "clusterer":
        return pu.models.Clusterer(3, data.vocab), pu.AddLambda(0.1), pu.init.noise(1e-3)
    if kind == "segmenter":
        return pu.models.Segmenter.of(data, max_length=6), None, pu.init.uniform()
    return pu.models.Aligner.of(data), None, pu.init.uniform()


ENGINES: dict[str, tuple[tuple[object, ...], dict[str, Any], Callable[..., Any]]] = {
    "em": (("--tolerance", 0, "--max-iterations", 8), {"tolerance": 0, "iterations": 8}, pu.EM),
    "anneal": (
        ("--anneal", "--beta-start", 0.2, "--beta-factor", 2, "--tolerance", 0.001),
        {"tolerance": 0.001},
        lambda model, estimate, start: pu.Anneal(
            model,
            estimate,
            start,
            schedule=pu.schedules.geometric(0.2, 2),
            jitter=0.1 * isinstance(model, pu.models.Clusterer | pu.models.PCFG),
        ),
    ),
    "stepwise": (
        ("--stepwise", "--power", 0.8, "--batch-size", 7, "--seed", 2, "--max-iterations", 8, "--tolerance", 0),
        {"order_seed": 2, "seed": 2, "iterations": 8, "tolerance": 0},
        lambda *parts: StepwiseEM(*parts, power=0.8, batch_size=7),
    ),
    "viterbi": (
        ("--viterbi", "--smooth", 0.1, "--tolerance", 0, "--max-iterations", 4),
        {"tolerance": 0, "iterations": 4},
        lambda model, estimate, start: pu.EM(pu.harden(model), estimate or pu.AddLambda(0.1), start),
    ),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_fit_is_what_the_library_gives_and_survives_a_break(
    tmp_path: Path, zoo: Path, run: Run, stop_at: Callable[..., None], kind: str, engine: str
) -> None:
    (text, *options), (how, settings, make) = TEXTS[kind], ENGINES[engine]
    fit = ("fit", kind, zoo / str(text), *options, *how, "--out", tmp_path / "m")
    stop_at(0, 1)
    stopped = run(*fit)
    assert stopped.exit_code == 130
    assert stopped.stderr.splitlines()[-1].startswith("interrupted; what was learned is kept in ")
    stop_at(None)
    result = run(*fit, "--resume")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert "warning" not in stopped.stderr + result.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["m"]
    data = data_of(kind, zoo)
    expected = make(*model_of(kind, data)).run(data, progress=False, **settings)
    found = pu.load(tmp_path / "m")
    assert [row["objective"] for row in found.rows] == [row["objective"] for row in expected.rows]
    assert all(torch.equal(found.weights[name], w) for name, w in expected.weights.items())
    assert found.config.get("viterbi", False) == (engine == "viterbi")


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_belongs_to_one_run(
    tmp_path: Path, zoo: Path, run: Run, stop_at: Callable[..., None], kind: str
) -> None:
    text, *options = TEXTS[kind]
    fit = ("fit", kind, zoo / str(text), *options, "--tolerance", 0, "--max-iterations", 5, "--out", tmp_path / "m")
    stop_at(0, 2)
    assert run(*fit).exit_code == 130
    stop_at(None)
    before = contents(tmp_path)
    own = {
        "ccm": ("--max-length", 8, "--max-length 10, not 8"),
        "pcfg": ("--nonterminals", 2, "--nonterminals 3, not 2"),
        "clusterer": ("--clusters", 2, "--clusters 3, not 2"),
        "segmenter": ("--penalty", 2, "--penalty None, not 2.0"),
        "aligner": ("--agreement", "2008", "--agreement 'product', not '2008'"),
    }
    for *arguments, what in (own[kind], ("--stepwise", "--stepwise False, not True"), ("--noise", 1, "--noise None")):
        message = run(*fit, *arguments, "--resume").stderr.splitlines()[-1]
        assert message.startswith(f"error: {tmp_path / 'm.checkpoint'}: is of a run with {what}")
    other = ("fit", "tagger", zoo / "trees.mrg", "--out", tmp_path / "m", "--resume")
    assert "is of a run with another model; give the same again" in run(*other).stderr
    assert contents(tmp_path) == before
    assert run(*fit, "--resume").exit_code == 0


def test_restarts(tmp_path: Path, zoo: Path, run: Run) -> None:
    fit = ("fit", "segmenter", zoo / "lines.txt", "--max-iterations", 2, "--restarts", 3, "--jobs", 1)
    message = refusal_after_reading(run(*fit, "--out", tmp_path / "m"))
    what = "--restarts 3 would all start at the same place; give --noise 0.1 to set them apart, or leave it out"
    assert message == f"error: {what}"
    assert not any(tmp_path.iterdir())
    for name, options in (("noise", ["--noise", 0.1]), ("order", ["--stepwise", "--batch-size", 7])):
        assert run(*fit, *options, "--out", tmp_path / name).exit_code == 0
        assert len(set(pu.load(tmp_path / name).report.restarts)) == 3
    same = run(*fit, "--stepwise", "--batch-size", 7, "--order-seed", 1, "--out", tmp_path / "same")
    assert same.exit_code == 0
    assert len(set(pu.load(tmp_path / "same").report.restarts)) == 1
    assert "warning: all 3 restarts found the same; give --noise 0.1 to set them apart" in same.stderr


def refusal_after_reading(result: Any) -> str:
    """The message, if the command said what it read and then refused."""
    assert (result.exit_code, result.stdout) == (2, "")
    said: list[str] = result.stderr.splitlines()
    assert len(said) == 2
    return said[1]


def test_annealing_that_is_cut_short_says_so(tmp_path: Path, zoo: Path, run: Run) -> None:
    result = run("fit", "ccm", zoo / "trees.mrg", "--anneal", "--max-iterations", 2, "--out", tmp_path / "m")
    assert result.exit_code == 0
    assert "warning: annealing ended at beta = 0.01, before 1, where likelihood is maximised" in result.stderr


@pytest.mark.parametrize("kind", ["clusterer", "segmenter", "aligner"])
def test_stepwise_from_standard_input(tmp_path: Path, zoo: Path, run: Run, kind: str) -> None:
    text, *options = TEXTS[kind]
    how = ("--stepwise", "--batch-size", 7, "--max-iterations", 2)
    for out, file in (("file", zoo / str(text)), ("stdin", "-")):
        stdin = (zoo / str(text)).read_bytes()
        assert run("fit", kind, file, *options, *how, "--out", tmp_path / out, stdin=stdin).exit_code == 0
    assert tensors(tmp_path / "file") == tensors(tmp_path / "stdin")


def test_files_of_mixed_encodings(tmp_path: Path, run: Run) -> None:
    for name, content in (("a/1", "the dog barks"), ("a/2", "the dog sleeps"), ("b/1", "un café crème")):
        (tmp_path / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "docs" / name).write_text(content, encoding="utf-8")
    (tmp_path / "docs" / "b" / "2").write_bytes("du café crème".encode("latin-1"))
    said = "1 file is not UTF-8 and read as Latin-1 (--encoding utf-8 refuses that)"
    few = ("--clusters", 2, "--min-count", 1, "--drop-frequent", 0)
    result = run("fit", "clusterer", tmp_path / "docs", *few, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.stderr
    assert said in result.stderr
    assert {"café", "crème"} <= set(pu.load(tmp_path / "m").model.vocab)
    for command in ("predict", "evaluate"):
        result = run(command, tmp_path / "m", tmp_path / "docs")
        assert result.exit_code == 0, result.stderr
        assert result.stderr.splitlines()[0] == said
    refused = run("fit", "clusterer", tmp_path / "docs", *few, "--encoding", "utf-8", "--out", tmp_path / "n")
    assert refused.exit_code == 2
    assert "byte 0xe9 is not UTF-8" in refused.stderr
