"""What ArviZ and Pyro make of our models by themselves: ``az.from_pyro`` and ``Predictive(parallel=True)``."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, Predictive
from torch import Tensor

import pyro_unsup as pu
from tests.matrix.models import DOCUMENTS, LETTERS, WORDS

from .cases import LATER, WITH_PRIOR, arviz_at_work, mcmc, structured

old_arviz = pytest.mark.skipif(LATER, reason="ArviZ has no from_pyro since 1.0")
CASES = structured(WITH_PRIOR)


def by_hand(model: Any, data: tuple[Any, ...], drawn: dict[str, Tensor]) -> dict[str, Tensor]:
    """Log-probabilities of the observed sites, one draw at a time."""
    n = len(next(iter(drawn.values())))
    runs = [
        poutine.trace(poutine.condition(model, {name: x[i] for name, x in drawn.items()})).get_trace(*data)
        for i in range(n)
    ]
    names = runs[0].observation_nodes
    tables = set(drawn)
    return {
        name: torch.stack([run.nodes[name]["fn"].log_prob(run.nodes[name]["value"]) for run in runs])
        for name in names
        if name not in tables
    }


@old_arviz
@pytest.mark.parametrize("draws", [4, 5, 6])  # also as many as there are examples, 4 or 5
@pytest.mark.parametrize("name", CASES)
def test_log_likelihood_has_one_value_an_example(name: str, draws: int) -> None:
    make, data = CASES[name]
    model = make()
    run = mcmc(model, data, draws)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # by which ArviZ says that it has left the group out
        with arviz_at_work() as az:
            warnings.simplefilter("error", UserWarning)
            found = az.from_pyro(run)
    expected = by_hand(model, data, run.get_samples())
    assert set(found.log_likelihood.data_vars) == set(expected)
    for site, values in expected.items():
        assert found.log_likelihood[site].shape == (1, draws, values.shape[1])
        np.testing.assert_allclose(found.log_likelihood[site].values[0], values, rtol=1e-9, atol=1e-9)


@old_arviz
def test_of_several_chains() -> None:
    make, data = CASES["bigram tagger"]
    model = make()
    run = mcmc(model, data, 5, chains=2)
    with arviz_at_work() as az:
        found = az.from_pyro(run)
        ours = pu.to_arviz(run, *data)
    assert found.log_likelihood["words"].shape == (2, 5, 5)
    np.testing.assert_allclose(ours.log_likelihood["words"], found.log_likelihood["words"], rtol=1e-12)
    assert ours.sample_stats["diverging"].values.tolist() == found.sample_stats["diverging"].values.tolist()
    assert ours.sample_stats["diverging"].values.sum() == 2


POSITIVE, REAL, UNIT = dist.Gamma(2.0, 1.0), dist.Normal(0.0, 1.0), dist.Beta(2.0, 2.0)
EMISSIONS: dict[str, dict[str, Any]] = {
    "student_t": {"prior": {"df": POSITIVE, "loc": REAL, "scale": POSITIVE}},
    "gamma": {"prior": {"concentration": POSITIVE, "rate": POSITIVE}},
    "log_normal": {"prior": {"loc": REAL, "scale": POSITIVE}},
    "exponential": {"prior": {"rate": POSITIVE}},
    "von_mises": {"prior": {"loc": REAL, "concentration": POSITIVE}},
    "bernoulli": {"prior": {"probs": UNIT}},
    "geometric": {"prior": {"probs": UNIT}},
    "negative_binomial": {"prior": {"total_count": POSITIVE, "probs": UNIT}},
    "categorical": {"categories": 2},
    "normal": {"dim": 2, "prior": {"loc": REAL, "scale": POSITIVE}},
    "multivariate_normal": {"dim": 2, "covariance": "spherical", "prior": {"loc": REAL, "scale": POSITIVE}},
}


@pytest.mark.parametrize("draws", [4, 6])  # there are four series
@pytest.mark.parametrize("emission", EMISSIONS)
def test_series_of_all_kinds_take_many_draws_at_once(emission: str, draws: int) -> None:
    ones = torch.tensor([[1.0, 0, 1, 1], [0, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]], dtype=torch.float64)
    ones = ones + 0.5 if emission in ("gamma", "log_normal", "exponential") else ones
    data = list(torch.stack([ones, -ones], -1) if "dim" in EMISSIONS[emission] else ones)
    model = pu.models.HMM(2, emission, **EMISSIONS[emission])
    run = mcmc(model, (data,), draws)
    expected = by_hand(model, (data,), run.get_samples())["x"]
    site = Predictive(model, run.get_samples()).get_vectorized_trace(data).nodes["x"]
    torch.testing.assert_close(site["fn"].log_prob(site["value"]), expected, rtol=1e-9, atol=1e-9)
    found = pu.to_arviz(run)
    np.testing.assert_allclose(found["log_likelihood"]["x"].values[0], expected, rtol=1e-9)
    assert found["posterior_predictive"]["x"].shape == (1, draws, *torch.cat(data).shape)


class AllTags(dist.TorchDistribution):
    """A tagger by brute force: the sum over all sequences of tags, written out."""

    arg_constraints: dict[str, Any] = {}  # noqa: RUF012
    support = dist.constraints.integer

    def __init__(self, start: Tensor, transition: Tensor, emission: Tensor) -> None:
        self.tables = start, transition, emission
        super().__init__(start.shape[:-1], torch.Size([3]), validate_args=False)

    def expand(self, batch_shape: Any, _instance: Any = None) -> AllTags:
        return self

    def log_prob(self, words: Tensor) -> Tensor:  # (sentences, 3)
        start, transition, emission = self.tables
        terms = []
        for tags in product(range(2), repeat=3):
            log_p = start[..., tags[0]].log()
            for t in range(3):
                log_p = log_p + emission[..., tags[t], words[:, t]].log()
                if t:
                    log_p = log_p + transition[..., tags[t - 1], tags[t]].log()
            terms.append(log_p)
        return torch.stack(terms).logsumexp(0)


def enumerated(words: Tensor) -> None:
    """The twin of a tagger, in plain Pyro."""
    rows = dist.Dirichlet(torch.ones(2, 2, dtype=torch.float64)).to_event(1)
    start = pyro.sample("start", dist.Dirichlet(torch.ones(2, dtype=torch.float64)))
    transition = pyro.sample("transition", rows)
    emission = pyro.sample("emission", dist.Dirichlet(torch.ones(2, 3, dtype=torch.float64)).to_event(1))
    if start.dim() > 1:  # many draws: the sentences come after them
        start, transition = start.unsqueeze(1), transition.unsqueeze(1)
    with pyro.plate("sentences", len(words)):
        pyro.sample("words", AllTags(start, transition, emission), obs=words)


@old_arviz
def test_nuts_on_our_model_has_the_likelihoods_of_an_enumerated_one() -> None:
    words = torch.tensor([[0, 1, 2], [2, 1, 1], [0, 0, 1], [1, 2, 2]])
    pyro.set_rng_seed(0)
    run = MCMC(NUTS(pu.models.Tagger(2, 3), step_size=0.3, adapt_step_size=False), 12, 4, disable_progbar=True)
    run.run(words.tolist())
    ours = pu.to_arviz(run)
    run.kernel.model, run._args = enumerated, (words,)
    run._samples = {name: x.double() for name, x in run._samples.items()}
    with arviz_at_work() as az:
        theirs = az.from_pyro(run)
    assert ours.log_likelihood["words"].shape == (1, 12, 4)
    np.testing.assert_allclose(ours.log_likelihood["words"], theirs.log_likelihood["words"], rtol=0, atol=1e-9)
    assert ours.posterior["transition"].dims[2:] == ("transition_previous", "transition_tag")


# -- collapsed Gibbs sampling under MCMC

GIBBS = {
    "tagger": (lambda: pu.models.Tagger(2, WORDS.vocab), WORDS),
    "trigram tagger": (lambda: pu.models.Tagger(2, WORDS.vocab, order=2, stop=True), WORDS),
    "clusterer": (lambda: pu.models.Clusterer(2, DOCUMENTS.vocab), DOCUMENTS),
    "segmenter": (lambda: pu.models.Segmenter.of(LETTERS, max_length=4), LETTERS),
}


def gibbs(name: str, **options: Any) -> MCMC:
    make, data = GIBBS[name]
    kernel = pu.CollapsedGibbs(make(), **options)
    run = MCMC(kernel, 6, 2, disable_progbar=True, initial_params=kernel.seeds(0))
    run.run(data)
    return run


@old_arviz
@pytest.mark.parametrize("name", GIBBS)
def test_collapsed_gibbs_hands_out_its_tables(name: str) -> None:
    run = gibbs(name, hyper="shared", keep_tables=True)
    with warnings.catch_warnings(), arviz_at_work() as az:
        warnings.simplefilter("error", UserWarning)
        found = az.from_pyro(run)
    ours = pu.to_arviz(run)
    (site,) = ours.log_likelihood.data_vars
    np.testing.assert_allclose(found.log_likelihood[site], ours.log_likelihood[site], rtol=1e-9)
    assert not found.sample_stats["diverging"].values.any()
    assert {"alpha", "beta", "cluster_sizes", "log_joint"} <= set(ours.posterior.data_vars)
    for table in run.kernel.model.declarations():
        np.testing.assert_allclose(ours.posterior[table].values.sum(-1), 1, rtol=1e-9)


@pytest.mark.parametrize("name", GIBBS)
def test_tables_that_were_not_kept_are_drawn_given_the_labels(name: str) -> None:
    kept, not_kept = gibbs(name, keep_tables=True), gibbs(name)
    assert not set(kept.kernel.model.declarations()) & set(not_kept.get_samples())
    np.testing.assert_array_equal(kept.diagnostics()["labels"]["chain 0"], not_kept.diagnostics()["labels"]["chain 0"])
    found = pu.to_arviz(not_kept)
    (site,) = found.log_likelihood.data_vars
    assert np.isfinite(found.log_likelihood[site]).all()
    model: Any = kept.kernel.model
    for table in model.declarations():
        assert found.posterior[table].shape[:2] == (1, 6)
        np.testing.assert_allclose(found.posterior[table].values.sum(-1), 1, rtol=1e-9)


@old_arviz
def test_without_tables_there_is_no_likelihood_rather_than_that_of_the_prior() -> None:
    run = gibbs("tagger")
    with arviz_at_work() as az:
        warnings.simplefilter("always", UserWarning)
        with pytest.warns(UserWarning, match="log_likelihood group will be omitted"):
            found = az.from_pyro(run)
    assert "log_likelihood" not in found.groups()
    with pytest.raises(pu.UnsupError, match="the draws have no table 'start', which was integrated out"):
        Predictive(run.kernel.model, run.get_samples()).get_vectorized_trace(WORDS)


# -- new data under many draws at once


def certain(*shape: int, at: list[int]) -> Tensor:
    """Rows that are sure of one outcome, another for every draw: (draws, *shape)."""
    found = torch.full((len(at), *shape), 1e-12, dtype=torch.float64)
    for i, k in enumerate(at):
        found[i, ..., k] = 1
    return found / found.sum(-1, keepdim=True)


def even(*shape: int, draws: int) -> Tensor:
    return torch.full((draws, *shape), 1.0 / shape[-1], dtype=torch.float64)


@pytest.mark.parametrize("draws", [2, 3, 5])  # three sentences are drawn
@pytest.mark.parametrize("order", [1, 2])
def test_a_tagger_draws_words_by_each_draw(draws: int, order: int) -> None:
    model, at = pu.models.Tagger(2, 6, order=order), list(range(draws))
    tables = {name: even(*d.layout.shape, draws=draws) for name, d in model.declarations().items()}
    tables["emission"] = certain(2, 6, at=at)
    words = Predictive(model, tables, parallel=True)(None, torch.tensor([2, 4, 1]))["words"]
    assert words.tolist() == [[k] * 7 for k in at]


@pytest.mark.parametrize("draws", [2, 3, 5])
def test_a_dependency_model_draws_tags_by_each_draw(draws: int) -> None:
    model, at = pu.models.DMV(6), list(range(draws))
    tables = {"root": certain(6, at=at), "attach": certain(6, 2, 6, at=at), "stop": even(6, 2, 2, 2, draws=draws)}
    tags = Predictive(model, tables, parallel=True)(None, torch.tensor([2, 4, 1]))["tags"]
    assert tags.tolist() == [[k] * 7 for k in at]


@pytest.mark.parametrize("draws", [2, 3, 5])
def test_a_clusterer_draws_documents_by_each_draw(draws: int) -> None:
    model, at = pu.models.Clusterer(2, 6), list(range(draws))
    tables = {"cluster": even(2, draws=draws), "words": certain(2, 6, at=at)}
    bags = Predictive(model, tables, parallel=True)(None, torch.tensor([2, 4, 1]))["bags"]
    assert bags[..., 0].tolist() == [[k] * 7 for k in at]
    assert bool((bags[..., 1] == 1).all())


@pytest.mark.parametrize("draws", [2, 3, 5])
def test_a_hidden_markov_model_draws_series_by_each_draw(draws: int) -> None:
    model = pu.models.HMM(2, "normal", prior={"loc": dist.Normal(0.0, 1.0), "scale": dist.LogNormal(0.0, 1.0)})
    level = torch.arange(draws, dtype=torch.float64)
    tables = {
        "start": even(2, draws=draws),
        "transition": even(2, 2, draws=draws),
        "loc": level[:, None].expand(draws, 2),
        "scale": torch.full((draws, 2), 1e-6, dtype=torch.float64),
    }
    x = Predictive(model, tables, parallel=True)(None, torch.tensor([2, 4, 1]))["x"]
    torch.testing.assert_close(x, level[:, None].expand(draws, 7), rtol=0, atol=1e-4)


def test_weights_of_their_own_for_every_sentence_draw_no_data() -> None:
    each = torch.zeros(3, 2, 2, 2, 2)
    trees = pu.distributions.Dependency(torch.zeros(3, 2), torch.zeros(3, 2, 2, 2), each, torch.tensor([2, 1, 2]))
    with pytest.raises(pu.StructureError, match="weights that all examples share"):
        trees.sample()
