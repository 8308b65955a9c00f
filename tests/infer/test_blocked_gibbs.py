"""Gibbs sampling of whole models: against posteriors that are enumerated, or integrated on a grid."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from arviz import ess
from pyro.infer import MCMC
from scipy import special, stats
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.errors import FitError
from pyro_unsup.infer.slice_sampling import slice_sample
from pyro_unsup.models import DMV, HMM, Tagger


def drawn(model: Any, *data: Any, number: int = 800, seed: int = 0) -> dict[str, Tensor]:
    pyro.set_rng_seed(seed)
    mcmc = MCMC(pu.BlockedGibbs(model), num_samples=number, warmup_steps=50, disable_progbar=True)
    mcmc.run(*data)
    return mcmc.get_samples()


def assert_mean(draws: Tensor, expected: float) -> None:
    """That a mean is right within 4.5 standard errors."""
    x = draws.double().numpy()
    error = x.std() / math.sqrt(float(ess(x[None])))
    assert abs(x.mean() - expected) < 4.5 * error + 1e-9, (x.mean(), expected, error)


def test_a_poisson_hmm_against_all_its_paths() -> None:
    x, a, b = np.array([1.0, 0.0, 6.0, 7.0]), 2.0, 0.5
    start = transition = 1.0  # concentrations
    model = HMM(2, "poisson", prior={"rate": dist.Gamma(torch.tensor(a).double(), torch.tensor(b).double())})
    paths, logs, firsts, stays, largest = [], [], [], [], []
    for path in itertools.product(range(2), repeat=len(x)):
        z, moves = np.array(path), np.zeros((2, 2))
        np.add.at(moves, (z[:-1], z[1:]), 1)
        log = math.log(start / (2 * start)) + sum(
            special.gammaln(2 * transition) - special.gammaln(2 * transition + row.sum())
            + sum(special.gammaln(transition + n) - special.gammaln(transition) for n in row)
            for row in moves
        )  # fmt: skip
        shapes = np.array([a + x[z == k].sum() for k in range(2)])
        rates = np.array([b + (z == k).sum() for k in range(2)])
        log += sum(special.gammaln(s) - s * math.log(r) for s, r in zip(shapes, rates, strict=True))
        paths.append(path)
        logs.append(log)
        firsts.append((1 + (z[0] == 0)) / 3)
        stays.append(((transition + moves.diagonal()) / (2 * transition + moves.sum(1))).sum())
        largest.append((shapes / rates).sum())
    p = special.softmax(logs)
    found = drawn(model, torch.as_tensor(x), number=1500)
    assert_mean(found["transition"].diagonal(dim1=-2, dim2=-1).sum(-1), float(p @ stays))
    assert_mean(found["rate"].sum(-1), float(p @ largest))
    assert_mean(found["start"][:, 0], float(p @ firsts))


def test_a_tagger_against_all_its_tags() -> None:
    sentences, model = [[0, 1], [1, 1, 0]], Tagger(tags=2, vocab=2, prior=0.7)
    words = [w for sentence in sentences for w in sentence]
    prior = {name: float(d.prior) for name, d in model.declarations().items()}
    logs, same = [], []
    for path in itertools.product(range(2), repeat=len(words)):
        counts = {"start": np.zeros((1, 2)), "transition": np.zeros((2, 2)), "emission": np.zeros((2, 2))}
        at = 0
        for sentence in sentences:
            z = path[at : at + len(sentence)]
            at += len(sentence)
            counts["start"][0, z[0]] += 1
            np.add.at(counts["transition"], (z[:-1], z[1:]), 1)
            np.add.at(counts["emission"], (z, sentence), 1)
        log = 0.0
        for name, table in counts.items():
            alpha = prior[name]
            for row in table:
                log += special.gammaln(2 * alpha) - special.gammaln(2 * alpha + row.sum())
                log += sum(special.gammaln(alpha + n) - special.gammaln(alpha) for n in row)
        logs.append(log)
        n = counts["emission"]
        same.append(((prior["emission"] + n[:, 0]) / (2 * prior["emission"] + n.sum(1))).sum())
    found = drawn(model, sentences, number=1500)
    assert_mean(found["emission"][..., 0].sum(-1), float(special.softmax(logs) @ same))


def test_scales_by_slice_sampling_against_a_grid() -> None:
    x = torch.tensor([0.3, -1.2, 2.0, 0.7, 1.1]).double()
    model = HMM(1, "normal", prior={"loc": dist.Normal(0.0, 3.0), "scale": dist.HalfNormal(2.0)})
    loc, scale = np.meshgrid(np.linspace(-6, 6, 801), np.linspace(0.02, 10, 800), indexing="ij")
    log = stats.norm.logpdf(loc, 0, 3) + stats.halfnorm.logpdf(scale, 0, 2)
    log += sum(stats.norm.logpdf(float(one), loc, scale) for one in x)
    p = special.softmax(log)
    found = drawn(model, x, number=1500)
    assert_mean(found["loc"][:, 0], float((p * loc).sum()))
    assert_mean(found["scale"][:, 0], float((p * scale).sum()))
    assert_mean(found["scale"][:, 0] ** 2, float((p * scale**2).sum()))


@pytest.mark.parametrize("family", ["exponential", "bernoulli"])
def test_other_conjugate_families(family: str) -> None:
    x = torch.tensor([1.0, 0.0, 1.0, 1.0]).double() if family == "bernoulli" else torch.tensor([0.5, 2.0, 0.1]).double()
    name = "probs" if family == "bernoulli" else "rate"
    prior = dist.Beta(2.0, 3.0) if family == "bernoulli" else dist.Gamma(2.0, 3.0)
    found = drawn(HMM(1, family, prior={name: prior}), x, number=1000)[name][:, 0]
    exact = stats.beta(2 + 3, 3 + 1) if family == "bernoulli" else stats.gamma(2 + 3, scale=1 / (3 + 2.6))
    assert_mean(found, exact.mean())
    assert stats.kstest(found.numpy(), exact.cdf).pvalue > 1e-4  # draws of one block are independent


def test_trees_and_enumerated_variables_run_too() -> None:
    tags = [[0, 1, 1], [1, 0]]
    found = drawn(DMV(tags=2), tags, number=5)
    assert all(bool(x.isfinite().all()) for x in found.values())

    def mixture(x: Tensor) -> None:
        share = pu.table("share", 2)
        mean = pyro.sample("mean", dist.Normal(torch.zeros(2), 5.0).to_event(1))
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("x", dist.Normal(mean[z], 1.0), obs=x)

    x = torch.cat([torch.randn(30) - 3, torch.randn(30) + 3]).double()
    means = drawn(mixture, x, number=60)["mean"].sort(-1).values
    torch.testing.assert_close(means.mean(0), torch.tensor([-3.0, 3.0]).to(means), atol=0.6, rtol=0)


def test_parameters_of_enumerated_variables_follow_the_draws() -> None:
    """A mixture of normals with unknown means, against the sum over all classes of all observations."""
    x = torch.tensor([-0.4, 0.3, 1.1, 0.2])

    def mixture(x: Tensor) -> None:
        share = pu.table("share", 2, prior=2.0)
        with pyro.plate("classes", 2):
            mean = pyro.sample("mean", dist.Normal(torch.tensor([-1.0, 1.0]), 0.7))
        with pyro.plate("data", len(x)):
            kind = pyro.sample("kind", pu.Categorical(share))
            pyro.sample("x", dist.Normal(mean[kind], 0.8), obs=x)

    weights, means = [], []
    for kinds in itertools.product((0, 1), repeat=len(x)):
        z, w, each = np.array(kinds), 0.0, []
        w += math.lgamma(2 + (z == 0).sum()) + math.lgamma(2 + (z == 1).sum())
        for k, loc in enumerate((-1.0, 1.0)):
            own = x.numpy()[z == k]
            cov = 0.64 * np.eye(len(own)) + 0.49
            w += stats.multivariate_normal(np.full(len(own), loc), cov).logpdf(own) if len(own) else 0.0
            each.append((loc / 0.49 + own.sum() / 0.64) / (1 / 0.49 + len(own) / 0.64))
        weights.append(w)
        means.append(each)
    p = np.exp(np.array(weights) - max(weights))
    wanted = (p / p.sum()) @ np.array(means)
    found = drawn(mixture, x, number=1000)["mean"]
    for k in range(2):
        assert_mean(found[:, k], wanted[k])


def test_the_same_seed_gives_the_same_draws() -> None:
    model, x = HMM(2, "poisson", prior={"rate": dist.Gamma(2.0, 0.5)}), torch.tensor([1.0, 0.0, 6.0, 7.0])
    first, again, other = (drawn(model, x, number=5, seed=seed)["rate"] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_what_it_cannot_sample_is_refused() -> None:
    with pytest.raises(FitError, match=r"samples what has a prior, and pyro\.param has none: loc, scale"):
        drawn(HMM(2), torch.randn(5))

    def hierarchical(x: Tensor) -> None:
        top = pyro.sample("top", dist.Normal(0.0, 1.0))
        mean = pyro.sample("mean", dist.Normal(top, torch.ones(2)).to_event(1))
        share = pu.table("share", 2)
        with pyro.plate("data", len(x)):
            z = pyro.sample("z", pu.Categorical(share))
            pyro.sample("x", dist.Normal(mean[z], 1.0), obs=x)

    with pytest.raises(FitError, match=r"'top' is used in another way: sample the model with pyro\.infer\.NUTS"):
        drawn(hierarchical, torch.randn(5))


def test_slices_have_the_density() -> None:
    torch.manual_seed(0)
    x = torch.zeros(3000).double()
    gamma = torch.distributions.Gamma(3.0, 1.0)
    for _ in range(30):  # of the log of a gamma variable
        x = slice_sample(lambda u: gamma.log_prob(u.exp()) + u, x)
    assert stats.kstest(x.exp().numpy(), stats.gamma(3.0).cdf).pvalue > 1e-3


def test_without_data_all_parameters_have_their_priors() -> None:
    model = HMM(4, "normal", prior={"loc": dist.Normal(0.0, 1.0), "scale": dist.LogNormal(0.0, 0.7)})
    logs = drawn(model, torch.full((3,), torch.nan).double(), number=600)["scale"].log()
    for k in range(4):
        assert_mean(logs[:, k], 0.0)
        assert_mean(logs[:, k] ** 2, 0.49)


def test_a_start_may_be_given_and_vectors_are_refused() -> None:
    model, x = HMM(2, "poisson", prior={"rate": dist.Gamma(2.0, 0.5)}), torch.tensor([1.0, 0.0, 6.0, 7.0])
    start = {"rate": torch.tensor([0.5, 6.0])}
    mcmc = MCMC(pu.BlockedGibbs(model), num_samples=3, warmup_steps=0, initial_params=start, disable_progbar=True)
    mcmc.run(x)
    mcmc = MCMC(pu.BlockedGibbs(model), 3, 0, initial_params={"rates": torch.ones(2)}, disable_progbar=True)
    with pytest.raises(FitError, match="initial_params has 'rates', expected some of"):
        mcmc.run(x)
    vectors = HMM(2, "multivariate_normal", dim=2, prior={"loc": dist.Normal(torch.zeros(2), 1.0).to_event(1)})
    with pytest.raises(FitError, match=r"'loc' is used in another way|pyro\.param has none"):
        drawn(vectors, torch.randn(6, 2).double(), number=2)


def test_slices_that_are_wider_than_the_limit_are_exact_too() -> None:
    torch.manual_seed(0)
    x = 40 * torch.randn(4000).double()
    for _ in range(30):
        x = slice_sample(lambda u: -0.5 * (u / 40) ** 2, x)
    assert stats.kstest((x / 40).numpy(), stats.norm.cdf).pvalue > 1e-3
