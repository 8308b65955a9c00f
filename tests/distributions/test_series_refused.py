"""What a chain of series refuses: each message says what was expected, what was found, and the fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyro.distributions as dist
import pytest
import torch

import pyro_unsup as pu

K, N = 3, 50
START, STEPS = torch.zeros(K).log_softmax(0), torch.zeros(K, K).log_softmax(1)
X = torch.randn(N, generator=torch.Generator().manual_seed(0)).double()


def chain(emission: Any, steps: torch.Tensor = STEPS, data: torch.Tensor = X, **options: Any) -> Callable[[], Any]:
    return lambda: pu.Chain(START, steps, emission, len(data), **options).log_prob(data)


def without_mass() -> torch.Tensor:
    found = STEPS.clone()
    found[1] = -torch.inf
    return found


NORMAL = dist.Normal(torch.zeros(K), 1.0)
HOLES = torch.randn(N, 2, generator=torch.Generator().manual_seed(0)).double()
HOLES[3, 0] = torch.nan


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            chain(dist.Normal(torch.zeros(2), 1.0)),
            r"must end in the 3 states; actual batch shape \(2,\), .* Parameters of shape \(\.\.\., 3\) give that",
        ),
        (chain(dist.Normal(0.0, 1.0)), r"must end in the 3 states; actual batch shape \(\)"),
        (
            chain(NORMAL, STEPS.expand(40, K, K), by_step=True),
            r"one table for each of 50 positions, actual 40 .*: are the covariates as long as the data\?",
        ),
        (
            chain(dist.Normal(torch.zeros(40, K), 1.0)),
            r"parameters for 40 steps, the data have 50 .*: are the covariates as long as the data\?",
        ),
        (
            chain(dist.LowRankMultivariateNormal(torch.zeros(K, 2), torch.ones(K, 2, 1), torch.ones(K, 2)), data=HOLES),
            r"a LowRankMultivariateNormal cannot leave out single coordinates\. Use independent coordinates",
        ),
        (
            chain(NORMAL, without_mass()),
            r"nothing can follow state 1: row 1 of transition is -inf everywhere\. .*let the state follow itself",
        ),
        (chain(NORMAL, without_mass().expand(N, K, K), by_step=True), r"nothing can follow state 1"),
    ],
)
def test_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(pu.StructureError, match=said):
        make()
