"""The chart of a sentence: the weight of every unit on every span, with all seats of the others held fixed.

A unit A that is remembered has a restaurant with N customers at T tables, discount a and concentration b. On a string w
it has the weight of the tables that are there, and that of a new one, whose analysis the rules draw:

    G(A, w) = (n_w - a t_w) / (N + b)  +  (a T + b) / (N + b) * H(A, w)
    H(A, w) = sum over the rules A -> B C and all ways to cut w in two  p(rule) G(B, left) G(C, right)

Rules and symbols have the means of their Dirichlet posteriors, (count + 1) / (sum + number). Weights of a span of k
symbols are multiplied by scale^k, which keeps long sentences within the range of floats and changes nothing else.
"""

from __future__ import annotations

from numba import njit

from .records import Array, Grammar, Seats, Text, Work


@njit(cache=True, nogil=True)
def freeze(
    g: Grammar, s: Seats, w: Work, text: Text, at: int, n: int, top: int, discount: Array, strength: Array, blank: bool
) -> None:
    """Note what rules, symbols and tables weigh now.

    :param blank: as if nothing had been counted yet, and every unit were new: for the start of a chain.
    """
    for A in range(top + 1):
        many = g.first[A + 1] - g.first[A]
        for r in range(g.first[A], g.first[A + 1]):
            w.prob[r] = 1.0 / many if blank else (s.rules[r] + 1.0) / (s.rules_of[A] + many)
    for c in range(len(g.members)):
        for i in range(n):
            v = text.words[at + i]
            p = 0.0
            if g.member[c, v]:
                p = 1.0 / g.members[c] if blank else (s.shown[c, v] + 1.0) / (s.shown_of[c] + g.members[c])
            w.show[c, i] = p
    for r in range(len(g.symbol)):
        w.customers[r] = s.all_customers[r] + strength[r]
        w.tables[r] = s.all_customers[r] + strength[r] if blank else discount[r] * s.all_tables[r] + strength[r]


@njit(cache=True, nogil=True, fastmath={"contract"})
def fill(g: Grammar, s: Seats, w: Work, text: Text, at: int, n: int, top: int, discount: Array, blank: bool) -> float:
    """Fill the chart from short spans to long ones; the weight of the whole under ``top``, new analyses only.

    ``top`` is the root, which stands on spans at the end of the sentence only, or a unit whose analyses are wanted.
    """
    inside, base, old, sums, active, actives = w.inside, w.base, w.old, w.sums, w.active, w.actives
    scale = w.power[1]
    side = n + 1
    root = len(g.klass) - 1
    for wide in range(1, n + 1):
        for i in range(n - wide + 1):
            j = i + wide
            here = i * side + j
            last = top if (j == n or top < root) else top - 1
            if last == top and top < root and wide < n:
                last = top - 1  # a unit is no part of its own analysis
            pairs = g.before[last + 1]
            for p in range(pairs):
                sums[p] = 0.0
            for k in range(i + 1, j):
                one, two = i * side + k, k * side + j
                for q in range(actives[one]):
                    p = active[one, q]
                    if p >= pairs:
                        break
                    sums[p] += inside[one, g.pair_left[p]] * inside[two, g.pair_right[p]]
            p = 0
            for A in range(last + 1):
                c = g.klass[A]
                if c >= 0:
                    inside[here, A] = w.show[c, i] * scale if wide == 1 else 0.0
                    continue
                found = 0.0
                for r in range(g.first[A], g.first[A + 1]):
                    if g.right[r] < 0:
                        found += w.prob[r] * inside[here, g.left[r]]
                    else:
                        found += w.prob[r] * sums[p]
                        p += 1
                room = g.kind[A]
                if room >= 0:
                    base[here, room] = found
                    found *= w.tables[room] / w.customers[room]
                    old[here, room] = 0.0
                    if not blank and wide <= text.cells.shape[1]:
                        string = text.cells[at + j - 1, wide - 1]
                        n_w = s.customers[string, room]
                        if n_w > 0:
                            weight = n_w - discount[room] * s.tables[string, room]
                            old[here, room] = weight / w.customers[room] * w.power[wide]
                            found += old[here, room]
                    elif wide > text.cells.shape[1]:  # no unit that is remembered is so long
                        base[here, room] = 0.0
                        found = 0.0
                inside[here, A] = found
            for A in range(last + 1, top + 1):
                inside[here, A] = 0.0
            many = 0
            for p in range(g.before[top + 1]):
                if inside[here, g.pair_left[p]] != 0.0:
                    active[here, many] = p
                    many += 1
            actives[here] = many
    whole = n  # the row of the span from 0 to n
    return base[whole, g.kind[top]] if g.kind[top] >= 0 else inside[whole, top]
