"""EM of how long hidden states last: parameters of distributions, and tables, with series that are cut off."""

from __future__ import annotations

from itertools import pairwise

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro.distributions import constraints
from torch import Tensor

from pyro_unsup import EM, table
from pyro_unsup.distributions import SemiMarkov

LENGTHS, LONGEST = torch.full((12,), 80), 30
START = torch.tensor([0.5, 0.5], dtype=torch.float64).log()
OTHER = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64).log()
TRUE = dist.NegativeBinomial(torch.tensor([3.0, 8.0]).double(), torch.tensor([0.5, 0.4]).double())


def series(lasts: dist.TorchDistribution | Tensor, mean: Tensor, **options: int | bool) -> SemiMarkov:
    return SemiMarkov(START, OTHER, lasts, dist.Normal(mean, 0.5), LENGTHS, censored=True, **options)


POSITIVE, SHARE = constraints.positive, constraints.unit_interval
#: By family: how it is made, its parameters with the starts and the constraints of them.
FAMILIES = {
    "negative binomial": (dist.NegativeBinomial, {"total_count": (1.0, POSITIVE), "probs": (0.7, SHARE)}),
    "poisson": (dist.Poisson, {"rate": (5.0, POSITIVE)}),
    "geometric": (dist.Geometric, {"probs": (0.3, SHARE)}),
}


@pytest.fixture
def data() -> Tensor:
    return series(TRUE, torch.tensor([-1.0, 1.0]), longest=LONGEST).sample()


@pytest.mark.parametrize("family", FAMILIES)
def test_parameters_climb_to_where_the_likelihood_is_flat(family: str, data: Tensor) -> None:
    kind, parameters = FAMILIES[family]

    def model(x: Tensor) -> None:
        mean = pyro.param("mean", torch.tensor([-0.5, 0.5]))
        own = {
            name: pyro.param(name, torch.full((2,), first), constraint=where)
            for name, (first, where) in parameters.items()
        }
        with pyro.plate("series", len(LENGTHS)):
            pyro.sample("x", series(kind(**own), mean, longest=LONGEST), obs=x)

    fit = EM(model).run(data, iterations=100, tolerance=1e-11, progress=False)
    rows = [row["objective"] for row in fit.rows]
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(rows))
    found = {name: x.detach().clone().requires_grad_() for name, x in fit.params.items()}
    at = series(kind(**{name: found[name] for name in parameters}), found["mean"], longest=LONGEST)
    for slope, x in zip(
        torch.autograd.grad(at.log_prob(data).sum(), list(found.values())), found.values(), strict=True
    ):
        assert (slope * x).abs().max() < 0.05  # of a log-likelihood of about a thousand
    lasts = kind(**{name: fit.params[name] for name in parameters}).mean
    torch.testing.assert_close(lasts, TRUE.mean, rtol=0.3, atol=0.0)


def test_factors_do_not_count_a_censored_stretch_twice(data: Tensor) -> None:
    """The gradient of what an M step climbs is that of the likelihood, where the E step was made."""
    total_count, probs = torch.tensor([2.0, 5.0]).requires_grad_(), torch.tensor([0.6, 0.5]).requires_grad_()
    model = series(dist.NegativeBinomial(total_count, probs), torch.tensor([-1.0, 1.0]), longest=LONGEST)
    total = model.log_prob(data).sum()
    expected = torch.autograd.grad(total, [total_count, probs], retain_graph=True)
    factors = {name: w for name, w in model.factors().items() if w.requires_grad}
    counts = dict(zip(factors, torch.autograd.grad(total, list(factors.values()), retain_graph=True), strict=True))
    climbed = torch.stack([(counts[name] * w).sum() for name, w in factors.items()]).sum()
    torch.testing.assert_close(torch.autograd.grad(climbed, [total_count, probs]), expected)


def test_tables_of_durations_are_relative_frequencies(data: Tensor) -> None:
    """Of whole durations: those of stretches that are cut off, as long as they would have been."""

    def model(x: Tensor) -> None:
        with pyro.plate("series", len(LENGTHS)):
            pyro.sample("x", series(table("lasts", 2, LONGEST), torch.tensor([-1.0, 1.0])), obs=x)

    fit = EM(model).run(data, iterations=200, tolerance=1e-9, progress=False)
    weights = fit.weights["lasts"].detach().clone().requires_grad_()
    (counts,) = torch.autograd.grad(series(weights, torch.tensor([-1.0, 1.0])).log_prob(data).sum(), weights)
    shares = counts / counts.sum(-1, keepdim=True)
    torch.testing.assert_close(shares, weights.detach().exp(), rtol=0.0, atol=2e-3)  # what EM leaves as it is
