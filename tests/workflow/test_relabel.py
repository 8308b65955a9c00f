"""Relabelling undoes permutations that were planted, whatever the method, and changes nothing that has no names."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.infer import MCMC, NUTS

import pyro_unsup as pu
from pyro_unsup.errors import UnsupError
from pyro_unsup.results.arviz import as_arviz
from pyro_unsup.workflow import assignment
from pyro_unsup.workflow.assignment import assign, by_ecr, by_stephens
from pyro_unsup.workflow.densities import Densities
from pyro_unsup.workflow.parameters import flat, parameters_of
from pyro_unsup.workflow.relabelled_groups import groups_by_draw, renamed_groups

relabelling = importlib.import_module("pyro_unsup.workflow.relabel")  # the name is also that of the function
METHODS = ("pivot", "ecr", "stephens")


@pytest.mark.parametrize("K", [3, 6])
def test_assignment_is_the_best_of_all_orders(K: int) -> None:
    cost = np.random.default_rng(K).normal(size=(20, K, K))
    every = np.array(list(itertools.permutations(range(K))))
    best = cost[:, np.arange(K), every[:, None]].reshape(20, len(every), K).sum(-1).min(1)
    found = np.take_along_axis(cost, assign(cost)[..., None], 2).sum((1, 2))
    np.testing.assert_allclose(found, best, atol=1e-12)


def divergence(p: Any, orders: Any) -> float:
    """Stephens' loss: the mean of renamed probabilities is the best reference of an order of all draws."""
    renamed = np.take_along_axis(p, np.asarray(orders)[:, None], 2)
    return float((renamed * np.log(renamed / renamed.mean(0))).sum())


@pytest.mark.parametrize("K", [2, 3])
def test_stephens_and_ecr_find_what_enumeration_finds(K: int) -> None:
    """Four draws, all orders of all of them."""
    rng = np.random.default_rng(K)
    truth = np.eye(K)[rng.integers(K, size=12)] * 4
    p = np.exp(truth + rng.normal(size=(4, 12, K)) * 0.7)
    p /= p.sum(-1, keepdims=True)
    for s, order in enumerate(rng.permuted(np.tile(np.arange(K), (4, 1)), axis=1)):
        p[s] = p[s][:, order]
    every = list(itertools.product(itertools.permutations(range(K)), repeat=4))
    start = assign(-np.einsum("nk,snj->skj", p[0], p))
    losses = [divergence(p, orders) for orders in every]
    assert divergence(p, by_stephens(p, start, 50)[0]) == pytest.approx(min(losses), abs=1e-9)

    labels = p.argmax(-1)

    def agreement(orders: Any) -> int:
        names = np.argsort(np.asarray(orders), 1)
        renamed = np.take_along_axis(names, labels, 1)
        return int(sum(np.bincount(column).max() for column in renamed.T))

    assert agreement(by_ecr(labels, K, start, 50)[0]) == max(map(agreement, every))


def test_iteration_mends_a_bad_start() -> None:
    rng = np.random.default_rng(0)
    labels = np.tile(rng.integers(3, size=40), (30, 1))
    names = rng.permuted(np.tile(np.arange(3), (30, 1)), axis=1)
    labels = np.take_along_axis(names, labels, 1)
    identity = np.tile(np.arange(3), (30, 1))
    order, rounds = by_ecr(labels, 3, identity, 50)
    renamed = np.take_along_axis(np.argsort(order, 1), labels, 1)
    assert (renamed == renamed[0]).all()
    assert rounds > 1
    with pytest.raises(UnsupError, match="still changed after 1 iterations"):
        by_ecr(labels, 3, identity, 1)


def test_many_draws_go_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    labels, p = rng.integers(3, size=(50, 9)), rng.dirichlet(np.ones(3), size=(50, 9))
    start = assign(-assignment.overlap(labels, labels[0], 3))
    whole = by_ecr(labels, 3, start, 50)[0], by_stephens(p, start, 50)[0]
    monkeypatch.setattr(assignment, "ROOM", 40)
    np.testing.assert_array_equal(by_ecr(labels, 3, start, 50)[0], whole[0])
    np.testing.assert_array_equal(by_stephens(p, start, 50)[0], whole[1])


def switched(K: int = 4, chains: int = 2, draws: int = 60, N: int = 50) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draws around known parameters, before and after their states were renamed at random."""
    rng = np.random.default_rng(3)
    lead = (chains, draws)
    states = rng.integers(K, size=N)
    p = np.eye(K)[states] * 3 + rng.normal(size=(*lead, N, K)) * 0.3
    p = np.exp(p) / np.exp(p).sum(-1, keepdims=True)
    clean = {
        "loc": np.arange(K) * 2.0 + rng.normal(size=(*lead, K)) * 0.2,
        "transition": rng.dirichlet(np.ones(K + 1) * 2, size=(*lead, K)),  # with a column for the end
        "covariance": rng.normal(size=(*lead, 3, K)),
        "noise": rng.normal(size=lead),
        "p": p,
    }
    order = rng.permuted(np.tile(np.arange(K), (*lead, 1)), axis=-1)
    i, j = np.ogrid[:chains, :draws]
    i, j = i[..., None], j[..., None]
    dirty = dict(clean)
    dirty["loc"] = clean["loc"][i, j, order]
    wide = np.concatenate([order, np.full((*lead, 1), K)], -1)
    dirty["transition"] = clean["transition"][i[..., None], j[..., None], order[..., :, None], wide[..., None, :]]
    dirty["covariance"] = clean["covariance"].swapaxes(-1, -2)[i, j, order].swapaxes(-1, -2)
    dirty["p"] = clean["p"].swapaxes(-1, -2)[i, j, order].swapaxes(-1, -2)
    return clean, dirty


#: Nearly the largest R-hat that two chains can have. Split in halves, two chains that share no value have normal scores
#: with means -m, -m, m, m, m = sqrt(2 / pi), and variance 1 - m^2 within: R-hat = sqrt(1 + 4/3 m^2 / (1 - m^2)) = 1.83.
APART = 1.7
AXES = {"loc": 0, "transition": (0, 1), "covariance": 1}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("K", [2, 4, 6])
def test_planted_permutations_are_undone_on_every_axis(method: Any, K: int) -> None:
    clean, dirty = switched(K)
    p = dirty.pop("p")
    found = pu.relabel(dirty, method, axes=AXES, probabilities=p)
    # One naming of all draws is as good as any other: take the one of the first draw.
    names = [int(np.argmin(np.abs(clean["loc"][0, 0] - x))) for x in found.draws["loc"][0, 0].tolist()]
    np.testing.assert_array_equal(found.draws["loc"], clean["loc"][..., names])
    np.testing.assert_array_equal(found.draws["covariance"], clean["covariance"][..., names])
    moved = clean["transition"][..., names, :][..., [*names, K]]
    np.testing.assert_array_equal(found.draws["transition"], moved)
    np.testing.assert_array_equal(found.draws["noise"], clean["noise"])
    # Names that change at random in every draw give a fine R-hat, of a number that means nothing: its spread shows.
    assert found.table.loc["loc", ["r_hat_before", "r_hat_after"]].max() < 1.1
    assert dirty["loc"].std((0, 1)).min() > 4 * found.draws["loc"].std((0, 1)).max()
    assert found.table.loc["noise", "r_hat_before"] == found.table.loc["noise", "r_hat_after"]
    assert found.renamed > 0.4
    assert method in repr(found)


def test_draws_of_an_arviz_object() -> None:
    _, dirty = switched(2)
    whole = pu.relabel({"loc": dirty["loc"]}, "pivot", axes={"loc": 0})
    again = pu.relabel(whole.to_arviz(), "pivot", axes={"loc": 0})
    torch.testing.assert_close(again.draws["loc"].sort(-1).values, whole.draws["loc"].sort(-1).values)
    assert again.renamed == 0


def hmm() -> Any:
    return pu.models.HMM(2, "normal", prior={"loc": dist.Normal(0.0, 5.0), "scale": dist.LogNormal(0.0, 0.5)})


@pytest.fixture(scope="module")
def nuts() -> Any:
    before = torch.get_default_dtype()  # a fixture of a module comes before that of its tests
    torch.set_default_dtype(torch.float64)
    pyro.set_rng_seed(1)
    x = torch.cat([torch.randn(12) - 2, torch.randn(12) + 2])
    mcmc = MCMC(NUTS(hmm()), num_samples=40, warmup_steps=40, disable_progbar=True)
    mcmc.run(x)
    torch.set_default_dtype(before)
    return mcmc, x


@pytest.mark.parametrize("method", METHODS)
def test_nuts_on_an_hmm(nuts: Any, method: Any) -> None:
    mcmc, x = nuts
    one = mcmc.get_samples(group_by_chain=True)
    flipped = {name: v.flip(2) for name, v in one.items()}
    flipped["transition"] = one["transition"].flip(2, 3)
    both = {name: torch.cat([v, flipped[name]]) for name, v in one.items()}
    found = pu.relabel(both, method, model=hmm(), data=x)
    for name, v in found.draws.items():
        torch.testing.assert_close(v[0], v[1])
        assert name in found.table.index
    assert found.table["r_hat_before"].max() > APART
    # Both chains are the same one now, and what is left of R-hat is the drift between its halves.
    assert found.table.loc["loc", "r_hat_after"] < found.table.loc["loc", "r_hat_before"] / 1.3
    density = Densities(hmm(), (x,))
    torch.testing.assert_close(density.log_likelihood(flat(found.draws)), density.log_likelihood(flat(both)))
    alone = pu.relabel(mcmc, method)  # which knows its model and its data
    assert alone.draws["loc"].shape == one["loc"].shape


@pytest.mark.parametrize(("method", "order"), [("pivot", 1), ("ecr", 1), ("ecr", 2), ("stephens", 1)])
def test_samples_of_a_tagger(method: Any, order: int) -> None:
    corpus = pu.data.toy.sentences(15, seed=1)
    model = pu.models.Tagger(tags=3, vocab=corpus.vocab, order=order, stop=True)
    samples = pu.CollapsedGibbs(model, hyper="separate").run(
        corpus, sweeps=40, burn_in=20, chains=3, progress=False, parallel=1
    )
    found = pu.relabel(samples, method)
    new = found.samples
    assert new is not None
    assert samples.relabel(method).order.tolist() == found.order.tolist()
    old_names = np.take_along_axis(found.order, new.labels.astype(int), -1)
    np.testing.assert_array_equal(old_names, samples.labels)  # one permutation a draw, and nothing else
    np.testing.assert_array_equal(np.take_along_axis(samples.draws["beta"], found.order, -1), new.draws["beta"])
    for name in ("best", "last"):
        for a, b in zip(getattr(new, name), getattr(samples, name), strict=True):
            assert pu.evaluate.variation_of_information(a, b) == pytest.approx(0, abs=1e-12)
    density = Densities(model, (corpus,))
    before = density.log_likelihood(flat(parameters_of(samples)))
    torch.testing.assert_close(density.log_likelihood(flat(found.draws)), before)


def test_counts_of_tokens_go_with_their_labels() -> None:
    corpus = pu.data.toy.sentences(15, seed=1)
    model = pu.models.Tagger(tags=3, vocab=corpus.vocab)
    samples = pu.CollapsedGibbs(model, hyper="separate").run(corpus, sweeps=30, burn_in=10, chains=2, progress=False)
    found = pu.relabel(samples, "ecr")
    assert found.samples is not None
    counts = np.stack([[np.bincount(z, minlength=3) for z in chain] for chain in found.samples.labels])
    np.testing.assert_array_equal(found.draws["token_counts"], counts)
    np.testing.assert_array_equal(found.samples.token_counts, counts)
    group = found.to_arviz()["posterior"]
    assert group["token_counts"].dims == group["beta"].dims == ("chain", "draw", "tag")
    assert group["emission"].dims == ("chain", "draw", "emission_tag", "emission_word")
    np.testing.assert_array_equal(group["token_counts"], counts)
    # The same of an ArviZ object of these samples: every variable and every group that is by draw.
    whole = pu.to_arviz(samples, corpus)
    again = pu.relabel(whole, "ecr", model=model, data=corpus, allocations=samples.labels)
    assert again.order.tolist() == found.order.tolist()
    moved = again.to_arviz()
    np.testing.assert_array_equal(moved["posterior"]["token_counts"], counts)
    np.testing.assert_array_equal(moved["posterior"]["cluster_sizes"], whole["posterior"]["cluster_sizes"])
    np.testing.assert_array_equal(moved["posterior"]["beta"], found.draws["beta"])
    np.testing.assert_array_equal(moved["log_likelihood"]["words"], whole["log_likelihood"]["words"])


def test_recovered_states_go_with_their_names(nuts: Any) -> None:
    mcmc, x = nuts
    whole = groups_by_draw(pu.to_arviz(mcmc, groups=["posterior"]))
    hidden = groups_by_draw(pu.recover(mcmc, None, x, how=["sample", "mode", "marginals"]))
    both = as_arviz({**whole, **hidden})
    order = np.random.default_rng(0).permuted(np.tile([0, 1], (1, 40, 1)), axis=-1)
    dirty = as_arviz(renamed_groups({**whole, **hidden}, {"loc": (0,), "transition": (0, 1)}, order))
    assert not np.array_equal(dirty["posterior"]["loc"], both["posterior"]["loc"])
    for data in (both, dirty):
        state = data["recovered"]["sample"].values.astype(int)
        level = np.take_along_axis(data["posterior"]["loc"].values, state, -1)  # the level of every observation
        found = pu.relabel(data, "pivot").to_arviz()
        new = np.take_along_axis(found["posterior"]["loc"].values, found["recovered"]["sample"].values.astype(int), -1)
        np.testing.assert_array_equal(new, level)
        p, q = data["recovered"]["marginals"].values, found["recovered"]["marginals"].values
        mean = np.einsum("cdtk,cdk->cdt", p, data["posterior"]["loc"].values)
        np.testing.assert_allclose(np.einsum("cdtk,cdk->cdt", q, found["posterior"]["loc"].values), mean, rtol=1e-12)


def test_two_chains_under_other_names_agree_after_relabelling() -> None:
    texts = [[0, 1, 0, 0, 1], [0, 0, 1, 1], [2, 3, 3, 2], [3, 2, 2, 3]] * 4
    model = pu.models.Clusterer(clusters=2, vocab=4)
    start = np.tile([0, 0, 1, 1], 4)
    runs = [
        pu.CollapsedGibbs(model).run(texts, sweeps=80, burn_in=20, seed=seed, initial=labels, progress=False)
        for seed, labels in enumerate([start, 1 - start])
    ]
    both = {name: torch.cat([parameters_of(run)[name] for run in runs]) for name in ("cluster", "words")}
    labels = np.concatenate([run.labels for run in runs])
    assert (labels[0] != labels[1]).mean() > 0.9
    found = pu.relabel(both, "ecr", axes={"cluster": 0, "words": 0}, allocations=labels)
    assert found.table.loc["words", "r_hat_before"] > APART
    assert found.table.loc["words", "r_hat_after"] < 1.1
    assert found.table.loc["words", "ess_after"] > 5 * found.table.loc["words", "ess_before"]


def test_too_many_probabilities_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relabelling, "LIMIT", 100)
    samples = pu.CollapsedGibbs(pu.models.Tagger(2, 3)).run([[0, 1, 2], [1, 1]], sweeps=40, progress=False)
    with pytest.raises(UnsupError, match="use method='ecr'"):
        pu.relabel(samples, "stephens")
    assert pu.relabel(samples, "ecr").rounds >= 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda x: pu.relabel({"x": x}, "greedy", axes={"x": 0}), "method must be one of pivot, ecr, stephens"),
        (lambda x: pu.relabel({"x": x}), "axes={'loc': 0, 'transition'"),
        (lambda x: pu.relabel({"x": x}, axes={"y": 0}), "'y', which the draws do not have"),
        (lambda x: pu.relabel({"x": x}, axes={"x": 1}), "none of the 1 axes after"),
        (lambda x: pu.relabel({"x": x}, "ecr", axes={"x": 0}), "give model and data, or allocations"),
        (lambda x: pu.relabel({"x": x}, "pivot", axes={"x": 0}, pivot=(0, 99)), "a chain and a draw below"),
        (lambda x: pu.relabel({"x": x}, axes={"x": 0}, allocations=np.zeros((1, 2))), "should begin with the axes"),
        (lambda x: pu.relabel({"x": x, "y": x[:, :3]}, axes={"x": 0}), "the same of all parameters"),
        (lambda x: pu.relabel({}, axes={"x": 0}), "there are no draws"),
        (lambda x: pu.relabel(3, axes={"x": 0}), "expected draws"),
        (lambda x: pu.relabel({"x": x, "y": x.repeat(3, -1)}, axes={"x": 0, "y": 0}), "one size"),
    ],
)
def test_refused(call: Any, says: str) -> None:
    with pytest.raises(UnsupError) as error:
        call(np.random.default_rng(0).normal(size=(2, 5, 2)))
    assert says in str(error.value)


def test_states_that_a_dictionary_tells_apart_are_not_relabelled() -> None:
    model = pu.models.Tagger(tags=2, vocab=3, dictionary=torch.tensor([[1, 1, 0], [0, 1, 1]]))
    samples = pu.CollapsedGibbs(model).run([[0, 1, 2], [1, 1]], sweeps=10, progress=False)
    with pytest.raises(UnsupError, match="not exchangeable"):
        pu.relabel(samples)
