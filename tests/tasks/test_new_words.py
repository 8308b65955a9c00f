"""Tags of words that a tagger has never met."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Corpus, TagDictionary, Vocab
from pyro_unsup.tasks.decoding.new_words import BACKED_OFF, SENTENCE, by_features, emissions, visits

KNOWN = ["the", "a", ".", "jumping", "sleeping", "Anna", "Bill", "cats", "dogs", "9-10"]
TABLES = {
    "start": torch.tensor([0.6, 0.3, 0.1]),
    "transition": torch.tensor([[0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0.3, 0.3, 0.4]]),
    "emission": torch.softmax(torch.randn(3, len(KNOWN), generator=torch.manual_seed(3)), -1),
}


def test_the_chain_visits_tags_as_its_stationary_distribution() -> None:
    weights = {name: table.double().log() for name, table in TABLES.items()}
    step = (1 - 1 / SENTENCE) * TABLES["transition"].double() + TABLES["start"].double() / SENTENCE
    values, vectors = np.linalg.eig(step.numpy().T)
    expected = np.real(vectors[:, np.argmax(np.real(values))])
    np.testing.assert_allclose(visits(weights, 1), expected / expected.sum(), atol=1e-7)


@pytest.mark.parametrize("stop", [False, True])
def test_a_trigram_chain_that_forgets_is_a_bigram_chain(stop: bool) -> None:
    rows = TABLES["transition"].double()
    rows = torch.cat([0.9 * rows, torch.full((3, 1), 0.1)], 1) if stop else rows
    one = {"start": TABLES["start"].double().log(), "transition": rows.log()}
    two = {**one, "second": rows.log(), "transition": rows.expand(3, *rows.shape).log()}
    found = visits(two, 2)
    assert found.sum() == pytest.approx(1)
    assert np.abs(found - visits(one, 1)).max() < 0.05  # the first tag of a sentence is not seen alone


def look(word: str, n: int) -> tuple[object, ...]:
    shape = (word[:1].isupper(), any(one.isdigit() for one in word), "-" in word)
    return (*shape, word[-n:]) if n else shape


@pytest.mark.parametrize("word", ["running", "s", "Will", "1-2", "", "qqq", "the"])
def test_weights_are_what_is_documented(word: str) -> None:
    weights = {name: table.double().log() for name, table in TABLES.items()}
    tags = visits(weights, 1)
    joint = TABLES["emission"].double().numpy() * tags[:, None]
    posterior = (joint / joint.sum(0)).T
    expected = posterior.mean(0)
    for n in range(4):
        same = [i for i, one in enumerate(KNOWN) if look(one, n) == look(word, n)]
        expected = (posterior[same].sum(0) + BACKED_OFF * expected) / (len(same) + BACKED_OFF)
    found = emissions(KNOWN, weights, 1, ["other", word])[:, 1].exp().numpy()
    np.testing.assert_allclose(found, expected / tags, rtol=1e-6)


@pytest.mark.parametrize("word", ["running", "Will", "qqq"])
def test_the_unknown_symbol_and_the_look_of_a_word_decide_together(word: str) -> None:
    weights = {name: table.double().log() for name, table in TABLES.items()}
    joint = TABLES["emission"].double().numpy() * visits(weights, 1)[:, None]
    posterior = joint / joint.sum(0)
    alone = emissions(KNOWN, weights, 1, [word]).exp().numpy()[:, 0]
    expected = alone * posterior[:, KNOWN.index("9-10")] / posterior.mean(1)
    expected /= (expected * visits(weights, 1)).sum()
    np.testing.assert_allclose(emissions(KNOWN, weights, 1, [word], "9-10").exp().numpy()[:, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(emissions(KNOWN, weights, 1, [word], "<unk>").exp().numpy()[:, 0], alone)


def test_a_tagger_without_a_dictionary_asks_its_unknown_symbol() -> None:
    vocab = Vocab([*KNOWN, "<unk>"], unknown="<unk>")
    text = Corpus.of([["the", "odd", "cats", "."], ["a", "quick", "Anna", "."], ["the", "tired", "dogs", "."]] * 4)
    fit = pu.EM(pu.models.Tagger(3, vocab)).run(text.with_vocab(vocab), iterations=1, progress=False)
    new = emissions(list(vocab), fit.weights, 1, ["zebra"], "<unk>")[:, 0]
    expected = (fit.weights["start"] + new).softmax(-1)
    torch.testing.assert_close(fit.decode(Corpus.of([["zebra"]])).posterior.marginals[0], expected)


def small() -> tuple[pu.Fit, Corpus]:
    """A tagger that knows by a dictionary what words are."""
    stems = ["walk", "talk", "jump", "play", "work", "call", "turn", "look"]
    tags = {f"{one}ing": ["VBG"] for one in stems} | {f"{one}ers": ["NNS"] for one in stems}
    tags |= {"the": ["DT"], "a": ["DT"], ".": ["."], "were": ["VBD"], "unseening": ["NNS", "VBG"]}
    lines = [["the", f"{a}ers", "were", f"{b}ing", "."] for a in stems for b in stems]
    corpus = Corpus.of([*lines, *([f"{one}ers"] for one in stems), *([f"{one}ing"] for one in stems)])
    vocab = Vocab([*corpus.vocab, "unseening"])
    known = TagDictionary.from_mapping(tags)
    model = pu.models.Tagger(known.tagset, vocab, 1, known)
    return pu.EM(model).run(corpus.with_vocab(vocab), iterations=3, progress=False), corpus


def tagged(fit: pu.Fit, *words: str, how: str = "viterbi") -> list[str]:
    assert fit.labels is not None
    return [fit.labels[int(k)] for k in fit.predict(Corpus.of([list(words)]), how=how)]


@pytest.mark.parametrize("how", ["viterbi", "mbr"])
def test_new_words_are_of_open_classes(how: str) -> None:
    fit, _ = small()
    assert tagged(fit, "bakers", how=how) == ["NNS"]
    assert tagged(fit, "baking", how=how) == ["VBG"]
    assert tagged(fit, "the", "bakers", "were", "baking", ".", how=how) == ["DT", "NNS", "VBD", "VBG", "."]


def test_a_dictionary_keeps_its_word_for_words_that_training_did_not_meet() -> None:
    fit, _ = small()
    assert tagged(fit, "the", "unseening", "were")[1] == "NNS"
    assert tagged(fit, "unseening") == ["VBG"]  # the ending decides between the two


def test_what_training_met_and_likelihoods_are_as_before() -> None:
    fit, corpus = small()
    decoded = fit.decode(Corpus.of([corpus.sentence(0), ["bakers"]]))
    assert decoded.unseen == 1
    assert decoded.log_likelihood[1] == -torch.inf
    alone = fit.decode(Corpus.of([corpus.sentence(0)]))
    assert decoded.log_likelihood[0] == pytest.approx(float(alone.log_likelihood[0]))
    assert torch.allclose(decoded.posterior.marginals[:5], alone.posterior.marginals)


def test_the_unknown_symbol_does_not_decide() -> None:
    fit, corpus = small()
    vocab = Vocab([*corpus.vocab, "<unk>"], unknown="<unk>")
    tags = {w: ["NNS" if w.endswith("ers") else "VBG"] for w in corpus.vocab}
    tags |= {"the": ["DT"], ".": ["."], "were": ["VBD"], "<unk>": ["DT", "NNS"]}
    known = TagDictionary.from_mapping(tags)
    lines = [*(corpus.sentence(i) for i in range(len(corpus))), *[["odd", "walkers", "were", "walking", "."]] * 9]
    text = Corpus.of(lines).with_vocab(vocab)
    fit = pu.EM(pu.models.Tagger(known.tagset, vocab, 1, known)).run(text, iterations=5, progress=False)
    decoded = fit.decode(Corpus.of([["the", "bakers", "were", "baking", "."]]))
    assert [fit.labels[int(k)] for k in decoded.structure] == ["DT", "NNS", "VBD", "VBG", "."]  # type: ignore[index]
    assert torch.isfinite(decoded.log_likelihood).all() or decoded.unseen == 2


def with_features(templates: list[pu.Template] | None = None) -> pu.Fit:
    _, corpus = small()
    model = pu.models.Tagger(5, corpus.vocab)
    estimate = pu.LogLinear(pu.templates.tagging() if templates is None else templates, 0.1)
    return pu.Gradient(model, estimate).run(corpus, iterations=30, progress=False)


@pytest.mark.parametrize("ngram", ["suffix", "any", None])
def test_features_give_new_words_the_weights_that_features_would(ngram: str | None) -> None:
    fit = with_features(pu.templates.tagging(ngram=ngram))  # type: ignore[arg-type]
    (names, w), known = (fit.features["features"], fit.memory["features"]), list(fit.model.vocab)  # type: ignore[attr-defined]
    new = ["bakers", "Baking", "9-11", ""]
    found = by_features(names, w, fit.weights["emission"], range(5), known, new)
    wider = pu.models.Tagger(5, Vocab([*known, *new]))
    features = pu.Features(wider.declarations(), pu.templates.tagging(ngram=ngram))  # type: ignore[arg-type]
    by_name = {}
    for family in names.families:
        for number in range(family.size):
            by_name[family.table, family.template, family.values(number)] = float(w[family.at(number)])
    same = torch.zeros(len(features), dtype=torch.float64)
    for family in features.names.families:
        for number in range(family.size):
            key = (family.table, family.template, family.values(number))
            same[family.at(number)] = by_name.get(key, 0.0)  # what was never seen has no weight
    table = features.log_weights(same)["emission"]
    shift = (table[:, : len(known)] - fit.weights["emission"])[:, :1]  # new words take their share of each row
    assert found is not None
    torch.testing.assert_close(found, table[:, len(known) :] - shift)


def test_features_of_your_own_leave_it_to_words_that_look_the_same() -> None:
    mine = pu.Template("emission", "suffix", tag=pu.same, word=lambda word: word[:1])  # not what the name says
    fit = with_features([mine])
    known = list(fit.model.vocab)  # type: ignore[attr-defined]
    assert (
        by_features(fit.features["features"], fit.memory["features"], fit.weights["emission"], range(5), known, ["x"])
        is None
    )
    other = with_features([pu.Template("emission", "first", tag=pu.same, word=lambda word: word[:1])])
    names = other.features["features"]
    assert by_features(names, other.memory["features"], other.weights["emission"], range(5), known, ["x"]) is None
    assert len(other.predict(Corpus.of([["bakers", "were"]]))) == 2


def test_new_words_of_a_tagger_with_features_are_tagged_by_them(tmp_path: Path) -> None:
    fit = with_features()
    fit.save(tmp_path / "fit")
    for one in (fit, pu.load(tmp_path / "fit")):
        found = one.predict(
            Corpus.of([["the", "bakers", "were", "baking", "."], ["the", "walkers", "were", "walking", "."]])
        )
        assert found[:5].tolist() == found[5:].tolist()
