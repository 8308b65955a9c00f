"""Aligning text: against posteriors word by word, with words never met, in chunks; and the scores."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import UnsupError
from pyro_unsup.data import Bitext, Corpus, Links, Vocab, toy
from pyro_unsup.evaluate import competitive, link_rows, symmetrise
from pyro_unsup.models import Aligner
from pyro_unsup.tasks import find
from pyro_unsup.tasks.decoding import aligner as aligning
from pyro_unsup.tasks.decoding.aligner import decode
from pyro_unsup.tasks.sampled_links import chosen_by_both

scores = find("aligner").scores

TEXT = toy.bitext(150, seed=3)
AGREEMENTS = [None, "product", "2008"]


def trained(agreement: str | None = "product", text: Bitext = TEXT, steps: int = 5, **config: Any) -> Any:
    em = pu.EM(Aligner.of(text, agreement=agreement), init=pu.init.uniform())
    state = em.init(text)
    for _ in range(steps):
        state, _ = em.step(state)
    return SimpleNamespace(model=em.model, weights=state.weights, config=config, preferences=())


def pairs_of(*texts: tuple[str, str]) -> Bitext:
    sides = []
    for side in (0, 1):
        words = [t[side].split() for t in texts]
        vocab = Vocab(dict.fromkeys(w for one in words for w in one))
        flat = vocab.encode(w for one in words for w in one)
        sides.append(Corpus(flat, np.cumsum([0, *map(len, words)]), vocab))
    return Bitext(*sides)


def by_loops(fit: Any, b: int) -> tuple[np.ndarray, np.ndarray]:
    """Posterior probabilities (I, J) of a pair in both directions, from the tables by words."""
    model = fit.model
    rows = torch.repeat_interleave(model.lexicon.sizes).tolist()
    cells = [*zip(rows, model.lexicon.met.tolist(), strict=True)]
    forward = dict(
        zip(
            [*cells, *((None, f) for f in range(model.target_words))],
            fit.weights["translation_forward"].exp().tolist(),
            strict=True,
        )
    )
    turned = sorted(cells, key=lambda pair: pair[::-1])
    backward = dict(
        zip(
            [*turned, *((e, None) for e in range(model.source_words))],
            fit.weights["translation_backward"].exp().tolist(),
            strict=True,
        )
    )
    e, f = (getattr(TEXT, side).select([b]).words.tolist() for side in ("source", "target"))
    both = model.agreement == "2008"
    p = np.array([[forward[x, y] * (backward[x, y] if both else 1) for y in f] for x in e])
    q = np.array([[backward[x, y] * (forward[x, y] if both else 1) for y in f] for x in e])
    p /= p.sum(0) + np.array([forward[None, y] for y in f])
    q /= (q.sum(1) + np.array([backward[x, None] for x in e]))[:, None]
    return p, q


@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_links_are_those_of_the_posteriors(agreement: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    fit = trained(agreement)
    found = decode(fit, TEXT)
    at = 0
    for b in range(20):
        p, q = by_loops(fit, b)
        cells = slice(at, at + p.size)
        np.testing.assert_allclose(found.forward[cells].reshape(p.shape), p, atol=1e-6)
        np.testing.assert_allclose(found.backward[cells].reshape(p.shape), q, atol=1e-6)
        at += p.size
    lengths = TEXT.source_lengths, TEXT.target_lengths
    sides = {how: decode(fit, TEXT, how).links for how in ("forward", "backward")}
    choices = [np.zeros(int((lengths[0] * lengths[1]).sum()), bool) for _ in range(2)]
    starts = np.concatenate([[0], np.cumsum(lengths[0] * lengths[1])])
    for flat, links in zip(choices, sides.values(), strict=True):
        b, i, j = links.rows.T
        flat[starts[b] + i * lengths[1][b] + j] = True
    assert len(np.unique(sides["forward"].rows[:, [0, 2]], axis=0)) == len(sides["forward"].rows)  # one link a word
    for how in ("intersection", "union", "grow-diag-final-and"):
        rows = link_rows(symmetrise(*choices, *lengths, how), *lengths)  # type: ignore[arg-type]
        assert decode(fit, TEXT, how).links == Links(len(TEXT), rows)
    assert decode(fit, TEXT, "viterbi").links == decode(fit, TEXT, "intersection").links == found.links
    assert decode(fit, TEXT, "mbr").links == decode(fit, TEXT, "threshold").links
    sharp = decode(fit, TEXT, "threshold", 0.9, "min").links
    assert set(map(tuple, sharp.rows.tolist())) <= set(map(tuple, found.links.rows.tolist()))
    best = decode(fit, TEXT, "competitive", 0.3).links
    chosen = competitive(found.forward, found.backward, *lengths, 0.3)
    assert best == Links(len(TEXT), link_rows(chosen, *lengths))
    assert found.structure.tolist() == found.links.rows.tolist()
    monkeypatch.setattr(aligning, "CHUNK", 500)
    small = decode(fit, TEXT)
    assert small.links == found.links
    torch.testing.assert_close(small.log_likelihood, found.log_likelihood)
    torch.testing.assert_close(small.forward, found.forward)


@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_scores(agreement: str | None) -> None:
    fit = trained(agreement)
    report = scores(fit, TEXT, decode(fit, TEXT))
    assert list(report) == ["aer", "precision", "recall", "loglik_per_token"]
    assert report["aer"] < 0.35
    alone = pu.EM(Aligner.of(TEXT, agreement=None), init=pu.init.from_weights(fit.weights)).session()
    tokens = TEXT.source.tokens + TEXT.target.tokens
    assert report["loglik_per_token"] == pytest.approx(-alone.evaluate_loss(TEXT) / tokens)
    with pytest.raises(UnsupError, match="the gold bitext has no links: read them with it"):
        scores(fit, Bitext(TEXT.source, TEXT.target), decode(fit, TEXT))


def partly_annotated(pairs: list[int]) -> tuple[Bitext, Bitext]:
    """The text with links of some pairs only, and those pairs alone."""
    links = TEXT.links
    assert links is not None
    annotated = np.isin(np.arange(len(TEXT)), pairs)
    inside = annotated[links.rows[:, 0]]
    some = Links(len(TEXT), links.rows[inside], links.sure[inside], annotated)
    return Bitext(TEXT.source, TEXT.target, some), TEXT.select(pairs)


def test_only_annotated_pairs_are_scored() -> None:
    """Scores, baselines and reports are those of these pairs alone."""
    task, fit = find("aligner"), pu.EM(Aligner.of(TEXT), init=pu.init.uniform()).run(TEXT, iterations=5)
    text, alone = partly_annotated([3, 20, 21, 77])
    found, wanted = decode(fit, text), decode(fit, alone)
    assert task.scores(fit, text, found) == pytest.approx(task.scores(fit, alone, wanted))
    assert task.scores(fit, text, found) != task.scores(fit, TEXT, found)
    assert fit.evaluate(text) == pytest.approx(fit.evaluate(alone))
    assert pu.consensus(fit, text).evaluate(text) == pytest.approx(pu.consensus(fit, alone).evaluate(alone))
    assert task.baselines(text) == task.baselines(alone)
    assert task.sizes(fit, text, found) == {**task.sizes(fit, alone, wanted), "pairs_read": 150}
    assert task.sizes(fit, alone, wanted)["pairs_read"] == task.sizes(fit, alone, wanted)["pairs"] == 4
    assert task.part_scored(text) == "scored: 4 pairs with gold, of 150"
    assert task.part_scored(alone) == ""
    assert task.report(fit, gold=text) == task.report(fit, gold=alone)
    none = Bitext(TEXT.source, TEXT.target, Links(150, [], annotated=np.zeros(150, bool)))  # type: ignore[arg-type]
    for score in (lambda: task.scores(fit, none, found), lambda: task.baselines(none)):
        with pytest.raises(UnsupError, match="the gold names none of the 150 pairs"):
            score()


def test_only_annotated_pairs_of_samples_are_scored() -> None:
    samples = pu.CollapsedGibbs(Aligner.of(TEXT, agreement=None), beta=0.01).run(TEXT, sweeps=10, progress=False)
    text, alone = partly_annotated([3, 20, 21, 77])
    found, _ = chosen_by_both(TEXT, samples.predict("last"))
    wanted = pu.evaluate.alignment_report(alone.links, found.select([3, 20, 21, 77]))  # type: ignore[arg-type]
    assert {name: one["mean"] for name, one in samples.evaluate(text).items()} == pytest.approx(wanted)
    assert samples.evaluate(TEXT)["aer"]["mean"] != pytest.approx(wanted["aer"])


def test_unknown_words_are_those_of_annotated_pairs() -> None:
    fit = trained()
    other = pairs_of(("x y", "z"), ("b", "z z"))
    text = Bitext(other.source, other.target, Links(2, [[1, 0, 0]], annotated=[False, True]))  # type: ignore[arg-type]
    found = find("aligner").sizes(fit, text, decode(fit, text))
    assert found == {"pairs": 1, "pairs_read": 2, "tokens": 3, "unknown_tokens": 3}


@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_words_never_met(agreement: str | None) -> None:
    """An unknown word goes with an unknown one; alone it is left out; known words keep their links."""
    train = pairs_of(("the house", "das haus"), ("the book", "das buch"), ("a book", "ein buch"), ("house", "haus"))
    fit = trained(agreement, train, steps=20)
    text = pairs_of(("the Tardis", "das Tardis"), ("the house", "das Wort haus"), ("a house", "haus ein"), ("x", "das"))
    found = decode(fit, text)
    assert found.unseen == (2, 2)
    rows = [[0, 0, 0], [0, 1, 1], [1, 0, 0], [1, 1, 2], [2, 0, 1], [2, 1, 0]]
    assert [row for row in found.links.rows.tolist() if row[0] < 3] == rows
    assert bool(torch.isfinite(found.forward).all())
    possible = found.log_likelihood.isfinite().tolist()
    assert possible == [False, False, True, False]
    assert scores(fit, Bitext(text.source, text.target, rows), found)["loglik_per_token"] == -math.inf  # type: ignore[arg-type]


def test_vocabularies_of_its_own_and_lower_case() -> None:
    train = pairs_of(("the house", "das haus"), ("the book", "das buch"), ("house", "haus"))
    fit = trained(text=train, steps=10, lowercase=True)
    text = pairs_of(("House THE", "HAUS Das"))
    assert decode(fit, text).links.rows.tolist() == [[0, 0, 0], [0, 1, 1]]
    fit.config = {}
    assert decode(fit, text).unseen == (2, 2)


def test_a_fit_remembers_what_it_saw_of_words() -> None:
    train = pairs_of(("the hous", "das haus"), ("the book", "das buch"), ("hous", "haus"))
    fit = trained(text=train, steps=10, lowercase=True, strip_accents=True, numbers=True, prefix=4)
    found = decode(fit, pairs_of(("Houses THÉ", "Häusern Das")))
    assert found.unseen == (0, 0)
    assert found.links.rows.tolist() == [[0, 0, 0], [0, 1, 1]]


def test_a_vocabulary_with_an_unknown_symbol_uses_it() -> None:
    text = pairs_of(("the house", "das haus"), ("the book", "das haus"))
    rare = Bitext(text.source.merge_rare(2), text.target.merge_rare(2))
    fit = trained(text=rare, steps=10)
    found = decode(fit, pairs_of(("the xyz", "das haus")))
    assert found.unseen == (0, 0)
    assert bool(found.log_likelihood.isfinite().all())


def test_words_may_be_numbers() -> None:
    train = pairs_of(("the house", "das haus"), ("the book", "das buch"), ("house", "haus"))
    model = Aligner.of(train, source=3, target=3)
    em = pu.EM(model, init=pu.init.uniform()).session()
    em.step(train)
    fit: Any = SimpleNamespace(model=model, weights=em.weights, config={}, preferences=())
    assert decode(fit, train).unseen == (0, 0)


def test_tempered_models_decode_as_plain_ones() -> None:
    fit = trained()
    before = decode(fit, TEXT)
    fit.model = pu.temper(fit.model, 0.5)
    assert decode(fit, TEXT).links == before.links


def test_errors() -> None:
    with pytest.raises(
        UnsupError, match=r"how must be one of intersection, union, .*, threshold, competitive, actual 'best'"
    ):
        decode(trained(steps=0), TEXT, "best")
    with pytest.raises(UnsupError, match="expected the fit of an aligner, actual"):
        decode(SimpleNamespace(model=pu.models.Tagger(2, 2), weights={}, config={}), TEXT)  # type: ignore[arg-type]
