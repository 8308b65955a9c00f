"""The bound of weights that every example has of its own: it never falls, and is that of enumeration and quadrature."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal, kl_divergence

import pyro_unsup as pu
from pyro_unsup.distributions import Dependency
from pyro_unsup.estimate.normal.empirical_normal import JITTER
from pyro_unsup.infer import hierarchical, own_weights
from pyro_unsup.models import DMV

from ..distributions.dependency_case import enumerate_trees
from .hierarchical_cases import CASES, LABELS, TOGETHER, covariances, objectives, run

every = pytest.mark.parametrize(("model", "data"), CASES.values(), ids=CASES)


@every
@covariances
def test_the_bound_never_falls(model: Any, data: Any, covariance: Any) -> None:
    fit = run(model, data, 8, covariance=covariance, strict=True)
    bounds = objectives(fit)
    assert all(b >= a - 1e-8 * abs(a) for a, b in itertools.pairwise(bounds))
    assert bounds[-1] > bounds[0]


STARTS: dict[str, Any] = {
    "matrix": (0.6 * np.eye(4) + 0.4).tolist(),
    "variances": np.linspace(0.3, 2, 4),
    "families": LABELS,
}


@pytest.mark.parametrize("covariance", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize("name", ["trees", "bigram", "trigram with a dictionary", "documents", "links"])
def test_it_never_falls_from_a_covariance_of_ones_own(name: str, covariance: Any) -> None:
    model, data = CASES[name]
    if name == "links" and not isinstance(covariance, dict):
        return  # no table has four outcomes
    bounds = objectives(run(model, data, 8, covariance=covariance, strict=True, variance=2.0, within=0.7))
    assert all(b >= a - 1e-8 * abs(a) for a, b in itertools.pairwise(bounds))
    assert bounds[-1] > bounds[0]


@pytest.mark.parametrize("rounds", [3])
@pytest.mark.parametrize("name", ["trees", "links"])
def test_more_rounds_raise_it_further_in_an_iteration(name: str, rounds: int) -> None:
    model, data = CASES[name]
    one, more = run(model, data, 5), run(model, data, 5, rounds=rounds, strict=True)
    bounds = objectives(more)
    assert all(b >= a - 1e-8 * abs(a) for a, b in itertools.pairwise(bounds))
    assert bounds[1] > objectives(one)[1]


@pytest.mark.parametrize(("model", "data"), TOGETHER.values(), ids=TOGETHER)
def test_examples_together_are_examples_one_by_one(model: Any, data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    together = run(model, data)
    monkeypatch.setattr(own_weights, "TOGETHER", 2)  # of five: the last is alone
    some = run(model, data)
    monkeypatch.setattr(type(model), "own_weights", False)
    alone = run(model, data)
    for other in (some, alone):
        np.testing.assert_allclose(objectives(other), objectives(together), rtol=1e-11)
        for key, x in together.memory.items():
            torch.testing.assert_close(other.memory[key], x, rtol=1e-7, atol=1e-9)


def even(length: int) -> Dependency:
    return Dependency(torch.zeros(2), torch.zeros(2, 2, 2), torch.zeros(2, 2, 2, 2), torch.tensor([length]))


class Oracle:
    """Two tags, so that every row has two outcomes: sums over all trees, integrals by quadrature."""

    def __init__(self, sentences: list[list[int]]) -> None:
        self.sentences = sentences
        self.trees = [  # by sentence and tree, the counts of every table
            enumerate_trees(even(len(tags)), tags).counts for tags in sentences
        ]

    @staticmethod
    def gaussians(fit: pu.Fit, name: str) -> list[tuple[Tensor, Tensor]]:
        """The prior of every row."""
        mean, covariance = fit.memory[f"{name}.mean"].reshape(-1, 2), fit.memory[f"{name}.covariance"]
        whole = torch.diag_embed(covariance.reshape(-1, 2)) if covariance.dim() == 1 else covariance
        return list(zip(mean, whole, strict=True))

    def log_evidence(self, fit: pu.Fit) -> float:
        points, weights = (torch.from_numpy(x) for x in np.polynomial.hermite_e.hermegauss(100))
        logs = {}
        for name in fit.weights:
            for row, (mean, S) in enumerate(self.gaussians(fit, name)):
                logit = mean[0] - mean[1] + (S[0, 0] + S[1, 1] - 2 * S[0, 1]).sqrt() * points
                logs[name, row] = torch.nn.functional.logsigmoid(torch.stack([logit, -logit]))
        log_weights = weights.log() - 0.5 * math.log(2 * math.pi)

        def tree(counts: dict[str, Tensor]) -> float:
            rows = [(logs[name, row], f) for name, x in counts.items() for row, f in enumerate(x.reshape(-1, 2))]
            return sum(float((f @ each + log_weights).logsumexp(0)) for each, f in rows if float(f.sum()))

        return sum(float(torch.tensor([tree(one) for one in trees]).logsumexp(0)) for trees in self.trees)

    def bound(self, fit: pu.Fit) -> float:
        """Spelled out: log Z of every sentence under its psi, minus divergences, minus what keeps covariances."""
        total = 0.0
        psi: list[dict[str, Tensor]] = [
            {name: torch.zeros(w.shape) for name, w in fit.weights.items()} for _ in self.trees
        ]
        for name in fit.weights:
            priors, state = self.gaussians(fit, name), {key: fit.state[f"{name}.{key}"] for key in ("examples", "rows")}
            m, s2 = (fit.state[f"{name}.{key}"].reshape(-1, 2) for key in ("mean", "variance"))
            for example, row, mine, spread in zip(*state.values(), m, s2, strict=True):
                mean, S = priors[row]
                q = MultivariateNormal(mine, spread.diag())
                total -= float(kl_divergence(q, MultivariateNormal(mean, S)))
                total -= 0.5 * JITTER * float(torch.linalg.inv(S).trace())
                psi[example][name].view(-1, 2)[row] = mine - (mine + spread / 2).logsumexp(0)
        for own, trees in zip(psi, self.trees, strict=True):
            scores = [sum(float((own[name] * f).sum()) for name, f in one.items()) for one in trees]
            total += float(torch.tensor(scores).logsumexp(0))
        return total

    def used(self, name: str) -> set[tuple[int, int]]:
        return {
            (example, int(row))
            for example, trees in enumerate(self.trees)
            for one in trees
            for row in one[name].reshape(-1, 2).sum(-1).nonzero().flatten()
        }


TWO_TAGS = [[0, 1, 0], [1], [1, 1, 0, 1]]


@covariances
@pytest.mark.parametrize("iterations", [0, 3])
def test_the_objective_is_the_bound_and_pairs_are_those_that_some_tree_uses(covariance: Any, iterations: int) -> None:
    fit, oracle = run(DMV(2), TWO_TAGS, iterations, covariance=covariance, variance=0.7), Oracle(TWO_TAGS)
    assert fit.objective == pytest.approx(oracle.bound(fit), rel=1e-9)
    for name in fit.weights:
        pairs = zip(fit.state[f"{name}.examples"].tolist(), fit.state[f"{name}.rows"].tolist(), strict=True)
        assert set(pairs) == oracle.used(name)


@covariances
def test_the_bound_is_below_the_exact_evidence(covariance: Any) -> None:
    oracle = Oracle(TWO_TAGS)
    for iterations in (0, 1, 2, 10):
        fit = run(DMV(2), TWO_TAGS, iterations, covariance=covariance)
        assert fit.objective < oracle.log_evidence(fit)


def test_the_bound_is_near_the_exact_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its best for priors that stay as they are: the nearer, the less weights vary. Weights with variance v sum to
    exp(-v / 2) or more, so a choice loses no more than that."""
    monkeypatch.setattr(hierarchical, "reestimated", lambda prior, pairs, posterior: prior)
    oracle = Oracle(TWO_TAGS)
    choices = sum(float(x.sum()) for trees in oracle.trees for x in trees[0].values())  # as many in any tree
    assert choices == 4 * 8 - 3
    for variance in (1e-3, 0.1, 1.0):
        fit = run(DMV(2), TWO_TAGS, 20, variance=variance)
        cost = JITTER / variance * sum(len(x) for key, x in fit.state.items() if key.endswith(".rows"))
        assert 0 < oracle.log_evidence(fit) - (fit.objective + cost) < 0.5 * variance * choices


@pytest.mark.parametrize("name", ["trees", "bigram", "links"])
def test_without_variance_it_is_the_likelihood(name: str) -> None:
    model, data = CASES[name]
    start = pu.init.noise(1.0)
    likelihood = pu.EM(model, init=start).run(data, iterations=0).objective
    fit = run(model, data, 0, init=start, variance=1e-11)
    assert fit.rows[0]["log_likelihood"] == pytest.approx(likelihood, abs=1e-8)


def test_short_sentences_of_newspaper_text(real_data: Path) -> None:
    corpus = pu.data.short_tag_sequences(pu.data.read_conllu(real_data / "wsj_nltk_dep.conll.xz"), 10)
    model = DMV.of(corpus)
    fit = run(model, corpus, 5, init=model.harmonic_start(corpus))
    bounds = objectives(fit)
    assert all(b > a for a, b in itertools.pairwise(bounds))
    assert fit.evaluate(corpus, how="mbr")["directed"] > 0.3
