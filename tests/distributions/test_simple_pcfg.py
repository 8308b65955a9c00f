"""The factored grammar: what the contract suite does not know."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from math import comb

import pytest
import torch
from torch import Tensor

from pyro_unsup import StructureError, kernels
from pyro_unsup.distributions import PCFG, SimplePCFG
from pyro_unsup.kernels import simple_pcfg as kernel

from .test_pcfg import LARGER, check_kernel, check_threads, counted


def random(
    N: int, P: int, V: int, lengths: list[int], seed: int = 0, spread: float = 1.0, zeros: float = 0.0
) -> tuple[SimplePCFG, Tensor]:
    """A grammar whose rows sum to one, and words."""
    g = torch.Generator().manual_seed(seed)

    def table(*shape: int) -> Tensor:
        logs = spread * torch.randn(shape, generator=g)
        return logs.masked_fill(torch.rand(shape, generator=g) < zeros, -torch.inf).log_softmax(-1)

    dist = SimplePCFG(table(N), table(N, N + P), table(N, N + P), table(P, V), torch.tensor(lengths))
    return dist, torch.randint(V, (sum(lengths),), generator=g)


def multiplied(dist: SimplePCFG) -> PCFG:
    """The same grammar with all rules written out."""
    w = dist.weights
    rules = w["left"].unsqueeze(-1) + w["right"].unsqueeze(-2)
    return PCFG(w["root"], rules, w["emission"], dist.lengths)


@pytest.mark.parametrize(("N", "P"), [(1, 1), (2, 3), (3, 1)])
def test_all_weights_one_count_trees(N: int, P: int) -> None:
    n = torch.arange(2, 9)
    sides = torch.zeros(N, N + P)
    dist = SimplePCFG(torch.zeros(N), sides, sides, torch.zeros(P, 2), n)
    catalan = [comb(2 * (k - 1), k - 1) // k for k in n.tolist()]
    expected = torch.tensor([c * N ** (k - 1) * P**k for k, c in zip(n.tolist(), catalan, strict=True)])
    torch.testing.assert_close(dist.log_prob(torch.zeros(int(n.sum()), dtype=torch.long)), expected.double().log())


@pytest.mark.parametrize("spread", [1.0, 30.0])
@pytest.mark.parametrize("on", [True, False])
def test_it_is_a_pcfg_whose_rules_are_products(on: bool, spread: float) -> None:
    dist, words = random(3, 4, 7, [6, 1, 2, 9, 0, 5], seed=1, spread=spread, zeros=0.1)
    full = multiplied(dist)
    expected = full.posterior(words)
    with nullcontext() if on else kernels.switched_off():
        torch.testing.assert_close(dist.log_prob(words), full.log_prob(words), rtol=1e-10, atol=1e-10)
        posterior = dist.posterior(words)
        torch.testing.assert_close(posterior.marginals, expected.marginals, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(posterior.entropy, expected.entropy, rtol=1e-8, atol=1e-8)
        assert torch.equal(posterior.mode(), expected.mode())
    counts, wide = dist.posterior(words).counts, full.posterior(words).counts
    torch.testing.assert_close(counts["left"], wide["rules"].sum(-1), rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(counts["right"], wide["rules"].sum(-2), rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(counts["emission"], wide["emission"], rtol=1e-9, atol=1e-10)


def test_one_word_has_no_tree_and_none_has_probability_one() -> None:
    sides = torch.zeros(2, 3)
    dist = SimplePCFG(torch.zeros(2), sides, sides, torch.zeros(1, 4), torch.tensor([1, 0, 2]))
    assert dist.log_prob(torch.tensor([3, 0, 1])).tolist() == [-torch.inf, 0.0, pytest.approx(torch.tensor(2.0).log())]
    assert dist.posterior(torch.tensor([3, 0, 1])).mode().tolist()[0] == -1


def test_sides_of_other_sizes_are_refused() -> None:
    with pytest.raises(StructureError, match=r"right should end in shape \(N, N\+P\), where N = 1, P = 1; actual"):
        SimplePCFG(torch.zeros(1), torch.zeros(1, 2), torch.zeros(1, 3), torch.zeros(1, 4), torch.tensor([2]))


@pytest.mark.parametrize(("N", "P"), [(1, 7), (6, 1), (7, 9)])
def test_kernel_and_definition_agree_on_larger_grammars(N: int, P: int) -> None:
    check_kernel(*random(N, P, 11, list(LARGER), seed=N))


def test_hundreds_of_nonterminals() -> None:
    """A sentence of 25 words under 256 + 512 labels: log Z against the definition, counts by what they sum to."""
    dist, words = random(256, 512, 40, [25], seed=3)
    found, counts = counted(dist, words)
    with kernels.switched_off():
        expected = dist.log_prob(words)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-10)
    for name, n in (("root", 1), ("left", 24), ("right", 24), ("emission", 25)):
        assert float(counts[name].sum()) == pytest.approx(n, rel=1e-10)
    posterior = dist.posterior(words)
    for tree in (posterior.mode(), posterior.mbr(), posterior.sample()):
        dist.check_structure(tree)
        assert int((tree >= 0).sum()) == 49


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    check_threads(*random(3, 4, 9, [7, 3, 8, 2, 6, 5, 9, 4] * 4), monkeypatch)


@pytest.mark.parametrize("shift", [0.0, 400.0])
def test_long_sentences_stay_with_scaled_sums(shift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs take many times as long: grammars that sum to one should not need them, however the sides are weighed."""

    def never(*_: object) -> None:
        raise AssertionError("done in logs")

    dist, words = random(5, 10, 200, [60], spread=2.0)
    uneven = shift * torch.arange(5.0).unsqueeze(-1)
    dist = dist.with_weights({"left": dist.weights["left"] + uneven, "right": dist.weights["right"] - uneven})
    with kernels.switched_off():
        expected = dist.log_prob(words)
    monkeypatch.setattr(kernel, "log_pass", never)
    torch.testing.assert_close(dist.log_prob(words), expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("own", [("left",), ("right", "emission"), ("root",), ("root", "left", "right", "emission")])
@pytest.mark.parametrize("kind", [PCFG, SimplePCFG])
def test_some_tables_differ_from_sentence_to_sentence(kind: type, own: tuple[str, ...]) -> None:
    """Kernel against definition, and against each sentence alone."""
    lengths = [5, 2, 0, 7]
    dist, words = random(3, 4, 6, lengths)
    if kind is PCFG:
        dist, own = multiplied(dist), tuple({"left": "rules", "right": "rules"}.get(name, name) for name in own)  # type: ignore[assignment]
    g = torch.Generator().manual_seed(5)
    each = {name: w + torch.randn(4, *w.shape, generator=g) for name, w in dist.weights.items() if name in own}
    wide, scale = dist.with_weights(each), torch.tensor([1.0, 2.0, 1.0, -0.5])
    for weigh in (None, scale):
        found, counts = counted(wide, words, weigh)
        with kernels.switched_off():
            expected, also = counted(wide, words, weigh)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        for name in counts:
            assert counts[name].shape == wide.weights[name].shape
            torch.testing.assert_close(counts[name], also[name], rtol=1e-10, atol=1e-12)
    posterior, at = wide.posterior(words), 0
    mode, mbr = posterior.mode(), posterior.mbr()
    with kernels.switched_off():
        plain = wide.posterior(words)
        torch.testing.assert_close(posterior.marginals, plain.marginals, rtol=1e-9, atol=1e-12)
    cells = dist.span_cells.owner
    for b, n in enumerate(lengths):
        alone = dist.with_weights({name: w[b] for name, w in each.items()})
        one, mine = alone.select(words, torch.tensor([b]))
        torch.testing.assert_close(found[b], one.log_prob(mine)[0], rtol=1e-12, atol=1e-12)
        assert torch.equal(mode[cells == b], one.posterior(mine).mode())
        assert torch.equal(mbr[cells == b], one.posterior(mine).mbr())
        at += n
    drawn = posterior.sample((3,))
    assert drawn.shape == (3, len(cells))
    wide.check_structure(drawn[0])


@pytest.mark.parametrize("kind", [PCFG, SimplePCFG])
def test_draws_of_weights_that_differ_from_sentence_to_sentence(kind: type) -> None:
    dist, words = random(2, 3, 4, [3, 5])
    if kind is PCFG:
        dist = multiplied(dist)  # type: ignore[assignment]
    g = torch.Generator().manual_seed(7)
    many = {name: w + torch.randn(3, 2, *w.shape, generator=g) for name, w in dist.weights.items()}
    wide = dist.with_weights(many)
    found, counts = counted(wide, words)
    assert found.shape == (3, 2)
    for k in range(3):
        one, own = counted(dist.with_weights({name: w[k] for name, w in many.items()}), words)
        torch.testing.assert_close(found[k], one, rtol=1e-12, atol=1e-12)
        for name in counts:
            torch.testing.assert_close(counts[name][k], own[name], rtol=1e-12, atol=1e-12)
    more = {"labels": torch.randn(len(wide.owner("labels")), 5, generator=g)}
    weighed = wide.with_potentials(**more)
    found, counts = counted(weighed, words)
    with kernels.switched_off():
        expected, also = counted(weighed, words)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    for name in counts:
        torch.testing.assert_close(counts[name], also[name], rtol=1e-10, atol=1e-12)


def test_words_are_drawn_as_often_as_they_are_probable() -> None:
    torch.manual_seed(0)
    dist, _ = random(2, 2, 3, [3], seed=2, spread=1.5)
    drawn = dist.sample((20_000,))
    assert drawn.shape == (20_000, 3)
    all_words = torch.tensor(list(itertools.product(range(3), repeat=3)))
    wide = SimplePCFG(**dist.weights, lengths=torch.full((27,), 3))
    expected = wide.log_prob(all_words.reshape(-1)).softmax(-1)
    often = torch.bincount(drawn @ torch.tensor([9, 3, 1]), minlength=27) / len(drawn)
    assert float((often - expected).abs().max()) < 4 * 0.5 / len(drawn) ** 0.5


def test_each_sentence_draws_from_its_own_weights() -> None:
    dist, _ = random(2, 2, 4, [2, 3])
    sure = torch.tensor([[0.0, -torch.inf, -torch.inf, -torch.inf]]).expand(2, 4)
    drawn = dist.with_weights({"emission": torch.stack([sure, sure.flip(-1)])}).sample((3,))
    assert drawn.tolist() == [[0, 0, 3, 3, 3]] * 3
