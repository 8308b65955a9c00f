"""Scores of a fit against gold tags, and names for its states."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import InputError, UnsupError, evaluate
from pyro_unsup.data import Corpus, TagDictionary, Vocab, toy
from pyro_unsup.models import Tagger

from .cases import anonymous, own, points, text, with_dictionary

HOW = ["viterbi", "mbr"]


def reordered(corpus: Corpus, seed: int = 0) -> Corpus:
    """The same text with its words and tags numbered in another order, and some that do not occur among them."""
    assert corpus.tagset is not None
    assert corpus.tags is not None
    rng = np.random.default_rng(seed)
    words = ["never", *(corpus.vocab[i] for i in rng.permutation(len(corpus.vocab))), "ever"]
    tags = ["XXX", *(corpus.tagset[i] for i in rng.permutation(len(corpus.tagset)))]
    vocab, tagset = Vocab(words), Vocab(tags)
    return Corpus(
        vocab.encode(corpus.vocab.decode(corpus.words)),
        corpus.offsets,
        vocab,
        tagset.encode(corpus.tagset.decode(corpus.tags)),
        tagset,
    )


@pytest.mark.parametrize("how", HOW)
def test_states_without_names_get_the_scores_of_clusters(how: str) -> None:
    fit, gold = anonymous(), text()
    assert gold.tags is not None
    predicted = fit.predict(gold, how=how)
    found = fit.evaluate(gold, how=how)
    assert found == {
        "many_to_one": evaluate.many_to_one(gold.tags, predicted),
        "one_to_one": evaluate.one_to_one(gold.tags, predicted),
        "v_measure": evaluate.v_measure(gold.tags, predicted),
        "vi_bits": evaluate.variation_of_information(gold.tags, predicted),
        "clusters_used": evaluate.clusters_used(predicted),
        "bits_per_word": pytest.approx(-fit.log_likelihood(gold) / gold.tokens / math.log(2), rel=1e-12),
    }
    assert 0 < found["one_to_one"] <= found["many_to_one"] < 1


@pytest.mark.parametrize("how", HOW)
def test_named_tags_get_accuracy_as_well(how: str) -> None:
    fit, gold = with_dictionary(), text()
    assert gold.tags is not None
    predicted = fit.predict(gold, how=how).numpy()
    found = fit.evaluate(gold, how=how)
    assert found["accuracy"] == evaluate.accuracy(gold.tags, predicted)
    dictionary = TagDictionary.from_corpus(gold, min_count=5)
    ambiguous = dictionary.mask(gold.vocab).sum(0)[gold.words] > 1
    assert 0 < ambiguous.sum() < gold.tokens
    assert found["accuracy_ambiguous"] == evaluate.accuracy_ambiguous(gold.tags, predicted, ambiguous)
    assert found["accuracy_ambiguous"] < found["accuracy"]
    assert found["many_to_one"] == evaluate.many_to_one(gold.tags, predicted)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("seed", range(3))
def test_scores_do_not_depend_on_how_gold_numbers_its_words_and_tags(how: str, seed: int) -> None:
    for fit in (anonymous(), with_dictionary()):
        expected, found = fit.evaluate(text(), how=how), fit.evaluate(reordered(text(), seed), how=how)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, abs=1e-12), name


def test_new_text_with_words_that_training_never_met() -> None:
    new = toy.sentences(40, seed=9)
    fit = anonymous()  # its vocabulary has an unknown symbol, which has been seen
    by_symbol, by_form = fit.evaluate(new.with_vocab(text().vocab)), fit.evaluate(new)
    assert by_form.keys() == by_symbol.keys()
    assert by_form["bits_per_word"] == by_symbol["bits_per_word"]  # what looks decide is no part of the likelihood
    assert math.isfinite(by_form["bits_per_word"])


def test_gold_tags_that_the_model_does_not_know() -> None:
    gold = text()
    assert gold.tagset is not None
    renamed = gold.with_tags({tag: {"DET": "ART"}.get(tag, tag) for tag in gold.tagset})
    fit = with_dictionary()
    before, after = fit.evaluate(gold), fit.evaluate(renamed)
    right, found = (np.array(one) for one in (gold.tagset.decode(gold.tags), fit.labels))  # type: ignore[arg-type]
    found = found[fit.predict(gold).numpy()]
    assert before["accuracy"] == np.mean(right == found)
    assert after["accuracy"] == np.mean((right == found) & (right != "DET")) < before["accuracy"]  # they are wrong
    # Sums over tags are in the order of their names: they may differ in the last bit.
    assert {name: x for name, x in after.items() if "accuracy" not in name} == pytest.approx(
        {name: x for name, x in before.items() if "accuracy" not in name}, rel=1e-12
    )
    assert "accuracy" not in anonymous().evaluate(renamed)  # states without names are matched to any tags
    assert anonymous().evaluate(renamed) == anonymous().evaluate(gold)


def test_gold_tags_that_do_not_occur_need_not_be_known() -> None:
    gold = text()
    assert gold.tagset is not None
    more = Corpus(gold.words, gold.offsets, gold.vocab, gold.tags, Vocab([*gold.tagset, "FOREIGN"]))
    assert with_dictionary().evaluate(more) == with_dictionary().evaluate(gold)


def test_a_corpus_without_tags_cannot_be_gold() -> None:
    bare = Corpus(text().words, text().offsets, text().vocab)
    for call in (anonymous().evaluate, anonymous().relabel):
        with pytest.raises(UnsupError, match=r"^the gold corpus has no tags: read a tagged file$"):
            call(bare)


def test_a_model_of_ones_own_has_no_scores_of_the_library() -> None:
    with pytest.raises(UnsupError, match="expected the fit of a tagger or a clusterer, actual <function mixture"):
        own().relabel(text())
    with pytest.raises(UnsupError, match=r"fit\.evaluate is for registered models, and mixture is not one"):
        own().evaluate(text())
    assert own().predict(points()).keys() == {"z"}


def test_ways_that_are_not_there() -> None:
    with pytest.raises(UnsupError, match=r"^how must be 'viterbi', 'mbr' or 'word', actual 'many_to_one'$"):
        anonymous().evaluate(text(), how="many_to_one")
    with pytest.raises(UnsupError, match=r"^how must be 'viterbi' or 'mbr', actual 'word'$"):
        anonymous().predict([[0, 1]], how="word")  # without a corpus words are but numbers
    with pytest.raises(UnsupError, match="how must be 'many_to_one' or 'one_to_one', got 'best'"):
        anonymous().relabel(text(), how="best")


def test_a_vocabulary_may_be_a_number_or_a_list() -> None:
    gold = text()
    by_number = pu.EM(Tagger(3, len(gold.vocab))).run(gold, iterations=2, progress=False)
    by_list = pu.EM(Tagger(3, list(gold.vocab))).run(gold, iterations=2, progress=False)
    by_vocab = pu.EM(Tagger(3, gold.vocab)).run(gold, iterations=2, progress=False)
    assert by_number.evaluate(gold) == by_list.evaluate(gold) == by_vocab.evaluate(gold)
    assert by_list.evaluate(reordered(gold))["many_to_one"] == by_vocab.evaluate(gold)["many_to_one"]


def test_a_dictionary_that_leaves_no_choice_has_no_accuracy_on_ambiguous_tokens() -> None:
    gold = text()
    assert gold.tagset is not None
    mask = np.zeros((len(gold.tagset), len(gold.vocab)), dtype=np.bool_)
    mask[np.arange(len(gold.vocab)) % len(gold.tagset), np.arange(len(gold.vocab))] = True
    fit = pu.EM(Tagger(gold.tagset, gold.vocab, dictionary=mask)).run(gold, iterations=1, progress=False)
    assert "accuracy_ambiguous" not in fit.evaluate(gold)
    assert "accuracy" in fit.evaluate(gold)


# -- relabel


def test_many_to_one_names_each_state_by_its_commonest_tag() -> None:
    gold = text()
    assert gold.tagset is not None
    assert gold.tags is not None
    fit = anonymous()
    named = fit.relabel(gold)
    pairs = Counter(zip(fit.predict(gold).tolist(), gold.tagset.decode(gold.tags), strict=True))
    assert named.labels is not None
    for state, label in enumerate(named.labels):
        best = max(count for (k, _), count in pairs.items() if k == state)
        assert pairs[state, label] == best
    right = sum(named.labels[k] == tag for k, tag in pairs.elements())
    assert right / gold.tokens == fit.evaluate(gold)["many_to_one"]


def test_one_to_one_uses_each_tag_once_and_leaves_numbers_for_the_rest() -> None:
    gold = text().with_tags({tag: "verbal" if tag in ("VERB", "AUX") else "other" for tag in text().tagset or ()})
    named = anonymous().relabel(gold, how="one_to_one")
    assert named.labels is not None
    assert sorted(label for label in named.labels if not label.isdigit()) == ["other", "verbal"]
    assert all(label == str(k) for k, label in enumerate(named.labels) if label.isdigit())
    pairs = zip(anonymous().predict(gold).tolist(), gold.tagset.decode(gold.tags), strict=True)  # type: ignore[union-attr,arg-type]
    right = sum(named.labels[k] == tag for k, tag in pairs)
    assert right / gold.tokens == anonymous().evaluate(gold)["one_to_one"]


def test_a_state_that_is_never_used_keeps_its_number() -> None:
    gold = text()
    few = gold.select([0])
    labels = anonymous().relabel(few).labels
    used = set(anonymous().predict(few).tolist())
    assert labels is not None
    assert len(labels) == 4
    assert used < {0, 1, 2, 3}
    assert all((label == str(k)) == (k not in used) for k, label in enumerate(labels))


def test_relabel_makes_a_new_fit_that_can_be_saved(tmp_path: Path) -> None:
    fit = anonymous()
    named = fit.relabel(text())
    assert fit.labels is None
    assert named.weights is fit.weights
    named.save(tmp_path / "fit")
    assert pu.load(tmp_path / "fit").labels == named.labels
    assert named.evaluate(text()) == fit.evaluate(text())


def test_relabel_overrules_the_names_that_a_model_has() -> None:
    coarse = text().with_tags({tag: "verbal" if tag in ("VERB", "AUX") else "other" for tag in text().tagset or ()})
    assert set(with_dictionary().relabel(coarse).labels or ()) <= {"verbal", "other", *map(str, range(12))}


def test_a_text_with_a_word_of_probability_zero_is_scored_but_its_likelihood_is_zero() -> None:
    small, gold = toy.sentences(3, seed=4).compact(), toy.sentences(40, seed=9)
    fit = pu.EM(Tagger(2, small.vocab), pu.AddLambda(0.1)).run(small, iterations=2, progress=False)
    found = fit.evaluate(gold)
    assert found["bits_per_word"] == math.inf
    assert 0 < found["many_to_one"] < 1
    assert fit.relabel(gold).labels is not None
    with pytest.raises(InputError, match=r"is not among the .* known types"):
        gold.with_vocab(small.vocab)


def test_a_chain_of_ones_own_is_drawn_and_a_mixture_is_not() -> None:
    def chain(x: Any) -> None:
        loc = pyro.param("loc", torch.tensor([0.0, 5.0]))
        start, transition = pu.table("start", 2), pu.table("transition", 2, 2)
        pyro.sample("x", pu.Chain(start, transition, dist.Normal(loc, 1.0), len(x)), obs=x)

    x = torch.tensor([0.1, 0.2, 5.1, 4.9, 0.0])
    assert len(pu.EM(chain).run(x, iterations=2, progress=False).plot(x).collections) == 2
    with pytest.raises(UnsupError, match=r"fit\.plot of data is for registered models, and mixture is not one"):
        own().plot(points())
