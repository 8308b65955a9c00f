"""Sampling clusters of documents and words of lines on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyro_unsup as pu
from pyro_unsup.data import read_documents, read_segmented

from .conftest import Run

RUN: tuple[Any, ...] = ("--sweeps", 12, "--chains", 2, "--seed", 5, "--alpha", 0.5, "--beta", 0.1)
LINES = ["the dog saw the cat", "a cat saw a dog", "the cat ran", "a dog ran", "the dog saw a cat"] * 4


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    (folder / "documents.txt").write_text(
        "".join(f"{k}\t{' '.join(np.random.default_rng(i).choice(list(k * 2 + 'xyz'), 9))}\n"
                for i, k in enumerate(["abc", "def"] * 15))
    )  # fmt: skip
    (folder / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
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
