"""What states emit: missing values against numerical integration, several families side by side, and refusals."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import Chain, Joint
from pyro_unsup.errors import StructureError

START, STEPS = (
    torch.tensor([0.6, 0.4], dtype=torch.float64).log(),
    torch.tensor([[0.8, 0.2], [0.3, 0.7]]).double().log(),
)
close = {"rtol": 1e-9, "atol": 1e-9}


def vectors() -> dist.MultivariateNormal:
    """Of two states and three coordinates."""
    lower = torch.randn(2, 3, 3).tril(-1) + torch.diag_embed(0.5 + torch.rand(2, 3))
    return dist.MultivariateNormal(torch.randn(2, 3), scale_tril=lower)


def integrated(chain: Chain, x: Tensor, step: int, coordinate: int | None = None) -> Tensor:
    """log of the integral of the density over one number, by a sum over a fine grid."""
    grid = torch.linspace(-30, 30, 6001)
    copies = x.expand(len(grid), *x.shape).clone()
    if coordinate is None:
        copies[:, step] = grid
    else:
        copies[:, step, coordinate] = grid
    wide = Chain(*(w for w in (START, STEPS)), chain.emission, torch.full((len(grid),), x.shape[0]))
    return torch.logsumexp(wide.log_prob(copies), 0) + (grid[1] - grid[0]).log()


@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_missing_number_is_integrated_out(step: int) -> None:
    x = torch.randn(4)
    chain = Chain(START, STEPS, dist.Normal(torch.randn(2), torch.tensor([0.5, 2.0])), 4)
    expected = integrated(chain, x, step)
    x[step] = torch.nan
    torch.testing.assert_close(chain.log_prob(x), expected, **close)
    mask = ~x.isnan()
    hidden = Chain(START, STEPS, chain.emission, 4, mask=mask)
    torch.testing.assert_close(hidden.log_prob(x.nan_to_num(3.0)), expected, **close)


@pytest.mark.parametrize("step", [0, 2])
@pytest.mark.parametrize("coordinate", [0, 1, 2])
@pytest.mark.parametrize("kind", ["multivariate", "independent", "joint", "mixture"])
def test_a_missing_coordinate_is_integrated_out(kind: str, step: int, coordinate: int) -> None:
    emission = {
        "multivariate": vectors(),
        "independent": dist.Normal(torch.randn(2, 3), 1.3).to_event(1),
        "joint": Joint(
            dist.Normal(torch.randn(2), 1.0), dist.MultivariateNormal(torch.randn(2, 2), torch.eye(2) + 0.3)
        ),
        "mixture": dist.MixtureSameFamily(
            dist.Categorical(logits=torch.randn(2, 4)), dist.Normal(torch.randn(2, 4, 3), 1.0).to_event(1)
        ),
    }[kind]
    x = torch.randn(3, 3)
    chain = Chain(START, STEPS, emission, 3)
    expected = integrated(chain, x, step, coordinate)
    x[step, coordinate] = torch.nan
    torch.testing.assert_close(chain.log_prob(x), expected, **close)
    mask = torch.ones(3, 3, dtype=torch.bool)
    mask[step, coordinate] = False
    torch.testing.assert_close(
        Chain(START, STEPS, emission, 3, mask=mask).log_prob(x.nan_to_num(9.0)), expected, **close
    )


def test_gradients_stay_finite_where_values_are_missing() -> None:
    x = torch.randn(5, 3)
    x[0, 1] = x[2] = x[4, 0] = torch.nan
    loc, lower = torch.randn(2, 3, requires_grad=True), (torch.eye(3).expand(2, 3, 3) * 1.2).clone().requires_grad_()

    def total(loc: Tensor, lower: Tensor) -> Tensor:
        emission = dist.MultivariateNormal(loc, scale_tril=lower, validate_args=False)
        return Chain(START, STEPS, emission, 5).log_prob(x)

    assert torch.autograd.gradcheck(total, (loc, lower.detach().requires_grad_(False)))
    for grad in torch.autograd.grad(total(loc, lower), (loc, lower)):
        assert grad.isfinite().all()
    assert torch.autograd.gradcheck(
        lambda loc, scale: Chain(START, STEPS, dist.LogNormal(loc, scale).to_event(1), 5).log_prob(x.exp()),
        (loc, torch.full((2, 3), 0.7, requires_grad=True)),
    )


def test_nothing_observed_says_nothing() -> None:
    nothing = torch.full((3,), torch.nan)
    chain = Chain(START, STEPS, dist.Poisson(torch.tensor([1.0, 5.0], requires_grad=True)), 3)
    torch.testing.assert_close(chain.log_prob(nothing), torch.tensor(0.0))
    torch.testing.assert_close(chain.posterior(nothing).smoothed[2], START.exp() @ STEPS.exp() @ STEPS.exp())
    vector = Chain(START, STEPS, vectors(), 2)
    torch.testing.assert_close(vector.log_prob(torch.full((2, 3), torch.nan)), torch.tensor(0.0))


# -- draws of what is missing


def test_missing_numbers_are_simulated_by_their_conditional_distribution() -> None:
    x = torch.tensor([-1.0, torch.nan, 0.2, torch.nan])
    chain = Chain(START, STEPS, dist.Normal(torch.tensor([-2.0, 1.0]), torch.tensor([0.5, 1.0])), 4)
    posterior = chain.posterior(x)
    drawn = posterior.simulate((1500,))
    assert drawn.shape == (1500, 4)
    assert torch.equal(drawn[:, [0, 2]], x[[0, 2]].expand(1500, 2))
    for t in (1, 3):
        share = posterior.smoothed[t]
        mean = (share * chain.emission.mean).sum()
        variance = (share * (chain.emission.variance + chain.emission.mean**2)).sum() - mean**2
        assert abs(drawn[:, t].mean() - mean) < 4 * (variance / 1500).sqrt()
        assert abs(drawn[:, t].var() - variance) < 0.2 * variance


def test_missing_coordinates_are_simulated_given_the_others() -> None:
    emission = vectors()
    x = torch.tensor([[0.5, torch.nan, -0.2], [torch.nan, 0.1, 0.4]])
    chain = Chain(START, STEPS, emission, 2)
    posterior = chain.posterior(x)
    drawn = posterior.simulate((1500,))
    for t, miss, have in ((0, [1], [0, 2]), (1, [0], [1, 2])):
        cov, loc = emission.covariance_matrix, emission.loc
        cross = cov[:, miss][:, :, have] @ torch.linalg.inv(cov[:, have][:, :, have])  # (K, 1, 2)
        means = (loc[:, miss].unsqueeze(-1) + cross @ (x[t, have] - loc[:, have]).unsqueeze(-1))[:, 0, 0]
        variances = (cov[:, miss][:, :, miss] - cross @ cov[:, have][:, :, miss])[:, 0, 0]
        share = posterior.smoothed[t]
        mean = (share * means).sum()
        variance = (share * (variances + means**2)).sum() - mean**2
        found = drawn[:, t, miss[0]]
        assert abs(found.mean() - mean) < 4 * (variance / 1500).sqrt()
        assert abs(found.var() - variance) < 0.2 * variance


@pytest.mark.parametrize("kind", ["independent", "joint", "mixture"])
def test_whatever_has_gaps_is_simulated(kind: str) -> None:
    normals = dist.MultivariateNormal(torch.zeros(2, 2), torch.tensor([[1.0, 0.95], [0.95, 1.0]]))
    emission, x = {
        "independent": (
            dist.Poisson(torch.tensor([[1.0, 2.0], [5.0, 6.0]])).to_event(1),
            torch.tensor([[1.0, torch.nan]]),
        ),
        "joint": (Joint(dist.Bernoulli(torch.tensor([0.2, 0.9])), normals), torch.tensor([[1.0, torch.nan, 2.0]])),
        "mixture": (
            dist.MixtureSameFamily(
                dist.Categorical(torch.tensor([[0.5, 0.5], [0.5, 0.5]])),
                dist.Normal(torch.tensor([[[-9.0, -9.0], [9.0, 9.0]]] * 2), 1.0).to_event(1),
            ),
            torch.tensor([[9.0, torch.nan]]),
        ),
    }[kind]
    drawn = Chain(START, STEPS, emission, 1).posterior(x).simulate((500,))
    assert not drawn.isnan().any()
    assert torch.equal(drawn[..., 0], x[..., 0].expand(500, 1))
    if kind == "joint":  # given that the other is 2
        assert abs(drawn[:, 0, 1].mean() - 1.9) < 0.1
    if kind == "mixture":  # of the component that the other shows
        assert (drawn[:, 0, 1] > 0).all()


def test_data_without_gaps_stay_as_they_are() -> None:
    x = torch.randn(3)
    assert torch.equal(Chain(START, STEPS, dist.Normal(torch.randn(2), 1.0), 3).posterior(x).simulate(), x)


# -- several families


def test_joint_is_the_product_of_its_parts() -> None:
    normal, rates, vector = dist.Normal(torch.randn(2), 1.0), dist.Poisson(torch.tensor([1.0, 4.0])), vectors()
    both = Joint(normal, rates, vector)
    x = torch.cat([torch.randn(7, 1, 1), torch.ones(7, 1, 1), torch.randn(7, 1, 3)], -1)
    expected = normal.log_prob(x[..., 0]) + rates.log_prob(x[..., 1]) + vector.log_prob(x[..., 2:])
    torch.testing.assert_close(both.log_prob(x), expected)
    assert both.sample((4,)).shape == (4, 2, 5)
    assert both.expand([3, 2]).batch_shape == (3, 2)
    torch.testing.assert_close(both.mean, torch.cat([normal.mean[:, None], rates.mean[:, None], vector.mean], -1))
    torch.testing.assert_close(both.variance[:, :2], torch.stack([normal.variance, rates.variance], -1))
    assert not both.has_rsample
    assert both.support.check(both.sample()).all()
    with pytest.raises(StructureError, match="numbers or vectors, at least one"):
        Joint()


# -- refusals


@pytest.mark.parametrize(
    ("emission", "lengths", "shape", "said"),
    [
        (dist.Normal(torch.zeros(3), 1.0), 3, (3,), "must end in the 2 states; actual batch shape (3,)"),
        (dist.Normal(torch.zeros(4, 2), 1.0), 3, (3,), "parameters for 4 steps, the data have 3"),
        (dist.Normal(torch.zeros(2, 4), 1.0).to_event(1), 3, (3,), "an observation has shape (4,), actual value of"),
        (dist.Normal(torch.zeros(2), 1.0), [2, 3], (3, 3), "2 lengths for 3 sequences"),
        (dist.Normal(torch.zeros(4, 1, 2), 1.0), [2, 3], (2, 3), "batches that fit the sequences, (2,)"),
    ],
)
def test_shapes_that_do_not_fit(
    emission: dist.Distribution, lengths: object, shape: tuple[int, ...], said: str
) -> None:
    with pytest.raises(StructureError) as error:
        Chain(START, STEPS, emission, torch.tensor(lengths)).log_prob(torch.zeros(shape))
    assert said in str(error.value)


def test_values_that_cannot_be() -> None:
    counts = Chain(START, STEPS, dist.Poisson(torch.ones(2)), 3)
    with pytest.raises(StructureError, match="observation 1 is -4, which a Poisson cannot emit: expected Integer"):
        counts.log_prob(torch.tensor([0.0, -4.0, 1.0]))
    with pytest.raises(StructureError, match=r"mask must have the shape .* \(3,\).* actual shape \(2,\)"):
        Chain(START, STEPS, dist.Poisson(torch.ones(2)), 3, mask=torch.ones(2)).log_prob(torch.zeros(3))
    with pytest.raises(StructureError, match="a mask needs an emission that is a distribution"):
        Chain(START, STEPS, torch.zeros(2, 4), 3, mask=torch.ones(3))
    shares = torch.tensor([[0.5, 0.5], [torch.nan, 0.5]])
    with pytest.raises(StructureError, match="a Dirichlet cannot leave out single coordinates"):
        Chain(START, STEPS, dist.Dirichlet(torch.ones(2, 2)), 2).log_prob(shares)
    bad = dist.Normal(torch.zeros(2), torch.tensor([1.0, torch.nan]), validate_args=False)
    with pytest.raises(StructureError, match="emission of state 1 gives observation 0 the log-density nan"):
        Chain(START, STEPS, bad, 3).log_prob(torch.zeros(3))


def test_a_sampler_may_try_parameters_that_overflow() -> None:
    bad = dist.Normal(torch.zeros(2), torch.tensor([1.0, torch.nan]), validate_args=False)
    with pu.kernels.switched_off(), dist.validation_enabled(False):
        found = Chain(START, STEPS, bad, 3).log_prob(torch.zeros(3))
    only = Chain(START, STEPS, dist.Normal(torch.tensor([0.0, 1e9]), 1.0), 3).log_prob(torch.zeros(3))
    torch.testing.assert_close(found, only)
