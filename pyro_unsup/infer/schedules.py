"""Schedules: the betas of annealing, the temperatures of a sampler, and how far a mixture may leave its constraints."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..errors import FitError
from ..estimate.settings import is_number
from .gibbs_checks import is_positive
from .polytope import Polytope

__all__ = ["Cooling", "Loosen", "fixed", "geometric", "linear", "quench"]

# -- betas of annealing: a list of numbers, which these functions make

#: A schedule of more betas than this is a mistake.
MOST = 100_000


def geometric(start: float = 1e-4, factor: float = 1.2, end: float = 1.0) -> list[float]:
    """Each beta a multiple of the one before, the last exactly ``end``.

    The defaults are those of Smith & Eisner (2004) for tagging; for grammar they took 0.01 and 1.5.

    :param start: the first beta.
    :param factor: what each is multiplied by.
    :param end: the last beta.

    >>> import pyro_unsup as pu
    >>> [round(beta, 3) for beta in pu.schedules.geometric(0.01, 1.5)]
    [0.01, 0.015, 0.022, 0.034, 0.051, 0.076, 0.114, 0.171, 0.256, 0.384, 0.577, 0.865, 1.0]
    """
    _positive(start=start, end=end)
    if not (start < end and 1 < factor < math.inf) and start != end:
        raise FitError(
            f"a geometric schedule never gets from {start:g} to {end:g} by a factor of {factor:g}: expected "
            "start < end and a factor above 1"
        )
    if start < end and math.log(end / start) / math.log(factor) > MOST:
        raise FitError(f"a factor of {factor!r} takes more than {MOST:,} betas from {start:g} to {end:g}")
    betas = []
    beta = start
    while beta < end:
        betas.append(beta)
        beta *= factor
    return [*betas, float(end)]


def linear(start: float, steps: int, end: float = 1.0) -> list[float]:
    """So many betas from start to end, evenly spaced.

    :param start: the first beta.
    :param steps: how many there are, the first and the last included.
    :param end: the last beta.

    >>> import pyro_unsup as pu
    >>> pu.schedules.linear(0.25, 4)
    [0.25, 0.5, 0.75, 1.0]
    """
    _positive(start=start, end=end)
    if steps < 2:
        raise FitError(f"a linear schedule has two betas or more, actual {steps}")
    return [start + (end - start) * i / (steps - 1) for i in range(steps - 1)] + [float(end)]


def quench(end: float = 4.0, factor: float = 1.5) -> list[float]:
    """Betas above 1, to go on with after a schedule: posteriors get ever more certain, as in Viterbi EM.

    >>> import pyro_unsup as pu
    >>> pu.schedules.geometric(0.5, 2) + pu.schedules.quench(4, 2)
    [0.5, 1.0, 2.0, 4.0]
    """
    return geometric(1.0, factor, end)[1:]


def check_schedule(betas: Sequence[float]) -> list[float]:
    """The schedule as a list, if it is one that gets to where likelihood is maximised."""
    try:
        found = [float(beta) for beta in betas]
    except (TypeError, ValueError):
        raise FitError(f"a schedule is a list of betas, such as geometric() makes, actual {betas!r:.80}") from None
    if not found:
        raise FitError("the schedule is empty: expected betas, the last of them 1")
    for i, beta in enumerate(found):
        if not 0 < beta < math.inf:
            raise FitError(f"beta must be positive and finite, actual {beta} at place {i} of the schedule")
    if found[-1] < 1:
        raise FitError(
            f"the schedule never reaches 1, where likelihood is maximised: it ends at {found[-1]:g}. Add 1.0 at its end"
        )
    return found


def _positive(**betas: float) -> None:
    for name, beta in betas.items():
        if not 0 < beta < math.inf:
            raise FitError(f"beta must be positive and finite, actual {name} = {beta}")


# -- temperatures of a sampler

#: Temperature of a sweep, counted from 0, given how many there are.
Temperature: TypeAlias = float | Callable[[int, int], float]


@dataclass(frozen=True)
class Cooling:
    """From one temperature to another, by the same factor every sweep.

    Goldwater & Griffiths (2007) cool from 2 to 0.08.

    >>> import pyro_unsup as pu
    >>> [round(pu.schedules.Cooling()(sweep, 5), 3) for sweep in range(5)]
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


# -- coefficients of a mixture of constrained posteriors


@dataclass(frozen=True)
class Loosen:
    """Simplex annealing [1]: the coefficient of the unconstrained component is at most ``start`` in the first
    iteration, ``step`` more in each that follows, and ``end`` at last.

    :param even: let all other components have the same coefficient, so that none of them is left out.
    :param exactly: let the unconstrained component have that coefficient, and not less.

    >>> import pyro_unsup as pu
    >>> how = pu.schedules.Loosen(0.85, 0.95, 0.01)
    >>> [how(iteration, 2).upper[0][1] for iteration in (0, 1, 10, 19)]
    [0.85, 0.86, 0.95, 0.95]

    **References:** [1] S. B. Cohen and N. A. Smith (2010) "Variational inference for grammar induction with prior
    knowledge".
    """

    start: float = 0.85
    end: float = 0.95
    step: float = 0.01
    even: bool = False
    exactly: bool = False

    def __post_init__(self) -> None:
        for name in ("start", "end", "step"):
            if not is_number(getattr(self, name)):
                raise FitError(f"Loosen: {name} is a number, actual {getattr(self, name)!r:.80}")
        if not 0 <= self.start <= self.end <= 1:
            raise FitError(f"the free share lies in 0 <= start <= end <= 1, actual {self.start} and {self.end}")
        if self.start < self.end and not self.step > 0:
            raise FitError(f"with a step of {self.step} the free share never gets from {self.start} to {self.end}")

    def __call__(self, iteration: int, size: int) -> Polytope:
        free = self.end if self.start == self.end else min(self.end, round(self.start + self.step * iteration, 12))
        first = tuple(float(i == 0) for i in range(size))
        alike = [tuple(float((i == k) - (i == k + 1)) for i in range(size)) for k in range(1, size - 1)]
        others = [(row, 0.0) for row in alike] if self.even else []
        if self.exactly:
            return Polytope(size, equal=[(first, free), *others])
        return Polytope(size, [(first, free)], others)


def fixed(free: float, even: bool = False) -> Loosen:
    """The unconstrained component has this share, in all iterations.

    >>> import pyro_unsup as pu
    >>> pu.schedules.fixed(0.9)
    Loosen(start=0.9, end=0.9, step=0.01, even=False, exactly=True)
    >>> pu.schedules.fixed(0.9)(7, 3).equal
    (((1.0, 0.0, 0.0), 0.9),)
    """
    return Loosen(free, free, even=even, exactly=True)
