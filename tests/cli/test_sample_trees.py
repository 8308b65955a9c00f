"""Sampling trees on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyro_unsup as pu
from pyro_unsup.cli.chains import Chains
from pyro_unsup.data import bracket_rows, read_brackets, read_conllu

from .conftest import Run, tensors

RUN: tuple[Any, ...] = ("--sweeps", 10, "--chains", 2, "--seed", 5, "--max-length", 6)
BRACKETS = """\
(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT a) (NN cat))))
(S (NP (NN dogs)) (VP (VBD ran) (RB fast)))
(S (NP (DT a) (JJ big) (NN cat)) (VP (VBD slept)) (. .))
(S (NP (PRP he)) (VP (VBD saw) (NP (DT the) (JJ old) (NN dog))))
(X (UH oh))
"""


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trees")
    (folder / "trees.mrg").write_text(BRACKETS * 4)
    corpus = read_brackets(folder / "trees.mrg")
    heads = np.concatenate([np.append(np.arange(2, n + 1), 0) for n in corpus.lengths])  # every word's is the next one
    pu.data.write_conllu(corpus, heads, folder / "heads.conllu")
    return folder


#: By task and kind of model: the file, options, and what the library calls them.
TASKS: dict[str, tuple[str, tuple[Any, ...], Any]] = {
    "dmv": (
        "heads.conllu",
        ("--alpha", 0.5, "--beta", 0.2, "--hyper", "shared", "--valence", 2),
        lambda corpus: pu.CollapsedGibbs(pu.models.DMV.of(corpus, valence=2), 0.5, 0.2, hyper="shared"),
    ),
    "ccm": (
        "trees.mrg",
        ("--constituents", 0.4, "--distituents", 3, "--variant", 2, "--anneal"),
        lambda corpus: pu.CollapsedGibbs(
            pu.models.CCM.of(corpus, variant=2, prior=(0.4, 3.0)), temperature=pu.schedules.Cooling()
        ),
    ),
    "dmv-ccm": (
        "heads.conllu",
        ("--arcs", 0.3, "--order", "left"),
        lambda corpus: pu.CollapsedGibbs(
            pu.models.DMVCCM.of(
                corpus,
                prior={"root": 0.3, "attach": 0.3, "stop": 0.3, "yield": (0.5, 2.0), "context": (0.5, 2.0)},
                order="left",
            )
        ),
    ),
    "pcfg": (
        "trees.mrg",
        ("--nonterminals", 2, "--preterminals", 3),
        lambda corpus: pu.CollapsedGibbs(pu.models.PCFG.of(corpus, 2, 3), 0.1, 0.1),
    ),
    "pcfg, factored": (
        "trees.mrg",
        ("--nonterminals", 2, "--preterminals", 3, "--rules", "factored", "--hyper", "shared", "--beta", 0.2),
        lambda corpus: pu.CollapsedGibbs(pu.models.SimplePCFG.of(corpus, 2, 3), 0.1, 0.2, hyper="shared"),
    ),
}


@pytest.mark.parametrize("kind", TASKS)
def test_samples_are_what_the_library_gives(kind: str, texts: Path, run: Run, tmp_path: Path) -> None:
    name, options, make = TASKS[kind]
    task, file, out = kind.split(",")[0], texts / name, tmp_path / "s"
    result = run("sample", task, file, *RUN, *options, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "2 chains of 10 sweeps" in result.stderr
    whole = read_brackets(file, labels=task == "pcfg") if name.endswith("mrg") else read_conllu(file)
    corpus = pu.data.short_tag_sequences(whole, 6, ["."])
    wanted = make(corpus).run(corpus, sweeps=10, chains=2, seed=5, progress=False)
    found = pu.Samples.load(out)
    np.testing.assert_array_equal(found.labels, wanted.labels)
    for how in ("last", "best", "vote"):
        shown = json.loads(run("evaluate", out, file, "--how", how, "--json").stdout)
        assert shown.pop("tokens") == corpus.tokens
        assert shown == wanted.evaluate(corpus, how)  # type: ignore[arg-type]
    scored = shown["directed" if name.endswith("conllu") else "f1"]
    assert 0 <= scored["mean"] <= 1
    assert "together" in scored
    result = run("predict", out, file, "--out", tmp_path / "trees")
    assert result.exit_code == 0, result.stderr
    if name.endswith("conllu"):
        again = read_conllu(tmp_path / "trees")
        np.testing.assert_array_equal(again.heads, found.predict("vote"))
    else:
        again = read_brackets(tmp_path / "trees")
        assert len(again) == len(corpus)
        inside = int((found.predict("vote") >= 0).sum() if task == "pcfg" else found.predict("vote").sum())
        singles = int((corpus.lengths == 1).sum()) if task == "pcfg" else 0
        multi = bracket_rows(again)
        assert (multi[:, 2] - multi[:, 1] > 1).sum() == inside + singles - corpus.tokens
    page = " ".join(run("show", out).stdout.split())
    assert "of their last trees in common" in page
    assert "likeliest" in page
    assert json.loads(run("show", out, "--json").stdout)["chains"] == 2


def test_factored_rules_go_on_after_an_interrupt(
    texts: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # one chain after the other
    sample = ("sample", "pcfg", texts / "trees.mrg", *RUN, "--nonterminals", 2, "--preterminals", 3)
    factored = ("--rules", "factored")
    assert run(*sample, *factored, "--out", tmp_path / "whole").exit_code == 0
    note = Chains.note
    with monkeypatch.context() as interrupted:
        interrupted.setattr(Chains, "note", lambda chains, x: note(chains, x) or (x.chain, x.sweep) == (1, 4))
        assert run(*sample, *factored, "--out", tmp_path / "s").exit_code == 130
    result = run(*sample, "--out", tmp_path / "s", "--resume")
    assert result.exit_code == 2
    assert "is of a run with --rules 'factored', not 'full'; give the same again" in result.stderr
    assert run(*sample, *factored, "--out", tmp_path / "s", "--resume").exit_code == 0
    assert tensors(tmp_path / "s") == tensors(tmp_path / "whole")
    page = json.loads(run("show", tmp_path / "s", "--json").stdout)
    assert {"rules", "preterminals_of_tags"} <= page.keys()
    assert isinstance(pu.Samples.load(tmp_path / "s").model, pu.models.SimplePCFG)


def test_another_text_is_refused(texts: Path, run: Run, tmp_path: Path) -> None:
    assert run("sample", "ccm", texts / "trees.mrg", *RUN, "--out", tmp_path / "s").exit_code == 0
    (tmp_path / "other.mrg").write_text("(S (NP (NN dogs)) (VP (VBD ran) (RB fast)))\n")
    result = run("evaluate", tmp_path / "s", tmp_path / "other.mrg")
    assert result.exit_code != 0
    assert "is not the text that was sampled" in result.stderr


def test_brackets_of_heads(texts: Path, run: Run, tmp_path: Path) -> None:
    assert run("sample", "dmv-ccm", texts / "trees.mrg", *RUN, "--out", tmp_path / "s").exit_code == 0
    shown = json.loads(run("evaluate", tmp_path / "s", texts / "trees.mrg", "--json").stdout)
    assert {"f1", "recall"} <= shown.keys()
    assert "directed" not in shown
    lines = run("predict", tmp_path / "s", texts / "trees.mrg", "--brackets").stdout.splitlines()
    assert "(DT the) (NN dog)" in lines[0].replace("(X ", "")
    assert len(lines) == 20
    assert all(line.count("(") == line.count(")") > 0 for line in lines)


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [
        ("dmv", ("--alpha", 0), "--alpha must be positive and finite, actual 0"),
        ("dmv-ccm", ("--distituents", "inf"), "--distituents must be positive and finite, actual inf"),
        ("pcfg", ("--hyperprior", "log-uniform"), "give --hyper shared too"),
        ("dmv", ("--hyper", "separate"), "'separate' is not one of 'fixed', 'shared'"),
        ("pcfg", ("--rules", "some"), "'some' is not one of 'full', 'factored'"),
    ],
)
def test_what_is_refused(task: str, options: Any, message: str, texts: Path, run: Run, tmp_path: Path) -> None:
    result = run("sample", task, texts / "trees.mrg", *options, "--out", tmp_path / "s")
    assert result.exit_code != 0
    assert message in " ".join(result.stderr.replace("\u2502", " ").split())
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("task", "small"),
    [
        ("pcfg", ("--nonterminals", 2, "--preterminals", 3)),
        ("pcfg", ("--nonterminals", 2, "--preterminals", 3, "--rules", "factored")),
        ("ccm", ()),
        ("dmv", ()),
    ],
)
def test_words_are_written_as_by_a_fit(task: str, small: Any, texts: Path, run: Run, tmp_path: Path) -> None:
    file = texts / "trees.mrg"
    told = ("--sweeps", 4, "--max-length", 4, *small, "--out", tmp_path / "s")
    assert run("sample", task, file, *told).exit_code == 0
    done = run("predict", tmp_path / "s", file, "--out", tmp_path / "written")
    assert done.exit_code == 0, done.stderr
    assert "written: 12 sentences (8 of 20 are longer than 4 and left out)" in done.stderr
    again = (read_conllu if task == "dmv" else read_brackets)(tmp_path / "written")
    whole = read_brackets(file).drop_tags(".").filter(max_length=4)
    assert [again.sentence(i) for i in range(12)] == [whole.sentence(i) for i in range(12)]
    assert [again.sentence_tags(i) for i in range(12)] == [whole.sentence_tags(i) for i in range(12)]


def test_words_without_tags_get_the_names_of_preterminals(run: Run, tmp_path: Path) -> None:
    (tmp_path / "tags.txt").write_text("DT NN VBD\nNN VBD\nUH\n" * 3)
    told = ("--sweeps", 4, "--nonterminals", 2, "--preterminals", 2, "--out", tmp_path / "s")
    assert run("sample", "pcfg", tmp_path / "tags.txt", *told).exit_code == 0
    lines = run("predict", tmp_path / "s", tmp_path / "tags.txt").stdout.splitlines()
    names = pu.Samples.load(tmp_path / "s").model.labels[2:]
    found = [re.findall(r"\((\S+) ([^()\s]+)\)", line) for line in lines]
    assert [[word for _, word in row] for row in found] == [["DT", "NN", "VBD"], ["NN", "VBD"], ["UH"]] * 3
    assert {tag for row in found for tag, _ in row if len(row) > 1} <= set(names)
    assert found[2][0][0] == "_"
