"""Agreement: its value is both log-likelihoods, its gradient the merged counts, found by loops over all words."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyro_unsup import StructureError
from pyro_unsup.distributions import Agreement, Alignment, AlignmentHMM, HMMAgreement, Structure
from pyro_unsup.distributions.alignment.grid import Grid

SHARED = 5


def instance(spread: float, seed: int = 0, zeros: float = 0.0) -> tuple[Agreement, Tensor]:
    g = torch.Generator().manual_seed(seed)
    grid = Grid(torch.tensor([2, 0, 3, 1]), torch.tensor([3, 2, 1, 0]))
    row, column = grid.parts()
    value = torch.randint(SHARED, (grid.cells,), generator=g, dtype=torch.int32)
    null = torch.randint(2, (grid.cells,), generator=g, dtype=torch.int32) + SHARED
    value = torch.where((grid.place[row] == 0) | (column == 0), null, value)

    def table(size: int) -> Tensor:
        x = spread * torch.randn(size, generator=g)
        return x.masked_fill(torch.rand(size, generator=g) < zeros, -torch.inf)

    forward = Alignment(table(SHARED + 2), grid, table(4), table(4))
    backward = Alignment(table(SHARED + 2), grid, table(4), table(4), turned=True)
    return Agreement(forward, backward, SHARED), value


def merged(dist: Agreement, value: Tensor, scale: list[float]) -> dict[str, Tensor]:
    """Link by link."""
    counts = {name: torch.zeros_like(w) for name, w in dist.weights.items()}
    p, q = (one.posterior(value).marginals for one in (dist.forward, dist.backward))
    possible = dist.log_prob(value).detach() > -torch.inf
    grid, at = dist.forward.grid, 0
    for b, (height, width) in enumerate(zip(grid.source_lengths.tolist(), grid.target_lengths.tolist(), strict=True)):
        for i in range(height + 1):
            for j in range(width + 1):
                cell, weight = int(value[at]), scale[b] * float(possible[b])
                if i and j:
                    both = weight * float(p[at] * q[at])
                    for way in ("forward", "backward"):
                        counts[f"{way}.translation"][cell] += both
                        counts[f"{way}.word"][b] += both
                elif i:
                    counts["backward.translation"][cell] += weight * float(q[at])
                    counts["backward.null"][b] += weight * float(q[at])
                elif j:
                    counts["forward.translation"][cell] += weight * float(p[at])
                    counts["forward.null"][b] += weight * float(p[at])
                at += 1
    return counts


@pytest.mark.parametrize("zeros", [0.0, 0.3])
@pytest.mark.parametrize("spread", [0.0, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient(spread: float, seed: int, zeros: float) -> None:
    dist, value = instance(spread, seed, zeros)
    weights = {name: w.requires_grad_() for name, w in dist.weights.items()}
    total = dist.with_weights(weights).log_prob(value)
    torch.testing.assert_close(total, dist.forward.log_prob(value) + dist.backward.log_prob(value))
    scale = [1.0, 2.0, -0.5, 3.0]
    grads = torch.autograd.grad(total, list(weights.values()), torch.tensor(scale))
    expected = merged(dist, value, scale)
    for name, grad in zip(weights, grads, strict=True):
        torch.testing.assert_close(grad, expected[name], rtol=1e-9, atol=1e-9)
    counts = dist.posterior(value).counts
    for name, c in merged(dist, value, [1.0] * 4).items():
        torch.testing.assert_close(counts[name], c, rtol=1e-9, atol=1e-9)


def test_weights_that_are_hardly_numbers() -> None:
    """Totals below all normal numbers have an infinite inverse, which must not meet a zero."""
    dist, value = instance(1.0)
    weights = {name: w - 706.0 if name.endswith("translation") else w - 3.0 for name, w in dist.weights.items()}
    for way in ("forward", "backward"):
        weights[f"{way}.translation"] = torch.cat([weights[f"{way}.translation"], torch.zeros(1)])
        weights[f"{way}.null"][0] = 0.0
    weights = {name: w.requires_grad_() for name, w in weights.items()}
    low = dist.with_weights(weights)
    grads = torch.autograd.grad(low.log_prob(value).sum(), list(weights.values()))
    for (name, c), grad in zip(merged(low, value, [1.0] * 4).items(), grads, strict=True):
        torch.testing.assert_close(grad, c, msg=name, rtol=1e-9, atol=1e-9)


def test_only_the_tables_need_counts() -> None:
    dist, value = instance(1.0)
    tables = {
        f"{way}.translation": dist.weights[f"{way}.translation"].requires_grad_() for way in ("forward", "backward")
    }
    grads = torch.autograd.grad(dist.with_weights(tables).log_prob(value).sum(), list(tables.values()))
    for grad, c in zip(grads, (merged(dist, value, [1.0] * 4)[name] for name in tables), strict=True):
        torch.testing.assert_close(grad, c)


def test_counts_can_be_asked_for_twice() -> None:
    dist, value = instance(1.0)
    table = dist.weights["forward.translation"].requires_grad_()
    total = dist.log_prob(value).sum()
    first = torch.autograd.grad(total, table, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(total, table)[0], first)


def test_it_says_that_it_is_a_heuristic() -> None:
    dist, value = instance(1.0)
    assert isinstance(dist, Structure)
    assert dist.exact is False
    table = dist.weights["forward.translation"].requires_grad_()
    grad = torch.autograd.grad(dist.log_prob(value).sum(), table, create_graph=True)[0]
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(grad.sum(), table)


def test_posterior_is_that_of_the_two_side_by_side() -> None:
    dist, value = instance(1.0)
    posterior = dist.posterior(value)
    for way, one in enumerate((dist.forward, dist.backward)):
        alone = one.posterior(value)
        assert torch.equal(posterior.marginals[:, way], alone.marginals)
        assert torch.equal(posterior.mode()[:, way], alone.mode())
        assert torch.equal(posterior.mbr()[:, way], alone.mbr())
    each = [one.posterior(value).entropy for one in (dist.forward, dist.backward)]
    torch.testing.assert_close(posterior.entropy, each[0] + each[1])
    draw = posterior.sample(generator=torch.Generator().manual_seed(0))
    assert draw.shape == (len(value), 2)
    both = dist.forward.score(value, draw[:, 0]) + dist.backward.score(value, draw[:, 1])
    assert torch.equal(dist.score(value, draw), both)
    assert bool((both <= posterior.log_partition + 1e-9).all())


def test_expand_keeps_the_type() -> None:
    dist, value = instance(1.0)
    wide = dist.expand((3, 4))
    assert type(wide) is Agreement
    assert wide.log_prob(value).shape == (3, 4)


def test_float32() -> None:
    dist, value = instance(1.0)
    single = dist.with_weights({name: w.float().requires_grad_() for name, w in dist.weights.items()})
    total = single.log_prob(value)
    assert total.dtype == torch.float32
    torch.testing.assert_close(total.double(), dist.log_prob(value), rtol=2e-5, atol=2e-5)
    grad = torch.autograd.grad(total.sum(), single.weights["forward.translation"])[0]
    expected = merged(dist, value, [1.0] * 4)["forward.translation"]
    torch.testing.assert_close(grad.double(), expected, rtol=1e-4, atol=1e-4)


def test_errors() -> None:
    dist, _ = instance(1.0)
    with pytest.raises(StructureError, match="between one direction and the other"):
        Agreement(dist.forward, dist.forward, 2)
    with pytest.raises(StructureError, match="cannot share 9 cells"):
        Agreement(dist.forward, dist.backward, 9)
    with pytest.raises(StructureError, match="cannot draw words"):
        dist.sample()


@pytest.mark.parametrize("kind", [Agreement, HMMAgreement])
def test_null_words_among_the_shared_cells_are_refused(kind: type[Agreement]) -> None:
    grid = Grid(torch.tensor([2]), torch.tensor([2]))
    one, more = (Alignment, ()) if kind is Agreement else (AlignmentHMM, (torch.zeros(3, 11),))
    ways = [one(torch.zeros(1), grid, *more, turned=turned) for turned in (False, True)]
    with pytest.raises(StructureError, match="null words come after the 1 that both tables share, actual cell 0: put"):
        kind(*ways, shared=1).log_prob(torch.zeros(grid.cells, dtype=torch.int32))


@pytest.mark.parametrize("kind", [Agreement, HMMAgreement])
@pytest.mark.parametrize("holes", [0.0, 0.3])
def test_counts_with_potentials_by_the_kernel_and_by_the_definition(kind: type[Agreement], holes: float) -> None:
    dist, value = instance(1.0)
    if kind is HMMAgreement:
        w, grid = dist.weights, dist.grid
        ways = [
            AlignmentHMM(
                w[f"{way}.translation"], grid, torch.randn(3, 5), null=w[f"{way}.null"], turned=way == "backward"
            )
            for way in ("forward", "backward")
        ]
        dist = kind(*ways, SHARED)
    more = torch.randn(len(value), 2).masked_fill(torch.rand(len(value), 2) < holes, -torch.inf).requires_grad_()
    weights = {name: w.clone().requires_grad_() for name, w in dist.weights.items()}
    scale = torch.tensor([1.0, 2.0, -0.5, 3.0])
    found = []
    for way in (Agreement.log_partition, Agreement.defined):
        for added in ({"links": more}, {}):
            one = dist.with_weights(weights).with_potentials(**added).with_temperature(2.0)
            total = way(one, value)
            inputs = [*weights.values(), *added.values()]
            found.append((total.detach(), torch.autograd.grad(total, inputs, scale, allow_unused=True)))
    for kernel, definition in zip(found[:2], found[2:], strict=True):
        torch.testing.assert_close(kernel[0], definition[0])
        for a, b in zip(kernel[1], definition[1], strict=True):
            torch.testing.assert_close(torch.zeros(()) if a is None else a, torch.zeros(()) if b is None else b)
    some = torch.tensor([2, 0])
    small, own = dist.with_potentials(links=more.detach()).select(value, some)
    torch.testing.assert_close(small.log_prob(own), dist.with_potentials(links=more).log_prob(value)[some])
