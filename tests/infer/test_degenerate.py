"""Data at the edges: one word, one tag, one sentence, sentences of one word; a sentence of 100,000 words; long runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Bitext, Corpus, Documents, Vocab
from pyro_unsup.models import CCM, DMV, DMVCCM, Aligner, Clusterer, HMMAligner, Segmenter, Tagger

LONG = 100_000
QUIET: dict[str, Any] = {"progress": False, "tolerance": 0.0, "iterations": 2}


def text(*lines: str) -> Corpus:
    sentences = [line.split() for line in lines]
    words = [word for sentence in sentences for word in sentence]
    vocab = Vocab(dict.fromkeys(words))
    return Corpus(vocab.encode(words), np.cumsum([0, *map(len, sentences)]), vocab)


TEXTS = {
    "one word": text("a"),
    "one word, often": text("a a a", "a", "a a"),
    "one sentence": text("a b c b a"),
    "sentences of one word": text("a", "b", "a", "c"),
}


def bags(corpus: Corpus) -> Documents:
    return Documents.count(corpus.words, corpus.offsets, corpus.vocab)


def pairs(corpus: Corpus) -> Bitext:
    return Bitext(corpus, corpus)


def same(corpus: Corpus) -> Corpus:
    return corpus


Made = tuple[Callable[[Corpus], Any], Callable[[Any], Any]]
#: What a text becomes, and a model of that.
MODELS: dict[str, Made] = {
    "tagger": (same, lambda data: Tagger(2, data.vocab)),
    "tagger of one tag": (same, lambda data: Tagger(1, data.vocab)),
    "trigram tagger": (same, lambda data: Tagger(2, data.vocab, order=2, stop=True)),
    "trigram tagger of one tag": (same, lambda data: Tagger(1, data.vocab, order=2)),
    "DMV": (same, DMV.of),
    "CCM": (same, CCM.of),
    "DMV + CCM": (same, DMVCCM.of),
    "segmenter": (same, lambda data: Segmenter.of(data, max_length=3)),
    "segmenter of symbols": (same, lambda data: Segmenter.of(data, max_length=1)),
    "Model 1": (pairs, lambda data: Aligner.of(data, agreement=None)),
    "HMM aligner": (pairs, lambda data: HMMAligner.of(data, agreement=None)),
    "both directions": (pairs, Aligner.of),
    "clusterer": (bags, lambda data: Clusterer(2, data.vocab)),
    "clusterer of one cluster": (bags, lambda data: Clusterer(1, data.vocab)),
}
#: Of which a table says how words follow each other.
NEEDS_TWO = {"tagger", "tagger of one tag", "trigram tagger", "trigram tagger of one tag", "DMV", "DMV + CCM"}
SMOOTH = pu.AddLambda(0.1)
ENGINES: dict[str, Callable[[Any], Any]] = {
    "EM": lambda model: pu.EM(model),
    "EM, smoothed": lambda model: pu.EM(model, SMOOTH),
    "stepwise": lambda model: pu.StepwiseEM(model, SMOOTH, batch_size=1),
    "annealing": lambda model: pu.Anneal(model, SMOOTH, schedule=[0.5, 1.0], steps=1),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_on_next_to_nothing(name: str, engine: str) -> None:
    turn, make = MODELS[name]
    for which, corpus in TEXTS.items():
        data = turn(corpus)
        if engine == "EM" and corpus.lengths.max() == 1 and name in NEEDS_TWO:
            with pytest.raises(
                pu.FitError, match=r"got no counts at all.* \(sentences of one word, say\), add pseudo-counts"
            ):
                ENGINES[engine](make(data)).run(data, **QUIET)
            continue
        fit = ENGINES[engine](make(data)).run(data, **QUIET)
        assert math.isfinite(fit.objective), which
        assert all(bool(((x <= 1e-9) | x.isneginf()).all()) for x in fit.weights.values()), which
        found = fit.predict(data)
        assert found is not None
        again = fit.predict(data)
        assert all(torch.equal(a, b) for a, b in zip(torch.atleast_1d(found), torch.atleast_1d(again), strict=True))


@pytest.mark.parametrize("name", ["tagger", "tagger of one tag", "trigram tagger", "segmenter", "clusterer"])
def test_samplers_on_next_to_nothing(name: str) -> None:
    turn, make = MODELS[name]
    for corpus in TEXTS.values():
        data = turn(corpus)
        samples = pu.CollapsedGibbs(make(data), hyper="shared").run(data, sweeps=6, progress=False)
        assert np.isfinite(samples.log_joint).all()
        assert np.isfinite(samples.diagnostics()["log_joint"]["mean"])


def unigrams(corpus: Corpus) -> float:
    counts = np.bincount(corpus.words)
    counts = counts[counts > 0]
    return float((counts * np.log(counts / corpus.tokens)).sum())


@pytest.mark.parametrize("which", TEXTS)
def test_one_state_is_the_frequencies_of_words(which: str) -> None:
    corpus = TEXTS[which]
    if corpus.lengths.max() > 1:
        tagger = pu.EM(Tagger(1, corpus.vocab)).run(corpus, **QUIET)
        assert tagger.objective == pytest.approx(unigrams(corpus), abs=1e-9)
    clusterer = pu.EM(Clusterer(1, corpus.vocab)).run(bags(corpus), **QUIET)
    assert clusterer.log_likelihood(bags(corpus)) == pytest.approx(clusterer.objective, abs=1e-9)
    if len(corpus.vocab) == 1:
        assert clusterer.objective == pytest.approx(0.0, abs=1e-9)


# -- 100,000 words in one sentence


def long_text(types: int, seed: int = 0) -> Corpus:
    words = np.random.default_rng(seed).integers(0, types, LONG).astype(np.int32)
    return Corpus(words, [0, LONG], Vocab([str(i) for i in range(types)]))


def forward(start: np.ndarray, trans: np.ndarray, emission: np.ndarray) -> float:  # (K,), (K, K), (T, K), all logs
    """The log marginal of a chain, rescaled at every step, in numpy."""
    total, here = 0.0, np.exp(start + emission[0])
    step, weights = np.exp(trans), np.exp(emission)
    for t in range(1, len(weights)):
        size = here.sum()
        total += math.log(size)
        here = (here / size) @ step * weights[t]
    return total + math.log(here.sum())


def test_a_long_sentence_of_a_tagger() -> None:
    corpus = long_text(5)
    fit = pu.EM(Tagger(3, corpus.vocab)).run(corpus, progress=False, tolerance=0.0, iterations=2)
    weights = {name: x.numpy() for name, x in fit.weights.items()}
    emission = weights["emission"].T[corpus.words]
    trans = weights["transition"][:, :3]
    wanted = forward(weights["start"][:3], trans, emission)
    assert fit.objective == pytest.approx(wanted, rel=1e-10)
    assert fit.log_likelihood(corpus) == pytest.approx(wanted, rel=1e-10)
    assert fit.predict(corpus).shape == (LONG,)
    one = pu.EM(Tagger(1, corpus.vocab)).run(corpus, progress=False, iterations=2)
    assert one.objective == pytest.approx(unigrams(corpus), rel=1e-12)


def test_a_long_sentence_of_a_segmenter() -> None:
    corpus = long_text(4)
    fit = pu.EM(Segmenter.of(corpus, max_length=2)).run(corpus, progress=False, tolerance=0.0, iterations=2)
    assert fit.objective == pytest.approx(fit.log_likelihood(corpus), rel=1e-10)
    # In parts of the same text the marginal is no greater than the sum over cuts anywhere, and no less than over these.
    half = Corpus(corpus.words, [0, LONG // 2, LONG], corpus.vocab)
    assert math.isfinite(fit.log_likelihood(half))
    ends = fit.predict(corpus)
    assert ends.shape == (LONG,)
    assert bool(ends[-1])
    assert int(torch.diff(torch.nonzero(ends).flatten()).max()) <= 2
    alone = pu.EM(Segmenter.of(corpus, max_length=1)).run(corpus, progress=False, tolerance=0.0, iterations=3)
    stop = alone.weights["stop"].exp()
    assert bool(torch.isfinite(stop).all())


@pytest.mark.parametrize("turned", [False, True])
def test_a_long_sentence_of_aligners(turned: bool) -> None:
    one, other = long_text(5), text("x y x z")
    bitext = Bitext(other, one) if turned else Bitext(one, other)
    for make in (Aligner, HMMAligner):
        if make is HMMAligner and not turned:
            continue  # 100,000 states, and twice as many with those for no word: refused or not, nobody waits for it
        fit = pu.EM(make.of(bitext, agreement=None)).run(bitext, progress=False, tolerance=0.0, iterations=2)
        assert fit.log_likelihood(bitext) == pytest.approx(fit.objective, rel=1e-9)
        rows = [row["objective"] for row in fit.rows]
        assert rows == sorted(rows)


def test_trees_over_a_long_sentence_are_refused() -> None:
    corpus = long_text(5)
    for make in (DMV, CCM, DMVCCM):
        with pytest.raises(pu.StructureError, match=r"a sentence of 100,000 words has 5,000,050,000 spans.*max_length"):
            pu.EM(make.of(corpus), SMOOTH).run(corpus, **QUIET)


# -- float32, for long


class Stubborn(pu.EM):
    """Never content, so that all iterations are made."""

    def converged(self, state: Any, rows: Any, tolerance: float) -> bool:
        return False


@pytest.mark.parametrize("iterations", [300, pytest.param(5000, marks=pytest.mark.deep)])
def test_float32_on_a_long_run(iterations: int) -> None:
    corpus = pu.data.toy.sentences(20, seed=5)
    found = {}
    for dtype in (torch.float64, torch.float32):
        engine = Stubborn(Tagger(3, corpus.vocab), SMOOTH, dtype=dtype)
        found[dtype] = engine.run(corpus, progress=False, tolerance=0.0, iterations=iterations)
    single, double = found[torch.float32], found[torch.float64]
    assert single.weights["emission"].dtype == torch.float32
    assert len(single.rows) == iterations + 1
    objectives = np.array([row["objective"] for row in single.rows])
    assert np.isfinite(objectives).all()
    assert (np.diff(objectives) >= -1e-5 * np.abs(objectives[:-1])).all()
    assert single.objective == pytest.approx(double.objective, rel=1e-5)
    for name, x in double.weights.items():
        assert bool(torch.isfinite(single.weights[name]).all() == torch.isfinite(x).all())
        assert torch.allclose(single.weights[name].double().exp(), x.exp(), atol=1e-3)
    assert (single.predict(corpus) == double.predict(corpus)).double().mean() > 0.99
