"""Estimates of the evidence cover its exact value: of conjugate models, and of enumeration over all structures."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup.errors import UnsupError
from pyro_unsup.workflow.densities import Densities

SENTENCES = [[0, 1, 1], [1, 0], [0, 0, 1]]
DOCUMENTS = [[0, 0, 1], [0, 0], [1, 1, 1], [1, 0, 0, 0]]
X = torch.tensor([1.2, 0.3, 2.2, 1.9])


def rows(counts: Tensor, alpha: float) -> Tensor:
    """log E[prod theta^counts] of Dirichlet rows."""
    n = counts.shape[-1]
    whole = math.lgamma(n * alpha) - torch.lgamma(counts.sum(-1) + n * alpha)
    return (whole + (torch.lgamma(counts + alpha) - math.lgamma(alpha)).sum(-1)).sum()


def exact_tagger(K: int, alpha: float = 1.0, sentences: Any = SENTENCES) -> float:
    """All tags of all sentences, with the tables integrated out."""
    words = list(itertools.chain(*sentences))
    found = []
    for tags in itertools.product(range(K), repeat=len(words)):
        start, step, emit = torch.zeros(K), torch.zeros(K, K), torch.zeros(K, 2)
        at = 0
        for sentence in sentences:
            own = tags[at : at + len(sentence)]
            start[own[0]] += 1
            for a, b in itertools.pairwise(own):
                step[a, b] += 1
            for tag, word in zip(own, sentence, strict=True):
                emit[tag, word] += 1
            at += len(sentence)
        found.append(sum(rows(counts, alpha) for counts in (start, step, emit)))
    return float(torch.stack(found).logsumexp(0))  # type: ignore[arg-type]


def exact_clusterer(K: int) -> float:
    found = []
    for clusters in itertools.product(range(K), repeat=len(DOCUMENTS)):
        share, words = torch.zeros(K), torch.zeros(K, 2)
        for k, document in zip(clusters, DOCUMENTS, strict=True):
            share[k] += 1
            for word in document:
                words[k, word] += 1
        found.append(rows(share, 1.0) + rows(words, 1.0))
    return float(torch.stack(found).logsumexp(0))


def normal(x: Tensor) -> None:
    mean = pyro.sample("mean", dist.Normal(0.0, 3.0))
    with pyro.plate("data", len(x)):
        pyro.sample("x", dist.Normal(mean, 0.5), obs=x)


def exact_normal() -> float:
    return float(dist.MultivariateNormal(torch.zeros(4), 0.25 * torch.eye(4) + 9.0).log_prob(X))


def enumerated(x: Tensor) -> None:
    """A clusterer of single words, whose clusters Pyro enumerates."""
    share, words = pu.table("share", 2), pu.table("words", 2, 2)
    with pyro.plate("data", len(x)):
        k = pyro.sample("k", pu.Categorical(share))
        pyro.sample("x", pu.Categorical(words[k]), obs=x)


def exact_enumerated() -> float:
    found = []
    for clusters in itertools.product(range(2), repeat=4):
        share, words = torch.zeros(2), torch.zeros(2, 2)
        for k, word in zip(clusters, [0, 0, 1, 0], strict=True):
            share[k] += 1
            words[k, word] += 1
        found.append(rows(share, 1.0) + rows(words, 1.0))
    return float(torch.stack(found).logsumexp(0))


CASES: dict[str, tuple[Callable[..., Any], Any, Callable[[], float]]] = {
    "tagger": (pu.models.Tagger(2, 2), SENTENCES, lambda: exact_tagger(2)),
    "sparse tagger": (pu.models.Tagger(2, 2, prior=0.3), SENTENCES, lambda: exact_tagger(2, 0.3)),
    "clusterer": (pu.models.Clusterer(3, 2), DOCUMENTS, lambda: exact_clusterer(3)),
    "normal": (normal, X, exact_normal),
}


def mostly_deep(case: str, method: str) -> Any:
    slow = case == "sparse tagger" or (method == "ais" and case != "normal")
    return pytest.param(case, method, marks=pytest.mark.deep) if slow else (case, method)


@pytest.mark.parametrize(
    ("case", "method"), [mostly_deep(case, method) for case in CASES for method in ("stones", "ais")]
)
def test_estimates_cover_the_exact_value(case: str, method: Any) -> None:
    model, data, oracle = CASES[case]
    right = oracle()
    particles = 400 if method == "stones" else 200
    found = [
        pu.evidence(model, data, method=method, particles=particles, moves=1, seed=seed, progress=False)
        for seed in range(3)
    ]
    z = np.array([(one.log - right) / one.se for one in found])
    assert np.abs(z).max() < 4
    assert abs(z.mean()) < 4 / math.sqrt(len(z))
    assert all(one.se < 0.3 and one.reliable for one in found)
    assert found[0].temperatures[-1] == 1


def test_enumerated_variables_are_summed_out() -> None:
    found = pu.evidence(enumerated, torch.tensor([0, 0, 1, 0]), particles=40, moves=1, leaps=3, progress=False)
    assert abs(found.log - exact_enumerated()) < 4 * found.se


def test_a_bayes_factor_prefers_the_right_model() -> None:
    x = [[0, 0, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1, 1], [1, 1, 1, 1]]
    one, two = (pu.evidence(pu.models.Clusterer(k, 2), x, progress=False) for k in (1, 2))
    log, se = two.bayes_factor(one)
    assert log > 3 * se
    assert "log evidence" in repr(two)


def test_a_model_of_one_state_has_nothing_to_move_in_its_chain() -> None:
    hmm = pu.models.HMM(1, "normal", prior={"loc": dist.Normal(0.0, 3.0), "scale": dist.LogNormal(-0.69, 0.01)})
    found = pu.evidence(hmm, X, particles=200, progress=False)
    assert abs(found.log - exact_normal()) < 4 * found.se + 0.02


def test_the_same_seed_the_same_estimate() -> None:
    first, again, other = (pu.evidence(normal, X, particles=50, seed=s, progress=False) for s in (1, 1, 2))
    assert first == again
    assert first != other
    more = pu.evidence(normal, X, particles=50, temperatures=20, progress=False)
    assert len(more.temperatures) == 21


def test_densities_of_many_draws_are_those_of_each() -> None:
    hmm = pu.models.HMM(2, "normal", prior={"loc": dist.Normal(0.0, 3.0), "scale": dist.LogNormal(0.0, 1.0)})
    for model, data in [(hmm, X), (pu.models.Tagger(2, 2), SENTENCES), (pu.models.Clusterer(2, 2), DOCUMENTS)]:
        density = Densities(model, (data,))
        assert density.at_once
        draws = density.prior(6)
        prior, likelihood = density.both(draws)
        one = [density._run(draw) for draw in density._each(draws)]
        torch.testing.assert_close(prior, torch.stack([p for p, _ in one]))
        torch.testing.assert_close(density.pointwise(draws), torch.stack([x for _, x in one]))
        torch.testing.assert_close(likelihood, density.pointwise(draws).sum(-1))
        back, _ = density.to_values(density.to_unbounded(draws))
        for name in draws:
            torch.testing.assert_close(back[name], draws[name])


def test_a_program_that_does_not_broadcast_runs_once_a_draw() -> None:
    def model(x: Tensor) -> None:
        mean = pyro.sample("mean", dist.Normal(0.0, 3.0))
        with pyro.plate("data", len(x)):
            pyro.sample("x", dist.Normal(float(mean.reshape(-1)[0]), 0.5), obs=x)

    density = Densities(model, (X,))
    assert not density.at_once
    draws = {"mean": torch.tensor([0.0, 1.0])}
    right = dist.Normal(draws["mean"][:, None], 0.5).log_prob(X)
    torch.testing.assert_close(density.pointwise(draws), right)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: pu.evidence(normal, X, method="exact"), "method must be 'ais' or 'stones'"),  # type: ignore[arg-type]
        (lambda: pu.evidence(normal, X, particles=3), "40 or more"),
        (lambda: pu.evidence(normal, X, temperatures=0), "temperatures must be a whole number, 1 or more"),
        (lambda: pu.evidence(lambda: pyro.sample("a", dist.Normal(0.0, 1.0))), "observes nothing"),
        (lambda: pu.evidence(pu.models.HMM(1), [1.0, 2.0, 3.0]), "have no prior"),
    ],
)
def test_refused(call: Any, says: str) -> None:
    with pytest.raises(UnsupError) as error:
        call()
    assert says in str(error.value)
