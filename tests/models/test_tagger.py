"""The tagger is an ordinary Pyro model: stock inference runs it unchanged."""

from __future__ import annotations

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
from pyro_unsup.models import Tagger

SENTENCES = [[0, 1, 2], [2, 1], [0, 1, 1, 3], [3]]
MASK = torch.tensor([[True, True, False, True], [False, True, True, True]])


def taggers() -> list:
    return [
        pytest.param(Tagger(2, 4, order, mask, stop), id=f"order={order}, stop={stop}, dictionary={mask is not None}")
        for order in (1, 2)
        for stop in (False, True)
        for mask in (None, MASK)
    ]


@pytest.mark.parametrize("tagger", taggers())
def test_the_log_joint_is_prior_plus_chain(tagger: Tagger) -> None:
    trace = poutine.trace(tagger).get_trace(SENTENCES)
    trace.compute_log_prob()
    total = trace.log_prob_sum()
    prior = sum(trace.nodes[name]["log_prob_sum"] for name in tagger._tables)
    assert total == pytest.approx(float(prior + trace.nodes["words"]["log_prob_sum"]))
    assert trace.nodes["words"]["log_prob"].shape == (4,)
    assert "words dist 4 |" in trace.format_shapes()


@pytest.mark.parametrize("guide", [AutoDelta, AutoNormal])
@pytest.mark.parametrize("tagger", taggers())
def test_stock_svi(tagger: Tagger, guide: type) -> None:
    svi = SVI(tagger, guide(tagger), Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(SENTENCES) for _ in range(60)]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-10:]) < np.mean(losses[:10])


def test_svi_with_autodelta_finds_what_em_finds() -> None:
    """With a flat Dirichlet prior, the MAP estimate maximises the likelihood, as EM does."""
    tagger = Tagger(2, 4, prior=2.0)
    fit = EM(tagger, pu.DirichletMAP()).run(SENTENCES, iterations=2000, tolerance=1e-13, seed=1)
    # AutoDelta optimises a density in unconstrained space, without the Jacobian: the same mode.
    guide = AutoDelta(tagger, init_loc_fn=lambda site: fit.weights[site["name"]].exp())
    svi = SVI(tagger, guide, Adam({"lr": 0.01}), Trace_ELBO())
    losses = [svi.step(SENTENCES) for _ in range(300)]
    assert min(losses) > losses[0] - 1e-4 * abs(losses[0])  # nothing better nearby
    for name, w in guide.median().items():
        torch.testing.assert_close(w, fit.weights[name].exp(), atol=0.02, rtol=0)


@pytest.mark.parametrize("tagger", [Tagger(2, 4), Tagger(2, 4, 2, MASK, stop=True)])
def test_nuts_on_a_small_instance(tagger: Tagger) -> None:
    mcmc = MCMC(NUTS(tagger, max_tree_depth=4), num_samples=15, warmup_steps=15, disable_progbar=True)
    mcmc.run(SENTENCES)
    for value in mcmc.get_samples().values():
        assert value.shape[0] == 15
        assert torch.isfinite(value).all()


def test_predictive_draws_words_of_the_lengths_asked_for() -> None:
    tagger = Tagger(2, 4, stop=True)
    draws = Predictive(tagger, num_samples=7)(lengths=torch.tensor([3, 1]))
    assert draws["words"].shape == (7, 4)
    assert draws["emission"].shape == (7, 1, 2, 4)  # Predictive leaves room for the plate
    guide = AutoDelta(tagger)
    guide(SENTENCES)
    assert Predictive(tagger, guide=guide, num_samples=3)(lengths=torch.tensor([2]))["words"].shape == (3, 2)


def test_a_small_batch_touches_few_columns_and_gives_the_same_counts() -> None:
    V = 50
    rng = np.random.default_rng(0)
    data = [rng.integers(V, size=5).tolist() for _ in range(3)]  # 15 tokens, 50 words
    tagger = Tagger(3, V)
    em = EM(tagger)
    state = em.init(data)
    _, expected = em.e_step(state)
    small = expected.counts["emission"]
    chain = pu.Chain(
        *(state.weights[n] for n in ("start", "transition", "emission")), torch.tensor([5, 5, 5]), flat=True
    )
    flat = [word for sentence in data for word in sentence]
    torch.testing.assert_close(small, chain.posterior(torch.tensor(flat)).counts["emission"])
    shapes = poutine.trace(tagger).get_trace(data).nodes["words"]["fn"].weights["emission"].shape
    assert shapes[-1] == len(set(flat))


def test_data_may_come_flat_padded_listed_or_as_a_corpus() -> None:
    class Words:
        words = np.array([0, 1, 2, 2, 1], np.int32)
        offsets = np.array([0, 3, 5])

    tagger = Tagger(2, 4)
    em = EM(tagger).session()
    values = [
        em.evaluate_loss([[0, 1, 2], [2, 1]]),
        em.evaluate_loss(torch.tensor([0, 1, 2, 2, 1]), torch.tensor([3, 2])),
        em.evaluate_loss(torch.tensor([[0, 1, 2], [2, 1, 0]]), torch.tensor([3, 2])),
        em.evaluate_loss(Words()),
    ]
    assert values == pytest.approx([values[0]] * 4, rel=1e-14)


def test_learns_from_labelled_sentences_and_from_another_fit() -> None:
    tags = torch.tensor([0, 1, 0, 0, 1])
    tagger = Tagger(2, 4)
    start = pu.init.from_labelled(tagger, [[0, 1, 2], [2, 1]], structure=tags, estimate=pu.Normalise())
    em = EM(tagger, init=start)
    state = em.init([[0, 1, 2], [2, 1]])
    torch.testing.assert_close(state.weights["transition"].exp(), torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    counts = torch.tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    torch.testing.assert_close(state.weights["emission"].exp(), counts / counts.sum(-1, keepdim=True))
    fit = EM(tagger).run(SENTENCES, iterations=3)
    again = EM(tagger, init=pu.init.from_weights(fit)).session()
    assert -again.evaluate_loss(SENTENCES) == pytest.approx(fit.objective, rel=1e-12)


def test_predicts_by_viterbi_and_knows_its_posterior() -> None:
    fit = EM(Tagger(2, 4)).run(SENTENCES, iterations=5)
    tags = fit.predict(SENTENCES)
    posterior = fit.posterior(SENTENCES)
    assert tags.shape == (10,)
    assert torch.equal(tags, posterior.mode())
    torch.testing.assert_close(posterior.marginals.sum(-1), torch.ones(10))


def test_errors_name_the_word_or_the_tag() -> None:
    class Vocabulary(list):
        pass

    vocab, tags = Vocabulary(["the", "cat"]), Vocabulary(["DT", "NN"])
    with pytest.raises(StructureError, match="word 'cat' has no allowed tag"):
        Tagger(tags, vocab, dictionary=torch.tensor([[True, False], [True, False]]))
    with pytest.raises(StructureError, match="tag 'NN' has no allowed word"):
        Tagger(tags, vocab, dictionary=torch.tensor([[True, True], [False, False]]))
    with pytest.raises(StructureError, match=r"should have shape \(tags, words\) = \(2, 2\)"):
        Tagger(tags, vocab, dictionary=torch.ones(3, 3))
    with pytest.raises(StructureError, match="order must be 1"):
        Tagger(2, 2, order=3)
    with pytest.raises(StructureError, match=r"word numbers must lie in 0 .. 1, actual range 0 .. 2"):
        EM(Tagger(2, 2)).session().step([[0, 2]])
    with pytest.raises(pu.TableError, match="table 'start': the Dirichlet prior must be positive"):
        Tagger(2, 2, prior=-1.0)
    with pytest.raises(StructureError, match=r"prior names tables that this tagger does not have: \['emision'\]"):
        Tagger(2, 2, prior={"emision": 0.1})
    with pytest.raises(StructureError, match="no words"):
        EM(Tagger(2, 2)).session().step([[]])
    with pytest.raises(StructureError, match="lengths add up to 3"):
        EM(Tagger(2, 2)).session().step(torch.tensor([0, 1]), torch.tensor([3]))


def test_the_parameter_store_is_left_alone() -> None:
    EM(Tagger(2, 4)).run(SENTENCES, iterations=2)
    assert list(pyro.get_param_store()) == []


def test_a_corpus_by_another_vocabulary_is_refused_not_misread() -> None:
    corpus = pu.data.toy.sentences(20)
    fit = EM(Tagger(2, corpus.vocab)).run(corpus, iterations=1)
    other = corpus.with_vocab(pu.data.Vocab([*reversed(corpus.vocab.types)]))
    with pytest.raises(StructureError, match=r"another vocabulary than the model's: re-encode them with with_vocab"):
        fit.posterior(other)
    assert torch.equal(fit.predict(other), fit.predict(corpus))  # prediction looks the words up by itself


def test_predicts_tags_of_words_it_has_never_met() -> None:
    corpus = pu.data.toy.sentences(50)
    fit = EM(Tagger(3, corpus.compact().vocab)).run(corpus.compact(), iterations=2)
    new = pu.data.toy.sentences(50, seed=9)
    tags, probabilities = fit.predict(new, probabilities=True)
    assert tags.shape == (new.tokens,)
    assert tags.min() >= 0
    torch.testing.assert_close(probabilities.sum(-1), torch.ones(new.tokens))
