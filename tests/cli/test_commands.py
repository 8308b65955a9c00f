"""The commands on good input: what they print, write and leave alone."""

from __future__ import annotations

import json
import shutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import read_conllu, read_tagged

from .conftest import Run, contents


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


# -- help


@pytest.mark.parametrize("command", [[], ["demo"], ["fit"], ["fit", "tagger"], ["predict"], ["evaluate"], ["show"]])
def test_help(run: Run, command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def test_version_and_no_arguments(run: Run) -> None:
    assert run("--version").stdout == f"pyro-unsup {pu.__version__}\n"
    result = run()
    assert result.exit_code == 2
    names = ["demo", "fit", "sample", "predict", "evaluate", "show"]
    places = [(result.stdout + result.stderr).index(f"│ {name} ") for name in names]
    assert places == sorted(places)


# -- fit


def test_fit_is_what_the_library_gives(tmp_path: Path, world: Path, run: Run) -> None:
    options = ("--tags", 4, "--max-iterations", 7, "--tolerance", 0, "--seed", 2, "--smooth", 0.1, "--stop")
    result = run("fit", "tagger", world / "text.tagged", *options, "--out", tmp_path / "m")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "iteration cap after 7 iterations" in result.stderr
    assert f"saved in {tmp_path / 'm'}" in result.stderr
    corpus = read_tagged(world / "text.tagged")
    model = pu.models.Tagger(4, corpus.vocab, stop=True)
    expected = pu.EM(model, pu.AddLambda(0.1)).run(corpus, iterations=7, tolerance=0, seed=2, progress=False)
    found = pu.load(tmp_path / "m")
    assert all(torch.equal(found.weights[name], w) for name, w in expected.weights.items())
    assert [row["objective"] for row in found.rows] == [row["objective"] for row in expected.rows]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["m"]  # the checkpoint is gone


def test_every_format_gives_the_same_model(tmp_path: Path, world: Path, run: Run) -> None:
    fit = ("fit", "tagger", "--tags", 3, "--max-iterations", 3)
    assert run(*fit, world / "text.tagged", "--out", tmp_path / "tagged").exit_code == 0
    assert run(*fit, world / "text.slashes.tagged", "--out", tmp_path / "slashes").exit_code == 0
    assert run(*fit, world / "text.conllu", "--out", tmp_path / "conllu").exit_code == 0
    assert run(*fit, world / "plain.txt", "--out", tmp_path / "lines").exit_code == 0
    stdin = (world / "plain.txt").read_bytes()
    assert run(*fit, "-", "--format", "lines", "--out", tmp_path / "stdin", stdin=stdin).exit_code == 0
    assert len({next(one.glob("*.safetensors")).read_bytes() for one in tmp_path.iterdir()}) == 1


def test_same_seed_same_result_whatever_the_processes(tmp_path: Path, world: Path, run: Run) -> None:
    em = ("fit", "tagger", world / "text.tagged", "--algorithm", "em")
    fit = (*em, "--tags", 4, "--max-iterations", 5, "--restarts", 3)
    for out, arguments in {
        "one": ["--jobs", 1],
        "two": ["--jobs", 2],
        "other": ["--jobs", 1, "--seed", 9],
    }.items():
        assert run(*fit, "--out", tmp_path / out, *arguments).exit_code == 0
    one, two, other = (pu.load(tmp_path / out) for out in ("one", "two", "other"))
    assert one.report.restarts == two.report.restarts
    assert len(one.report.restarts) == 3
    assert one.report.restarts != other.report.restarts
    assert one.objective == max(one.report.restarts)
    assert all(torch.equal(one.weights[name], two.weights[name]) for name in one.weights)
    corpus = read_tagged(world / "text.tagged")
    library = pu.EM(pu.models.Tagger(4, corpus.vocab)).run(
        corpus, iterations=5, restarts=3, processes=1, progress=False
    )
    assert one.report.restarts == library.report.restarts


def test_overwrite_replaces_a_model(tmp_path: Path, world: Path, run: Run) -> None:
    shutil.copytree(world / "model", tmp_path / "m")
    fit = ("fit", "tagger", world / "text.tagged", "--tags", 3, "--max-iterations", 2, "--out", tmp_path / "m")
    assert run(*fit, "--overwrite").exit_code == 0
    assert pu.load(tmp_path / "m").weights["start"].shape == (3,)
    assert len(list((tmp_path / "m").iterdir())) == 2


def test_dictionaries(tmp_path: Path, world: Path, run: Run) -> None:
    text, fit = world / "text.tagged", ("fit", "tagger", world / "text.tagged", "--max-iterations", 2)
    corpus = read_tagged(text)
    whole = pu.data.TagDictionary.from_corpus(corpus)
    whole.save(tmp_path / "d.json")
    assert run(*fit, "--dictionary", tmp_path / "d.json", "--out", tmp_path / "json").exit_code == 0
    assert run(*fit, "--dictionary-from", text, "--out", tmp_path / "from", "--tags", len(whole.tagset)).exit_code == 0
    assert run(*fit, "--dictionary-from", text, "--dictionary-min-count", 3, "--out", tmp_path / "open").exit_code == 0
    json_mask, from_mask, open_mask = (
        pu.load(tmp_path / out).model.declarations()["emission"].layout.allowed()  # type: ignore[attr-defined]
        for out in ("json", "from", "open")
    )
    assert torch.equal(json_mask, from_mask)
    assert np.array_equal(json_mask, whole.mask(corpus.vocab))
    assert np.array_equal(open_mask, pu.data.TagDictionary.from_corpus(corpus, 3).mask(corpus.vocab))
    assert list(pu.load(tmp_path / "from").labels or []) == list(whole.tagset)


def test_tags_that_no_word_may_have_are_left_out(tmp_path: Path, run: Run) -> None:
    (tmp_path / "t.txt").write_text("The dog\nthe cat\n")
    listed = {"the": ["D"], "THE": ["X"], "dog": ["N"], "cat": ["N", "V"]}
    pu.data.TagDictionary.from_mapping(listed, pu.data.Vocab(["D", "X", "N", "V", "ZZ"])).save(tmp_path / "d.json")
    fit = ("fit", "tagger", tmp_path / "t.txt", "--dictionary", tmp_path / "d.json", "--max-iterations", 2)
    result = run(*fit, "--lowercase", "--out", tmp_path / "m")
    assert result.exit_code == 0
    assert "left out, since no word may have them: ZZ" in result.stderr
    fitted = pu.load(tmp_path / "m")
    assert fitted.labels == ["D", "X", "N", "V"]
    allowed = fitted.model.declarations()["emission"].layout.allowed()  # type: ignore[attr-defined]
    assert allowed.T.int().tolist() == [[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]  # the, dog, cat


@pytest.mark.parametrize("options", [(), ("--order", 2, "--stop"), ("--smooth", 0.1), ("--min-count", 2)])
def test_listed_words_that_the_text_lacks_keep_their_tags(
    tmp_path: Path, run: Run, options: tuple[object, ...]
) -> None:
    text, dictionary, new = tmp_path / "t.txt", tmp_path / "d.txt", tmp_path / "new.txt"
    text.write_text("the dog barks\nthe cat barks\nthe dog runs\n")
    dictionary.write_text("the DT\ndog NN\ncat NN\nzebra NN\nsleeps VB\n")
    new.write_text("the zebra sleeps\nthe cat sleeps\n")
    fit = ("fit", "tagger", text, "--dictionary", dictionary, "--max-iterations", 5, "--out", tmp_path / "m")
    result = run(*fit, *options)
    assert result.exit_code == 0
    assert "5 types" in result.stderr
    vocab = pu.load(tmp_path / "m").model.vocab  # type: ignore[attr-defined]
    rare = ["runs"] if "--min-count" not in options else ["<unk>"]
    assert set(vocab) == {"the", "dog", "cat", "barks", "zebra", "sleeps", *rare}  # "cat" is rare, but listed
    tagged = run("predict", tmp_path / "m", new)
    assert lines_of(tagged.stdout) == ["the DT", "zebra NN", "sleeps VB", "the DT", "cat NN", "sleeps VB"]
    assert tagged.stderr == ""


# -- predict


def test_predict_pipes(world: Path, run: Run) -> None:
    result = run("predict", world / "named", world / "new.txt")
    assert result.exit_code == 0
    rows = [line.split(" ") for line in result.stdout.splitlines()]
    assert [row[0] for row in rows] == ["the", "Dog", "will", "run", ".", "", "zebras", "laughed", "LOUDLY", "!", ""]
    tags = set(pu.load(world / "named").labels or [])
    assert {row[1] for row in rows if len(row) > 1} <= tags
    assert result.stderr == "3 of 9 words are unknown to the model: their endings, shapes and neighbours decided\n"
    from_stdin = run("predict", world / "named", "-", "--format", "lines", stdin=(world / "new.txt").read_bytes())
    assert from_stdin.stdout == result.stdout


def test_predict_writes_every_format(tmp_path: Path, world: Path, run: Run) -> None:
    predict = ("predict", world / "named", world / "text.conllu")
    assert run(*predict, "--out", tmp_path / "a.tagged", "--output-format", "columns").exit_code == 0
    assert run(*predict, "--out", tmp_path / "b.tagged", "--output-format", "slashes").exit_code == 0
    assert run(*predict, "--out", tmp_path / "c.conllu", "--output-format", "conllu").exit_code == 0
    columns, slashes = read_tagged(tmp_path / "a.tagged"), read_tagged(tmp_path / "b.tagged")
    conllu, gold = read_conllu(tmp_path / "c.conllu"), read_conllu(world / "text.conllu")
    assert columns == slashes
    assert np.array_equal(columns.tags, conllu.tags)
    assert np.array_equal(conllu.heads, gold.heads)
    assert np.array_equal(conllu.words, gold.words)
    fit = pu.load(world / "named")
    states = fit.predict(gold.with_vocab(fit.model.vocab))  # type: ignore[attr-defined]
    assert [columns.tagset[int(t)] for t in columns.tags] == [fit.labels[int(s)] for s in states]  # type: ignore[index]


def test_probabilities_and_mbr(world: Path, run: Run) -> None:
    fit = pu.load(world / "model")
    corpus = read_tagged(world / "text.tagged", vocab=fit.model.vocab)  # type: ignore[attr-defined]
    for how in ("viterbi", "mbr"):
        states, marginals = fit.predict(corpus, how=how, probabilities=True)
        result = run("predict", world / "model", world / "text.tagged", "--how", how, "--probabilities")
        rows = [line.split("\t") for line in lines_of(result.stdout)]
        assert [int(row[1]) for row in rows] == states.tolist()
        found = np.array([float(row[2]) for row in rows])
        np.testing.assert_allclose(found, marginals[range(len(states)), states], atol=1e-6)


def test_relabel(world: Path, run: Run) -> None:
    plain = lines_of(run("predict", world / "model", world / "new.txt").stdout)
    named = lines_of(run("predict", world / "model", world / "new.txt", "--relabel", world / "text.conllu").stdout)
    gold = read_tagged(world / "text.tagged")
    names = pu.load(world / "model").relabel(gold).labels
    assert names is not None
    assert named == [f"{word} {names[int(tag)]}" for word, tag in (line.split() for line in plain)]


def test_lower_case_and_rare_words(tmp_path: Path, world: Path, run: Run) -> None:
    fit = ("fit", "tagger", world / "plain.txt", "--tags", 3, "--max-iterations", 3, "--lowercase", "--min-count", 2)
    assert run(*fit, "--out", tmp_path / "m").exit_code == 0
    vocab = pu.load(tmp_path / "m").model.vocab  # type: ignore[attr-defined]
    assert vocab.unknown == "<unk>"
    assert all(word == word.lower() for word in vocab)
    (tmp_path / "a.txt").write_text("THE zebra .\n")
    (tmp_path / "b.txt").write_text("the zebra .\n")
    upper, lower = (run("predict", tmp_path / "m", tmp_path / name).stdout for name in ("a.txt", "b.txt"))
    assert upper.lower() == lower
    assert upper.startswith("THE ")


# -- evaluate and show


def test_evaluate(tmp_path: Path, world: Path, run: Run) -> None:
    gold = read_tagged(world / "text.tagged")
    for name, how in (("model", "viterbi"), ("named", "mbr")):
        result = run("evaluate", world / name, world / "text.tagged", "--json", "--how", how)
        found = json.loads(result.stdout)
        expected = pu.load(world / name).evaluate(gold, how)
        one_tag = found.pop("one_tag")
        assert one_tag["many_to_one"] == one_tag["accuracy"] == np.bincount(gold.tags).max() / gold.tokens
        assert found == {**expected, "tokens": gold.tokens, "unknown_tokens": 0}
        assert ("accuracy" in found) == (name == "named")
        assert 0 < found["many_to_one"] <= 1
        table = run("evaluate", world / name, world / "text.tagged", "--how", how).stdout
        assert all(key in table for key in expected)
    assert run("evaluate", world / "model", world / "text.conllu", "--json").exit_code == 0
    result = run("evaluate", world / "model", world / "text.conllu", "--column", "upos")
    assert result.exit_code == 2  # that column is empty
    assert "no tags in it" in result.stderr


def test_infinity_is_null(tmp_path: Path, world: Path, run: Run) -> None:
    (tmp_path / "gold.tagged").write_text("the DET\nzebra NOUN\n\n")
    result = run("evaluate", world / "named", tmp_path / "gold.tagged", "--json")
    found = json.loads(result.stdout)
    assert found["bits_per_word"] is None
    assert found["unknown_tokens"] == 1
    assert result.stderr == ""
    table = run("evaluate", world / "named", tmp_path / "gold.tagged")
    assert "inf bits" in table.stdout
    assert "1 of 2 words are unknown to the model" in table.stderr
    assert "1 of 1 sentences have probability zero, so bits_per_word is infinite" in table.stderr


def test_show(world: Path, run: Run) -> None:
    found = json.loads(run("show", world / "named", "--json", "--words", 3).stdout)
    fit = pu.load(world / "named")
    assert (found["model"], found["tags"], found["order"], found["stop"], found["dictionary"]) == (
        "Tagger",
        12,
        2,
        True,
        True,
    )
    assert found["report"]["iterations"] == fit.report.iterations
    assert found["tables"] == {name: list(w.shape) for name, w in fit.weights.items()}
    assert [one["label"] for one in found["states"]] == fit.labels
    emission, vocab = fit.weights["emission"].exp(), fit.model.vocab  # type: ignore[attr-defined]
    for one in found["states"]:
        row = emission[one["state"]]
        assert 0 < len(one["top_words"]) <= 3
        assert one["top_words"][0]["probability"] == float(row.max())
        assert one["top_words"][0]["word"] == vocab[int(row.argmax())]
    text = run("show", world / "named").stdout
    assert "Tagger(tags=12" in text
    assert "likeliest words" in text
    assert "likeliest words" not in run("show", world / "named", "--words", 0).stdout


# -- demo


def test_demo(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    demo_module = import_module("pyro_unsup.cli.demo")
    monkeypatch.setattr(demo_module, "SENTENCES", 400)
    monkeypatch.setattr(demo_module, "STARTS", 2)
    monkeypatch.setattr(demo_module, "ITERATIONS", 20)
    monkeypatch.chdir(tmp_path)
    result = run("demo", "--seed", 1)
    assert result.exit_code == 0
    for part in (
        "The text",
        "many_to_one",
        "A sample",
        "likeliest words",
        "Try next",
        "pyro-unsup-demo/learning_curve.png",
    ):
        assert part in result.stdout
    out = tmp_path / "pyro-unsup-demo"
    pictures = [out / "learning_curve.png", out / "confusion.png"]
    assert all(one.read_bytes().startswith(b"\x89PNG") for one in pictures)
    before = contents(out)
    again = run("demo", "--seed", 1)  # a demo may replace a demo
    assert again.stdout.splitlines()[:40] == result.stdout.splitlines()[:40]
    assert contents(out)["toy.tagged"] == before["toy.tagged"]
    # what it says to try next works
    tagged = run(
        "predict", out / "model", "-", "--format", "lines", "--relabel", out / "toy.tagged", stdin="the dog .\n"
    )
    assert tagged.exit_code == 0
    assert tagged.stdout.split("\n")[0].startswith("the ")
    fit = (
        "fit",
        "tagger",
        out / "toy.tagged",
        "--dictionary",
        out / "dictionary.txt",
        "--order",
        2,
        "--max-iterations",
        3,
    )
    assert run(*fit, "--out", tmp_path / "m").exit_code == 0
    # anything else is left alone
    (out / "precious.txt").write_text("mine")
    refused = run("demo")
    assert refused.exit_code == 2
    what = "exists already and holds other things than a demo; choose another folder with --out"
    assert refused.stderr == f"error: pyro-unsup-demo: {what}\n"
