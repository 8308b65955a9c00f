"""The three readings of one sum: values, gradients, and what happens where nothing is possible."""

from __future__ import annotations

import itertools

import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from pyro_unsup.distributions.semiring import LOG, MAX, SAMPLE, Sum

INF = torch.inf
every = pytest.mark.parametrize("semiring", [LOG, MAX, SAMPLE()], ids=["log", "max", "sample"])


def gradient(semiring: Sum, x: Tensor, dim: int) -> Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(semiring(x, dim).nan_to_num(neginf=0).sum(), x)[0]


@every
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_values_are_those_of_torch(semiring: Sum, dim: int) -> None:
    x = 5 * torch.randn(3, 4, 5)
    expected = x.amax(dim) if semiring is MAX else x.logsumexp(dim)
    torch.testing.assert_close(semiring(x, dim), expected)


@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_gradient_of_log_is_softmax(dim: int) -> None:
    x = 5 * torch.randn(4, 5)
    torch.testing.assert_close(gradient(LOG, x, dim), x.softmax(dim))


def test_log_is_differentiable_twice() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    for dim in (0, 1):
        assert gradcheck(lambda x, dim=dim: LOG(x, dim), (x,))
        assert gradgradcheck(lambda x, dim=dim: LOG(x, dim), (x,))


def test_second_derivatives_beside_impossible_choices_are_those_without_them() -> None:
    x = torch.randn(3)

    def hessian(x: Tensor) -> Tensor:
        found = torch.autograd.functional.hessian(lambda x: LOG(x, 0), x)
        assert isinstance(found, Tensor)
        return found

    wide = hessian(torch.cat([x, torch.tensor([-INF])]))
    torch.testing.assert_close(wide[:3, :3], hessian(x))
    assert (wide[3] == 0).all()
    assert (wide[:, 3] == 0).all()
    assert (hessian(torch.full((3,), -INF)) == 0).all()


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_impossible_choices_have_gradient_zero(semiring: Sum, dtype: torch.dtype) -> None:
    x = torch.tensor([[-INF, -INF, -INF], [-INF, 1.0, -INF], [0.0, -INF, 0.0]], dtype=dtype)
    total = semiring(x, 1)
    assert total[0] == -INF
    assert total[1] == 1.0
    grad = gradient(semiring, x, 1)
    assert (grad[x == -INF] == 0).all()
    torch.testing.assert_close(grad.sum(1), torch.tensor([0.0, 1.0, 1.0], dtype=dtype))


@every
def test_nothing_possible_anywhere(semiring: Sum) -> None:
    """A recursion over a dead end: the gradient that comes from above may be anything finite."""
    x = torch.full((2, 3, 4), -INF, requires_grad=True)
    total = semiring(semiring(x, 2), 1)
    assert total.tolist() == [-INF, -INF]
    (grad,) = torch.autograd.grad(total, x, torch.tensor([3.0, -2.0]))
    assert (grad == 0).all()


@every
def test_nan_shows(semiring: Sum) -> None:
    x = torch.tensor([[0.0, torch.nan], [0.0, 1.0]])
    total = semiring(x, 1)
    assert total[0].isnan()
    assert total[1].isfinite()


@every
def test_large_weights_neither_overflow_nor_underflow(semiring: Sum) -> None:
    x = torch.randn(50)
    torch.testing.assert_close(semiring(x + 1e5, 0), semiring(x, 0) + 1e5)
    torch.testing.assert_close(semiring(x - 1e5, 0), semiring(x, 0) - 1e5)


def test_max_points_at_the_best_and_at_the_first_of_equals() -> None:
    x = torch.tensor([[1.0, 3.0, 2.0], [2.0, 2.0, 1.0], [-INF, -5.0, -5.0]])
    assert gradient(MAX, x, 1).tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]
    assert gradient(MAX, x.T, 0).T.tolist() == [[0, 1, 0], [1, 0, 0], [0, 1, 0]]


def test_sample_frequencies_follow_the_weights() -> None:
    x = torch.tensor([0.1, 0.4, 0.0, 1.2, 0.3]).log() + 700  # not normalised, and large
    n = 20_000
    one_hot = gradient(SAMPLE(), x.expand(n, 5), 1)
    assert set(one_hot.unique().tolist()) == {0.0, 1.0}
    assert (one_hot.sum(1) == 1).all()
    counts = one_hot.sum(0)
    assert counts[2] == 0
    expected = n * torch.tensor([0.1, 0.4, 1.2, 0.3]) / 2.0
    assert stats.chisquare(counts[[0, 1, 3, 4]].numpy(), expected.numpy()).pvalue > 1e-4


def test_sample_scales_with_the_gradient_from_above() -> None:
    x = torch.randn(6, 3, requires_grad=True)
    (grad,) = torch.autograd.grad(SAMPLE()(x, 1), x, torch.arange(6.0))
    assert grad.sum(1).tolist() == [0, 1, 2, 3, 4, 5]
    assert ((grad != 0).sum(1) <= 1).all()


def test_a_generator_repeats_a_draw() -> None:
    x = torch.randn(50, 4)
    one, same, other = (gradient(SAMPLE(torch.Generator().manual_seed(seed)), x, 1) for seed in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_sampling_backwards_through_a_chain_draws_exact_paths() -> None:
    """The gradient of a recursion over three steps is one path, in proportion to its weight among all paths."""
    a, b, c = torch.randn(2), torch.randn(2, 3), torch.randn(3, 2)
    b[0, 1] = -INF
    n = 8000
    leaves = [w.expand(n, *w.shape).clone().requires_grad_() for w in (a, b, c)]
    draw = SAMPLE()
    one = draw(leaves[0].unsqueeze(-1) + leaves[1], 1)  # (n, 3)
    total = draw(draw(one.unsqueeze(-1) + leaves[2], 1), 1)
    first, second, third = torch.autograd.grad(total.sum(), leaves)
    weights, found = [], []
    for i, j, k in itertools.product(range(2), range(3), range(2)):
        weights.append(float((a[i] + b[i, j] + c[j, k]).exp()))
        found.append(float((first[:, i] * second[:, i, j] * third[:, j, k]).sum()))
    assert sum(found) == n  # the three parts always belong to one path
    possible = [w > 0 for w in weights]
    assert all(f == 0 for f, p in zip(found, possible, strict=True) if not p)
    expected = [n * w / sum(weights) for w in weights if w > 0]
    assert stats.chisquare([f for f, p in zip(found, possible, strict=True) if p], expected).pvalue > 1e-4
