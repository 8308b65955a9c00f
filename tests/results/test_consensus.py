"""The structure that several runs agree on, against all trees; matched states; every model."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.models import CCM, DMV, HMM, PCFG, Aligner, Clusterer, HMMAligner, Segmenter, Tagger
from pyro_unsup.tasks.agreement import matched

from ..distributions.dependency_case import all_trees

TEXT = pu.data.toy.sentences(40, seed=1)
TAGS = pu.data.short_tag_sequences(TEXT, 5, ["PUNCT"])


def starts(model: Any, data: Any, runs: int = 3, **options: Any) -> list[Any]:
    return [pu.EM(model, init=pu.init.noise(2.0)).run(data, iterations=1, seed=seed, **options) for seed in range(runs)]


def test_trees_have_the_most_expected_arcs() -> None:
    fits = starts(DMV.of(TAGS), TAGS)
    found = pu.consensus(fits, TAGS)
    assert [fit.objective for fit in found.fits] == sorted((fit.objective for fit in fits), reverse=True)
    at = cell = 0
    for n in TAGS.lengths.tolist():
        mean = sum(fit.posterior(TAGS).marginals[cell : cell + n * (n + 1)] for fit in fits) / len(fits)
        table = mean.reshape(n, n + 1)
        assert torch.allclose(found.marginals[cell : cell + n * (n + 1)].reshape(n, n + 1), table, atol=1e-12)
        gains = [sum(float(table[c, head]) for c, head in enumerate(heads)) for heads in all_trees(n)]
        mine = sum(float(table[c, head]) for c, head in enumerate(found.structure[at : at + n].tolist()))
        assert mine == pytest.approx(max(gains), abs=1e-9)
        at, cell = at + n, cell + n * (n + 1)
    each = [fit.predict(TAGS, how="mbr") for fit in found.fits]
    same = np.array([[float((a == b).double().mean()) for b in each] for a in each])
    assert np.allclose(found.between, same)
    assert found.agreement == pytest.approx((same[0, 1] + same[0, 2] + same[1, 2]) / 3)
    assert found.central is found.fits[int(same.sum(1).argmax())]
    assert found.evaluate(TAGS)["directed"] == pytest.approx(
        float((found.structure.numpy() == TAGS.heads).mean())  # type: ignore[attr-defined]
    )


def test_states_are_matched_first() -> None:
    model = Tagger(3, TEXT.vocab)
    (fit,) = starts(model, TEXT, 1)
    order = torch.tensor([2, 0, 1])
    turned = {
        "start": fit.weights["start"][order],
        "transition": fit.weights["transition"][order][
            :, [*order.tolist(), *range(3, fit.weights["transition"].shape[1])]
        ],
        "emission": fit.weights["emission"][order],
    }
    other = replace(fit, weights={**fit.weights, **turned})
    found = pu.consensus([fit, other], TEXT)
    assert found.agreement == 1
    assert torch.equal(found.structure, fit.predict(TEXT, how="mbr"))
    assert matched(torch.eye(3)[[0, 1, 2]], torch.eye(3)[:, order]).tolist() == order.argsort().tolist()
    # A dictionary names states: they stay what they are.
    allowed = torch.ones(2, len(TEXT.vocab), dtype=torch.bool)
    allowed[0, 0] = False
    named = Tagger(pu.data.Vocab(["a", "b"]), TEXT.vocab, dictionary=allowed)
    assert not named.interchangeable
    assert model.interchangeable


def test_all_tokens_of_a_word_have_one_state() -> None:
    found = pu.consensus(starts(Tagger(3, TEXT.vocab), TEXT), TEXT, how="word")
    for word in set(TEXT.words.tolist()):
        of = torch.from_numpy(TEXT.words == word)
        assert set(found.structure[of].tolist()) == {int(found.marginals[of].sum(0).argmax())}
    assert found.evaluate(TEXT)["many_to_one"] == pytest.approx(
        pu.evaluate.many_to_one(TEXT.tags, found.structure.numpy())
    )
    assert torch.equal(found.marginals, pu.consensus(found.fits, TEXT).marginals)


@pytest.mark.parametrize("kind", ["CCM", "Clusterer", "Segmenter", "Aligner", "HMMAligner", "HMM"])
def test_every_model(kind: str) -> None:
    letters = pu.data.Corpus([0, 1, 2, 3, 4, 5] * 4, [0, 6, 12, 18, 24], pu.data.Vocab(list("thedog")))
    bitext, documents = pu.data.toy.bitext(10, seed=1), pu.data.toy.documents(20, seed=1).corpus
    model, data = {
        "CCM": lambda: (CCM.of(TAGS), TAGS),
        "Clusterer": lambda: (Clusterer(2, documents.vocab), documents),
        "Segmenter": lambda: (Segmenter.of(letters), letters),
        "Aligner": lambda: (Aligner.of(bitext), bitext),
        "HMMAligner": lambda: (HMMAligner.of(bitext), bitext),
        "HMM": lambda: (HMM(2, "normal"), torch.randn(50, generator=torch.Generator().manual_seed(0)).double()),
    }[kind]()
    (fit,) = starts(model, data, 1)
    alone = pu.consensus([fit], data, how="mbr")
    assert np.isnan(alone.agreement)
    assert repr(alone) == "Consensus of one run alone"
    assert torch.equal(torch.as_tensor(alone.structure), torch.as_tensor(fit.decode(data, how="mbr").structure))
    several = pu.consensus(starts(model, data), data)
    assert 0 <= several.agreement <= 1
    assert "Consensus of 3 runs" in repr(several)


def test_restarts_keep_all_runs() -> None:
    engine = pu.EM(DMV.of(TAGS), init=pu.init.noise(1.0))
    fit = engine.run(TAGS, iterations=3, restarts=3, processes=1)
    assert [one.objective for one in fit.runs] == fit.report.restarts
    assert fit.objective == max(fit.report.restarts)
    found = pu.consensus(fit, TAGS)
    assert torch.equal(found.structure, pu.consensus(list(fit.runs), TAGS).structure)
    alone = engine.run(TAGS, iterations=3)
    assert pu.consensus(alone, TAGS).fits == (alone,)
    assert torch.equal(fit.consensus(TAGS).structure, found.structure)
    with pytest.raises(pu.UnsupError, match="this fit has no other runs to agree with: train with restarts"):
        alone.consensus(TAGS)


def test_other_numbers_of_states_are_refused() -> None:
    fits = [*starts(Tagger(3, TEXT.vocab), TEXT, 1), *starts(Tagger(5, TEXT.vocab), TEXT, 1)]
    with pytest.raises(
        pu.UnsupError, match=r"the posterior of one is of shape \(\d+, [35]\), of another \(\d+, [35]\)"
    ):
        pu.consensus(fits, TEXT)


def test_refused() -> None:
    with pytest.raises(pu.UnsupError, match=r"consensus takes fits of one model, or one with restarts, actual \[\]"):
        pu.consensus([], TAGS)
    with pytest.raises(pu.UnsupError, match="consensus takes fits of one model, or one with restarts, actual 3"):
        pu.consensus(3, TAGS)  # type: ignore[arg-type]
    dmv, tagger = starts(DMV.of(TAGS), TAGS, 1)[0], starts(Tagger(2, TEXT.vocab), TEXT, 1)[0]
    with pytest.raises(pu.UnsupError, match="tagger has no option hwo of decoding; there are how"):
        pu.consensus([tagger], TEXT, hwo="word")
    with pytest.raises(pu.UnsupError, match="dmv has no option hwo of decoding; there are how"):
        dmv.decode(TAGS, hwo="mbr")
    series = torch.randn(20, generator=torch.Generator().manual_seed(0)).double()
    with pytest.raises(pu.UnsupError, match="hmm has no option hwo of decoding; there are how"):
        starts(HMM(2, "normal"), series, 1)[0].decode(series, hwo="mbr")
    fits = [*starts(DMV.of(TAGS), TAGS, 1), *starts(CCM.of(TAGS), TAGS, 1)]
    with pytest.raises(pu.UnsupError, match="consensus takes fits of one model, actual those of CCM and DMV"):
        pu.consensus(fits, TAGS)


def test_two_valences_against_all_trees() -> None:
    """Models of one class whose structures have the same parts: the mean of their posteriors decides."""
    fits = [starts(DMV.of(TAGS, valence=valence), TAGS, 1)[0] for valence in (1, 2)]
    for order in (fits, fits[::-1]):
        found = pu.consensus(order, TAGS)
        at = cell = 0
        for n in TAGS.lengths.tolist():
            here = slice(cell, cell + n * (n + 1))
            mean = sum(fit.posterior(TAGS).marginals[here] for fit in fits) / 2
            assert torch.allclose(found.marginals[here], mean, atol=1e-12)
            table = mean.reshape(n, n + 1)
            gains = [sum(float(table[c, head]) for c, head in enumerate(heads)) for heads in all_trees(n)]
            mine = sum(float(table[c, head]) for c, head in enumerate(found.structure[at : at + n].tolist()))
            assert mine == pytest.approx(max(gains), abs=1e-10)
            at, cell = at + n, cell + n * (n + 1)


@pytest.mark.parametrize("kind", ["order", "rules", "preferences"])
def test_models_of_one_class_with_the_same_parts(kind: str) -> None:
    ruled = pu.prefer(DMV.of(TAGS), pu.components.distance(most=1))
    models, data = {
        "order": ((Tagger(3, TEXT.vocab, 1), Tagger(3, TEXT.vocab, 2)), TEXT),
        "rules": ((PCFG(2, 3, TAGS.vocab), PCFG(2, 3, TAGS.vocab, prior=0.5)), TAGS),
        "preferences": ((ruled, DMV.of(TAGS, valence=2)), TAGS),
    }[kind]
    fits = [starts(model, data, 1)[0] for model in models]
    found = pu.consensus(fits, data)
    assert len(found.structure) == len(fits[0].decode(data).structure)
    assert 0 <= found.agreement <= 1
    found.evaluate(data)


def test_longest_segments_that_differ_are_refused() -> None:
    letters = pu.data.Corpus([0, 1, 2, 3, 4, 5] * 4, [0, 6, 12, 18, 24], pu.data.Vocab(list("thedog")))
    fits = [pu.EM(Segmenter.of(letters, max_length=most)).run(letters, iterations=1) for most in (3, 4)]
    with pytest.raises(pu.UnsupError, match=r"of shape \(24, [34]\), of another \(24, [34]\)\. Such fits differ in"):
        pu.consensus(fits, letters)


def reordered(corpus: pu.data.Corpus) -> pu.data.Corpus:
    """The same sentences with their symbols numbered the other way round."""
    return corpus.with_vocab(pu.data.Vocab(list(corpus.vocab)[::-1]))


@pytest.mark.parametrize("kind", ["DMV", "CCM", "DMVCCM", "Segmenter", "Aligner"])
def test_structures_of_places_need_no_order_of_symbols(kind: str) -> None:
    """Each fit reads the data with its own vocabulary: two with other numbers are the same as two with the same."""
    letters = pu.data.Corpus([0, 1, 2, 3, 4, 5] * 4, [0, 6, 12, 18, 24], pu.data.Vocab(list("thedog")))
    bitext = pu.data.toy.bitext(10, seed=1)
    turned: Any = pu.data.Bitext(reordered(bitext.source), reordered(bitext.target))
    data: Any = {"Segmenter": letters, "Aligner": bitext}.get(kind, TAGS)
    other: Any = turned if kind == "Aligner" else reordered(data)
    make = getattr(pu.models, kind).of
    engines = [pu.EM(make(one), pu.AddLambda(0.1), pu.init.uniform()) for one in (data, other)]
    fits = [engine.run(one, iterations=3) for engine, one in zip(engines, (data, other), strict=True)]
    found = pu.consensus(fits, data)
    assert found.agreement == 1
    alone = pu.consensus(fits[:1], data)
    torch.testing.assert_close(found.marginals, alone.marginals, rtol=0, atol=1e-6)
    assert torch.equal(found.structure, alone.structure)


def test_numbers_mean_nothing_across_vocabularies() -> None:
    fits = [starts(DMV.of(one), one, 1)[0] for one in (TAGS, reordered(TAGS))]
    with pytest.raises(pu.UnsupError, match="number their symbols by different vocabularies"):
        pu.consensus(fits, [[0, 1], [1]])
    found = pu.consensus(fits, [["DET", "NOUN"], ["VERB"]])
    assert len(found.structure) == 3
    other = starts(DMV(pu.data.Vocab(["XX", "YY"])), [[0, 1], [1]], 1)
    with pytest.raises(pu.UnsupError, match="1 of 3 fits know none of the symbols of these data"):
        pu.consensus([*fits, *other], TAGS)


def test_lists_as_predict_takes_them() -> None:
    sentences, vocab = [[0, 1, 2], [2, 1]], pu.data.Vocab(["a", "b", "c"])
    corpus = pu.data.Corpus([0, 1, 2, 2, 1], [0, 3, 5], vocab)
    words = [["a", "b", "c"], "c b"]
    models: list[Any] = [DMV(vocab), DMV(3), CCM.of(corpus), Tagger(2, vocab), Tagger(2, 3), PCFG(2, 2, vocab)]
    models += [Segmenter.of(corpus), Clusterer(2, vocab), pu.models.DMVCCM.of(corpus)]
    for model in models:
        fit = pu.EM(model, pu.AddLambda(0.1), pu.init.noise(1.0)).run(corpus, iterations=2, restarts=2, processes=1)
        expected = fit.decode(corpus)
        same = [sentences] if model.vocab == 3 else [sentences, [tuple(one) for one in sentences], words]
        for given in same:
            assert torch.equal(fit.decode(given).structure, expected.structure), model
            assert torch.equal(fit.consensus(given).structure, fit.consensus(corpus).structure), model
            assert len(fit.to_frame(given)) == len(fit.to_frame(corpus))
    pairs = [("the house", "das Haus"), ("a book", "ein Buch")]
    bitext = pu.data.Bitext.of(pairs)
    fit = pu.EM(Aligner.of(bitext)).run(bitext, iterations=2, restarts=2, processes=1)
    numbers = tuple(
        [side.words[a:b].tolist() for a, b in itertools.pairwise(side.offsets)]
        for side in (bitext.source, bitext.target)
    )
    for given in (pairs, numbers, tuple(zip(*pairs, strict=True))):
        assert torch.equal(fit.decode(given).structure, fit.decode(bitext).structure)
        assert torch.equal(fit.consensus(given).structure, fit.consensus(bitext).structure)
    with pytest.raises(pu.InputError, match="this corpus has no heads"):
        pu.EM(DMV(3)).run(sentences, iterations=1).evaluate(sentences)
    with pytest.raises(pu.StructureError, match=r"symbol numbers must lie in 0 \.\. 2, actual range 0 \.\. 7"):
        pu.EM(DMV(3)).run(sentences, iterations=1).decode([[0, 7]])


def test_many_names_are_told_as_a_whole() -> None:
    names = [f"tag{k}" for k in range(40)]
    allowed = torch.ones(40, len(TEXT.vocab), dtype=torch.bool)
    allowed[0, 0] = False
    fits = []
    for each in (names, [*names[:30], "other", *names[31:]]):
        model = Tagger(pu.data.Vocab(each), TEXT.vocab, dictionary=allowed)
        fits += starts(model, TEXT, 1)
    with pytest.raises(pu.UnsupError) as found:
        pu.consensus(fits, TEXT)
    assert str(found.value).endswith(
        "'tag9' and 30 more, another 'tag0', 'tag1', 'tag2', 'tag3', 'tag4', 'tag5', 'tag6', 'tag7', 'tag8', 'tag9' "
        "and 30 more (state 30 is 'tag30' in one and 'other' in the other)"
    )


def test_named_states_are_not_mixed_up() -> None:
    names = ["a", "b"], ["b", "a"]
    allowed = torch.ones(2, len(TEXT.vocab), dtype=torch.bool)
    allowed[0, 0] = False
    one, other = (starts(Tagger(pu.data.Vocab(each), TEXT.vocab, dictionary=allowed), TEXT, 1)[0] for each in names)
    said = "same names in the same order: here one has 'a', 'b', another 'b', 'a'"
    with pytest.raises(pu.UnsupError, match=said):
        pu.consensus([one, other], TEXT)
    with pytest.raises(pu.UnsupError, match="here one has 'a', 'b', another no names"):
        pu.consensus([one, *starts(Tagger(2, TEXT.vocab), TEXT, 1)], TEXT)
    assert len(pu.consensus([one, one], TEXT).fits) == 2


def test_the_posterior_of_all_runs_is_their_mean() -> None:
    fits = starts(Tagger(3, TEXT.vocab), TEXT)
    found = pu.consensus(fits, TEXT)
    assert torch.equal(found.decoded.posterior.marginals, found.marginals)
    assert torch.equal(found.decoded.posterior.log_partition, found.fits[0].decode(TEXT).posterior.log_partition)
    series = torch.randn(30, generator=torch.Generator().manual_seed(0)).double()
    several = pu.consensus(starts(HMM(2, "normal"), series), series)
    assert torch.equal(several.decoded.posterior.smoothed, several.marginals.reshape(30, 2))
