"""The bracketing beyond what every structure must do: seven words, eighty words, certain spans, draws, errors."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats
from torch import Tensor

from pyro_unsup import StructureError
from pyro_unsup.distributions import Bracketing
from pyro_unsup.distributions.bracketing import constituents
from pyro_unsup.distributions.bracketing_priors import split_node
from pyro_unsup.distributions.cells import span_lengths, spans_of
from pyro_unsup.distributions.semiring import SAMPLE
from pyro_unsup.kernels import bracketing as kernel
from pyro_unsup.testing.contract import defined

from .bracketing_case import all_spans, all_trees, enumerate_trees


def random(
    lengths: list[int], types: int = 6, zeros: float = 0.0, spread: float = 1.0, dtype: torch.dtype = torch.float64
) -> tuple[Bracketing, Tensor]:
    """Random weights, unnormalised, and random spans."""
    tables = [spread * torch.randn(2, types, dtype=dtype) for _ in range(2)]
    tables = [x.masked_fill(torch.rand(x.shape) < zeros, -torch.inf) for x in tables]
    size = sum(n * (n + 1) // 2 for n in lengths)
    return Bracketing(*tables, torch.tensor(lengths)), torch.randint(types, (size, 2))


def own(weights: Tensor, n: int) -> tuple[Bracketing, Tensor]:
    """A sentence of n words whose every span has a yield of its own, with the weights (2, spans) given."""
    dist = Bracketing(weights, torch.zeros(2, 1, dtype=weights.dtype), torch.tensor([n]))
    return dist, torch.stack([torch.arange(weights.shape[1]), torch.zeros(weights.shape[1], dtype=torch.long)], 1)


def test_weights_of_one_count_the_trees() -> None:
    lengths = torch.arange(1, 31)
    spans = torch.zeros(int((lengths * (lengths + 1) // 2).sum()), 2, dtype=torch.long)
    found = Bracketing(torch.zeros(2, 1), torch.zeros(2, 1), lengths).log_prob(spans)
    catalan = [math.comb(2 * n, n) // (n + 1) for n in range(30)]
    assert catalan[:7] == [1, 1, 2, 5, 14, 42, 132]
    assert [len(all_trees(0, n)) for n in range(1, 8)] == catalan[:7]
    torch.testing.assert_close(found, torch.tensor([math.log(c) for c in catalan]), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("zeros", [0.0, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_seven_words_against_all_132_trees(seed: int, zeros: float) -> None:
    torch.manual_seed(seed)
    for n in range(1, 8):
        dist, value = random([n], types=12, zeros=zeros)
        dist = dist.with_weights({"node": torch.randn(n + 1), "tree": torch.randn(n + 1)})
        every = enumerate_trees(dist, n, value.tolist())
        posterior = dist.posterior(value)
        assert float(posterior.log_partition) == pytest.approx(every.log_z, rel=1e-12)
        p = torch.tensor(every.probabilities())
        trees = torch.tensor(every.structures).double()
        torch.testing.assert_close(posterior.marginals, p @ trees, rtol=0, atol=1e-12)
        for name, counts in posterior.counts.items():
            expected = sum(q * c[name] for q, c in zip(p, every.counts, strict=True))
            torch.testing.assert_close(counts, expected, rtol=1e-11, atol=1e-12)
        if every.log_z == -math.inf:
            assert (posterior.mode() == -1).all()
            continue
        assert float(posterior.entropy) == pytest.approx(every.entropy, abs=1e-10)
        assert float(dist.score(value, posterior.mode())) == pytest.approx(max(every.scores), rel=1e-12)
        gains = trees @ (p @ trees)
        assert float(posterior.mbr().double() @ (p @ trees)) == pytest.approx(float(gains.max()), rel=1e-12)


@pytest.mark.parametrize("beta", [1e-6, 0.3, 0.9, 1.0])
def test_a_posterior_skewed_towards_random_splits(beta: float) -> None:
    """Weights to the power beta and random splits to the power 1 - beta, against all trees."""
    n = 6
    dist, value = random([n])
    raised = {name: beta * w for name, w in dist.weights.items()}
    skewed = dist.with_weights({**raised, "node": (1 - beta) * split_node(n)}).posterior(value)
    every = enumerate_trees(dist, n, value.tolist())
    split = torch.tensor(
        [
            math.prod(
                1 / (j - i - 1) for (i, j), inside in zip(all_spans(n), tree, strict=True) if inside and j - i > 1
            )
            for tree in every.structures
        ]
    )
    assert float(split.sum()) == pytest.approx(1)
    expected = (beta * torch.tensor(every.scores) + (1 - beta) * split.log()).softmax(0)
    trees = torch.tensor(every.structures).double()
    torch.testing.assert_close(skewed.marginals, expected @ trees, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_eighty_words_stay_finite(dtype: torch.dtype) -> None:
    n, tiny = 80, math.log(1e-300)
    dist, value = random([n], spread=3.0, dtype=dtype)
    small = dist.with_weights({"yields": dist.weights["yields"] + tiny})
    a, b = dist.posterior(value), small.posterior(value)
    assert torch.isfinite(a.log_partition).all()
    shift = len(value) * tiny
    torch.testing.assert_close(b.log_partition, a.log_partition + shift, rtol=1e-6, atol=0)
    for posterior in (a, b):
        assert float(posterior.marginals.sum()) == pytest.approx(2 * n - 1, rel=1e-5)
        for counts in posterior.counts.values():
            assert torch.isfinite(counts).all()
            assert (counts >= 0).all()
        assert float(posterior.counts["yields"].sum()) == pytest.approx(len(value), rel=1e-5)
        assert torch.isfinite(posterior.entropy).all()
    torch.testing.assert_close(a.marginals, b.marginals, rtol=0, atol=1e-9 if dtype == torch.float64 else 0.02)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_of_one_and_of_1e_minus_300_side_by_side(dtype: torch.dtype) -> None:
    """Constituents cost 1e-300 apiece, unless they end where the sentence ends; and (1, n) does too. Two trees pay but
    once, and others up to 78 times, which no real number can hold."""
    n, tiny = 80, math.log(1e-300)
    _, start, end = spans_of(torch.tensor([n]))
    weights = torch.zeros(2, len(start), dtype=dtype)
    weights[1, ((end < n) & (end - start > 1)) | ((end == n) & (start == 1))] = tiny
    dist, value = own(weights, n)
    posterior = dist.posterior(value)
    assert float(posterior.log_partition) == pytest.approx(tiny + math.log(2), rel=1e-6)
    half = (start == 1) & (end == n) | (start == 0) & (end == 2)
    expected = torch.where(half, 0.5, ((end == n) | (end - start == 1)).double())
    torch.testing.assert_close(posterior.marginals.double(), expected, rtol=0, atol=1e-6)
    assert float(posterior.entropy) == pytest.approx(math.log(2), rel=1e-4)
    assert float(dist.score(value, posterior.mode())) == pytest.approx(tiny, rel=1e-6)


def test_both_ways_to_sum_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled arithmetic, and log space for all sentences."""
    dist, value = random([1, 2, 3, 9, 20, 40], spread=5.0)
    a = dist.posterior(value)
    monkeypatch.setattr(kernel, "LIMIT", dict.fromkeys(kernel.LIMIT, 1e-3))
    b = dist.posterior(value)
    torch.testing.assert_close(a.log_partition, b.log_partition, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(a.marginals, b.marginals, rtol=0, atol=1e-11)
    for name in a.counts:
        torch.testing.assert_close(a.counts[name], b.counts[name], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("zeros", [0.0, 0.02])
def test_many_sentences_and_threads_change_nothing(zeros: float) -> None:
    lengths = torch.randint(0, 12, (400,)).tolist() + [90] * 30
    lengths += [12] * 3000  # enough words for a second thread
    dist, value = random(lengths, types=50, zeros=zeros)
    log_z, counts = dist.log_prob(value), dist.posterior(value).counts
    torch.set_num_threads(2)
    torch.testing.assert_close(dist.log_prob(value), log_z, rtol=1e-13, atol=0)
    for name, c in dist.posterior(value).counts.items():
        torch.testing.assert_close(c, counts[name], rtol=1e-11, atol=1e-11)
    size = sum(n * (n + 1) // 2 for n in lengths[:400])
    expected = defined(Bracketing(**dist.weights, lengths=dist.lengths[:400]), value[:size])
    torch.testing.assert_close(log_z[:400], expected, rtol=1e-11, atol=1e-11)
    assert (log_z[dist.lengths == 0] == 0).all()


def test_a_span_that_cannot_be_a_distituent_is_in_every_tree() -> None:
    n = 6
    order = all_spans(n)
    weights = torch.randn(2, len(order))
    for span in ((1, 4), (2, 4)):
        weights[0, order.index(span)] = -torch.inf
    leaf = weights.clone().requires_grad_()
    dist, value = own(leaf, n)
    posterior = dist.posterior(value)
    expected = [s for tree, s in _scored(dist, value, n) if {(1, 4), (2, 4)} <= tree]
    assert 0 < len(expected) < len(all_trees(0, n))
    assert float(posterior.log_partition) == pytest.approx(float(torch.tensor(expected).logsumexp(0)))
    for draw in (posterior.mode(), posterior.mbr(), posterior.sample()):
        assert {(1, 4), (2, 4)} <= {(i, j) for _, i, j in constituents(draw, dist.lengths).tolist()}
    counts = posterior.counts["yields"]
    assert (counts[leaf == -torch.inf] == 0).all()  # not merely small: a zero must stay one
    (grad,) = torch.autograd.grad(dist.log_prob(value).sum(), leaf)
    torch.testing.assert_close(grad, counts)
    # Two of them that cross leave no tree at all.
    weights[0, order.index((3, 5))] = -torch.inf
    dist, value = own(weights, n)
    posterior = dist.posterior(value)
    assert float(posterior.log_partition) == -math.inf
    for name in posterior.counts:
        assert (posterior.counts[name] == 0).all()
    assert (posterior.marginals == 0).all()
    for draw in (posterior.mode(), posterior.mbr(), posterior.sample()):
        assert (draw == -1).all()


def _scored(dist: Bracketing, value: Tensor, n: int) -> list[tuple[set[tuple[int, int]], float]]:
    every = enumerate_trees(dist, n, value.tolist())
    return list(zip(all_trees(0, n), every.scores, strict=True))


def test_an_impossible_sentence_has_no_counts_and_no_nan() -> None:
    weights = torch.zeros(2, 2)
    weights[1, 1] = -torch.inf
    leaf = weights.requires_grad_()
    lengths = torch.tensor([1, 3, 2])
    dist = Bracketing(leaf, torch.zeros(2, 1), lengths)
    value = torch.zeros(10, 2, dtype=torch.long)
    value[0, 0] = 1  # the only word of the first sentence
    value[-1, 0] = 1  # all of the last one
    log_z = dist.log_prob(value)
    assert log_z.tolist() == pytest.approx([-math.inf, math.log(2), -math.inf])
    (grad,) = torch.autograd.grad(log_z[1], leaf, retain_graph=True)
    torch.testing.assert_close(grad, torch.tensor([[1.0, 0.0], [5.0, 0.0]]))
    posterior = dist.posterior(value)
    torch.testing.assert_close(posterior.counts["yields"], grad)
    assert posterior.mode()[[0, -1]].tolist() == [-1, -1]
    assert posterior.entropy.tolist() == pytest.approx([0, math.log(2), 0])
    total = defined(dist, value)
    (again,) = torch.autograd.grad(total[total > -math.inf].sum() + 0 * total[1], leaf)
    torch.testing.assert_close(again, grad)


@pytest.mark.parametrize("spread", [0.5, 2.0])
def test_draws_have_the_frequencies_of_the_posterior(spread: float) -> None:
    """Five words, every span with weights of its own: chi-squared over the 14 trees, and span by span."""
    n, draws = 5, 4000
    dist, value = own(spread * torch.randn(2, 15), n)
    every = enumerate_trees(dist, n, value.tolist())
    many = dist.posterior(value)
    generator = torch.Generator().manual_seed(1)
    seen = [tuple(many.sample(generator=generator).tolist()) for _ in range(draws)]
    expected = torch.tensor(every.probabilities()) * draws
    observed = torch.tensor([float(seen.count(tree)) for tree in every.structures])
    assert observed.sum() == draws
    chi2 = float(((observed - expected) ** 2 / expected.clamp(min=1.0)).sum())
    assert stats.chi2.sf(chi2, len(expected) - 1) > 1e-4
    # The sampling semiring: the gradient of one total is one tree.
    copies = 1000
    leaf = dist.weights["yields"].repeat(copies, 1, 1).requires_grad_()
    batch = Bracketing(leaf.unsqueeze(1), dist.weights["contexts"], dist.lengths)
    total = defined(batch, value, SAMPLE()).sum()
    (uses,) = torch.autograd.grad(total, leaf)
    trees = {tuple(tree) for tree in uses[:, 1].long().tolist()}
    assert trees <= set(every.structures)
    torch.testing.assert_close(uses.sum(1), torch.ones(copies, 15))
    p = many.marginals
    z = (uses[:, 1].mean(0) - p) / (p * (1 - p) / copies + 1e-12).sqrt()
    assert float(z.abs().max()) < 5


def test_weights_with_a_batch_of_their_own() -> None:
    """Particles, or one grammar a sentence: the definition takes over where weights differ."""
    lengths = [3, 1, 4, 2]
    _, value = random(lengths, types=3)
    many = [random(lengths, types=3, zeros=0.1)[0] for _ in range(4)]
    many = [d.with_weights({"node": torch.randn(5), "tree": torch.randn(5)}) for d in many]
    stacked = {name: torch.stack([d.weights[name] for d in many]) for name in many[0].weights}
    own = Bracketing(lengths=torch.tensor(lengths), **stacked)
    torch.testing.assert_close(own.log_prob(value), torch.stack([d.log_prob(value)[i] for i, d in enumerate(many)]))
    particles = Bracketing(lengths=torch.tensor(lengths), **{name: w.unsqueeze(1) for name, w in stacked.items()})
    assert particles.batch_shape == (4, 4)
    expected = torch.stack([d.log_prob(value) for d in many])
    torch.testing.assert_close(particles.log_prob(value), expected)
    owner, start, end = spans_of(own.lengths)
    trees = (end == own.lengths[owner]) | (end - start == 1)  # branching to the right
    torch.testing.assert_close(particles.score(value, trees), torch.stack([d.score(value, trees) for d in many]))
    posterior, each = particles.posterior(value), [d.posterior(value) for d in many]
    torch.testing.assert_close(posterior.marginals, torch.stack([p.marginals for p in each]))
    torch.testing.assert_close(posterior.entropy, torch.stack([p.entropy for p in each]))
    assert torch.equal(posterior.mode(), torch.stack([p.mode() for p in each]))


def test_errors_say_what_was_expected() -> None:
    good = torch.zeros(2, 3)
    three = torch.tensor([3])
    dist = Bracketing(good, good, three)
    spans = torch.zeros(6, 2, dtype=torch.long)
    with pytest.raises(StructureError, match=r"yields should end in shape \(2, Y\).*actual shape \(3, 2\)"):
        Bracketing(torch.zeros(3, 2), good, three)
    with pytest.raises(StructureError, match=r"longest sentence has 3 words, so node should have 4 or more"):
        Bracketing(good, good, three, node=torch.zeros(3))
    with pytest.raises(StructureError, match=r"the last batch axis of the weights should be 1, or 1 .*actual.*\(4,\)"):
        Bracketing(torch.zeros(4, 2, 3), good, three)
    with pytest.raises(StructureError, match=r"lengths should have shape \(B,\), actual shape \(\)"):
        Bracketing(good, good, torch.tensor(3))
    with pytest.raises(StructureError, match=r"yields and contexts of shape \(6, 2\), .*; actual shape \(5, 2\)"):
        dist.log_prob(spans[:5])
    with pytest.raises(StructureError, match="must be integers"):
        dist.log_prob(spans.double())
    with pytest.raises(StructureError, match=r"contexts must lie in 0 .. 2 .*actual range 0 .. 3"):
        dist.log_prob(spans + torch.tensor([0, 3]) * (torch.arange(6) == 2)[:, None])
    with pytest.raises(StructureError, match=r"yields must lie in 0 .. 2 .*actual range -1 .. -1"):
        dist.posterior(spans - 1)
    with pytest.raises(StructureError, match="cannot draw sentences"):
        dist.sample()


@pytest.mark.parametrize("table", ["yields", "contexts", "node", "tree"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_and_plus_infinity_are_never_taken_for_weights(table: str, bad: float) -> None:
    dist, value = random([3])
    w = {"node": torch.zeros(4), "tree": torch.zeros(4), **{name: x.clone() for name, x in dist.weights.items()}}
    w[table].view(-1)[1] = bad
    broken = dist.with_weights(w)
    for use in (broken.log_prob, broken.posterior, lambda value: broken.score(value, torch.ones(6))):
        with pytest.raises(StructureError, match=f"{table} holds NaN or \\+inf"):
            use(value)
    with pytest.raises(StructureError, match=r"one floating dtype: yields has torch.float64, tree has torch.float32"):
        dist.with_weights({"tree": torch.zeros(4, dtype=torch.float32)}).log_prob(value)


def test_nothing_but_empty_sentences() -> None:
    dist, _ = random([0, 0])
    value = torch.zeros(0, 2, dtype=torch.long)
    posterior = dist.posterior(value)
    assert posterior.log_partition.tolist() == [0.0, 0.0]
    assert posterior.entropy.tolist() == [0.0, 0.0]
    assert all((counts == 0).all() for counts in posterior.counts.values())
    assert posterior.mode().shape == posterior.sample().shape == (0,)
    assert defined(dist, value).tolist() == [0.0, 0.0]
    none = Bracketing(torch.zeros(2, 1), torch.zeros(2, 1), torch.zeros(0, dtype=torch.long))
    assert none.log_prob(value).shape == (0,)


def test_values_may_lie_in_any_way_in_memory() -> None:
    dist, value = random([4, 3])
    across = value.T.contiguous().T
    assert not across.is_contiguous()
    for other in (across, value.int()):
        assert torch.equal(dist.log_prob(other), dist.log_prob(value))
        assert torch.equal(dist.posterior(other).mode(), dist.posterior(value).mode())
        torch.testing.assert_close(dist.posterior(other).counts, dist.posterior(value).counts)


@pytest.mark.parametrize(
    ("tree", "what"),
    [
        ([1, 1, 1, 0, 0, 1], "sentence 0 has no binary tree.*5 in all, actual .*\\(0, 3\\)"),
        ([1, 1, 1, 1, 1, 0], "sentence 0 has no binary tree"),
        ([1, 1, 0, 1, 1, 1], "sentence 0 has no binary tree"),
        ([1, 1, 1, 1, 1, 1], "sentence 0 has no binary tree"),
        ([1, 1, 1, 2, 0, 1], "found another number"),
        ([1, 1, 1], r"one number for each of the 6 spans, actual shape \(3,\)"),
    ],
)
def test_what_is_not_a_tree_has_no_score(tree: list[int], what: str) -> None:
    dist = Bracketing(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([3]))
    with pytest.raises(StructureError, match=what):
        dist.score(torch.zeros(6, 2, dtype=torch.long), torch.tensor(tree))


def test_spans_that_cross_are_no_tree() -> None:
    order = all_spans(4)
    tree = torch.tensor([int(s in {(0, 1), (1, 2), (2, 3), (3, 4), (0, 3), (1, 4), (0, 4)}) for s in order])
    dist = Bracketing(torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor([1, 4]))
    with pytest.raises(StructureError, match=r"sentence 1 has no binary tree.*7 in all"):
        dist.score(torch.zeros(11, 2, dtype=torch.long), torch.cat([torch.ones(1, dtype=torch.long), tree]))


def test_a_model_that_knows_nothing_prefers_no_way_to_branch() -> None:
    """Of equal trees, those of sentences of many lengths are split here and there; and always in the same way."""
    lengths = torch.arange(6, 106)
    spans = torch.zeros(int(span_lengths(lengths).sum()), 2, dtype=torch.long)
    posterior = Bracketing(torch.zeros(2, 1), torch.zeros(2, 1), lengths).posterior(spans)
    trees = posterior.mode()
    assert torch.equal(trees, posterior.mode())
    owner, start, end = constituents(trees, lengths).T
    first = torch.zeros(len(lengths), dtype=torch.long)  # where sentences are split: the widest span from their start
    first = first.scatter_reduce(0, owner, torch.where((start == 0) & (end < lengths[owner]), end, 0), "amax")
    share = first / lengths
    assert 0.4 < float(share.mean()) < 0.6
    assert float((share < 0.25).double().mean()) > 0.1
    assert float((share > 0.75).double().mean()) > 0.1
    # No sentence's tree depends on its neighbours.
    alone = Bracketing(torch.zeros(2, 1), torch.zeros(2, 1), lengths[-1:]).posterior(spans[-105 * 53 :])
    assert torch.equal(alone.mode(), trees[-105 * 53 :])
