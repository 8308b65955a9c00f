"""The product of the two models: an ordinary Pyro program, under every engine and handler, and what it learns."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta

import pyro_unsup as pu
from pyro_unsup.data import Corpus, read_brackets, read_conllu, short_tag_sequences
from pyro_unsup.distributions import Bracketing, Dependency, HeadedBracketing
from pyro_unsup.distributions.headed_bracketing import brackets_of
from pyro_unsup.errors import StructureError
from pyro_unsup.handlers import given
from pyro_unsup.infer.init import from_labelled
from pyro_unsup.models import CCM, DMV, DMVCCM
from pyro_unsup.results.building import build_model, describe_model

SENTENCES = [[0, 1, 2], [3, 2, 0, 1], [0, 1, 2, 0, 1], [2], [2, 0, 1]]


@pytest.fixture(scope="module")
def toy() -> Corpus:
    return short_tag_sequences(pu.data.toy.sentences(60, seed=1), max_length=8, drop=["PUNCT"])


def start_of(model: DMVCCM, data) -> dict[str, torch.Tensor]:
    return model.start(data)(model.declarations(), torch.Generator())


def site_of(model, weights, data):
    return poutine.trace(given(model, weights)).get_trace(data).nodes["tags"]


def test_a_trace_has_ordinary_sites() -> None:
    model = DMVCCM.of(SENTENCES, vocab=4)
    trace = poutine.trace(model).get_trace(SENTENCES)
    shapes = {name: tuple(site["value"].shape) for name, site in trace.nodes.items() if site["type"] == "sample"}
    assert list(shapes) == ["root", "attach", "stop", "yield", "context", "sentences", "tags"]
    ccm = poutine.trace(CCM.of(SENTENCES, vocab=4)).get_trace(SENTENCES).nodes
    assert shapes["yield"] == tuple(ccm["yield"]["value"].shape)
    assert shapes["tags"] == (16,)
    assert isinstance(trace.nodes["tags"]["fn"], HeadedBracketing)
    assert torch.isfinite(trace.log_prob_sum())


@pytest.mark.parametrize("order", ["right", "left"])
@pytest.mark.parametrize(("variant", "empty"), [(1, False), (2, False), (1, True)])
def test_a_tree_weighs_what_both_models_say(toy: Corpus, order: str, variant: int, empty: bool) -> None:
    model = DMVCCM.of(toy, variant=variant, empty_spans=empty, order=order)
    weights = start_of(model, toy)
    site = site_of(model, weights, toy)
    heads = site["fn"].posterior(site["value"]).mode()
    brackets = brackets_of(heads, torch.from_numpy(toy.lengths), order)
    one = poutine.trace(given(DMV.of(toy), weights)).get_trace(toy).nodes["tags"]
    other = poutine.trace(given(CCM.of(toy, variant=variant, empty_spans=empty), weights)).get_trace(toy).nodes["spans"]
    assert isinstance(one["fn"], Dependency)
    assert isinstance(other["fn"], Bracketing)
    bare = other["fn"].with_weights({"tree": torch.zeros_like(other["fn"].weights["tree"])})
    expected = one["fn"].score(one["value"], heads) + bare.score(other["value"], brackets)
    torch.testing.assert_close(site["fn"].score(site["value"], heads), expected)


def test_axes_and_tables_are_those_of_its_parents(toy: Corpus) -> None:
    tables = DMVCCM.of(toy).declarations()
    assert list(tables) == ["root", "attach", "stop", "yield", "context"]
    parents = {**DMV.of(toy).declarations(), **CCM.of(toy).declarations()}
    for name, table in tables.items():
        assert table.axes is not None
        assert [axis.name for axis in table.axes] == [axis.name for axis in parents[name].axes or ()]
        assert table.layout.shape == parents[name].layout.shape


def test_the_start_is_that_of_its_parents(toy: Corpus) -> None:
    model, generator = DMVCCM.of(toy), torch.Generator()
    found = model.start(toy, reading="tree", distance=1.0)(model.declarations(), generator)
    expected = {
        **DMV.of(toy).harmonic_start(toy, reading="tree", distance=1.0)({}, generator),
        **CCM.of(toy).split_start(toy)({}, generator),
    }
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], w) for name, w in expected.items())


def test_em_climbs(toy: Corpus) -> None:
    model = DMVCCM.of(toy)
    fit = pu.EM(model, init=model.start(toy)).run(toy, iterations=30, tolerance=0)
    objective = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(objective))
    assert objective[-1] > objective[0]


@pytest.mark.parametrize(
    "engine",
    [
        lambda m, init: pu.StepwiseEM(m, pu.AddLambda(0.1), power=0.7, batch_size=7, init=init),
        lambda m, init: pu.IncrementalEM(m, pu.AddLambda(0.1), batch_size=7, init=init),
        lambda m, init: pu.EM(pu.harden(m), pu.AddLambda(0.1), init=init),
        lambda m, init: pu.EM(pu.temper(m, 0.5), pu.AddLambda(0.1), init=init),
        lambda m, init: pu.EM(pu.skew(m, 0.5, toward="harmonic"), pu.AddLambda(0.1), init=init),
        lambda m, init: pu.EM(m, pu.DirichletVB(), init=init),
    ],
    ids=["stepwise", "incremental", "harden", "temper", "skew", "variational"],
)
def test_every_engine_runs(engine, toy: Corpus) -> None:
    model = DMVCCM.of(toy)
    fit = engine(model, model.start(toy)).run(toy, iterations=2)
    assert all(torch.isfinite(w).all() for w in fit.weights.values())


def test_stock_variational_inference_learns(toy: Corpus) -> None:
    model = DMVCCM.of(toy)
    svi = SVI(model, AutoDelta(model), pyro.optim.Adam({"lr": 0.1}), Trace_ELBO())
    losses = [svi.step(toy) for _ in range(8)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("empty", [False, True])
def test_mini_batches_of_indexed_sentences(toy: Corpus, empty: bool) -> None:
    model = DMVCCM.of(toy, empty_spans=empty)
    start = start_of(model, toy)

    def log_prob(data) -> torch.Tensor:
        site = site_of(model, start, data)
        return site["fn"].log_prob(site["value"])

    whole, indexed = log_prob(toy), model.index(toy)
    assert len(indexed) == len(toy)
    torch.testing.assert_close(log_prob(indexed.select([5, 0, 7])), whole[[5, 0, 7]])
    mask = np.arange(len(toy)) % 3 == 1
    torch.testing.assert_close(log_prob(indexed.select(mask)), whole[torch.from_numpy(mask)])
    torch.testing.assert_close(log_prob(toy.select([5, 0, 7])), whole[[5, 0, 7]])


def test_gold_heads_are_a_structure(toy: Corpus) -> None:
    model = DMVCCM.of(toy)
    heads = torch.from_numpy(np.asarray(toy.heads)).long()
    fit = pu.EM(model, init=from_labelled(model, toy, structure=heads)).run(toy, iterations=0)
    assert float((fit.posterior(toy).mbr() == heads).double().mean()) > 0.9


def test_it_is_built_again_from_its_settings(toy: Corpus) -> None:
    model = DMVCCM.of(toy, variant=2, prior={"attach": 0.5, "yield": (3.0, 9.0)}, order="left")
    plain, tensors = describe_model(model)
    again = build_model(plain, tensors)
    assert isinstance(again, DMVCCM)
    assert again.settings()[0] == model.settings()[0]
    assert repr(again) == repr(model)
    assert repr(model).endswith("variant=2, order=left)")
    for name, table in again.declarations().items():
        assert torch.equal(table.prior, model.declarations()[name].prior)
    with pytest.raises(StructureError, match="settings should be vocab, variant, prior, empty_spans and order, actual"):
        DMVCCM.from_settings({"vocab": 3}, {})
    copied = pickle.loads(pickle.dumps(model))
    assert repr(copied) == repr(model)


def test_bad_arguments(toy: Corpus) -> None:
    known = DMVCCM.of(SENTENCES, vocab=4).ccm.inventory
    with pytest.raises(StructureError, match=r"prior names tables that a DMVCCM does not have: \['emission'\]"):
        DMVCCM(4, known, prior={"emission": 1.0})
    with pytest.raises(StructureError, match="a prior of stop is one number: only yield and context have two kinds"):
        DMVCCM(4, known, prior={"stop": (1.0, 2.0)})
    with pytest.raises(StructureError, match="order should be 'right' or 'left'"):
        DMVCCM(4, known, order="up")
    with pytest.raises(StructureError, match=r"symbol numbers must lie in 0 \.\. 3, actual range 0 \.\. 4"):
        DMVCCM(4, known)([[0, 4]])
    with pytest.raises(StructureError, match="reading should be one of counts, tree, parameters, viterbi"):
        DMVCCM(4, known).start(SENTENCES, reading="x")


def test_both_trees_of_the_wsj_sample(real_data: Path) -> None:
    """Brackets are far better than those of the constituent-context model alone (68.9), and heads nearly as good as
    those of the dependency model alone (47.2 directed)."""
    corpus = short_tag_sequences(read_conllu(real_data / "wsj_nltk_dep.conll.xz"))
    trees = short_tag_sequences(read_brackets(real_data / "wsj_nltk.mrg.xz"))
    assert [corpus.sentence(i) for i in range(555)] == [trees.sentence(i) for i in range(555)]
    gold = replace(corpus, spans=trees.spans, span_offsets=trees.span_offsets)
    prior = {**dict.fromkeys(("root", "attach", "stop"), 1.1), **dict.fromkeys(("yield", "context"), (3.0, 9.0))}
    model, estimate = DMVCCM.of(gold, prior=prior), pu.DirichletMAP()
    fit = pu.EM(model, estimate, model.start(gold, estimate=estimate)).run(gold, iterations=20, tolerance=0)
    found = fit.evaluate(gold)
    assert found["f1_klein_manning_2004"] == pytest.approx(0.765, abs=0.01)
    assert found["f1"] == pytest.approx(0.713, abs=0.01)
    assert found["directed"] == pytest.approx(0.445, abs=0.01)
    assert found["undirected"] == pytest.approx(0.633, abs=0.01)
