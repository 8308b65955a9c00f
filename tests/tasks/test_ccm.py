"""Parsing text that training never met, against all trees of each sentence."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Corpus, Vocab, bracket_rows
from pyro_unsup.distributions.bracketing import check_trees
from pyro_unsup.errors import InputError, UnsupError
from pyro_unsup.evaluate import bracket_scores
from pyro_unsup.models import CCM
from pyro_unsup.tasks import find
from pyro_unsup.tasks.decoding import FLOOR
from pyro_unsup.tasks.decoding.ccm import decode

from ..distributions.bracketing_case import all_spans, all_trees
from ..models.test_ccm import columns
from ..models.test_inventory import spans

scores = find("ccm").scores

TRAIN = ["D N V", "V D N", "P", "D N P D N", "N V", "D D N V", "P V D N"]
NEW = ["D N V", "N N Q D", "P V D N", "Q", "Q Q R V N D", "V V P"]  # Q and R are new; others in new company
VARIANTS = pytest.mark.parametrize("variant", [1, 2])
EMPTY = pytest.mark.parametrize("empty", [False, True])


def corpus(lines: list[str], vocab: list[str] | None = None) -> Corpus:
    words = [word for line in lines for word in line.split()]
    known = Vocab(sorted(set(words), reverse=True) if vocab is None else vocab)
    return Corpus(known.encode(words), np.cumsum([0, *(len(line.split()) for line in lines)]), known)


def trained(variant: int = 1, empty: bool = False, estimate: pu.Normalise | None = None, **kwargs: object) -> pu.Fit:
    train = corpus(TRAIN, ["D", "N", "V", "P"])
    model = CCM.of(train, variant=variant, empty_spans=empty, **kwargs)
    start = model.split_start(train)
    return pu.EM(model, estimate or pu.Normalise(), start).run(train, iterations=4, tolerance=0, progress=False)


def best_tree(fit: pu.Fit, words: list[int]) -> tuple[float, dict[tuple[int, int], float]]:
    """The highest score of a tree whose zeros are FLOOR: what each constituent adds, as empty spans are everywhere."""
    yields, contexts = columns(fit.model)
    y, x = (fit.weights[name].reshape(2, -1).clamp(min=FLOOR) for name in ("yield", "context"))
    cells = [
        (yields.get(a, yields.get(len(a), yields["unknown"])), contexts.get(c, len(contexts)))
        for a, c in spans(words, fit.model.symbols)
    ]
    odds = {
        span: float(y[1, a] + x[1, c] - y[0, a] - x[0, c])
        for span, (a, c) in zip(all_spans(len(words)), cells, strict=True)
        if 1 < span[1] - span[0] < len(words)
    }
    best = max(sum(odds.get(span, 0) for span in tree) for tree in all_trees(0, len(words)))
    return best, odds


@VARIANTS
@EMPTY
@pytest.mark.parametrize("how", ["viterbi", "mbr"])
def test_every_sentence_gets_a_tree_and_possible_ones_keep_theirs(variant: int, empty: bool, how: str) -> None:
    fit, text = trained(variant, empty), corpus(NEW)
    found = decode(fit, text, how)
    assert found.unseen == 5
    check_trees(found.structure, found.lengths)
    possible = found.log_likelihood > -math.inf
    assert possible.tolist() == [True, False, True, False, False, False]
    some = text.select(possible.numpy())
    alone = decode(fit, some, how)
    known = some.with_vocab(fit.model.vocab)
    assert float(alone.log_likelihood.sum()) == pytest.approx(fit.log_likelihood(known))
    assert torch.equal(alone.structure, fit.posterior(known).mode() if how == "viterbi" else fit.posterior(known).mbr())
    mask = np.repeat(possible.numpy(), text.lengths * (text.lengths + 1) // 2)
    assert torch.equal(found.structure[mask], alone.structure)
    assert torch.equal(found.posterior.marginals[mask], alone.posterior.marginals)
    assert torch.isfinite(found.posterior.marginals).all()


@VARIANTS
@EMPTY
def test_impossible_sentences_get_the_tree_that_breaks_fewest_rules(variant: int, empty: bool) -> None:
    fit, text = trained(variant, empty), corpus(NEW)
    found = decode(fit, text)
    for b in range(len(text)):
        words = [fit.model.vocab.index.get(one, 9) for one in text.sentence(b)]  # 9 is in no yield or context
        best, odds = best_tree(fit, words)
        tree = [(i, j) for c, i, j in found.brackets.tolist() if c == b]
        assert sum(odds.get(span, 0) for span in tree) == pytest.approx(best, abs=1e-6)


@VARIANTS
@EMPTY
def test_smoothing_has_weights_for_what_is_new(variant: int, empty: bool) -> None:
    fit = trained(variant, empty, pu.AddLambda(0.5))
    text = corpus(NEW)
    found = decode(fit, text)
    assert torch.isfinite(found.log_likelihood).all()
    known = text.select([0, 2, 5])
    assert float(found.log_likelihood[[0, 2, 5]].sum()) == pytest.approx(
        fit.log_likelihood(known.with_vocab(fit.model.vocab))
    )
    # A sentence of two new symbols is one of two symbols that were never met, whichever they are.
    pair, other = decode(fit, corpus(["Q R"])), decode(fit, corpus(["R R"]))
    assert torch.equal(pair.log_likelihood, other.log_likelihood)


def test_an_unknown_symbol_of_the_vocabulary_stands_for_what_is_new() -> None:
    train = corpus([*TRAIN, "<unk> V"], ["D", "N", "V", "P", "<unk>"])
    train = Corpus(train.words, train.offsets, Vocab(train.vocab, unknown="<unk>"))
    model = CCM.of(train)
    fit = pu.EM(model, pu.AddLambda(0.1), model.split_start(train)).run(train, iterations=3, progress=False)
    new, same = decode(fit, corpus(["Q V", "D Q"])), decode(fit, corpus(["<unk> V", "D <unk>"]))
    assert (new.unseen, same.unseen) == (2, 0)
    assert torch.equal(new.log_likelihood, same.log_likelihood)
    assert torch.equal(new.structure, same.structure)


def test_tags_are_looked_up_where_the_fit_knows_tags() -> None:
    fit = trained()
    tags = corpus(NEW)
    words = Vocab([f"w{k}" for k in range(7)])
    numbers = np.arange(tags.tokens) % 7
    tagged = Corpus(numbers, tags.offsets, words, tags=tags.words, tagset=tags.vocab)
    ours, theirs = decode(fit, tagged), decode(fit, tags)
    assert torch.equal(ours.structure, theirs.structure)
    assert torch.equal(ours.log_likelihood, theirs.log_likelihood)
    assert ours.unseen == theirs.unseen == 5
    # Words are what counts where they are known at least as well.
    both = Corpus(tags.words, tags.offsets, tags.vocab, tags=tags.words[::-1].copy(), tagset=tags.vocab)
    assert torch.equal(decode(fit, both).structure, theirs.structure)


def test_numbers_lower_case_and_indexed_text() -> None:
    text = corpus(NEW)
    fit = trained()
    numbered = trained(vocab=4)
    by_number = text.with_vocab(Vocab(["D", "N", "V", "P", "Q", "R"]))
    assert torch.equal(decode(numbered, by_number).structure, decode(fit, text).structure)
    assert decode(numbered, by_number).unseen == 5
    small = trained()
    small.config["lowercase"] = True
    small.model = CCM.of(corpus([line.lower() for line in TRAIN], ["d", "n", "v", "p"]))
    assert torch.equal(decode(small, text).structure, decode(numbered, by_number).structure)
    known = corpus(TRAIN, ["D", "N", "V", "P"])
    indexed = fit.model.index(known).select([3, 1])
    assert torch.equal(decode(fit, indexed).structure, fit.predict(known.select([3, 1])))
    assert torch.equal(fit.predict(indexed), fit.predict(known.select([3, 1])))


def test_predict_and_evaluate_go_through_it(tmp_path: Path) -> None:
    fit, text = trained(2), corpus(NEW)
    assert torch.equal(fit.predict(text), decode(fit, text).structure)
    tree, probabilities = fit.predict(text, how="mbr", probabilities=True)
    assert torch.equal(tree, decode(fit, text, "mbr").structure)
    assert probabilities.shape == tree.shape
    fit.save(tmp_path / "fit")
    assert torch.equal(pu.load(tmp_path / "fit").predict(text), fit.predict(text))


def test_scores() -> None:
    whole = pu.data.toy.sentences(120, seed=2)
    train = pu.data.short_tag_sequences(whole, max_length=12, drop=["PUNCT"])
    model = CCM.of(train)
    fit = pu.EM(model, pu.AddLambda(0.2), model.split_start(train)).run(train, iterations=8, progress=False)
    gold = whole.drop_tags("PUNCT").filter(max_length=12)  # words and tags, by other vocabularies
    found = fit.evaluate(gold)
    assert list(found) == [
        "recall", "precision", "f1", "crossing", "sentences", "f1_klein_manning_2004", "f1_klein_manning_2002",
        "bits_per_tag",
    ]  # fmt: skip
    decoded = decode(fit, train)
    wanted = bracket_scores(bracket_rows(train), decoded.brackets, train.lengths)
    assert {name: found[name] for name in wanted} == wanted
    assert found["f1_klein_manning_2004"] > found["f1"] > 0.3
    assert found["bits_per_tag"] == pytest.approx(-fit.log_likelihood(train) / train.tokens / math.log(2))
    assert scores(fit, train, decoded) == found
    assert fit.evaluate(gold, how="mbr")["f1"] > 0.3


def test_errors_say_what_was_expected() -> None:
    fit, text = trained(), corpus(NEW)
    with pytest.raises(UnsupError, match="how must be 'viterbi' or 'mbr', actual 'best'"):
        decode(fit, text, "best")
    with pytest.raises(InputError, match="this corpus has no brackets; read it from a treebank"):
        fit.evaluate(text)
    with pytest.raises(UnsupError, match="the gold sentences are not as long as those that were parsed"):
        scores(fit, text.select([0, 1]), decode(fit, text))
    tagger = pu.EM(pu.models.Tagger(2, text.vocab)).run(text, iterations=1, progress=False)
    with pytest.raises(UnsupError, match="expected the fit of a constituent-context model, actual Tagger"):
        decode(tagger, text)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_precisions(dtype: torch.dtype) -> None:
    train = corpus(TRAIN, ["D", "N", "V", "P"])
    model = CCM.of(train)
    fit = pu.EM(model, init=model.split_start(train), dtype=dtype).run(train, iterations=2, progress=False)
    found = decode(fit, corpus(NEW))
    check_trees(found.structure, found.lengths)
    assert found.log_likelihood.dtype == torch.float64
