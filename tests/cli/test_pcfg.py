"""The commands of grammars with labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import read_brackets, short_tag_sequences

from .conftest import Run

LABELS = ("--nonterminals", 2, "--preterminals", 4, "--max-iterations", 4)


def test_predicted_trees_are_those_of_the_library(zoo: Path, run: Run, tmp_path: Path) -> None:
    fit = pu.load(zoo / "pcfg")
    data = read_brackets(zoo / "trees.mrg").drop_tags("PUNCT")
    for how in ("mbr", "viterbi"):
        result = run("predict", zoo / "pcfg", zoo / "trees.mrg", "--how", how)
        assert result.exit_code == 0, result.stderr
        decoded = fit.decode(data, how=how)
        pu.data.write_brackets(data, decoded.brackets, tmp_path / "ours.mrg", label=decoded.labels)
        assert result.stdout == (tmp_path / "ours.mrg").read_text()
        (tmp_path / "again.mrg").write_text(result.stdout)
        again = read_brackets(tmp_path / "again.mrg", labels=True)
        assert again.span_labelset is not None
        assert set(again.span_labelset) <= {"N0", "N1", "N2"}


def test_scores_of_labels(zoo: Path, run: Run) -> None:
    found = json.loads(run("evaluate", zoo / "pcfg", zoo / "trees.mrg", "--json").stdout)
    # All brackets of this treebank have one label, so that labels cost nothing.
    assert found["labelled_f1"] == pytest.approx(found["f1"])
    assert found["right_branching"]["labelled_f1"] == pytest.approx(found["right_branching"]["f1"])
    gold = short_tag_sequences(read_brackets(zoo / "trees.mrg"), 10, ["PUNCT"])
    assert found["f1"] == pytest.approx(pu.load(zoo / "pcfg").evaluate(gold)["f1"])


def test_every_restart_has_a_start_of_its_own(zoo: Path, run: Run, tmp_path: Path) -> None:
    fit = ("fit", "pcfg", zoo / "trees.mrg", *LABELS)
    result = run(*fit, "--restarts", 3, "--jobs", 1, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.stderr
    assert len(set(pu.load(tmp_path / "m").report.restarts)) == 3


def test_starts_and_smoothing(zoo: Path, run: Run, tmp_path: Path) -> None:
    data = short_tag_sequences(read_brackets(zoo / "trees.mrg"), 10, ["PUNCT"])
    model = pu.models.PCFG.of(data, 2, 4)
    starts = {
        "split": (("--label-noise", 2), model.split_start(data, noise=2.0)),
        "noise": (("--start", "noise", "--label-noise", 2), pu.init.noise(2.0)),
    }
    for name, (options, start) in starts.items():
        fit = ("fit", "pcfg", zoo / "trees.mrg", *LABELS, *options, "--out", tmp_path / name)
        assert run(*fit).exit_code == 0
        expected = pu.EM(model, pu.AddLambda(0.01), start).run(data, iterations=4, progress=False)
        found = pu.load(tmp_path / name)
        assert all(torch.equal(found.weights[table], w) for table, w in expected.weights.items())
    skewed = ("--anneal", "--toward", "split", "--beta-start", 0.5, "--beta-factor", 2, "--out", tmp_path / "skewed")
    assert run("fit", "pcfg", zoo / "trees.mrg", *LABELS, *skewed).exit_code == 0


def test_factored_rules(zoo: Path, run: Run, tmp_path: Path) -> None:
    """The same commands, from training to the report, for a grammar whose rules are products."""
    fit = ("fit", "pcfg", zoo / "trees.mrg", *LABELS, "--rules", "factored", "--out", tmp_path / "m")
    assert run(*fit).exit_code == 0
    data = short_tag_sequences(read_brackets(zoo / "trees.mrg"), 10, ["PUNCT"])
    model = pu.models.SimplePCFG.of(data, 2, 4)
    expected = pu.EM(model, pu.AddLambda(0.01), model.split_start(data)).run(data, iterations=4, progress=False)
    found = pu.load(tmp_path / "m")
    assert isinstance(found.model, pu.models.SimplePCFG)
    assert all(torch.equal(found.weights[table], w) for table, w in expected.weights.items())
    shown = json.loads(run("show", tmp_path / "m", "--json").stdout)
    first = shown["rules"]["N0"][0]
    left, right = (found.weights[side][0].exp() for side in ("left", "right"))
    assert first["parts"] == f"{model.labels[int(left.argmax())]} {model.labels[int(right.argmax())]}"
    assert first["probability"] == pytest.approx(float(left.max() * right.max()))
    scores = json.loads(run("evaluate", tmp_path / "m", zoo / "trees.mrg", "--json").stdout)
    assert scores["f1"] == pytest.approx(expected.evaluate(data)["f1"])
    assert run("predict", tmp_path / "m", zoo / "trees.mrg").stdout.count("(") > 100
    report = run("report", tmp_path / "m", "--gold", zoo / "trees.mrg", "--out", tmp_path / "report.html")
    assert report.exit_code == 0, report.stderr
    assert "Strongest rules" in (tmp_path / "report.html").read_text()


def test_constraints(zoo: Path, run: Run, tmp_path: Path) -> None:
    fit = ("fit", "pcfg", zoo / "trees.mrg", *LABELS, "--prefer", "~ends-in=DET", "--out", tmp_path / "m")
    result = run(*fit)
    assert result.exit_code == 0, result.stderr
    frame = pu.load(tmp_path / "m").to_frame(short_tag_sequences(read_brackets(zoo / "trees.mrg"), 10, ["PUNCT"]))
    last = frame["words"].str.split().str[-1]
    assert (last != "DET").all()
