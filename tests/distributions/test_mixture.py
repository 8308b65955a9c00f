"""The mixture beyond what every structure must do: long documents, threads, batches of weights, draws, errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from pyro_unsup import StructureError
from pyro_unsup.distributions import Mixture
from pyro_unsup.kernels import mixture as kernel
from pyro_unsup.kernels import threads
from pyro_unsup.testing.contract import defined


def random(lengths: list[int], K: int = 3, V: int = 20, dtype: torch.dtype = torch.float64) -> tuple[Mixture, Tensor]:
    """Random weights, unnormalised, and random bags."""
    cells = sum(lengths)
    value = torch.stack([torch.randint(V, (cells,)), torch.randint(1, 5, (cells,))], 1)
    return Mixture(torch.randn(K, dtype=dtype), torch.randn(K, V, dtype=dtype), torch.tensor(lengths)), value


def test_weights_of_one_count_the_clusters() -> None:
    value = torch.tensor([[0, 3], [1, 1], [1, 7]])
    found = Mixture(torch.zeros(7), torch.zeros(7, 2), torch.tensor([2, 0, 1])).log_prob(value)
    torch.testing.assert_close(found, torch.full((3,), math.log(7)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_document_of_a_million_words_stays_finite(dtype: torch.dtype) -> None:
    dist = Mixture(
        torch.zeros(2, dtype=dtype), torch.tensor([[-700.0, -1.0], [-1.0, -700.0]], dtype=dtype), torch.tensor([2])
    )
    value = torch.tensor([[0, 500_001], [1, 499_999]])
    posterior = dist.posterior(value)
    expected = max(-700.0 * 500_001 - 499_999, -500_001 - 700.0 * 499_999)
    assert float(posterior.log_partition) == pytest.approx(expected, rel=1e-6)
    assert posterior.mode().tolist() == [1]
    torch.testing.assert_close(posterior.counts["words"].sum(), torch.tensor(1e6, dtype=dtype))
    assert float(posterior.entropy) >= 0


def test_threads_and_blocks_change_nothing_but_the_last_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    dist, value = random(torch.randint(0, 9, (500,)).tolist(), K=4)
    offsets = torch.cat([torch.zeros(1), dist.lengths.cumsum(0)]).long().numpy()
    args = (dist.weights["cluster"].numpy(), dist.weights["words"].T.contiguous().numpy(), value.numpy(), offsets)
    scale = np.linspace(-1, 1, 500)
    one = kernel.mixture_pass(*args, scale, True)
    monkeypatch.setattr(kernel, "BLOCK", 7)
    monkeypatch.setattr(threads, "TOKENS_A_THREAD", 100)
    torch.set_num_threads(3)
    many, again = kernel.mixture_pass(*args, scale, True), kernel.mixture_pass(*args, scale, True)
    torch.set_num_threads(1)
    assert np.array_equal(many[0], one[0])
    for a, b, c in zip(one[1], many[1], again[1], strict=True):
        assert np.array_equal(b, c)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_a_bag_that_no_cluster_allows_has_no_counts_and_no_cluster() -> None:
    words = torch.tensor([[0.0, -torch.inf], [-torch.inf, 0.0]])
    dist = Mixture(torch.zeros(2), words, torch.tensor([2, 1]))
    posterior = dist.posterior(torch.tensor([[0, 1], [1, 1], [1, 2]]))
    assert posterior.log_partition.tolist() == [-torch.inf, 0.0]
    for found in (posterior.mode(), posterior.mbr(), posterior.sample()):
        assert found.tolist() == [-1, 1]
    assert posterior.marginals.tolist() == [[0, 0], [0, 1]]
    assert posterior.entropy.tolist() == [0, 0]
    assert posterior.counts["words"].tolist() == [[0, 0], [0, 2]]
    assert posterior.counts["cluster"].tolist() == [0, 1]


@pytest.mark.parametrize("batch", [(2, 1), (2, 3), (3,), (1,)])
def test_batches_of_weights(batch: tuple[int, ...]) -> None:
    """Several sets of weights at once, or one for each document."""
    K, V, lengths = 2, 4, torch.tensor([2, 1, 3])
    cluster, words = torch.randn(*batch, K), torch.randn(*batch, K, V)
    value = torch.stack([torch.randint(V, (6,)), torch.randint(1, 4, (6,))], 1)
    found = Mixture(cluster, words, lengths).log_prob(value)
    assert found.shape == torch.broadcast_shapes(batch, (3,))
    wide = torch.broadcast_shapes(batch, (3,))
    rows = cluster.expand(*wide, K).reshape(-1, 3, K), words.expand(*wide, K, V).reshape(-1, 3, K, V)
    bags = value.split(lengths.tolist())
    for one, c, w in zip(found.reshape(-1, 3), *rows, strict=True):
        expected = [Mixture(c[b], w[b], lengths[b : b + 1]).log_prob(bags[b]) for b in range(3)]
        torch.testing.assert_close(one, torch.cat(expected))
    posterior = Mixture(cluster, words, lengths).posterior(value)
    torch.testing.assert_close(posterior.log_partition, found)
    torch.testing.assert_close(posterior.marginals.sum(-1), torch.ones(wide))
    assert posterior.mode().shape == wide
    assert posterior.counts["words"].shape == words.shape
    score = Mixture(cluster, words, lengths).score(value, torch.tensor([1, 0, 1]))
    assert score.shape == torch.broadcast_shapes(batch, (3,))


def test_the_definition_on_other_devices_is_the_kernel() -> None:
    dist, value = random([3, 0, 5, 1])
    total = defined(dist, value)
    torch.testing.assert_close(total, dist.log_prob(value), rtol=1e-13, atol=1e-13)


def test_int32_values_and_transposed_weights_are_taken_as_they_are() -> None:
    dist, value = random([3, 4])
    other = dist.with_weights({"words": dist.weights["words"].T.contiguous().T})
    assert torch.equal(other.log_prob(value.int()), dist.log_prob(value))


def test_draws_follow_the_story() -> None:
    """Weights that do not sum to one: a cluster whose words weigh more is likelier for longer documents."""
    cluster, words = torch.tensor([0.2, 0.8]).log(), torch.tensor([[1.0, 2.0, 0.5], [0.1, 0.3, 0.6]]).log()
    dist = Mixture(cluster, words, torch.tensor([2, 0, 1]))
    n = 3000
    drawn = dist.sample((n,))
    assert drawn.shape == (n, 3, 2)
    assert (drawn[..., 1] == 1).all()
    pairs = drawn[:, 0, 0] * 3 + drawn[:, 1, 0]
    joint = torch.einsum("k,ki,kj->ij", cluster.exp(), words.exp(), words.exp()).reshape(-1)
    single = torch.einsum("k,ki->i", cluster.exp(), words.exp())
    for found, weights in ((pairs, joint), (drawn[:, 2, 0], single)):
        expected = (weights / weights.sum() * n).numpy()
        observed = torch.bincount(found, minlength=len(weights)).numpy()
        assert stats.chisquare(observed, expected).pvalue > 1e-4


def test_errors_say_what_was_expected() -> None:
    good = torch.tensor([[0, 1], [1, 2]])
    dist = Mixture(torch.zeros(2), torch.zeros(2, 3), torch.tensor([1, 1]))
    with pytest.raises(StructureError, match=r"words should end in shape \(K, V\), where K = 2; actual shape \(3, 3\)"):
        Mixture(torch.zeros(2), torch.zeros(3, 3), torch.tensor([1]))
    with pytest.raises(StructureError, match=r"lengths should have shape \(B,\)"):
        Mixture(torch.zeros(2), torch.zeros(2, 3), torch.tensor([[1]]))
    with pytest.raises(
        StructureError, match=r"last batch axis of the weights should be 1, or 2 \(one set an example\)"
    ):
        Mixture(torch.zeros(4, 2), torch.zeros(4, 2, 3), torch.tensor([1, 1]))
    with pytest.raises(StructureError, match=r"words and counts of shape \(2, 2\), .*; actual shape \(2,\)"):
        dist.log_prob(good[0])
    with pytest.raises(StructureError, match=r"must be integers, actual dtype torch.float64"):
        dist.log_prob(good.double())
    with pytest.raises(
        StructureError, match=r"words must lie in 0 .. 2 \(the table has 3 columns\), actual range 0 .. 3"
    ):
        dist.log_prob(torch.tensor([[0, 1], [3, 2]]))
    with pytest.raises(StructureError, match="occurs at least once, actual smallest = 0"):
        dist.log_prob(torch.tensor([[0, 1], [1, 0]]))
    with pytest.raises(StructureError, match="cluster holds NaN"):
        dist.with_weights({"cluster": torch.tensor([0.0, torch.nan])}).log_prob(good)
    with pytest.raises(StructureError, match=r"one floating dtype: cluster has torch.float32, words has torch.float64"):
        dist.with_weights({"cluster": torch.zeros(2, dtype=torch.float32)}).log_prob(good)
    with pytest.raises(StructureError, match=r"clusters must lie in 0 .. 1, actual range 0 .. 2"):
        dist.score(good, torch.tensor([0, 2]))
    with pytest.raises(StructureError, match="expected one cluster a document, 2 integers"):
        dist.score(good, torch.tensor([0]))
    wide = Mixture(torch.zeros(2, 2), torch.zeros(2, 2, 3), torch.tensor([1, 1]))
    with pytest.raises(StructureError, match="weights that all examples share"):
        wide.sample()
