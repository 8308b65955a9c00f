"""exp and log of whole tables, several numbers at a time.

A compiler turns a loop into vector instructions if all it does is arithmetic, so here are the two functions as such. A
number is 2^k m, and its bits hold k and m side by side. Errors stay below two units in the last place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from ..array import Array

TINY = float(np.finfo(np.float64).tiny)

#: A number that makes all others normal.
MANY = 2.0**54
LOG_MANY = float(np.log(MANY))

#: exp of less than this is no normal number.
LOWEST = -708.0

#: ln 2 in two parts, the first with so many zeros at the end that a multiple of it is exact.
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
PER_LN2 = 1 / np.log(2)

#: Added to a number below 2^51 and taken away again, this rounds; in between the last bits are the number itself.
ROUND = 1.5 * 2.0**52

MANTISSA_BITS = np.uint64(52)
MANTISSA = np.uint64(2**52 - 1)
#: The bits of sqrt(1/2), where the range of m begins; and of 1, less those.
HALF_ROOT = np.float64(0.5**0.5).view(np.uint64)
TO_ONE = np.float64(1.0).view(np.uint64) - HALF_ROOT
#: The bits of 2^52. With k in place of its last ones it is 2^52 + k.
WHOLE, WHOLE_BITS = 2.0**52, np.float64(2.0**52).view(np.uint64)
BIAS = 1023.0


def _fitted(series: Array, low: float, high: float, size: int) -> tuple[float, ...]:
    """Coefficients, constant first, of a polynomial that replaces a power series between two numbers."""
    power = np.polynomial.Polynomial(series)
    found = np.polynomial.Chebyshev.interpolate(power, size - 1, [low, high]).convert(kind=np.polynomial.Polynomial)
    return tuple(float(c) for c in found.coef)


#: exp r = 1 + r + r^2 (E0 + E1 r + ...) for |r| <= ln 2 / 2.
E0, E1, E2, E3, E4, E5, E6, E7, E8, E9 = _fitted(
    1 / np.cumprod(np.arange(1.0, 30.0))[1:], -np.log(2) / 2, np.log(2) / 2, 10
)
#: log of (1 + s) / (1 - s) = 2 s + s z (L0 + L1 z + ...), with z = s^2, up to sqrt(2) = (1 + s) / (1 - s).
L0, L1, L2, L3, L4, L5, L6 = _fitted(2 / np.arange(3.0, 60.0, 2.0), 0.0, (2**0.5 - 1) ** 4, 7)

# Numbers divided by zero are infinite, not an error: an error could not be had from a vector.
_settings: dict[str, Any] = {"cache": True, "nogil": True, "fastmath": {"contract"}, "error_model": "numpy"}


@njit(**_settings)
def _exp(x: float) -> float:
    """exp x for LOWEST <= x < 1, as 2^k exp r."""
    rounded = x * PER_LN2 + ROUND
    k = rounded - ROUND
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    s = r * r
    even = E0 + s * (E2 + s * (E4 + s * (E6 + s * E8)))
    odd = E1 + s * (E3 + s * (E5 + s * (E7 + s * E9)))
    p = 1.0 + (r + s * (even + r * odd))
    bits = np.float64(p).view(np.int64) + (np.float64(rounded).view(np.int64) << np.int64(52))
    return np.int64(bits).view(np.float64)


@njit(**_settings)
def _log(x: float) -> float:
    """log x for normal x, as k ln 2 + log m, where sqrt(1/2) <= m < sqrt(2), m = 1 + f, and s = f / (2 + f)."""
    bits = np.float64(x).view(np.uint64) + TO_ONE
    k = np.uint64((bits >> MANTISSA_BITS) | WHOLE_BITS).view(np.float64) - (WHOLE + BIAS)
    f = np.uint64((bits & MANTISSA) + HALF_ROOT).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    p = z * (L0 + z * (L1 + z * (L2 + z * (L3 + z * (L4 + z * (L5 + z * L6))))))
    half = 0.5 * f * f
    return k * LN2_HIGH - ((half - (s * (half + p) + k * LN2_LOW)) - f)  # 2 s = f - half + s half, and f is exact


@njit(**_settings)
def _log_any(x: float) -> float:
    """log x for finite x, not negative: numbers that are not normal are made so first, and 0 gives -inf."""
    found = _log(x * MANY if x < TINY else x) - (LOG_MANY if x < TINY else 0.0)
    return found if x > 0 else -np.inf


@njit(**_settings)
def exp_below(x: Array, top: float, out: Array) -> None:  # (n,) -> (n,)
    """exp(x - top) of numbers none of which is above the top; 0 where that is below all normal numbers."""
    for k in range(len(x)):
        y = x[k] - top
        found = _exp(max(y, LOWEST))
        out[k] = found if y > LOWEST else 0.0


@njit(**_settings)
def exp_possible(x: Array) -> None:  # (n,)
    """exp of numbers that are not above 0, in place. What is possible stays above 0: a normal number at least."""
    for k in range(len(x)):
        found = _exp(max(x[k], LOWEST))
        x[k] = found if x[k] > -np.inf else 0.0


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _highest(x: Array) -> float:  # (n,)
    found = -np.inf
    for k in range(len(x)):
        found = x[k] if x[k] > found else found
    return found


@njit(**_settings)
def scaled_rows(x: Array, out: Array, top: Array, positive: Array) -> None:  # (n, k) -> (n, k), (n,), (n,)
    """exp of each row with its maximum divided out, the logs of the maxima, and how many cells are not exp(-inf)."""
    for row in range(len(x)):
        highest, cells = _highest(x[row]), 0
        for k in range(x.shape[1]):
            cells += x[row, k] > -np.inf
        top[row], positive[row] = highest if cells else 0.0, cells
        exp_below(x[row], top[row], out[row])


@njit(**_settings)
def row_shares(x: Array, totals: Array, out: Array) -> None:  # (rows, n) -> (rows,), (rows, n)
    """The sum of each row of a small table, and the log of each cell's share of its row."""
    for row in range(len(x)):
        total = 0.0
        for c in range(x.shape[1]):
            total += x[row, c]
        totals[row], whole = total, np.log(total)
        for c in range(x.shape[1]):
            out[row, c] = np.log(x[row, c]) - whole


@njit(**_settings)
def log_shares_across(x: Array, totals: Array, out: Array) -> None:  # (n, rows), (rows,) -> (n, rows)
    """:func:`log_shares` of a table that is stored by columns: the cells of a row are a column here."""
    whole, plain = np.log(totals), True
    for k in range(len(totals)):
        plain = plain and totals[k] < np.inf
    for c in range(len(x)):
        if plain:
            for k in range(len(totals)):
                out[c, k] = _log_any(x[c, k]) - whole[k]
        else:
            out[c] = np.log(x[c]) - whole


@njit(**_settings)
def log_shares(
    x: Array,  # (cells,) not negative
    totals: Array,  # (rows,) their sums
    ends: Array,  # (rows + 1,) where the rows begin, and where the last one ends
    first: int,
    last: int,
    out: Array,  # (cells,)
) -> None:
    """log of each cell's share of its row, of some rows: log x less the log of the total."""
    for row in range(first, last):
        here, there = x[ends[row] : ends[row + 1]], out[ends[row] : ends[row + 1]]
        whole, small = np.log(totals[row]), 0
        for c in range(len(here)):
            small += here[c] < TINY
            there[c] = _log(here[c]) - whole
        if not totals[row] < np.inf:  # a cell is infinite or not a number: that should not be, but shows
            there[:] = np.log(here) - whole
        elif small:
            for c in range(len(here)):
                there[c] = _log_any(here[c]) - whole


@njit(**_settings)
def logs(x: Array, out: Array) -> None:  # (n,) of any floats -> (n,) float64
    """log of numbers that are finite and not negative; -inf of 0."""
    for i in range(len(x)):
        out[i] = _log_any(np.float64(x[i]))
