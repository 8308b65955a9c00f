"""Stationary distributions against powers of the transition matrix."""

from __future__ import annotations

import pytest
import torch

import pyro_unsup as pu
from pyro_unsup.errors import StructureError


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (3, 5, 5)])
def test_it_is_where_a_long_walk_ends(shape: tuple[int, ...]) -> None:
    rows = torch.randn(shape)
    far = torch.linalg.matrix_power(rows.softmax(-1), 2000)
    torch.testing.assert_close(pu.stationary(rows).exp(), far[..., 0, :], rtol=1e-9, atol=1e-12)


def test_its_gradient() -> None:
    assert torch.autograd.gradcheck(pu.stationary, (torch.randn(3, 3, requires_grad=True),))


def test_states_that_are_left_for_good_have_no_share() -> None:
    found = pu.stationary(torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.3, 0.7], [0.0, 0.6, 0.4]]).log()).exp()
    torch.testing.assert_close(found, torch.tensor([0.0, 6 / 13, 7 / 13]), rtol=1e-9, atol=1e-12)


def test_chains_that_fall_apart_are_refused() -> None:
    with pytest.raises(StructureError, match=r"no single stationary distribution.*groups of states"):
        pu.stationary(torch.eye(2).log())
