"""A clusterer on documents that it was not trained on."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Documents, Vocab
from pyro_unsup.errors import UnsupError
from pyro_unsup.models import Clusterer, Tagger
from pyro_unsup.results import Fit
from pyro_unsup.results.evaluation import task_of
from pyro_unsup.tasks import find
from pyro_unsup.tasks.decoding.clusterer import decode

scores = find("clusterer").scores

VOCAB = Vocab(["sun", "rain", "goal", "team"])
LABELS = Vocab(["weather", "sport"])


def gold() -> Documents:
    words = [0, 1, 0, 1, 0, 2, 3, 2, 3, 3]
    return Documents.count(words, [0, 3, 5, 8, 10], VOCAB, [0, 0, 1, 1], LABELS)


@pytest.fixture
def fit() -> Fit:
    weights = {
        "cluster": torch.tensor([0.25, 0.75]).log(),
        "words": torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.5, 0.5]]).log(),
    }
    return pu.EM(Clusterer(2, VOCAB), init=pu.init.from_weights(weights)).run(gold(), iterations=0, progress=False)


def test_it_is_found_by_its_model(fit: Fit) -> None:
    kind = task_of(fit.model)
    assert kind is not None
    assert kind.decoder == f"{decode.__module__}:decode"


@pytest.mark.parametrize("how", ["viterbi", "mbr"])
def test_documents_get_their_clusters_and_scores(fit: Fit, how: str) -> None:
    decoded = decode(fit, gold(), how)
    assert decoded.structure.tolist() == [0, 0, 1, 1]
    expected = [math.log(p) + n * math.log(0.5) for p, n in ((0.25, 3), (0.25, 2), (0.75, 3), (0.75, 2))]
    torch.testing.assert_close(decoded.log_likelihood, torch.tensor(expected))
    assert (decoded.tokens, decoded.unseen) == (10, 0)
    found = scores(fit, gold(), decoded)
    assert found == {
        "accuracy": 1.0,
        "one_to_one": 1.0,
        "v_measure": pytest.approx(1.0),
        "vi_bits": 0.0,
        "clusters_used": 2,
        "loglik_per_token": pytest.approx(sum(expected) / 10),
    }


def test_words_outside_the_vocabulary_are_no_part_of_a_document(fit: Fit) -> None:
    text = Documents.count([0, 1, 1, 2, 2, 2], [0, 3, 5, 6], Vocab(["rain", "the", "of"]))
    decoded = decode(fit, text)
    assert decoded.structure.tolist() == [0, 1, 1]  # the last two have no word that it knows: the larger cluster
    torch.testing.assert_close(decoded.log_likelihood, torch.tensor([math.log(0.125), 0.0, 0.0]))
    assert (decoded.tokens, decoded.unseen) == (1, 5)


def test_an_unknown_symbol_stands_for_them(fit: Fit) -> None:
    vocab = Vocab([*VOCAB, "?"], unknown="?")
    words = torch.nn.functional.pad(fit.weights["words"], (0, 1), value=math.log(0.1))
    start = pu.init.from_weights({**fit.weights, "words": words})
    known = pu.EM(Clusterer(2, vocab), init=start).run(gold().with_vocab(vocab), iterations=0, progress=False)
    decoded = decode(known, Documents.count([0, 1, 1], [0, 3], Vocab(["rain", "the"])))
    assert (decoded.tokens, decoded.unseen) == (3, 2)
    torch.testing.assert_close(decoded.log_likelihood.exp(), torch.tensor([0.25 * 0.5 * 0.1**2]))


def test_an_impossible_document_goes_where_it_lacks_fewest_words(fit: Fit) -> None:
    decoded = decode(fit, Documents.count([0, 0, 3, 0], [0, 3, 4], VOCAB))
    assert decoded.structure.tolist() == [0, 0]
    assert decoded.log_likelihood[0] == -math.inf
    assert decoded.log_likelihood[1] > -math.inf
    torch.testing.assert_close(decoded.posterior.marginals[1], torch.tensor([1.0, 0.0]))


def test_a_cluster_of_weight_zero_gets_no_documents(fit: Fit) -> None:
    fit.weights = {**fit.weights, "cluster": torch.tensor([0.0, -torch.inf])}
    assert decode(fit, gold()).structure.tolist() == [0, 0, 0, 0]


def test_lower_case_if_training_had_it(fit: Fit) -> None:
    text = Documents.count([0, 1], [0, 2], Vocab(["Sun", "sun"]))
    assert decode(fit, text).unseen == 1
    fit.config["lowercase"] = True
    decoded = decode(fit, text)
    assert (decoded.tokens, decoded.unseen) == (2, 0)


def test_numbers_and_corpora_are_taken_as_the_model_takes_them(fit: Fit) -> None:
    corpus = pu.data.Corpus([0, 1, 2], [0, 2, 3], VOCAB)
    assert decode(fit, corpus).structure.tolist() == [0, 1]
    assert decode(fit, [[0, 1], [2]]).structure.tolist() == [0, 1]


def test_a_fit_predicts_evaluates_and_comes_back_from_disk(fit: Fit, tmp_path) -> None:
    fit.save(tmp_path / "fit")
    again = pu.load(tmp_path / "fit")
    assert again.predict(gold()).tolist() == [0, 0, 1, 1]
    clusters, probabilities = again.predict(gold(), how="mbr", probabilities=True)
    assert clusters.tolist() == [0, 0, 1, 1]
    torch.testing.assert_close(probabilities, torch.tensor([[1.0, 0.0]] * 2 + [[0.0, 1.0]] * 2))
    assert again.evaluate(gold()) == fit.evaluate(gold())
    assert again.evaluate(gold())["accuracy"] == 1.0


def test_errors(fit: Fit) -> None:
    with pytest.raises(UnsupError, match="how must be 'viterbi' or 'mbr', actual 'best'"):
        decode(fit, gold(), "best")
    plain = Documents.count([0], [0, 1], VOCAB)
    with pytest.raises(UnsupError, match="the gold documents have no labels: read a labelled file"):
        scores(fit, plain, decode(fit, plain))
    fit.model = Tagger(2, 3)
    with pytest.raises(UnsupError, match="expected the fit of a clusterer, actual Tagger"):
        decode(fit, gold())


def test_clusters_are_named_after_the_labels_they_go_with() -> None:
    vocab, labels = pu.data.Vocab(["ball", "goal", "vote", "law"]), pu.data.Vocab(["sport", "politics"])
    text = pu.data.Documents.count(
        np.array([0, 1, 0, 1, 0, 2, 3, 3, 2, 3]),
        np.array([0, 3, 5, 8, 10]),
        vocab,
        labels=np.array([0, 0, 1, 1]),
        labelset=labels,
    )
    fit = pu.EM(pu.models.Clusterer(2, vocab)).run(text, iterations=30)
    named = fit.relabel(text)
    assert [named.labels[k] for k in fit.predict(text).tolist()] == ["sport", "sport", "politics", "politics"]
    assert pu.plot.top_words(named, n=2).get_title(loc="left") in ("sport", "politics")
