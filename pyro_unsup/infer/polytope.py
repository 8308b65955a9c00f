"""Which coefficients a mixture of constrained posteriors may have, and the best of them: a linear programme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import FitError
from ..estimate.settings import is_number


@dataclass(frozen=True)
class Polytope:
    """The coefficients {lambda : lambda >= 0, sum lambda = 1, a . lambda <= b for rows of upper, = for rows of equal}.

    :param size: how many coefficients there are.
    :param upper: rows of ``size`` numbers a, each with its bound b.
    :param equal: the same.

    >>> import pyro_unsup as pu
    >>> pu.Polytope(2, upper=[([1, 0], 0.9)]).best([-5.0, -7.0])  # as much as may be of the first
    array([0.9, 0.1])
    """

    size: int
    upper: Sequence[tuple[Sequence[float], float]] = ()
    equal: Sequence[tuple[Sequence[float], float]] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.size, int) or self.size < 1:
            raise FitError(f"a polytope has a whole number of coefficients, 1 or more, actual {self.size!r:.80}")
        for field in ("upper", "equal"):
            rows = tuple((tuple(float(x) for x in row), float(b)) for row, b in getattr(self, field))
            for row, b in rows:
                if len(row) != self.size or not all(math.isfinite(x) for x in (*row, b)):
                    raise FitError(
                        f"a constraint on {self.size} coefficients has {self.size} finite numbers and a bound, actual "
                        f"{len(row)} in {field}: {row}, {b}"
                    )
            object.__setattr__(self, field, rows)

    def best(self, gains: Sequence[float] | np.ndarray) -> np.ndarray:  # (size,) -> (size,)
        """The coefficients with the highest sum of coefficient times gain: a vertex.

        :raises FitError: if the polytope is empty.
        """
        from scipy.optimize import linprog

        value = np.asarray(gains, np.float64)
        value = value - value.max()
        scale = float(np.abs(value).max()) or 1.0  # gains are log-likelihoods of any size; a solver expects about one
        a, b = _matrix(self.upper, self.size)
        c, d = _matrix([*self.equal, ((1.0,) * self.size, 1.0)], self.size)
        found = linprog(-value / scale, A_ub=a, b_ub=b, A_eq=c, b_eq=d, bounds=(0, 1), method="highs")
        if found.status == 2:
            raise FitError(
                f"the polytope is empty: no {self.size} coefficients that are not negative and sum to one keep "
                f"{self._said()}. Loosen a bound"
            )
        if not found.success:
            raise FitError(f"the linear programme of the coefficients failed: {found.message}")
        lam = found.x.clip(0, 1)
        return np.asarray(lam / lam.sum())

    def _said(self) -> str:
        def spelled(row: Sequence[float]) -> str:
            return " + ".join(f"{x:g} lambda_{i}" for i, x in enumerate(row) if x) or "0"

        rows = [(row, "<=", b) for row, b in self.upper] + [(row, "=", b) for row, b in self.equal]
        return ", ".join(f"{spelled(row)} {sign} {b:g}" for row, sign, b in rows[:4])


def _matrix(rows: Sequence[tuple[Sequence[float], float]], size: int) -> tuple[np.ndarray | None, np.ndarray | None]:
    if not rows:
        return None, None
    return np.array([row for row, _ in rows]).reshape(-1, size), np.array([b for _, b in rows])


@dataclass(frozen=True)
class Loosen:
    """Simplex annealing [1]: the coefficient of the unconstrained component is at most ``start`` in the first
    iteration, ``step`` more in each that follows, and ``end`` at last.

    :param even: let all other components have the same coefficient, so that none of them is left out.
    :param exactly: let the unconstrained component have that coefficient, and not less.

    >>> import pyro_unsup as pu
    >>> how = pu.Loosen(0.85, 0.95, 0.01)
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
    >>> pu.fixed(0.9)
    Loosen(start=0.9, end=0.9, step=0.01, even=False, exactly=True)
    >>> pu.fixed(0.9)(7, 3).equal
    (((1.0, 0.0, 0.0), 0.9),)
    """
    return Loosen(free, free, even=even, exactly=True)
