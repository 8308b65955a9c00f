"""RowDirichlet against stock Dirichlets, one row at a time."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoMultivariateNormal, AutoNormal
from scipy import stats
from torch import Tensor
from torch.autograd import gradcheck
from torch.distributions import biject_to, transform_to

from pyro_unsup.distributions import RowDirichlet
from pyro_unsup.distributions.row_dirichlet import RowSimplex, RowSoftmax

LENGTHS = torch.tensor([3, 1, 2, 5])
ALPHA = torch.tensor([0.5, 1.0, 2.0, 3.0, 0.7, 0.2, 1.0, 1.0, 4.0, 0.9, 2.5], dtype=torch.float64)
DRAWS = 40_000


def rows(x: Tensor) -> list[Tensor]:
    return list(x.split(LENGTHS.tolist(), -1))


def z_test(draws: Tensor, expected: Tensor) -> float:
    """The smallest p-value of the columns' means, two-sided."""
    error = draws.std(0) / len(draws) ** 0.5
    live = error > 0
    z = (draws.mean(0) - expected)[live] / error[live]
    torch.testing.assert_close(draws.mean(0)[~live], expected[~live])
    return float(stats.norm.sf(z.abs().max().item()) * 2)


def test_density_is_the_sum_over_rows() -> None:
    value = RowDirichlet(ALPHA, LENGTHS).sample((50,))
    expected = sum(dist.Dirichlet(a).log_prob(v) if len(a) > 1 else torch.zeros(50)
                   for a, v in zip(rows(ALPHA), rows(value), strict=True))  # fmt: skip
    torch.testing.assert_close(RowDirichlet(ALPHA, LENGTHS).log_prob(value), torch.as_tensor(expected))


def test_density_broadcasts_over_batches_of_concentrations() -> None:
    alpha = torch.rand(4, 1, 11) + 0.1
    value = RowDirichlet(ALPHA, LENGTHS).sample((3,))
    both = RowDirichlet(alpha, LENGTHS).log_prob(value)
    assert both.shape == (4, 3)
    for i in range(4):
        torch.testing.assert_close(both[i], RowDirichlet(alpha[i, 0], LENGTHS).log_prob(value))


def test_density_is_differentiable_in_value_and_concentration() -> None:
    value = RowDirichlet(ALPHA, LENGTHS).sample().requires_grad_()
    alpha = ALPHA.clone().requires_grad_()
    assert gradcheck(lambda a, v: RowDirichlet(a, LENGTHS, validate_args=False).log_prob(v), (alpha, value))


@pytest.mark.parametrize("alpha", [ALPHA, torch.full_like(ALPHA, 0.003), 50 * ALPHA], ids=["mixed", "tiny", "large"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_samples_have_the_means_and_variances_of_dirichlets(alpha: Tensor, dtype: torch.dtype) -> None:
    site = RowDirichlet(alpha.to(dtype), LENGTHS)
    draws = site.sample((DRAWS,)).double()
    stock = [dist.Dirichlet(a) for a in rows(alpha)]
    mean = torch.cat([d.mean for d in stock])
    variance = torch.cat([d.variance for d in stock])
    torch.testing.assert_close(site.mean.double(), mean, rtol=1e-6, atol=1e-6)
    assert z_test(draws, mean) > 1e-4
    assert z_test((draws - mean) ** 2, variance) > 1e-4


def test_single_cells_follow_beta_distributions() -> None:
    """The margin of a Dirichlet cell is Beta(a, total - a): compare whole distributions, not only moments."""
    draws = RowDirichlet(ALPHA, LENGTHS).sample((4000,))
    total = torch.cat([a.sum().expand_as(a) for a in rows(ALPHA)])
    for cell in range(11):
        if total[cell] > ALPHA[cell]:
            a, b = float(ALPHA[cell]), float(total[cell] - ALPHA[cell])
            assert stats.kstest(draws[:, cell].numpy(), stats.beta(a, b).cdf).pvalue > 1e-4


def test_rows_are_independent() -> None:
    draws = RowDirichlet(ALPHA, LENGTHS).sample((DRAWS,))
    cross = torch.corrcoef(draws[:, [0, 4, 7]].T)
    assert float(cross[~torch.eye(3, dtype=torch.bool)].abs().max()) < 4 / DRAWS**0.5


def test_reparameterised_gradients_are_those_of_the_mean() -> None:
    alpha = torch.cat([ALPHA[:3], torch.tensor([0.05, 0.1])]).requires_grad_()
    lengths = torch.tensor([3, 2])
    for cell, others in ((0, slice(0, 3)), (3, slice(3, 5))):
        leaf = alpha.detach().expand(DRAWS, 5).clone().requires_grad_()
        (grad,) = torch.autograd.grad(RowDirichlet(leaf, lengths).rsample()[:, cell].sum(), leaf)
        (expected,) = torch.autograd.grad(RowDirichlet(alpha, lengths).mean[cell], alpha)
        assert z_test(grad[:, others], expected[others]) > 1e-4


def test_samples_lie_in_the_support_even_for_long_float32_rows() -> None:
    for lengths in (LENGTHS, torch.tensor([1_000_000, 1])):
        site = RowDirichlet(torch.ones(int(lengths.sum()), dtype=torch.float32), lengths)
        value = site.sample()
        assert site.support.check(value)
        assert site.log_prob(value).isfinite()


def test_the_constraint_wants_rows_that_sum_to_one() -> None:
    simplex = RowSimplex(torch.tensor([2, 1]))
    values = torch.tensor([[0.3, 0.7, 1.0], [0.3, 0.3, 1.4], [1.3, -0.3, 1.0], [0.3, 0.7, 0.0], [torch.nan, 0.7, 1.0]])
    assert simplex.check(values).tolist() == [True, False, False, False, False]
    assert repr(simplex) == "RowSimplex(2 rows)"
    with pytest.raises(ValueError, match=r"within the support \(RowSimplex\(2 rows\)\)"):
        RowDirichlet(torch.ones(3), torch.tensor([2, 1])).log_prob(values[1])


@pytest.mark.parametrize("registry", [biject_to, transform_to])
def test_the_transform_is_a_bijection(registry: object) -> None:
    transform = registry(RowDirichlet(ALPHA, LENGTHS).support)  # type: ignore[operator]
    assert isinstance(transform, RowSoftmax)
    x = 3 * torch.randn(20, 7)
    y = transform(x)
    assert transform.codomain.check(y).all()
    torch.testing.assert_close(transform.inv(y), x)
    torch.testing.assert_close(transform(transform.inv(y)), y)
    assert transform.forward_shape(x.shape) == y.shape
    assert transform.inverse_shape(y.shape) == x.shape
    value = RowDirichlet(ALPHA + 1, LENGTHS).sample((20,))
    torch.testing.assert_close(transform(transform.inv(value)), value)


@pytest.mark.parametrize("lengths", [[3, 1, 2, 5], [1, 1, 2], [6]])
def test_log_det_equals_the_jacobian_of_autograd(lengths: list[int]) -> None:
    transform = RowSoftmax(torch.tensor(lengths))
    last = torch.tensor(lengths).cumsum(0) - 1
    free = torch.tensor([c for c in range(sum(lengths)) if c not in last])  # coordinates of the simplices
    for _ in range(5):
        x = torch.randn(sum(lengths) - len(lengths))
        jacobian = torch.autograd.functional.jacobian(lambda x: transform(x)[free], x)
        torch.testing.assert_close(transform.log_abs_det_jacobian(x, transform(x)), torch.linalg.slogdet(jacobian)[1])


def test_log_det_stays_exact_where_cells_underflow() -> None:
    transform = RowSoftmax(torch.tensor([2]))
    x = torch.tensor([-2000.0], requires_grad=True)
    y = transform(x)
    assert y[0] == 0
    log_det = transform.log_abs_det_jacobian(x, y)
    torch.testing.assert_close(log_det, torch.tensor(-2000.0))
    assert torch.autograd.grad(log_det, x)[0].item() == 1


def test_a_cached_transform_gives_the_same() -> None:
    transform = RowSoftmax(LENGTHS)
    cached = transform.with_cache(1)
    x = torch.randn(7)
    assert transform.with_cache(0) is transform
    assert torch.equal(cached(x), transform(x))
    assert cached.inv(cached(x)) is x


def test_rows_of_one_cell_are_certain() -> None:
    site = RowDirichlet(torch.tensor([0.3, 5.0]), torch.tensor([1, 1]))
    assert site.sample((4,)).tolist() == [[1, 1]] * 4
    assert site.log_prob(torch.ones(2)).item() == pytest.approx(0, abs=1e-12)
    assert biject_to(site.support)(torch.zeros(3, 0)).tolist() == [[1, 1]] * 3


def test_expanded_in_a_plate_it_keeps_its_type_and_validates() -> None:
    site = RowDirichlet(ALPHA, LENGTHS)

    def model() -> Tensor:
        with pyro.plate("outer", 4, dim=-2), pyro.plate("inner", 3):
            value: Tensor = pyro.sample("rows", site)
        return value

    trace = poutine.trace(model).get_trace()
    trace.compute_log_prob()
    node = trace.nodes["rows"]
    assert isinstance(node["fn"], RowDirichlet)
    assert node["value"].shape == (4, 3, 11)
    assert len(node["value"].reshape(12, 11).unique(dim=0)) == 12  # each item its own draw
    torch.testing.assert_close(node["log_prob"], site.log_prob(node["value"]))
    with pytest.raises(ValueError, match="within the support"):
        site.expand([2]).log_prob(torch.ones(11))
    assert site.expand([2]).mean.shape == (2, 11)
    unchecked = RowDirichlet(ALPHA, LENGTHS, validate_args=False).expand([2])
    assert unchecked.log_prob(torch.ones(11)).shape == (2,)


def posterior_of(draws: Tensor) -> None:
    site = RowDirichlet(torch.ones(6), torch.tensor([3, 1, 2]))
    with pyro.plate("items", 2):
        theta = pyro.sample("theta", site)  # (2, 6)
    with pyro.plate("draws", len(draws)):
        pyro.sample("x", dist.Categorical(theta[0, :3]), obs=draws)


OBSERVED = torch.tensor([0] * 5 + [1] * 3 + [2] * 2)


@pytest.mark.parametrize("guide", [AutoDelta, AutoNormal, AutoMultivariateNormal])
def test_svi_with_autoguides(guide: type) -> None:
    found = guide(posterior_of)
    svi = SVI(posterior_of, found, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(OBSERVED) for _ in range(60)]
    assert sum(losses[-10:]) < sum(losses[:10])
    theta = found.median(OBSERVED)["theta"]
    assert theta.shape == (2, 6)
    assert RowSimplex(torch.tensor([3, 1, 2])).check(theta).all()
    assert theta[0, 0] > theta[0, 1] > theta[0, 2]


def test_nuts_samples_the_conjugate_posterior() -> None:
    mcmc = MCMC(NUTS(posterior_of, max_tree_depth=4), num_samples=150, warmup_steps=50, disable_progbar=True)
    mcmc.run(OBSERVED)
    theta = mcmc.get_samples()["theta"]
    assert theta.shape == (150, 2, 6)
    expected = torch.tensor([6.0, 4.0, 3.0]) / 13
    # A posterior standard deviation of 0.13 and at least 40 effective draws: four standard errors.
    torch.testing.assert_close(theta[:, 0, :3].mean(0), expected, rtol=0, atol=0.08)
    torch.testing.assert_close(theta[:, 1, 4:].mean(0), torch.tensor([0.5, 0.5]), rtol=0, atol=0.19)


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected 4 cells \(the sum of row_lengths\), actual shape .* \(3,\)"):
        RowDirichlet(torch.ones(3), torch.tensor([2, 2]))
    with pytest.raises(ValueError, match="expected positive row_lengths, actual smallest = 0"):
        RowDirichlet(torch.ones(3), torch.tensor([3, 0]))
    with pytest.raises(ValueError, match="concentration"):
        RowDirichlet(torch.tensor([1.0, -1.0]), torch.tensor([2]))
