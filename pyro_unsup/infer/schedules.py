"""Schedules of annealing: which betas, in which order. A schedule is a list of numbers; these functions make some."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..errors import FitError

#: A schedule of more betas than this is a mistake.
MOST = 100_000


def geometric(start: float = 1e-4, factor: float = 1.2, end: float = 1.0) -> list[float]:
    """Each beta a multiple of the one before, the last exactly ``end``.

    The defaults are those of Smith & Eisner (2004) for tagging; for grammar they took 0.01 and 1.5.

    :param start: the first beta.
    :param factor: what each is multiplied by.
    :param end: the last beta.

    >>> import pyro_unsup as pu
    >>> [round(beta, 3) for beta in pu.geometric(0.01, 1.5)]
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
    >>> pu.linear(0.25, 4)
    [0.25, 0.5, 0.75, 1.0]
    """
    _positive(start=start, end=end)
    if steps < 2:
        raise FitError(f"a linear schedule has two betas or more, actual {steps}")
    return [start + (end - start) * i / (steps - 1) for i in range(steps - 1)] + [float(end)]


def quench(end: float = 4.0, factor: float = 1.5) -> list[float]:
    """Betas above 1, to go on with after a schedule: posteriors get ever more certain, as in Viterbi EM.

    >>> import pyro_unsup as pu
    >>> pu.geometric(0.5, 2) + pu.quench(4, 2)
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
