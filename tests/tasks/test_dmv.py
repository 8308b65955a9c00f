"""Dependency trees of text that training never met, against all trees of each sentence."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.data import Corpus, Vocab
from pyro_unsup.errors import InputError, UnsupError
from pyro_unsup.evaluate import head_scores
from pyro_unsup.models import DMV
from pyro_unsup.tasks import find
from pyro_unsup.tasks.decoding import FLOOR
from pyro_unsup.tasks.decoding.dmv import decode

from ..distributions.dependency_case import all_trees, uses
from .test_ccm import NEW, TRAIN, corpus

scores = find("dmv").scores

HOW = pytest.mark.parametrize("how", ["viterbi", "mbr"])


def trained(**options: object) -> pu.Fit:
    train = corpus(TRAIN, ["D", "N", "V", "P"])
    model = DMV(options.pop("tags", train.vocab))  # type: ignore[arg-type]
    engine = pu.EM(model, init=model.harmonic_start(train), **options)  # type: ignore[arg-type]
    return engine.run(train, iterations=30, tolerance=0, progress=False)


def floored(fit: pu.Fit) -> dict[str, np.ndarray]:
    """Tables with no zeros, and one tag more: a mean of all as a head, never met as a child."""
    found = {name: w.double().numpy() for name, w in fit.weights.items()}
    root, attach, stop = (np.exp(found[name]) for name in ("root", "attach", "stop"))
    attach = np.concatenate([attach, attach.mean(0, keepdims=True)])
    tables = {
        "root": np.append(root, 0),
        "attach": np.pad(attach, ((0, 0), (0, 0), (0, 1))),
        "stop": np.concatenate([stop, stop.mean(0, keepdims=True)]),
    }
    with np.errstate(divide="ignore"):
        return {name: np.maximum(np.log(w), FLOOR) for name, w in tables.items()}


@HOW
def test_every_sentence_gets_a_tree_and_possible_ones_keep_theirs(how: str) -> None:
    fit, text = trained(), corpus(NEW)
    found = decode(fit, text, how)
    assert found.unseen == 5
    possible = found.log_likelihood > -math.inf
    assert possible[0]
    assert not possible[[1, 3, 4]].any()  # those with new tags
    mask = np.repeat(possible.numpy(), text.lengths)
    some = text.select(possible.numpy()).with_vocab(fit.model.vocab)
    posterior = fit.posterior(some)
    assert torch.equal(found.structure[mask], posterior.mode() if how == "viterbi" else posterior.mbr())
    assert float(found.log_likelihood[possible].sum()) == pytest.approx(fit.log_likelihood(some))
    cells = np.repeat(possible.numpy(), text.lengths * (text.lengths + 1))
    torch.testing.assert_close(found.posterior.marginals[cells], posterior.marginals, atol=1e-9, rtol=0)
    for heads, n in zip(found.structure.split(text.lengths.tolist()), text.lengths.tolist(), strict=True):
        assert tuple(heads.tolist()) in all_trees(n)


def test_trees_are_the_best_of_all() -> None:
    fit, text = trained(), corpus([line for line in NEW if len(line.split()) < 6])
    tables = floored(fit)
    best, expected = (decode(fit, text, how) for how in ("viterbi", "mbr"))
    for b in range(len(text)):
        here = slice(*text.offsets[b : b + 2])
        tags = [fit.model.vocab.index.get(one, 4) for one in text.sentence(b)]
        trees = all_trees(len(tags))
        weights = np.array([
            sum(tables[name][cell] for name, cell in uses(tree, tags) if name in tables) for tree in trees
        ])  # fmt: skip
        mode = tuple(best.structure[here].tolist())
        assert weights[trees.index(mode)] == pytest.approx(weights.max(), abs=1e-6)
        shares = np.exp(weights - weights.max())
        shares /= shares.sum()
        right = [sum(np.equal(tree, other).sum() * p for other, p in zip(trees, shares, strict=True)) for tree in trees]
        mbr = tuple(expected.structure[here].tolist())
        assert right[trees.index(mbr)] == pytest.approx(max(right), abs=1e-6)


def test_an_unknown_symbol_of_the_vocabulary_stands_for_what_is_new() -> None:
    train = corpus([*TRAIN, "<unk> V"], ["D", "N", "V", "P", "<unk>"])
    train = Corpus(train.words, train.offsets, Vocab(train.vocab, unknown="<unk>"))
    model = DMV.of(train)
    fit = pu.EM(model, pu.AddLambda(0.1), model.harmonic_start(train)).run(train, iterations=3, progress=False)
    new, same = decode(fit, corpus(["Q V", "D Q"])), decode(fit, corpus(["<unk> V", "D <unk>"]))
    assert (new.unseen, same.unseen) == (2, 0)
    assert torch.isfinite(new.log_likelihood).all()
    assert torch.equal(new.log_likelihood, same.log_likelihood)
    assert torch.equal(new.structure, same.structure)


def test_tags_numbers_lower_case_and_sentences() -> None:
    fit, text = trained(), corpus(NEW)
    expected = decode(fit, text)
    words = Vocab([f"w{k}" for k in range(7)])
    tagged = Corpus(np.arange(text.tokens) % 7, text.offsets, words, tags=text.words, tagset=text.vocab)
    numbered = trained(tags=4)
    by_number = text.with_vocab(Vocab(["D", "N", "V", "P", "Q", "R"]))
    small = trained()
    small.config["lowercase"] = True
    small.model = DMV(Vocab(["d", "n", "v", "p"]))
    for found in (decode(fit, tagged), decode(numbered, by_number), decode(small, text)):
        assert torch.equal(found.structure, expected.structure)
        assert torch.equal(found.log_likelihood, expected.log_likelihood)
        assert found.unseen == 5
    known = corpus(TRAIN, ["D", "N", "V", "P"])
    lists = fit.model.index([known.words[a:b].tolist() for a, b in itertools.pairwise(known.offsets)]).select([3, 1])
    assert torch.equal(decode(fit, lists).structure, fit.predict(known.select([3, 1])))


def test_predict_and_evaluate_go_through_it(tmp_path: Path) -> None:
    fit, text = trained(), corpus(NEW)
    assert torch.equal(fit.predict(text), decode(fit, text, "mbr").structure)
    tree, probabilities = fit.predict(text, how="viterbi", probabilities=True)
    assert torch.equal(tree, decode(fit, text, "viterbi").structure)
    assert probabilities.shape == ((text.lengths * (text.lengths + 1)).sum(),)
    fit.save(tmp_path / "fit")
    assert torch.equal(pu.load(tmp_path / "fit").predict(text), fit.predict(text))


def test_scores() -> None:
    whole = pu.data.toy.sentences(120, seed=2)
    train = pu.data.short_tag_sequences(whole, max_length=10, drop=["PUNCT"])
    model = DMV.of(train)
    fit = pu.EM(model, pu.AddLambda(0.1), model.harmonic_start(train)).run(train, iterations=8, progress=False)
    gold = whole.drop_tags("PUNCT").filter(max_length=10)  # words and tags, by other vocabularies
    found = fit.evaluate(gold)
    assert list(found) == ["directed", "undirected", "ned", "sentences", "words", "loglik_per_token"]
    decoded = decode(fit, train)
    wanted = head_scores(train.heads, decoded.structure, train.lengths)  # type: ignore[arg-type]
    assert {name: found[name] for name in wanted} == wanted
    assert found["ned"] > found["undirected"] > found["directed"] > 0.1
    assert found["loglik_per_token"] == pytest.approx(fit.log_likelihood(train) / train.tokens)
    assert scores(fit, train, decoded) == found
    assert fit.evaluate(gold, how="viterbi")["directed"] > 0.1


def test_errors_say_what_was_expected() -> None:
    fit, text = trained(), corpus(NEW)
    with pytest.raises(UnsupError, match="how must be 'viterbi' or 'mbr', actual 'best'"):
        decode(fit, text, "best")
    with pytest.raises(InputError, match="this corpus has no heads; read it from a dependency treebank"):
        fit.evaluate(text)
    gold = Corpus(text.words[:4], [0, 4], text.vocab, heads=[0, 1, 1, 1])
    with pytest.raises(UnsupError, match="the gold sentences are not as long as those that were parsed"):
        scores(fit, gold, decode(fit, text))
    tagger = pu.EM(pu.models.Tagger(2, text.vocab)).run(text, iterations=1, progress=False)
    with pytest.raises(UnsupError, match="expected the fit of a dependency model with valence, actual Tagger"):
        decode(tagger, text)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_precisions(dtype: torch.dtype) -> None:
    text = corpus(NEW)
    found = decode(trained(dtype=dtype), text)
    assert (found.structure >= 0).all()
    assert found.log_likelihood.dtype == torch.float64


def test_plain_em_on_the_wall_street_journal(real_data: Path) -> None:
    corpus = pu.data.short_tag_sequences(pu.data.read_conllu(real_data / "wsj_nltk_dep.conll.xz"))
    model = DMV.of(corpus)
    fit = pu.EM(model, init=model.harmonic_start(corpus)).run(corpus, iterations=20, tolerance=0, progress=False)
    found = fit.evaluate(corpus)
    assert found["directed"] == pytest.approx(0.475, abs=0.02)
    assert found["undirected"] == pytest.approx(0.64, abs=0.02)
