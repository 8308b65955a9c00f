"""What the contract suite does not ask of a segmentation: goldens, limits, long sentences, and errors."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pyro
import pytest
import torch
from torch import Tensor

from pyro_unsup.distributions import Segmentation
from pyro_unsup.distributions.segmentation import segments_of
from pyro_unsup.errors import StructureError
from pyro_unsup.kernels import plumbing
from pyro_unsup.kernels import segmentation as kernel
from pyro_unsup.kernels import segmentation_pass as scaled
from pyro_unsup.kernels.segmentation import segmentation_pass


def text(lengths: list[int], longest: int, types: int, seed: int = 0) -> Tensor:
    """Random numbers for all segments of sentences."""
    cells = torch.randint(types, (sum(lengths), longest), generator=torch.Generator().manual_seed(seed))
    before = torch.cat([torch.arange(n) for n in lengths])
    cells[torch.arange(longest) > before.unsqueeze(-1)] = -1
    return cells


def weights(types: int, longest: int, seed: int = 0, spread: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    segments = (spread * torch.randn(types, generator=g, dtype=torch.float64)).log_softmax(-1)
    return segments, -(torch.arange(longest + 1).double() ** 1.6), torch.tensor([0.7, 0.3]).log()


# -- goldens


def test_two_symbols_by_hand() -> None:
    """ab is either one segment or two: 0.5 * 0.2 * e^-2 * 0.5, or 0.5 * 0.3 * e^-1 * 0.5 * 0.5 * e^-1 * 0.5."""
    segments = torch.tensor([0.3, 0.5, 0.2]).log()  # a, b, ab
    dist = Segmentation(segments, torch.tensor([0.0, -1.0, -2.0]), torch.tensor([0.5, 0.5]).log(), torch.tensor([2]))
    value = torch.tensor([[0, -1], [1, 2]])
    one, two = 0.5 * 0.2 * math.exp(-2) * 0.5, (0.5 * math.exp(-1)) ** 2 * 0.3 * 0.5 * 0.5
    assert float(dist.log_prob(value).exp()) == pytest.approx(one + two, rel=1e-12)
    posterior = dist.posterior(value)
    share = two / (one + two)
    torch.testing.assert_close(posterior.marginals, torch.tensor([[share, 0.0], [share, 1 - share]]))
    torch.testing.assert_close(posterior.marginals.sum(-1), torch.tensor([share, 1.0]))
    torch.testing.assert_close(posterior.counts["segments"], torch.tensor([share, share, 1 - share]))
    torch.testing.assert_close(posterior.counts["length"], torch.tensor([0.0, 2 * share, 1 - share]))
    torch.testing.assert_close(posterior.counts["stop"], torch.tensor([1 + share, 1.0]))
    assert posterior.mode().tolist() == [0, 1]
    assert dist.score(value, torch.tensor([1, 1])).exp().item() == pytest.approx(two)


def test_all_weights_one_counts_compositions() -> None:
    """A sentence of n symbols has 2^(n - 1) segmentations; with segments of at most 3, the tribonacci numbers."""
    lengths = list(range(1, 9))
    for longest, expected in ((8, [2.0 ** (n - 1) for n in lengths]), (3, [1, 2, 4, 7, 13, 24, 44, 81])):
        dist = Segmentation(torch.zeros(1), torch.zeros(longest + 1), torch.zeros(2), torch.tensor(lengths))
        found = dist.log_prob(text(lengths, longest, 1)).exp()
        torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_sums_of_counts() -> None:
    """Segments cover every symbol once, each goes on once, and each sentence stops once."""
    lengths = [7, 1, 12, 30]
    dist = Segmentation(*weights(40, 5), torch.tensor(lengths))
    counts = dist.posterior(text(lengths, 5, 40)).counts
    assert float(counts["length"] @ torch.arange(6.0)) == pytest.approx(sum(lengths))
    assert float(counts["segments"].sum()) == pytest.approx(float(counts["stop"][0]))
    assert float(counts["stop"][1]) == pytest.approx(len(lengths))


# -- long sentences, and numbers at the edge


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_ten_thousand_symbols(dtype: torch.dtype) -> None:
    lengths = [10_000, 3, 10_000]
    tables = tuple(w.to(dtype).requires_grad_() for w in weights(500, 10, spread=3.0))
    dist = Segmentation(*tables, torch.tensor(lengths))
    value = text(lengths, 10, 500)
    log_z = dist.log_prob(value)
    assert bool(torch.isfinite(log_z).all())
    assert float(log_z.detach()[0]) < -1e4
    for grad in torch.autograd.grad(log_z.sum(), tables):
        assert bool(torch.isfinite(grad).all())
    posterior = dist.posterior(value)
    assert bool(torch.isfinite(posterior.entropy).all())
    for structure in (posterior.mode(), posterior.mbr(), posterior.sample()):
        assert int(segments_of(structure, dist.lengths)[1].max()) <= 10


def test_scaled_pass_agrees_with_log_pass() -> None:
    """On long sentences, through many rescalings, downward and upward."""
    lengths = [3_000, 50, 2_000]
    value = text(lengths, 6, 200)
    for lift in (0.0, 12.0):
        segments, length, stop = weights(200, 6, spread=2.0)
        dist = Segmentation(segments + lift, length, stop, torch.tensor(lengths))
        data = kernel.Pieces.of_weights(dist, dist.weights, value)
        with mock.patch.object(kernel, "log_pass", side_effect=AssertionError("the scaled pass should do")):
            log_z, counts = segmentation_pass(data, None, True)
        with mock.patch.object(kernel, "LIMIT", {np.dtype(np.float64): 0.0}):
            expected, others = segmentation_pass(data, None, True)
        np.testing.assert_allclose(log_z, expected, rtol=1e-12, atol=0)
        np.testing.assert_allclose(counts[0], others[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(counts[2], others[2], rtol=1e-10, atol=0)


def test_what_the_scaled_pass_cannot_hold_is_done_in_logs() -> None:
    """Both ways to read abc use a weight of e^-800, which is no float64, or a weight of e^800."""
    for size in (-800.0, 800.0):
        segments = torch.tensor([0.0, 0.0, size, size])  # a, bc, ab, c
        value = torch.tensor([[0, -1], [-1, 2], [3, 1]])
        dist = Segmentation(segments, torch.zeros(3), torch.zeros(2), torch.tensor([3]))
        ways = torch.logsumexp(torch.tensor([0.0, 2 * size]), 0)
        torch.testing.assert_close(dist.log_prob(value), ways.reshape(1))
        only = Segmentation(torch.tensor([-torch.inf, 0.0, size, size]), torch.zeros(3), torch.zeros(2), dist.lengths)
        torch.testing.assert_close(only.log_prob(value), torch.tensor([2 * size]))
        torch.testing.assert_close(only.posterior(value).counts["segments"], torch.tensor([0.0, 0.0, 1.0, 1.0]))


def test_an_unlikely_cut_moves_nothing() -> None:
    """Long words whose parts are hardly words: cuts inside them are as good as impossible, and no cause to rescale."""
    segments = torch.cat([torch.full((9,), -690.0), torch.tensor([-1.0])])
    longest, words = 4, 30
    value = text([longest * words], longest, 9)
    value[longest - 1 :: longest, longest - 1] = 9
    dist = Segmentation(segments, torch.zeros(longest + 1), torch.tensor([0.5, 0.5]).log(), torch.tensor([len(value)]))
    with mock.patch.object(kernel, "log_pass", side_effect=AssertionError("the scaled pass should do")):
        posterior = dist.posterior(value)
        assert float(posterior.counts["segments"][9]) == pytest.approx(words, rel=1e-12)
    assert float(posterior.log_partition) == pytest.approx(words * (-1 + math.log(0.5)) + math.log(0.5), rel=1e-12)


@pytest.mark.parametrize("impossible", ["segments", "stop"])
def test_impossible_sentences(impossible: str) -> None:
    segments, length, stop = (w.clone() for w in weights(3, 2))
    value = torch.tensor([[0, -1], [1, 0], [2, -1]])
    if impossible == "stop":
        stop[1] = -torch.inf
    else:
        segments[2] = -torch.inf
    tables = [w.requires_grad_() for w in (segments, length, stop)]
    dist = Segmentation(*tables, torch.tensor([2, 1]))
    log_z = dist.log_prob(value)
    assert log_z[1] == -torch.inf
    assert (log_z[0] == -torch.inf) == (impossible == "stop")
    posterior = dist.posterior(value)
    for structure in (posterior.mode(), posterior.mbr(), posterior.sample()):
        assert structure[2] == -1
        assert (structure[:2] == -1).all() == (impossible == "stop")
    assert float(posterior.marginals[2].sum()) == 0
    assert posterior.entropy[1] == 0
    for grad in torch.autograd.grad(log_z[log_z > -torch.inf].sum(), tables, allow_unused=True, materialize_grads=True):
        assert bool(torch.isfinite(grad).all())


def test_empty_sentences_are_skipped() -> None:
    value, table = text([2, 3], 2, 4), weights(4, 2)
    some = Segmentation(*table, torch.tensor([0, 2, 0, 3, 0]))
    plain = Segmentation(*table, torch.tensor([2, 3]))
    torch.testing.assert_close(some.log_prob(value)[[1, 3]], plain.log_prob(value))
    assert some.log_prob(value)[[0, 2, 4]].tolist() == [0, 0, 0]
    assert torch.equal(some.posterior(value).mode(), plain.posterior(value).mode())
    torch.testing.assert_close(some.posterior(value).counts, plain.posterior(value).counts)
    assert some.posterior(value).entropy[0] == 0
    structure = plain.posterior(value).mode()
    torch.testing.assert_close(some.score(value, structure)[[1, 3]], plain.score(value, structure))
    none = Segmentation(*table, torch.tensor([0, 0]))
    assert none.log_prob(torch.empty(0, 2, dtype=torch.long)).tolist() == [0, 0]
    assert none.posterior(torch.empty(0, 2, dtype=torch.long)).mode().shape == (0,)


def test_as_many_threads_as_you_like() -> None:
    lengths = [40] * 1000
    value = text(lengths, 4, 300)
    dist = Segmentation(*weights(300, 4), torch.tensor(lengths))
    one = dist.posterior(value)
    torch.set_num_threads(3)
    try:
        with (
            mock.patch.object(kernel, "SYMBOLS_A_TOKEN", 1),
            mock.patch.object(plumbing, "map_threads", wraps=plumbing.map_threads) as mapped,
        ):
            three = dist.posterior(value)
            torch.testing.assert_close(three.log_partition, one.log_partition, rtol=0, atol=0)
        assert len(mapped.call_args.args[1]) == 2  # 40,000 symbols are work for two
    finally:
        torch.set_num_threads(1)
    torch.testing.assert_close(three.counts, one.counts, rtol=1e-12, atol=1e-12)


def test_one_set_of_weights_a_sentence() -> None:
    lengths, value = torch.tensor([3, 4]), text([3, 4], 2, 5)
    both = [weights(5, 2, seed) for seed in (0, 1)]
    tables = [torch.stack(pair) for pair in zip(*both, strict=True)]
    found = Segmentation(*tables, lengths).log_prob(value)
    apart = [Segmentation(*w, lengths).log_prob(value)[b] for b, w in enumerate(both)]
    torch.testing.assert_close(found, torch.stack(apart))
    wide = Segmentation(tables[0].unsqueeze(1), both[0][1], both[0][2], lengths)  # (2, 1) sets of weights
    assert wide.log_prob(value).shape == (2, 2)
    torch.testing.assert_close(wide.log_prob(value)[0], Segmentation(*both[0], lengths).log_prob(value))
    ends = torch.tensor([1, 0, 1, 0, 1, 0, 1])
    torch.testing.assert_close(
        Segmentation(*tables, lengths).score(value, ends),
        torch.stack([Segmentation(*w, lengths).score(value, ends)[b] for b, w in enumerate(both)]),
    )
    posterior, owner = Segmentation(*tables, lengths).posterior(value), torch.tensor([0, 0, 0, 1, 1, 1, 1])
    for b, w in enumerate(both):
        alone = Segmentation(*w, lengths).posterior(value)
        torch.testing.assert_close(posterior.marginals[owner == b], alone.marginals[owner == b])
        torch.testing.assert_close(posterior.entropy[b], alone.entropy[b])
        assert torch.equal(posterior.mode()[owner == b], alone.mode()[owner == b])


def test_inside_a_plate() -> None:
    lengths, value = torch.tensor([3, 4]), text([3, 4], 2, 5)

    def model() -> None:
        with pyro.plate("sentences", 2):
            pyro.sample("x", Segmentation(*weights(5, 2), lengths), obs=value)

    trace = pyro.poutine.trace(model).get_trace()
    expected = Segmentation(*weights(5, 2), lengths).log_prob(value).sum()
    torch.testing.assert_close(trace.log_prob_sum(), expected)
    assert isinstance(trace.nodes["x"]["fn"], Segmentation)


def test_range_of_messages_is_far_from_the_ends() -> None:
    """One step from within the range must neither overflow nor underflow for weights of ordinary size."""
    assert scaled.LOW * 1e-200 > scaled.TINY
    assert np.finfo(np.float64).max > scaled.HIGH * 1e200


# -- errors


def test_errors() -> None:
    segments, length, stop = weights(3, 2)
    lengths, value = torch.tensor([2]), torch.tensor([[0, -1], [1, 2]])
    good = Segmentation(segments, length, stop, lengths)
    for tables, message in (
        ((segments, torch.zeros(1), stop), "length should end in shape (L+1), none of them empty; actual shape (1,)"),
        (
            (segments, length, torch.zeros(3)),
            "stop should end in shape (2), none of them empty; actual shape (3,)",
        ),
        ((torch.zeros(0), length, stop), "segments should end in shape (S), none of them empty; actual shape (0,)"),
        (
            (torch.zeros(3, 3), length, stop),
            "the last batch axis of the weights should be 1, or 1 (one set an example)",
        ),
    ):
        with pytest.raises(StructureError) as error:
            Segmentation(*tables, lengths)
        assert message in str(error.value)
    with pytest.raises(StructureError, match=r"lengths should have shape \(B,\), actual shape \(1, 1\)"):
        Segmentation(segments, length, stop, torch.tensor([[2]]))
    for bad, message in (
        (value[:1], "expected segments of shape (2, 2), all examples end to end; actual shape (1, 2)"),
        (value.double(), "segments must be integers, actual dtype torch.float64"),
        (
            value + 1,
            "segments must lie in 0 .. 2 (the table has 3 of them), or be -1 for none, actual range 0 .. 3",
        ),
        (value - 1, "actual range -2 .. 1"),
    ):
        with pytest.raises(StructureError) as error:
            good.log_prob(bad)
        assert message in str(error.value)
    for name, table, message in (
        ("segments", segments * torch.nan, "segments holds NaN or +inf"),
        ("length", length + torch.inf, "length holds NaN or +inf"),
        ("stop", stop.float(), "segments has torch.float64, stop has torch.float32"),
    ):
        with pytest.raises(StructureError) as error:
            good.with_weights({name: table}).log_prob(value)
        assert message in str(error.value)
    with pytest.raises(StructureError, match=r"cannot draw sentences: .*posterior\(value\).sample\(\)"):
        good.sample()


def test_errors_of_structures() -> None:
    dist = Segmentation(*weights(3, 2), torch.tensor([2, 3]))
    value = text([2, 3], 2, 3)
    for structure, message in (
        ([1, 1, 1, 1], "one number for each of the 5 symbols, actual shape (4,)"),
        ([1, 1, 1, 2, 1], "made of 1 (a segment ends) and 0 (inside one), found another number"),
        ([0, 1, 1, 1, 0], "sentence 1 does not end in the end of a segment: its last symbol should be 1"),
        ([0, 1, 0, 0, 1], "sentence 1 has a segment of 3 symbols, expected at most 2"),
    ):
        with pytest.raises(StructureError) as error:
            dist.score(value, torch.tensor(structure))
        assert message in str(error.value)
