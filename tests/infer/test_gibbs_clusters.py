"""The sampler of documents' clusters draws from the right distribution."""

from __future__ import annotations

import itertools
from collections import Counter
from math import lgamma
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from pyro_unsup.errors import InputError, StructureError
from pyro_unsup.infer.gibbs import CollapsedGibbs
from pyro_unsup.kernels.gibbs_mixture import weigh
from pyro_unsup.models import Clusterer
from pyro_unsup.models.gibbs_clusters import ClusterState

DOCUMENTS = [[0, 1, 0], [2, 2], [1, 2, 0, 0], [1], [2, 0]]


def log_joint(labels: Any, documents: Any, K: int, V: int, alpha: float, beta: Any) -> float:
    def row(counts: Any, a: float) -> float:
        found = lgamma(len(counts) * a) - lgamma(len(counts) * a + sum(counts))
        return found + sum(lgamma(a + n) - lgamma(a) for n in counts)

    found = row([list(labels).count(k) for k in range(K)], alpha)
    for k in range(K):
        words = [w for z, document in zip(labels, documents, strict=True) if z == k for w in document]
        found += row([words.count(w) for w in range(V)], beta[k])
    return found


def test_conditional_is_the_ratio_of_joints() -> None:
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(300):
        K, V = int(rng.integers(2, 5)), int(rng.integers(1, 5))
        documents = [rng.integers(V, size=rng.integers(1, 70)).tolist() for _ in range(rng.integers(2, 6))]
        alpha, beta = float(rng.gamma(1.0)) + 1e-3, rng.gamma(1.0, size=K) + 1e-3
        state = ClusterState(Clusterer(K, V), documents)
        state.draw_start(rng)
        labels, at = state.labels, int(rng.integers(len(documents)))
        logs = []
        for k in range(K):
            labels[at] = k
            logs.append(log_joint(labels, documents, K, V, alpha, beta))
        lo, hi = state.offsets[at : at + 2]
        old = state.labels[at]
        state.n_doc[old] -= 1
        state.n_all[old] -= state.lengths[at]
        np.subtract.at(state.n_word, (state._words[lo:hi], old), state._times[lo:hi])
        found = np.empty(K)
        weigh(
            state._words[lo:hi], state._times[lo:hi], state.lengths[at], state.n_doc, state.n_word, state.n_all, alpha,
            beta, beta * V, found, np.empty(K),
        )  # fmt: skip
        wanted, p = np.exp(np.array(logs) - max(logs)), np.exp(found - found.max())
        worst = max(worst, np.abs(wanted / wanted.sum() - p / p.sum()).max())
    assert worst < 1e-11


@pytest.mark.parametrize("beta", [1e-59, 1e-20, 1e-13, 1e59])
def test_factors_that_no_product_holds(beta: float) -> None:
    """Forty of them would leave the range of floats, but their logs do not."""
    V = 40
    n_word = np.zeros((V, 2), np.int32)
    n_word[:, 0] = 1
    found = np.empty(2)
    weigh(
        np.arange(V), np.ones(V, np.int64), V, np.array([1, 0], np.int32), n_word, np.array([V, 0]), 1.0,
        np.full(2, beta), np.full(2, beta * V), found, np.empty(2),
    )  # fmt: skip
    for k in range(2):
        n = n_word[0, k]
        wanted = np.log(2 - k) + V * np.log(n + beta) - np.log(n * V + V * beta + np.arange(V)).sum()
        assert found[k] == pytest.approx(wanted)


def test_other_documents_of_the_same_pattern_are_told_apart(tmp_path: Path) -> None:
    made: Any = CollapsedGibbs(Clusterer(2, 5))
    run: Any = {"sweeps": 4, "progress": False, "checkpoint": tmp_path}
    samples = made.run([[0, 1, 0], [2, 2]], **run)
    assert samples.data["words"].tolist() == [0, 1, 2]
    with pytest.raises(InputError, match="holds a chain of another corpus"):
        made.run([[1, 3, 1], [4, 4]], resume=True, **run)


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_chain_visits_states_as_often_as_it_should(power: float) -> None:
    alpha, beta, rng = np.array([0.7]), np.array([0.5, 0.9]), np.random.default_rng(1)
    states = list(itertools.product(range(2), repeat=5))
    p = np.exp(power * np.array([log_joint(z, DOCUMENTS, 2, 3, 0.7, beta) for z in states]))
    state = ClusterState(Clusterer(2, 3), DOCUMENTS)
    state.draw_start(rng)
    seen: Counter[Any] = Counter()
    for _ in range(10_000):
        for _ in range(4):
            state.sweep("pointwise", alpha, beta, power, rng)
        seen[tuple(state.labels.tolist())] += 1
    assert stats.chisquare([seen[z] for z in states], 10_000 * p / p.sum()).pvalue > 1e-4
    found = state.log_choices(alpha) + state.log_emissions(beta).sum()
    assert found == pytest.approx(log_joint(state.labels, DOCUMENTS, 2, 3, 0.7, beta))


def test_labels_are_checked() -> None:
    state = ClusterState(Clusterer(2, 3), DOCUMENTS)
    with pytest.raises(StructureError, match="expected 5 clusters"):
        state.labels = np.zeros(4, np.int64)
    with pytest.raises(StructureError, match=r"must lie in 0 .. 1, actual range 0 .. 2"):
        state.labels = np.array([0, 1, 2, 0, 0])
