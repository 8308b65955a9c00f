"""The headed bracketing beyond the contract: what it is a product of, the trees that go with heads, and its limits."""

from __future__ import annotations

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from pyro_unsup.distributions import Bracketing, Dependency, HeadedBracketing
from pyro_unsup.distributions.bracketing import check_trees, constituents
from pyro_unsup.distributions.cells import arc_lengths, span_lengths
from pyro_unsup.distributions.headed_bracketing import brackets_of
from pyro_unsup.errors import StructureError
from pyro_unsup.kernels import headed_bracketing as kernel
from pyro_unsup.kernels import switched_off
from pyro_unsup.testing import StructureContract
from pyro_unsup.testing.contract import close, defined

from .bracketing_case import all_spans
from .bracketing_case import all_trees as all_bracketings
from .dependency_case import Heads, all_trees
from .headed_bracketing_case import instance_of, spans_in

ORDERS = pytest.mark.parametrize("order", ["right", "left"])
K, Y, X = 3, 7, 5


def tables(spread: float = 1.0, seed: int = 0) -> tuple[Tensor, ...]:
    g = torch.Generator().manual_seed(seed)
    shapes = ((K,), (K, 2, K), (K, 2, 2, 2), (2, Y), (2, X))
    return tuple(spread * torch.randn(shape, generator=g, dtype=torch.float64) for shape in shapes)


def data(lengths: Tensor, seed: int = 0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(seed)
    size = int(span_lengths(lengths).sum())
    spans = torch.stack([torch.randint(k, (size,), generator=g) for k in (Y, X)], 1)
    return torch.randint(K, (int(lengths.sum()),), generator=g), spans


@ORDERS
def test_all_weights_one_counts_trees(order: str) -> None:
    lengths = torch.arange(9)
    none = torch.zeros(int(lengths.sum()), dtype=torch.long)
    spans = torch.zeros(int(span_lengths(lengths).sum()), 2, dtype=torch.long)
    even = [torch.zeros(shape, dtype=torch.float64) for shape in ((1,), (1, 2, 1), (1, 2, 2, 2), (2, 1), (2, 1))]
    trees = HeadedBracketing(*even, spans, lengths, order=order)
    close(trees.log_prob(none).exp(), torch.tensor([1.0, 1, 2, 7, 30, 143, 728, 3876, 21318]), 1e-12)


@ORDERS
def test_without_span_weights_it_is_a_dependency(order: str) -> None:
    lengths = torch.tensor([1, 6, 0, 9])
    tags, spans = data(lengths)
    root, attach, stop, yields, contexts = tables()
    arcs = torch.randn(int(arc_lengths(lengths).sum()), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    one = HeadedBracketing(root, attach, stop, yields * 0, contexts * 0, spans, lengths, order=order)
    one, other = one.with_potentials(arcs=arcs), Dependency(root, attach, stop, lengths).with_potentials(arcs=arcs)
    close(one.log_prob(tags), other.log_prob(tags), 1e-12)
    p, q = one.posterior(tags), other.posterior(tags)
    close(p.marginals, q.marginals, 1e-10, 1e-12)
    close(p.entropy, q.entropy, 1e-9)
    for name, counts in q.counts.items():
        close(p.counts[name], counts, 1e-10, 1e-12)
    assert torch.equal(p.mode(), q.mode())
    assert torch.equal(p.mbr(), q.mbr())
    for name, w in other.references()["harmonic"].items():
        assert torch.equal(one.references()["harmonic"][name], w)


@ORDERS
def test_without_arc_weights_a_bracketing_weighs_by_its_number_of_headed_trees(order: str) -> None:
    n = 6
    lengths = torch.tensor([n])
    tags, spans = data(lengths)
    root, attach, stop, yields, contexts = tables()
    one = HeadedBracketing(root * 0, attach * 0, stop * 0, yields, contexts, spans, lengths, order=order)
    other = Bracketing(yields, contexts, lengths)
    times = Counter(spans_in(heads, order) for heads in all_trees(n))
    assert sum(times.values()) == 728
    assert len(times) == 42  # every binary tree over six words
    trees = [frozenset(tree) for tree in all_bracketings(0, n)]
    rows = torch.tensor([[int(span in tree) for span in all_spans(n)] for tree in trees])
    scores = torch.cat([other.score(spans, row) for row in rows]) + torch.tensor([times[t] for t in trees]).log()
    total = scores.logsumexp(0)
    close(one.log_prob(tags)[0], total, 1e-12)
    close(one.posterior(tags).expected["constituents"], (scores - total).exp() @ rows.double(), 1e-12)


@ORDERS
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_every_tree_goes_with_one_headed_binary_tree_and_back(order: str, n: int) -> None:
    def head_of(
        tree: frozenset[tuple[int, int]], left: dict[tuple[int, int], bool], i: int, j: int, heads: list[int]
    ) -> int:
        """The head of a span (from 1), if ``left`` says of each span whether its left part has the head."""
        if j - i == 1:
            return j
        k = next(k for k in range(i + 1, j) if {(i, k), (k, j)} <= tree)
        a, b = head_of(tree, left, i, k, heads), head_of(tree, left, k, j, heads)
        head, child = (a, b) if left[i, j] else (b, a)
        heads[child - 1] = head
        return head

    found: Counter[Heads] = Counter()
    for tree in map(frozenset, all_bracketings(0, n)):
        inner = sorted(span for span in tree if span[1] - span[0] > 1)
        for choice in range(2 ** len(inner)):
            left = {span: bool(choice >> b & 1) for b, span in enumerate(inner)}
            heads = [0] * n
            head_of(tree, left, 0, n, heads)
            # Those in which no head has gone on to its other side too early.
            if spans_in(tuple(heads), order) == tree:
                found[tuple(heads)] += 1
    assert sorted(found) == sorted(all_trees(n))
    assert set(found.values()) == {1}


@ORDERS
def test_brackets_of_heads(order: str) -> None:
    for n in range(1, 6):
        trees = all_trees(n)
        lengths = torch.full((len(trees),), n)
        found = brackets_of(torch.tensor(trees).flatten(), lengths, order)
        check_trees(found, lengths)
        rows: list[set[tuple[int, int]]] = [set() for _ in trees]
        for b, i, j in constituents(found, lengths).tolist():
            rows[b].add((i, j))
        assert rows == [spans_in(heads, order) for heads in trees]
    some = brackets_of(torch.tensor([-1, -1, 0, 1]), torch.tensor([2, 0, 2]), order)
    assert some.tolist() == [-1, -1, -1, 1, 1, 1]


@ORDERS
@pytest.mark.parametrize("spread", [1.0, 200.0])
def test_longer_sentences_against_enumeration(order: str, spread: float) -> None:
    lengths = torch.tensor([5, 6])
    tags, spans = data(lengths, 3)
    weights = tables(spread, 4)
    weights[3][0, 2] = weights[4][1, 0] = weights[2][0, 0, 0, 1] = -math.inf
    dist = HeadedBracketing(*weights, spans, lengths, node=torch.linspace(-1, 1, 7).double(), order=order)
    instance = instance_of(dist, tags)
    StructureContract()._check_sums(instance)
    with switched_off():
        StructureContract()._check_sums(instance)
    posterior = dist.posterior(tags)
    inside = torch.cat([
        torch.tensor(item.probabilities())
        @ torch.tensor([[float(s in spans_in(h, order)) for s in all_spans(len(h))] for h in item.structures])
        for item in instance.items
    ])  # fmt: skip
    close(posterior.expected["constituents"], inside, 1e-9, 1e-9)


def test_forty_words_and_both_kernels_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths = torch.tensor([40, 3, 25])
    tags, spans = data(lengths)
    dist = HeadedBracketing(*tables(2.0), spans, lengths)
    scaled = dist.posterior(tags)
    # Weights that scaled arithmetic cannot hold, but of no effect: each word has one arc above it.
    arcs = torch.full((int(arc_lengths(lengths).sum()),), -1.0e5, dtype=torch.float64)
    shifted = dist.with_potentials(arcs=arcs).posterior(tags)
    close(shifted.log_partition + 1e5 * lengths, scaled.log_partition, 1e-9)
    assert scaled.expected.keys() == {"arcs", "decisions", "constituents", "distituents", "trees"}
    monkeypatch.setattr(kernel, "LIMIT", dict.fromkeys(kernel.LIMIT, 1e-300))  # logs throughout
    logs = dist.posterior(tags)
    close(logs.log_partition, scaled.log_partition, 1e-9)
    for group, found in logs.expected.items():
        close(found, scaled.expected[group], 1e-9, 1e-9)
    for name, counts in logs.counts.items():
        close(counts, scaled.counts[name], 1e-9, 1e-9)
    close(scaled.marginals[: 40 * 41].reshape(40, 41).sum(1), torch.ones(40), 1e-9)
    close(scaled.expected["constituents"][: 40 * 41 // 2].sum(), 79, 1e-9)
    close(defined(dist, tags), scaled.log_partition, 1e-10)


def test_a_batch_of_weights() -> None:
    lengths = torch.tensor([3, 5])
    tags, spans = data(lengths)
    one, other = tables(seed=1), tables(seed=2)
    pairs = [torch.stack([a, b]) for a, b in zip(one, other, strict=True)]
    each = HeadedBracketing(*pairs, spans, lengths).log_prob(tags)
    close(each[0], HeadedBracketing(*one, spans, lengths).log_prob(tags)[0], 1e-12)
    close(each[1], HeadedBracketing(*other, spans, lengths).log_prob(tags)[1], 1e-12)
    many = [x.unsqueeze(1) for x in pairs]
    wide = HeadedBracketing(*many, spans, lengths, order="left").log_prob(tags)
    assert wide.shape == (2, 2)
    close(wide[1], HeadedBracketing(*other, spans, lengths, order="left").log_prob(tags), 1e-12)
    mixed = HeadedBracketing(*one[:3], many[3], *one[4:], spans, lengths).log_prob(tags)
    close(mixed[1], HeadedBracketing(*one[:3], other[3], *one[4:], spans, lengths).log_prob(tags), 1e-12)


@ORDERS
def test_an_impossible_sentence(order: str) -> None:
    lengths = torch.tensor([2, 3])
    tags, spans = torch.tensor([0, 0, 1, 1, 1]), data(lengths)[1]
    weights = [w.clone().requires_grad_() for w in tables()]
    with torch.no_grad():
        weights[0][0] = weights[1][..., 0] = -math.inf  # the first tag is nobody's child
    dist = HeadedBracketing(*weights, spans, lengths, order=order)
    total = dist.log_prob(tags)
    assert total[0] == -math.inf
    assert torch.isfinite(total[1])
    for grad in torch.autograd.grad(total[1], weights):
        assert torch.isfinite(grad).all()
    posterior = dist.posterior(tags)
    for found in (posterior.mode(), posterior.mbr(), posterior.sample()):
        assert found[:2].tolist() == [-1, -1]
        assert (found[2:] >= 0).all()
    assert (posterior.marginals[:6] == 0).all()
    assert (posterior.expected["constituents"][:3] == 0).all()
    assert posterior.counts["root"].sum() == pytest.approx(1)


def test_no_sentences() -> None:
    lengths = torch.tensor([0, 0])
    none, spans = torch.zeros(0, dtype=torch.long), torch.zeros(0, 2, dtype=torch.long)
    dist = HeadedBracketing(*tables(), spans, lengths)
    assert dist.log_prob(none).tolist() == [0, 0]
    assert len(dist.posterior(none).mode()) == len(dist.posterior(none).expected["constituents"]) == 0


def test_errors_say_what_was_expected() -> None:
    lengths = torch.tensor([2, 1])
    tags, spans = data(lengths)
    weights = tables()
    dist = HeadedBracketing(*weights, spans, lengths)
    with pytest.raises(StructureError, match="order should be 'right' or 'left', the side of the first children"):
        HeadedBracketing(*weights, spans, lengths, order="both")
    with pytest.raises(StructureError, match=r"a yield and a context for every span, shape \(4, 2\), actual \(3, 2\)"):
        HeadedBracketing(*weights, spans[1:], lengths)
    with pytest.raises(StructureError, match=r"yields must lie in 0 \.\. 0"):
        dist.with_weights({"yields": torch.zeros(2, 1, dtype=torch.float64)}).log_prob(tags)
    with pytest.raises(StructureError, match=r"one floating dtype: root has torch\.float64, yields has torch\.float32"):
        dist.with_weights({"yields": weights[3].float(), "contexts": weights[4].float()}).log_prob(tags)
    with pytest.raises(StructureError, match=r"tags of shape \(3,\), all examples end to end; actual shape \(2,\)"):
        dist.log_prob(tags[1:])
    with pytest.raises(StructureError, match="sentence 0 has no projective tree with one root"):
        dist.score(tags, torch.tensor([0, 0, 0]))
    with pytest.raises(StructureError, match="a headed bracketing cannot draw sentences"):
        dist.sample()
