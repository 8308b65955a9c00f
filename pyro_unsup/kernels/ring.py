"""Semirings for compiled recursions: one source, compiled for real numbers, for logs and for maxima.

A recursion is written inside a function of ``mode``, and calls these functions with it. The mode is then a number in
the closure of the compiled function. So it is a constant to the compiler, which drops all other branches, and it is
part of the key by which numba finds the function on disk. (With functions in the closure, or as arguments, every
process would compile them again.)

A long sum goes through :func:`add` and :func:`total`. In logs these keep the largest term apart, so that a term costs
one exponential; :func:`plus` costs an exponential and a logarithm.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..array import Array
from .limits import FAST, tiny

REAL, LOG, MAX = 0, 1, 2

TINY = tiny(np.dtype(np.float64))

#: How recursions are compiled. Helpers are compiled in the same way, so that they go into the loops that call them.
compiled = njit(cache=True, nogil=True, fastmath=FAST)

#: Long functions of a mode are written into their callers, where the mode is a constant. Alone they are not compiled.
inlined = njit(cache=True, nogil=True, fastmath=FAST, inline="always")

#: How a long sum begins.
NOTHING = (-np.inf, 0.0)


@compiled
def copy(source: Array, target: Array) -> None:  # (n,), (n,)
    """Copy a vector. For ``target[:] = source`` numba compiles a second of code that words an error."""
    for k in range(len(source)):
        target[k] = source[k]


@compiled
def zero(mode: int) -> float:
    """The weight of what is impossible."""
    return 0.0 if mode == REAL else -np.inf


@compiled
def one(mode: int) -> float:
    """The weight that changes nothing."""
    return 1.0 if mode == REAL else 0.0


@compiled
def times(mode: int, a: float, b: float) -> float:
    return a * b if mode == REAL else a + b


@compiled
def kept_times(mode: int, a: float, b: float) -> float:
    """A product that stays possible: a real one that underflows becomes the smallest normal number."""
    found = times(mode, a, b)
    return TINY if mode == REAL and found < TINY and a > 0 and b > 0 else found


@compiled
def inverse(mode: int, a: float) -> float:
    return 1 / a if mode == REAL else -a


@compiled
def plus(mode: int, a: float, b: float) -> float:
    """The sum of two weights; in maxima, the larger one."""
    if mode == REAL:
        return a + b
    top, low = max(a, b), min(a, b)
    if mode == MAX or low == -np.inf:
        return top
    return top + math.log1p(math.exp(low - top))


@compiled
def add(mode: int, top: float, rest: float, x: float) -> tuple[float, float]:
    """One more term of a long sum, which begins with :data:`NOTHING` and ends with :func:`total`."""
    if mode == REAL:
        return top, rest + x
    if mode == MAX:
        return max(top, x), rest
    if x <= top:
        return top, rest + (math.exp(x - top) if x > -np.inf else 0.0)
    return x, rest * math.exp(top - x) + 1.0


@compiled
def total(mode: int, top: float, rest: float) -> float:
    """The value of a long sum."""
    if mode == REAL:
        return rest
    return top if mode == MAX or top == -np.inf else top + math.log(rest)


@compiled
def longest_of(offsets: Array, todo: Array) -> int:  # (B + 1,), (n,)
    """How long the longest of some examples is."""
    longest = 0
    for b in todo:
        longest = max(longest, offsets[b + 1] - offsets[b])
    return longest


@compiled
def as_real(mode: int, a: float) -> float:
    return a if mode == REAL else math.exp(a)


@compiled
def as_log(mode: int, a: float) -> float:
    return math.log(a) if mode == REAL else a
