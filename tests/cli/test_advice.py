"""What the commands say of results: baselines, caps, text that was left out, and advice that fits the case."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import pyro_unsup as pu

from .conftest import TEXTS, Run

BASELINES = {
    "tagger": {"one_tag"},
    "ccm": {"left_branching", "right_branching", "upper_bound"},
    "pcfg": {"left_branching", "right_branching", "upper_bound"},
    "clusterer": {"one_cluster"},
    "segmenter": {"every_symbol", "no_cut"},
    "aligner": {"diagonal"},
}


@pytest.mark.parametrize("kind", BASELINES)
def test_baselines_stand_beside_scores(world: Path, zoo: Path, run: Run, kind: str) -> None:
    model, text = (
        (world / "model", world / "text.tagged") if kind == "tagger" else (zoo / kind, zoo / str(TEXTS[kind][0]))
    )
    evaluate = ("evaluate", model, text, *(("--gold", zoo / "links.wa") if kind == "aligner" else ()))
    found, table = json.loads(run(*evaluate, "--json").stdout), run(*evaluate)
    task = pu.tasks.find(kind)
    for name in BASELINES[kind]:
        assert task.main[-1] in found[name]
        assert all(word in table.stdout for word in name.split("_"))


def test_baselines_are_what_they_say(zoo: Path, run: Run) -> None:
    found = json.loads(run("evaluate", zoo / "segmenter", zoo / "lines.txt", "--json").stdout)
    lines = (zoo / "lines.txt").read_text().splitlines()
    words = [word for line in lines for word in line.split()]
    letters = sum(map(len, words))
    single = sum(len(word) == 1 for word in words)
    assert found["every_symbol"]["token_f1"] == pytest.approx(2 * single / (letters + len(words)))
    alone = sum(len(line.split()) == 1 for line in lines)
    assert found["no_cut"]["token_recall"] == pytest.approx(alone / len(words))
    gold = pu.data.read_bitext(zoo / "pairs.txt", links=zoo / "links.wa")
    found = json.loads(run("evaluate", zoo / "aligner", zoo / "pairs.txt", "--gold", zoo / "links.wa", "--json").stdout)
    rows = [[i, k, k] for i, (a, b) in enumerate(zip(gold.source.lengths, gold.target.lengths, strict=True))
            for k in range(min(a, b))]  # fmt: skip
    assert found["diagonal"] == pu.evaluate.alignment_report(gold.links, np.array(rows))  # type: ignore[arg-type]


def test_a_better_baseline_is_said(tmp_path: Path, run: Run) -> None:
    (tmp_path / "zh.txt").write_text("a b c d\nd c b a\na c b d\n" * 5)
    (tmp_path / "gold.txt").write_text("a b c d\nb d a c\n")
    assert run("fit", "segmenter", tmp_path / "zh.txt", "--no-penalty", "--out", tmp_path / "m").exit_code == 0
    said = run("evaluate", tmp_path / "m", tmp_path / "gold.txt").stderr
    assert "a trivial baseline is better: if every symbol is a word, token_f1 is 100.0 %; the model has " in said
    assert said.rstrip().endswith("Try another --penalty: a higher one finds shorter words")
    good = run("fit", "segmenter", tmp_path / "zh.txt", "--max-length", 1, "--out", tmp_path / "good")
    assert good.exit_code == 0
    assert "baseline is better" not in run("evaluate", tmp_path / "good", tmp_path / "gold.txt").stderr


@pytest.mark.parametrize("command", ["fit", "sample"])
def test_advice_can_be_followed(command: str) -> None:
    """Options that are named there are those of the command that made the model, or the samples."""
    for kind in pu.tasks.names(command):
        task = pu.tasks.find(kind)
        text = task.when_worse if command == "fit" else task.when_worse_sampled or task.when_worse
        whole = re.findall(r"`([a-z]+) ([a-z-]+)([^`]*)`", text)  # another command, with its options
        asked = [(command, kind, re.sub("`[^`]*`", "", text)), *whole]
        for name, of, words in asked:
            known = {one.flag.partition(",")[0] for one in pu.tasks.find(of).options(name)}
            assert {*re.findall(r"--[a-z-]+", words)} <= known, (kind, text)


def test_advice_for_samples_is_of_their_command(tmp_path: Path, zoo: Path, run: Run) -> None:
    sample = ("sample", "aligner", zoo / "pairs.txt", "--sweeps", 1, "--burn-in", 0, "--out", tmp_path / "s")
    assert run(*sample).exit_code == 0  # links are still where they were drawn
    said = run("evaluate", tmp_path / "s", zoo / "pairs.txt", "--gold", zoo / "links.wa").stderr
    assert "a trivial baseline is better: if every word is linked to the word at its own place, aer is " in said
    assert said.rstrip().endswith("Try --model hmm --fertility 0.5, or more pairs of sentences")


def test_an_iteration_cap_is_a_warning_and_training_goes_on(tmp_path: Path, world: Path, run: Run) -> None:
    fit = ("fit", "tagger", world / "text.tagged", "--algorithm", "em", "--tags", 4)
    short = run(*fit, "--max-iterations", 5, "--out", tmp_path / "a")
    assert short.exit_code == 0
    warned = [line for line in short.stderr.splitlines() if line.startswith("warning: ")]
    assert len(warned) == 1
    assert warned[0].startswith("warning: training stopped after 5 iterations, before it converged: the last relative")
    assert "the tolerance is 1e-06" in warned[0]
    assert warned[0].endswith(f"add --from {tmp_path / 'a'} to the command, with another --out")
    assert "warning" not in run(*fit, "--max-iterations", 5, "--tolerance", 0, "--out", tmp_path / "asked").stderr
    further = run(*fit, "--from", tmp_path / "a", "--max-iterations", 3, "--out", tmp_path / "b")
    assert further.exit_code == 0, further.stderr
    first, second, whole = (pu.load(tmp_path / name) for name in "abb")
    assert second.rows[0]["objective"] == pytest.approx(first.objective)
    assert run(*fit, "--max-iterations", 8, "--out", tmp_path / "c").exit_code == 0
    whole = pu.load(tmp_path / "c")
    assert all(torch.allclose(second.weights[name].exp(), w.exp()) for name, w in whole.weights.items())
    other = run("fit", "tagger", world / "text.tagged", "--tags", 5, "--from", tmp_path / "a", "--out", tmp_path / "d")
    assert other.exit_code == 2
    assert "--from needs the same text and options as before" in other.stderr.splitlines()[-1]


@pytest.mark.parametrize("kind", TEXTS)
def test_every_model_trains_further(tmp_path: Path, zoo: Path, run: Run, kind: str) -> None:
    text, *options = TEXTS[kind]
    fit = ("fit", kind, zoo / str(text), *options, "--from", zoo / kind, "--max-iterations", 1, "--out", tmp_path / "m")
    assert run(*fit).exit_code == 0
    assert pu.load(tmp_path / "m").rows[0]["objective"] == pytest.approx(pu.load(zoo / kind).objective)


@pytest.mark.parametrize("how", [("--features", 1), ("--features", 1, "--gradient")])
@pytest.mark.parametrize("kind", TEXTS)
def test_features_go_on_from_where_they_were(
    tmp_path: Path, zoo: Path, run: Run, kind: str, how: tuple[object, ...]
) -> None:
    text, *options = TEXTS[kind]
    if "--smooth" in options:  # another way to make weights of counts
        at = options.index("--smooth")
        options = [*options[:at], *options[at + 2 :]]
    if kind == "aligner" and "--gradient" in how:
        options += ["--agreement", "2008"]  # products have no gradient
    fit = ("fit", kind, zoo / str(text), *options, *how, "--max-iterations", 2)
    first = run(*fit, "--out", tmp_path / "a")
    assert first.exit_code == 0, first.stderr
    again = run(*fit, "--from", tmp_path / "a", "--out", tmp_path / "b")
    assert again.exit_code == 0, again.stderr
    one, two = pu.load(tmp_path / "a"), pu.load(tmp_path / "b")
    assert two.rows[0]["objective"] == pytest.approx(one.objective, rel=1e-12)


def test_advice_fits_model_estimator_and_text(tmp_path: Path, world: Path, zoo: Path, run: Run) -> None:
    (tmp_path / "new.tagged").write_text("the DET\nzebra NOUN\ndog NOUN\n")
    impossible = "1 of 1 sentences have probability zero, so bits_per_word is infinite"
    for options, advice in (
        (("--algorithm", "em"), ": train with --min-count 2 --smooth 0.1 for text like this"),
        ((), ": train with --min-count 2 for text like this"),  # features, as recommended
        (("--algorithm", "em", "--min-count", 2), None),  # unknown words have a probability
        (("--smooth", 0.1), ": train with --min-count 2 for text like this"),
        (("--vb", 0.1), ": train with --min-count 2 for text like this"),
        (("--features", 1), ": train with --min-count 2 for text like this"),
    ):
        out = tmp_path / "-".join(map(str, options))
        fit = ("fit", "tagger", world / "text.tagged", "--tags", 3, "--max-iterations", 3, *options, "--out", out / "m")
        assert run(*fit).exit_code == 0
        said = run("evaluate", out / "m", tmp_path / "new.tagged").stderr
        assert (f"{impossible}{advice}\n" in said) if advice else ("--smooth" not in said)
    segmented = run("evaluate", zoo / "segmenter", "-", stdin="Te Q9\n").stderr
    assert "1 of 1 lines have probability zero, so loglik_per_token is infinite\n" in segmented
    assert "--smooth" not in segmented


def test_what_is_left_out_is_said_in_numbers(tmp_path: Path, zoo: Path, run: Run) -> None:
    fit = run("fit", "ccm", zoo / "trees.mrg", "--max-length", 6, "--max-iterations", 1, "--out", tmp_path / "m")
    corpus = pu.data.read_brackets(zoo / "trees.mrg").drop_tags("PUNCT")
    long = int((corpus.lengths > 6).sum())
    left_out = f"({long} of 60 are longer than 6 and left out)"
    assert 0 < long < 60
    assert left_out in fit.stderr.splitlines()[0]
    scored = run("evaluate", tmp_path / "m", zoo / "trees.mrg").stderr
    assert f"scored: {60 - long} sentences {left_out}; --max-length changes that\n" in scored
    assert "left out" not in run("evaluate", tmp_path / "m", zoo / "trees.mrg", "--max-length", 99).stderr


def test_a_dictionary_says_how_much_it_lists(tmp_path: Path, world: Path, run: Run) -> None:
    fit = ("fit", "tagger", world / "text.tagged", "--max-iterations", 1)
    types = len(pu.data.read_tagged(world / "text.tagged").vocab)
    whole = run(*fit, "--dictionary", world / "dictionary.txt", "--out", tmp_path / "a").stderr
    assert f"the dictionary lists {types} of {types} words (100 % of the text)" in whole.splitlines()[0]
    assert "Is it a dictionary" not in whole
    (tmp_path / "d.txt").write_text("Hund NOUN\nthe DET VERB\n")
    few = run(*fit, "--dictionary", tmp_path / "d.txt", "--out", tmp_path / "b").stderr
    assert few.startswith(f"warning: the dictionary lists 1 of {types} words (")
    assert "all other words may have any tag. Is it a dictionary of this language?" in few.splitlines()[0]


def test_clusters_of_files_have_names(tmp_path: Path, zoo: Path, run: Run) -> None:
    for number, line in enumerate((zoo / "documents.txt").read_text().splitlines()):
        label, text = line.split("\t")
        (tmp_path / "texts" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "texts" / label / f"{number}.txt").write_text(text)
    result = run("predict", zoo / "clusterer", tmp_path / "texts")
    rows = [row.split("\t") for row in result.stdout.splitlines()]
    assert sorted(row[0] for row in rows) == sorted(
        str(one.relative_to(tmp_path / "texts")) for one in (tmp_path / "texts").glob("*/*")
    )
    gold = pu.data.read_documents(tmp_path / "texts", "folders")
    assert [int(row[1]) for row in rows] == pu.load(zoo / "clusterer").predict(gold).tolist()
    named = run("predict", zoo / "clusterer", tmp_path / "texts", "--probabilities").stdout.splitlines()
    assert all(len(row.split("\t")) == 3 for row in named)
