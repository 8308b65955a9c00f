"""Schedules end where they should, and say so where they could not."""

from __future__ import annotations

import pytest

import pyro_unsup as pu
from pyro_unsup.infer.schedules import check_schedule


def test_the_published_schedules_with_their_end() -> None:
    tagging, grammar = pu.schedules.geometric(1e-4, 1.2), pu.schedules.geometric(0.01, 1.5)
    assert (len(tagging), len(grammar)) == (52, 13)
    assert tagging[-1] == grammar[-1] == 1.0
    assert tagging[-2] == pytest.approx(0.9100, abs=1e-4)
    assert grammar[-2] == pytest.approx(0.8650, abs=1e-4)
    assert pu.schedules.geometric(1.0, 2.0) == [1.0]


def test_linear_and_quench() -> None:
    assert pu.schedules.linear(0.2, 5) == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert pu.schedules.quench(2.0, 1.5) == [1.5, 2.0]
    assert check_schedule(pu.schedules.geometric(0.5, 2) + pu.schedules.quench(3, 2)) == [0.5, 1.0, 2.0, 3.0]
    assert check_schedule(range(1, 3)) == [1.0, 2.0]


@pytest.mark.parametrize(("start", "factor"), [(0.1, 1.0), (0.1, 0.5), (2.0, 1.5), (0.1, float("inf"))])
def test_a_geometric_schedule_that_never_ends(start: float, factor: float) -> None:
    with pytest.raises(pu.FitError, match=r"never gets from .* to 1 by a factor of"):
        pu.schedules.geometric(start, factor)


@pytest.mark.parametrize("beta", [0.0, -0.1, float("nan"), float("inf")])
def test_betas_that_are_none(beta: float) -> None:
    for call in (
        lambda: pu.schedules.geometric(beta),
        lambda: pu.schedules.linear(beta, 3),
        lambda: check_schedule([beta, 1.0]),
    ):
        with pytest.raises(pu.FitError, match="beta must be positive and finite"):
            call()


def test_schedules_that_do_not_get_there() -> None:
    with pytest.raises(pu.FitError, match=r"never reaches 1, where likelihood is maximised: it ends at 0.9"):
        pu.Anneal(pu.models.Tagger(2, 2), schedule=[0.5, 0.9])
    with pytest.raises(pu.FitError, match="schedule is empty"):
        check_schedule([])
    with pytest.raises(pu.FitError, match="two betas or more"):
        pu.schedules.linear(0.1, 1)


def test_a_factor_that_would_take_for_ever() -> None:
    with pytest.raises(pu.FitError, match=r"takes more than 100,000 betas from 0.01 to 1"):
        pu.schedules.geometric(0.01, 1.0000000000000002)
