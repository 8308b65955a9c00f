"""Products of dependency and constituent-context model on the command line."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import read_brackets, read_conllu, short_tag_sequences, toy, write_brackets, write_heads
from pyro_unsup.tasks.decoding.dmv_ccm import decode

from .conftest import Run, run_command
from .test_bad_input import refusal
from .test_dmv import conllu

SMOOTH = ("--smooth", 0.1, "--smooth-constituents", 0.5, "--smooth-distituents", 1)


@pytest.fixture(scope="module")
def grammar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a treebank (``text.conllu``, ``text.mrg``) and a model of it."""
    folder = tmp_path_factory.mktemp("headed")
    corpus = toy.sentences(50, seed=3)
    (folder / "text.conllu").write_text(conllu(corpus))
    write_brackets(corpus, None, folder / "text.mrg")
    result = run_command("fit", "dmv-ccm", folder / "text.conllu", "--max-iterations", 5, "--out", folder / "m")
    assert result.exit_code == 0, result.stderr
    return folder


def test_fit_is_what_the_library_gives(tmp_path: Path, grammar: Path, run: Run) -> None:
    data = short_tag_sequences(read_conllu(grammar / "text.conllu", drop_upos=["PUNCT"]), 10, ())
    for options, arcs, spans, order, reading in (
        ((), 1.0, (3.0, 9.0), "right", "counts"),
        ((*SMOOTH, "--order", "left", "--start", "harmonic-tree"), 1.1, (1.5, 2.0), "left", "tree"),
    ):
        prior = {**dict.fromkeys(("root", "attach", "stop"), arcs), **dict.fromkeys(("yield", "context"), spans)}
        model, estimate = pu.models.DMVCCM.of(data, prior=prior, order=order), pu.DirichletMAP()
        engine = pu.EM(model, estimate, model.start(data, reading=reading, estimate=estimate))
        expected = engine.run(data, iterations=5, tolerance=1e-6, progress=False)
        fit = ("fit", "dmv-ccm", grammar / "text.conllu", "--max-iterations", 5, *options, "--out", tmp_path / order)
        assert run(*fit).exit_code == 0
        found = pu.load(tmp_path / order)
        assert [row["objective"] for row in found.rows] == [row["objective"] for row in expected.rows]
        assert all(torch.equal(found.weights[name], w) for name, w in expected.weights.items())
        assert found.model.order == order


def test_annealing_and_mini_batches(tmp_path: Path, grammar: Path, run: Run) -> None:
    for name, options in (
        ("anneal", ("--anneal", "--beta-start", 0.5, "--beta-factor", 2, "--max-iterations", 4)),
        ("stepwise", ("--stepwise", "--max-iterations", 2)),
    ):
        assert run("fit", "dmv-ccm", grammar / "text.conllu", *options, "--out", tmp_path / name).exit_code == 0


def test_trees_out(tmp_path: Path, grammar: Path, run: Run) -> None:
    fit, path = pu.load(grammar / "m"), grammar / "text.conllu"
    whole = read_conllu(path, "upos")
    words = np.array(whole.tagset.decode(whole.tags)) != "PUNCT"  # type: ignore[union-attr, arg-type]
    kept = read_conllu(path).keep_tokens(words)
    result = run("predict", grammar / "m", path)
    assert (result.exit_code, result.stderr) == (0, "")
    stream = io.StringIO()
    write_heads(path, pu.data.spread_heads(fit.predict(kept).numpy(), whole.offsets, words), stream)
    assert result.stdout == stream.getvalue()
    result = run("predict", grammar / "m", path, "--brackets", "--how", "viterbi", "--out", tmp_path / "out.mrg")
    assert (result.exit_code, result.stdout) == (0, "")
    found = read_brackets(tmp_path / "out.mrg")
    wide = [row for row in decode(fit, kept, "viterbi").brackets.tolist() if row[2] - row[1] > 1]
    assert sorted(map(tuple, pu.data.bracket_rows(found).tolist())) == sorted(map(tuple, wide))
    punctuation = "1\t.\t_\tPUNCT\t_\t_\t_\t_\t_\t_\n\n"
    assert run("predict", grammar / "m", "-", "--format", "conllu", "--brackets", stdin=punctuation).stdout == ""


def test_scores(tmp_path: Path, grammar: Path, run: Run) -> None:
    assert run("fit", "dmv-ccm", grammar / "text.mrg", "--max-iterations", 2, "--out", tmp_path / "m").exit_code == 0
    heads = short_tag_sequences(read_conllu(grammar / "text.conllu", drop_upos=["PUNCT"]), 10, ())
    trees = short_tag_sequences(read_brackets(grammar / "text.mrg"), 10, ["PUNCT"])
    for folder, file, gold, name in (
        (grammar / "m", "text.conllu", heads, "directed"),
        (tmp_path / "m", "text.mrg", trees, "f1"),
    ):
        for how in ("mbr", "viterbi"):
            found = json.loads(run("evaluate", folder, grammar / file, "--how", how, "--json").stdout)
            expected = pu.load(folder).evaluate(gold, how=how)
            assert name in expected
            assert {key: found[key] for key in expected} == expected
            assert (found["tokens"], found["unknown_tokens"]) == (gold.tokens, 0)
        assert name in run("evaluate", folder, grammar / file).stdout
    other = run("evaluate", tmp_path / "m", grammar / "text.conllu")  # its tags are in lower case
    assert "tags is known to the model; is it the tag set that the model was trained on?" in refusal(other)


def test_show_and_help(grammar: Path, run: Run) -> None:
    found = json.loads(run("show", grammar / "m", "--json", "--top", 2).stdout)
    assert (found["model"], found["order"]) == ("DMVCCM", "right")
    assert len(found["root"]) <= 2
    assert len(found["constituents"]) == 2
    assert "likeliest" in run("show", grammar / "m").stdout
    for command in ("fit", "predict", "evaluate", "show"):
        assert "Usage:" in run(command, "dmv-ccm", "--help").stdout


def test_bad_input(tmp_path: Path, grammar: Path, run: Run) -> None:
    (tmp_path / "plain.txt").write_text("noun verb\n")
    assert refusal(run("evaluate", grammar / "m", tmp_path / "plain.txt", "--format", "lines")).endswith(
        "no heads or brackets in it, expected a treebank; is --format right?"
    )
