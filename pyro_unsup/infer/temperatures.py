"""Temperatures of a sampler: a number, or a function of the sweep and of how many there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ..errors import FitError
from .gibbs_checks import is_positive

#: Temperature of a sweep, counted from 0, given how many there are.
Temperature: TypeAlias = float | Callable[[int, int], float]


@dataclass(frozen=True)
class Cooling:
    """From one temperature to another, by the same factor every sweep.

    Goldwater & Griffiths (2007) cool from 2 to 0.08.

    >>> import pyro_unsup as pu
    >>> [round(pu.Cooling()(sweep, 5), 3) for sweep in range(5)]
    [2.0, 0.894, 0.4, 0.179, 0.08]
    """

    start: float = 2.0
    end: float = 0.08

    def __post_init__(self) -> None:
        check_temperature(self.start)
        check_temperature(self.end)

    def __call__(self, sweep: int, sweeps: int) -> float:
        done = min(sweep / (sweeps - 1), 1.0) if sweeps > 1 else 1.0
        return float(self.start ** (1 - done) * self.end**done)


def check_temperature(value: float) -> float:
    """The temperature, if it is one."""
    if not is_positive(value):
        raise FitError(
            f"a temperature must be positive and finite, actual {value!s:.80}; to get near a mode, cool to 0.08"
        )
    return float(value)


def at_sweep(given: Temperature, sweep: int, sweeps: int) -> float:
    """The temperature of one sweep."""
    return check_temperature(given(sweep, sweeps) if callable(given) else given)
