"""Headed trees of text that training never met, against all trees of each sentence."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Corpus, Vocab, bracket_rows
from pyro_unsup.errors import InputError, UnsupError
from pyro_unsup.evaluate import bracket_scores, head_scores
from pyro_unsup.models import DMVCCM
from pyro_unsup.tasks import find
from pyro_unsup.tasks.decoding import FLOOR
from pyro_unsup.tasks.decoding.dmv_ccm import decode

from ..distributions.bracketing_case import all_spans
from ..distributions.dependency_case import all_trees, uses
from ..distributions.headed_bracketing_case import spans_in
from ..models.test_ccm import columns
from ..models.test_inventory import spans
from .test_ccm import NEW, TRAIN, corpus
from .test_dmv import floored

scores = find("dmv-ccm").scores


def trained(vocab: object = None, **options: object) -> pu.Fit:
    train = corpus(TRAIN, ["D", "N", "V", "P"])
    order = str(options.pop("order", "right"))
    model = DMVCCM.of(train, vocab=vocab, order=order)  # type: ignore[arg-type]
    engine = pu.EM(model, init=model.start(train), **options)  # type: ignore[arg-type]
    return engine.run(train, iterations=4, tolerance=0, progress=False)


@pytest.mark.parametrize("how", ["viterbi", "mbr"])
def test_every_sentence_gets_a_tree_and_possible_ones_keep_theirs(how: str) -> None:
    fit, text = trained(), corpus(NEW)
    found = decode(fit, text, how)
    assert found.unseen == 5
    possible = found.log_likelihood > -math.inf
    assert possible.tolist() == [True, False, True, False, False, False]
    some = text.select(possible.numpy()).with_vocab(fit.model.vocab)
    posterior = fit.posterior(some)
    mask = np.repeat(possible.numpy(), text.lengths)
    assert torch.equal(found.structure[mask], posterior.mode() if how == "viterbi" else posterior.mbr())
    assert float(found.log_likelihood[possible].sum()) == pytest.approx(fit.log_likelihood(some))
    cells = np.repeat(possible.numpy(), text.lengths * (text.lengths + 1))
    torch.testing.assert_close(found.posterior.marginals[cells], posterior.marginals, atol=1e-9, rtol=0)
    for heads, n in zip(found.structure.split(text.lengths.tolist()), text.lengths.tolist(), strict=True):
        assert tuple(heads.tolist()) in all_trees(n)


@pytest.mark.parametrize("order", ["right", "left"])
def test_trees_are_the_best_of_all(order: str) -> None:
    fit, text = trained(order=order), corpus([line for line in NEW if len(line.split()) < 6])
    tables, found = floored(fit), decode(fit, text, "viterbi")
    yields, contexts = columns(fit.model.ccm)
    y, x = (fit.weights[name].clamp(min=FLOOR) for name in ("yield", "context"))
    for b in range(len(text)):
        tags = [fit.model.vocab.index.get(one, 4) for one in text.sentence(b)]
        cells = [
            (yields.get(a, yields["unknown"]), contexts.get(c, len(contexts)))
            for a, c in spans([t if t < 4 else 9 for t in tags], 4)  # 9 is in no yield or context
        ]
        weights = {}
        for heads in all_trees(len(tags)):
            inside = spans_in(heads, order)
            weights[heads] = sum(tables[name][cell] for name, cell in uses(heads, tags) if name in tables) + sum(
                float(y[int(span in inside), a] + x[int(span in inside), c])
                for span, (a, c) in zip(all_spans(len(tags)), cells, strict=True)
            )
        mode = tuple(found.structure[slice(*text.offsets[b : b + 2])].tolist())
        assert weights[mode] == pytest.approx(max(weights.values()), abs=1e-5)
        assert {(i, j) for c, i, j in found.brackets.tolist() if c == b} == spans_in(mode, order)


def test_tags_numbers_and_indexed_sentences() -> None:
    fit, text = trained(), corpus(NEW)
    expected = decode(fit, text)
    words = Vocab([f"w{k}" for k in range(7)])
    tagged = Corpus(np.arange(text.tokens) % 7, text.offsets, words, tags=text.words, tagset=text.vocab)
    by_number = text.with_vocab(Vocab(["D", "N", "V", "P", "Q", "R"]))
    for found in (decode(fit, tagged), decode(trained(vocab=4), by_number)):
        assert torch.equal(found.structure, expected.structure)
        assert torch.equal(found.log_likelihood, expected.log_likelihood)
        assert found.unseen == 5
    known = corpus(TRAIN, ["D", "N", "V", "P"])
    indexed = fit.model.index(known).select([3, 1])
    assert torch.equal(decode(fit, indexed).structure, fit.predict(known.select([3, 1])))


@pytest.mark.parametrize("order", ["right", "left"])
def test_scores_of_what_the_gold_text_has(tmp_path: Path, order: str) -> None:
    whole = pu.data.toy.sentences(60, seed=2)
    gold = pu.data.short_tag_sequences(whole, max_length=10, drop=["PUNCT"])
    model = DMVCCM.of(gold, order=order)
    fit = pu.EM(model, pu.AddLambda(0.1), model.start(gold)).run(gold, iterations=3, progress=False)
    decoded = decode(fit, gold)
    found = fit.evaluate(gold)
    heads = head_scores(gold.heads, decoded.structure, gold.lengths)  # type: ignore[arg-type]
    brackets = bracket_scores(bracket_rows(gold), decoded.brackets, gold.lengths)
    assert {name: found[name] for name in heads} == heads
    assert {name: found[name] for name in brackets} == brackets
    assert found["f1_klein_manning_2004"] > found["f1"]
    assert found["loglik_per_token"] == pytest.approx(fit.log_likelihood(gold) / gold.tokens)
    only = fit.evaluate(replace(gold, spans=None, span_offsets=None))
    assert only == {**heads, "loglik_per_token": found["loglik_per_token"]}
    assert "directed" not in fit.evaluate(replace(gold, heads=None))
    fit.save(tmp_path / "fit")
    assert pu.load(tmp_path / "fit").evaluate(gold) == found
    with pytest.raises(InputError, match="this corpus has neither heads nor brackets; read it from a treebank"):
        fit.evaluate(replace(gold, heads=None, spans=None, span_offsets=None))
    with pytest.raises(UnsupError, match="the gold sentences are not as long as those that were parsed"):
        scores(fit, gold.select([1, 0]), decoded)


def test_errors_say_what_was_expected() -> None:
    fit, text = trained(), corpus(NEW)
    with pytest.raises(UnsupError, match="how must be 'viterbi' or 'mbr', actual 'best'"):
        decode(fit, text, "best")
    tagger = pu.EM(pu.models.Tagger(2, text.vocab)).run(text, iterations=1, progress=False)
    with pytest.raises(UnsupError, match="expected the fit of a product of DMV and CCM, actual Tagger"):
        decode(tagger, text)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_precisions(dtype: torch.dtype) -> None:
    found = decode(trained(dtype=dtype), corpus(NEW))
    assert (found.structure >= 0).all()
    assert found.log_likelihood.dtype == torch.float64
