"""Logistic-normal priors under the engines: a bound that never falls, below the exact evidence."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import pyro_unsup as pu
from pyro_unsup import LogisticNormal
from pyro_unsup.models import DMV, Tagger

from ..taggings import sum_over_taggings
from .normal_cases import spd

DATA = [[0, 1, 1], [1, 0], [1, 1, 0, 1]]


def log_evidence(data: list[list[int]], variance: float) -> float:
    """log p(data) of a tagger with two tags and two words, weights integrated out: over taggings, and by quadrature.

    A row of two outcomes depends on the difference of its etas alone, which is N(0, 2 variance).
    """
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    logit = math.sqrt(2 * variance) * points
    logs = -np.stack([np.logaddexp(0, -logit), np.logaddexp(0, logit)])
    norm = math.sqrt(2 * math.pi)

    def row(n: np.ndarray) -> float:
        return math.log(float(np.exp(n @ logs) @ weights) / norm)

    return sum_over_taggings(data, 2, 2, row)


def test_the_bound_never_falls_and_stays_below_the_exact_evidence() -> None:
    """The nearer the weights are to their prior, the nearer are bound and evidence."""
    gaps = []
    for variance in (0.05, 0.3, 1.0, 4.0):
        evidence, how = log_evidence(DATA, variance), LogisticNormal("uniform", variance=variance, strict=True)
        best = -math.inf
        for seed in range(2):
            fit = pu.EM(Tagger(2, 2), how).run(DATA, iterations=40, tolerance=0, seed=seed, progress=False)
            bounds = [row["objective"] for row in fit.rows]
            assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(bounds))
            assert bounds[0] < bounds[-1] < evidence
            best = max(best, bounds[-1])
        gaps.append(evidence - best)
    assert gaps == sorted(gaps)
    assert gaps[0] < 0.6
    assert gaps[2] < 5  # five rows that are known little of, one nat each


@pytest.mark.parametrize(
    "how",
    [
        LogisticNormal(strict=True),
        LogisticNormal(covariance="full", strict=True),
        {"emission": LogisticNormal(covariance=spd(5)), "transition": pu.DirichletVB()},
        LogisticNormal(covariance={"0": "even", 0: "even", 2: "even"}, shared=0.5, strict=True),
    ],
    ids=["diagonal", "full", "by table", "shared"],
)
def test_every_prior_runs_under_em(how: object) -> None:
    data = [[0, 1, 4], [2, 0, 3, 3], [1, 4, 2]]
    fit = pu.EM(Tagger(3, 5), how).run(data, iterations=15, tolerance=0, progress=False)  # type: ignore[arg-type]
    bounds = [row["objective"] for row in fit.rows]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(bounds) if a > -math.inf)
    assert bounds[-1] > bounds[1]
    assert "emission.mean" in fit.memory or "emission.emission.mean" in fit.memory


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
@pytest.mark.parametrize("model", [DMV(3), Tagger(2, 3)], ids=["trees", "tags"])
@pytest.mark.parametrize("variance", [1e-6, 1e-3, 50.0, 500.0, 1e4, 1e6])
def test_the_bound_never_falls_however_wide_or_narrow(variance: float, model: Any, covariance: Any) -> None:
    how = LogisticNormal(variance=variance, covariance=covariance, strict=True)
    data = [[0, 1, 0, 2], [2, 0, 1], [0, 0], [1], [2, 2, 0]]
    for seed in range(4):
        fit = pu.EM(model, how, pu.init.noise(1.0)).run(data, iterations=12, tolerance=0, seed=seed, progress=False)
        bounds = [row["objective"] for row in fit.rows]
        assert all(b >= a - 1e-9 * max(1, abs(a)) for a, b in itertools.pairwise(bounds))
        assert all(bool(torch.isfinite(x).all()) for x in fit.memory.values())


def test_a_run_goes_on_where_it_ended(tmp_path: Path) -> None:
    how = LogisticNormal(covariance="full")
    whole = pu.EM(Tagger(3, 2), how).run(DATA, iterations=8, tolerance=0, progress=False)
    half = pu.EM(Tagger(3, 2), how).run(DATA, iterations=4, tolerance=0, progress=False)
    half.save(tmp_path / "half")
    again = pu.EM(Tagger(3, 2), how).run(
        DATA, iterations=8, tolerance=0, progress=False, resume=pu.load(tmp_path / "half")
    )
    assert all(torch.equal(w, again.weights[name]) for name, w in whole.weights.items())
    assert all(torch.equal(x, again.memory[key]) for key, x in whole.memory.items())
    assert whole.objective == again.objective


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_precisions(dtype: torch.dtype) -> None:
    fit = pu.EM(Tagger(2, 2), LogisticNormal(), dtype=dtype).run(DATA, iterations=10, progress=False)
    assert fit.weights["emission"].dtype == dtype


def test_other_engines_take_it() -> None:
    for engine in (
        pu.EM(pu.temper(Tagger(2, 2), beta=0.5), LogisticNormal()),
        pu.Anneal(Tagger(2, 2), estimate=LogisticNormal(), schedule=pu.schedules.geometric(0.3, 2.0)),
        pu.IncrementalEM(Tagger(2, 2), LogisticNormal(), batch_size=1),
        pu.StepwiseEM(Tagger(2, 2), LogisticNormal(), batch_size=1, exact=True),
    ):
        fit = engine.run(DATA, iterations=200, progress=False)
        assert all(bool(torch.isfinite(w).all()) for w in fit.weights.values())
