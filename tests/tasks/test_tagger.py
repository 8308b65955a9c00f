"""Tagging new text: possible sentences as ever, new words by their neighbours, impossible ones as well as can be."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Corpus, Vocab
from pyro_unsup.models import Tagger
from pyro_unsup.results import Fit, Report
from pyro_unsup.tasks.decoding.tagger import decode, with_unknown

from ..results.cases import anonymous, text, with_dictionary

WORDS = ("a", "b", "c")
REPORT = Report("converged", 1, -1.0, 0.0, 0.0, 0.0, 0)


def made(vocab: Vocab, tags: int | Vocab = 2, dictionary: torch.Tensor | None = None, **tables: list[object]) -> Fit:
    """A fit with these probabilities."""
    weights = {name: torch.tensor(rows, dtype=torch.float64).log() for name, rows in tables.items()}
    return Fit(Tagger(tags, vocab, dictionary=dictionary), weights, REPORT, [], 0)


def sentence(*words: str) -> Corpus:
    vocab = Vocab(dict.fromkeys(words))
    return Corpus(vocab.encode(words), [0, len(words)], vocab)


@pytest.fixture
def fit() -> Fit:
    """State 0 says a or b, state 1 says c; they alternate, starting with 0 most of the time."""
    return made(
        Vocab(WORDS), start=[0.9, 0.1], transition=[[0.0, 1.0], [1.0, 0.0]], emission=[[0.5, 0.5, 0], [0, 0, 1]]
    )


@pytest.mark.parametrize("how", ["viterbi", "mbr", "word"])
def test_possible_text_is_tagged_as_ever(how: str) -> None:
    for one in (anonymous(), with_dictionary()):
        decoded = decode(one, text(), how)
        assert torch.equal(decoded.structure, one.predict(text(), how=how))
        assert torch.equal(decoded.log_likelihood, one.posterior(text()).log_partition.double())
        assert decoded.unseen == 0


def test_all_tokens_of_a_word_have_the_state_that_most_of_them_are_expected_to_have() -> None:
    for one in (anonymous(), with_dictionary()):
        found, marginals = decode(one, text(), "word").structure, one.posterior(text()).marginals
        for word in set(text().words.tolist()):
            of = torch.from_numpy(text().words == word)
            assert set(found[of].tolist()) == {int(marginals[of].sum(0).argmax())}
        assert one.evaluate(text(), how="word")["many_to_one"] == pytest.approx(
            pu.evaluate.many_to_one(text().tags, found.numpy())
        )


def test_new_words_have_one_state_each(fit: Fit) -> None:
    fit.config["lowercase"] = True  # "New" and "new" are one word
    found = fit.predict(sentence("new", "c", "New", "c", "other", "c"), how="word").tolist()
    assert found[0] == found[2]
    assert found[1::2] == [1, 1, 1]


def test_words_are_looked_up_in_the_vocabulary_of_the_fit(fit: Fit) -> None:
    decoded = decode(fit, sentence("c", "b", "c"))
    assert decoded.structure.tolist() == [1, 0, 1]
    assert float(decoded.log_likelihood) == pytest.approx(np.log(0.1 * 1 * 1 * 0.5 * 1 * 1))
    fit.config["lowercase"] = True
    assert decode(fit, sentence("C", "B", "c")).structure.tolist() == [1, 0, 1]
    assert decode(fit, sentence("C", "B", "c")).unseen == 0


@pytest.mark.parametrize("how", ["viterbi", "mbr"])
def test_the_neighbours_of_a_new_word_decide(fit: Fit, how: str) -> None:
    for words, states in (
        (("a", "new", "b"), [0, 1, 0]),
        (("new", "c"), [0, 1]),
        (("c", "new"), [1, 0]),
        (("new", "other"), [0, 1]),  # the start decides
    ):
        decoded = decode(fit, sentence(*words), how)
        assert decoded.structure.tolist() == states
        assert decoded.unseen == sum(word not in WORDS for word in words)
        assert decoded.log_likelihood.tolist() == [-np.inf]
        assert torch.allclose(decoded.posterior.marginals.sum(1), torch.ones(len(words), dtype=torch.float64))
    p = decode(fit, sentence("new", "other")).posterior.marginals[:, 0]
    torch.testing.assert_close(p, torch.tensor([0.9, 0.1], dtype=torch.float64))


def test_an_impossible_sentence_breaks_as_few_rules_as_it_can(fit: Fit) -> None:
    words = ("a", "b", "a", "c", "c", "a")
    decoded = decode(fit, sentence(*words))
    assert decoded.log_likelihood.tolist() == [-np.inf]

    def broken(states: tuple[int, ...]) -> int:
        start, transition, emission = (fit.weights[name] for name in ("start", "transition", "emission"))
        used = [start[states[0]], *(transition[a, b] for a, b in pairwise(states))]
        used += [emission[z, WORDS.index(word)] for z, word in zip(states, words, strict=True)]
        return sum(bool(w == -torch.inf) for w in used)

    assert broken(tuple(decoded.structure.tolist())) == min(map(broken, product(range(2), repeat=len(words))))


def test_one_impossible_sentence_does_not_change_another() -> None:
    fit = anonymous()
    before = decode(fit, text())
    vocab = Vocab([*text().vocab, "new"])
    both = Corpus(np.append(text().words, vocab.index["new"]), np.append(text().offsets, text().tokens + 1), vocab)
    assert torch.equal(decode(made_strict(fit), both).structure[:-1], before.structure)


def made_strict(fit: Fit) -> Fit:
    """The same fit as if it had no unknown symbol."""
    model = fit.model
    assert isinstance(model, Tagger)
    plain = Vocab(model.vocab)  # type: ignore[arg-type]
    return Fit(Tagger(model.tags, plain), fit.weights, fit.report, fit.rows, fit.seed)


def test_a_dictionary_still_binds_known_words_and_leaves_new_ones_open() -> None:
    mask = torch.tensor([[True, True, False], [False, False, True]])
    fit = made(Vocab(WORDS), Vocab(["N", "V"]), mask, start=[1.0, 0.0], transition=[[0.0, 1.0], [0.0, 1.0]],
               emission=[[0.5, 0.5, 0], [0, 0, 1]])  # fmt: skip
    decoded = decode(fit, sentence("a", "a", "new", "c"))
    assert decoded.structure.tolist() == [0, 0, 1, 1]
    assert decoded.ambiguous is not None
    assert decoded.ambiguous.tolist() == [False, False, True, False]


def test_an_unknown_symbol_that_training_never_saw() -> None:
    fit = made(Vocab([*WORDS[:2], "<unk>"], unknown="<unk>"), start=[0.5, 0.5], transition=[[0.1, 0.9], [0.9, 0.1]],
               emission=[[1, 0, 0], [0, 1, 0]])  # fmt: skip
    decoded = decode(fit, sentence("a", "new", "a"))
    assert decoded.structure.tolist() == [0, 1, 0]
    assert decoded.unseen == 1


def test_with_unknown_adds_a_word_of_probability_zero(fit: Fit) -> None:
    wider = with_unknown(fit)
    assert isinstance(wider.model, Tagger)
    assert wider.model.vocab == Vocab([*WORDS, "<unk>"], unknown="<unk>")
    assert torch.equal(wider.weights["emission"][:, :3], fit.weights["emission"])
    assert (wider.weights["emission"][:, 3] == -torch.inf).all()
    assert fit.weights["emission"].shape == (2, 3)
    assert with_unknown(wider) is wider
    marked = made(Vocab([*WORDS, "<unk>"]), start=[0.5, 0.5], transition=[[0.5, 0.5]] * 2, emission=[[0.25] * 4] * 2)
    assert with_unknown(marked).weights["emission"].shape == (2, 4)  # the text had the symbol already
    assert np.isfinite(float(decode(marked, sentence("a", "new")).log_likelihood))


def test_scores_on_new_words_are_finite_but_for_bits_per_word(fit: Fit) -> None:
    vocab, tagset = Vocab(["a", "new", "c"]), Vocab(["N", "V"])
    gold = Corpus(vocab.encode(["a", "new", "a", "c"]), [0, 2, 4], vocab, [0, 1, 0, 1], tagset)
    found = fit.evaluate(gold)
    assert found["many_to_one"] == 1
    assert found["bits_per_word"] == np.inf
    assert fit.relabel(gold).labels == ["N", "V"]


def test_words_known_by_number_are_taken_as_they_are() -> None:
    fit = pu.EM(Tagger(2, len(text().vocab))).run(text(), iterations=2, progress=False)
    assert torch.equal(decode(fit, text()).structure, fit.predict(text()))


def test_states_of_one_name_are_told_apart() -> None:
    from pyro_unsup.tasks.shown import distinct

    assert distinct(["NOUN", "VERB"]) == ["NOUN", "VERB"]
    assert distinct(["NOUN", "VERB", "NOUN"]) == ["NOUN·0", "VERB·1", "NOUN·2"]
