"""Discounts and concentrations of restaurants: the probability of their seats, and slice sampling.

With N customers at T tables of sizes m, discount a and concentration b (Pitman & Yor 1997),

    p(seats) = prod_{i=1}^{T-1} (b + i a) / prod_{i=1}^{N-1} (b + i) * prod_tables prod_{j=1}^{m-1} (j - a)
"""

from __future__ import annotations

from math import exp, inf, lgamma, log

import numpy as np
from numba import njit

from .records import FRESH, Array, Grammar, Seats, Text, uniform

#: Steps out of a slice, and cuts of it, at most.
STEPS, CUTS = 50, 200


@njit(cache=True, nogil=True)
def log_seats(a: float, b: float, customers: Array, tables: Array, sizes: Array, many: Array) -> float:
    """log p of the seats of some restaurants that share discount and concentration.

    :param customers: of each restaurant.
    :param tables: of each.
    :param sizes: of tables; ``many`` of all have each.
    """
    found = 0.0
    for r in range(len(customers)):
        if customers[r] == 0:
            continue
        if not (0.0 <= a < 1.0 and b > 0.0):
            return -inf
        found += lgamma(b + 1.0) - lgamma(b + customers[r])
        if a > 1e-12:
            found += (tables[r] - 1) * log(a) + lgamma(b / a + tables[r]) - lgamma(b / a + 1.0)
        else:
            found += (tables[r] - 1) * log(b)
    for k in range(len(sizes)):
        found += many[k] * (lgamma(sizes[k] - a) - lgamma(1.0 - a))
    return found


@njit(cache=True, nogil=True)
def table_sizes(s: Seats, text: Text, room: int) -> tuple[Array, Array]:
    """Different sizes of tables, and how many tables have each."""
    top = 1
    for k in range(len(text.offsets) - 1, s.used[FRESH]):
        if s.room[k] == room:
            top = max(top, s.size[k])
    count = np.zeros(top + 1, np.int64)
    for k in range(len(text.offsets) - 1, s.used[FRESH]):
        if s.room[k] == room and s.size[k] > 0:
            count[s.size[k]] += 1
    sizes = np.nonzero(count)[0]
    return sizes, count[sizes]


@njit(cache=True, nogil=True)
def log_density(
    x: float, of_discount: bool, other: float, N: Array, T: Array, sizes: Array, many: Array, prior: Array
) -> float:
    """Of a discount, or of the log of a concentration, given the other: seats and prior.

    :param prior: Beta(prior[0], prior[1]) of the discount; Gamma(prior[2], rate prior[3]) of the concentration, whose
        log is prior[4] or more.
    """
    if of_discount:
        if not 0.0 < x < 1.0:
            return -inf
        return log_seats(x, other, N, T, sizes, many) + (prior[0] - 1) * log(x) + (prior[1] - 1) * log(1 - x)
    if not prior[4] <= x <= 50.0:  # above 50, what follows would soon be beyond floats
        return -inf
    b = exp(x)
    return log_seats(other, b, N, T, sizes, many) + prior[2] * x - prior[3] * b


@njit(cache=True, nogil=True)
def slice_step(
    x: float,
    width: float,
    of_discount: bool,
    other: float,
    N: Array,
    T: Array,
    sizes: Array,
    many: Array,
    prior: Array,
    state: Array,
) -> float:
    """One draw by slice sampling (Neal 2003): stepping out, and shrinking."""
    told = (of_discount, other, N, T, sizes, many, prior)
    level = log_density(x, *told) + log(1.0 - uniform(state))
    low = x - width * uniform(state)
    high = low + width
    left = int(STEPS * uniform(state))  # so many of the steps to the left, at random: else it would not be exact
    for _ in range(left):
        if log_density(low, *told) <= level:
            break
        low -= width
    for _ in range(STEPS - 1 - left):
        if log_density(high, *told) <= level:
            break
        high += width
    for _ in range(CUTS):
        new = low + (high - low) * uniform(state)
        if log_density(new, *told) > level:
            return new
        if new < x:
            low = new
        else:
            high = new
    return x


@njit(cache=True, nogil=True)
def draw_both(
    discount: Array,  # (levels,) in and out
    strength: Array,  # (levels,) in and out
    level: int,
    N: Array,  # (restaurants,) customers of those of this level
    T: Array,  # (restaurants,) their tables
    sizes: Array,
    many: Array,
    prior: Array,  # (5,)
    learn_discount: bool,
    state: Array,
) -> None:
    """Draw the discount and the concentration of one level anew."""
    x = slice_step(log(strength[level]), 1.0, False, discount[level], N, T, sizes, many, prior, state)
    strength[level] = exp(x)  # a bound would belong in the prior: put here, it would bias the draws
    if learn_discount:
        discount[level] = slice_step(discount[level], 0.2, True, strength[level], N, T, sizes, many, prior, state)


@njit(cache=True, nogil=True)
def move(
    s: Seats,
    text: Text,
    discount: Array,  # (R,) in and out
    strength: Array,  # (R,) in and out
    prior: Array,  # (5,)
    learn_discount: bool,
    state: Array,
) -> None:
    """Draw the discount and the concentration of every restaurant anew."""
    for room in range(len(discount)):
        sizes, many = table_sizes(s, text, room)
        N, T = s.all_customers[room : room + 1], s.all_tables[room : room + 1]
        draw_both(discount, strength, room, N, T, sizes, many, prior, learn_discount, state)


@njit(cache=True, nogil=True)
def log_joint(g: Grammar, s: Seats, text: Text, discount: Array, strength: Array) -> float:
    """log p of all seats, rules and symbols, given discounts and concentrations."""
    found = 0.0
    for room in range(len(discount)):
        sizes, many = table_sizes(s, text, room)
        N, T = s.all_customers[room : room + 1], s.all_tables[room : room + 1]
        found += log_seats(discount[room], strength[room], N, T, sizes, many)
    for A in range(len(g.klass)):
        rules = g.first[A + 1] - g.first[A]
        if rules > 1:
            found += lgamma(rules) - lgamma(rules + s.rules_of[A])
            for r in range(g.first[A], g.first[A + 1]):
                found += lgamma(1.0 + s.rules[r])
    for c in range(len(g.members)):
        found += lgamma(g.members[c]) - lgamma(g.members[c] + s.shown_of[c])
        for v in range(g.member.shape[1]):
            if g.member[c, v]:
                found += lgamma(1.0 + s.shown[c, v])
    return found
