"""What each kind of model predicts and scores, in the formats of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyro_unsup as pu
from pyro_unsup.data import (
    read_bitext,
    read_brackets,
    read_documents,
    read_links,
    read_segmented,
    short_tag_sequences,
    write_brackets,
)
from pyro_unsup.evaluate import bracket_scores, right_branching
from pyro_unsup.tasks.decoding.aligner import decode as align
from pyro_unsup.tasks.decoding.ccm import decode as parse

from .conftest import TEXTS, Run, tensors

KINDS = tuple(TEXTS)
PUNCT = ("PUNCT",)


def test_trees(tmp_path: Path, zoo: Path, run: Run) -> None:
    fit = pu.load(zoo / "ccm")
    gold = read_brackets(zoo / "trees.mrg")
    for how in ("viterbi", "mbr"):
        result = run("predict", zoo / "ccm", zoo / "trees.mrg", "--how", how)
        assert (result.exit_code, result.stderr) == (0, "")
        (tmp_path / "out.mrg").write_text(result.stdout)
        found = read_brackets(tmp_path / "out.mrg")
        kept = gold.drop_tags(*PUNCT)
        assert [found.sentence(i) for i in range(len(found))] == [kept.sentence(i) for i in range(len(kept))]
        write_brackets(kept, parse(fit, kept, how).brackets, tmp_path / "expected.mrg")
        assert (tmp_path / "expected.mrg").read_text() == result.stdout
    short = short_tag_sequences(gold, 10, PUNCT)
    scores = json.loads(run("evaluate", zoo / "ccm", zoo / "trees.mrg", "--json").stdout)
    expected = fit.evaluate(short)
    assert {name: scores[name] for name in expected} == expected
    assert scores["right_branching"] == bracket_scores(
        pu.data.bracket_rows(short), right_branching(short.lengths), short.lengths
    )
    assert scores["upper_bound"]["recall"] == 1
    assert scores["tokens"] == short.tokens
    table = run("evaluate", zoo / "ccm", zoo / "trees.mrg", "--max-length", 6).stdout
    assert all(word in table for word in ("recall", "precision", "f1", "crossing", "bits_per_tag", "branching"))


def test_sentences_of_nothing_but_punctuation_are_blank_lines(tmp_path: Path, zoo: Path, run: Run) -> None:
    text = tmp_path / "t.tagged"
    text.write_text("a/DET dog/NOUN barks/VERB !/PUNCT\n./PUNCT\nYes/NOUN\na/DET zork/BLIX\n")
    result = run("predict", zoo / "ccm", text)
    tree, blank, single, unknown = result.stdout.splitlines()
    assert tree in (
        "(X (X (DET a) (NOUN dog)) (VERB barks))",
        "(X (DET a) (X (NOUN dog) (VERB barks)))",
    )
    assert (blank, single, unknown) == ("", "(X (NOUN Yes))", "(X (DET a) (BLIX zork))")
    assert result.stderr == "1 of 6 tags are unknown to the model: the rest of the sentence decided\n"


def test_lines_of_tags(tmp_path: Path, zoo: Path, run: Run) -> None:
    corpus = short_tag_sequences(read_brackets(zoo / "trees.mrg"), 10, PUNCT)
    lines = "".join(" ".join(corpus.sentence(i)) + "\n" for i in range(len(corpus)))
    fit = ("fit", "ccm", "-", "--format", "lines", "--smooth", 0.1, "--max-iterations", 12, "--out", tmp_path / "m")
    assert run(*fit, stdin=lines).exit_code == 0
    assert tensors_of(tmp_path / "m") == tensors_of(zoo / "ccm")
    assert (
        run("predict", tmp_path / "m", "-", "--format", "lines", stdin="DET NOUN\n").stdout == "(X (_ DET) (_ NOUN))\n"
    )


def tensors_of(folder: Path) -> dict[str, list[float]]:
    return {name: w.tolist() for name, w in pu.load(folder).weights.items()}


def test_options_of_grammars(tmp_path: Path, zoo: Path, run: Run) -> None:
    fit = ("fit", "ccm", zoo / "trees.mrg", "--max-iterations", 3, "--tolerance", 0)
    options = ("--variant", 2, "--smooth", 2, "--smooth-distituents", 8, "--start", "uniform", "--empty-spans")
    assert (
        run(*fit, *options, "--drop", "PUNCT", "--drop", "ADV", "--max-length", 7, "--out", tmp_path / "m").exit_code
        == 0
    )
    data = short_tag_sequences(read_brackets(zoo / "trees.mrg"), 7, ("PUNCT", "ADV"))
    model = pu.models.CCM.of(data, variant=2, prior=(3.0, 9.0), empty_spans=True)
    estimate = pu.DirichletMAP()
    expected = pu.EM(model, estimate, model.uniform_start(data, estimate=estimate)).run(
        data, iterations=3, tolerance=0, progress=False
    )
    assert pu.load(tmp_path / "m").objective == expected.objective
    assert json.loads(run("evaluate", tmp_path / "m", zoo / "trees.mrg", "--json").stdout)["tokens"] == data.tokens
    skewed = ("--anneal", "--toward", "split", "--beta-start", 0.5)
    assert run(*fit[:3], *skewed, "--out", tmp_path / "skewed").exit_code == 0
    assert pu.load(tmp_path / "skewed").config["toward"] == "split"


def test_clusters(tmp_path: Path, zoo: Path, run: Run) -> None:
    fit, gold = pu.load(zoo / "clusterer"), read_documents(zoo / "documents.txt")
    clusters, marginals = fit.predict(gold, probabilities=True)
    result = run("predict", zoo / "clusterer", zoo / "documents.txt")
    assert result.stdout == "".join(f"{k}\n" for k in clusters.tolist())
    assert "words are unknown to the model: they were left out" in result.stderr
    rows = run("predict", zoo / "clusterer", zoo / "documents.txt", "--probabilities").stdout.splitlines()
    np.testing.assert_allclose([float(row.split("\t")[1]) for row in rows], marginals.max(1).values, atol=1e-6)
    scores = json.loads(run("evaluate", zoo / "clusterer", zoo / "documents.txt", "--json").stdout)
    expected = fit.evaluate(gold)
    assert {name: scores[name] for name in expected} == expected
    assert {"accuracy", "loglik_per_token"} <= scores.keys()
    assert scores["documents"] == len(gold)
    with_blank = "\n" + (zoo / "documents.txt").read_text().split("\t", 1)[1].split("\n")[0] + "\n"
    predict = ("predict", zoo / "clusterer", "-", "--format", "plain")
    assert len(run(*predict, "--keep-empty", stdin=with_blank).stdout.splitlines()) == 2
    refused = run(*predict, stdin=with_blank)
    what = "an empty document, expected at least one word; drop it, or add --keep-empty"
    assert (refused.exit_code, refused.stderr) == (2, f"error: -:1: {what}\n")
    for table in (run("evaluate", zoo / "clusterer", zoo / "documents.txt").stdout,):
        assert all(name in table for name in expected)


def test_documents_in_folders(tmp_path: Path, zoo: Path, run: Run) -> None:
    for number, line in enumerate((zoo / "documents.txt").read_text().splitlines()):
        label, text = line.split("\t")
        (tmp_path / "texts" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "texts" / label / str(number)).write_text(text)
    options = ("--clusters", 3, "--drop-frequent", 4, "--min-count", 2, "--max-iterations", 2)
    assert run("fit", "clusterer", tmp_path / "texts", *options, "--out", tmp_path / "m").exit_code == 0
    assert json.loads(run("evaluate", tmp_path / "m", tmp_path / "texts", "--json").stdout)["documents"] == 40


def test_documents_as_they_were_saved(tmp_path: Path, zoo: Path, run: Run) -> None:
    read_documents(zoo / "documents.txt").save(tmp_path / "saved")
    options = ("--clusters", 3, "--drop-frequent", 4, "--min-count", 2, "--max-iterations", 2)
    for name, source in (("a", zoo / "documents.txt"), ("b", tmp_path / "saved")):
        assert run("fit", "clusterer", source, *options, "--out", tmp_path / name).exit_code == 0
    assert pu.load(tmp_path / "a").objective == pu.load(tmp_path / "b").objective
    refused = run("fit", "clusterer", tmp_path / "saved", *options, "--lowercase", "--out", tmp_path / "c")
    assert refused.exit_code == 2
    assert "saved: taken as it was saved, which --lowercase would change; leave it out" in refused.stderr


def test_segments(zoo: Path, run: Run) -> None:
    fit, gold = pu.load(zoo / "segmenter"), read_segmented(zoo / "lines.txt")
    for how in ("viterbi", "mbr"):
        result = run("predict", zoo / "segmenter", zoo / "lines.txt", "--how", how)
        assert result.stdout.splitlines() == gold.lines(fit.predict(gold, how=how))
        unsegmented = (zoo / "lines.txt").read_text().replace(" ", "")
        assert run("predict", zoo / "segmenter", "-", "--how", how, stdin=unsegmented).stdout == result.stdout
        scores = json.loads(run("evaluate", zoo / "segmenter", zoo / "lines.txt", "--how", how, "--json").stdout)
        expected = fit.evaluate(gold, how)
        assert {name: scores[name] for name in expected} == expected
    assert {"token_f1", "boundary_f1", "lexicon_f1", "loglik_per_token"} <= scores.keys()
    assert scores["too_long_words"] == sum(len(word) > 6 for line in gold.lines() for word in line.split()) > 0
    long = run("evaluate", zoo / "segmenter", "-", stdin="Te dogdogdog\n")
    assert "1 of 2 gold words have more than 6 symbols, as no segment of the model has; they cannot be" in long.stderr
    assert (
        json.loads(run("evaluate", zoo / "segmenter", "-", "--json", stdin="Te dogdogdog\n").stdout)["too_long_words"]
        == 1
    )
    new = run("evaluate", zoo / "segmenter", "-", stdin="Te Q9\n")
    assert "1 of 4 symbols are unknown to the model: their neighbours decided" in new.stderr
    assert "1 of 1 lines have probability zero, so loglik_per_token is infinite" in new.stderr


def test_separators(tmp_path: Path, zoo: Path, run: Run) -> None:
    lines = [
        " / ".join(" ".join(word) for word in line.split()) for line in (zoo / "lines.txt").read_text().splitlines()
    ]
    (tmp_path / "apart.txt").write_text("".join(f"{line}\n" for line in lines))
    separators = ("--word-separator", " / ", "--symbol-separator", " ")
    fit = ("fit", "segmenter", tmp_path / "apart.txt", *separators, "--max-length", 6, "--max-iterations", 12)
    assert run(*fit, "--out", tmp_path / "m").exit_code == 0
    assert tensors(tmp_path / "m") == tensors(zoo / "segmenter")
    first = run("predict", tmp_path / "m", tmp_path / "apart.txt").stdout.splitlines()[0]
    plain = run("predict", zoo / "segmenter", zoo / "lines.txt").stdout.splitlines()[0]
    assert first == " / ".join(" ".join(word) for word in plain.split())


def test_links(tmp_path: Path, zoo: Path, run: Run) -> None:
    fit, gold = pu.load(zoo / "aligner"), read_bitext(zoo / "pairs.txt", links=zoo / "links.wa")
    for how in ("intersection", "union", "threshold", "grow-diag-final-and", "forward", "backward"):
        expected = align(fit, gold, how).links
        for format, name in (("pharaoh", "links.txt"), ("naacl", "links.wa")):
            options = ("--how", how, "--output-format", format, "--out", tmp_path / name)
            assert run("predict", zoo / "aligner", zoo / "pairs.txt", *options).exit_code == 0
            assert np.array_equal(read_links(tmp_path / name, gold).rows, expected.rows)
        evaluate = ("evaluate", zoo / "aligner", zoo / "pairs.txt", "--gold", zoo / "links.wa", "--how", how)
        scores = json.loads(run(*evaluate, "--json").stdout)
        wanted = fit.evaluate(gold, how)
        assert {name: scores[name] for name in wanted} == wanted
        assert 0 <= scores["aer"] < 0.6
    assert "aer" in run(*evaluate).stdout
    many, few = (
        run("predict", zoo / "aligner", zoo / "pairs.txt", "--how", "threshold", "--threshold", p).stdout
        for p in (0.1, 0.9)
    )
    assert len(few) < len(many)
    sure = run("predict", zoo / "aligner", zoo / "pairs.txt", "--probabilities").stdout.split()
    probabilities = fit.to_frame(gold)["probability"].tolist()
    assert [float(one.split(":")[1]) for one in sure] == pytest.approx(probabilities, abs=6e-5)


def test_words_that_the_model_sees_in_part(tmp_path: Path, run: Run) -> None:
    (tmp_path / "some.txt").write_text("Houses 12 ||| Häuser 12\nHousing ||| Hausbau\n12 ||| 12\n", encoding="utf-8")
    seen = ("--lowercase", "--strip-accents", "--numbers", "--prefix", 4)
    fit = ("fit", "aligner", tmp_path / "some.txt", *seen, "--max-iterations", 5, "--out", tmp_path / "m")
    assert run(*fit).exit_code == 0
    assert list(pu.load(tmp_path / "m").unhandled().model.source) == ["hous", "00"]
    (tmp_path / "new.txt").write_text("99 HOUSE ||| 98 Hausrat\n", encoding="utf-8")
    found = run("predict", tmp_path / "m", tmp_path / "new.txt")
    assert found.stdout == "0-0 1-1\n"
    assert "unknown" not in found.stderr


def test_two_files(tmp_path: Path, zoo: Path, run: Run) -> None:
    files = (zoo / "source.txt", zoo / "target.txt")
    assert run("fit", "aligner", *files, "--max-iterations", 12, "--out", tmp_path / "m").exit_code == 0
    assert tensors(tmp_path / "m") == tensors(zoo / "aligner")
    one = run("predict", zoo / "aligner", *files).stdout
    assert one == run("predict", zoo / "aligner", zoo / "pairs.txt").stdout
    assert one == run("predict", zoo / "aligner", "-", stdin=(zoo / "pairs.txt").read_text()).stdout


@pytest.mark.parametrize("agreement", ["product", "2008", "none"])
def test_agreement_and_null(tmp_path: Path, zoo: Path, run: Run, agreement: str) -> None:
    options = ("--agreement", agreement, "--null", 0.2, "--max-iterations", 2)
    assert run("fit", "aligner", zoo / "pairs.txt", *options, "--out", tmp_path / "m").exit_code == 0
    model: Any = pu.load(tmp_path / "m").model
    assert (model.agreement, model.null) == (None if agreement == "none" else agreement, 0.2)


@pytest.mark.parametrize(
    ("kind", "list_name"),
    [
        ("ccm", "constituents"),
        ("pcfg", "rules"),
        ("clusterer", "rows"),
        ("segmenter", "segments"),
        ("aligner", "translations"),
    ],
)
def test_show(zoo: Path, run: Run, kind: str, list_name: str) -> None:
    fit = pu.load(zoo / kind)
    found = json.loads(run("show", zoo / kind, "--json").stdout)
    assert found["model"] == type(fit.model).__name__
    assert found["tables"] == {name: list(w.shape) for name, w in fit.weights.items()}
    assert found["report"]["iterations"] == fit.report.iterations
    assert found[list_name]
    text = run("show", zoo / kind).stdout
    assert f"{type(fit.model).__name__}(" in text
    assert "likeliest" in text


# -- one command for all kinds


@pytest.mark.parametrize("kind", ["tagger", *KINDS])
def test_help(run: Run, kind: str) -> None:
    for command in (["fit", kind], ["predict", kind], ["evaluate", kind], ["show", kind]):
        result = run(*command, "--help")
        assert result.exit_code == 0
        assert "Usage:" in result.stdout
    assert kind in run("predict", "--help").stdout


def test_options_may_come_first(zoo: Path, run: Run) -> None:
    expected = run("predict", zoo / "segmenter", zoo / "lines.txt", "--how", "mbr")
    assert run("predict", "--how", "mbr", zoo / "segmenter", zoo / "lines.txt").stdout == expected.stdout
    assert expected.exit_code == 0


def test_options_of_other_kinds_are_refused(zoo: Path, run: Run) -> None:
    for arguments in (
        ("predict", zoo / "segmenter", zoo / "lines.txt", "--relabel", "x"),
        ("predict", zoo / "aligner", zoo / "pairs.txt", "--how", "viterbi"),
        ("evaluate", zoo / "aligner", zoo / "pairs.txt"),
        ("predict", zoo / "aligner"),
        ("predict",),
    ):
        result = run(*arguments)
        assert (result.exit_code, "error" in result.stderr.lower() or not arguments[1:]) == (2, True)
