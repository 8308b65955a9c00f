"""Bounds of the dependency model against its exact log evidence: all trees of tiny data, all tables integrated out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import components as c
from pyro_unsup.distributions import Dependency
from pyro_unsup.models import DMV

from ..distributions.dependency_case import enumerate_trees

SENTENCES = [[0, 1, 1], [1, 0], [0, 1]]
Row = Callable[[Tensor], Tensor]


@cache
def used() -> list[dict[str, Tensor]]:
    """What every forest of the data uses: its counts by table."""
    K = 2
    found = []
    for tags in SENTENCES:
        one = Dependency(torch.zeros(K), torch.zeros(K, 2, K), torch.zeros(K, 2, 2, 2), torch.tensor([len(tags)]))
        found.append(enumerate_trees(one, tags).counts)
    return [{name: sum(one[name] for one in forest) for name in forest[0]} for forest in itertools.product(*found)]


def evidence(row: Row) -> float:
    """log sum over forests of the product over rows of E[prod theta^counts], whose logs ``row`` gives."""
    return float(torch.stack([sum(row(counts).sum() for counts in one.values()) for one in used()]).logsumexp(0))


def dirichlet(alpha: float) -> Row:
    def row(counts: Tensor) -> Tensor:
        whole = math.lgamma(2 * alpha) - torch.lgamma(counts.sum(-1) + 2 * alpha)
        return whole + (torch.lgamma(counts + alpha) - math.lgamma(alpha)).sum(-1)

    return row


def logistic_normal(variance: float, correlation: float = 0.0) -> Row:
    """Two outcomes differ by d ~ N(0, 2 variance (1 - correlation)): quadrature in one number."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    d = torch.from_numpy(nodes) * math.sqrt(2 * variance * (1 - correlation))
    log_w = torch.from_numpy(weights).log() - 0.5 * math.log(2 * math.pi)
    logs = torch.stack([torch.nn.functional.logsigmoid(d), torch.nn.functional.logsigmoid(-d)])
    return lambda counts: (log_w + counts @ logs).logsumexp(-1)


BOTH = torch.tensor([[1.0, 0.5], [0.5, 1.0]], dtype=torch.float64)
CASES: list[tuple[Any, Row, float]] = [
    (pu.DirichletVB(1.0), dirichlet(1.0), 1.5),
    (pu.DirichletVB(5.0), dirichlet(5.0), 0.8),
    (pu.LogisticNormal("uniform", variance=1.0, strict=True), logistic_normal(1.0), 6.0),
    (pu.LogisticNormal("uniform", variance=0.1, strict=True), logistic_normal(0.1), 1.1),
    (pu.LogisticNormal("uniform", covariance=BOTH, strict=True), logistic_normal(1.0, 0.5), 8.0),
]


@pytest.mark.parametrize(("estimate", "row", "close"), CASES, ids=lambda x: repr(x) if hasattr(x, "begin") else "")
def test_the_bound_rises_towards_the_evidence_and_stays_below(estimate: Any, row: Row, close: float) -> None:
    exact = evidence(row)
    best = -math.inf
    for seed in range(3):
        fit = pu.EM(DMV(2), estimate, init=pu.init.noise(0.5)).run(SENTENCES, iterations=60, tolerance=1e-10, seed=seed)
        bounds = [one["objective"] for one in fit.rows if one["objective"] > -math.inf]
        assert all(b >= a - 1e-8 * abs(a) for a, b in itertools.pairwise(bounds))
        assert bounds[-1] <= exact
        best = max(best, bounds[-1])
    assert exact - best < close


def test_the_more_is_known_of_the_tables_the_closer() -> None:
    """With variance 1 and some counts the one zeta of a row costs a fifth of a nat a count; without any, nothing."""
    known: list[list[tuple[Any, Row]]] = [
        [(pu.DirichletVB(alpha), dirichlet(alpha)) for alpha in (2.0, 10.0, 100.0, 1000.0)],
        [(pu.LogisticNormal("uniform", variance=v), logistic_normal(v)) for v in (1.0, 0.1, 0.01, 0.001)],
    ]
    for cases in known:
        fits = [pu.EM(DMV(2), how).run(SENTENCES, iterations=60, tolerance=1e-10) for how, _ in cases]
        gaps = [evidence(row) - fit.objective for fit, (_, row) in zip(fits, cases, strict=True)]
        assert gaps == sorted(gaps, reverse=True)
        assert 0 < gaps[-1] < 0.012


@pytest.mark.parametrize(("estimate", "row", "close"), CASES[::2], ids=lambda x: repr(x) if hasattr(x, "begin") else "")
@pytest.mark.parametrize("tied", [True, False])
def test_a_mixture_is_a_bound_too(estimate: Any, row: Row, close: float, tied: bool) -> None:
    known = [c.right_attach(), c.short_dependencies(limit=1)]
    engine = pu.MixtureEM(
        DMV(2), known, estimate, pu.init.noise(0.5), polytope=pu.schedules.fixed(0.8, even=True), tied=tied
    )
    fit = engine.run(SENTENCES, iterations=40, tolerance=1e-10)
    assert evidence(row) - close - 2 < fit.objective <= evidence(row)


def test_a_fitted_concentration_bounds_its_own_evidence() -> None:
    """Each table has an estimator, and a concentration, of its own."""
    how = {name: pu.EmpiricalDirichlet() for name in ("root", "attach", "stop")}
    fit = pu.EM(DMV(2), how).run(SENTENCES, iterations=60, tolerance=1e-10)
    alphas = {name: float(fit.memory[f"{name}.{name}.concentration"]) for name in how}
    total = torch.stack(
        [sum(dirichlet(alphas[name])(counts).sum() for name, counts in one.items()) for one in used()]
    ).logsumexp(0)
    assert fit.objective <= float(total)
    assert float(total) - fit.objective < 4
