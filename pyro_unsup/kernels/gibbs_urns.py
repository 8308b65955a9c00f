"""Tables that are integrated out: how often each of their outcomes was drawn, and moves of a whole sentence.

A row under a symmetric Dirichlet(a) is an urn. Its next draw is outcome c with probability (n_c + a) / (n + mass),
where mass is a times the number of outcomes, and what is drawn is counted. The rows of all tables lie end to end. A
structure of a sentence is a list of cells, one for every draw that it makes, in any order.

A sentence is taken out of the counts (:func:`lift`). Its new structure is proposed from the frozen weights
(n_c + a) / (n + mass) of what is left, and accepted or not (:func:`settle`). In truth counts change within a sentence.
The acceptance ratio of an independence proposal q, pi(new) q(old) / (pi(old) q(new)), makes up for that exactly.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

from numba import njit

from .gibbs_joint import rising

Array = Any


class Urns(NamedTuple):
    """Rows of outcomes, and their weights raised to a power, in logs."""

    n: Array  # (cells,) int64, how often each outcome was drawn
    totals: Array  # (rows,) int64
    row: Array  # (cells,) int64, the row of each cell
    a: Array  # (rows,) concentration of each outcome
    mass: Array  # (rows,) times the number of outcomes
    logs: Array  # (cells,) power times the log of n + a
    whole: Array  # (rows,) power times the log of totals + mass
    power: float


@njit(cache=True, nogil=True)
def weigh(urns: Urns) -> None:
    """The weights of all cells and rows, as the counts are."""
    for r in range(len(urns.totals)):
        urns.whole[r] = urns.power * log(urns.totals[r] + urns.mass[r])
    for k in range(len(urns.n)):
        urns.logs[k] = urns.power * log(urns.n[k] + urns.a[urns.row[k]])


@njit(cache=True, nogil=True)
def refresh(cells: Array, urns: Urns) -> None:
    """The same of those that a sentence changed."""
    for k in cells:
        r = urns.row[k]
        urns.logs[k] = urns.power * log(urns.n[k] + urns.a[r])
        urns.whole[r] = urns.power * log(urns.totals[r] + urns.mass[r])


@njit(cache=True, nogil=True)
def take(cells: Array, urns: Urns) -> None:
    """Take draws out of the counts."""
    for k in cells:
        urns.n[k] -= 1
        urns.totals[urns.row[k]] -= 1


@njit(cache=True, nogil=True)
def put(cells: Array, urns: Urns) -> float:
    """Count draws; the log probability of all of them, one after the other, given what had been counted before."""
    found = 0.0
    for k in cells:
        r = urns.row[k]
        found += log((urns.n[k] + urns.a[r]) / (urns.totals[r] + urns.mass[r]))
        urns.n[k] += 1
        urns.totals[r] += 1
    return found


@njit(cache=True, nogil=True)
def log_weight(cells: Array, urns: Urns) -> float:
    """The log of the weight by which a structure is proposed."""
    found = 0.0
    for k in cells:
        found += urns.logs[k] - urns.whole[urns.row[k]]
    return found


@njit(cache=True, nogil=True)
def lift(cells: Array, urns: Urns) -> None:
    """Take a sentence out, and weigh what is left."""
    take(cells, urns)
    refresh(cells, urns)


@njit(cache=True, nogil=True)
def put_back(cells: Array, urns: Urns) -> None:
    """Undo :func:`lift`."""
    put(cells, urns)
    refresh(cells, urns)


@njit(cache=True, nogil=True)
def settle(old: Array, new: Array, urns: Urns, decision: float) -> bool:
    """Accept or refuse the proposal for a sentence that was lifted, and count it again. Whether it was accepted.

    :param decision: a uniform number.
    """
    before = put(old, urns)
    take(old, urns)
    after = put(new, urns)
    ratio = urns.power * (after - before) + log_weight(old, urns) - log_weight(new, urns)
    if log(max(decision, 1e-300)) < ratio:
        refresh(new, urns)
        return True
    take(new, urns)
    put_back(old, urns)
    return False


@njit(cache=True, nogil=True)
def log_rows(
    n: Array,  # (cells,)
    totals: Array,  # (rows,)
    row: Array,  # (cells,)
    kind: Array,  # (rows,) which concentration a row has
    outcomes: Array,  # (rows,)
    a: Array,  # (kinds,)
    found: Array,  # (kinds,) out
) -> None:
    """Log probability of all draws, tables integrated out, by kind of row."""
    found[:] = 0.0
    for r in range(len(totals)):
        found[kind[r]] -= rising(a[kind[r]] * outcomes[r], totals[r])
    for c in range(len(n)):
        if n[c] > 0:
            found[kind[row[c]]] += rising(a[kind[row[c]]], n[c])
