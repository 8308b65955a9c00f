"""Aligners whose jumps depend on the class of the word that they leave, or on the jump before."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pyro import poutine

import pyro_unsup as pu
from pyro_unsup import StructureError
from pyro_unsup.data import Bitext, Corpus, Vocab, toy
from pyro_unsup.models import Aligner, HMMAligner
from pyro_unsup.models.hmm_aligner import Start
from pyro_unsup.tasks.decoding.aligner import decode

KINDS = pytest.mark.parametrize("options", [{"order": 2}, {"classes": 3}, {"order": 2, "classes": 2}], ids=str)


def model_of(text: Bitext, options: dict[str, Any], **more: Any) -> HMMAligner:
    many = options.get("classes")
    classes = tuple(None if many is None else torch.arange(len(one.vocab)) % many for one in (text.source, text.target))
    return HMMAligner.of(text, **{**options, "classes": classes}, **more)


@KINDS
@pytest.mark.parametrize("agreement", [None, "2008"])
def test_exact_training_never_falls(options: dict[str, Any], agreement: str | None) -> None:
    text = toy.bitext(30, seed=1)
    model = model_of(text, options, agreement=agreement, null="learn")
    fit = pu.EM(model, pu.AddLambda(0.1)).run(text, iterations=8, tolerance=0, progress=False)
    values = [row["objective"] for row in fit.rows]
    assert values[-1] > values[0]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))


@KINDS
def test_a_few_pairs_and_other_engines(options: dict[str, Any]) -> None:
    """Mini-batches and small parts of a text have the classes of their own words."""
    text = toy.bitext(40, seed=2)
    model = model_of(text, options)
    fit = pu.EM(model, init=start_of(model, text)).run(text, iterations=2, progress=False)
    assert model.agreement is not None  # both directions are one site
    whole = fit.posterior(text)
    for some in ([5], [7, 0, 31], list(range(20, 40))):
        part = fit.posterior(text.select(some))
        torch.testing.assert_close(part.log_partition, whole.log_partition[some], rtol=1e-10, atol=1e-10)
    for engine in (pu.StepwiseEM(model, batch_size=7), pu.IncrementalEM(model, batch_size=10), pu.EM(pu.harden(model))):
        assert math.isfinite(engine.run(text, iterations=4, progress=False).objective), engine


def start_of(model: HMMAligner, text: Bitext) -> Start:
    return model.start_from(pu.EM(Aligner.of(text), init=pu.init.uniform()).run(text, iterations=3, progress=False))


@KINDS
def test_saved_and_loaded(tmp_path: Path, options: dict[str, Any]) -> None:
    text = toy.bitext(30, seed=1)
    model = model_of(text, options)
    fit = pu.EM(model, init=start_of(model, text)).run(text, iterations=3, progress=False)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert repr(loaded.model) == repr(model)
    assert loaded.log_likelihood(text) == fit.log_likelihood(text)
    assert loaded.predict(text).tolist() == fit.predict(text).tolist()


def test_names_of_kinds() -> None:
    text = toy.bitext(10, seed=1)
    model = model_of(text, {"order": 2, "classes": 2})
    kinds = model.declarations()["jump_backward"].axes[0].labels
    assert list(kinds)[:3] == ["first", "inner, class 0, after back", "inner, class 1, after back"]
    assert len(kinds) == 10
    assert kinds[-1] == "end"
    assert repr(model).endswith(", order=2, classes=(2, 2))")


def made(pairs: int, turn: Any, seed: int = 0) -> Bitext:
    """A text in which the word that follows another in the translation is one further on, or further back.

    :param turn: whether it goes back, by the word that was translated last and by the step before.
    """
    rng, source, target = np.random.default_rng(seed), [], []
    for _ in range(pairs):
        words = rng.integers(0, 40, 8)
        places, at, step = [], 0, 1
        while 0 <= at < len(words) and len(places) < 8:
            places.append(at)
            step = turn(int(words[at]), step)
            at += step
        source.append(words.tolist())
        target.append(words[places].tolist())
    names = Vocab([f"w{k}" for k in range(40)])

    def corpus(sentences: list[list[int]]) -> Corpus:
        return Corpus(np.concatenate(sentences), np.cumsum([0, *map(len, sentences)]), names)

    return Bitext(corpus(source), corpus(target))


def error_of(text: Bitext, fit: Any) -> float:
    """The share of words that are linked with a word that is not the same."""
    links = decode(fit, text, "forward").links.rows
    wrong = 0
    for pair, source, target in links.tolist():
        wrong += text.source.sentence(pair)[source] != text.target.sentence(pair)[target]
    return wrong / len(links)


def held_out(text: Bitext, new: Bitext, **options: Any) -> float:
    model = HMMAligner.of(text, agreement=None, **options)
    fit = pu.EM(model, pu.AddLambda(0.1), init=start_of(model, text)).run(text, iterations=15, progress=False)
    assert error_of(new, fit) < 0.1
    return float(fit.log_likelihood(new)) / new.target.tokens


def test_jumps_by_the_class_of_a_word() -> None:
    """Words with an even number are followed by the word before them: classes tell, and so does a new text."""

    def turn(word: int, step: int) -> int:
        return -1 if word % 3 == 0 else 2

    text, new = made(400, turn), made(100, turn, seed=1)
    classes = torch.tensor([int(word % 3 == 0) for word in range(40)])
    plain, known = held_out(text, new), held_out(text, new, classes=(classes, classes))
    mixed = torch.arange(40) % 2
    other = held_out(text, new, classes=(mixed, mixed))
    assert known > plain + 0.2
    assert abs(other - plain) < 0.05


def test_jumps_by_the_jump_before() -> None:
    """After a step of two comes one back, and after that a step of two again."""

    def turn(word: int, step: int) -> int:
        return -1 if step > 1 else 2

    text, new = made(400, turn), made(100, turn, seed=1)
    assert held_out(text, new, order=2) > held_out(text, new) + 0.2


def test_words_that_are_not_known() -> None:
    text = toy.bitext(100, seed=1)
    model = model_of(text, {"classes": 3})
    words, lengths = [torch.tensor([one, 0]) for one in (model.source_words, model.target_words)], torch.tensor([2])
    pairs = model.pairs_of(words[0], lengths, words[1], lengths)
    with pu.handlers.DeclaredMessenger():  # it answers with uniform tables
        both = poutine.trace(model).get_trace(pairs).nodes["links"]["fn"]
    for known, way in zip(model.classes, (both.forward, both.backward), strict=True):
        assert way.classes.tolist() == [int(known.bincount().argmax()), int(known[0])]


def test_errors_say_what_was_expected() -> None:
    text = toy.bitext(20, seed=1)
    n = len(text.source.vocab)
    with pytest.raises(StructureError, match="order must be 1, or 2 for jumps that depend on the jump before"):
        HMMAligner.of(text, order=3)
    with pytest.raises(StructureError, match=rf"classes of source words .* of the {n} words, actual shape \(2,\)"):
        HMMAligner.of(text, classes=([0, 1], None))
    with pytest.raises(StructureError, match=r"whole numbers from 0 on.*smallest -1"):
        HMMAligner.of(text, classes=([-1] * n, None))
    with pytest.raises(StructureError, match="all jumps from link to link are of one kind: leave order and"):
        pu.CollapsedGibbs(HMMAligner.of(text, order=2, agreement=None)).run(text, sweeps=2, progress=False)


def test_classes_of_words() -> None:
    """A word has the state that most of its tokens are expected to have; one that is not there, the commonest."""
    corpus = toy.sentences(200, seed=1)
    model = pu.models.Tagger(tags=5, vocab=corpus.vocab)
    fit = pu.EM(model).run(corpus, iterations=10, seed=1, progress=False)
    found = pu.word_classes(fit, corpus)
    marginals, words = fit.posterior(corpus).marginals, torch.as_tensor(np.asarray(corpus.words)).long()
    for word in set(words.tolist()):
        assert int(found[word]) == int(marginals[words == word].sum(0).argmax())
    few = corpus.select([0])
    some = pu.word_classes(fit, few)
    absent = sorted(set(range(len(corpus.vocab))) - set(few.words.tolist()))
    assert len(set(some[absent].tolist())) == 1
    with pytest.raises(pu.UnsupError, match="classes of words need the fit of a tagger, actual"):
        pu.word_classes(
            pu.EM(Aligner.of(toy.bitext(5)), init=pu.init.uniform()).run(toy.bitext(5), iterations=1), corpus
        )
    with pytest.raises(pu.UnsupError, match=r"actual Corpus\(.*: train one, and give it and its sentences"):
        pu.word_classes(corpus, 5)  # type: ignore[arg-type]
    with pytest.raises(pu.UnsupError, match="actual Tagger"):
        pu.word_classes(model, corpus)  # type: ignore[arg-type]
