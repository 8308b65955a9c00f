"""Coordinate steps of logistic-normal rows: against their definition, a numerical optimiser, and quadrature."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup import FitError, TableError
from pyro_unsup.estimate.normal import logistic_normal_updates as updates
from pyro_unsup.estimate.normal.logistic_normal_updates import (
    NormalRows,
    Posterior,
    at_prior,
    bound,
    divergence,
    fitted,
)

from .normal_cases import bound_of, precision_of, some_rows, spd, total_bound

both = pytest.mark.parametrize("full", [False, True], ids=["diagonal", "full"])


def some_counts(rows: NormalRows, seed: int, scale: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    counts = (
        rng.gamma(0.2, size=len(rows.mean)) * scale * np.repeat(rng.gamma(0.5, size=len(rows.lengths)), rows.lengths)
    )
    return counts * (rng.random(len(counts)) < 0.7)


@both
def test_the_bound_is_its_definition(full: bool) -> None:
    rows = some_rows([2, 5, 3], full, 1)
    rng = np.random.default_rng(0)
    q = Posterior(rng.normal(size=10), rng.gamma(2.0, size=10))
    counts, zeta = some_counts(rows, 3, 10), rng.gamma(3.0, size=3)
    ours = bound(counts, rows, q, np.log(zeta))
    for r in range(3):
        part = slice(*rows.offsets[r : r + 2])
        f, mu, m, s2 = (torch.from_numpy(x[part]) for x in (counts, rows.mean, q.mean, q.variance))
        theirs = bound_of(f, mu, precision_of(rows, r), m, s2, torch.tensor(zeta[r]))
        assert ours[r] == pytest.approx(float(theirs), rel=1e-12)
        normal = torch.distributions.MultivariateNormal(mu, precision_matrix=precision_of(rows, r))
        kl = torch.distributions.kl_divergence(torch.distributions.MultivariateNormal(m, s2.diag()), normal)
        assert divergence(rows, q)[r] == pytest.approx(float(kl), rel=1e-10)
    assert bound(counts, rows, q).sum() == pytest.approx(total_bound(counts, rows, q), rel=1e-12)
    assert (bound(counts, rows, q) >= ours).all()  # the best zeta


@both
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(
    lengths=st.lists(st.integers(2, 8), min_size=1, max_size=4),
    seed=st.integers(0, 10_000),
    scale=st.floats(-3, 6),
    far=st.floats(0, 5),
    wide=st.floats(-4, 4),
)
def test_no_step_lowers_the_bound(
    full: bool, lengths: list[int], seed: int, scale: float, far: float, wide: float
) -> None:
    rows, rng = some_rows(lengths, full, seed), np.random.default_rng(seed)
    cells = len(rows.mean)
    counts = some_counts(rows, seed, 10**scale)
    start = Posterior(far * rng.normal(size=cells), 10 ** (wide * rng.random(cells)))
    found = fitted(counts, rows, start, strict=True)  # every step is checked
    assert np.isfinite(found.mean).all()
    assert (found.variance > 0).all()
    again = fitted(counts, rows, tolerance=1e-15, strict=True)  # from the prior to the same, for the bound is concave
    size = 1 + rows.sum(counts)
    np.testing.assert_allclose(bound(counts, rows, found) / size, bound(counts, rows, again) / size, rtol=0, atol=2e-9)


@both
@pytest.mark.parametrize("scale", [0.0, 0.5, 30.0, 1e4])
def test_the_gradient_vanishes_at_the_posterior(full: bool, scale: float) -> None:
    rows = some_rows([2, 4, 9], full, 5)
    counts = some_counts(rows, 5, scale)
    q = fitted(counts, rows, tolerance=1e-15)
    for r in range(3):
        part = slice(*rows.offsets[r : r + 2])
        f, mu, m, s2 = (torch.from_numpy(x[part]) for x in (counts, rows.mean, q.mean, q.variance))
        m, log_s2 = m.clone().requires_grad_(), s2.log().requires_grad_()
        bound_of(f, mu, precision_of(rows, r), m, log_s2.exp()).backward()
        for leaf in (m, log_s2):
            assert leaf.grad is not None
            assert float(leaf.grad.abs().max()) < 1e-6 * (1 + float(f.sum()))


@both
def test_a_numerical_optimiser_finds_no_better(full: bool) -> None:
    from scipy.optimize import minimize

    rows = some_rows([3, 6], full, 8)
    counts = some_counts(rows, 2, 20)
    q = fitted(counts, rows, tolerance=1e-15)
    cells = len(rows.mean)

    def loss(x: np.ndarray) -> float:
        return -total_bound(counts, rows, Posterior(x[:cells], np.exp(x[cells:])))

    found = minimize(
        loss, np.concatenate([rows.mean, -np.log(rows.precision)]), method="L-BFGS-B", options={"maxfun": 10**5}
    )
    assert -found.fun == pytest.approx(bound(counts, rows, q).sum(), rel=1e-8)
    np.testing.assert_allclose(found.x[:cells], q.mean, atol=2e-3)
    np.testing.assert_allclose(np.exp(found.x[cells:]), q.variance, rtol=1e-2)


@both
def test_without_counts_the_posterior_is_the_prior(full: bool) -> None:
    rows = some_rows([3, 4], full, 0)
    q = fitted(np.zeros(7), rows, Posterior(np.ones(7), np.ones(7)), tolerance=1e-15)
    np.testing.assert_allclose(q.mean, rows.mean, atol=1e-10)
    np.testing.assert_allclose(q.variance, 1 / rows.precision, rtol=1e-10)
    assert not full or (divergence(rows, q) > 0).all()  # no diagonal is a full covariance
    assert full or np.abs(divergence(rows, q)).max() < 1e-12


def test_weights_are_below_the_expected_logs() -> None:
    rows = some_rows([3, 5], False, 3)
    q = fitted(some_counts(rows, 3, 5), rows)
    weights = q.log_weights(rows.offsets)
    rng = np.random.default_rng(0)
    eta = q.mean + np.sqrt(q.variance) * rng.normal(size=(200_000, 8))
    for part in (slice(0, 3), slice(3, 8)):
        logs = torch.from_numpy(eta[:, part]).log_softmax(-1).numpy()
        error = logs.std(0) / math.sqrt(len(logs))
        assert (weights[part] < logs.mean(0) + 4 * error).all()
        assert (weights[part] > logs.mean(0) - 1.0).all()  # and not far
        assert np.exp(weights[part]).sum() < 1


@pytest.mark.parametrize("counts", [[0.0, 0.0], [1.0, 0.0], [3.0, 2.0], [40.0, 7.0]])
def test_the_bound_is_below_the_exact_evidence_of_two_outcomes(counts: list[float]) -> None:
    """theta depends on the difference of the two etas alone, a Gaussian: one integral."""
    S, mu = spd(2, 4), torch.tensor([0.3, -0.4])
    points, weights = np.polynomial.hermite_e.hermegauss(120)
    scale = math.sqrt(float(S[0, 0] + S[1, 1] - 2 * S[0, 1]))
    logit = torch.from_numpy(float(mu[0] - mu[1]) + scale * points)
    logs = torch.stack([torch.nn.functional.logsigmoid(logit), torch.nn.functional.logsigmoid(-logit)], -1)
    exact = (
        torch.logsumexp(logs @ torch.tensor(counts) + torch.from_numpy(weights).log(), 0) - math.log(2 * math.pi) / 2
    )
    P = torch.linalg.inv(S).numpy()
    rows = NormalRows(
        np.array([0, 2]), mu.numpy(), P.diagonal().copy(), P[None], np.array([0]), np.linalg.slogdet(P[None])[1]
    )
    f = np.array(counts)
    ours = bound(f, rows, fitted(f, rows)).sum()
    assert ours <= float(exact) + 1e-10
    assert float(exact) - ours < 1.2  # what a diagonal Gaussian misses of a posterior that is none


@pytest.mark.parametrize("counts", [[1.0, 0.0, 0.0], [3.0, 2.0, 0.0], [20.0, 5.0, 9.0]])
def test_the_bound_is_below_the_exact_evidence_of_three_outcomes(counts: list[float]) -> None:
    grid = torch.linspace(-9, 9, 241)
    a, b = torch.meshgrid(grid, grid, indexing="ij")
    # Differences to the last eta, the prior being N(0, I): covariance I + 11'.
    differences = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2) + 1)
    logs = torch.stack([a, b, torch.zeros_like(a)], -1).log_softmax(-1)
    density = differences.log_prob(torch.stack([a, b], -1)) + logs @ torch.tensor(counts)
    exact = float(torch.logsumexp(density.flatten(), 0)) + 2 * math.log(float(grid[1] - grid[0]))
    rows = NormalRows(np.array([0, 3]), np.zeros(3), np.ones(3))
    f = np.array(counts)
    ours = bound(f, rows, fitted(f, rows)).sum()
    assert ours <= exact
    assert exact - ours < 1.4


@both
def test_threads_and_the_order_of_rows_change_nothing(full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyro_unsup.kernels import plumbing

    rows = some_rows([4, 2, 9, 3, 3], full, 6)
    counts = some_counts(rows, 6, 50)
    one = fitted(counts, rows)
    monkeypatch.setattr(plumbing, "threads_for", lambda tokens: 3)
    other = fitted(counts, rows)
    assert (one.mean == other.mean).all()
    assert (one.variance == other.variance).all()


def test_extremes_stay_finite() -> None:
    """Variances of 1e4 and 1e-6, counts of 1e7, means far apart."""
    precision = np.array([1e-4, 1e6, 1.0, 1e-4, 1e-4, 1e6])
    rows = NormalRows(np.array([0, 3, 6]), np.array([300.0, -300, 0, 0, 0, 0]), precision)
    counts = np.array([0.0, 0.0, 1e7, 1e-9, 1e7, 0.0])
    q = fitted(counts, rows, Posterior(np.zeros(6), np.full(6, 5e3)), strict=True)
    assert np.isfinite(q.log_weights(rows.offsets)).all()
    assert (q.variance > 0).all()


def test_the_best_variance_is_a_root_at_any_scale() -> None:
    """Prior variances of 1e-8 to 1e8, weights that underflow or overflow, and starts far on either side."""
    from pyro_unsup.kernels.logistic_normal import variance

    def value(p: float, c: float, x: float) -> float:
        return 0.5 * math.log(x) - 0.5 * p * x - math.exp(c + 0.5 * x)

    scales = itertools.product(10.0 ** np.arange(-8, 9, 2), [-1e6, -3e4, -700.0, -20.0, -1.0, 0.0, 3.0, 30.0])
    for p, c in scales:
        for before in (1e-9, 1e-3, 1.0, 50.0, 1e3):
            x = variance(p, c, before)
            assert x == pytest.approx(variance(p, c, 2.0), rel=1e-9)
            assert math.log(x) + np.logaddexp(math.log(p), c + 0.5 * x) == pytest.approx(0, abs=1e-6 * max(1, x))
            if c + 0.5 * before < 700:
                assert value(p, c, x) >= value(p, c, before)
    assert variance(0.25, -math.inf, 1.0) == pytest.approx(4.0)  # without counts, that of the prior


@pytest.mark.parametrize(("variance", "left"), [(1.0, 1e-8), (100.0, 1e-4), (1e4, 0.3)])
def test_a_wide_start_is_as_good_as_a_narrow_one(variance: float, left: float) -> None:
    rng = np.random.default_rng(0)
    rows = NormalRows(np.arange(0, 61, 3), rng.normal(size=60), np.full(60, 1 / variance))
    counts = rng.gamma(0.3, 5.0, size=60)
    wide, narrow = fitted(counts, rows, strict=True), fitted(counts, rows, Posterior(rows.mean, np.full(60, 1e-3)))
    best = bound(counts, rows, fitted(counts, rows, sweeps=5000, tolerance=1e-15, strict=True))
    assert (best - bound(counts, rows, wide)).max() < left
    assert (best - bound(counts, rows, narrow)).max() < left


def test_a_step_that_falls_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = some_rows([3], False, 0)
    falling = iter([np.zeros(1), np.full(1, -1.0)])
    monkeypatch.setattr(updates, "bound", lambda *args: next(falling))
    with pytest.raises(FitError, match="table 'attach': the mean step lowered the bound of row 0 from"):
        fitted(np.ones(3), rows, strict=True, name="attach")


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_what_is_no_count_is_refused(wrong: float) -> None:
    rows = some_rows([3], False, 0)
    with pytest.raises(TableError, match="table 'stop': expected counts must be finite and not negative"):
        fitted(np.array([1.0, 2.0, wrong]), rows, name="stop")


def test_the_start_is_left_alone() -> None:
    rows = some_rows([3], False, 0)
    start = at_prior(rows)
    before = start.mean.copy()
    fitted(np.array([5.0, 1.0, 0.0]), rows, start)
    assert (start.mean == before).all()
