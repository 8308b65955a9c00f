"""Parts, and distributions that weigh them: one suite that every structure must pass."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pyro_unsup import Chain, StructureError
from pyro_unsup.distributions import (
    Agreement,
    Alignment,
    AlignmentHMM,
    Bracketing,
    Dependency,
    HMMAgreement,
    Mixture,
    Segmentation,
    Structure,
    alignment_sum,
    bracketing_sum,
    chain_sum,
    dependency_sum,
    headed_bracketing_sum,
    mixture_sum,
    segmentation_sum,
)
from pyro_unsup.distributions import alignment_hmm_sum as hmm_sum
from pyro_unsup.distributions.alignment_grid import Grid
from pyro_unsup.distributions.parts import Arcs, Labels
from pyro_unsup.distributions.ragged import pad

from .contract import Case, Enumerated, Instance
from .test_contract import CASES, close, expected_counts, on_every_structure, thorough

SUMS = {
    "chain": chain_sum,
    "bracketing": bracketing_sum,
    "mixture": mixture_sum,
    "segmentation": segmentation_sum,
    "alignment": alignment_sum,
    "alignment by jumps": hmm_sum,
    "dependency": dependency_sum,
    "headed_bracketing": headed_bracketing_sum,
}


def weigh(item: Enumerated, factors: Tensor) -> Enumerated:
    """The structures of one item, each times the factors of its parts, found by plain loops."""
    more = [sum(float(factors[part]) for part in parts) for parts in item.parts]
    return replace(item, scores=[score + extra for score, extra in zip(item.scores, more, strict=True)])


def some_factors(instance: Instance, seed: int, forbidden: float, soft: bool = True) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    shape = instance.dist.parts(instance.value).shape
    factors = torch.randn(shape, generator=g) * soft
    return factors.masked_fill(torch.rand(shape, generator=g) < forbidden, -torch.inf)


def with_factors(instance: Instance, factors: Tensor) -> Instance:
    items = [weigh(item, factors[cells]) for item, cells in zip(instance.items, instance.cells, strict=True)]
    dist = instance.dist.weighed(instance.value, factors)
    return Instance(dist, instance.value, items, instance.pieces, instance.cells)


@on_every_structure
@thorough(25)
@given(
    data=st.data(),
    seed=st.integers(0, 2**31 - 1),
    forbidden=st.sampled_from([0.0, 0.1, 0.2, 0.6, 1.0]),
    soft=st.booleans(),
)
def test_sums_are_those_over_weighed_structures(
    case: Case, data: st.DataObject, seed: int, forbidden: float, soft: bool
) -> None:
    """Sums, counts, marginals, entropy, the best structure and the weight of any, against enumeration."""
    plain = data.draw(case.instances)
    weighed = with_factors(plain, some_factors(plain, seed, forbidden, soft))
    log_z = torch.tensor([item.log_z for item in weighed.items])
    close(weighed.dist.log_prob(weighed.value), log_z, 1e-10, 1e-12)
    posterior = weighed.dist.posterior(weighed.value)
    close(posterior.log_partition, log_z, 1e-10, 1e-12)
    assert posterior.marginals.shape == plain.dist.parts(plain.value).shape
    for name in plain.dist.weights.keys() - {"arcs"}:
        close(posterior.counts[name], expected_counts(weighed, name), 1e-9, 1e-9)
    extra = (weighed.dist.weights.keys() - plain.dist.weights.keys()) | ({"arcs"} & weighed.dist.weights.keys())
    assert len(extra) == 1
    close(posterior.counts[extra.pop()], posterior.marginals, 1e-9, 1e-12)
    mode, entropy = posterior.mode(), posterior.entropy
    posterior.mbr()
    draw = posterior.sample()
    for b, (item, piece, cells) in enumerate(zip(weighed.items, weighed.pieces, weighed.cells, strict=True)):
        expected = torch.zeros_like(posterior.marginals[cells])
        for p, parts in zip(item.probabilities(), item.parts, strict=True):
            for part in parts:
                expected[part] += p
        close(posterior.marginals[cells], expected, 1e-9, 1e-9)
        if item.log_z == -math.inf:
            assert (mode[piece] == -1).all()
            continue
        close(entropy[b], item.entropy, 1e-7, 1e-7)
        scores = dict(zip(item.structures, item.scores, strict=True))
        close(scores[tuple(mode[piece].tolist())], max(item.scores), 1e-10, 1e-10)
        assert scores[tuple(draw[piece].tolist())] > -math.inf
    if bool((log_z > -torch.inf).all()):
        best = torch.tensor([max(item.scores) for item in weighed.items])
        close(weighed.dist.score(weighed.value, mode), best, 1e-10, 1e-10)


@on_every_structure
@thorough(25)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1), forbidden=st.sampled_from([0.1, 0.3, 0.6]))
def test_a_mask_filters_structures(case: Case, data: st.DataObject, seed: int, forbidden: float) -> None:
    """What is forbidden never lets log Z rise, and what is left are the structures without it."""
    plain = data.draw(case.instances)
    allowed = some_factors(plain, seed, forbidden) > -torch.inf
    masked = plain.dist.weighed(plain.value, allowed).log_prob(plain.value)
    for b, (item, cells) in enumerate(zip(plain.items, plain.cells, strict=True)):
        kept = [
            score
            for score, parts in zip(item.scores, item.parts, strict=True)
            if all(bool(allowed[cells][part]) for part in parts)
        ]
        close(masked[b], torch.tensor([*kept, -math.inf]).logsumexp(0), 1e-10, 1e-12)
    before = plain.dist.log_prob(plain.value)
    assert bool((masked <= before + 1e-12 * before.abs().nan_to_num(posinf=0.0)).all())


@on_every_structure
@thorough(15)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1))
def test_factors_of_zero_change_nothing_and_factors_add_up(case: Case, data: st.DataObject, seed: int) -> None:
    plain = data.draw(case.instances | case.extreme)
    dist, value = plain.dist, plain.value
    close(dist.weighed(value, torch.zeros(())).log_prob(value), dist.log_prob(value), 1e-12, 1e-12)
    close(dist.weighed(value, torch.ones(1, dtype=torch.bool)).log_prob(value), dist.log_prob(value), 1e-12, 1e-12)
    one, other = some_factors(plain, seed, 0.1), some_factors(plain, seed + 1, 0.0)
    twice = dist.weighed(value, one).weighed(value, other)
    close(twice.log_prob(value), dist.weighed(value, one + other).log_prob(value), 1e-10, 1e-10)
    close(twice.raised(0.5).log_prob(value), dist.raised(0.5).weighed(value, (one + other) / 2).log_prob(value), 1e-10)


@on_every_structure
@thorough(4)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1))
def test_gradients_go_to_tables_and_factors(case: Case, data: st.DataObject, seed: int) -> None:
    """To any order; also where nothing is left, without NaN."""
    plain = data.draw(case.instances.filter(lambda i: all(bool((w.abs() < 30).all()) for w in i.dist.weights.values())))
    names, value = [name for name in plain.dist.weights if name != "arcs"], plain.value

    def log_z(factors: Tensor, *weights: Tensor) -> Tensor:
        dist = plain.dist.with_weights(dict(zip(names, weights, strict=True)))
        return dist.weighed(value, factors).log_prob(value)

    weights = [plain.dist.weights[name].clone().requires_grad_() for name in names]
    factors = some_factors(plain, seed, 0.0).requires_grad_()
    assert torch.autograd.gradcheck(log_z, [factors, *weights], eps=1e-6, atol=1e-5, fast_mode=True)
    assert torch.autograd.gradgradcheck(log_z, [factors, *weights], eps=1e-6, atol=1e-4, fast_mode=True)
    masked = some_factors(plain, seed, 0.5).requires_grad_()
    total = log_z(masked, *weights)
    found = torch.autograd.grad(total[total > -torch.inf].sum(), [masked, *weights], materialize_grads=True)
    assert not any(bool(x.isnan().any()) for x in found)


@on_every_structure
@thorough(8)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1))
def test_the_kernel_does_the_work(case: Case, data: st.DataObject, seed: int) -> None:
    plain = data.draw(case.instances)
    factors = some_factors(plain, seed, 0.2, soft=seed % 2 == 0)
    with pytest.MonkeyPatch.context() as patch:
        if case.name not in ("alignment", "alignment by jumps"):  # whose kernels hand hard cases on to the definition
            patch.setattr(SUMS[case.name], "reference_log_partition", _never)
        weights = {name: w.clone().requires_grad_() for name, w in plain.dist.weights.items()}
        total = plain.dist.with_weights(weights).weighed(plain.value, factors).log_prob(plain.value)
        torch.autograd.grad(total.sum(), list(weights.values()), allow_unused=True)


def _never(*args: object) -> Tensor:
    raise AssertionError("the kernel was passed by")


@on_every_structure
@thorough(8)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1))
def test_float32_plates_and_types(case: Case, data: st.DataObject, seed: int) -> None:
    plain = data.draw(case.instances)
    factors = some_factors(plain, seed, 0.2)
    expected = plain.dist.weighed(plain.value, factors).log_prob(plain.value)
    single = plain.dist.with_weights({name: w.float() for name, w in plain.dist.weights.items()})
    weighed = single.weighed(plain.value, factors)
    assert weighed.log_prob(plain.value).dtype == torch.float32
    close(weighed.log_prob(plain.value), expected, 2e-5, 2e-5)
    wide = plain.dist.weighed(plain.value, factors).expand((2, *plain.dist.batch_shape))
    assert isinstance(wide, Structure)
    close(wide.log_prob(plain.value), expected.expand(wide.batch_shape), 1e-12)
    parts = wide.parts(plain.value)
    assert parts.examples == len(plain.items)
    example = parts.example.expand(parts.shape)
    for b, cells in enumerate(plain.cells):
        assert (example[cells] == b).all()


@on_every_structure
@thorough(1)
@given(data=st.data())
def test_factors_that_are_none(case: Case, data: st.DataObject) -> None:
    plain = data.draw(case.instances)
    shape = plain.dist.parts(plain.value).shape
    with pytest.raises(StructureError, match="there are parts of shape"):
        plain.dist.weighed(plain.value, torch.zeros(*shape, 3))
    with pytest.raises(StructureError, match="hold NaN or \\+inf"):
        plain.dist.weighed(plain.value, torch.full(shape, torch.inf))
    with pytest.raises(StructureError, match="hold NaN or \\+inf"):
        plain.dist.weighed(plain.value, torch.full(shape, torch.nan))
    with pytest.raises(StructureError, match="expected a tensor of truth values or log-weights"):
        plain.dist.weighed(plain.value, [True])  # type: ignore[arg-type]


def test_a_structure_that_does_not_say_what_it_is_made_of() -> None:
    class Bare(Mixture):
        parts = Structure.parts  # type: ignore[assignment]

    dist = Bare(torch.zeros(2), torch.zeros(2, 3), torch.tensor([1]))
    with pytest.raises(StructureError, match="Bare does not say what its structures are made of"):
        dist.weighed(torch.tensor([[0, 1]]), torch.zeros(1, 2))


@pytest.mark.parametrize("second", [False, True])
def test_padded_chains(second: bool) -> None:
    K, lengths = 3, torch.tensor([2, 4, 1])
    tables = torch.randn(K), torch.randn(*[K] * (2 + second)), torch.randn(K, 5)
    into = torch.randn(K, K) if second else None
    words = torch.randint(5, (7,))
    factors = torch.randn(7, K).masked_fill(torch.rand(7, K) < 0.2, -torch.inf)
    flat = Chain(*tables, lengths, into, flat=True)
    padded = Chain(*tables, lengths, into)
    value = pad(words, lengths, time=5)
    more = pad(factors, lengths, fill=-torch.inf, time=5)  # what is no part does not count
    parts = padded.parts(value)
    assert parts.shape == (3, 5, K)
    assert parts.position.squeeze(-1).tolist() == [[0, 1, -1, -1, -1], [0, 1, 2, 3, -1], [0, -1, -1, -1, -1]]
    assert torch.equal(parts.word[parts.example >= 0], flat.parts(words).word.squeeze(-1))
    one, other = flat.weighed(words, factors), padded.weighed(value, more)
    close(other.log_prob(value), one.log_prob(words), 1e-12)
    p, q = one.posterior(words), other.posterior(value)
    close(q.marginals, pad(p.marginals, lengths, time=5), 1e-12)
    assert torch.equal(q.mode(), pad(p.mode(), lengths, fill=-1, time=5))
    for name, counts in p.counts.items():
        if name != "factors":
            close(q.counts[name], counts, 1e-12, 1e-12)


@thorough(20)
@given(data=st.data(), case=st.sampled_from(CASES), seed=st.integers(0, 2**31 - 1), own=st.booleans())
def test_batches_of_weights(data: st.DataObject, case: Case, seed: int, own: bool) -> None:
    """Two sets of weights at a time, for all examples or for each its own."""
    plain = data.draw(case.instances)
    dist, value = plain.dist, plain.value
    factors = some_factors(plain, seed, 0.2, soft=seed % 2 == 0)
    own = own and isinstance(dist, Bracketing | Segmentation | Mixture | Dependency)
    examples = len(plain.items) if own else 1
    sets = [{name: w + k for name, w in dist.weights.items() if name != "arcs"} for k in range(2)]
    batch = {}
    for name in sets[0]:
        each = torch.stack([one[name] for one in sets])  # (2, *shape)
        if name in ("null", "word"):  # one weight a pair already
            batch[name] = each
        else:
            rest = each.shape[1:]
            batch[name] = each.unsqueeze(1).expand(2, examples, *rest)
    wide = dist.with_weights(batch).weighed(value, factors).log_prob(value)
    for k, one in enumerate(sets):
        close(wide[k], dist.with_weights(one).weighed(value, factors).log_prob(value), 1e-9, 1e-9)


def test_agreement_counts_links_as_often_as_both_expect_them() -> None:
    grid = Grid(torch.tensor([2, 3]), torch.tensor([3, 2]))
    row, column = grid.parts()
    links = (grid.place[row] > 0) & (column > 0)
    value = torch.where(links, torch.randint(4, links.shape), 4 + torch.randint(2, links.shape)).int()
    soft = torch.randn(grid.cells, 2).masked_fill(torch.rand(grid.cells, 2) < 0.1, -torch.inf)
    soft[~links] = 0.0
    jump = [torch.randn(3, 5) for _ in range(2)]
    tables = [torch.randn(6) for _ in range(2)]
    kinds = [
        (Agreement, [Alignment(t, grid, turned=way == 1) for way, t in enumerate(tables)]),
        (HMMAgreement, [AlignmentHMM(t, grid, jump[way], turned=way == 1) for way, t in enumerate(tables)]),
    ]
    hard = torch.where(soft == -torch.inf, soft, 0.0)
    for (kind, both), factors in itertools.product(kinds, (soft, hard)):
        dist = kind(*both, 4).weighed(value, factors)
        assert not dist.exact
        assert dist.parts(value).shape == (grid.cells, 2)
        alone = [one.weighed(value, factors[:, way]) for way, one in enumerate(both)]
        close(dist.log_prob(value), sum(one.log_prob(value) for one in alone), 1e-12)
        p, q = (one.posterior(value).marginals for one in alone)
        posterior = dist.posterior(value)
        close(posterior.marginals, torch.stack([p, q], -1), 1e-12, 1e-12)
        assert posterior.forward.mode().shape == (grid.cells,)
        for way, mine in enumerate((p, q)):
            expected = torch.zeros(6).index_add(0, value.long(), torch.where(links, p * q, mine))
            close(posterior.counts[f"{('forward', 'backward')[way]}.translation"], expected, 1e-9, 1e-12)


def test_what_parts_are_called() -> None:
    arcs = Arcs(torch.tensor([1, 0, 2]), torch.tensor([3]), labels={"child": Labels(["DET", "VERB", "NOUN"])})
    assert arcs.has("tags", {"VERB", "DET"}).tolist() == [True, True, False]
    assert arcs.has("tags", "NOUN").tolist() == [False, False, True]
    assert arcs.has("tags", lambda name: name.startswith("V")).tolist() == [True, False, False]
    assert arcs.has("tag_of_child", ["NOUN"]).tolist() == [False] * 8 + [True] * 4
    assert arcs.has("tag_of_head", [2]).nonzero()[:, 0].tolist() == [3, 7, 11]  # no labels: numbers
    few = Arcs(torch.tensor([1, 0]), torch.tensor([2]), labels={"child": Labels(["a", "b", "c"], torch.tensor([2, 0]))})
    assert few.has("tags", "c").tolist() == [False, True]
    assert few.has("tags", "no such").tolist() == [False, False]  # others of the corpus may have it
    with pytest.raises(
        StructureError, match=r"none of .*'VRB'.* is known as 'tags': there are .*'DET', 'VERB', 'NOUN'"
    ):
        arcs.has("tags", {"VRB"})
    with pytest.raises(StructureError, match="'head' has no labels: expected one of tags, tag_of_child, tag_of_head"):
        arcs.has("head", {1})
