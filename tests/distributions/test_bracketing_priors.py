"""Uniform trees and random splits: closed forms against all trees, and against the bracketing's own posterior."""

from __future__ import annotations

import math

import pytest
import torch

from pyro_unsup.distributions import Bracketing
from pyro_unsup.distributions.bracketing_priors import (
    log_catalan,
    split_marginals,
    split_node,
    uniform_marginals,
    uniform_tree,
)

from .bracketing_case import all_spans, all_trees


@pytest.mark.parametrize("n", range(1, 8))
def test_marginals_are_those_of_all_trees(n: int) -> None:
    trees = all_trees(0, n)
    uniform = [sum(span in tree for tree in trees) / len(trees) for span in all_spans(n)]
    torch.testing.assert_close(uniform_marginals(torch.tensor([n])), torch.tensor(uniform), rtol=1e-13, atol=0)
    splits = [math.prod(1 / (j - i - 1) for i, j in tree if j - i > 1) for tree in trees]
    assert sum(splits) == pytest.approx(1)
    split = [sum(p for p, tree in zip(splits, trees, strict=True) if span in tree) for span in all_spans(n)]
    torch.testing.assert_close(
        split_marginals(torch.tensor([n])), torch.tensor(split, dtype=torch.float64), rtol=1e-13, atol=0
    )


def test_the_span_1_3_of_four_words() -> None:
    at = all_spans(4).index((1, 3))
    assert float(split_marginals(torch.tensor([4]))[at]) == pytest.approx(1 / 3)
    assert float(uniform_marginals(torch.tensor([4]))[at]) == pytest.approx(2 / 5)


def test_as_priors_of_a_bracketing_they_sum_to_one() -> None:
    lengths = torch.tensor([5, 1, 60, 2, 11])
    size = int((lengths * (lengths + 1) // 2).sum())
    value, flat = torch.zeros(size, 2, dtype=torch.long), torch.zeros(2, 1)
    for prior, marginals in (
        ({"tree": uniform_tree(60)}, uniform_marginals(lengths)),
        ({"node": split_node(60)}, split_marginals(lengths)),
    ):
        posterior = Bracketing(flat, flat, lengths, **prior).posterior(value)
        torch.testing.assert_close(posterior.log_partition, torch.zeros(5), rtol=0, atol=1e-12)
        torch.testing.assert_close(posterior.marginals, marginals, rtol=1e-11, atol=0)


def test_large_catalan_numbers() -> None:
    exact = [math.log(math.comb(2 * n, n) // (n + 1)) for n in (0, 50, 400)]
    torch.testing.assert_close(log_catalan(torch.tensor([0, 50, 400])), torch.tensor(exact), rtol=1e-13, atol=1e-13)
