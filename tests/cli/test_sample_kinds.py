"""Sampling clusters of documents, words of lines and links of words on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyro_unsup as pu
from pyro_unsup.data import Links, read_bitext, read_documents, read_links, read_segmented

from .conftest import Run

RUN: tuple[Any, ...] = ("--sweeps", 12, "--chains", 2, "--seed", 5, "--alpha", 0.5, "--beta", 0.1)
LINES = ["the dog saw the cat", "a cat saw a dog", "the cat ran", "a dog ran", "the dog saw a cat"] * 4

WORDS = {"the": "das", "house": "Haus", "book": "Buch", "a": "ein", "sees": "sieht", "man": "Kind"}
SAID = ["the house", "a house", "the book", "a book", "the man sees a house", "a man sees the book", "the man"]
PAIRS = [(line, " ".join(WORDS[word] for word in line.split())) for line in SAID * 3]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "documents.txt").write_text(
        "".join(f"{k}\t{' '.join(np.random.default_rng(i).choice(list(k * 2 + 'xyz'), 9))}\n"
                for i, k in enumerate(["abc", "def"] * 15))
    )  # fmt: skip
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
    (folder / "pairs.txt").write_text("".join(f"{source} ||| {target}\n" for source, target in PAIRS))
    (folder / "source.txt").write_text("".join(f"{source}\n" for source, _ in PAIRS))
    (folder / "target.txt").write_text("".join(f"{target}\n" for _, target in PAIRS))
    (folder / "links.txt").write_text(
        "".join(" ".join(f"{k}-{k}" for k in range(len(s.split()))) + "\n" for s, _ in PAIRS)
    )
    return folder


@pytest.fixture(scope="module")
def clusters(texts: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("clusters") / "s"
    result = run("sample", "clusterer", texts / "documents.txt", *RUN, "--clusters", 2, "--drop-frequent", 1,
                 "--min-count", 2, "--hyper", "separate", "--out", out)  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return out


@pytest.fixture(scope="module")
def cuts(texts: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("cuts") / "s"
    result = run("sample", "segmenter", texts / "lines.txt", *RUN, "--no-penalty", "--max-length", 5, "--anneal",
                 "--out", out)  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return out


def test_clusters_are_what_the_library_gives(texts: Path, run: Run, clusters: Path) -> None:
    documents = read_documents(texts / "documents.txt", "labelled").drop_frequent(1).drop_rare(2)
    kernel = pu.CollapsedGibbs(pu.models.Clusterer(2, documents.vocab), 0.5, 0.1, hyper="separate")
    expected = kernel.run(documents, sweeps=12, chains=2, seed=5, progress=False)
    found = pu.Samples.load(clusters)
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.beta, expected.beta)
    for how in ("last", "best"):
        shown = json.loads(run("evaluate", clusters, texts / "documents.txt", "--how", how, "--json").stdout)
        assert shown.pop("documents") == len(documents)
        assert shown == expected.evaluate(documents, how)  # type: ignore[arg-type]
    assert "deviation of 2 chains" in " ".join(run("evaluate", clusters, texts / "documents.txt").stdout.split())


def test_clusters_shown(run: Run, clusters: Path) -> None:
    samples = pu.Samples.load(clusters)
    found = json.loads(run("show", clusters, "--words", 2, "--json").stdout)
    assert found["documents"] == samples.labels.shape[-1]
    best = samples.predict("best")
    for row in found["rows"]:
        assert row["share"] == np.mean(best == row["cluster"])
        mine = (best == row["cluster"])[np.repeat(np.arange(len(best)), np.diff(samples.data["offsets"]))]
        times = np.bincount(samples.data["words"][mine], samples.data["times"][mine])
        assert [one["share"] for one in row["top_words"]] == sorted(times / times.sum())[:-3:-1]
    page = " ".join(run("show", clusters).stdout.split())
    assert "commonest words" in page
    assert "labels of 30 documents" in page


def test_words_are_what_the_library_gives(texts: Path, run: Run, cuts: Path) -> None:
    text = read_segmented(texts / "lines.txt")
    model = pu.models.Segmenter.of(text, max_length=5, penalty=None)
    kernel = pu.CollapsedGibbs(model, 0.5, 0.1, temperature=pu.schedules.Cooling())
    expected = kernel.run(text, sweeps=12, chains=2, seed=5, progress=False)
    np.testing.assert_array_equal(pu.Samples.load(cuts).labels, expected.labels)
    shown = json.loads(run("evaluate", cuts, texts / "lines.txt", "--json").stdout)
    assert (shown.pop("lines"), shown.pop("tokens")) == (len(text), text.tokens)
    assert shown == expected.evaluate(text)
    best, words = expected.predict("best"), []
    for line, ends in zip(LINES, np.split(best, text.offsets[1:-1]), strict=True):
        symbols = line.replace(" ", "")
        words += [symbols[a:b] for a, b in zip(np.flatnonzero([1, *ends]), np.flatnonzero(ends) + 1, strict=False)]
    found = json.loads(run("show", cuts, "--top", 3, "--json").stdout)
    for one in found["words"]:
        assert one["share"] == words.count(one["word"]) / len(words)
    page = " ".join(run("show", cuts).stdout.split())
    assert "commonest words" in page
    assert "not of the posterior" in page


def test_what_is_refused(tmp_path: Path, texts: Path, run: Run, clusters: Path, cuts: Path) -> None:
    for kind, name, sampled in (("clusterer", "documents.txt", clusters), ("segmenter", "lines.txt", cuts)):
        fewer = ("--drop-frequent", 1) if kind == "clusterer" else ()
        result = run("sample", kind, texts / name, *RUN, *fewer, "--uncollapsed", "--out", tmp_path / "s")
        assert result.exit_code == 2
        assert "are drawn how = 'pointwise'" in result.stderr
        assert not list(tmp_path.glob("s*"))
        other = tmp_path / name
        other.write_text("".join(line + "\n" for line in (texts / name).read_text().splitlines()[1:]))
        result = run("evaluate", sampled, other)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"error: {other}: is not the text that was sampled, of ")
    (tmp_path / "plain.txt").write_text("a b c\n" * 30)
    result = run("evaluate", clusters, tmp_path / "plain.txt")
    assert "no labels in it" in result.stderr


def test_resumed(tmp_path: Path, texts: Path, run: Run, cuts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyro_unsup.cli.chains import Chains

    sample = ("sample", "segmenter", texts / "lines.txt", *RUN, "--no-penalty", "--max-length", 5, "--anneal")
    note = Chains.note
    monkeypatch.setattr(Chains, "note", lambda chains, found: note(chains, found) or found.sweep == 7)
    assert run(*sample, "--out", tmp_path / "s").exit_code == 130
    monkeypatch.setattr(Chains, "note", note)
    result = run(*sample, "--out", tmp_path / "s", "--resume", "--max-length", 4)
    assert "is of a run with --max-length 5, not 4" in result.stderr
    assert run(*sample, "--out", tmp_path / "s", "--resume").exit_code == 0
    np.testing.assert_array_equal(pu.Samples.load(tmp_path / "s").labels, pu.Samples.load(cuts).labels)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("model1", ()), ("model1", ("--fertility", 0.5, "--null", 0.2)), ("hmm", ("--fertility", 0.5, "--learn-null"))],
)
def test_links_are_what_the_library_gives(texts: Path, run: Run, tmp_path: Path, kind: str, options: Any) -> None:
    out, file = tmp_path / "s", texts / "pairs.txt"
    told = ("--sweeps", 20, "--chains", 2, "--seed", 5, "--model", kind, *options)
    result = run("sample", "aligner", file, *told, "--lowercase", "--prefix", 4, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "2 chains of 20 sweeps" in result.stderr
    text = read_bitext(file, lowercase=True, prefix=4)
    fertility, start = (0.5 if "--fertility" in options else None), None
    model = pu.models.Aligner.of(text, None, 0.2 if "--null" in options else None)
    if kind == "hmm":
        assert "starting from 20 sweeps of Model 1" in result.stderr
        first = pu.CollapsedGibbs(model, beta=0.001)
        start = first.run(text, sweeps=20, burn_in=19, seed=5, progress=False).last[0]
        model = pu.models.HMMAligner.like(model, null="learn")
    kernel = pu.CollapsedGibbs(model, 0.5 if kind == "hmm" else None, 0.001, fertility=fertility)
    expected = kernel.run(text, sweeps=20, chains=2, seed=5, initial=start, progress=False)
    found = pu.Samples.load(out)
    np.testing.assert_array_equal(found.labels, expected.labels)
    gold = read_bitext(file, links=texts / "links.txt", lowercase=True, prefix=4)
    score = ("evaluate", out, file, "--gold", texts / "links.txt")
    for how in ("last", "vote"):
        shown = json.loads(run(*score, "--how", how, "--json").stdout)
        assert (shown.pop("pairs"), shown.pop("pairs_read")) == (len(text), len(text))
        assert shown.pop("tokens") == text.source.tokens + text.target.tokens
        assert shown == expected.evaluate(gold, how)  # type: ignore[arg-type]
    assert shown["aer"]["together"] < 0.3
    page = " ".join(run(*score, "--how", "vote").stdout.split())
    assert "vote of 2 chains" in page
    assert "diagonal" in page


@pytest.fixture(scope="module")
def links(texts: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("links") / "s"
    told = ("--sweeps", 20, "--chains", 2, "--beta", 0.1, "--lowercase")
    result = run("sample", "aligner", texts / "pairs.txt", *told, "--out", out)
    assert result.exit_code == 0, result.stderr
    return out


def test_links_written_and_shown(texts: Path, run: Run, tmp_path: Path, links: Path) -> None:
    samples, pairs = pu.Samples.load(links), read_bitext(texts / "pairs.txt", lowercase=True)
    assert run("predict", links, texts / "pairs.txt", "--out", tmp_path / "links").exit_code == 0
    voted = samples.predict("vote")
    target = int(pairs.target.tokens)
    wanted = []
    for k in range(len(pairs)):  # what both directions chose
        forward = voted[:target][pairs.target.offsets[k] : pairs.target.offsets[k + 1]]
        backward = voted[target:][pairs.source.offsets[k] : pairs.source.offsets[k + 1]]
        wanted += [[k, i - 1, j] for j, i in enumerate(forward) if i and backward[i - 1] == j + 1]
    assert read_links(tmp_path / "links", pairs) == Links(len(pairs), sorted(wanted))
    files = (texts / "source.txt", texts / "target.txt")
    plain = run("predict", links, *files).stdout
    assert plain == (tmp_path / "links").read_text()
    sure = [one.split(":") for one in run("predict", links, *files, "--probabilities").stdout.split()]
    assert [one for one, _ in sure] == plain.split()
    assert all(0 < float(p) <= 1 for _, p in sure)
    rows = [line.split() for line in run("predict", links, *files, "--output-format", "naacl").stdout.splitlines()]
    assert [f"{int(i) - 1}-{int(j) - 1}" for _, i, j, _ in rows] == plain.split()
    shown = json.loads(run("show", links, "--words", 3, "--top", 1, "--json").stdout)
    assert [one["word"] for one in shown["linked"]] == ["the", "house", "a"]
    assert shown["linked"][1]["links"][0]["word"] == "haus"
    assert 0.5 < shown["linked"][1]["links"][0]["share"] <= 1
    assert shown["agreement_of_chains"][0][0] == 1
    page = " ".join(run("show", links).stdout.split())
    assert "most often linked to" in page
    assert "% of their last links in common" in page
    help = " ".join(run("predict", links, "--help").stdout.split())
    assert "those that the words of both directions chose" in help


def test_links_that_are_refused(texts: Path, run: Run, tmp_path: Path, links: Path) -> None:
    for options, match in (
        (("--learn-null",), "--learn-null belongs to --model hmm"),
        (("--first", 3), "--first belongs to --model hmm"),
        (("--alpha", 1), "--alpha belongs to --model hmm"),
        (("--null", 1), "--null must be a probability below 1"),
        (("--fertility", 0), "--fertility must be positive and finite"),
        (("--beta", 0), "--beta must be positive and finite"),
        (("--model", "hmm", "--null", 0.2, "--learn-null"), "contradict each other"),
    ):
        result = run("sample", "aligner", texts / "pairs.txt", *options, "--out", tmp_path / "s")
        assert result.exit_code == 2
        assert match in " ".join(result.stderr.split())
    other = tmp_path / "other.txt"
    for changed in ("the house ||| das Buch\n", "the dog ||| der Hund\n"):
        other.write_text(changed)
        result = run("predict", links, other)
        assert result.exit_code == 2
        assert f"is not the text that was sampled, of {len(PAIRS)} examples and " in result.stderr
