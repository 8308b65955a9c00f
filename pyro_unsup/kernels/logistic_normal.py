"""Coordinate steps of logistic-normal rows on CPU. Cells of a row lie side by side, rows end to end.

Each step works on the rows that are ``active``, in place, and says in ``moved`` which of them it changed by more than
the tolerance: relative to its counts, what a row could gain at most.

A row of n outcomes has a Gaussian prior with mean ``mu`` and precision ``P``, expected counts ``f`` that sum to F, and
a posterior N(m, diag s2). What a step raises is the row's bound, up to terms that the step does not move:

    -1/2 (m - mu)' P (m - mu) - 1/2 sum_i P_ii s2_i + 1/2 sum_i log s2_i + f . m - F log zeta - (F / zeta) sum_i g_i,

with g_i = exp(m_i + s2_i / 2). At zeta = sum g, its best, the last two terms are -F log sum g (and a constant), so that
the bound is concave in (m, s2).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import njit

from ..array import Array
from .limits import FAST
from .plumbing import in_shards

#: The longest step of a mean that is tried: beyond it the curvature where the step began says little.
REACH = 4.0
#: Newton steps of the means before the variances have their turn.
NEWTON = 3
#: How often a step is halved before a row is taken to be at its best, up to rounding.
HALVINGS = 40


def in_threads(work: Callable[[int, int], None], offsets: Array) -> None:
    """Run a kernel over ranges of rows; rows do not touch each other, so any number of threads gives the same."""
    in_shards(work, np.diff(offsets), int(offsets[-1]))


@njit(cache=True, nogil=True)
def shares(m, s2, pi):  # type: ignore[no-untyped-def]
    """log zeta of one row at its best, and g / zeta in ``pi``."""
    top = -np.inf
    for i in range(len(m)):
        pi[i] = m[i] + 0.5 * s2[i]
        top = max(top, pi[i])
    total = 0.0
    for i in range(len(m)):
        pi[i] = np.exp(pi[i] - top)
        total += pi[i]
    for i in range(len(m)):
        pi[i] /= total
    return top + np.log(total)


@njit(cache=True, nogil=True)
def log_zetas(m, s2, offsets, out, first, last):  # type: ignore[no-untyped-def]
    """log sum g of every row."""
    for r in range(first, last):
        a, b = offsets[r], offsets[r + 1]
        out[r] = shares(m[a:b], s2[a:b], np.empty(b - a))


@njit(cache=True, nogil=True)
def _gain(scale, linear, curved, f, F, pi, step):  # type: ignore[no-untyped-def]
    """What the bound gains from ``scale * step``: differences only, so that rounding is that of a small number."""
    grown, heard = 0.0, 0.0
    for i in range(len(step)):
        grown += pi[i] * np.expm1(scale * step[i])
        heard += f[i] * step[i]
    return scale * (linear + heard) - 0.5 * scale * scale * curved - F * np.log1p(grown)


@njit(cache=True, nogil=True)
def _length(gradient, linear, curved, f, F, pi, step, tolerance):  # type: ignore[no-untyped-def]
    """How far along a Newton step to go: as far as it raises the bound. Zero where there is nothing to gain."""
    promised, longest = 0.0, 0.0
    for i in range(len(step)):
        promised += gradient[i] * step[i]
        longest = max(longest, abs(step[i]))
    if not promised > tolerance * (1.0 + F):
        return 0.0
    scale = min(1.0, REACH / longest)
    for _ in range(HALVINGS):
        if _gain(scale, linear, curved, f, F, pi, step) >= 1e-4 * scale * promised:
            return scale
        scale *= 0.5
    return 0.0


@njit(cache=True, nogil=True)
def diagonal_means(f, mu, p, offsets, m, s2, active, moved, tolerance, first, last):  # type: ignore[no-untyped-def]
    """Newton's method for the means, zeta at its best throughout; the precision is diagonal.

    The curvature is D - F pi pi' with D = P + F diag(pi). With t = D^-1 P 1 its inverse times a gradient g is
    u + (1 - t) (pi . u) / (pi . t), u = D^-1 g: Sherman and Morrison's formula, without the difference of near equals.
    """
    for r in range(first, last):
        if not active[r]:
            continue
        a, b = offsets[r], offsets[r + 1]
        n, F = b - a, f[a:b].sum()
        pi, gradient, step = np.empty(n), np.empty(n), np.empty(n)
        for _ in range(NEWTON):
            shares(m[a:b], s2[a:b], pi)
            pi_u, pi_t = 0.0, 0.0
            for i in range(n):
                gradient[i] = p[a + i] * (mu[a + i] - m[a + i]) + f[a + i] - F * pi[i]
                step[i] = gradient[i] / (p[a + i] + F * pi[i])
                pi_u += pi[i] * step[i]
                pi_t += pi[i] * p[a + i] / (p[a + i] + F * pi[i])
            linear, curved = 0.0, 0.0
            for i in range(n):
                step[i] += F * pi[i] / (p[a + i] + F * pi[i]) * pi_u / pi_t
                linear += p[a + i] * (mu[a + i] - m[a + i]) * step[i]
                curved += p[a + i] * step[i] * step[i]
            scale = _length(gradient, linear, curved, f[a:b], F, pi, step, tolerance)
            if scale == 0.0:
                break
            moved[r] = True
            for i in range(n):
                m[a + i] += scale * step[i]


@njit(cache=True, nogil=True)
def full_means(f, mu, blocks, which, offsets, m, s2, active, moved, tolerance, first, last):  # type: ignore[no-untyped-def]
    """The same with a full precision, ``blocks[which[row]]``: D is no longer diagonal, and is factored."""
    for r in range(first, last):
        if not active[r]:
            continue
        a, b = offsets[r], offsets[r + 1]
        n, F, P = b - a, f[a:b].sum(), blocks[which[r]]
        D, ones = np.empty((n, n)), np.ones(n)
        pi, gradient, pull = np.empty(n), np.empty(n), np.empty(n)
        step, t, work = np.empty(n), np.empty(n), np.empty(n)
        for _ in range(NEWTON):
            shares(m[a:b], s2[a:b], pi)
            for i in range(n):
                work[i] = mu[a + i] - m[a + i]
                for j in range(i + 1):
                    D[i, j] = P[i, j]
                D[i, i] += F * pi[i]
            _factor(D)
            _times(P, work, pull)
            _times(P, ones, t)
            for i in range(n):
                gradient[i] = pull[i] + f[a + i] - F * pi[i]
                step[i] = gradient[i]
            _solve(D, step)
            _solve(D, t)
            along = _dot(pi, step) / _dot(pi, t)
            for i in range(n):
                step[i] += (1.0 - t[i]) * along
            _times(P, step, work)
            scale = _length(gradient, _dot(pull, step), _dot(work, step), f[a:b], F, pi, step, tolerance)
            if scale == 0.0:
                break
            moved[r] = True
            for i in range(n):
                m[a + i] += scale * step[i]


@njit(cache=True, nogil=True, fastmath=FAST)
def _dot(x, y):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@njit(cache=True, nogil=True)
def _times(P, x, out):  # type: ignore[no-untyped-def]
    """P x, of the upper left corner of P."""
    n = len(x)
    for i in range(n):
        out[i] = _dot(P[i, :n], x)


@njit(cache=True, nogil=True)
def _factor(D):  # type: ignore[no-untyped-def]
    """Cholesky's L with L L' = D, in the lower triangle and in place."""
    for i in range(len(D)):
        for j in range(i):
            D[i, j] = (D[i, j] - _dot(D[i, :j], D[j, :j])) / D[j, j]
        D[i, i] = np.sqrt(D[i, i] - _dot(D[i, :i], D[i, :i]))


@njit(cache=True, nogil=True)
def _solve(L, x):  # type: ignore[no-untyped-def]
    """L L' y = x, in place."""
    n = len(x)
    for i in range(n):
        x[i] = (x[i] - _dot(L[i, :i], x[:i])) / L[i, i]
    for i in range(n - 1, -1, -1):
        x[i] /= L[i, i]
        for j in range(i):
            x[j] -= L[i, j] * x[i]


@njit(cache=True, nogil=True)
def variances(f, p, offsets, m, s2, active, moved, tolerance, first, last):  # type: ignore[no-untyped-def]
    """The variances at their best, each on its own, zeta held where it was best before."""
    for r in range(first, last):
        if not active[r]:
            continue
        a, b = offsets[r], offsets[r + 1]
        F, still = f[a:b].sum(), np.sqrt(tolerance)  # a gain is of the order of a change squared
        scale = (np.log(F) if F > 0.0 else -np.inf) - shares(m[a:b], s2[a:b], np.empty(b - a))
        for i in range(a, b):
            before = s2[i]
            s2[i] = variance(p[i], scale + m[i], before)
            if abs(s2[i] - before) > still * before:
                moved[r] = True


@njit(cache=True, nogil=True)
def variance(p, c, before):  # type: ignore[no-untyped-def]
    """The x that is best for 1/2 log x - p x / 2 - exp(c + x / 2), where x (p + exp(c + x / 2)) = 1.

    In log x, the log of the left side is convex and rises by one or more, so that Newton's method comes down to the
    root from above, wherever it began. c is log (F / zeta) + m, which tells what is too small to be a number.
    """
    highest = min(1.0 / p, max(1.0, -2.0 * c))  # each of the two terms alone puts the root below one of these
    x = min(before, highest)
    for _ in range(100):
        weight = np.exp(c + 0.5 * x)
        whole = p + weight
        excess = x * whole - 1.0
        # log(1 + excess); where it is small, two terms of it are enough for the next step to be as good
        log = np.log1p(excess) if abs(excess) > 0.01 else excess / (1.0 + 0.5 * excess)
        change = log / (1.0 + 0.5 * x * weight / whole)
        x = min(x * np.exp(-change), highest)
        if abs(change) <= 1e-7:  # what is left is of the order of its square
            return x
    return before  # only of what are no numbers


@njit(cache=True, nogil=True)
def quadratics(x, blocks, which, offsets, out, first, last):  # type: ignore[no-untyped-def]
    """x' P x of every row."""
    for r in range(first, last):
        a, n = offsets[r], offsets[r + 1] - offsets[r]
        P, part = blocks[which[r]], x[a : a + n]
        inner = np.empty(n)
        _times(P, part, inner)
        out[r] = _dot(part, inner)


@njit(cache=True, nogil=True)
def add_outer(x, rows, offsets, out):  # type: ignore[no-untyped-def]
    """Add the outer product of every run of cells with itself to the matrix of its row, (rows, N, N)."""
    for r in range(len(rows)):
        a, n = offsets[r], offsets[r + 1] - offsets[r]
        target = out[rows[r]]
        for i in range(n):
            for j in range(n):
                target[i, j] += x[a + i] * x[a + j]
