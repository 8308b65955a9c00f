"""Segmenting new text: possible sentences as ever, unknown segments where they must be, and scores."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Corpus, Segmented, Vocab
from pyro_unsup.errors import UnsupError
from pyro_unsup.models import Segmenter, Tagger
from pyro_unsup.results import Fit, Report
from pyro_unsup.tasks import find
from pyro_unsup.tasks.decoding.segmenter import decode

scores = find("segmenter").scores

REPORT = Report("converged", 1, -1.0, 0.0, 0.0, 0.0, 0)
LEXICON = {"the": 0.3, "dog": 0.3, "a": 0.2, "cat": 0.2}


def text(*lines: str) -> Segmented:
    """Lines with gold spaces, by a vocabulary of their own."""
    letters = [c for line in lines for c in line if c != " "]
    vocab = Vocab(dict.fromkeys(letters))
    plain = [len(line.replace(" ", "")) for line in lines]
    ends = [i == len(word) - 1 for line in lines for word in line.split() for i in range(len(word))]
    return Segmented(Corpus(vocab.encode(letters), np.cumsum([0, *plain]), vocab), np.array(ends))


@pytest.fixture
def fit() -> Fit:
    model = Segmenter.listed(list(LEXICON), Vocab(sorted(set("thedogacat"))), max_length=5, penalty=1.0)
    theta = [LEXICON[one] for one in model.types.strings(model.vocab.types)]
    weights = {"segments": torch.tensor([*theta, 0.0]).log(), "stop": torch.tensor([0.5, 0.5]).log()}
    return Fit(model, weights, REPORT, [], 0)


@pytest.mark.parametrize("how", ["viterbi", "mbr"])
def test_possible_text(fit: Fit, how: str) -> None:
    gold = text("the dog", "a cat")
    decoded = decode(fit, gold, how)
    assert gold.lines(decoded.structure) == ["the dog", "a cat"]
    assert decoded.unseen == 0
    each = [0.5**3 * 0.3 * 0.3 * math.exp(-6), 0.5**3 * 0.2 * 0.2 * math.exp(-4)]
    torch.testing.assert_close(decoded.log_likelihood, torch.tensor(each).log())
    assert torch.equal(fit.predict(gold, how=how), decoded.structure)
    assert torch.equal(fit.predict(gold.symbols, how=how), decoded.structure)
    structure, marginals = fit.predict(gold, probabilities=True)
    assert marginals.shape == (len(structure), 5)
    assert gold.lines((marginals.sum(-1) > 0.5).long()) == ["the dog", "a cat"]


def test_data_that_the_model_has_indexed(fit: Fit) -> None:
    gold = text("the dog").with_vocab(fit.model.vocab)
    decoded = decode(fit, fit.model.index(gold))
    assert gold.lines(decoded.structure) == ["the dog"]
    assert torch.equal(decode(fit, gold).structure, decoded.structure)


@pytest.mark.parametrize("how", ["viterbi", "mbr"])
def test_unknown_segments_are_few_and_known_ones_stay(fit: Fit, how: str) -> None:
    gold = ["the dog", "the god", "a xyz", "q", "the xyz dog", "xaty"]
    new = text(*gold)
    decoded = decode(fit, new, how)
    assert new.lines(decoded.structure) == gold
    assert decoded.unseen == 9
    assert (decoded.log_likelihood > -torch.inf).tolist() == [True, *[False] * 5]
    assert fit.evaluate(new)["token_f1"] == 1
    assert fit.evaluate(new)["loglik_per_token"] == -math.inf


def test_what_is_longer_than_any_segment_is_cut(fit: Fit) -> None:
    new = text("xxxxxxxxxxxx")
    found = decode(fit, new).structure
    assert found[-1] == 1
    assert int(found.sum()) == 3  # of at most five symbols


def test_a_fit_that_smooths_finds_nothing_impossible() -> None:
    train = text("the dog", "a dog", "the cat", "a cat")
    model = Segmenter.of(train)
    fit = pu.EM(model, pu.AddLambda(0.01), init=pu.init.uniform()).run(train, iterations=5, progress=False)
    decoded = decode(fit, text("the xdog"))
    assert bool(torch.isfinite(decoded.log_likelihood).all())
    assert decoded.unseen == 1


def test_lower_case_as_in_training(fit: Fit) -> None:
    fit.config["lowercase"] = True
    new = text("The DOG")
    assert decode(fit, new).unseen == 0
    assert new.lines(decode(fit, new).structure) == ["The DOG"]


def test_symbols_that_are_but_numbers() -> None:
    model = Segmenter.of([[0, 1, 0, 1]], vocab=2, max_length=2)
    fit = pu.EM(model, init=pu.init.uniform()).run([[0, 1, 0, 1]], iterations=3, progress=False)
    corpus = Corpus([0, 1, 2], [0, 3], Vocab(["x", "y", "z"]))
    decoded = decode(fit, corpus)
    assert decoded.unseen == 1
    assert decoded.structure[-1] == 1


def test_scores(fit: Fit) -> None:
    gold = text("the dog", "a c at")
    decoded = decode(fit, gold)
    found = scores(fit, gold, decoded)
    assert found["token_recall"] == pytest.approx(3 / 5)
    assert found["boundary_precision"] == 1
    assert found["lexicon_f1"] == pytest.approx(6 / 9)
    assert found["loglik_per_token"] == pytest.approx(float(decoded.log_likelihood.sum()) / 10)
    assert fit.evaluate(gold) == found
    assert fit.evaluate(gold, how="mbr").keys() == found.keys()


def test_toy_language_is_learned_in_part() -> None:
    gold = pu.data.toy.utterances(300, seed=1)
    model = Segmenter.of(gold)
    fit = pu.EM(model, init=pu.init.uniform()).run(gold, iterations=10, tolerance=0.0, progress=False)
    assert fit.evaluate(gold)["boundary_f1"] > 0.75
    new = pu.data.toy.utterances(50, seed=2)
    assert fit.evaluate(new)["boundary_f1"] > 0.65


def test_errors(fit: Fit) -> None:
    gold = text("the dog")
    with pytest.raises(UnsupError, match="how must be 'viterbi' or 'mbr', actual 'best'"):
        decode(fit, gold, "best")
    with pytest.raises(UnsupError, match="the gold text does not say where its words end: read lines with gold spaces"):
        fit.evaluate(Segmented(gold.symbols))
    with pytest.raises(UnsupError, match="the gold text does not say where its words end"):
        fit.evaluate(gold.symbols)
    with pytest.raises(UnsupError, match="the gold text has 4 symbols, 6 were segmented: score the same text"):
        scores(fit, text("a cat"), decode(fit, gold))
    other = Fit(Tagger(2, 3), {}, REPORT, [], 0)
    with pytest.raises(UnsupError, match="expected the fit of a segmenter, actual Tagger"):
        decode(other, gold)
