"""How training ended, in words."""

from __future__ import annotations

import math

import pytest

from pyro_unsup import Report


def report(**changes: object) -> Report:
    values = {
        "reason": "converged",
        "iterations": 12,
        "objective": -1234.5678901,
        "change": 3.21e-7,
        "tolerance": 1e-6,
        "seconds": 4.26,
        "seed": 5,
    }
    return Report(**{**values, **changes})  # type: ignore[arg-type]


def test_one_run_in_words() -> None:
    assert str(report()) == (
        "converged after 12 iterations, 4.3 s\nobjective -1234.567890, last relative change 3.21e-07 (tolerance 1e-06)"
    )


def test_restarts_and_unvisited_rows_in_words() -> None:
    found = str(report(restarts=[-3.0, -1.0, -2.0], unvisited={"transition": 7, "emission": 1}))
    assert found.splitlines()[2:] == [
        "best of 3 restarts (seed 5): lowest -3.000000, mean -2.000000, highest -1.000000, standard deviation 1.000000",
        "table 'transition': 7 rows were never used by the data, and keep their start (harmless)",
        "table 'emission': 1 row was never used by the data, and keeps its start (harmless)",
    ]


@pytest.mark.parametrize("reason", ["converged", "iteration cap", "stopped by a callback", "checkpoint"])
def test_converged_means_just_that(reason: str) -> None:
    assert report(reason=reason).converged == (reason == "converged")
    assert str(report(reason=reason)).startswith(f"{reason} after 12 iterations")


def test_the_spread_of_one_run_is_its_objective() -> None:
    assert report().spread == (-1234.5678901,) * 3
    assert report(restarts=[-4.0, -2.0]).spread == (-4.0, -3.0, -2.0)


def test_a_start_that_the_prior_forbids_can_still_be_told() -> None:
    """Restarts of no iterations may have an objective of -inf, and a run of one row an infinite change."""
    found = report(restarts=[-math.inf, -2.0], objective=-2.0, change=math.inf)
    assert found.spread == (-math.inf, -math.inf, -2.0)
    assert "lowest -inf, mean -inf, highest -2.000000, standard deviation inf" in str(found)
    assert "last relative change inf" in str(found)
