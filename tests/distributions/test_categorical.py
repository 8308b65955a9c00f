"""The unnormalised Categorical: against stock Categorical, hand-computed marginals, and enumeration."""

from __future__ import annotations

import time

import pyro
import pyro.distributions as dist
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyro import poutine
from pyro.infer import SVI, TraceEnum_ELBO, config_enumerate
from scipy import stats
from torch import Tensor

from pyro_unsup import Categorical


def no_guide(*args: object) -> None:
    pass


SHAPES = [
    ((), ()),
    ((), (4,)),
    ((3,), ()),
    ((3,), (3,)),
    ((3,), (4, 3)),
    ((3, 1), (4,)),
    ((2, 1, 3), (4, 1)),
    ((1,), (5,)),
]


@pytest.mark.parametrize(("batch", "shape"), SHAPES)
@pytest.mark.parametrize("dtype", [torch.long, torch.int32, torch.float64])
def test_log_prob_is_a_look_up(batch: tuple[int, ...], shape: tuple[int, ...], dtype: torch.dtype) -> None:
    logits = torch.randn(*batch, 6)
    value = torch.randint(6, shape).to(dtype)
    found = Categorical(logits).log_prob(value)
    both = torch.broadcast_shapes(batch, shape)
    assert found.shape == both
    wide = logits.expand(*both, 6).reshape(-1, 6)
    expected = torch.stack([w[v] for w, v in zip(wide, value.expand(both).reshape(-1).long(), strict=True)])
    torch.testing.assert_close(found.reshape(-1), expected, rtol=0, atol=0)
    # And once normalised, it is Pyro's own.
    torch.testing.assert_close(
        Categorical(logits.log_softmax(-1)).log_prob(value), dist.Categorical(logits=logits).log_prob(value)
    )


@pytest.mark.parametrize(("batch", "shape"), SHAPES)
def test_gradient_counts_each_outcome(batch: tuple[int, ...], shape: tuple[int, ...]) -> None:
    logits = torch.randn(*batch, 6, requires_grad=True)
    value = torch.randint(6, shape)
    both = torch.broadcast_shapes(batch, shape)
    weight = torch.rand(both)
    (grad,) = torch.autograd.grad((weight * Categorical(logits).log_prob(value)).sum(), logits)
    one_hot = torch.nn.functional.one_hot(value, 6).expand(*both, 6) * weight.unsqueeze(-1)
    torch.testing.assert_close(grad, one_hot.sum_to_size(logits.shape))


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=40)
def test_expanding_keeps_logits_small_and_answers_the_same(a: int, b: int, outcomes: int, one: bool) -> None:
    logits = torch.randn(1 if one else b, outcomes)
    small = Categorical(logits)
    wide = small.expand([a, b])
    assert type(wide) is Categorical
    assert wide.batch_shape == (a, b)
    assert wide.logits is logits
    value = torch.randint(outcomes, (a, b))
    assert torch.equal(wide.log_prob(value), small.log_prob(value))
    assert wide.log_prob(torch.tensor(0)).shape == (a, b)
    assert wide.sample((7,)).shape == (7, a, b)
    assert wide.expand([2, a, b]).log_prob(value).shape == (2, a, b)


def test_the_gradient_never_costs_values_times_outcomes() -> None:
    """A (K, N, V) tensor of these sizes would take 160 GB."""
    K, N, V = 50, 20_000, 20_000
    logits = torch.zeros(K, 1, V, requires_grad=True)
    words = torch.randint(V, (N,))
    began = time.process_time()
    log_prob = Categorical(logits).expand([K, N]).log_prob(words)
    (grad,) = torch.autograd.grad(log_prob.sum(), logits)
    assert time.process_time() - began < 10
    assert log_prob.shape == (K, N)
    torch.testing.assert_close(grad[:, 0], torch.bincount(words, minlength=V).double().expand(K, V))
    with pyro.plate("words", N):
        assert pyro.sample("word", Categorical(logits[0, 0])).shape == (N,)  # 3.2 GB, were it a row for each draw


@pytest.mark.parametrize("expand", [True, False])
def test_enumerate_support_has_the_shapes_of_stock(expand: bool) -> None:
    for batch in ((), (3,), (3, 1), (2, 3)):
        ours = Categorical(torch.randn(*batch, 4)).enumerate_support(expand)
        stock = dist.Categorical(torch.ones(*batch, 4)).enumerate_support(expand)
        assert torch.equal(ours, stock)
        ours = Categorical(torch.randn(4)).expand(batch).enumerate_support(expand)
        assert torch.equal(ours, dist.Categorical(torch.ones(4)).expand(batch).enumerate_support(expand))


def test_in_plates_it_is_enumerated_like_stock() -> None:
    def model(kind: type) -> None:
        with pyro.plate("outer", 2, dim=-2), pyro.plate("inner", 3):
            z = pyro.sample("z", kind(logits=torch.zeros(4)))
            pyro.sample("x", dist.Normal(z.double(), 1.0), obs=torch.zeros(2, 3))

    for expand in (True, False):
        found = []
        for kind in (Categorical, dist.Categorical):
            enumerated = poutine.enum(config_enumerate(model, "parallel", expand), first_available_dim=-3)
            trace = poutine.trace(enumerated).get_trace(kind)
            trace.compute_log_prob()
            found.append((trace.nodes["z"]["value"].shape, trace.nodes["x"]["log_prob"].shape))
        assert found[0] == found[1]
        assert found[0][0] == ((4, 2, 3) if expand else (4, 1, 1))


def mixture(pi: Tensor, theta: Tensor, words: Tensor) -> None:
    """Documents of four words each; a topic for each document; the weights sum to nothing in particular."""
    with pyro.plate("documents", words.shape[1]):
        z = pyro.sample("z", Categorical(pi))
        with pyro.plate("words", len(words)):
            pyro.sample("w", Categorical(theta[z]), obs=words)


@pytest.mark.parametrize("expand", [True, False])
def test_mixture_under_traceenum_equals_the_marginal_by_hand(expand: bool) -> None:
    K, V = 3, 5
    pi = torch.randn(K, requires_grad=True)
    theta = torch.randn(K, V, requires_grad=True)
    words = torch.randint(V, (4, 6))  # (words, documents)
    elbo = TraceEnum_ELBO(max_plate_nesting=2)
    model = config_enumerate(mixture, "parallel", expand)
    log_marginal = -elbo.differentiable_loss(model, no_guide, pi, theta, words)
    joint = pi + torch.stack([theta[:, words[:, d]].sum(1) for d in range(6)])  # (documents, K)
    torch.testing.assert_close(log_marginal, joint.logsumexp(1).sum())
    posterior = joint.softmax(1)
    grads = torch.autograd.grad(log_marginal, (pi, theta))
    torch.testing.assert_close(grads[0], posterior.sum(0))
    expected = torch.zeros(K, V)
    for d in range(6):
        for w in words[:, d]:
            expected[:, w] += posterior[d]
    torch.testing.assert_close(grads[1], expected)


def test_impossible_outcomes_get_no_count_and_no_nan() -> None:
    pi = torch.tensor([0.0, -torch.inf, 0.0], requires_grad=True)
    theta = torch.zeros(3, 2)
    theta[2, 1] = -torch.inf
    theta.requires_grad_()
    loss = TraceEnum_ELBO(max_plate_nesting=2).differentiable_loss(
        config_enumerate(mixture), no_guide, pi, theta, torch.tensor([[0, 1]])
    )
    grads = torch.autograd.grad(-loss, (pi, theta))
    assert grads[0].tolist() == pytest.approx([1.5, 0, 0.5])
    torch.testing.assert_close(grads[1], torch.tensor([[0.5, 1.0], [0.0, 0.0], [0.5, 0.0]]))


def test_samples_follow_the_weights_whatever_their_shape() -> None:
    """Every axis gets its own weights: each cell of the batch is tested by itself."""
    logits = torch.randn(3, 1, 2, 4)
    logits[0, 0, 0, 1] = -torch.inf
    draws = Categorical(logits).expand([3, 5, 2]).sample((2000,))
    assert draws.shape == (2000, 3, 5, 2)
    probs = logits.softmax(-1).expand(3, 5, 2, 4).reshape(-1, 4)
    for cell, expected in zip(draws.reshape(2000, -1).T, probs, strict=True):
        counts = torch.bincount(cell, minlength=4)
        live = expected > 0
        assert (counts[~live] == 0).all()
        assert stats.chisquare(counts[live].numpy(), (2000 * expected[live]).numpy()).pvalue > 1e-4
    # Neighbours are drawn independently, those with the same weights too.
    pair = torch.corrcoef(torch.stack([draws[:, 0, 0, 1], draws[:, 0, 1, 1], draws[:, 0, 0, 0]]).double())
    assert float(pair[~torch.eye(3, dtype=torch.bool)].abs().max()) < 4 / 2000**0.5


def test_samples_are_reproducible_and_carry_no_gradient() -> None:
    logits = torch.zeros(3, requires_grad=True)
    pyro.set_rng_seed(5)
    first = Categorical(logits).sample((10,))
    pyro.set_rng_seed(5)
    assert torch.equal(Categorical(logits).sample((10,)), first)
    assert not first.requires_grad
    assert Categorical(logits).sample().shape == ()


@pytest.mark.parametrize("bad", [-1, 3, 0.5])
def test_values_outside_the_outcomes_are_refused(bad: float) -> None:
    """Minus one, a usual padding, would else be taken for the last outcome."""
    for site in (Categorical(torch.zeros(3)), Categorical(torch.zeros(3)).expand([2])):
        with pytest.raises(ValueError, match="within the support"):
            site.log_prob(torch.tensor([0, bad]))
    assert Categorical(torch.zeros(3), validate_args=False).log_prob(torch.tensor(-1)).shape == ()
    with pyro.validation_enabled(False):
        assert Categorical(torch.zeros(3)).log_prob(torch.tensor(-1)).shape == ()


def test_it_wraps_like_any_distribution() -> None:
    logits = torch.randn(4, 3)
    value = torch.randint(3, (4,))
    site = Categorical(logits)
    torch.testing.assert_close(site.to_event(1).log_prob(value), site.log_prob(value).sum())
    mask = torch.tensor([True, False, True, True])
    torch.testing.assert_close(site.mask(mask).log_prob(value), site.log_prob(value) * mask)


def test_svi_learns_through_it() -> None:
    def model() -> None:
        theta = pyro.sample("theta", dist.Dirichlet(torch.ones(2)))
        with pyro.plate("flips", 10):
            pyro.sample("flip", Categorical(theta.log()), obs=torch.tensor([0] * 8 + [1] * 2))

    guide = pyro.infer.autoguide.AutoDelta(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.05}), pyro.infer.Trace_ELBO())
    for _ in range(150):
        svi.step()
    torch.testing.assert_close(guide.median()["theta"], torch.tensor([0.8, 0.2]), rtol=0, atol=1e-2)
