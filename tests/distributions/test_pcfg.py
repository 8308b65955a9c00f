"""The labelled grammar: what the contract suite does not know."""

from __future__ import annotations

from math import comb

import pytest
import torch

from pyro_unsup import StructureError
from pyro_unsup.distributions import PCFG


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
