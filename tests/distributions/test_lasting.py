"""Filters and forecasts of states that last, against the same chain on the first observations, cut off there."""

from __future__ import annotations

import itertools
from typing import Any

import pyro.distributions as dist
import pytest
import torch
from torch import Tensor

import pyro_unsup as pu
from pyro_unsup import SemiMarkov, StructureError, kernels

K, D, T = 3, 4, 7
close: dict[str, float] = {"rtol": 1e-9, "atol": 1e-10}


@pytest.fixture(params=["kernel", "definition"], autouse=True)
def way(request: pytest.FixtureRequest) -> Any:
    if request.param == "kernel":
        yield
    else:
        with kernels.switched_off():
            yield


def tables(seed: int = 0, normalised: bool = True) -> tuple[Tensor, Tensor, Tensor, Any]:
    torch.manual_seed(seed)
    start, steps, lasts = (torch.randn(*shape).double().log_softmax(-1) for shape in ((K,), (K, K), (K, D)))
    lasts = lasts if normalised else lasts + torch.tensor([0.3, -1.0, 0.7]).double().unsqueeze(-1)
    return start, steps, lasts, dist.Normal(torch.randn(K).double() * 2, 1.0)


def cut_off(x: Tensor, given: tuple[Tensor, Tensor, Tensor, Any]) -> Any:
    """The posterior of observations after which the last stretch may go on."""
    return SemiMarkov(*given, len(x), censored=True).posterior(x)


def with_gaps(x: Tensor, number: int) -> Tensor:
    return torch.cat([x, x.new_full((number,), torch.nan)])


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("censored", [True, False])
def test_filtered_predicted_and_each_step(censored: bool, normalised: bool) -> None:
    given = tables(normalised=normalised)
    x = torch.randn(T).double()
    x[3] = torch.nan
    found = SemiMarkov(*given, T, censored=censored).posterior(x)
    before = torch.zeros(()).double()
    for t in range(T):
        so_far = cut_off(x[: t + 1], given)
        torch.testing.assert_close(found.filtered[t], so_far.smoothed[-1], **close)
        torch.testing.assert_close(found.predicted[t], cut_off(with_gaps(x[:t], 1), given).smoothed[-1], **close)
        torch.testing.assert_close(found.step_log_likelihood[t], so_far.log_partition - before, **close)
        before = so_far.log_partition
    if censored:
        torch.testing.assert_close(found.step_log_likelihood.sum(), found.log_partition, **close)


@pytest.mark.parametrize("censored", [True, False])
def test_smoothed_probabilities_are_those_of_drawn_states(censored: bool) -> None:
    found = SemiMarkov(*tables(), T, censored=censored).posterior(torch.randn(T).double())
    torch.testing.assert_close(found.smoothed.sum(-1), torch.ones(T).double(), **close)
    states = found.sample((4000,))[..., 0]
    shares = torch.stack([(states == k).double().mean(0) for k in range(K)], -1)
    assert float((shares - found.smoothed).abs().max()) < 0.05


def stretches(n: int) -> Any:
    """All ways to cut n positions into stretches of at most D."""
    if n == 0:
        yield ()
    for d in range(1, min(D, n) + 1):
        yield from ((d, *rest) for rest in stretches(n - d))


@pytest.mark.parametrize("normalised", [True, False])
@pytest.mark.parametrize("censored", [True, False])
def test_pairwise_probabilities_by_enumeration(censored: bool, normalised: bool) -> None:
    start, steps, lasts, normal = tables(seed=2, normalised=normalised)
    x, lengths = torch.randn(7).double(), [5, 2]
    x[2] = torch.nan
    found = SemiMarkov(start, steps, lasts, normal, torch.tensor(lengths), censored=censored).posterior(x)
    at_least = lasts.flip(-1).logcumsumexp(-1).flip(-1)
    density, begin = torch.where(x.isnan()[:, None], 0.0, normal.log_prob(x.nan_to_num(0.0)[:, None])), 0
    for n in lengths:
        scores, pairs = [], []
        for lengths_ in stretches(n):
            for states in itertools.product(range(K), repeat=len(lengths_)):
                path = [k for k, d in zip(states, lengths_, strict=True) for _ in range(d)]
                score = start[states[0]] + sum(steps[a, b] for a, b in itertools.pairwise(states))
                score = score + sum(density[begin + t, k] for t, k in enumerate(path))
                for i, (k, d) in enumerate(zip(states, lengths_, strict=True)):
                    last = censored and i == len(states) - 1
                    score = score + (at_least if last else lasts)[k, d - 1]
                each = torch.zeros(n, K, K).double()
                for t, (a, b) in enumerate(itertools.pairwise(path), 1):
                    each[t, a, b] = 1.0
                scores.append(score)
                pairs.append(each)
        weights = torch.stack(scores).softmax(0)
        expected = (weights[:, None, None, None] * torch.stack(pairs)).sum(0)
        torch.testing.assert_close(found.pairwise[begin : begin + n], expected, rtol=1e-10, atol=1e-11)
        begin += n


@pytest.mark.parametrize("normalised", [True, False])
def test_a_forecast_is_a_series_that_goes_on_with_gaps(normalised: bool) -> None:
    given = tables(normalised=normalised)
    x = torch.randn(T).double()
    found = SemiMarkov(*given, T, censored=True).posterior(x).forecast(5)
    for step in range(5):  # given nothing of what comes after it, which unnormalised durations would tell of
        torch.testing.assert_close(found.states[step], cut_off(with_gaps(x, step + 1), given).smoothed[-1], **close)
    expected = (found.states * given[3].loc).sum(-1)
    torch.testing.assert_close(found.mean, expected, **close)


@pytest.mark.parametrize("normalised", [True, False])
def test_after_a_stretch_that_has_ended_comes_a_fresh_one(normalised: bool) -> None:
    start, steps, lasts, normal = tables(normalised=normalised)
    x = torch.randn(T).double()
    found = SemiMarkov(start, steps, lasts, normal, T).posterior(x)
    ended = found.smoothed[-1]
    for step in range(5):
        fresh = cut_off(with_gaps(x[:0], step + 1), ((ended @ steps.exp()).log(), steps, lasts, normal))
        torch.testing.assert_close(found.forecast(5).states[step], fresh.smoothed[-1], **close)


def test_powers_as_durations_are_a_chain() -> None:
    stay = torch.tensor([0.9, 0.7]).double()
    other = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).double().log()
    start, normal = torch.tensor([0.3, 0.7]).double().log(), dist.Normal(torch.tensor([-1.0, 1.0]).double(), 1.0)
    x = torch.randn(20).double()
    chain = pu.Chain(start, _moves(stay), normal, 20).posterior(x)
    lasting = SemiMarkov(start, other, dist.Geometric(1 - stay), normal, 20, censored=True, longest=40).posterior(x)
    for name in ("filtered", "predicted", "smoothed", "step_log_likelihood"):
        torch.testing.assert_close(getattr(lasting, name), getattr(chain, name), rtol=1e-8, atol=1e-9)
    torch.testing.assert_close(lasting.residuals(), chain.residuals(), rtol=1e-7, atol=1e-8)
    torch.testing.assert_close(lasting.forecast(3).states, chain.forecast(3).states, rtol=1e-2, atol=1e-2)


def _moves(stay: Tensor) -> Tensor:
    return torch.stack([torch.stack([stay[0], 1 - stay[0]]), torch.stack([1 - stay[1], stay[1]])]).log()


def test_several_series_padded_and_draws_of_weights() -> None:
    given = tables()
    x = torch.randn(9).double()
    both = SemiMarkov(*given, torch.tensor([4, 5]), censored=True).posterior(x)
    alone = SemiMarkov(*given, 5, censored=True).posterior(x[4:])
    torch.testing.assert_close(both.filtered[4:], alone.filtered, **close)
    torch.testing.assert_close(both.forecast(2).states[1], alone.forecast(2).states.reshape(2, K), **close)
    wide = torch.stack([torch.cat([x[:4], x[:1]]), x[4:]])
    padded = SemiMarkov(*given, torch.tensor([4, 5]), flat=False, censored=True).posterior(wide)
    torch.testing.assert_close(padded.filtered[1], alone.filtered, **close)
    torch.testing.assert_close(padded.smoothed[1], alone.smoothed, **close)
    second = tables(1)
    starts, steps, lasts = (torch.stack([a, b]) for a, b in zip(given[:3], second[:3], strict=True))
    draws = SemiMarkov(
        starts.unsqueeze(1), steps.unsqueeze(1), lasts.unsqueeze(1), given[3], torch.tensor([4, 5]), censored=True
    ).posterior(x)
    torch.testing.assert_close(draws.filtered[0], both.filtered, **close)
    torch.testing.assert_close(draws.forecast(2).states[0], both.forecast(2).states, **close)


def test_missing_values_are_drawn() -> None:
    given = tables()
    x = torch.randn(T).double()
    x[2] = torch.nan
    found = SemiMarkov(*given, T, censored=True).posterior(x)
    drawn = found.simulate((2000,))
    assert torch.equal(drawn[:, 3], x[3].expand(2000))
    assert abs(float(drawn[:, 2].mean() - (found.smoothed[2] * given[3].loc).sum())) < 0.2


def test_words_have_filters_too() -> None:
    start, steps, lasts, _ = tables()
    words, table = torch.tensor([0, 2, 1, 1, 3]), torch.randn(K, 4).double().log_softmax(-1)
    found = SemiMarkov(start, steps, lasts, table, torch.tensor([5]), censored=True).posterior(words)
    for t in range(5):
        so_far = SemiMarkov(start, steps, lasts, table, torch.tensor([t + 1]), censored=True).posterior(words[: t + 1])
        torch.testing.assert_close(found.filtered[t], so_far.smoothed[-1], **close)
    with pytest.raises(StructureError, match="emit words by a table"):
        found.residuals()


def test_what_makes_no_sense_is_refused() -> None:
    found = SemiMarkov(*tables(), T).posterior(torch.randn(T).double())
    with pytest.raises(StructureError, match="at least 1 step, actual 0"):
        found.forecast(0)
    with pytest.raises(StructureError, match="leave transition out"):
        found.forecast(1, transition=torch.zeros(1, K, K))
