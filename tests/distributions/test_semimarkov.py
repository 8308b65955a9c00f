"""The semi-Markov chain: what the contract suite does not know."""

from __future__ import annotations

import pytest
import torch

from pyro_unsup import Chain, StructureError
from pyro_unsup.distributions import SemiMarkov


def test_geometric_durations_are_a_chain() -> None:
    """To stay is to last: a power of the weight of staying, and transitions to other states alone."""
    torch.manual_seed(0)
    K, V, lengths = 3, 4, torch.tensor([7, 1, 0, 5])
    start, transition, emission = torch.randn(K), torch.randn(K, K), torch.randn(K, V)
    words = torch.randint(V, (13,))
    chain = Chain(start, transition, emission, lengths, flat=True)
    duration = transition.diagonal().unsqueeze(-1) * torch.arange(7)
    others = transition.masked_fill(torch.eye(K, dtype=torch.bool), -torch.inf)
    stretches = SemiMarkov(start, others, duration, emission, lengths)
    torch.testing.assert_close(stretches.log_prob(words), chain.log_prob(words), rtol=1e-10, atol=1e-10)
    one, other = stretches.posterior(words), chain.posterior(words)
    torch.testing.assert_close(one.entropy, other.entropy, rtol=1e-8, atol=1e-8)
    assert torch.equal(one.mode()[:, 0], other.mode())
    torch.testing.assert_close(one.counts["emission"], other.counts["emission"], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "structure",
    [[[0, 1], [1, 0]], [[0, 0], [1, 1]], [[2, 1], [0, 1]], [[0, 0], [0, 0]]],
    ids=["does not end", "changes inside", "no such state", "never ends"],
)
def test_what_is_no_structure_is_refused(structure: list[list[int]]) -> None:
    dist = SemiMarkov(torch.zeros(2), torch.zeros(2, 2), torch.zeros(2, 1), torch.zeros(2, 3), torch.tensor([2]))
    with pytest.raises(StructureError, match=r"states must lie in 0 \.\. 1|expected stretches of one state"):
        dist.score(torch.tensor([0, 1]), torch.tensor(structure))
