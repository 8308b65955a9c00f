"""Which coefficients a mixture of constrained posteriors may have, and the best of them: a linear programme."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import FitError


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
