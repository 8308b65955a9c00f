"""Tables of durations against scipy, and their gradients."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from scipy import stats
from torch import Tensor

from pyro_unsup.distributions import SemiMarkov, duration_table, survivor
from pyro_unsup.distributions.duration import longer, whole_durations


def numbers(*x: float) -> Tensor:
    return torch.tensor(x, dtype=torch.float64)


FAMILIES = {
    "poisson": (dist.Poisson(numbers(0.1, 3.0, 50.0)), [stats.poisson(r) for r in (0.1, 3.0, 50.0)]),
    "geometric": (dist.Geometric(numbers(0.9, 0.1, 0.001)), [stats.geom(p, -1) for p in (0.9, 0.1, 0.001)]),
    "negative binomial": (
        dist.NegativeBinomial(numbers(0.3, 2.0, 9.0), numbers(0.2, 0.5, 0.9)),
        [stats.nbinom(r, 1 - p) for r, p in ((0.3, 0.2), (2.0, 0.5), (9.0, 0.9))],
    ),
    "binomial": (dist.Binomial(7, numbers(0.2, 0.5, 0.9)), [stats.binom(7, p) for p in (0.2, 0.5, 0.9)]),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("longest", [1, 5, 40])
def test_weights_and_survivors_are_those_of_scipy(name: str, longest: int) -> None:
    """Tails as small as 1e-40 too, of which one minus the rest would know nothing."""
    given, expected = FAMILIES[name]
    at = range(longest)
    table = torch.stack([torch.from_numpy(one.logpmf(at)) for one in expected])
    torch.testing.assert_close(duration_table(given, longest), table, rtol=1e-10, atol=1e-10)
    survives = torch.stack([torch.from_numpy(one.logsf([d - 1 for d in at])) for one in expected])
    found = survivor(duration_table(given, longest), longer(given, longest))
    torch.testing.assert_close(found, survives, rtol=1e-9, atol=1e-9)


def test_a_heavy_tail_is_what_the_rest_leaves() -> None:
    p = numbers(1e-5)
    torch.testing.assert_close(longer(dist.Geometric(p), 10), 10 * torch.log1p(-p), rtol=1e-9, atol=1e-12)


def test_renormalised_weights_sum_to_one_and_leave_nothing_beyond() -> None:
    table = duration_table(dist.Poisson(numbers(3.0, 8.0)), 4, renormalise=True)
    torch.testing.assert_close(table.exp().sum(-1), numbers(1.0, 1.0))
    torch.testing.assert_close(survivor(table)[:, 0], numbers(0.0, 0.0))


@pytest.mark.parametrize("renormalise", [False, True])
@pytest.mark.parametrize("censored", [False, True])
def test_gradients_reach_the_parameters(renormalise: bool, censored: bool) -> None:
    torch.manual_seed(0)
    trials, logits, x = numbers(1.5, 3.0).requires_grad_(), numbers(0.3, -0.4).requires_grad_(), torch.randn(9).double()
    steps = torch.tensor([[-torch.inf, 0.0], [0.0, -torch.inf]], dtype=torch.float64)

    def total(trials: Tensor, logits: Tensor) -> Tensor:
        lasts = dist.NegativeBinomial(trials, logits=logits)
        normal = dist.Normal(numbers(-1.0, 1.0), 1.0)
        model = SemiMarkov(
            numbers(0.0, 0.0), steps, lasts, normal, 9, censored=censored, longest=5, renormalise=renormalise
        )
        found: Tensor = model.log_prob(x)
        return found

    assert torch.autograd.gradcheck(total, (trials, logits), eps=1e-6, atol=1e-7)
    assert torch.autograd.gradgradcheck(total, (trials, logits), eps=1e-6, atol=1e-5)


@pytest.mark.parametrize("censored", [False, True])
def test_whole_durations_are_what_an_m_step_needs(censored: bool) -> None:
    """EM with the closed form of the Poisson climbs to where the likelihood is flat.

    Stretches have at most six positions, so that tails matter.
    """
    torch.manual_seed(0)
    lengths, steps = torch.full((5,), 40), torch.tensor([[-torch.inf, 0.0], [0.0, -torch.inf]], dtype=torch.float64)
    normal = dist.Normal(numbers(-1.0, 1.0), 0.8)
    x = SemiMarkov(numbers(0.0, 0.0), steps, dist.Poisson(numbers(2.0, 3.0)), normal, lengths, longest=20).sample()
    rate, before = numbers(4.0, 1.0), -torch.inf
    for _ in range(60):
        lasts = dist.Poisson(rate.clone().requires_grad_())
        model = SemiMarkov(numbers(0.0, 0.0), steps, lasts, normal, lengths, longest=6, censored=censored)
        total = model.log_prob(x).sum()
        factors = [model.weights[name] for name in ("duration", "last") if name in model.weights]
        counts = torch.autograd.grad(total, [*factors, lasts.rate])
        found = whole_durations(lasts, *counts[:-1])
        assert found is not None
        value, weight = found
        assert float(total.detach()) >= before - 1e-9
        before, rate = float(total.detach()), (value * weight).sum(0) / weight.sum(0)
    assert counts[-1].abs().max() < 1e-6
