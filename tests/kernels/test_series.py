"""The kernel of series against sums in logs, for weights of any spread, one thread or several."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from pyro_unsup.kernels import series as module
from pyro_unsup.kernels.series import Series
from pyro_unsup.kernels.threads import TOKENS_A_THREAD

SPREADS = [0.0, 1.0, 10.0, 100.0, 600.0]


@pytest.fixture
def in_logs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many series were done again in logs."""
    done: list[int] = []
    real = module.log_series

    def counted(*given: object) -> None:
        done.append(len(given[5]))  # type: ignore[arg-type]
        real(*given)

    monkeypatch.setattr(module, "log_series", counted)
    return done


def defined(weights: list[Tensor], lengths: list[int], scale: Tensor) -> tuple[Tensor, list[Tensor]]:
    """log Z of each series and counts, by sums in logs, one series after another."""
    start, trans, stop, emit = (w.detach().clone().requires_grad_() for w in weights)
    begin, found = 0, []
    for n in lengths:
        message = start + emit[begin] if n else torch.zeros(1)
        for t in range(begin + 1, begin + n):
            table = trans[t if len(trans) > 1 else 0]
            message = safe(message.unsqueeze(-1) + table, 0) + emit[t]
        found.append(safe(message + stop, 0) if n else torch.zeros(()))
        begin += n
    log_z = torch.stack(found)
    possible = torch.where(log_z.detach() > -torch.inf, log_z, torch.zeros_like(log_z))
    grads = torch.autograd.grad((scale * possible).sum(), [start, trans, stop, emit], allow_unused=True,
                                materialize_grads=True)  # fmt: skip
    return log_z.detach(), list(grads)


def safe(x: Tensor, dim: int) -> Tensor:
    """logsumexp whose gradient is 0 where all is impossible."""
    dead = (x == -torch.inf).all(dim)
    return torch.where(dead, -torch.inf, torch.logsumexp(torch.where(dead.unsqueeze(dim), torch.zeros_like(x), x), dim))


def random_weights(K: int, lengths: list[int], spread: float, holes: float, by_step: bool) -> list[Tensor]:
    def table(*shape: int) -> Tensor:
        x = spread * torch.randn(*shape)
        return x.masked_fill(torch.rand(shape) < holes, -torch.inf)

    N = sum(lengths)
    return [table(K), table(N if by_step else 1, K, K), table(K), table(N, K)]


def check(weights: list[Tensor], lengths: list[int], scale: Tensor) -> Tensor:
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    expected, counts = defined(weights, lengths, scale)
    kernel = Series(*weights, offsets)
    log_z, found = kernel.sums(scale.numpy(), True)
    torch.testing.assert_close(log_z, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(kernel.sums(None, False)[0], expected, rtol=1e-10, atol=1e-10)
    for name, one in zip(("start", "trans", "stop", "states"), counts, strict=True):
        torch.testing.assert_close(found[name], one.nan_to_num(0.0), rtol=1e-8, atol=1e-8, msg=name)
    return expected


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("holes", [0.0, 0.3])
@pytest.mark.parametrize("by_step", [False, True], ids=["one table", "by step"])
def test_any_weights(spread: float, holes: float, by_step: bool) -> None:
    lengths = [4, 0, 1, 7, 2, 0, 12]
    for K in (1, 2, 4):
        check(random_weights(K, lengths, spread, holes, by_step), lengths, torch.rand(len(lengths)) + 0.5)


def test_weights_that_real_numbers_cannot_hold(in_logs: list[int]) -> None:
    """The likely start never meets the likely end: what decides is lost on the way, both ways."""
    K, lengths = 2, [5, 5]
    start, stop = torch.tensor([0.0, -900.0]), torch.tensor([-900.0, 0.0])
    trans = torch.tensor([[[0.0, -torch.inf], [-torch.inf, 0.0]]])
    check([start, trans, stop, torch.zeros(10, K)], lengths, torch.ones(2))
    assert in_logs
    del in_logs[:]
    check([torch.zeros(K), torch.zeros(1, K, K), torch.zeros(K), torch.zeros(10, K)], lengths, torch.ones(2))
    assert not in_logs


def test_impossible_series_have_no_counts(in_logs: list[int]) -> None:
    emit = torch.zeros(6, 2)
    emit[4] = -torch.inf
    found = check([torch.zeros(2), torch.zeros(1, 2, 2), torch.zeros(2), emit], [3, 3], torch.ones(2))
    assert found.isfinite().tolist() == [True, False]
    assert in_logs == [1, 1]  # the second series, with counts and without


@pytest.mark.parametrize("by_step", [False, True], ids=["one table", "by step"])
@pytest.mark.parametrize("broken", [False, True], ids=["even", "broken"])
@pytest.mark.parametrize("lengths", [[3 * TOKENS_A_THREAD], [40] * 1300], ids=["one long", "many"])
def test_threads_change_nothing(lengths: list[int], broken: bool, by_step: bool) -> None:
    """Broken: one observation is far from what scaled numbers can hold, so that a part is done again in logs."""
    K = 2
    weights = random_weights(K, lengths, 1.0, 0.0, by_step)
    if broken:
        weights[3][sum(lengths) // 2] = torch.tensor([0.0, -torch.inf])
        weights[3][sum(lengths) // 2 + 1] = torch.tensor([-torch.inf, -600.0])
        weights[1][...] = weights[1] - 300 * (1 - torch.eye(K))
    kernel, scale = Series(*weights, np.concatenate([[0], np.cumsum(lengths)])), np.linspace(0.5, 2, len(lengths))
    one = kernel.sums(scale, True)
    one = one[0].clone(), {name: x.clone() for name, x in one[1].items()}
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        two = kernel.sums(scale, True)
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(two[0], one[0], rtol=1e-12, atol=0.0)
    for name, x in one[1].items():
        torch.testing.assert_close(two[1][name], x, rtol=1e-9, atol=1e-9, msg=name)
    assert abs(float(one[1]["states"].sum()) - float((scale * np.array(lengths)).sum())) < 1e-6 * sum(lengths)


@pytest.mark.parametrize("N", [1, 5, 200, 40_000])
@pytest.mark.parametrize("spread", [1.0, 400.0])
def test_observations_on_their_own(N: int, spread: float) -> None:
    """Series of one observation each, as those of a mixture, have a pass of their own."""
    rng, K = np.random.default_rng(N), 4
    start, stop, emit = (spread * rng.normal(size=shape) for shape in ((K,), (K,), (N, K)))
    emit[rng.random((N, K)) < 0.3] = -np.inf
    emit[0] = -np.inf  # impossible
    scale = rng.random(N)
    log_z, found = Series(start, np.zeros((1, K, K)), stop, emit, np.arange(N + 1)).sums(scale, True)
    logs = torch.from_numpy(start + stop + emit)
    assert torch.allclose(log_z, logs.logsumexp(-1), rtol=1e-12, atol=1e-12)
    states = torch.from_numpy(scale)[:, None] * torch.where(logs.isneginf().all(-1, True), 0.0, logs.softmax(-1))
    assert torch.allclose(found["states"], states.nan_to_num(0.0), atol=1e-13)
    assert torch.allclose(found["start"], found["states"].sum(0), rtol=1e-12)
    assert torch.equal(found["start"], found["stop"])
    assert not found["trans"].any()
