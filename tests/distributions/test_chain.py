"""The chain beyond what every structure must do: long sequences, many sequences, supports, sampling, errors."""

from __future__ import annotations

import itertools
import math
import time

import pytest
import torch
from pyro.distributions import Normal
from scipy import stats
from torch import Tensor

from pyro_unsup import Chain, StructureError
from pyro_unsup.testing.contract import defined


def weights(
    K: int, V: int, order: int = 1, stop: bool = False, dtype: torch.dtype = torch.float64
) -> dict[str, Tensor]:
    shapes = {"start": (K,), "transition": (*[K] * order, K + stop), "emission": (K, V)}
    if order == 2:
        shapes["second"] = (K, K + stop)
    return {name: torch.randn(shape, dtype=dtype).log_softmax(-1) for name, shape in shapes.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("order", [1, 2])
def test_a_hundred_thousand_positions_stay_finite(order: int, dtype: torch.dtype) -> None:
    n, K, V = 100_000, 3, 4
    w = weights(K, V, order, dtype=dtype)
    words = torch.randint(V, (n,))
    tiny = math.log(1e-300)
    chain = Chain(**w, lengths=torch.tensor([n]), flat=True)
    small = Chain(**{**w, "emission": w["emission"] + tiny}, lengths=torch.tensor([n]), flat=True)
    a, b = chain.posterior(words), small.posterior(words)
    assert torch.isfinite(a.log_partition).all()
    relative = 1e-6 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(b.log_partition, a.log_partition + n * tiny, rtol=relative, atol=0)
    for posterior in (a, b):
        for name, counts in posterior.counts.items():
            assert torch.isfinite(counts).all(), name
        torch.testing.assert_close(
            posterior.counts["emission"].sum().double(), torch.tensor(float(n)), rtol=1e-4, atol=0
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_of_one_and_of_1e_minus_300_side_by_side(dtype: torch.dtype) -> None:
    """Two states that only now and then may switch, at a price that scaled arithmetic cannot hold for long."""
    n, tiny = 100_000, math.log(1e-300)
    start = torch.zeros(2, dtype=dtype)
    transition = torch.tensor([[0.0, tiny], [tiny, 0.0]], dtype=dtype)
    emission = torch.tensor([[0.0, tiny], [tiny, 0.0]], dtype=dtype)
    words = (torch.arange(n) // 1000) % 2  # a hundred runs of a thousand: 99 switches, or a run paid word by word
    chain = Chain(start, transition, emission, torch.tensor([n]), flat=True)
    posterior = chain.posterior(words)
    tight = 1e-10 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(posterior.log_partition.double(), torch.tensor([99 * tiny]), rtol=tight, atol=tight)
    torch.testing.assert_close(posterior.counts["emission"].double().sum(), torch.tensor(float(n)), rtol=tight, atol=0)
    torch.testing.assert_close(
        posterior.counts["transition"].double(),
        torch.tensor([[49950.0, 50.0], [49.0, 49950.0]]),
        rtol=tight,
        atol=tight,
    )
    assert (posterior.mode() == words).all()


def test_a_series_that_has_to_be_done_again_is_counted_once() -> None:
    """A switch at a price of 1e-300. Scaled sums are refused at the switch, when later positions were counted."""
    x = torch.tensor([-1.0] * 20 + [1.0] * 20)
    steps = torch.tensor([[0.0, -690.0], [-690.0, 0.0]])
    chain = Chain(torch.zeros(2), steps, Normal(torch.tensor([-1.0, 1.0]), 0.1), torch.tensor([40]), flat=True)
    counts = chain.posterior(x).counts
    torch.testing.assert_close(counts["transition"], torch.tensor([[19.0, 1.0], [0.0, 19.0]]))
    torch.testing.assert_close(counts["start"], torch.tensor([1.0, 0.0]))
    torch.testing.assert_close(counts["emission"].sum(), torch.tensor(40.0))


@pytest.mark.parametrize(("order", "stop", "zeros"), [(1, False, 0.0), (1, True, 0.0), (1, True, 0.7), (2, True, 0.5)])
def test_blocks_and_threads_change_nothing(order: int, stop: bool, zeros: float) -> None:
    """Hundreds of sequences of mixed lengths: the definition, one thread and two agree."""
    K, V, B = 5, 30, 300
    w = weights(K, V, order, stop)
    w["emission"][1:] = w["emission"][1:].masked_fill(torch.rand(K - 1, V) < zeros, -torch.inf)
    lengths = torch.randint(0, 40, (B,))
    lengths[7] = 20_000  # enough tokens for a second thread
    lengths[8] = 20_000
    words = torch.randint(V, (int(lengths.sum()),))
    chain = Chain(**w, lengths=lengths, flat=True)
    log_z, counts = chain.log_prob(words), chain.posterior(words).counts
    torch.set_num_threads(2)
    torch.testing.assert_close(chain.log_prob(words), log_z, rtol=1e-12, atol=1e-12)
    for name, c in chain.posterior(words).counts.items():
        torch.testing.assert_close(c, counts[name], rtol=1e-10, atol=1e-10)
    short = lengths < 1000
    kept = torch.cat([x for x, ok in zip(words.split(lengths.tolist()), short.tolist(), strict=True) if ok])
    expected = defined(Chain(**w, lengths=lengths[short], flat=True), kept)
    torch.testing.assert_close(log_z[short], expected, rtol=1e-11, atol=1e-11)
    assert (log_z[lengths == 0] == 0).all()


def test_second_order_costs_what_the_dictionary_allows() -> None:
    """With 300 tags, K cubed is 27 million steps a token; with two tags a word it is eight."""
    K, V, n = 300, 1000, 20_000
    w = weights(K, V, order=2)
    mask = torch.zeros(K, V, dtype=torch.bool)
    mask[torch.randint(K, (2, V)), torch.arange(V)] = True
    w["emission"] = w["emission"].masked_fill(~mask, -torch.inf)
    words, lengths = torch.randint(V, (n,)), torch.full((n // 20,), 20)
    chain = Chain(**w, lengths=lengths, flat=True)
    chain.log_prob(words)  # compiles
    began = time.process_time()
    counts = chain.posterior(words).counts
    assert time.process_time() - began < 20  # K cubed would take minutes at any plausible speed
    torch.testing.assert_close(counts["emission"].sum(), torch.tensor(float(n)))
    assert (counts["emission"][~mask] == 0).all()


def test_weights_with_a_batch_of_their_own() -> None:
    """Particles, or one grammar a sentence: the definition takes over where weights differ."""
    K, V = 3, 4
    many = [weights(K, V, 2, True) for _ in range(4)]
    stacked = {name: torch.stack([w[name] for w in many]) for name in many[0]}
    lengths = torch.tensor([3, 1, 4, 2])
    words = torch.randint(V, (10,))
    own = Chain(**stacked, lengths=lengths, flat=True).log_prob(words)
    each = [Chain(**w, lengths=lengths, flat=True).log_prob(words)[i] for i, w in enumerate(many)]
    torch.testing.assert_close(own, torch.stack(each))
    particles = {name: w.unsqueeze(1) for name, w in stacked.items()}
    assert Chain(**particles, lengths=lengths, flat=True).batch_shape == (4, 4)
    torch.testing.assert_close(
        Chain(**particles, lengths=lengths, flat=True).log_prob(words),
        torch.stack([Chain(**w, lengths=lengths, flat=True).log_prob(words) for w in many]),
    )


@pytest.mark.parametrize(("order", "stop"), [(1, False), (2, True)])
def test_sample_draws_words_in_proportion_to_their_weight(order: int, stop: bool) -> None:
    K, V, n = 2, 2, 3
    w = {name: torch.randn_like(x) for name, x in weights(K, V, order, stop).items()}  # not normalised
    all_words = torch.tensor(list(itertools.product(range(V), repeat=n)))
    every = Chain(**w, lengths=torch.full((len(all_words),), n))
    expected = every.log_prob(all_words).softmax(0) * 4000
    chain = Chain(**w, lengths=torch.full((4000,), n))
    draws = chain.sample()
    assert draws.shape == (4000, n)
    seen = torch.bincount((draws * torch.tensor([4, 2, 1])).sum(-1), minlength=8)
    assert stats.chisquare(seen.double(), expected).pvalue > 1e-4
    flat = Chain(**w, lengths=torch.tensor([1, 3]), flat=True)
    assert flat.sample().shape == (4,)
    assert flat.sample((5,)).shape == (5, 4)


def test_an_impossible_sentence_has_no_counts_and_no_nan() -> None:
    w = weights(2, 3)
    w["emission"][:, 2] = -torch.inf
    leaves = {name: x.requires_grad_() for name, x in w.items()}
    chain = Chain(**leaves, lengths=torch.tensor([2, 2]), flat=True)
    log_z = chain.log_prob(torch.tensor([0, 2, 0, 1]))
    assert log_z[0] == -torch.inf
    assert torch.isfinite(log_z[1])
    for grad in torch.autograd.grad(log_z[1], list(leaves.values())):
        assert torch.isfinite(grad).all()
    posterior = chain.posterior(torch.tensor([0, 2, 0, 1]))
    assert posterior.counts["start"].sum() == pytest.approx(1)
    assert posterior.mode()[:2].tolist() == [-1, -1]
    assert posterior.mbr()[:2].tolist() == [-1, -1]


def test_errors_say_what_was_expected() -> None:
    w = weights(2, 3)
    one = torch.tensor([2])
    with pytest.raises(
        StructureError, match=r"transition should end in shape \(K, K\), where K = 2; actual shape \(3, 3\)"
    ):
        Chain(w["start"], torch.zeros(3, 3), w["emission"], one)
    with pytest.raises(StructureError, match=r"K = 2; actual shape \(2, 5\)\. Its last axis is K, or K \+ 1"):
        Chain(w["start"], torch.zeros(2, 5), w["emission"], one)
    with pytest.raises(StructureError, match=r"words must lie in 0 .. 2"):
        Chain(**w, lengths=one, flat=True).log_prob(torch.tensor([0, 3]))
    with pytest.raises(StructureError, match=r"states must lie in 0 .. 1, actual range -1 .. 0"):
        Chain(**w, lengths=one, flat=True).score(torch.tensor([0, 1]), torch.tensor([0, -1]))
    with pytest.raises(StructureError, match=r"words must lie in 0 .. 2 .* actual range -1 .. 0"):  # batched weights
        Chain(**{n: torch.stack([x, x]) for n, x in w.items()}, lengths=torch.tensor([1, 1]), flat=True).log_prob(
            torch.tensor([0, -1])
        )
    with pytest.raises(StructureError, match="words must be integers"):
        Chain(**w, lengths=one, flat=True).log_prob(torch.tensor([0.0, 1.0]))
    with pytest.raises(
        StructureError, match=r"one floating dtype: start has torch.float64, emission has torch.float32"
    ):
        Chain(**{**w, "emission": w["emission"].float()}, lengths=one, flat=True).log_prob(torch.tensor([0, 1]))
    with pytest.raises(StructureError, match="weights that all examples share"):
        Chain(**{n: torch.stack([x, x]) for n, x in w.items()}, lengths=torch.tensor([1, 1]), flat=True).sample()
    with pytest.raises(StructureError, match=r"words of shape \(2,\), all examples end to end; actual shape \(3,\)"):
        Chain(**w, lengths=one, flat=True).log_prob(torch.tensor([0, 1, 2]))
    with pytest.raises(StructureError, match="must not be negative"):
        Chain(**w, lengths=torch.tensor([-1]))
    with pytest.raises(StructureError, match="lengths must be integers"):
        Chain(**w, lengths=torch.tensor([1.0]))
    with pytest.raises(StructureError, match="lengths reach 2"):
        Chain(**w, lengths=one).log_prob(torch.tensor([[0]]))


@pytest.mark.parametrize("table", ["start", "transition", "emission", "second"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_plus_infinity_are_never_taken_for_weights(table: str, bad: float) -> None:
    w = weights(2, 3, order=2)
    w[table].view(-1)[1] = bad
    chain = Chain(**w, lengths=torch.tensor([3]), flat=True)
    with pytest.raises(StructureError, match=f"{table} holds NaN or \\+inf"):
        chain.log_prob(torch.tensor([0, 1, 0]))
    with pytest.raises(StructureError, match=f"{table} holds NaN or \\+inf"):
        chain.posterior(torch.tensor([0, 1, 0]))


def test_nothing_but_empty_sequences() -> None:
    chain = Chain(**weights(2, 3), lengths=torch.tensor([0, 0]), flat=True)
    posterior = chain.posterior(torch.zeros(0, dtype=torch.long))
    assert posterior.log_partition.tolist() == [0.0, 0.0]
    assert posterior.entropy.tolist() == [0.0, 0.0]
    assert all((counts == 0).all() for counts in posterior.counts.values())


@pytest.mark.parametrize("spread", [50.0, 200.0, 400.0])
def test_weights_far_apart_are_summed_right_without_a_gradient(spread: float) -> None:
    """Forwards alone, a state may be lost that matters later: the way back tells."""
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        K, n = 2 + seed % 4, (6, 30, 120)[seed % 3]
        shapes = ((K,), (K, K), (K, 4))
        weights = [(torch.randn(s, generator=generator).double() * spread).log_softmax(-1) for s in shapes]
        words = torch.randint(0, 4, (n,), generator=generator)
        chain = Chain(*weights, torch.tensor([n]), flat=True)
        torch.testing.assert_close(chain.log_prob(words), chain.defined(words), rtol=1e-10, atol=1e-8)
