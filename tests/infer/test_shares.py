"""Data in parts: an E step in parts is the E step."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import EM, Anneal, FitError, Gradient, MixtureEM
from pyro_unsup.data import Bitext, Corpus, Documents, toy
from pyro_unsup.infer.engine import Engine
from pyro_unsup.infer.expectation import Expectation
from pyro_unsup.infer.shares import CHUNK, Share, Total, cut, same_start
from pyro_unsup.models import CCM, DMV, DMVCCM, Aligner, Clusterer, HMMAligner, Segmenter, Tagger

CORPUS = toy.sentences(60, seed=3)
TAGS = pu.data.short_tag_sequences(CORPUS, max_length=8, drop=["PUNCT"])
BITEXT = toy.bitext(40, seed=3)
NEAR = pu.components.short_dependencies(limit=1)


def mixture(x: Tensor) -> None:
    """A user's own model: one row an example, enumerated."""
    share = pu.table("share", 3)
    faces = pu.table("faces", 3, 4)
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        for i in range(x.shape[1]):
            pyro.sample(f"x{i}", pu.Categorical(faces[z]), obs=x[:, i])


THROWS = torch.randint(4, (50, 3), generator=torch.Generator().manual_seed(0))


UTTERANCES = toy.utterances(30, seed=3)
DOCUMENTS = toy.documents(30, seed=3, topics=3)[0]


WEIGHTS = {name: d.layout.uniform() for name, d in Tagger(3, CORPUS.vocab).declarations().items()}


#: A model, its data, and an engine with options.
CASES: dict[str, Callable[[], tuple[Engine, Any]]] = {
    "tagger": lambda: (EM(Tagger(4, CORPUS.vocab)), CORPUS),
    "trigram": lambda: (EM(Tagger(3, CORPUS.vocab, order=2, stop=True)), CORPUS),
    "flat tensors": lambda: (EM(Tagger(4, len(CORPUS.vocab))), [CORPUS.words[CORPUS._slice(i)] for i in range(60)]),
    "DMV": lambda: (EM(DMV(TAGS.vocab), pu.AddLambda(0.1)), TAGS),
    "CCM": lambda: (EM(CCM.of(TAGS), pu.AddLambda(0.1)), TAGS),
    "DMVCCM": lambda: (EM(DMVCCM.of(TAGS), pu.AddLambda(0.1)), TAGS),
    "aligner": lambda: (EM(Aligner.of(BITEXT)), BITEXT),
    "aligner agreement": lambda: (EM(Aligner.of(BITEXT, agreement="2008")), BITEXT),
    "HMM aligner": lambda: (EM(HMMAligner.of(BITEXT), pu.AddLambda(0.01)), BITEXT),
    "segmenter": lambda: (EM(Segmenter.of(UTTERANCES, max_length=4)), UTTERANCES),
    "clusterer": lambda: (EM(Clusterer(3, DOCUMENTS.vocab), pu.AddLambda(0.1)), DOCUMENTS),
    "own model": lambda: (EM(mixture), THROWS),
    "Viterbi": lambda: (EM(pu.harden(Tagger(4, CORPUS.vocab)), pu.AddLambda(0.1)), CORPUS),
    "constrained": lambda: (EM(pu.constrain(DMV(TAGS.vocab), NEAR), pu.AddLambda(0.1)), TAGS),
    "annealing": lambda: (Anneal(Tagger(3, CORPUS.vocab), schedule=[0.5, 1.0], steps=3), CORPUS),
    "skewed": lambda: (
        Anneal(DMV(TAGS.vocab), pu.AddLambda(0.1), schedule=[0.2, 1.0], steps=3, toward="harmonic", jitter=0.0),
        TAGS,
    ),
    "skewed toward weights": lambda: (
        Anneal(Tagger(3, CORPUS.vocab), schedule=[0.2, 1.0], steps=3, toward=WEIGHTS, jitter=0.0),
        CORPUS,
    ),
    "VB": lambda: (EM(Tagger(4, CORPUS.vocab), pu.DirichletVB()), CORPUS),
    "logistic normal": lambda: (EM(DMV(TAGS.vocab), pu.LogisticNormal()), TAGS),
    "features": lambda: (EM(Tagger(3, CORPUS.vocab), pu.LogLinear(pu.templates.tagging(), kappa=1.0)), CORPUS),
    "gradient": lambda: (Gradient(Tagger(3, CORPUS.vocab), pu.LogLinear(kappa=0.1)), CORPUS),
    "mixture": lambda: (MixtureEM(DMV(TAGS.vocab), [NEAR], pu.DirichletVB()), TAGS),
    "float32": lambda: (EM(Tagger(4, CORPUS.vocab), dtype=torch.float32), CORPUS),
}
HEURISTIC = {"features": 1e-6, "gradient": 1e-6, "logistic normal": 1e-9, "float32": 1e-4}  # searches enlarge rounding


@pytest.mark.filterwarnings("ignore::pyro_unsup.infer.UnfinishedSchedule")
@pytest.mark.parametrize("name", CASES)
def test_chunks_make_no_difference(name: str) -> None:
    runs = []
    for chunk in (None, 15):
        engine, data = CASES[name]()
        runs.append(engine.run(data, iterations=6, tolerance=0, progress=False, seed=1, chunk=chunk))
        share = Share.of(engine.model, ((data,), {}), chunk)
        assert share.whole == (chunk is None)
        assert chunk is None or len(share.bounds) > 2
    one, other = runs
    if name == "clusterer":  # converges, but for rounding
        one.rows, other.rows = one.rows[:5], other.rows[:5]
    close = HEURISTIC.get(name, 1e-12)
    np.testing.assert_allclose([r["objective"] for r in other.rows], [r["objective"] for r in one.rows], rtol=close)
    for table, w in one.weights.items():
        torch.testing.assert_close(other.weights[table].exp(), w.exp(), rtol=0, atol=100 * close)
        assert other.weights[table].dtype == w.dtype


def test_the_loss_and_fallbacks_are_those_of_all_parts() -> None:
    engine = EM(Tagger(4, CORPUS.vocab))
    whole, parts = (engine.start(((CORPUS,), {}), 0, chunk) for chunk in (None, 50))
    assert parts.problem.share.bounds
    assert math.isclose(engine.loss(parts), engine.loss(whole), rel_tol=1e-12)

    def only_long(parts: Any) -> Tensor:
        return parts.lengths[parts.example] > 3  # type: ignore[no-any-return]

    for chunk in (None, 30):
        mixed = MixtureEM(DMV(TAGS.vocab), [only_long], pu.DirichletVB())
        fit = mixed.run(TAGS, iterations=1, progress=False, chunk=chunk)
        assert fit.config["fallbacks"] == [int((TAGS.lengths <= 3).sum())]


def test_parts_are_runs_of_about_as_many_tokens() -> None:
    share = Share.of(Tagger(4, CORPUS.vocab), ((CORPUS,), {}), chunk=100)
    sizes = [data[0][0].tokens for _, data in share]
    assert sum(sizes) == CORPUS.tokens
    assert max(sizes) < 130
    first = [first for first, _ in share]
    assert first == [a for a, _ in share.bounds]
    assert np.array_equal(np.concatenate([data[0][0].words for _, data in share]), CORPUS.words)
    assert all(np.shares_memory(data[0][0].words, CORPUS.words) for _, data in share)


@pytest.mark.parametrize(
    ("sizes", "parts", "expected"),
    [
        ([3, 3, 3, 3], 2, [(0, 2), (2, 4)]),
        ([9, 1, 1], 3, [(0, 1), (1, 3)]),
        ([1], 4, [(0, 1)]),
        ([0, 0], 2, [(0, 2)]),
        ([2, 2, 0, 0], 2, [(0, 1), (1, 4)]),
    ],
)
def test_no_part_is_empty(sizes: list[int], parts: int, expected: list[tuple[int, int]]) -> None:
    assert cut(np.concatenate([[0], np.cumsum(sizes)]), parts) == expected


def test_sentences_without_words_do_not_matter() -> None:
    gaps = Corpus(CORPUS.words, np.repeat(CORPUS.offsets, 2)[1:], CORPUS.vocab)
    one, other = (EM(Tagger(4, CORPUS.vocab)).run(gaps, iterations=3, progress=False, chunk=c) for c in (None, 7))
    assert math.isclose(one.objective, other.objective, rel_tol=1e-12)


def test_a_corpus_on_disk_is_looked_at_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CORPUS.save(tmp_path / "c")
    mapped = Corpus.open(tmp_path / "c")
    monkeypatch.setattr("pyro_unsup.infer.shares.CHUNK", 100)
    engine = EM(Tagger(4, CORPUS.vocab))
    fit = engine.run(mapped, iterations=4, progress=False)
    assert len(engine.init(mapped).problem.share.bounds) > 3
    plain = EM(Tagger(4, CORPUS.vocab)).run(CORPUS, iterations=4, progress=False)
    assert math.isclose(fit.objective, plain.objective, rel_tol=1e-12)
    assert CHUNK >= 1 << 20


def test_documents_on_disk_are_looked_at_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = Documents.count(CORPUS.words, CORPUS.offsets, CORPUS.vocab)
    documents.save(tmp_path / "d")
    monkeypatch.setattr("pyro_unsup.infer.shares.CHUNK", 100)
    engine = EM(Clusterer(3, CORPUS.vocab))
    fit = engine.run(Documents.open(tmp_path / "d"), iterations=4, progress=False)
    assert len(engine.init(Documents.open(tmp_path / "d")).problem.share.bounds) > 3
    plain = EM(Clusterer(3, CORPUS.vocab)).run(documents, iterations=4, progress=False)
    assert math.isclose(fit.objective, plain.objective, rel_tol=1e-12)


ON_DISK: dict[str, Callable[[], tuple[Any, Any]]] = {
    "CCM": lambda: (CCM.of(TAGS), TAGS),
    "DMV": lambda: (DMV(TAGS.vocab), TAGS),
    "DMV + CCM": lambda: (DMVCCM.of(TAGS), TAGS),
    "segmenter": lambda: (Segmenter.of(CORPUS), CORPUS),
    "Model 1": lambda: (Aligner.of(BITEXT), BITEXT),
    "HMM aligner": lambda: (HMMAligner.of(BITEXT), BITEXT),
    "clusterer": lambda: (Clusterer(3, CORPUS.vocab), Documents.count(CORPUS.words, CORPUS.offsets, CORPUS.vocab)),
}


def mapped(data: Any, folder: Path) -> Any:
    if isinstance(data, Bitext):
        return Bitext(mapped(data.source, folder / "source"), mapped(data.target, folder / "target"))
    data.save(folder)
    return type(data).open(folder)


@pytest.mark.parametrize("name", ON_DISK)
def test_data_on_disk_are_never_indexed_as_a_whole(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = ON_DISK[name]()
    plain = EM(model).run(data, iterations=3, progress=False, seed=1)
    seen: list[int] = []
    index = type(model).index

    def noted(self: Any, *args: Any) -> Any:
        seen.append(len(args[0]))
        return index(self, *args)

    monkeypatch.setattr(type(model), "index", noted)
    monkeypatch.setattr("pyro_unsup.infer.shares.CHUNK", 100)
    fit = EM(model).run(mapped(data, tmp_path / "data"), iterations=3, progress=False, seed=1)
    assert math.isclose(fit.objective, plain.objective, rel_tol=1e-11)
    assert max(seen, default=0) < len(data) / 2


def test_touched_parts_add_up_in_their_places() -> None:
    model = Tagger(2, 5)
    total = Total(model.declarations(), torch.float64)
    touched = {"start": None, "transition": None, "emission": torch.tensor([1, 4])}
    part = Expectation(-2.0, {"start": torch.ones(2), "transition": torch.ones(2, 2), "emission": torch.ones(2, 2)},
                       {}, touched)  # fmt: skip
    found = total.gather([part, part])
    assert found.log_marginal == -4
    assert found.counts["emission"].tolist() == [[0, 2, 0, 0, 2]] * 2
    assert found.counts["start"].tolist() == [2, 2]


# -- what is wrong is said


def test_impossible_data_are_named_by_their_place_in_all_data() -> None:
    model = Tagger(2, 3)
    weights = {name: d.layout.uniform() for name, d in model.declarations().items()}
    weights["emission"] = torch.tensor([[0.5, 0.5, 0.0]] * 2).log()
    engine = EM(model, init=pu.init.from_weights(weights))
    with pytest.raises(FitError, match="iteration 0: item 5 of site 'words' has probability zero: smooth"):
        engine.run([[0, 1]] * 5 + [[2]] + [[1]] * 3, progress=False, chunk=4)


@pytest.mark.parametrize("chunk", [0, -1, 2.5, True])
def test_a_chunk_is_a_number_of_tokens(chunk: Any) -> None:
    with pytest.raises(FitError, match=f"chunk must be a whole number of tokens, 1 or more, actual {chunk}"):
        EM(Tagger(2, CORPUS.vocab)).run(CORPUS, chunk=chunk)


def chained(x: Tensor) -> None:
    """Each item depends on the one before it: rows are no examples."""
    start, move = pu.table("start", 2), pu.table("move", 2, 2)
    faces = pu.table("faces", 2, 4)
    z = None
    for t in pyro.markov(range(len(x))):
        z = pyro.sample(f"z{t}", pu.Categorical(start if z is None else move[z]))
        pyro.sample(f"x{t}", pu.Categorical(faces[z]), obs=x[t])


def learning_more(x: Tensor) -> None:
    share = pu.table("share", 2)
    mean = pyro.param("mean", lambda: torch.tensor([-1.0, 1.0]))
    with pyro.plate("data", len(x)):
        z = pyro.sample("z", pu.Categorical(share))
        pyro.sample("x", dist.Normal(mean[z], 1.0), obs=x)


def long(parts: Any) -> Tensor:
    return parts.distance > 1  # type: ignore[no-any-return]


def test_a_model_that_cannot_be_split_says_why() -> None:
    with pytest.raises(FitError, match=r"in parts: site 'z0' is in no plate of one item an example \(5 here\), so its"):
        EM(chained).run(THROWS[:10, 0], chunk=5)
    with pytest.raises(FitError, match="in parts: the M step of 'mean', besides the tables, needs all at once: run it"):
        EM(learning_more).run(torch.randn(10), chunk=5)
    bounded = pu.regularise(DMV(TAGS.vocab), long, bound=0.5)
    with pytest.raises(FitError, match=r"the bounds of regularise\(long <= 0.5\) hold for the average of all examples"):
        EM(bounded, pu.AddLambda(0.1)).run(TAGS, chunk=50)
    with pytest.raises(FitError, match="cannot tell the examples of these data apart"):
        EM(learning_more).run(x=torch.randn(10), chunk=5)


@pytest.mark.parametrize("kind", [pu.StepwiseEM, pu.IncrementalEM])
def test_engines_for_mini_batches_have_no_chunks(kind: Any) -> None:
    with pytest.raises(FitError, match=f"{kind.__name__} cannot split its data over processes or chunks"):
        kind(Tagger(2, CORPUS.vocab)).run(CORPUS, chunk=100)


def test_processes_must_begin_at_the_same_place(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {"start": torch.zeros(2)}
    same_start({"iteration": 3}, weights)
    other = {"iteration": 0, "table 'start'": 0.0}
    monkeypatch.setattr("pyro_unsup.infer.shares.gathered", lambda mine: [mine, other])
    with pytest.raises(FitError, match="begin at the same place: iteration is 0 in process 1 and 3 here"):
        same_start({"iteration": 3}, weights)
