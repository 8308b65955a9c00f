"""Posterior regularisation against a brute-force projection, under EM, and where bounds cannot be kept."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.optim import Adam
from scipy.optimize import check_grad, minimize
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup.distributions.parts import Arcs, States
from pyro_unsup.handlers.regularise import Regularised
from pyro_unsup.models import DMV, Aligner, Tagger

from ..distributions.chain_case import enumerate_chain

SENTENCES = [[0, 1, 2], [2, 1], [0, 1, 0]]


def zero(parts: States) -> Tensor:
    """How many words are in state 0."""
    return parts.state == 0


def ends(parts: States) -> Tensor:
    """How many first and last words are in state 1, the last ones counting half."""
    return (parts.state == 1) * ((parts.position == 0) + 0.5 * (parts.position == parts.length - 1))


def values(sentence: list[int]) -> np.ndarray:  # (paths, 2)
    """Both features of every path, by plain loops."""
    found = []
    for path in itertools.product(range(2), repeat=len(sentence)):
        found.append([path.count(0), (path[0] == 1) + 0.5 * (path[-1] == 1)])
    return np.array(found, dtype=float)


def project(p: list[np.ndarray], f: list[np.ndarray], bound: np.ndarray) -> list[np.ndarray]:
    """The closest distributions, in KL(q | p), whose expectations add up to no more than the bound: over all q."""
    cuts = np.cumsum([len(x) for x in p])[:-1]
    flat, every = np.concatenate(p), np.concatenate(f)

    def distance(q: np.ndarray) -> float:
        return float(np.sum(np.where(q > 0, q * np.log(np.maximum(q, 1e-300) / flat), 0.0)))

    constraints = [{"type": "eq", "fun": lambda q, k=k: np.split(q, cuts)[k].sum() - 1} for k in range(len(p))]
    constraints.append({"type": "ineq", "fun": lambda q: bound - q @ every})
    found = minimize(
        distance,
        flat,
        jac=lambda q: np.log(np.maximum(q, 1e-300) / flat) + 1,
        bounds=[(1e-12, 1)] * len(flat),
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert found.success
    return np.split(found.x, cuts)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("bound", [[0.6, 10.0], [1.2, 0.6], [2.9, 2.9]])
def test_the_posterior_is_the_projection(bound: list[float], each: bool) -> None:
    tagger = Tagger(2, 3, stop=True)
    start = pu.EM(tagger).run(SENTENCES, iterations=0, seed=3)
    w = start.weights
    chain = pu.Chain(w["start"], w["transition"], w["emission"], torch.tensor([1]), flat=True)
    items = [enumerate_chain(chain, sentence) for sentence in SENTENCES]
    p, f = [np.array(item.probabilities()) for item in items], [values(sentence) for sentence in SENTENCES]
    limit = np.array(bound)
    alone = [project([one], [g], limit)[0] for one, g in zip(p, f, strict=True)] if each else []
    q = alone or project(p, f, limit * len(p))
    model = pu.regularise(tagger, [zero, ends], bound, each)
    em = pu.EM(model, init=pu.init.from_weights(start))
    state = em.init(SENTENCES)
    info, expected = em.e_step(state)
    # The objective is the log-likelihood less the distance.
    distance = sum(float(np.sum(one * np.log(one / other))) for one, other in zip(q, p, strict=True))
    assert info.objective == pytest.approx(start.objective - distance, abs=1e-7)
    for name, counts in expected.counts.items():
        expected = sum(
            share * used[name]
            for one, item in zip(q, items, strict=True)
            for share, used in zip(one, item.counts, strict=True)
        )
        torch.testing.assert_close(counts, expected, rtol=1e-4, atol=1e-5)
    per = torch.tensor(np.array([one @ g for one, g in zip(q, f, strict=True)]))
    torch.testing.assert_close(model.expectations["words"], per if each else per.mean(0), rtol=1e-4, atol=1e-5)
    assert bool((model.expectations["words"] <= limit.max() + 1e-6).all())
    slack = model.expectations["words"] < torch.tensor(bound) - 1e-6
    assert bool((model.multipliers["words"][slack] == 0).all())  # complementary slackness
    if bound[0] > 2:
        assert not bool(model.multipliers["words"].any())
        assert info.objective == pytest.approx(start.objective, rel=1e-12)


@pytest.mark.parametrize("each", [False, True])
def test_the_slope_is_that_of_the_dual(each: bool) -> None:
    table = torch.randn(2, 2, generator=torch.Generator().manual_seed(0))
    chain = pu.Chain(table[0], table, torch.randn(2, 3), torch.tensor([3, 2, 3]), flat=True)
    words = torch.tensor([0, 1, 2, 2, 1, 0, 1, 0])
    parts = chain.parts(words)
    features = torch.stack([one(parts).double().expand(parts.shape) for one in (zero, ends)])
    bound = torch.tensor([0.6, 0.9])
    found = Regularised(chain, features, bound, parts.example, 3, each, lambda *_: None)
    x = np.linspace(0.1, 0.8, 6 if each else 2)
    assert check_grad(lambda x: found._dual(words, x)[0], lambda x: found._dual(words, x)[1], x) < 1e-6


def test_em_never_lowers_the_objective_and_keeps_the_bound() -> None:
    corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(40, seed=1), max_length=8, drop=["PUNCT"])

    def short(parts: Arcs) -> Tensor:
        return -(parts.distance == 1).double()

    plain = pu.EM(DMV.of(corpus), pu.AddLambda(0.1)).run(corpus, iterations=0)
    site = poutine.trace(plain.trained).get_trace(corpus).nodes["tags"]
    parts = site["fn"].parts(site["value"])
    least = float(plain.posterior(corpus).marginals[parts.distance == 1].sum()) / len(corpus) + 0.3
    model = pu.regularise(DMV.of(corpus), short, bound=-least)  # so many short arcs a sentence, at least
    fit = pu.EM(model, pu.AddLambda(0.1)).run(corpus, iterations=6, tolerance=0.0)
    assert fit.history["objective"].iloc[0] < plain.objective
    assert (fit.history["objective"].diff().dropna() >= -1e-7).all()
    assert float(model.expectations["tags"]) <= -least + 1e-6
    marginals = fit.posterior(corpus).marginals
    assert float(marginals[parts.distance == 1].sum()) >= (least - 1e-6) * len(corpus)


def test_every_source_word_is_linked_about_once() -> None:
    """The use that the method was made for: words of which too many are linked to."""
    bitext = ([[0, 1], [0, 2, 1], [0, 1]], [[0, 1, 2], [0, 2, 1], [2, 1, 0]])

    def first(parts: Any) -> Tensor:
        return (parts.source == 1) & (parts.target > 0)

    aligner = Aligner.of(bitext, None, source=3, target=3)
    model = pu.regularise(aligner, first, bound=0.5)
    pu.EM(model, pu.AddLambda(0.1)).run(bitext, iterations=2)
    assert all(float(x) <= 0.5 + 1e-6 for x in model.expectations.values())
    assert model.expectations.keys() == {"forward", "backward"}


@pytest.mark.parametrize("kind", ["tags", "links"])
def test_many_examples_are_searched_as_if_each_were_alone(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # So few steps together leave most examples to the searches in groups and alone.
    monkeypatch.setattr(sys.modules[Regularised.__module__], "BRIEFLY", 2)
    generator = np.random.default_rng(2)
    sizes = generator.integers(1, 7, 40)
    if kind == "tags":
        data: Any = [generator.integers(0, 3, n).tolist() for n in sizes]
        alone: list[Any] = [[one] for one in data]
        model: Any = pu.regularise(Tagger(2, 3), [zero, ends], [1.2, 0.6], each=True)
        site = "words"
    else:
        data = tuple([generator.integers(0, 4, n).tolist() for n in sizes] for _ in range(2))
        alone = [([one], [other]) for one, other in zip(*data, strict=True)]
        aligner = Aligner.of(data, None, source=4, target=4)
        model = pu.regularise(aligner, [c.links_into(k) for k in (1, 2)], [0.2, 0.3], each=True)
        site = "backward"
    fit = pu.EM(model, init=pu.init.noise(2.0)).run(data, iterations=0, progress=False)
    together, total = model.expectations[site], fit.objective
    assert bool((together <= torch.tensor([1.2, 0.6] if kind == "tags" else [0.2, 0.3]) + 1e-5).all())
    each = [pu.EM(model, init=pu.init.from_weights(fit)).run(one, iterations=0, progress=False) for one in alone]
    assert total == pytest.approx(sum(one.objective for one in each), abs=1e-6)
    for number in (0, 39):
        pu.EM(model, init=pu.init.from_weights(fit)).run(alone[number], iterations=0, progress=False)
        torch.testing.assert_close(model.expectations[site][0], together[number], rtol=0, atol=5e-6)


def test_stock_svi_and_mini_batches() -> None:
    model = pu.regularise(Tagger(2, 3), zero, bound=0.5)
    guide = AutoDelta(poutine.block(model, expose=["start", "transition", "emission"]))
    svi = SVI(model, guide, Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(SENTENCES) for _ in range(8)]
    assert losses[-1] < losses[0]
    fit = pu.StepwiseEM(model, pu.AddLambda(0.1), batch_size=2).run(SENTENCES, iterations=2)
    fit.posterior(SENTENCES)
    assert float(model.expectations["words"]) <= 0.5 + 1e-6


def test_bounds_that_cannot_be_kept() -> None:
    with pytest.raises(
        pu.UnsupError,
        match=r"the feature zero is bounded by -1, but cannot be brought below .* on average: .* Loosen the bound",
    ):
        pu.EM(pu.regularise(Tagger(2, 3), zero, bound=-1)).run(SENTENCES)
    with pytest.raises(pu.UnsupError, match="in example 0"):
        pu.EM(pu.regularise(Tagger(2, 3), zero, bound=-1, each=True)).run(SENTENCES)
    none = pu.regularise(Tagger(2, 3), zero, bound=0)  # as if it were forbidden
    fit = pu.EM(none, pu.AddLambda(0.1)).run(SENTENCES, iterations=2)
    assert float(fit.posterior(SENTENCES).marginals[:, 0].sum()) < 1e-6


def test_bad_settings() -> None:
    with pytest.raises(pu.StructureError, match="expected a finite bound for each of 1 features, actual \\[1, 2\\]"):
        pu.regularise(Tagger(2, 3), zero, [1, 2])
    with pytest.raises(pu.StructureError, match="features are functions of the parts of the data"):
        pu.regularise(Tagger(2, 3), ["zero"], 1)  # type: ignore[list-item]

    def bad(parts: States) -> Tensor:
        return (parts.state == 0).double().log()

    with pytest.raises(pu.UnsupError, match="the feature bad should be a finite number for every part"):
        pu.EM(pu.regularise(Tagger(2, 3), bad, 1)).run(SENTENCES)
    with pytest.raises(pu.StructureError, match=r"regularise\(zero <= 1\) found no structured distribution"):
        pu.regularise(lambda: pyro.sample("x", pyro.distributions.Normal(0.0, 1.0)), zero, 1)()


def test_a_round_trip(tmp_path: Path) -> None:
    model = pu.regularise(DMV(3), [c.short_dependencies(1), c.right_attach()], [2.5, 2.0])
    fit = pu.EM(model, pu.AddLambda(0.1)).run(SENTENCES, iterations=2)
    fit.save(tmp_path / "fit")
    back = pu.load(tmp_path / "fit")
    assert repr(back.model) == repr(fit.model)
    assert repr(back.model).startswith("regularise(short_dependencies(limit=1) <= 2.5, right_attach() <= 2) of DMV")
    assert back.log_likelihood(SENTENCES) == fit.log_likelihood(SENTENCES)
    own = pu.EM(pu.regularise(Tagger(2, 3), zero, 1.0), pu.AddLambda(0.1)).run(SENTENCES, iterations=1)
    own.save(tmp_path / "own")
    with pytest.raises(pu.InputError, match="under a component of your own"):
        pu.load(tmp_path / "own")


def test_no_word_is_expected_to_be_chosen_twice(tmp_path: Path) -> None:
    """Bijectivity of both directions, pair by pair, against a projection over all links."""
    bitext = ([[0, 1], [1, 0, 1]], [[0, 0, 1], [1, 0]])
    model = Aligner.of(bitext, agreement=None, source=2, target=2)
    generator, start = torch.Generator().manual_seed(3), {}
    for name, d in model.declarations().items():
        start[name] = d.layout.normalise(torch.randn(d.layout.shape, generator=generator, dtype=torch.float64))
    places = [c.links_into(k) for k in (1, 2, 3)]
    tight = pu.regularise(model, places, [0.8] * 3, each=True)
    fit = pu.EM(tight, init=pu.init.from_weights(start)).run(bitext, iterations=0, progress=False)
    table = {way: start[f"translation_{way}"].exp().numpy() for way in ("forward", "backward")}
    wanted = 0.0
    for way in table:
        sides = bitext if way == "forward" else bitext[::-1]
        for e, f in zip(*sides, strict=True):
            # All words meet, so that the table has a row of two words for each, then one for the null word.
            row = [4, *(2 * w for w in e)]
            all_links = [*itertools.product(range(len(e) + 1), repeat=len(f))]
            each = [[table[way][row[i] + w] / (len(e) + 1) for i, w in zip(a, f, strict=True)] for a in all_links]
            p = np.prod(each, 1)
            counts = np.array([[a.count(k) for k in (1, 2, 3)] for a in all_links], float)
            (q,) = project([p / p.sum()], [counts], np.full(3, 0.8))
            kl = np.sum(np.where(q > 0, q * np.log(np.maximum(q, 1e-300) / (p / p.sum())), 0.0))
            wanted += np.log(p.sum()) - kl
    assert fit.objective == pytest.approx(wanted, abs=1e-5)
    for way in table:
        assert tight.expectations[way].shape == (2, 3)
        assert float(tight.expectations[way].max()) == pytest.approx(0.8, abs=1e-4)
    learned = pu.EM(tight, init=pu.init.from_weights(start)).run(bitext, iterations=6, tolerance=0, progress=False)
    path = [row["objective"] for row in learned.rows]
    assert all(b >= a - 1e-6 for a, b in itertools.pairwise(path))
    learned.save(tmp_path / "m")
    assert pu.load(tmp_path / "m").objective == learned.objective
