"""The clusterer is an ordinary Pyro model: stock inference runs it unchanged."""

from __future__ import annotations

import pickle

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoNormal
from pyro.optim import Adam

import pyro_unsup as pu
from pyro_unsup import EM, StructureError
from pyro_unsup.data import Documents, Vocab
from pyro_unsup.models import Clusterer
from pyro_unsup.models.clusterer import Bags

LISTS = [[0, 1, 0], [2, 1], [0, 1, 1, 3], [3]]
VOCAB = Vocab(["a", "b", "c", "d"])
DOCUMENTS = Documents.count([w for bag in LISTS for w in bag], [0, 3, 5, 9, 10], VOCAB)


def test_the_log_joint_is_prior_plus_mixture() -> None:
    trace = poutine.trace(Clusterer(2, 4)).get_trace(LISTS)
    trace.compute_log_prob()
    prior = sum(trace.nodes[name]["log_prob_sum"] for name in ("cluster", "words"))
    assert trace.log_prob_sum() == pytest.approx(float(prior + trace.nodes["bags"]["log_prob_sum"]))
    assert trace.nodes["bags"]["log_prob"].shape == (4,)


@pytest.mark.parametrize("guide", [AutoDelta, AutoNormal])
def test_stock_svi(guide: type) -> None:
    model = Clusterer(2, 4)
    svi = SVI(model, guide(model), Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(LISTS) for _ in range(60)]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-10:]) < np.mean(losses[:10])


def test_nuts_on_a_small_instance() -> None:
    mcmc = MCMC(NUTS(Clusterer(2, 4), max_tree_depth=4), num_samples=10, warmup_steps=10, disable_progbar=True)
    mcmc.run(LISTS)
    assert all(torch.isfinite(value).all() for value in mcmc.get_samples().values())


def test_predictive_draws_documents_of_the_lengths_asked_for() -> None:
    draws = Predictive(Clusterer(2, 4), num_samples=7)(lengths=torch.tensor([3, 1]))
    assert draws["bags"].shape == (7, 4, 2)
    assert draws["words"].shape == (7, 1, 2, 4)  # Predictive leaves room for the plate
    assert (draws["bags"][..., 1] == 1).all()


def test_a_small_batch_touches_few_columns_and_gives_the_same_counts() -> None:
    V, rng = 50, np.random.default_rng(0)
    data = [rng.integers(V, size=5).tolist() for _ in range(3)]
    model = Clusterer(3, V)
    em = EM(model)
    state = em.init(data)
    _, expected = em.e_step(state)
    bags = model.index(data)
    whole = pu.distributions.Mixture(state.weights["cluster"], state.weights["words"], bags.lengths)
    torch.testing.assert_close(expected.counts["words"], whole.posterior(bags.cells).counts["words"])
    seen = poutine.trace(model).get_trace(data).nodes["bags"]["fn"].weights["words"]
    assert seen.shape == (3, len({w for bag in data for w in bag}))


@pytest.mark.parametrize("beta", [1e-3, 0.5, 1.0, 3.0])
def test_tempered_em_never_lowers_its_objective(beta: float) -> None:
    fit = EM(pu.temper(Clusterer(3, 4), beta)).run(LISTS, iterations=30, tolerance=0.0, progress=False)
    objectives = np.array([row["objective"] for row in fit.rows])
    assert len(objectives) > 3
    assert (np.diff(objectives) > -1e-12 * abs(objectives[0])).all()


def test_data_may_come_counted_flat_padded_or_listed() -> None:
    em = EM(Clusterer(2, VOCAB)).session()
    flat, lengths = torch.tensor([w for bag in LISTS for w in bag]), torch.tensor([3, 2, 4, 1])
    corpus = pu.data.Corpus(flat.numpy(), [0, 3, 5, 9, 10], VOCAB)
    padded = torch.tensor([[*bag, *[0] * (4 - len(bag))] for bag in LISTS])
    first = em.evaluate_loss(LISTS)
    for data in ((DOCUMENTS,), (corpus,), (flat, lengths), (padded, lengths), (em.model.index(DOCUMENTS),)):
        assert em.evaluate_loss(*data) == pytest.approx(first, rel=1e-14)


def test_an_index_can_be_cut_into_mini_batches() -> None:
    model = Clusterer(2, VOCAB)
    bags = model.index(DOCUMENTS)
    assert model.index(bags) is bags
    assert model.index(DOCUMENTS) is bags  # remembered
    assert len(bags) == 4
    some = bags.select([2, 0])
    assert isinstance(some, Bags)
    assert some.lengths.tolist() == [3, 2]
    assert some.cells.tolist() == [[0, 1], [1, 2], [3, 1], [0, 2], [1, 1]]
    assert len(bags.select(torch.tensor([], dtype=torch.long))) == 0
    em = EM(model).session()
    whole = em.evaluate_loss(DOCUMENTS)
    assert sum(em.evaluate_loss(bags.select([i])) for i in (3, 1, 0, 2)) == pytest.approx(whole, rel=1e-12)
    assert em.evaluate_loss(DOCUMENTS.select([2, 0])) == pytest.approx(em.evaluate_loss(some), rel=1e-14)
    again = pickle.loads(pickle.dumps(model))
    assert again._last is None


def test_a_document_without_words_has_the_prior_as_its_posterior() -> None:
    model = Clusterer(2, 4)
    fit = EM(model).run([[], *LISTS], iterations=1, progress=False)
    torch.testing.assert_close(fit.posterior([[], [0]]).marginals[0], fit.weights["cluster"].exp())


def test_a_cluster_without_documents_keeps_its_words() -> None:
    weights = {
        "cluster": torch.tensor([0.0, -torch.inf]),
        "words": torch.tensor([[0.25] * 4, [0.7, 0.1, 0.1, 0.1]]).log(),
    }
    fit = EM(Clusterer(2, 4), init=pu.init.from_weights(weights)).run(LISTS, iterations=3, progress=False)
    assert fit.weights["cluster"].tolist() == [0.0, -torch.inf]
    torch.testing.assert_close(fit.weights["words"][1], weights["words"][1])
    assert fit.report.unvisited == {"words": 1}


def test_learns_from_labelled_documents() -> None:
    start = pu.init.from_labelled(Clusterer(2, 4), LISTS, structure=torch.tensor([0, 1, 0, 1]), estimate=pu.Normalise())
    em = EM(Clusterer(2, 4), init=start)
    state = em.init(LISTS)
    torch.testing.assert_close(state.weights["cluster"].exp(), torch.tensor([0.5, 0.5]))
    counts = torch.tensor([[3.0, 3.0, 0.0, 1.0], [0.0, 1.0, 1.0, 1.0]])
    torch.testing.assert_close(state.weights["words"].exp(), counts / counts.sum(-1, keepdim=True))


def test_finds_the_topics_of_the_toy_world() -> None:
    corpus, labels, _ = pu.data.toy.documents(300, seed=1, topics=4)
    fit = EM(Clusterer(4, corpus.vocab)).run(corpus, iterations=50, restarts=3, processes=1, progress=False)
    assert pu.evaluate.many_to_one(labels, fit.posterior(corpus).mode()) > 0.9


def test_annealing_finds_the_topics_from_any_start() -> None:
    """All clusters are alike at first; as they part, every start takes the same way. EM takes another each time."""
    corpus, labels, _ = pu.data.toy.documents(200, seed=2, topics=4)
    model, schedule = Clusterer(4, corpus.vocab), pu.schedules.geometric(0.01, 1.2)
    fits = [pu.Anneal(model, schedule=schedule, steps=10).run(corpus, seed=seed, progress=False) for seed in range(3)]
    for fit in fits:
        assert fit.objective == pytest.approx(fits[0].objective, rel=1e-9)
        assert pu.evaluate.many_to_one(labels, fit.posterior(corpus).mode()) == 1.0
    plain = [EM(model).run(corpus, seed=seed, progress=False).objective for seed in range(3)]
    assert max(plain) < fits[0].objective - 100


def test_settings_build_the_model_again() -> None:
    model = Clusterer(3, VOCAB, prior={"words": 0.5})
    plain, tensors = model.settings()
    assert tensors == {}
    again = Clusterer.from_settings({**plain, "vocab": Vocab(**plain["vocab"])}, tensors)
    assert again.settings() == model.settings()
    assert repr(again) == "Clusterer(clusters=3, vocab=4)"
    with pytest.raises(StructureError, match="the settings should be clusters, vocab and prior"):
        Clusterer.from_settings({"clusters": 3}, {})


def test_errors_say_what_was_expected() -> None:
    for clusters in (0, 2.0, "2", True):
        with pytest.raises(StructureError, match="clusters must be a whole number, 1 or more"):
            Clusterer(clusters, 4)  # type: ignore[arg-type]
    with pytest.raises(StructureError, match=r"prior names tables that this clusterer does not have: \['word'\]"):
        Clusterer(2, 4, prior={"word": 0.1})
    with pytest.raises(StructureError, match=r"word numbers must lie in 0 .. 3, actual range 0 .. 4"):
        EM(Clusterer(2, 4)).session().step([[0, 4]])
    with pytest.raises(StructureError, match="no words: expected at least one document with a word in it"):
        EM(Clusterer(2, 4)).session().step([[]])
    other = Documents.count([0], [0, 1], Vocab(["d", "c", "b", "a"]))
    with pytest.raises(StructureError, match=r"another vocabulary than the model's: re-encode them with with_vo"):
        EM(Clusterer(2, VOCAB)).session().step(other)


def test_the_parameter_store_is_left_alone() -> None:
    EM(Clusterer(2, 4)).run(LISTS, iterations=2, progress=False)
    assert list(pyro.get_param_store()) == []
