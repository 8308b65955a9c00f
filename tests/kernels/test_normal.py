"""Normal densities and moments by kernels, against torch: numbers, gaps, gradients of first and second order."""

from __future__ import annotations

import numpy as np
import pyro.distributions as dist
import pytest
import torch

from pyro_unsup import kernels
from pyro_unsup.distributions.emission import log_density, observed_cells
from pyro_unsup.distributions.normal_density import normal_density
from pyro_unsup.kernels.exp_log import exp_possible
from pyro_unsup.kernels.normal import moments


def emission(D: int | None, K: int = 3) -> dist.TorchDistribution:
    generator = torch.Generator().manual_seed(0)
    shape = (K,) if D is None else (K, D)
    loc = torch.randn(shape, generator=generator, dtype=torch.float64)
    scale = 0.1 + torch.rand(shape, generator=generator, dtype=torch.float64)
    found = dist.Normal(loc.requires_grad_(), scale.requires_grad_())
    return found if D is None else found.to_event(1)


def values(D: int | None, n: int = 40) -> torch.Tensor:
    return torch.randn((n,) if D is None else (n, D), generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("D", [None, 1, 4])
@pytest.mark.parametrize("gaps", [False, True])
def test_densities_and_gradients_are_those_of_torch(D: int | None, gaps: bool) -> None:
    e, x = emission(D), values(D)
    if gaps:
        x.view(-1)[::7] = torch.nan
    seen = observed_cells(x, e.event_shape, None)
    inside = e if D is None else e.base_dist
    found = normal_density(e, x, seen)
    assert found is not None
    with kernels.switched_off():
        expected = log_density(e, x, seen)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.rand(found.shape, dtype=torch.float64)
    ours = torch.autograd.grad((found * weights).sum(), (inside.loc, inside.scale))
    theirs = torch.autograd.grad((expected * weights).sum(), (inside.loc, inside.scale))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_second_derivatives() -> None:
    x = values(2, 5)

    def function(loc: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        found = normal_density(dist.Normal(loc, scale).to_event(1), x, None)
        assert found is not None
        return found

    e = emission(2)
    given = (e.base_dist.loc.detach().requires_grad_(), e.base_dist.scale.detach().requires_grad_())
    assert torch.autograd.gradcheck(function, given)
    assert torch.autograd.gradgradcheck(function, given)


def test_many_observations_are_done_in_threads() -> None:
    e, x = emission(3), values(3, 60_000)
    with torch.no_grad():
        found = normal_density(e, x, None)
        with kernels.switched_off():
            torch.testing.assert_close(found, log_density(e, x, None), rtol=1e-12, atol=1e-12)
    w = np.random.default_rng(0).random((60_000, 3))
    centre = np.zeros((3, 3))
    n, s1, s2 = moments(x.numpy(), w, centre)
    np.testing.assert_allclose(n, np.repeat(w.sum(0)[:, None], 3, 1))
    np.testing.assert_allclose(s1, w.T @ x.numpy(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(s2, w.T @ x.numpy() ** 2, rtol=1e-9)


@pytest.mark.parametrize(
    "other",
    [
        dist.Normal(torch.zeros(3), 1.0),  # float32
        dist.StudentT(torch.ones(3).double()),
        dist.Normal(torch.zeros(5, 3).double(), torch.ones(3).double()),  # parameters by step
    ],
)
def test_what_the_kernel_leaves_to_torch(other: dist.TorchDistribution) -> None:
    assert normal_density(other, values(None, 5), None) is None


def test_what_is_possible_stays_above_zero() -> None:
    x = np.array([0.0, -1.0, -700.0, -1e5, -np.inf])
    found = x.copy()
    exp_possible(found)
    np.testing.assert_allclose(found[:3], np.exp(x[:3]), rtol=1e-14)
    assert 0 < found[3] < 1e-300
    assert found[4] == 0
