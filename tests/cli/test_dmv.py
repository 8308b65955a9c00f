"""Dependency models on the command line."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import read_conllu, short_tag_sequences, toy, write_brackets, write_heads
from pyro_unsup.evaluate import chain_to_next, chain_to_previous, head_scores

from .conftest import Run, contents, run_command
from .test_bad_input import edit, refusal
from .test_kinds import ENGINES, refusal_after_reading

SENTENCES = 60
FIT = ("--max-iterations", 12)


def conllu(corpus: Any) -> str:
    """All columns filled, a comment before each sentence and a range in it; XPOS is UPOS in lower case."""
    lines = []
    for i in range(len(corpus)):
        heads = corpus.heads[corpus.offsets[i] : corpus.offsets[i + 1]].tolist()
        lines.append(f"# sent_id = {i}")
        for k, (word, tag, head) in enumerate(zip(corpus.sentence(i), corpus.sentence_tags(i), heads, strict=True), 1):
            if k == 2:
                lines.append("2-3\tboth" + "\t_" * 8)
            lines.append(f"{k}\t{word}\t{word.lower()}\t{tag}\t{tag.lower()}\tX=Y\t{head}\tdep\t{head}:dep\tNote={k}")
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture(scope="session")
def grammar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a treebank (``text.conllu``, ``text.mrg``) and a model of it."""
    folder = tmp_path_factory.mktemp("grammar")
    corpus = toy.sentences(SENTENCES, seed=3)
    (folder / "text.conllu").write_text(conllu(corpus))
    write_brackets(corpus, None, folder / "text.mrg")
    result = run_command("fit", "dmv", folder / "text.conllu", *FIT, "--out", folder / "dmv")
    assert result.exit_code == 0, result.stderr
    return folder


def data_of(grammar: Path) -> Any:
    return short_tag_sequences(read_conllu(grammar / "text.conllu", drop_upos=["PUNCT"]), 10, ())


@pytest.mark.parametrize("engine", ENGINES)
def test_fit_is_what_the_library_gives_and_survives_a_break(
    tmp_path: Path, grammar: Path, run: Run, stop_at: Callable[..., None], engine: str
) -> None:
    how, settings, make = ENGINES[engine]
    fit = ("fit", "dmv", grammar / "text.conllu", *how, "--out", tmp_path / "m")
    stop_at(0, 1)
    assert run(*fit).exit_code == 130
    stop_at(None)
    result = run(*fit, "--resume")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    data = data_of(grammar)
    model = pu.models.DMV.of(data)
    expected = make(model, None, model.harmonic_start(data)).run(data, progress=False, **settings)
    found = pu.load(tmp_path / "m")
    assert [row["objective"] for row in found.rows] == [row["objective"] for row in expected.rows]
    assert all(torch.equal(found.weights[name], w) for name, w in expected.weights.items())


@pytest.mark.parametrize(
    ("start", "reading"),
    [("harmonic-tree", "tree"), ("harmonic-parameters", "parameters"), ("harmonic-viterbi", "viterbi")],
)
def test_starts(tmp_path: Path, grammar: Path, run: Run, start: str, reading: str) -> None:
    fit = ("fit", "dmv", grammar / "text.conllu", "--max-iterations", 2, "--smooth", 0.1, "--start", start)
    assert run(*fit, "--out", tmp_path / "m").exit_code == 0
    data = data_of(grammar)
    model = pu.models.DMV.of(data)
    engine = pu.EM(model, pu.AddLambda(0.1), model.harmonic_start(data, reading=reading))
    assert pu.load(tmp_path / "m").objective == engine.run(data, iterations=2, progress=False).objective


def test_starts_without_an_opinion(tmp_path: Path, grammar: Path, run: Run) -> None:
    fit = ("fit", "dmv", grammar / "text.conllu", "--max-iterations", 2, "--smooth", 0.1)
    assert run(*fit, "--start", "uniform", "--out", tmp_path / "uniform").exit_code == 0
    data = data_of(grammar)
    engine = pu.EM(pu.models.DMV.of(data), pu.AddLambda(0.1), pu.init.uniform())
    assert pu.load(tmp_path / "uniform").objective == engine.run(data, iterations=2, progress=False).objective
    random = (*fit, "--start", "random", "--restarts", 3, "--jobs", 1, "--seed", 5, "--out", tmp_path / "random")
    assert run(*random).exit_code == 0
    found = pu.load(tmp_path / "random").report.restarts
    for k in range(3):
        engine = pu.EM(pu.models.DMV.of(data), pu.AddLambda(0.1), pu.init.noise(1.0))
        assert found[k] == engine.run(data, iterations=2, progress=False, seed=5 + k).objective
    message = refusal_after_reading(run(*fit, "--restarts", 3, "--out", tmp_path / "m"))
    assert message.startswith("error: --restarts 3 would all start at the same place; give --noise 0.1")


def test_heads_out(tmp_path: Path, grammar: Path, run: Run) -> None:
    fit, path = pu.load(grammar / "dmv"), grammar / "text.conllu"
    whole = read_conllu(path, "upos")
    words = np.array(whole.tagset.decode(whole.tags)) != "PUNCT"  # type: ignore[union-attr, arg-type]
    kept = read_conllu(path).keep_tokens(words)
    for how in ("viterbi", "mbr"):
        result = run("predict", grammar / "dmv", path, "--how", how)
        assert (result.exit_code, result.stderr) == (0, "")
        stream = io.StringIO()
        write_heads(path, pu.data.spread_heads(fit.predict(kept, how=how).numpy(), whole.offsets, words), stream)
        assert result.stdout == stream.getvalue()
        (tmp_path / "out.conllu").write_text(result.stdout)
        found = read_conllu(tmp_path / "out.conllu")  # one root a sentence, no cycles
        assert torch.equal(torch.tensor(found.keep_tokens(words).heads), fit.predict(kept, how=how).int())
        piped = run("predict", grammar / "dmv", "-", "--format", "conllu", "--how", how, stdin=path.read_text())
        assert piped.stdout == result.stdout
    for before, after in zip(path.read_text().splitlines(), result.stdout.splitlines(), strict=True):
        changed = [k for k, (a, b) in enumerate(zip(before.split("\t"), after.split("\t"), strict=True)) if a != b]
        assert set(changed) <= {6, 7, 8}
    run("predict", grammar / "dmv", path, "--out", tmp_path / "file.conllu")
    assert (tmp_path / "file.conllu").read_text() == result.stdout


def test_other_formats(tmp_path: Path, grammar: Path, run: Run) -> None:
    fit = ("fit", "dmv", grammar / "text.mrg", *FIT, "--out", tmp_path / "m")
    assert run(*fit).exit_code == 0
    assert pu.load(tmp_path / "m").objective == pu.load(grammar / "dmv").objective
    (tmp_path / "x.tagged").write_text("a/DET dog/NOUN barks/VERB !/PUNCT\n./PUNCT ?/PUNCT\nYes/BLIX\n")
    result = run("predict", tmp_path / "m", tmp_path / "x.tagged")
    assert result.stderr == "1 of 4 tags are unknown to the model: the rest of the sentence decided\n"
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    assert [row[1] for row in rows if len(row) > 1] == ["a", "dog", "barks", "!", ".", "?", "Yes"]
    assert [row[4] for row in rows if len(row) > 1][3:] == ["PUNCT", "PUNCT", "PUNCT", "BLIX"]
    assert rows[3][6] == "3"  # punctuation hangs on the word before it
    assert [row[6:8] for row in rows[5:7]] == [["0", "root"], ["1", "dep"]]
    assert rows[8][6:8] == ["0", "root"]
    lines = run("predict", tmp_path / "m", "-", "--format", "lines", stdin="DET NOUN VERB\n").stdout.splitlines()
    assert [line.split("\t")[1:5] for line in lines[:3]] == [[tag, "_", "_", "_"] for tag in ("DET", "NOUN", "VERB")]


def test_nothing_but_punctuation(tmp_path: Path, grammar: Path, run: Run) -> None:
    text = "1\t.\t_\tPUNCT\t_\t_\t_\t_\t_\t_\n2\t.\t_\tPUNCT\t_\t_\t_\t_\t_\t_\n\n"
    result = run("predict", grammar / "dmv", "-", "--format", "conllu", stdin=text)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split("\t")[6:8] for line in result.stdout.splitlines()[:2]] == [["0", "root"], ["1", "punct"]]


def test_scores(grammar: Path, run: Run) -> None:
    fit, gold = pu.load(grammar / "dmv"), data_of(grammar)
    for how in ("mbr", "viterbi"):
        found = json.loads(run("evaluate", grammar / "dmv", grammar / "text.conllu", "--how", how, "--json").stdout)
        expected = fit.evaluate(gold, how=how)
        assert {name: found[name] for name in expected} == expected
    assert found["chain_to_next"] == head_scores(gold.heads, chain_to_next(gold.lengths), gold.lengths)
    assert found["chain_to_previous"] == head_scores(gold.heads, chain_to_previous(gold.lengths), gold.lengths)
    assert sum(row["words"] for row in found["by_length"].values()) == found["words"] == gold.tokens
    assert found["unknown_tokens"] == 0
    table = run("evaluate", grammar / "dmv", grammar / "text.conllu", "--max-length", 6)
    assert all(name in table.stdout for name in ("directed", "undirected", "ned", "loglik_per_token", "chain to next"))
    assert "directed: words with the right head, the root's word too" in table.stderr
    assert "chain_to_next: every word's head is the next word" in table.stderr


def test_columns_and_what_is_left_out(tmp_path: Path, grammar: Path, run: Run) -> None:
    fit = ("fit", "dmv", grammar / "text.conllu", "--max-iterations", 1)
    assert run(*fit, "--column", "upos", "--max-length", 7, "--out", tmp_path / "upos").exit_code == 0
    model = pu.load(tmp_path / "upos")
    assert "NOUN" in model.model.vocab
    # The column of training is remembered.
    found = json.loads(run("evaluate", tmp_path / "upos", grammar / "text.conllu", "--json").stdout)
    assert found["unknown_tokens"] == 0
    assert max(map(int, found["by_length"])) == 7
    for command in (["evaluate"], ["evaluate", "--json"], ["predict"]):
        other = run(*command, tmp_path / "upos", grammar / "text.conllu", "--column", "xpos")
        assert refusal(other).endswith(
            "tags is known to the model; is it the tag set that the model was trained on? With CoNLL-U, choose the "
            "column with --column"
        )
    mixed = tmp_path / "mixed.tagged"
    mixed.write_text("a/DET dog/noun barks/verb\n")
    result = run("predict", tmp_path / "upos", mixed)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: 2 of 3 tags are unknown to the model: the rest of the sentence decided. ")
    assert result.stderr.count("\n") == 1
    assert run(*fit, "--keep-punctuation", "--out", tmp_path / "all").exit_code == 0
    assert "punct" in pu.load(tmp_path / "all").model.vocab
    assert pu.load(tmp_path / "all").config["dropped"] == []
    assert run(*fit, "--drop", "PUNCT", "--drop", "adv", "--out", tmp_path / "drop").exit_code == 0
    assert not {"punct", "adv"} & set(pu.load(tmp_path / "drop").model.vocab)


def test_skewed_annealing(tmp_path: Path, grammar: Path, run: Run) -> None:
    anneal = ("--anneal", "--toward", "harmonic", "--beta-start", 0.5, "--max-iterations", 9)
    assert run("fit", "dmv", grammar / "text.conllu", *anneal, "--out", tmp_path / "m").exit_code == 0
    assert pu.load(tmp_path / "m").config["toward"] == "harmonic"


def test_show(grammar: Path, run: Run) -> None:
    fit = pu.load(grammar / "dmv")
    found = json.loads(run("show", grammar / "dmv", "--json", "--top", 2).stdout)
    assert (found["model"], found["tags"]) == ("DMV", fit.model.symbols)
    best = fit.weights["root"].exp().max()
    assert found["root"][0]["probability"] == pytest.approx(float(best))
    assert found["attach"]["verb"]["left"][0]["tag"] in fit.model.vocab
    assert len(found["attach"]["verb"]["right"]) <= 2
    text = run("show", grammar / "dmv").stdout
    assert "likeliest to the left" in text
    for command in (["fit", "dmv"], ["predict", "dmv"], ["evaluate", "dmv"], ["show", "dmv"]):
        assert "Usage:" in run(*command, "--help").stdout


def test_bad_input(tmp_path: Path, grammar: Path, run: Run) -> None:
    before = contents(tmp_path)
    fit = ("fit", "dmv", grammar / "text.conllu", "--out", tmp_path / "m")
    for options, what in (
        (["--toward", "harmonic"], "--toward belongs to --anneal; add that, or leave it out"),
        (
            ["--drop", "X", "--keep-punctuation"],
            "--keep-punctuation and --drop contradict each other; give one of them",
        ),
    ):
        assert refusal(run(*fit, *options)) == what
    assert refusal(run("fit", "dmv", "-", "--format", "conllu", "--out", tmp_path / "m", stdin=UNTAGGED)) == (
        "-: no tags in its column xpos; take another with --column upos"
    )
    assert refusal(run("evaluate", grammar / "dmv", grammar / "text.mrg")) == (
        f"{grammar / 'text.mrg'}: no heads in it, expected a treebank in CoNLL-U; is --format right?"
    )
    assert refusal(run(*fit, "--max-length", 1)) == (
        f"{grammar / 'text.conllu'}: no sentence of at most 1 tags in it; raise --max-length"
    )
    bad = "1\ta\t_\tX\tX\t_\t1\t_\t_\t_\n"
    assert refusal(run("predict", grammar / "dmv", "-", "--format", "conllu", stdin=bad)) == (
        "-:1: word 1 is its own head, expected a tree"
    )
    assert contents(tmp_path) == before


UNTAGGED = "1\ta\t_\tDET\t_\t_\t2\t_\t_\t_\n2\tdog\t_\tNOUN\t_\t_\t0\t_\t_\t_\n"


@pytest.mark.parametrize(
    ("setting", "value"), [("column", "deprel"), ("column", 3), ("dropped", 1), ("max_length", "x")]
)
def test_settings_of_a_careful_attacker(tmp_path: Path, grammar: Path, run: Run, setting: str, value: object) -> None:
    shutil.copytree(grammar / "dmv", tmp_path / "m")
    config = json.loads((tmp_path / "m" / "fit.json").read_text())["config"]
    edit(tmp_path / "m", config=config | {setting: value})
    message = refusal(run("evaluate", tmp_path / "m", grammar / "text.conllu"))
    assert f"for its setting {setting}, which makes no sense; train it again" in message


@pytest.mark.parametrize(
    ("name", "column", "figures"),
    [("zh_gsd_v1", "xpos", (426, 3752, 0.3825)), ("fr_sequoia", "upos", (676, 3437, 0.3186))],
)
def test_real_treebanks(
    tmp_path: Path, real_data: Path, run: Run, name: str, column: str, figures: tuple[int, int, float]
) -> None:
    file = real_data / "ud" / f"{name}-ud-train.conllu.xz"
    fit = ("fit", "dmv", file, "--column", column, "--max-iterations", 3, "--out", tmp_path / "m")
    assert run(*fit).exit_code == 0
    found = json.loads(run("evaluate", tmp_path / "m", file, "--json").stdout)
    chain = round(found["chain_to_next"]["directed"], 4)
    assert (found["sentences"], found["words"], chain) == figures
    test = real_data / "ud" / f"{name}-ud-test.conllu.xz"
    assert run("predict", tmp_path / "m", test, "--out", tmp_path / "out.conllu").exit_code == 0
    assert len(read_conllu(tmp_path / "out.conllu", None)) == len(read_conllu(test, None))


def test_preferences(tmp_path: Path, grammar: Path, run: Run) -> None:
    text = grammar / "text.conllu"
    options = ("--column", "upos", "--max-length", 8, "--max-iterations", 12)
    rules = ("--prefer", "VERB->NOUN,PRON", "--prefer-root", "VERB", "--prefer", "~short-dependencies=3")
    run("fit", "dmv", text, *options, *rules, "--prefer-weight", 1.5, "--out", tmp_path / "own")
    fit = pu.load(tmp_path / "own")
    c = pu.components
    wanted = [c.arc(["VERB"], ["NOUN", "PRON"]) | c.root(["VERB"]), ~c.short_dependencies(3)]
    corpus = short_tag_sequences(read_conllu(text, "upos", drop_upos=["PUNCT"]), 8, ())
    model = pu.models.DMV.of(corpus)
    engine = pu.EM(pu.prefer(model, wanted, 1.5), pu.AddLambda(1.0), model.harmonic_start(corpus))
    assert torch.equal(engine.run(corpus, iterations=12).weights["attach"], fit.weights["attach"])
    assert "prefers" in run("show", tmp_path / "own").stdout
    run("fit", "dmv", text, *options, "--prefer", "universal", "--out", tmp_path / "all")
    with_rules, without = (
        json.loads(run("evaluate", tmp_path / "all", text, "--json", *more).stdout)
        for more in ((), ("--without-preferences",))
    )
    assert with_rules["loglik_per_token"] == without["loglik_per_token"]
    scores = pu.load(tmp_path / "all").evaluate(corpus)
    assert with_rules["directed"] == pytest.approx(scores["directed"], abs=1e-12)


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("VERB->NUON", "--prefer VERB->NUON: the text that is learned from has no NUON, but such as"),
        ("VERB->", "--prefer 'VERB->': a rule for arcs is written TAG,TAG->TAG,TAG, with :left or :right behind it"),
        ("universal=x", "--prefer universal=x: heads are content or function"),
        ("", "--prefer '': there is no rule"),
        ("VERB->NOUN & ", "a rule is missing beside & or |"),
        ("VERB->NOUN|PRON", "tags are separated by commas, rules by | with white space around it, and there are no"),
        ("~(VERB->NOUN)", "and there are no brackets; actual '(VERB'"),
        (
            "arcs",
            "--prefer arcs: dmv has no rule of this name; there are all-right, distance, left-chain, noun-sequence",
        ),
    ],
)
def test_preferences_that_are_refused(tmp_path: Path, grammar: Path, rule: str, said: str) -> None:
    result = run_command(
        "fit", "dmv", grammar / "text.conllu", "--column", "upos", "--prefer", rule, "--out", tmp_path / "x"
    )
    assert result.exit_code != 0
    assert said in " ".join(result.stderr.split())
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("spaced", ["VERB -> NOUN, PRON", " VERB->NOUN ,PRON", "VERB->NOUN,PRON & distance= -9"])
def test_white_space_in_rules_means_nothing(tmp_path: Path, grammar: Path, run: Run, spaced: str) -> None:
    options = ("--column", "upos", "--max-length", 8, "--max-iterations", 3, "--prefer-root", " VERB ")
    for name, rule in (
        ("one", spaced),
        ("other", "VERB->NOUN,PRON & distance=-9" if "&" in spaced else "VERB->NOUN,PRON"),
    ):
        result = run("fit", "dmv", grammar / "text.conllu", *options, "--prefer", rule, "--out", tmp_path / name)
        assert "warning: --prefer" not in result.stderr
    one, other = (pu.load(tmp_path / name) for name in ("one", "other"))
    assert repr(one.model) == repr(other.model)
    assert torch.equal(one.weights["attach"], other.weights["attach"])


def test_a_weight_below_zero_makes_arcs_rarer(tmp_path: Path, grammar: Path, run: Run) -> None:
    options = ("--column", "upos", "--max-length", 8, "--max-iterations", 5, "--prefer", "distance=1")
    near = {}
    for weight in (-3, 3):
        run("fit", "dmv", grammar / "text.conllu", *options, "--prefer-weight", weight, "--out", tmp_path / str(weight))
        fit = pu.load(tmp_path / str(weight))
        corpus = short_tag_sequences(read_conllu(grammar / "text.conllu", "upos", drop_upos=["PUNCT"]), 8, ())
        heads = fit.predict(corpus)
        place = torch.cat([torch.arange(1, n + 1) for n in np.diff(corpus.offsets)])
        near[weight] = int(((heads - place).abs() == 1).sum())
    assert near[-3] < near[3] / 2


def test_a_share_that_is_there_without_rules_is_said(tmp_path: Path, grammar: Path, run: Run) -> None:
    options = ("--column", "upos", "--max-length", 8, "--max-iterations", 3, "--prefer", "distance=1")
    text = grammar / "text.conllu"
    low = run("fit", "dmv", text, *options, "--prefer-share", 0.05, "--out", tmp_path / "low")
    assert "the share of 0.05 is reached without a rule, whose weight is 0" in " ".join(low.stderr.split())
    high = run("fit", "dmv", text, *options, "--prefer-share", 0.7, "--out", tmp_path / "high")
    assert "whose weight is 0" not in high.stderr


def test_preferences_that_fade(tmp_path: Path, grammar: Path, run: Run) -> None:
    text = grammar / "text.conllu"
    options = ("--column", "upos", "--prefer", "universal", "--tolerance", 1e-3)
    run("fit", "dmv", text, *options, "--prefer-fade", "--out", tmp_path / "faded")
    fit = pu.load(tmp_path / "faded")
    assert fit.history.strength.unique().tolist() == [1.0, 0.5, 0.25, 0.0]
    assert "strength=0" in run("show", tmp_path / "faded").stdout
    both = [
        run("evaluate", tmp_path / "faded", text, "--json", *more).stdout for more in ((), ("--without-preferences",))
    ]
    assert both[0] == both[1]  # at the end there are no preferences


def test_probes(tmp_path: Path, grammar: Path, run: Run) -> None:
    text = grammar / "text.conllu"
    options = ("--column", "upos", "--noise", 0.3, "--jobs", 1, "--max-iterations", 6, "--tolerance", 0)
    found = run("fit", "dmv", text, *options, "--restarts", 3, "--probe", 2, "--out", tmp_path / "probed")
    assert "best of 3 restarts after 2 iterations" in found.stderr
    fit = pu.load(tmp_path / "probed")
    run("fit", "dmv", text, *options, "--seed", fit.seed, "--out", tmp_path / "alone")
    alone = pu.load(tmp_path / "alone")
    assert [row["objective"] for row in fit.rows] == [row["objective"] for row in alone.rows]
    assert (len(fit.report.restarts), fit.report.probe) == (3, 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--probe", 3), "--probe belongs to --restarts"),
        (("--prefer-fade",), "--prefer-fade belongs to --prefer"),
        (("--prefer", "universal", "--prefer-fade", "--anneal"), "--prefer-fade and --anneal are two ways to learn"),
    ],
)
def test_fading_and_probing_that_are_refused(
    tmp_path: Path, grammar: Path, options: tuple[object, ...], said: str
) -> None:
    found = run_command("fit", "dmv", grammar / "text.conllu", "--column", "upos", *options, "--out", tmp_path / "x")
    assert found.exit_code != 0
    assert said in " ".join(found.stderr.split())
