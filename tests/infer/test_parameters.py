"""Continuous latent variables as point estimates."""

from __future__ import annotations

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from torch import Tensor

from pyro_unsup import EM, Categorical, table
from pyro_unsup.errors import FitError
from pyro_unsup.infer.parameters import Points


def scales() -> dict[str, Tensor]:
    with pyro.plate("components", 3):
        loc = pyro.sample("loc", dist.Normal(0.0, 1.0))
        scale = pyro.sample("scale", dist.LogNormal(1.0, 2.0))
    theta = pyro.sample("theta", dist.Dirichlet(torch.ones(4)))
    corr = pyro.sample("corr", dist.LKJCholesky(3, 1.0))
    z = pyro.sample("z", dist.Categorical(theta))
    pyro.sample("x", dist.Normal(loc.sum(), scale.sum()), obs=torch.tensor(1.0))
    return {"loc": loc, "scale": scale, "theta": theta, "corr": corr, "z": z}


def test_continuous_latents_become_points_within_their_supports() -> None:
    points = Points()
    with points:
        values = scales()
    assert list(points.unconstrained) == ["loc", "scale", "theta", "corr"]
    for name, how in points.transforms.items():
        assert torch.equal(how(points.unconstrained[name].detach()), values[name].detach())
        assert values[name].requires_grad
    assert values["loc"].shape == (3,)
    assert (values["scale"] > 0).all()
    torch.testing.assert_close(values["theta"].sum(), torch.tensor(1.0))
    assert points.unconstrained["theta"].shape == (3,)


def test_the_same_points_come_back_until_they_are_moved() -> None:
    points = Points()
    with points:
        first = scales()
    with points:
        second = scales()
    for name in points.unconstrained:
        assert torch.equal(first[name], second[name])
    with torch.no_grad():
        points.unconstrained["scale"] += 1.0
    with points:
        third = scales()
    torch.testing.assert_close(third["scale"], first["scale"] * torch.e)


def test_gradients_reach_the_unconstrained_values() -> None:
    points = Points()
    with points:
        values = scales()
    total = values["scale"].log().sum() + values["loc"].sum()
    grads = torch.autograd.grad(total, [points.unconstrained["scale"], points.unconstrained["loc"]])
    for grad in grads:
        torch.testing.assert_close(grad, torch.ones(3))


def test_log_priors_are_those_of_the_values_without_a_jacobian() -> None:
    points = Points()
    with points:
        trace = poutine.trace(scales).get_trace()
    trace.compute_log_prob()
    scale = points.transforms["scale"](points.unconstrained["scale"].detach())
    torch.testing.assert_close(trace.nodes["scale"]["log_prob"], dist.LogNormal(1.0, 2.0).log_prob(scale))


def test_observed_conditioned_enumerable_and_subsampled_sites_are_left_alone() -> None:
    def model() -> None:
        with pyro.plate("data", 10, subsample_size=4):
            pyro.sample("bit", dist.Bernoulli(0.5))
        pyro.sample("loc", dist.Normal(0.0, 1.0))
        pyro.sample("x", dist.Normal(0.0, 1.0), obs=torch.tensor(0.0))

    points = Points()
    with points:
        poutine.condition(model, {"loc": torch.tensor(2.0)})()
    assert points.unconstrained == {}


def test_a_discrete_latent_that_cannot_be_enumerated_is_an_error() -> None:
    points = Points()
    message = r"site 'n' \(Poisson\) is a discrete latent variable that cannot be enumerated: observe it, or sum it out"
    with pytest.raises(FitError, match=message), points:
        pyro.sample("n", dist.Poisson(3.0))


def test_em_finds_the_posterior_mode_of_a_normal_mean() -> None:
    """Prior Normal(0, 2), eight observations of known variance: the mode is a textbook average."""
    data = torch.tensor([1.0, 2.0, 0.5, 3.0, 2.5, 1.5, 2.0, 1.0])

    def model(x: Tensor) -> None:
        loc = pyro.sample("loc", dist.Normal(0.0, 2.0))
        with pyro.plate("items", len(x)):
            pyro.sample("x", dist.Normal(loc, 0.5), obs=x)

    fit = EM(model).run(data, tolerance=1e-12, progress=False)
    precision = len(data) / 0.25
    torch.testing.assert_close(fit.points["loc"], data.mean() * precision / (precision + 0.25), rtol=1e-6, atol=1e-6)


def test_em_with_a_table_and_points_equals_em_by_hand() -> None:
    """A mixture of two normals whose means have a prior: closed-form MAP-EM beside ours, iteration for iteration."""
    x = torch.cat([torch.randn(20) - 2, torch.randn(15) + 2])

    def model(x: Tensor) -> None:
        pi = table("pi", 2)
        with pyro.plate("components", 2):
            loc = pyro.sample("loc", dist.Normal(torch.tensor([-1.0, 1.0]), 3.0))
        with pyro.plate("items", len(x)):
            z = pyro.sample("z", Categorical(pi))
            pyro.sample("x", dist.Normal(loc[z], 1.0), obs=x)

    em = EM(model, init=lambda declarations, generator: {"pi": torch.tensor([0.5, 0.5]).log()}, lbfgs_iterations=50)
    fit = em.run(x, iterations=0, progress=False)
    pi, loc = torch.tensor([0.5, 0.5]), fit.points["loc"]
    for iteration in range(1, 6):
        fit = em.run(x, iterations=iteration, tolerance=0.0, progress=False, resume=fit)
        joint = pi.log() + dist.Normal(loc, 1.0).log_prob(x.unsqueeze(-1))
        gamma = joint.softmax(-1)
        pi = gamma.mean(0)
        loc = (torch.tensor([-1.0, 1.0]) / 9 + (gamma * x.unsqueeze(-1)).sum(0)) / (1 / 9 + gamma.sum(0))
        torch.testing.assert_close(fit.weights["pi"].exp(), pi, rtol=1e-7, atol=1e-7)
        torch.testing.assert_close(fit.points["loc"], loc, rtol=1e-6, atol=1e-6)
