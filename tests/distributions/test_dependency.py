"""Dependencies beyond the contract: counts of trees, golden values, masks, long sentences, errors, and drawing."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pyro
import pytest
import torch
from scipy import stats
from torch import Tensor

import pyro_unsup.kernels.dependency as kernel
from pyro_unsup.distributions import Dependency
from pyro_unsup.distributions.cells import arc_lengths, arcs_of
from pyro_unsup.errors import StructureError
from pyro_unsup.testing.contract import defined

from .dependency_case import all_trees, enumerate_trees, instance_of, uses

TREES = [1, 2, 7, 30, 143, 728, 3876]


def even(lengths: list[int], weight: float = 1.0, tags: int = 1, arcs: Tensor | None = None, **kind: Any) -> Dependency:
    """Every weight the same."""
    shapes = ((tags,), (tags, 2, tags), (tags, 2, 2, 2))
    tables = [torch.full(shape, math.log(weight), **kind) for shape in shapes]
    dist = Dependency(*tables, torch.tensor(lengths, dtype=torch.long))
    return dist if arcs is None else dist.with_potentials(arcs=arcs)


def random(
    lengths: list[int], tags: int = 4, spread: float = 1.0, zeros: float = 0.0, arcs: bool = False, **kind: Any
) -> tuple[Dependency, Tensor]:
    def table(*shape: int) -> Tensor:
        return (spread * torch.randn(shape, **kind)).masked_fill(torch.rand(shape) < zeros, -torch.inf)

    size = sum(n * (n + 1) for n in lengths)
    tables = table(tags), table(tags, 2, tags), table(tags, 2, 2, 2)
    dist = Dependency(*tables, torch.tensor(lengths))
    return dist.with_potentials(arcs=table(size)) if arcs else dist, torch.randint(tags, (sum(lengths),))


def blank(dist: Dependency) -> Tensor:
    return torch.zeros(dist.event_shape, dtype=torch.long)


def test_weights_of_one_count_trees() -> None:
    dist = even(list(range(1, 8)))
    expected = torch.tensor(TREES).double()
    torch.testing.assert_close(dist.log_prob(blank(dist)).exp(), expected, rtol=1e-13, atol=0)
    torch.testing.assert_close(defined(dist, blank(dist)).exp(), expected, rtol=1e-13, atol=0)
    assert [len(all_trees(n)) for n in range(1, 7)] == TREES[:6]


def test_golden_values_of_the_even_grammar() -> None:
    """Two tags, every probability one half."""
    dist = even([1, 2, 3, 4, 5], 0.5, tags=2)
    value = torch.arange(15) % 2
    golden = [0.125, 0.015625, 0.00341796875, 0.00091552734375, 0.0002727508544921875]
    assert dist.log_prob(value).exp().tolist() == pytest.approx(golden, rel=1e-14)


@pytest.mark.parametrize("zeros", [0.0, 0.1])
def test_every_word_is_attached_once_and_stops_twice(zeros: float) -> None:
    lengths = [1, 2, 3, 7, 0, 12, 30]
    dist, value = random(lengths, spread=2.0, zeros=zeros)
    posterior = dist.posterior(value)
    alive = posterior.log_partition > -torch.inf
    words, sentences = int(dist.lengths[alive].sum()), int((alive & (dist.lengths > 0)).sum())
    counts = posterior.counts
    assert float(counts["root"].sum()) == pytest.approx(sentences)
    assert float(counts["root"].sum() + counts["attach"].sum()) == pytest.approx(words)
    assert float(counts["stop"][..., 0].sum()) == pytest.approx(2 * words)
    assert float(counts["stop"][..., 1].sum()) == pytest.approx(words - sentences)
    for name, w in dist.weights.items():
        assert (counts[name][w == -torch.inf] == 0).all()
    owner, head, child = arcs_of(dist.lengths)
    row = torch.zeros(len(value)).index_add(
        0, (dist.lengths.cumsum(0) - dist.lengths)[owner] + child - 1, posterior.marginals
    )
    torch.testing.assert_close(row, alive.repeat_interleave(dist.lengths).double())
    assert (posterior.marginals[head == child] == 0).all()


@pytest.mark.parametrize("zeros", [0.0, 0.15])
@pytest.mark.parametrize("arcs", [False, True])
@pytest.mark.parametrize("limit", [None, 1e-300])
def test_all_of_a_posterior_against_all_trees(
    arcs: bool, zeros: float, limit: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scaled, and in log space."""
    if limit is not None:
        monkeypatch.setattr(kernel, "LIMIT", dict.fromkeys(kernel.LIMIT, limit))
    dist, value = random([5, 1, 4, 5, 5], tags=3, spread=2.0, zeros=zeros, arcs=arcs)
    instance, posterior = instance_of(dist, value), dist.posterior(value)
    if arcs:  # enumeration knows of weights only
        for item, cells in zip(instance.items, instance.cells, strict=True):
            more = dist.extra["arcs"][cells]
            item.scores = [
                s + sum(float(more[cell]) for (cell,) in used) for s, used in zip(item.scores, item.parts, strict=True)
            ]
    mode, mbr = posterior.mode(), posterior.mbr()
    total = {name: torch.zeros_like(w) for name, w in dist.weights.items()}
    for b, every in enumerate(instance.items):
        p, piece = torch.tensor(every.probabilities()), instance.pieces[b]
        assert float(posterior.log_partition[b]) == pytest.approx(every.log_z, rel=1e-12)
        for name in total:
            total[name] += sum(q * c[name] for q, c in zip(p, every.counts, strict=True))
        parts = torch.zeros(len(p), instance.cells[b].stop - instance.cells[b].start)
        for t, used in enumerate(every.parts):
            parts[t, [cell for (cell,) in used]] = 1
        torch.testing.assert_close(posterior.marginals[instance.cells[b]], p @ parts, rtol=0, atol=1e-12)
        if every.log_z == -math.inf:
            assert (mode[piece] == -1).all()
            assert (mbr[piece] == -1).all()
            continue
        assert float(posterior.entropy[b]) == pytest.approx(every.entropy, abs=1e-10)
        barred = posterior.potentials["arcs"][instance.cells[b]] == -torch.inf  # never in a tree of minimum Bayes risk
        allowed = (parts @ barred.double() == 0).tolist()
        gains = {
            tree: gain
            for tree, gain, ok in zip(every.structures, (parts @ (p @ parts)).tolist(), allowed, strict=True)
            if ok
        }
        assert gains[tuple(mbr[piece].tolist())] == pytest.approx(max(gains.values()), rel=1e-12)
        scores = dict(zip(every.structures, every.scores, strict=True))
        assert scores[tuple(mode[piece].tolist())] == pytest.approx(max(every.scores), rel=1e-12)
    for name, counts in posterior.counts.items():
        torch.testing.assert_close(counts, total[name], rtol=1e-10, atol=1e-12)


def right_attach(head: Tensor, child: Tensor, n: Tensor) -> Tensor:
    return (head > child) | ((head == 0) & (child == n))


def short(head: Tensor, child: Tensor, n: Tensor) -> Tensor:
    return (head == 0) | ((head - child).abs() <= 4)


def all_right(head: Tensor, child: Tensor, n: Tensor) -> Tensor:
    return torch.where(child == n, head == 0, head == n)


def left_chain(head: Tensor, child: Tensor, n: Tensor) -> Tensor:
    return torch.where(child == n, head == 0, head == child + 1)


@pytest.mark.parametrize(
    ("mask", "trees"),
    [
        (right_attach, [1, 1, 2, 5, 14, 42]),
        (short, [1, 2, 7, 30, 143, 442]),
        (all_right, [1] * 6),
        (left_chain, [1] * 6),
    ],
)
def test_a_mask_leaves_the_trees_that_it_allows(mask: Any, trees: list[int]) -> None:
    lengths = torch.arange(1, 7)
    owner, head, child = arcs_of(lengths)
    allowed = mask(head, child, lengths[owner])
    dist = even(lengths.tolist(), arcs=allowed)
    assert dist.log_prob(blank(dist)).exp().tolist() == pytest.approx(trees)
    # The same as filtering all trees, with any weights.
    free, value = random([6], tags=3)
    cells = allowed[owner == 5]
    every = enumerate_trees(free, value.tolist())
    kept = [s for s, used in zip(every.scores, every.parts, strict=True) if all(cells[cell] for (cell,) in used)]
    assert len(kept) == trees[5]
    masked = free.with_potentials(arcs=cells)
    assert float(masked.log_prob(value)) == pytest.approx(float(torch.logsumexp(torch.tensor(kept), 0)), rel=1e-12)
    assert float(masked.log_prob(value)) <= float(free.log_prob(value))
    posterior = masked.posterior(value)
    assert (posterior.marginals[~cells] == 0).all()
    draws = [tuple(posterior.sample().tolist()) for _ in range(20)] + [tuple(posterior.mode().tolist())]
    for heads in draws:
        assert all(bool(cells[c * 7 + h]) for c, h in enumerate(heads))


def test_a_mask_that_forbids_everything() -> None:
    dist, value = random([3, 2])
    arcs = torch.ones(18, dtype=torch.bool)
    arcs[[0, 4, 8]] = False  # no root in the first sentence
    masked = dist.with_potentials(arcs=arcs)
    posterior = masked.posterior(value)
    assert posterior.log_partition.tolist() == [-math.inf, pytest.approx(float(dist.log_prob(value)[1]))]
    assert posterior.mode().tolist()[:3] == posterior.mbr().tolist()[:3] == posterior.sample().tolist()[:3] == [-1] * 3
    assert float(posterior.counts["root"].sum()) == pytest.approx(1)
    assert float(posterior.entropy[0]) == 0
    weights = {name: w.clone().requires_grad_() for name, w in dist.weights.items()}
    total = masked.with_weights(weights).log_prob(value)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(total[1], list(weights.values())))


def test_ties_go_to_the_left() -> None:
    """The first root, and the first split."""
    pair, four = even([2]), even([4])
    assert pair.posterior(blank(pair)).mode().tolist() == [0, 1]
    assert pair.posterior(blank(pair)).mbr().tolist() == [0, 1]
    assert four.posterior(blank(four)).mode().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_hundred_words_stay_finite(dtype: torch.dtype) -> None:
    n, tiny = 100, math.log(1e-30)
    dist, value = random([n], tags=10, spread=3.0, dtype=dtype)
    small = dist.with_weights({name: dist.weights[name] + tiny for name in ("root", "attach")})
    a, b = dist.posterior(value), small.posterior(value)
    torch.testing.assert_close(b.log_partition, a.log_partition + n * tiny, rtol=1e-6, atol=0)
    for weighed, posterior in ((dist, a), (small, b)):
        for counts in posterior.counts.values():
            assert torch.isfinite(counts).all()
            assert (counts >= 0).all()
        assert float(posterior.marginals.sum()) == pytest.approx(n, rel=1e-5)
        assert torch.isfinite(posterior.entropy).all()
        assert float(weighed.score(value, posterior.mode())) <= float(posterior.log_partition)
    torch.testing.assert_close(a.marginals, b.marginals, rtol=0, atol=1e-9 if dtype == torch.float64 else 0.02)
    weights = [w.clone().requires_grad_() for w in dist.weights.values()]
    grads = torch.autograd.grad(Dependency(*weights, dist.lengths).log_prob(value), weights)
    assert all(torch.isfinite(g).all() for g in grads)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_weights_of_one_and_of_1e_minus_300_side_by_side(dtype: torch.dtype) -> None:
    """Arcs cost 1e-300 apiece, unless they go from a word to the next. One tree pays nothing and others up to 59 times,
    which no real number can hold; without it, the cheapest ones pay once."""
    n, tiny = 60, math.log(1e-300)
    _, head, child = arcs_of(torch.tensor([n]))
    chain = (head == child - 1) | (head == 0)
    arcs = torch.where(chain, 0.0, tiny).to(dtype)
    dist = even([n], arcs=arcs, dtype=dtype)
    posterior = dist.posterior(blank(dist))
    assert float(posterior.log_partition) == pytest.approx(0, abs=1e-6)
    assert posterior.mode().tolist() == posterior.mbr().tolist() == list(range(n))
    allowed = dist.with_potentials(arcs=(head > 0) | (child > 1)).posterior(blank(dist))
    # The root is r, and the first r - 1 words are a tree below it, by one arc to the left and chains to the right.
    assert float(allowed.log_partition) == pytest.approx(tiny + math.log(n - 1), rel=1e-6)
    assert float(allowed.marginals.sum()) == pytest.approx(n, rel=1e-5)
    assert float(allowed.entropy) == pytest.approx(math.log(n - 1), rel=1e-4)


def test_both_ways_to_sum_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled arithmetic, and log space for all sentences."""
    dist, value = random([1, 2, 3, 9, 20, 40], spread=4.0, arcs=True)
    a = dist.posterior(value)
    sums = a.log_partition, a.marginals, a.entropy, *a.counts.values()
    monkeypatch.setattr(kernel, "LIMIT", dict.fromkeys(kernel.LIMIT, 1e-300))
    b = dist.posterior(value)
    for one, other in zip(sums, (b.log_partition, b.marginals, b.entropy, *b.counts.values()), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-11)


def test_many_sentences_and_threads_change_nothing() -> None:
    lengths = [*torch.randint(0, 12, (3500,)).tolist(), 40, 0, 1]
    dist, value = random(lengths, tags=20)
    one = dist.posterior(value)
    torch.set_num_threads(3)
    three = dist.posterior(value)
    assert torch.equal(one.log_partition, three.log_partition)
    assert torch.equal(one.marginals, three.marginals)
    assert torch.equal(one.mode(), three.mode())
    for name, counts in one.counts.items():
        torch.testing.assert_close(counts, three.counts[name], rtol=1e-12, atol=1e-12)


def test_one_set_of_weights_a_sentence() -> None:
    dist, value = random([3, 1, 4])
    several = [{name: torch.randn(w.shape) for name, w in dist.weights.items()} for _ in range(3)]
    stacked = dist.with_weights({name: torch.stack([w[name] for w in several]) for name in dist.weights})
    expected = torch.stack([dist.with_weights(w).log_prob(value)[b] for b, w in enumerate(several)])
    torch.testing.assert_close(stacked.log_prob(value), expected)
    heads = dist.posterior(value).mode()
    expected = torch.stack([dist.with_weights(w).score(value, heads)[b] for b, w in enumerate(several)])
    torch.testing.assert_close(stacked.score(value, heads), expected)
    draws = dist.with_weights({name: w.expand(5, 1, *w.shape) for name, w in dist.weights.items()})
    assert draws.log_prob(value).shape == (5, 3)
    posterior, owner = stacked.posterior(value), arcs_of(dist.lengths)[0]
    for b, w in enumerate(several):
        alone = dist.with_weights(w).posterior(value)
        torch.testing.assert_close(posterior.marginals[owner == b], alone.marginals[owner == b])
        torch.testing.assert_close(posterior.entropy[b], alone.entropy[b])
        words = dist.rows.owner == b
        assert torch.equal(posterior.mode()[words], alone.mode()[words])


@pytest.mark.parametrize("name", ["uniform", "harmonic"])
def test_references_are_distributions_over_trees(name: str) -> None:
    dist, value = random([1, 2, 4, 5])
    reference = dist.references()[name]
    blank_weights = {key: torch.zeros_like(w) for key, w in dist.weights.items()}
    q = dist.with_weights(blank_weights).with_potentials(**reference)
    torch.testing.assert_close(q.log_prob(value), torch.zeros(4), rtol=0, atol=1e-12)
    chain, star = torch.tensor([0, 0, 1, 0, 1, 2, 3, 0, 1, 2, 3, 4]), torch.tensor([0, 0, 1, 0, 1, 1, 1, 0, 1, 1, 1, 1])
    ratio = (q.score(value, chain) - q.score(value, star)).exp()
    # Arcs of one word weigh 1/2, and those of a star 1/2, 1/3, 1/4, 1/5.
    assert ratio.tolist() == pytest.approx([1, 1, 1, 1] if name == "uniform" else [1, 1, 3, 7.5])


def test_drawn_sentences_follow_the_weights_of_their_length() -> None:
    pyro.set_rng_seed(3)
    K, n, draws = 2, 4, 6000
    dist, _ = random([n], tags=K, spread=1.5, zeros=0.05)
    sentences = torch.cartesian_prod(*[torch.arange(K)] * n)
    log_p = torch.stack([dist.log_prob(x) for x in sentences]).squeeze(-1)
    p = log_p.softmax(0)
    drawn = dist.sample((draws,))
    assert drawn.shape == (draws, n)
    observed = torch.bincount((drawn * 2 ** torch.arange(n - 1, -1, -1)).sum(-1), minlength=len(p)).double()
    assert (observed[p == 0] == 0).all()
    some = p > 0
    chi2 = float(((observed - draws * p) ** 2 / (draws * p))[some].sum())
    assert stats.chi2.sf(chi2, int(some.sum()) - 1) > 1e-4


def test_drawing_with_lengths_of_every_size() -> None:
    dist, _ = random([0, 1, 7, 30], tags=5)
    assert dist.sample().shape == (38,)
    assert dist.expand((4,)).sample((2,)).shape == (2, 38)
    never = dist.with_weights({"stop": torch.stack([torch.full((5, 2, 2), -torch.inf), torch.zeros(5, 2, 2)], -1)})
    with pytest.raises(StructureError, match="allow no sentence of 1 words: none can be drawn"):
        never.sample()
    with pytest.raises(StructureError, match="the added potentials belong to given sentences"):
        dist.with_potentials(arcs=torch.zeros(2 + 56 + 930)).sample()


def test_score_counts_what_a_tree_uses() -> None:
    dist, value = random([4], tags=3, arcs=True)
    for heads in all_trees(4):
        expected = 0.0
        for name, cell in uses(heads, value.tolist()):
            expected += float(dist.weights[name][cell])
        for child, head in enumerate(heads):
            expected += float(dist.extra["arcs"].reshape(4, 5)[child, head])
        assert float(dist.score(value, torch.tensor(heads))) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "heads", [[2, 1, 0], [0, 0, 1], [1, 0, 2], [0, 4, 1], [-1, 0, 2], [3, 3, 2], [2, 0, 5], [2, 3, 2]]
)
def test_heads_that_are_no_tree_are_refused(heads: list[int]) -> None:
    dist, value = random([2, 3])
    expected = f"sentence 1 has no projective tree with one root.*actual \\[{', '.join(map(str, heads))}\\]"
    with pytest.raises(StructureError, match=expected):
        dist.score(value, torch.tensor([0, 1, *heads]))


def test_only_projective_trees_with_one_root_pass() -> None:
    for n in range(1, 6):
        trees = set(all_trees(n))
        for heads in itertools.product(range(n + 1), repeat=n):
            assert (kernel.first_bad_tree(np.array(heads), np.array([n])) == -1) == (heads in trees), heads


def test_bad_weights_and_values() -> None:
    root, attach, stop = torch.zeros(3), torch.zeros(3, 2, 3), torch.zeros(3, 2, 2, 2)
    lengths = torch.tensor([2, 1])
    for name, tables in (("attach", (root, attach[:2], stop)), ("stop", (root, attach, stop[:, :, 0]))):
        with pytest.raises(StructureError, match=rf"{name} should end in shape \(K, 2, .*where K = 3; actual shape"):
            Dependency(*tables, lengths)
    with pytest.raises(StructureError, match="lengths should have shape"):
        Dependency(root, attach, stop, torch.tensor(2))
    with pytest.raises(StructureError, match="last batch axis of the weights should be 1, or 2"):
        Dependency(root.expand(5, 3), attach, stop, lengths)
    dist, value = Dependency(root, attach, stop, lengths), torch.tensor([0, 1, 2])
    with pytest.raises(StructureError, match=r"tags of shape \(3,\), all examples end to end; actual shape \(2,\)"):
        dist.log_prob(value[:2])
    with pytest.raises(StructureError, match="tags must be integers"):
        dist.log_prob(value.double())
    with pytest.raises(
        StructureError, match=r"tags must lie in 0 \.\. 2 \(the table has 3 of them\), actual range 1 \.\. 3"
    ):
        dist.log_prob(value + 1)
    with pytest.raises(StructureError, match="attach holds NaN or \\+inf"):
        dist.with_weights({"attach": attach + torch.inf}).log_prob(value)
    with pytest.raises(StructureError, match=r"must have one floating dtype: root has torch\.float64, stop has"):
        dist.with_weights({"stop": stop.float()}).log_prob(value)
    with pytest.raises(StructureError, match="one head, an integer, for each of the 3 words"):
        dist.score(value, value[:2])
    with pytest.raises(
        StructureError, match=r"there are arcs of shape \(8,\), which do not fit potentials of shape \(7,\)"
    ):
        dist.with_potentials(arcs=torch.zeros(7)).log_prob(value)
    with pytest.raises(StructureError, match=r"Dependency has no parts 'states': it has \['arcs', 'decisions'\]"):
        dist.with_potentials(states=torch.zeros(8)).log_prob(value)


def test_no_sentences_and_empty_sentences() -> None:
    none = even([])
    assert none.log_prob(blank(none)).shape == (0,)
    assert none.posterior(blank(none)).mode().shape == (0,)
    empty = even([0, 0])
    assert empty.log_prob(blank(empty)).tolist() == [0, 0]
    assert defined(empty, blank(empty)).tolist() == [0, 0]
    assert int(arc_lengths(empty.lengths).sum()) == 0
