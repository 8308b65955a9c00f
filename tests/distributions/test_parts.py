"""Parts, and potentials that are added to them: what the contract suite does not ask of every structure."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress

import pytest
import torch
from hypothesis import find, given, settings
from hypothesis import strategies as st
from torch import Tensor

from pyro_unsup import Chain, StructureError, kernels
from pyro_unsup.distributions import Dependency, Mixture, Structure
from pyro_unsup.distributions.parts import Arcs, Labels
from pyro_unsup.distributions.ragged import pad
from pyro_unsup.testing import Case, Instance
from pyro_unsup.testing.contract import close, gradients, leaves, mild, thorough

from .cases import on_every_structure
from .dependency_case import all_trees


def some_potentials(instance: Instance, seed: int, forbidden: float, soft: bool = True) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    shape = instance.dist.posterior(instance.value).marginals.shape
    more = torch.randn(shape, generator=g, dtype=torch.float64) * soft
    return more.masked_fill(torch.rand(shape, generator=g) < forbidden, -torch.inf)


def weighed(dist: Structure, more: Tensor) -> Structure:
    return dist.with_potentials(**{dist.part: more})


@on_every_structure
@thorough(25)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1), forbidden=st.sampled_from([0.1, 0.3, 0.6, 1.0]))
def test_a_mask_filters_structures(case: Case, data: st.DataObject, seed: int, forbidden: float) -> None:
    """What is forbidden never lets log Z rise, and what is left are the structures without it."""
    plain = data.draw(case.instances)
    allowed = some_potentials(plain, seed, forbidden) > -torch.inf
    under = weighed(plain.dist, allowed)
    masked, posterior = under.log_prob(plain.value), under.posterior(plain.value)
    mode, draw = posterior.mode(), posterior.sample()
    for b, (item, piece, cells) in enumerate(zip(plain.items, plain.pieces, plain.cells, strict=True)):
        may = allowed[cells].numpy()  # many small look-ups, which are slow in torch
        kept = {
            structure: score
            for structure, score, parts in zip(item.structures, item.scores, item.parts, strict=True)
            if all(may[part] for part in parts)
        }
        close(masked[b], torch.tensor([*kept.values(), -math.inf]).logsumexp(0), 1e-10, 1e-12)
        if masked[b] == -math.inf:
            assert (mode[piece] == -1).all()
            assert (draw[piece] == -1).all()
        else:
            close(kept[tuple(mode[piece].flatten().tolist())], max(kept.values()), 1e-10, 1e-10)
            assert kept[tuple(draw[piece].flatten().tolist())] > -math.inf
    before = plain.dist.log_prob(plain.value)
    assert bool((masked <= before + 1e-12 * before.abs().nan_to_num(posinf=0.0)).all())


@on_every_structure
@thorough(15)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1))
def test_potentials_of_zero_change_nothing_and_potentials_add_up(case: Case, data: st.DataObject, seed: int) -> None:
    plain = data.draw(case.instances if case.extreme is None else case.instances | case.extreme)
    dist, value = plain.dist, plain.value
    for none in (torch.zeros(()), torch.zeros(1), torch.ones(1, dtype=torch.bool)):
        close(weighed(dist, none).log_prob(value), dist.log_prob(value), 1e-12, 1e-12)
        posterior = weighed(dist, none).posterior(value)
        close(posterior.marginals, dist.posterior(value).marginals, 1e-9, 1e-9)
        close(posterior.entropy, dist.posterior(value).entropy, 1e-7, 1e-7)
        for name, counts in dist.posterior(value).counts.items():
            close(posterior.counts[name], counts, 1e-9, 1e-9)
    one, other = some_potentials(plain, seed, 0.1), some_potentials(plain, seed + 1, 0.0)
    twice = weighed(weighed(dist, one), other)
    close(twice.log_prob(value), weighed(dist, one + other).log_prob(value), 1e-10, 1e-10)
    cooler = weighed(dist.with_temperature(2.0), (one + other) / 2)
    close(twice.with_temperature(2.0).log_prob(value), cooler.log_prob(value), 1e-10, 1e-10)


@on_every_structure
@thorough(10)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1))
def test_an_infinite_temperature_counts_what_is_possible(case: Case, data: st.DataObject, seed: int) -> None:
    plain = data.draw(case.instances)
    more = some_potentials(plain, seed, 0.2)
    total = weighed(plain.dist, more).with_temperature(math.inf).log_prob(plain.value)
    for b, (item, cells) in enumerate(zip(plain.items, plain.cells, strict=True)):
        left = [
            score > -math.inf and all(float(more[cells][part]) > -math.inf for part in parts)
            for score, parts in zip(item.scores, item.parts, strict=True)
        ]
        assert float(total[b].exp()) == pytest.approx(sum(left), abs=1e-9)


@on_every_structure
@thorough(4)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1))
def test_gradients_go_to_tables_and_potentials(case: Case, data: st.DataObject, seed: int) -> None:
    """To any order; also where nothing is left, without NaN."""
    plain = data.draw(case.instances.filter(mild))
    names, value = list(plain.dist.weights), plain.value

    def log_z(more: Tensor, *weights: Tensor) -> Tensor:
        dist = plain.dist.with_weights(dict(zip(names, weights, strict=True)))
        return weighed(dist, more).log_prob(value)

    weights = list(leaves(plain.dist).values())
    more = some_potentials(plain, seed, 0.0).requires_grad_()
    assert torch.autograd.gradcheck(log_z, [more, *weights], eps=1e-6, atol=1e-5, fast_mode=True)
    assert torch.autograd.gradgradcheck(log_z, [more, *weights], eps=1e-6, atol=1e-4, fast_mode=True)
    masked = some_potentials(plain, seed, 0.5).requires_grad_()
    total = log_z(masked, *weights)
    found = torch.autograd.grad(
        total[total > -torch.inf].sum(), [masked, *weights], allow_unused=True, materialize_grads=True
    )
    assert not any(bool(x.isnan().any()) for x in found)


@on_every_structure
@thorough(8)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1))
def test_one_potential_for_all_parts_has_their_whole_gradient(case: Case, data: st.DataObject, seed: int) -> None:
    plain = data.draw(case.instances)
    shared = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    dist = weighed(plain.dist, shared)
    total = dist.log_prob(plain.value)
    alive = total > -torch.inf
    (grad,) = gradients(total[alive].sum(), {"shared": shared})
    close(grad, dist.posterior(plain.value).marginals.sum(), 1e-9, 1e-9)


@on_every_structure
@thorough(8)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1))
def test_the_kernel_does_the_work(case: Case, data: st.DataObject, seed: int) -> None:
    plain = data.draw(case.instances)
    if plain.dist.kernel is None:
        pytest.skip("no kernel")
    more = some_potentials(plain, seed, 0.2, soft=seed % 2 == 0)
    with pytest.MonkeyPatch.context() as patch:
        if not isinstance(plain.dist, Mixture):  # for which added potentials are a sum of a few numbers
            patch.setattr(type(plain.dist), "total", _never)
        weights = leaves(plain.dist)
        total = weighed(plain.dist.with_weights(weights), more).log_prob(plain.value)
        gradients(total.sum(), weights)
        posterior = weighed(plain.dist, more).posterior(plain.value)
        assert posterior.mode().shape == posterior.sample().shape
        assert posterior.marginals.shape == more.shape
        plain.dist.log_prob(plain.value)


def _never(*args: object) -> Tensor:
    raise AssertionError("the kernel was passed by")


@on_every_structure
@thorough(8)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1))
def test_float32_plates_and_types(case: Case, data: st.DataObject, seed: int) -> None:
    plain = data.draw(case.instances)
    more = some_potentials(plain, seed, 0.2)
    expected = weighed(plain.dist, more).log_prob(plain.value)
    weights = {name: w.float() for name, w in plain.dist.weights.items()}
    for single in (weighed(plain.dist.with_weights(weights), more), weighed(plain.dist, more).with_weights(weights)):
        assert single.log_prob(plain.value).dtype == torch.float32
        close(single.log_prob(plain.value), expected, 2e-5, 2e-5)
    wide = weighed(plain.dist, more).expand((2, *plain.dist.batch_shape))
    assert isinstance(wide, Structure)
    close(wide.log_prob(plain.value), expected.expand(wide.batch_shape), 1e-12)


@on_every_structure
@thorough(8)
@given(data=st.data())
def test_parts_know_their_examples(case: Case, data: st.DataObject) -> None:
    plain = data.draw(case.instances)
    if type(plain.dist).parts is Structure.parts:
        pytest.skip("it does not describe its parts")
    parts = plain.dist.parts(plain.value)
    assert parts.shape == plain.dist.posterior(plain.value).marginals.shape
    assert parts.examples == len(plain.items)
    example = parts.example.expand(parts.shape)
    for b, cells in enumerate(plain.cells):
        assert (example[cells] == b).all()


@on_every_structure
@thorough(1)
@given(data=st.data())
def test_potentials_that_are_none(case: Case, data: st.DataObject) -> None:
    plain = data.draw(case.instances)
    dist, value, part = plain.dist, plain.value, plain.dist.part
    shape = dist.posterior(value).marginals.shape
    for wrong in (torch.zeros(*shape, 3), torch.zeros(shape[0] + 2, *shape[1:]), torch.zeros(2, *shape)):
        misfit = f"there are {part} of shape .*, which do not fit potentials of"
        with pytest.raises(StructureError, match=misfit):
            weighed(dist, wrong).log_prob(value)
        with pytest.raises(StructureError, match=misfit):
            _ = weighed(dist, wrong).posterior(value).marginals
    for bad in (torch.inf, torch.nan):
        with pytest.raises(StructureError, match="hold NaN or \\+inf"):
            weighed(dist, torch.full(shape, bad))
    with pytest.raises(StructureError, match="expected a tensor of truth values or log-potentials"):
        weighed(dist, [True])  # type: ignore[arg-type]
    with pytest.raises(StructureError, match=f"{type(dist).__name__} has no parts 'leaves': it has \\[.*'{part}'"):
        dist.with_potentials(leaves=torch.zeros(())).log_prob(value)
    with pytest.raises(StructureError, match=f"{type(dist).__name__} has no weights 'leaves': it has \\["):
        dist.with_weights({"leaves": torch.zeros(3)})


def test_a_structure_that_does_not_describe_its_parts() -> None:
    class Bare(Mixture):
        parts = Structure.parts  # type: ignore[assignment]

    dist = Bare(torch.zeros(2), torch.zeros(2, 3), torch.tensor([1]))
    with pytest.raises(StructureError, match="Bare does not describe its parts, so they cannot be constrained"):
        dist.parts(torch.tensor([[0, 1]]))


@on_every_structure
@thorough(10)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1), own=st.booleans())
def test_batches_of_weights(case: Case, data: st.DataObject, seed: int, own: bool) -> None:
    """Two sets of weights at a time, for all examples or for each its own; under potentials for all sets, or each."""
    plain = data.draw(case.instances)
    dist, value = plain.dist.laid_flat(plain.value)
    more = [some_potentials(plain, seed + k, 0.2, soft=seed % 2 == 0) for k in range(2)]
    examples = len(plain.items) if own else 1
    sets = [{name: w + k for name, w in dist.weights.items()} for k in range(2)]
    batch = {
        name: torch.stack([one[name] for one in sets]).unsqueeze(1).expand(2, examples, *w.shape)
        for name, w in dist.weights.items()
    }
    try:
        wide = dist.with_weights(batch)
    except StructureError:
        if own:  # some weights are by example already
            return
        raise
    for together, each in ((more[0], [more[0], more[0]]), (torch.stack(more), more)):
        total, posterior = weighed(wide, together).log_prob(value), weighed(wide, together).posterior(value)
        for k, one in enumerate(sets):
            alone = weighed(dist.with_weights(one), each[k])
            close(total[k], alone.log_prob(value), 1e-9, 1e-9)
            close(posterior.marginals[k], alone.posterior(value).marginals, 1e-9, 1e-9)
            close(posterior.entropy[k], alone.posterior(value).entropy, 1e-7, 1e-7)


@on_every_structure
@thorough(10)
@given(data=st.data(), seed=st.integers(0, 2**31 - 1))
def test_some_examples_in_any_order(case: Case, data: st.DataObject, seed: int) -> None:
    plain = data.draw(case.instances)
    dist, value = plain.dist.laid_flat(plain.value)
    order = data.draw(st.permutations(range(len(plain.items))))
    examples = torch.tensor(order[: data.draw(st.integers(1, len(order)))])
    examples = torch.cat([examples, examples[:1]])  # one of them twice
    more = some_potentials(plain, seed, 0.2)
    wholes = [dist, weighed(dist, more), weighed(dist, torch.tensor(0.5))]
    with suppress(StructureError):  # some weights are by example already
        wholes.append(_one_set_each(dist, len(order)))
    for whole in wholes:
        some, theirs = whole.select(value, examples)
        assert some.event_shape == theirs.shape
        close(some.log_prob(theirs), whole.log_prob(value)[examples], 1e-10, 1e-10)
        p, q = some.posterior(theirs), whole.posterior(value)
        close(p.marginals, torch.cat([q.marginals[plain.cells[b]] for b in examples.tolist()]), 1e-9, 1e-9)
        close(p.entropy, q.entropy[examples], 1e-7, 1e-7)


def _one_set_each(dist: Structure, examples: int) -> Structure:
    return dist.with_weights(
        {name: w + torch.arange(float(examples)).reshape(-1, *(1,) * w.dim()) for name, w in dist.weights.items()}
    )


@on_every_structure
def test_draws_of_any_shape(case: Case) -> None:
    plain = find(case.instances, lambda _: True, settings=settings(database=None, max_examples=1))
    posterior = plain.dist.posterior(plain.value)
    one = posterior.sample()
    assert posterior.sample((2, 3)).shape == (2, 3, *one.shape)
    assert posterior.sample(torch.Size([0])).shape == (0, *one.shape)
    same = [posterior.sample((2, 3), generator=torch.Generator().manual_seed(1)) for _ in range(2)]
    assert torch.equal(*same)


@pytest.mark.parametrize("second", [False, True])
def test_padded_chains(second: bool) -> None:
    K, lengths = 3, torch.tensor([2, 4, 1])
    tables = torch.randn(K), torch.randn(*[K] * (2 + second)), torch.randn(K, 5)
    into = torch.randn(K, K) if second else None
    words = torch.randint(5, (7,))
    more = torch.randn(7, K).masked_fill(torch.rand(7, K) < 0.2, -torch.inf)
    flat = Chain(*tables, lengths, into, flat=True)
    padded = Chain(*tables, lengths, into)
    value = pad(words, lengths, time=5)
    wider = pad(more, lengths, fill=-torch.inf, time=5)  # what is no part does not count
    parts = padded.parts(value)
    assert parts.shape == (3, 5, K)
    assert parts.position.squeeze(-1).tolist() == [[0, 1, -1, -1, -1], [0, 1, 2, 3, -1], [0, -1, -1, -1, -1]]
    assert torch.equal(parts.word[parts.example >= 0], flat.parts(words).word.squeeze(-1))
    one, other = flat.with_potentials(states=more), padded.with_potentials(states=wider)
    close(other.log_prob(value), one.log_prob(words), 1e-12)
    p, q = one.posterior(words), other.posterior(value)
    close(q.marginals, pad(p.marginals, lengths, time=5), 1e-12)
    close(q.entropy, p.entropy, 1e-9, 1e-9)
    assert torch.equal(q.mode(), pad(p.mode(), lengths, fill=-1, time=5))
    assert torch.equal(q.mbr(), pad(p.mbr(), lengths, fill=-1, time=5))
    assert q.sample((2, 3)).shape == (2, 3, 3, 5)
    for name, counts in p.counts.items():
        close(q.counts[name], counts, 1e-12, 1e-12)
    some, theirs = other.select(value, torch.tensor([2, 0]))
    close(some.log_prob(theirs), other.log_prob(value)[[2, 0]], 1e-12)
    with pytest.raises(StructureError, match=r"there are states of shape \(3, 5, 3\), which do not fit potentials of"):
        padded.with_potentials(states=wider[:, 1:]).log_prob(value)


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("potentials", [False, True])
@pytest.mark.parametrize("batch", [(2, 1), (2, 3), (3,)])
def test_padded_chains_with_batches_of_weights(second: bool, potentials: bool, batch: tuple[int, ...]) -> None:
    """Draws of weights, one set for each sequence of each draw, and one set for each sequence."""
    K, lengths = 3, torch.tensor([2, 4, 0])
    tables = torch.randn(*batch, K), torch.randn(*batch, *[K] * (2 + second)), torch.randn(*batch, K, 5)
    into = torch.randn(*batch, K, K) if second else None
    words = torch.randint(5, (6,))
    value, more = pad(words, lengths, time=5), torch.randn(6, K)
    flat, padded = Chain(*tables, lengths, into, flat=True), Chain(*tables, lengths, into)
    if potentials:
        flat = flat.with_potentials(states=more)
        padded = padded.with_potentials(states=pad(more, lengths, time=5))
    total = padded.log_prob(value)
    assert total.shape == torch.broadcast_shapes(batch, (3,))
    close(total, flat.log_prob(words), 1e-12)
    p, q = flat.posterior(words), padded.posterior(value)
    close(q.entropy, p.entropy, 1e-9, 1e-9)
    assert q.marginals.shape == (*total.shape, 5, K)
    assert q.mode().shape == q.mbr().shape == (*total.shape, 5)
    assert q.sample((4,)).shape == (4, *total.shape, 5)
    real = torch.arange(5) < lengths.unsqueeze(-1)
    close(q.marginals[..., real, :], p.marginals, 1e-12)
    assert torch.equal(q.mode()[..., real], p.mode())
    assert bool((q.mode()[..., ~real] == -1).all())
    for name, counts in p.counts.items():
        assert q.counts[name].shape == padded.weights[name].shape
        close(q.counts[name], counts, 1e-10, 1e-12)


def test_divergence_of_trees_from_hotter_ones() -> None:
    """Against all trees, with potentials on either side."""
    torch.manual_seed(0)
    trees = Dependency(torch.randn(2), torch.randn(2, 2, 2), torch.randn(2, 2, 2, 2), torch.tensor([3, 1, 4]))
    value, arcs = torch.randint(2, (8,)), torch.randn(12 + 2 + 20)
    one, other = trees.with_potentials(arcs=arcs), trees.with_temperature(4.0).with_potentials(arcs=-arcs)
    p, q = one.posterior(value), other.posterior(value)
    found = p.kl(q)
    heads = [torch.tensor([*a, 0, *b]) for a, b in itertools.product(all_trees(3), all_trees(4))]
    log_p, log_q = (
        torch.stack([d.score(value, h) for h in heads]) - d.log_prob(value) for d in (one, other)
    )  # (pairs of trees, 3)
    for b, others in ((0, len(all_trees(4))), (2, len(all_trees(3)))):  # every tree of one sentence is there so often
        expected = (log_p[:, b].exp() * (log_p[:, b] - log_q[:, b])).sum() / others
        close(found[b], expected, 1e-10)
    close(found[1], 0.0, 0, 1e-12)
    with kernels.switched_off():
        close(one.posterior(value).kl(other.posterior(value)), found, 1e-9, 1e-12)
    barred = trees.with_potentials(arcs=torch.arange(34) != 0)  # the first word cannot be the root
    assert barred.posterior(value).kl(trees.posterior(value))[0] > 0
    assert trees.posterior(value).kl(barred.posterior(value))[0] == torch.inf
    with pytest.raises(StructureError, match="kl needs two posteriors of one kind of structure"):
        p.kl(Chain(torch.zeros(2), torch.zeros(2, 2), torch.zeros(2, 2), torch.tensor([8]), flat=True).posterior(value))


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
    with pytest.raises(StructureError, match=r"none of .*'VRB'.* is known as a tag: there are .*'DET', 'VERB', 'NOUN'"):
        arcs.has("tags", {"VRB"})
    with pytest.raises(StructureError, match="'head' has no labels: expected one of tags, tag_of_child, tag_of_head"):
        arcs.has("head", {1})


def test_agreement_counts_links_as_often_as_both_expect_them() -> None:
    from pyro_unsup.distributions import Agreement, Alignment, AlignmentHMM, HMMAgreement
    from pyro_unsup.distributions.alignment.grid import Grid

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
        dist = kind(*both, 4).with_potentials(links=factors)
        assert not dist.exact
        assert dist.parts(value).shape == (grid.cells, 2)
        alone = [one.with_potentials(links=factors[:, way]) for way, one in enumerate(both)]
        close(dist.log_prob(value), sum(one.log_prob(value) for one in alone), 1e-12)
        p, q = (one.posterior(value).marginals for one in alone)
        posterior = dist.posterior(value)
        close(posterior.marginals, torch.stack([p, q], -1), 1e-12, 1e-12)
        assert posterior.forward.mode().shape == (grid.cells,)
        for way, mine in enumerate((p, q)):
            expected = torch.zeros(6).index_add(0, value.long(), torch.where(links, p * q, mine))
            close(posterior.counts[f"{('forward', 'backward')[way]}.translation"], expected, 1e-9, 1e-12)
