"""L-BFGS, one accepted step at a time, so that a run can be looked at, saved and resumed between any two."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyro_unsup.array import Array
from pyro_unsup.kernels.threads import one_blas_thread

#: Wolfe's conditions: how much of the promised rise a step must bring, and how much of the slope it may leave.
RISE, SLOPE = 1e-4, 0.9
#: Evaluations in one line search, and how far an interval is extended.
TRIALS, EXTEND = 25, 4.0
#: A promised rise of this part of the value is lost in rounding.
ROUNDING = 1e-17


@dataclass(frozen=True, eq=False)
class Point:
    """A place, the value of the function there, and its gradient."""

    x: Array
    value: float
    gradient: Array


Evaluate = Callable[[Array], Point]


class LBFGS:
    """Climbs a smooth function by limited-memory quasi-Newton steps that meet the strong Wolfe conditions.

    :param history: (place moved, gradient lost) of the last steps, the newest last. They are never changed in place.
    :param size: how many of them are kept.
    :param scale: (n,) a guess of the inverse curvature by coordinate, to start with; by default all alike.

    >>> import numpy as np
    >>> from pyro_unsup.estimate.features.lbfgs import LBFGS, Point
    >>> def bowl(x):
    ...     return Point(x, -float(((x - 3) ** 2).sum()), -2 * (x - 3))
    >>> climber, here = LBFGS(), bowl(np.zeros(2))
    >>> while (there := climber.step(here, bowl)) is not None:
    ...     here = there
    >>> here.x
    array([3., 3.])

    **References:** [1] D. Liu and J. Nocedal (1989) "On the limited memory BFGS method for large scale optimization";
    [2] J. Nocedal and S. Wright (2006) "Numerical optimization", algorithms 7.4, 3.5 and 3.6.
    """

    def __init__(self, history: Sequence[tuple[Array, Array]] = (), size: int = 10, scale: Array | float = 1.0) -> None:
        self.history, self.size, self.scale = list(history), size, scale

    def step(self, here: Point, evaluate: Evaluate) -> Point | None:
        """The next point, which is higher; None where no step leads up."""
        with one_blas_thread():
            return self._step(here, evaluate)

    def _step(self, here: Point, evaluate: Evaluate) -> Point | None:
        there = self._search(here, evaluate)
        if there is None and self.history:  # what is remembered may mislead
            self.history = []
            there = self._search(here, evaluate)
        if there is None:
            return None
        moved, lost = there.x - here.x, here.gradient - there.gradient
        if float(moved @ lost) > 1e-10 * float(lost @ lost) > 0:
            self.history = [*self.history, (moved, lost)][-self.size :]
        return there

    def _search(self, here: Point, evaluate: Evaluate) -> Point | None:
        direction = self._direction(here.gradient)
        slope = float(direction @ here.gradient)
        if not (slope > 0 and math.isfinite(slope)):
            return None
        first = 1.0
        if not self.history and isinstance(self.scale, float):
            first = 1.0 / math.sqrt(float(direction @ direction))  # of no known size: go as far as one
        return climb_line(here, direction, slope, evaluate, first)

    def _direction(self, gradient: Array) -> Array:
        """The inverse curvature, as far as it is known, times the gradient (the two-loop recursion)."""
        q, shares = gradient.copy(), []
        for moved, lost in reversed(self.history):
            share = float(moved @ q) / float(moved @ lost)
            q -= share * lost
            shares.append(share)
        q *= self.scale
        if self.history:
            moved, lost = self.history[-1]
            q *= float(moved @ lost) / float(lost @ (self.scale * lost))
        for (moved, lost), share in zip(self.history, reversed(shares), strict=True):
            q += (share - float(lost @ q) / float(moved @ lost)) * moved
        return q


def climb_line(here: Point, direction: Array, slope: float, evaluate: Evaluate, first: float) -> Point | None:
    """A point along a direction that meets the strong Wolfe conditions; else the highest found, if it is higher.

    :param slope: of the function along the direction, at the start; positive.
    :param first: the first step to try.
    """
    low, low_at, low_slope = here, 0.0, slope  # the highest so far, which rises towards the other end
    high: tuple[float, float, float] | None = None  # step, value and slope at the other end
    at = first
    for _ in range(TRIALS):
        there = evaluate(here.x + at * direction)
        rise = float(there.gradient @ direction)
        good = math.isfinite(there.value) and math.isfinite(rise)
        if not good or there.value < here.value + RISE * at * slope or there.value <= low.value:
            high = (at, there.value if good else -math.inf, rise if good else -math.inf)
        else:
            if abs(rise) <= SLOPE * slope:
                return there
            if high is None and rise > 0:
                low, low_at, low_slope = there, at, rise
                at *= EXTEND
                continue
            if rise * (at - low_at) < 0:
                high = (low_at, low.value, low_slope)
            low, low_at, low_slope = there, at, rise
        assert high is not None
        if slope * abs(high[0] - low_at) <= ROUNDING * abs(here.value):
            break
        at = _between(low_at, low.value, low_slope, *high)
    return low if low.value > here.value else None


def _between(a: float, fa: float, da: float, b: float, fb: float, db: float) -> float:
    """The top of the cubic through two ends, kept away from both; their middle where there is none."""
    width = b - a
    at = a + width / 2
    if math.isfinite(fb) and math.isfinite(db):
        d1 = da + db - 3 * (fa - fb) / (a - b)
        square = d1 * d1 - da * db
        if square >= 0:
            d2 = math.copysign(math.sqrt(square), width)
            bottom = db - da - 2 * d2  # of the negated function: its minimum is the top
            if bottom != 0:
                at = b - width * (db - d2 - d1) / bottom
    edge = 0.1 * abs(width)
    return min(max(at, min(a, b) + edge), max(a, b) - edge)
