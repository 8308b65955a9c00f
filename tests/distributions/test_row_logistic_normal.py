"""RowLogisticNormal against torch's Gaussians, one row at a time, and against quadrature."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyro
import pytest
import torch
from pyro import poutine
from scipy import stats
from torch import Tensor
from torch.autograd import gradcheck
from torch.distributions import MultivariateNormal, TransformedDistribution, biject_to

from pyro_unsup.distributions import RowLogisticNormal
from pyro_unsup.distributions.row_dirichlet import RowSimplex, RowSoftmax

LENGTHS = torch.tensor([3, 1, 2, 5])
MEAN = torch.tensor([0.5, -1.0, 2.0, 3.0, 0.7, 0.2, 1.0, -1.0, 0.4, 0.9, -2.5], dtype=torch.float64)
VARIANCE = torch.tensor([0.5, 1.0, 0.2, 3.0, 0.7, 0.2, 1.0, 1.0, 4.0, 0.1, 2.5], dtype=torch.float64)
DRAWS = 40_000


def rows(x: Tensor) -> list[Tensor]:
    return list(x.split(LENGTHS.tolist(), -1))


def by_hand(mean: Tensor, variance: Tensor) -> TransformedDistribution | None:
    """The Gaussian of the differences to the last cell, through the softmax; None for a row of one cell."""
    if len(mean) == 1:
        return None
    covariance = torch.diag(variance[:-1]) + variance[-1]
    return TransformedDistribution(
        MultivariateNormal(mean[:-1] - mean[-1], covariance), [RowSoftmax(torch.tensor([len(mean)]))]
    )


def test_density_is_that_of_the_differences_through_a_softmax() -> None:
    site = RowLogisticNormal(MEAN, VARIANCE, LENGTHS)
    value = site.sample((50,))
    expected = torch.zeros(50)
    for mean, variance, y in zip(rows(MEAN), rows(VARIANCE), rows(value), strict=True):
        row = by_hand(mean, variance)
        expected += 0 if row is None else row.log_prob(y)
    torch.testing.assert_close(site.log_prob(value), expected)


def blocks(*batch: int) -> Tensor:  # (*batch, 4, 5, 5)
    """Some covariance for each row, in the corner of an identity."""
    root = torch.randn(*batch, 4, 5, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    inside = torch.arange(5) < LENGTHS[:, None]
    both, eye = inside[:, :, None] & inside[:, None, :], torch.eye(5, dtype=torch.float64)
    return torch.where(both, root @ root.mT / 5 + 0.1 * eye, eye)


def full(mean: Tensor = MEAN, covariance: Tensor | None = None, validate_args: bool | None = None) -> RowLogisticNormal:
    given = blocks() if covariance is None else covariance
    return RowLogisticNormal(mean, None, LENGTHS, validate_args, covariance=given)


def test_density_with_covariances_is_that_of_the_differences_too() -> None:
    site, S = full(), blocks()
    value = site.sample((50,))
    assert site.support.check(value).all()
    expected = torch.zeros(50)
    for r, (mean, y) in enumerate(zip(rows(MEAN), rows(value), strict=True)):
        n = len(mean)
        if n > 1:
            apart = torch.cat([torch.eye(n - 1), -torch.ones(n - 1, 1)], -1)
            gaussian = MultivariateNormal(apart @ mean, apart @ S[r, :n, :n] @ apart.mT)
            expected += TransformedDistribution(gaussian, [RowSoftmax(torch.tensor([n]))]).log_prob(y)
    torch.testing.assert_close(site.log_prob(value), expected)


def test_diagonal_covariances_are_variances() -> None:
    diagonal = torch.zeros(4, 5, 5, dtype=torch.float64)
    for r, variance in enumerate(rows(VARIANCE)):
        diagonal[r] = torch.cat([variance, torch.ones(5 - len(variance))]).diag()
    site, same = RowLogisticNormal(MEAN, VARIANCE, LENGTHS), full(covariance=diagonal)
    torch.testing.assert_close(same.scale, site.scale)
    value = site.sample((7,))
    torch.testing.assert_close(same.log_prob(value), site.log_prob(value))
    torch.manual_seed(5)
    drawn = site.sample((3,))
    torch.manual_seed(5)
    torch.testing.assert_close(same.sample((3,)), drawn)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draws_with_covariances_have_them(dtype: torch.dtype) -> None:
    logs = full(MEAN.to(dtype), blocks().to(dtype)).sample((DRAWS,)).double().log()
    for r, a in ((0, 0), (2, 4), (3, 6)):
        S = blocks()[r]
        logit, variance = logs[:, a] - logs[:, a + 1], float(S[0, 0] + S[1, 1] - 2 * S[0, 1])
        assert float(logit.mean()) == pytest.approx(float(MEAN[a] - MEAN[a + 1]), abs=5 * math.sqrt(variance / DRAWS))
        assert float(logit.var()) == pytest.approx(variance, rel=0.05)


def test_covariances_come_in_batches_and_are_differentiable() -> None:
    mean, S = torch.randn(4, 1, 11), blocks(4, 1)
    value = full().sample((3,))
    both = full(mean, S).log_prob(value)
    assert both.shape == (4, 3)
    for i in range(4):
        torch.testing.assert_close(both[i], full(mean[i, 0], S[i, 0]).log_prob(value))
    site = full().expand([6, 2])
    assert site.sample((3,)).shape == (3, 6, 2, 11)
    assert site.log_prob(value[0]).shape == (6, 2)

    def density(m: Tensor, root: Tensor, y: Tensor) -> Tensor:
        return full(m, root @ root.mT, validate_args=False).log_prob(y)

    root = torch.linalg.cholesky(blocks()).requires_grad_()
    assert gradcheck(density, (MEAN.clone().requires_grad_(), root, value[0].clone().requires_grad_()))


@pytest.mark.parametrize("shift", [-30.0, 7.0])
def test_a_number_added_to_a_row_changes_nothing(shift: float) -> None:
    value = RowLogisticNormal(MEAN, VARIANCE, LENGTHS).sample((5,))
    moved = torch.cat([row + shift * k for k, row in enumerate(rows(MEAN))])
    torch.testing.assert_close(
        RowLogisticNormal(moved, VARIANCE, LENGTHS).log_prob(value),
        RowLogisticNormal(MEAN, VARIANCE, LENGTHS).log_prob(value),
    )


def test_density_integrates_to_one_over_a_triangle() -> None:
    points, weights = np.polynomial.legendre.leggauss(200)
    points, weights = torch.from_numpy(points + 1) / 2, torch.from_numpy(weights) / 2
    first = points[:, None].expand(200, 200)
    second = (1 - first) * points  # a square, folded into the triangle
    value = torch.stack([first, second, 1 - first - second], -1)
    for mean, variance in ((MEAN[:3], VARIANCE[:3]), (torch.zeros(3), torch.tensor([2.0, 0.3, 1.0]))):
        density = RowLogisticNormal(mean, variance, torch.tensor([3])).log_prob(value).exp()
        total = (density * (1 - first) * weights[:, None] * weights).sum()
        assert float(total) == pytest.approx(1, abs=1e-6)


def test_density_broadcasts_over_batches() -> None:
    mean, variance = torch.randn(4, 1, 11), torch.rand(4, 1, 11) + 0.1
    value = RowLogisticNormal(MEAN, VARIANCE, LENGTHS).sample((3,))
    both = RowLogisticNormal(mean, variance, LENGTHS).log_prob(value)
    assert both.shape == (4, 3)
    for i in range(4):
        torch.testing.assert_close(both[i], RowLogisticNormal(mean[i, 0], variance[i, 0], LENGTHS).log_prob(value))
    assert RowLogisticNormal(MEAN, torch.ones(3, 1), LENGTHS).batch_shape == (3,)


def test_density_and_draws_are_differentiable() -> None:
    value = RowLogisticNormal(MEAN, VARIANCE, LENGTHS).sample().requires_grad_()
    mean, variance = MEAN.clone().requires_grad_(), VARIANCE.clone().requires_grad_()
    assert gradcheck(
        lambda m, v, y: RowLogisticNormal(m, v, LENGTHS, validate_args=False).log_prob(y), (mean, variance, value)
    )

    def drawn(m: Tensor, v: Tensor) -> Tensor:
        torch.manual_seed(3)
        return RowLogisticNormal(m, v, LENGTHS).rsample()

    assert gradcheck(drawn, (mean, variance))


def expected_logs(mean: Tensor, variance: Tensor) -> Tensor:
    """E[log softmax(eta)] of a short row by Gauss-Hermite quadrature."""
    points, weights = np.polynomial.hermite_e.hermegauss(30)
    total = torch.zeros(len(mean))
    for at in itertools.product(range(30), repeat=len(mean)):
        eta = mean + variance.sqrt() * torch.from_numpy(points[list(at)])
        total += eta.log_softmax(-1) * float(weights[list(at)].prod())
    return total / math.sqrt(2 * math.pi) ** len(mean)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draws_have_the_expected_logs(dtype: torch.dtype) -> None:
    site = RowLogisticNormal(MEAN.to(dtype), VARIANCE.to(dtype), LENGTHS)
    logs = site.sample((DRAWS,)).double().log()
    for place in (slice(0, 3), slice(4, 6)):
        error = logs[:, place].std(0) / DRAWS**0.5
        z = (logs[:, place].mean(0) - expected_logs(MEAN[place], VARIANCE[place])) / error
        assert stats.norm.sf(float(z.abs().max())) * 2 > 1e-4


def test_log_ratios_of_draws_are_gaussian_and_rows_independent() -> None:
    logs = RowLogisticNormal(MEAN, VARIANCE, LENGTHS).sample((4000,)).log()
    for row in ((0, 2), (4, 5), (6, 10)):
        a, b = row
        spread = float((VARIANCE[a] + VARIANCE[b]).sqrt())
        found = stats.kstest((logs[:, a] - logs[:, b]).numpy(), stats.norm(float(MEAN[a] - MEAN[b]), spread).cdf)
        assert found.pvalue > 1e-4
    cross = torch.corrcoef(logs[:, [0, 4, 7]].T)
    assert float(cross[~torch.eye(3, dtype=torch.bool)].abs().max()) < 4 / 4000**0.5


def test_draws_lie_in_the_support_and_where_they_underflow_the_density_is_finite() -> None:
    for mean, dtype in ((torch.zeros(100_001), torch.float32), (1000 * torch.arange(100_001.0), torch.float64)):
        site = RowLogisticNormal(mean.to(dtype), torch.ones((), dtype=dtype), torch.tensor([100_000, 1]))
        value = site.sample()
        assert value.dtype == dtype
        assert site.support.check(value)
        assert site.log_prob(value).isfinite()


def test_rows_of_one_cell_are_certain() -> None:
    site = RowLogisticNormal(torch.tensor([0.3, 5.0]), torch.tensor([2.0, 0.1]), torch.tensor([1, 1]))
    assert site.sample((4,)).tolist() == [[1, 1]] * 4
    assert site.log_prob(torch.ones(2)).item() == pytest.approx(0, abs=1e-12)


def test_expanded_in_a_plate_it_keeps_its_type_and_validates() -> None:
    site = RowLogisticNormal(MEAN, VARIANCE, LENGTHS)

    def model() -> Tensor:
        with pyro.plate("outer", 4, dim=-2), pyro.plate("inner", 3):
            value: Tensor = pyro.sample("rows", site)
        return value

    trace = poutine.trace(model).get_trace()
    trace.compute_log_prob()
    node = trace.nodes["rows"]
    assert isinstance(node["fn"], RowLogisticNormal)
    assert node["value"].shape == (4, 3, 11)
    assert len(node["value"].reshape(12, 11).unique(dim=0)) == 12  # each item its own draw
    torch.testing.assert_close(node["log_prob"], site.log_prob(node["value"]))
    with pytest.raises(ValueError, match="within the support"):
        site.expand([2]).log_prob(torch.ones(11))
    assert RowLogisticNormal(MEAN, VARIANCE, LENGTHS, validate_args=False).expand([2]).log_prob(MEAN).shape == (2,)
    assert isinstance(site.support, RowSimplex)
    assert isinstance(biject_to(site.support), RowSoftmax)


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a covariance of shape \(\*batch, 4, 5, 5\), actual shape = \(4, 3, 3\)"):
        full(covariance=torch.eye(3).expand(4, 3, 3))
    for variance, covariance in ((None, None), (VARIANCE, blocks())):
        with pytest.raises(ValueError, match="expected either a variance or a covariance"):
            RowLogisticNormal(MEAN, variance, LENGTHS, covariance=covariance)
    with pytest.raises(ValueError, match=r"expected 4 cells \(the sum of row_lengths\), actual shape .* \(3,\)"):
        RowLogisticNormal(torch.ones(3), torch.ones(3), torch.tensor([2, 2]))
    with pytest.raises(ValueError, match="expected positive row_lengths, actual smallest = 0"):
        RowLogisticNormal(torch.ones(3), torch.ones(3), torch.tensor([3, 0]))
    for variance in (-1.0, 0.0):
        with pytest.raises(ValueError, match="parameter scale"):
            RowLogisticNormal(torch.zeros(2), torch.tensor([1.0, variance]), torch.tensor([2]))
