"""The labelled grammar: what the contract suite does not know."""

from __future__ import annotations

import itertools
from math import comb

import pytest
import torch
from torch import Tensor

from pyro_unsup import StructureError, kernels
from pyro_unsup.distributions import PCFG
from pyro_unsup.distributions.bracketing_priors import split_marginals
from pyro_unsup.distributions.grammar import Grammar
from pyro_unsup.kernels import pcfg as kernel
from pyro_unsup.kernels import threads


def random(
    N: int, P: int, V: int, lengths: list[int], seed: int = 0, spread: float = 1.0, zeros: float = 0.0
) -> tuple[PCFG, Tensor]:
    """A grammar whose rows sum to one, and words."""
    g = torch.Generator().manual_seed(seed)

    def table(*shape: int) -> Tensor:
        logs = spread * torch.randn(shape, generator=g)
        return logs.masked_fill(torch.rand(shape, generator=g) < zeros, -torch.inf).log_softmax(-1)

    rules = table(N, (N + P) ** 2).unflatten(-1, (N + P, N + P))
    return PCFG(table(N), rules, table(P, V), torch.tensor(lengths)), torch.randint(V, (sum(lengths),), generator=g)


def counted(dist: Grammar, words: Tensor, scale: Tensor | None = None) -> tuple[Tensor, dict[str, Tensor]]:
    """log Z and its gradient in the weights."""
    leaves = {name: w.clone().requires_grad_() for name, w in dist.weights.items()}
    total = dist.with_weights(leaves).log_prob(words)
    weighed = total if scale is None else total * scale
    grads = torch.autograd.grad(weighed[total > -torch.inf].sum(), list(leaves.values()))
    return total.detach(), dict(zip(leaves, grads, strict=True))


@pytest.mark.parametrize(("N", "P"), [(1, 1), (2, 3), (3, 1)])
def test_all_weights_one_count_trees(N: int, P: int) -> None:
    n = torch.arange(2, 9)
    dist = PCFG(torch.zeros(N), torch.zeros(N, N + P, N + P), torch.zeros(P, 2), n)
    catalan = [comb(2 * (k - 1), k - 1) // k for k in n.tolist()]
    expected = torch.tensor([c * N ** (k - 1) * P**k for k, c in zip(n.tolist(), catalan, strict=True)])
    torch.testing.assert_close(dist.log_prob(torch.zeros(int(n.sum()), dtype=torch.long)), expected.double().log())


def test_one_word_has_no_tree_and_none_has_probability_one() -> None:
    dist = PCFG(torch.zeros(2), torch.zeros(2, 3, 3), torch.zeros(1, 4), torch.tensor([1, 0, 2]))
    assert dist.log_prob(torch.tensor([3, 0, 1])).tolist() == [-torch.inf, 0.0, pytest.approx(torch.tensor(2.0).log())]
    assert dist.posterior(torch.tensor([3, 0, 1])).mode().tolist()[0] == -1


def test_labels_that_do_not_exist_are_refused() -> None:
    dist = PCFG(torch.zeros(1), torch.zeros(1, 2, 2), torch.zeros(1, 4), torch.tensor([2]))
    with pytest.raises(StructureError, match=r"labels must lie in 0 \.\. 1, or be -1, actual largest = 2"):
        dist.score(torch.tensor([3, 0]), torch.tensor([1, 1, 2]))
    with pytest.raises(StructureError, match=r"rules should end in shape \(N, N\+P, N\+P\), where N = 1, P = 1"):
        PCFG(torch.zeros(1), torch.zeros(1, 3, 3), torch.zeros(1, 4), torch.tensor([2]))


def test_inside_probabilities_are_those_of_nltk() -> None:
    """Every labelled tree of a sentence, found and weighed by a chart parser that knows nothing of ours."""
    nltk = pytest.importorskip("nltk")
    dist, words = random(2, 2, 3, [3, 4, 2], seed=1, zeros=0.3)
    names = [nltk.Nonterminal(one) for one in ("A", "B", "X", "Y")]
    start = nltk.Nonterminal("S")
    root, rules, emission = (dist.weights[name].exp() for name in ("root", "rules", "emission"))
    for n, sentence in zip(dist.lengths.tolist(), words.split(dist.lengths.tolist()), strict=True):
        made = [nltk.ProbabilisticProduction(start, [names[a]], prob=float(root[a])) for a in range(2) if root[a] > 0]
        made += [
            nltk.ProbabilisticProduction(names[a], [names[b], names[c]], prob=float(rules[a, b, c]))
            for a, b, c in itertools.product(range(2), range(4), range(4))
            if rules[a, b, c] > 0
        ]
        made += [
            nltk.ProbabilisticProduction(names[2 + p], [str(v)], prob=float(emission[p, v]))
            for p, v in itertools.product(range(2), range(3))
            if emission[p, v] > 0
        ]
        parser = nltk.parse.pchart.InsideChartParser(nltk.PCFG(start, made))
        total = sum(tree.prob() for tree in parser.parse([str(v) for v in sentence.tolist()]))
        one = PCFG(dist.weights["root"], dist.weights["rules"], dist.weights["emission"], torch.tensor([n]))
        assert float(one.log_prob(sentence).exp()) == pytest.approx(total, rel=1e-10)


#: Words of sentences, and how much each counts, for :func:`check_kernel`.
LARGER = {12: 1.0, 0: 2.0, 5: -0.5, 1: 1.0, 2: 3.0, 9: 0.0, 3: 1.5, 4: 1.0}


def check_kernel(dist: Grammar, words: Tensor) -> None:
    """Kernel and definition, where all sentences count alike and where they do not."""
    for weigh in (None, torch.tensor(list(LARGER.values()))):
        found, counts = counted(dist, words, weigh)
        with kernels.switched_off():
            expected, also = counted(dist, words, weigh)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        for name in counts:
            torch.testing.assert_close(counts[name], also[name], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("N", "P"), [(1, 7), (6, 1), (7, 9)])
def test_kernel_and_definition_agree_on_larger_grammars(N: int, P: int) -> None:
    check_kernel(*random(N, P, 11, list(LARGER), seed=N))


def check_threads(dist: Grammar, words: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread and three."""
    found, counts = counted(dist, words)
    monkeypatch.setattr(threads, "TOKENS_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    again, others = counted(dist, words)
    assert torch.equal(found, again)
    for name in counts:
        torch.testing.assert_close(counts[name], others[name], rtol=1e-12, atol=1e-14)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    check_threads(*random(3, 4, 9, [7, 3, 8, 2, 6, 5, 9, 4] * 4), monkeypatch)


@pytest.mark.parametrize("spread", [0.1, 2.0])
def test_long_sentences_stay_with_scaled_sums(spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs take many times as long: grammars that sum to one should not need them."""

    def never(*_: object) -> None:
        raise AssertionError("done in logs")

    dist, words = random(5, 10, 200, [60], spread=spread)
    with kernels.switched_off():
        expected = dist.log_prob(words)
    monkeypatch.setattr(kernel, "log_pass", never)
    torch.testing.assert_close(dist.log_prob(words), expected, rtol=1e-12, atol=1e-9)


def test_words_are_drawn_as_often_as_they_are_probable() -> None:
    torch.manual_seed(0)
    dist, _ = random(2, 2, 3, [3], seed=2, spread=1.5)
    drawn = dist.sample((20_000,))
    assert drawn.shape == (20_000, 3)
    all_words = torch.tensor(list(itertools.product(range(3), repeat=3)))
    wide = PCFG(dist.weights["root"], dist.weights["rules"], dist.weights["emission"], torch.full((27,), 3))
    expected = wide.log_prob(all_words.reshape(-1)).softmax(-1)
    often = torch.bincount(drawn @ torch.tensor([9, 3, 1]), minlength=27) / len(drawn)
    assert float((often - expected).abs().max()) < 4 * 0.5 / len(drawn) ** 0.5


def test_what_cannot_be_drawn() -> None:
    dist, _ = random(2, 2, 3, [2, 1])
    with pytest.raises(
        StructureError, match=r"allow no sentence of some of these lengths: \[1, 2\]. A sentence has two"
    ):
        dist.sample()
    with pytest.raises(StructureError, match="the added potentials belong to given sentences"):
        dist.with_potentials(labels=torch.zeros(4, 4)).sample()


def test_each_set_of_weights_draws_its_own_words() -> None:
    dist, _ = random(2, 2, 4, [2, 3])
    sure = torch.tensor([[0.0, -torch.inf, -torch.inf, -torch.inf]]).expand(2, 4)
    emission = torch.stack([sure, sure.flip(-1)]).unsqueeze(1)  # (draws, 1, P, V)
    drawn = PCFG(dist.weights["root"], dist.weights["rules"], emission, dist.lengths).sample((5,))
    assert drawn.shape == (5, 2, 5)
    assert drawn[:, 0].unique().tolist() == [0]
    assert drawn[:, 1].unique().tolist() == [3]


def test_random_splits_as_a_reference() -> None:
    lengths = torch.tensor([5, 2, 7])
    dist = PCFG(torch.zeros(2), torch.zeros(2, 5, 5), torch.zeros(3, 1), lengths)
    dist = dist.with_potentials(**dist.references()["split"])
    found = dist.posterior(torch.zeros(14, dtype=torch.long)).marginals.sum(-1)
    # All labelled trees of a shape are as many, so that only the splits weigh.
    torch.testing.assert_close(found, split_marginals(lengths), rtol=1e-10, atol=1e-10)
