"""The constituent-context model: against all trees spelled out in tuples, under EM, under stock Pyro, and on text."""

from __future__ import annotations

import itertools
import math
import pickle
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal
from pyro.optim import Adam

import pyro_unsup as pu
from pyro_unsup import StructureError
from pyro_unsup.data import Corpus, Vocab
from pyro_unsup.distributions import Posterior
from pyro_unsup.distributions.bracketing import constituents
from pyro_unsup.distributions.bracketing_priors import split_marginals, uniform_marginals
from pyro_unsup.models import CCM

from ..distributions.bracketing_case import all_spans, all_trees
from .test_inventory import spans, spelled

SENTENCES = [[0, 1, 2], [2, 0, 1], [3], [0, 1, 3, 0, 1], [1, 2], [0, 0, 1, 2]]
CORPUS = Corpus([w for s in SENTENCES for w in s], np.cumsum([0, *map(len, SENTENCES)]), Vocab(["D", "N", "V", "P"]))
VARIANTS = pytest.mark.parametrize("variant", [1, 2])
EMPTY = pytest.mark.parametrize("empty", [False, True])


def columns(model: CCM) -> tuple[dict, dict]:
    """The column of every yield and of every context, by what it is. Unknown yields go by their width."""
    yields, at = {}, 0
    for width, group in itertools.groupby(spelled(model.inventory), len):
        for one in group:
            yields[one], at = at, at + 1
        if model.variant == 2:
            yields[width], at = at, at + 1
    yields["unknown"] = at
    if model.variant == 1 and model.empty_spans:
        yields[()] = at + 1
    contexts = {tuple(pair): k for k, pair in enumerate(model.inventory.contexts.tolist())}
    return yields, contexts


def oracle(model: CCM, weights: dict, sentences: list, beta: float = 1.0) -> tuple[float, dict]:
    """Tempered log-likelihood and expected counts, tree by tree."""
    yields, contexts = columns(model)
    tables = {name: w.reshape(2, -1) for name, w in weights.items()}
    counts = {name: torch.zeros_like(w) for name, w in tables.items()}
    total = 0.0
    for sentence in sentences:
        n = len(sentence)
        cells = []
        for y, c in spans(sentence, model.symbols):
            unknown = yields.get(len(y), yields["unknown"])
            cells.append((yields.get(y, unknown), contexts.get(c, len(contexts))))
        edges = [model.symbols, *sentence, model.symbols]
        gaps = [contexts.get(pair, len(contexts)) for pair in itertools.pairwise(edges)] if model.empty_spans else []
        trees = all_trees(0, n)
        scores, uses = [], []
        for tree in trees:
            inside = [int(span in tree) for span in all_spans(n)]
            used = [
                use for i, (y, c) in zip(inside, cells, strict=True) for use in (("yield", i, y), ("context", i, c))
            ]
            used += [("context", 0, c) for c in gaps] + [("yield", 0, yields[()]) for _ in gaps if () in yields]
            uses.append(used)
            scores.append(sum(float(tables[use[0]][use[1:]]) for use in used) - math.log(len(trees)))
        powers = beta * torch.tensor(scores, dtype=torch.float64)
        total += float(powers.logsumexp(0)) / beta
        for p, used in zip(powers.softmax(0), uses, strict=True):
            for name, *cell in used:
                counts[name][tuple(cell)] += p
    return total, {name: c.reshape(weights[name].shape) for name, c in counts.items()}


@pytest.mark.parametrize("beta", [1e-6, 0.2, 1.0, 3.0])
@VARIANTS
@EMPTY
def test_the_e_step_is_that_of_all_trees(variant: int, beta: float, empty: bool) -> None:
    model = CCM.of(SENTENCES, vocab=4, variant=variant, empty_spans=empty)
    em = pu.EM(pu.temper(model, beta))
    for data in (SENTENCES, [[3, 2, 1, 0, 0], [2, 2, 2, 2, 2, 2]]):  # the second has yields and contexts never seen
        state = em.init(data)
        info, expected = em.e_step(state)
        total, counts = oracle(model, state.weights, data, beta)
        assert info.objective == pytest.approx(total, rel=1e-10)
        for name, c in expected.counts.items():
            torch.testing.assert_close(c, counts[name], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("beta", [0.3, 1.0])
@VARIANTS
@EMPTY
@pytest.mark.parametrize("estimate", [pu.Normalise(), pu.AddLambda(0.1), pu.AddLambda(2.0), pu.DirichletMAP()])
def test_em_never_falls(variant: int, estimate: pu.Normalise, beta: float, empty: bool) -> None:
    model = CCM.of(CORPUS, variant=variant, prior=(1.5, 3.0), empty_spans=empty)
    start = model.split_start(CORPUS)
    fit = pu.EM(pu.temper(model, beta), estimate, start).run(CORPUS, iterations=30, tolerance=0, progress=False)
    values = [row["objective"] for row in fit.rows]
    assert values[-1] > values[0]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(values))
    for name, d in model.declarations().items():
        torch.testing.assert_close(d.layout.row_logsumexp(fit.weights[name]).exp(), torch.ones(d.layout.rows))


@VARIANTS
def test_rows_have_the_pseudo_counts_asked_for(variant: int) -> None:
    """Smoothing of 2 for constituents and 8 for distituents: P(cell) is in proportion to its counts and those."""
    model = CCM.of(CORPUS, variant=variant, prior=(3.0, 9.0))
    em = pu.EM(model, pu.DirichletMAP(), model.split_start(CORPUS))
    state = em.init(CORPUS)
    _, expected = em.e_step(state)
    counts = expected.counts
    state = em.m_step(state, expected)
    for name, d in model.declarations().items():
        extra = torch.tensor([[8.0], [2.0]]).expand(2, d.layout.shape.numel() // 2).reshape(d.layout.shape)
        expected = d.layout.normalise((counts[name] + extra).log())
        torch.testing.assert_close(state.weights[name], expected)


@pytest.mark.parametrize("kind", ["split", "uniform"])
@VARIANTS
@EMPTY
def test_starts_hold_what_trees_without_words_expect(variant: int, kind: str, empty: bool) -> None:
    model = CCM.of(CORPUS, variant=variant, empty_spans=empty)
    marginals = {"split": split_marginals, "uniform": uniform_marginals}[kind]
    make = {"split": model.split_start, "uniform": model.uniform_start}[kind]
    counts: dict = defaultdict(lambda: [0.0, 0.0])
    for sentence in SENTENCES:
        for p, span in zip(marginals(torch.tensor([len(sentence)])).tolist(), spans(sentence, 4), strict=True):
            for name, key in zip(("yield", "context"), span, strict=True):
                counts[name, key][0] += 1 - p
                counts[name, key][1] += p
        for pair in itertools.pairwise([4, *sentence, 4]) if empty else ():
            counts["yield", ()][0] += 1
            counts["context", pair][0] += 1
    yields, contexts = columns(model)
    generator = torch.Generator()
    for amount, start in ((0.1, make(CORPUS)), (2.0, make(SENTENCES, estimate=pu.AddLambda(2.0)))):
        weights = start(model.declarations(), generator)
        for name, places in (("yield", yields), ("context", contexts)):
            layout = model.declarations()[name].layout
            table = torch.full((2, layout.shape.numel() // 2), amount)
            for key, column in places.items():
                if (name, key) in counts:
                    table[:, column] += torch.tensor(counts[name, key])
            expected = layout.normalise(table.reshape(layout.shape).log())
            torch.testing.assert_close(weights[name], expected)


@VARIANTS
@EMPTY
def test_the_unknown_has_the_weight_that_smoothing_gives_it(variant: int, empty: bool) -> None:
    model = CCM.of(CORPUS, variant=variant, empty_spans=empty)
    new = [[3, 3, 2], [1, 1, 1, 1, 1, 1, 1]]
    smooth = pu.EM(model, pu.AddLambda(0.5)).run(CORPUS, iterations=3, progress=False)
    assert math.isfinite(smooth.log_likelihood(new))
    total, _ = oracle(model, smooth.weights, new)
    assert smooth.log_likelihood(new) == pytest.approx(total)
    plain = pu.EM(model).run(CORPUS, iterations=3, progress=False)
    assert plain.log_likelihood(new) == -math.inf
    assert (plain.predict(new) == -1).all()
    assert math.isfinite(plain.log_likelihood(CORPUS))


@VARIANTS
@EMPTY
def test_a_small_batch_touches_few_columns_and_gives_the_same_counts(variant: int, empty: bool) -> None:
    rng = np.random.default_rng(0)
    text = [rng.integers(4, size=7).tolist() for _ in range(40)]
    model = CCM.of(text, vocab=4, variant=variant, empty_spans=empty)
    em = pu.EM(model)
    state = em.init(text[:2])
    _, expected = em.e_step(state)
    _, counts = oracle(model, state.weights, text[:2])
    for name, c in expected.counts.items():
        torch.testing.assert_close(c, counts[name], rtol=1e-9, atol=1e-9)
    site = poutine.trace(model).get_trace(text[:2]).nodes["spans"]
    assert site["fn"].weights["yields"].shape[-1] <= 56 + 15 * empty  # and one for each word, and for nothing
    assert site["value"].shape == (56, 2)


def test_sentences_without_words_count_for_nothing() -> None:
    sentences = [[0, 1, 2], [], [2], []]
    for empty in (False, True):
        model = CCM.of(sentences, vocab=3, empty_spans=empty)
        em = pu.EM(model).session()
        assert em.evaluate_loss(sentences) == pytest.approx(em.evaluate_loss([[0, 1, 2], [2]]), rel=1e-12)
        assert em.evaluate_loss(model.index(sentences).select([1, 0])) == em.evaluate_loss([[0, 1, 2]])


@VARIANTS
def test_empty_spans_are_the_same_in_both_precisions_and_impossible_without_nan(variant: int) -> None:
    model = CCM.of(CORPUS, variant=variant, empty_spans=True)
    start = model.split_start(CORPUS)
    engines = [pu.EM(model, init=start, dtype=dtype) for dtype in (torch.float64, torch.float32)]
    losses = [engine.session().evaluate_loss(CORPUS) for engine in engines]
    assert losses[0] == pytest.approx(losses[1], rel=2e-5)
    weights = {name: w.clone().requires_grad_() for name, w in start(model.declarations(), torch.Generator()).items()}
    first = [int(model.index(CORPUS).before[k]) for k in range(2)]
    given = dict(weights)
    barred = torch.zeros_like(weights["context"])
    barred[0, first] = -torch.inf  # the first two gaps of the first sentence cannot be
    given["context"] = weights["context"] + barred
    site = poutine.trace(pu.given(model, given)).get_trace(CORPUS).nodes["spans"]
    log_p = site["fn"].log_prob(site["value"])
    assert log_p[0] == -torch.inf
    assert (log_p[1:] > -torch.inf).any()
    grads = torch.autograd.grad(log_p[log_p > -torch.inf].sum(), list(weights.values()), retain_graph=True)
    every = torch.autograd.grad(log_p.sum(), list(weights.values()))
    for one, other in zip(grads, every, strict=True):
        assert torch.isfinite(other).all()
        torch.testing.assert_close(one, other)


def test_labelled_trees_count_empty_spans_too() -> None:
    model = CCM.of(CORPUS, empty_spans=True)
    fit = pu.EM(model, pu.AddLambda(0.1), model.split_start(CORPUS)).run(CORPUS, iterations=3, progress=False)
    gold = pu.EM(
        model, init=pu.init.from_labelled(model, CORPUS, structure=fit.predict(CORPUS), estimate=pu.Normalise())
    )
    state = gold.init(CORPUS)
    gaps = CORPUS.tokens + len(CORPUS)
    spans = sum(n * (n + 1) // 2 for n in CORPUS.lengths.tolist()) - sum(2 * n - 1 for n in CORPUS.lengths.tolist())
    assert float(state.weights["yield"][0, -1].exp()) == pytest.approx(gaps / (gaps + spans))


def test_a_corpus_is_looked_up_once() -> None:
    model = CCM.of(CORPUS)
    again = CORPUS.select(range(len(CORPUS)))
    first = model.index(CORPUS)
    assert model.index(CORPUS) is first
    assert model.index(again) is not first
    assert torch.equal(model.index(again).cells, first.cells)
    assert torch.equal(model.index(SENTENCES).cells, first.cells)
    em = pu.EM(model).session()
    assert em.evaluate_loss(first) == em.evaluate_loss(CORPUS) == em.evaluate_loss(SENTENCES)
    copy = pickle.loads(pickle.dumps(model))
    assert torch.equal(copy.index(CORPUS).cells, first.cells)
    changing = torch.tensor([0, 1, 2])
    before = model.index(changing, [3]).cells
    changing[0] = 3
    assert not torch.equal(model.index(changing, [3]).cells, before)


@VARIANTS
@EMPTY
def test_saved_and_loaded(tmp_path: Path, variant: int, empty: bool) -> None:
    model = CCM.of(CORPUS, variant=variant, prior={"yield": (1.5, 3.0)}, empty_spans=empty)
    fit = pu.EM(model, pu.DirichletMAP(), model.split_start(CORPUS)).run(CORPUS, iterations=5, progress=False)
    fit.save(tmp_path / "fit")
    loaded = pu.load(tmp_path / "fit")
    assert repr(loaded.model) == repr(model)
    assert loaded.model.vocab == CORPUS.vocab
    for name, d in model.declarations().items():
        assert torch.equal(loaded.weights[name], fit.weights[name])
        assert torch.equal(loaded.model.declarations()[name].prior, d.prior)
    new = [[0, 1, 3, 3], [2]]
    assert loaded.log_likelihood(new) == fit.log_likelihood(new)
    assert torch.equal(loaded.predict(new), fit.predict(new))
    more = pu.EM(loaded.model, pu.DirichletMAP(), pu.init.from_weights(loaded)).run(
        CORPUS, iterations=2, progress=False
    )
    assert more.objective >= fit.objective


def test_predicts_trees_and_knows_its_posterior() -> None:
    model = CCM.of(CORPUS)
    fit = pu.EM(model, pu.AddLambda(0.1), model.split_start(CORPUS)).run(CORPUS, iterations=10, progress=False)
    tree, posterior = fit.predict(CORPUS), fit.posterior(CORPUS)
    assert isinstance(posterior, Posterior)
    assert torch.equal(tree, posterior.mode())
    assert torch.equal(fit.predict(CORPUS, how="mbr"), posterior.mbr())
    lengths = torch.from_numpy(CORPUS.lengths)
    found = constituents(tree, lengths).tolist()
    assert len(found) == int((2 * lengths - 1).sum())
    gold = pu.EM(model, init=pu.init.from_labelled(model, CORPUS, structure=tree, estimate=pu.Normalise()))
    state = gold.init(CORPUS)
    yields = {tuple(SENTENCES[b][i:j]) for b, i, j in found}  # what the constituents of those trees consist of
    assert int(state.weights["yield"][1].isfinite().sum()) == len(yields)


@pytest.mark.parametrize("guide", [AutoDelta, AutoNormal])
@VARIANTS
@EMPTY
def test_stock_svi(variant: int, guide: type, empty: bool) -> None:
    model = CCM.of(CORPUS, variant=variant, prior=2.0, empty_spans=empty)
    for particles in (1, 2):
        pyro.clear_param_store()
        elbo = Trace_ELBO(num_particles=particles, vectorize_particles=particles > 1, max_plate_nesting=1)
        svi = SVI(model, guide(model), Adam({"lr": 0.05}), elbo)
        losses = [svi.step(CORPUS) for _ in range(40)]
        assert np.isfinite(losses).all()
        assert np.mean(losses[-10:]) < np.mean(losses[:10])


@VARIANTS
def test_nuts_and_predictive(variant: int) -> None:
    model = CCM.of(SENTENCES[:3], vocab=4, variant=variant)
    mcmc = MCMC(NUTS(model, max_tree_depth=3), num_samples=8, warmup_steps=8, disable_progbar=True)
    mcmc.run(SENTENCES[:3])
    assert all(torch.isfinite(value).all() for value in mcmc.get_samples().values())
    drawn = Predictive(model, mcmc.get_samples())(SENTENCES[:3])
    assert drawn["spans"].shape[0] == 8


def test_the_trace_has_two_tables_and_one_structure() -> None:
    trace = poutine.trace(CCM.of(CORPUS)).get_trace(CORPUS)
    trace.compute_log_prob()
    assert [name for name, site in trace.nodes.items() if site["type"] == "sample"] == [
        "yield", "context", "sentences", "spans"
    ]  # fmt: skip
    assert trace.nodes["spans"]["log_prob"].shape == (6,)


def test_errors_say_what_was_expected() -> None:
    model = CCM.of(CORPUS)
    with pytest.raises(StructureError, match="variant must be 1, or 2"):
        CCM.of(CORPUS, variant=3)
    with pytest.raises(StructureError, match="say how many symbols there are"):
        CCM.of(SENTENCES)
    with pytest.raises(StructureError, match=r"symbol numbers must lie in 0 .. 3, actual range 0 .. 4"):
        model([[0, 4]])
    with pytest.raises(StructureError, match="no symbols"):
        model([[]])
    with pytest.raises(StructureError, match="the inventory is of 4 symbols, the vocabulary has 5"):
        CCM(5, model.inventory)
    with pytest.raises(StructureError, match="the Dirichlet prior must be positive and finite"):
        CCM.of(CORPUS, prior=(1.0, 0.0))
    other = Corpus(CORPUS.words, CORPUS.offsets, Vocab(["N", "D", "V", "P"]))
    with pytest.raises(StructureError, match="by another vocabulary than the model's"):
        model(other)
    with pytest.raises(StructureError, match="by another vocabulary than the model's"):
        CCM.of(other, vocab=CORPUS.vocab)
    with pytest.raises(StructureError, match="empty_spans must be True or False, actual = 1"):
        CCM.of(CORPUS, empty_spans=1)  # type: ignore[arg-type]
    for one, another in itertools.permutations([model, CCM.of(CORPUS, empty_spans=True)]):
        with pytest.raises(
            StructureError, match="the spans were indexed by another model, with empty spans or without"
        ):
            one(another.index(CORPUS))
    plain, tensors = model.settings()
    with pytest.raises(StructureError, match=r"the settings should be vocab, variant, .*actual .*extra"):
        CCM.from_settings({**plain, "extra": 1}, tensors)
    with pytest.raises(StructureError, match="variant must be 1, or 2"):
        CCM.from_settings({**plain, "vocab": CORPUS.vocab, "variant": "1"}, tensors)
    with pytest.raises(StructureError, match="cannot draw sentences"):
        poutine.trace(poutine.uncondition(model)).get_trace(CORPUS)


def test_wall_street_journal(real_data: Path) -> None:
    """555 sentences of ten tags or fewer, from random splits: the region that an independent program found."""
    corpus = pu.data.short_tag_sequences(pu.data.read_brackets(real_data / "wsj_nltk.mrg.xz"))
    assert (len(corpus), corpus.tokens, len(corpus.vocab)) == (555, 3856, 32)
    estimate = pu.DirichletMAP()
    for variant, expected in ((1, 0.642), (2, 0.626)):
        model = CCM.of(corpus, variant=variant, prior=(1.5, 3.0))
        em = pu.EM(model, estimate, model.split_start(corpus, estimate=estimate))
        fit = em.run(corpus, iterations=200, tolerance=1e-9, progress=False)
        assert fit.evaluate(corpus)["f1"] == pytest.approx(expected, abs=0.01)
