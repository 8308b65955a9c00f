"""Agreement by jumps: both log-likelihoods, and counts merged for translations only."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyro_unsup.distributions import AlignmentHMM, HMMAgreement
from pyro_unsup.distributions.alignment.grid import Grid

SHARED = 5


def instance(spread: float, seed: int = 0, zeros: float = 0.0) -> tuple[HMMAgreement, Tensor]:
    g = torch.Generator().manual_seed(seed)
    grid = Grid(torch.tensor([2, 0, 3, 1, 6]), torch.tensor([3, 2, 1, 0, 5]))
    row, column = grid.parts()
    value = torch.randint(SHARED, (grid.cells,), generator=g, dtype=torch.int32)
    null = torch.randint(2, (grid.cells,), generator=g, dtype=torch.int32) + SHARED
    value = torch.where((grid.place[row] == 0) | (column == 0), null, value)

    def table(*size: int) -> Tensor:
        x = spread * torch.randn(size, generator=g)
        return x.masked_fill(torch.rand(size, generator=g) < zeros, -torch.inf)

    both = [
        AlignmentHMM(table(SHARED + 2), grid, table(3, 5), table(13), null=table(5), word=table(5), turned=turned)
        for turned in (False, True)
    ]
    return HMMAgreement(both[0], both[1], SHARED), value


def merged(dist: HMMAgreement, value: Tensor, scale: Tensor) -> dict[str, Tensor]:
    """Link by link, and what is not a link pair by pair."""
    possible = dist.log_prob(value).detach() > -torch.inf
    scale = torch.where(possible, scale, 0.0)
    grid = dist.forward.grid
    counts = {name: torch.zeros_like(w) for name, w in dist.weights.items()}
    p, q = (one.posterior(value).marginals for one in (dist.forward, dist.backward))
    row, column = grid.parts()
    for c, (b, i, j) in enumerate(zip(grid.pair[row].tolist(), grid.place[row].tolist(), column.tolist(), strict=True)):
        cell, weight = int(value[c]), float(scale[b])
        if i and j:
            for way in ("forward", "backward"):
                counts[f"{way}.translation"][cell] += weight * float(p[c] * q[c])
        elif i:
            counts["backward.translation"][cell] += weight * float(q[c])
        elif j:
            counts["forward.translation"][cell] += weight * float(p[c])
    for way, one in (("forward", dist.forward), ("backward", dist.backward)):
        leaves = {name: w.detach().clone().requires_grad_() for name, w in one.weights.items()}
        total = torch.where(possible, one.with_weights(leaves).log_prob(value), 0.0)
        for name, grad in zip(leaves, torch.autograd.grad(total, list(leaves.values()), scale), strict=True):
            if name != "translation":
                counts[f"{way}.{name}"] = grad
    return counts


@pytest.mark.parametrize("zeros", [0.0, 0.2])
@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("seed", range(2))
def test_value_and_gradient(spread: float, seed: int, zeros: float) -> None:
    dist, value = instance(spread, seed, zeros)
    weights = {name: w.requires_grad_() for name, w in dist.weights.items()}
    for scale in (torch.ones(5), torch.tensor([1.0, 2.0, -0.5, 3.0, 0.7])):
        total = dist.with_weights(weights).log_prob(value)
        torch.testing.assert_close(total, dist.forward.log_prob(value) + dist.backward.log_prob(value))
        grads = torch.autograd.grad(total, list(weights.values()), scale)
        expected = merged(dist, value, scale)
        for name, grad in zip(weights, grads, strict=True):
            torch.testing.assert_close(grad, expected[name], rtol=1e-9, atol=1e-9)
    counts = dist.posterior(value).counts
    for name, c in merged(dist, value, torch.ones(5)).items():
        torch.testing.assert_close(counts[name], c, rtol=1e-9, atol=1e-9)


def test_posterior_is_that_of_the_two_side_by_side() -> None:
    dist, value = instance(1.0)
    posterior = dist.posterior(value)
    for way, one in enumerate((dist.forward, dist.backward)):
        alone = one.posterior(value)
        assert torch.equal(posterior.marginals[:, way], alone.marginals)
        assert torch.equal(posterior.mode()[:, way], alone.mode())
        assert torch.equal(posterior.mbr()[:, way], alone.mbr())
    draw = posterior.sample(generator=torch.Generator().manual_seed(0))
    assert bool((dist.score(value, draw) <= posterior.log_partition + 1e-9).all())
    assert bool((posterior.entropy >= 0).all())


def test_a_heuristic() -> None:
    dist, value = instance(1.0)
    assert dist.exact is False
    assert type(dist.expand((3, 5))) is HMMAgreement
    assert dist.expand((3, 5)).log_prob(value).shape == (3, 5)
    single = dist.with_weights({name: w.float().requires_grad_() for name, w in dist.weights.items()})
    assert single.log_prob(value).dtype == torch.float32
    grad = torch.autograd.grad(single.log_prob(value).sum(), single.weights["forward.jump"])[0]
    expected = merged(dist, value, torch.ones(5))["forward.jump"]
    torch.testing.assert_close(grad.double(), expected, rtol=1e-4, atol=1e-4)


def test_a_batch_of_weights() -> None:
    """One set a particle. Their counts are those of each alone."""
    dist, value = instance(1.0)
    jumps = torch.randn(2, 1, 3, 5, requires_grad=True)
    table = dist.weights["forward.translation"].clone().requires_grad_()
    many = dist.with_weights({"forward.jump": jumps, "forward.translation": table})
    total = many.log_prob(value)
    assert total.shape == (2, 5)
    grads = torch.autograd.grad(total.sum(), [jumps, table])
    alone = [dist.with_weights({"forward.jump": jump.squeeze(0).detach()}) for jump in jumps]
    torch.testing.assert_close(total.detach(), torch.stack([one.log_prob(value) for one in alone]))
    counts = [one.posterior(value).counts for one in alone]
    torch.testing.assert_close(grads[0], torch.stack([c["forward.jump"] for c in counts]).unsqueeze(1))
    torch.testing.assert_close(grads[1], counts[0]["forward.translation"] + counts[1]["forward.translation"])
    posterior = many.posterior(value)
    assert posterior.marginals.shape == (2, len(value), 2)
    assert torch.equal(posterior.mode()[1], alone[1].posterior(value).mode())
    torch.testing.assert_close(posterior.entropy[0], alone[0].posterior(value).entropy)
