"""Hidden against enumeration: a distribution over structures, under any structured distribution."""

from __future__ import annotations

import math
from itertools import product

import pyro
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyro import poutine
from scipy import stats
from torch import Tensor

from pyro_unsup.distributions import Chain, Hidden
from pyro_unsup.testing import Case, Instance
from pyro_unsup.testing.contract import thorough

from .cases import on_every_structure


def structure_of(instance: Instance, chosen: tuple[int, ...]) -> Tensor:
    """The structure of the whole batch in which each item has the one of this number."""
    one = instance.dist.posterior(instance.value).sample()
    for item, piece, k in zip(instance.items, instance.pieces, chosen, strict=True):
        one[piece] = torch.tensor(item.structures[k], dtype=one.dtype).reshape(one[piece].shape)
    return one


def possible(instance: Instance) -> bool:
    ways = math.prod(len(item.structures) for item in instance.items)
    return ways <= 300 and all(item.log_z > -math.inf for item in instance.items)


@on_every_structure
@thorough(15)
@given(data=st.data())
def test_probabilities_are_those_of_enumeration_and_sum_to_one(case: Case, data: st.DataObject) -> None:
    instance = data.draw(case.instances.filter(possible))
    hidden, total = Hidden(instance.dist, instance.value), 0.0
    each = [item.probabilities() for item in instance.items]
    for chosen in product(*(range(len(p)) for p in each)):
        expected = math.prod(p[k] for p, k in zip(each, chosen, strict=True))
        found = float(hidden.log_prob(structure_of(instance, chosen)).exp())
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
        total += found
    assert total == pytest.approx(1, abs=1e-9)


def chain() -> tuple[Chain, Tensor]:
    torch.manual_seed(1)
    weights = torch.randn(2), torch.randn(2, 2), torch.randn(2, 3)
    return Chain(*weights, torch.tensor([1, 2]), flat=True), torch.tensor([0, 1, 2])


def test_draws_are_as_frequent_as_their_probabilities() -> None:
    hidden = Hidden(*chain())
    paths = torch.tensor(list(product(range(2), repeat=3)))
    p = hidden.log_prob(paths).exp()
    assert p.shape == (8,)
    assert float(p.sum()) == pytest.approx(1)
    draws = hidden.sample((4000,))
    assert draws.shape == (4000, 3)
    seen = (draws.unsqueeze(1) == paths).all(-1).sum(0)
    assert stats.chisquare(seen.numpy(), (4000 * p).numpy()).pvalue > 1e-3


def test_it_is_a_site_like_any_other() -> None:
    hidden = Hidden(*chain())

    def model() -> Tensor:
        with pyro.plate("draws", 5):
            drawn: Tensor = pyro.sample("path", hidden)
        return drawn

    trace = poutine.trace(model).get_trace()
    trace.compute_log_prob()
    node = trace.nodes["path"]
    assert isinstance(node["fn"], Hidden)
    assert node["value"].shape == (5, 3)
    assert node["fn"].event_shape == (3,)
    torch.testing.assert_close(node["log_prob"], hidden.log_prob(node["value"]))
    assert torch.equal(poutine.replay(model, trace=trace)(), node["value"])
    pyro.set_rng_seed(4)
    first = hidden.sample()
    pyro.set_rng_seed(4)
    assert hidden.event_shape == (3,)  # to ask costs no random numbers
    assert torch.equal(hidden.sample(), first)
    assert first.shape == (3,)
    assert hidden.expand([2]).log_prob(first).shape == (2,)


def test_impossible_data_have_no_structure() -> None:
    dist, words = chain()
    barred = dist.with_weights({"emission": torch.full((2, 3), -torch.inf)})
    assert float(Hidden(barred, words).log_prob(torch.zeros(3, dtype=torch.long))) == -math.inf
