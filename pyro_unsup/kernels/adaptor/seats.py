"""Restaurants: units leave their tables and take new ones, an analysis at a time.

An analysis of a sentence (or of the string of a table) is drawn from the chart, whose weights are those of before. In
truth every unit that is seated changes the weights of the next. ``seat`` therefore tells the ratio

    (probability of the seats, one after the other) / (probability that the chart draws them)

whose quotient for the new and the old analysis is what Metropolis and Hastings ask for. Two equal new units in one
sentence may share a table that neither could find in the chart. So a unit that the chart makes new joins a table t that
is itself of this seating with probability

    (size of t - a) / (sum of those + (a T + b) H)

and the probability of drawing this is that of all new analyses together, which the chart knows.
"""

from __future__ import annotations

from numba import njit

from .records import FREE, FRESH, POOL, SEATING, SHIFT, Array, Grammar, Seats, Text, Work, uniform

MASK = (1 << SHIFT) - 1


@njit(cache=True, nogil=True)
def leave(g: Grammar, s: Seats, w: Work, text: Text, at: int, n: int, owner: int, top: int, start: int) -> int:
    """Take an analysis out of all counts, and those of tables that become empty; how many that are (``gone``)."""
    queue, stack, pool = w.queue, w.stack, s.pool
    queue[0, 0], queue[0, 1], queue[0, 2] = owner, 0, n
    many, q = 1, 0
    while q < many:
        who = queue[q, 0]
        c = start if q == 0 else s.start[who]
        stack[0, 0] = top if q == 0 else g.symbol[s.room[who]]
        stack[0, 1], stack[0, 2] = queue[q, 1], queue[q, 2]
        depth, first = 1, True
        q += 1
        while depth > 0:
            depth -= 1
            A, i, j = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            klass = g.klass[A]
            if klass >= 0:
                s.shown[klass, text.words[at + i]] -= 1
                s.shown_of[klass] -= 1
                continue
            entry = pool[c]
            c += 1
            room = g.kind[A]
            if room >= 0 and not first:
                string = s.string[entry]
                s.size[entry] -= 1
                s.customers[string, room] -= 1
                s.all_customers[room] -= 1
                if s.size[entry] == 0:
                    unlink(s, entry)
                    queue[many, 0], queue[many, 1], queue[many, 2] = entry, i, j
                    w.gone[many - 1] = entry
                    many += 1
                continue
            first = False
            r, k = entry >> SHIFT, i + (entry & MASK)
            s.rules[r] -= 1
            s.rules_of[A] -= 1
            if g.right[r] >= 0:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.right[r], k, j
                depth += 1
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.left[r], i, k
            else:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.left[r], i, j
            depth += 1
    return many - 1


@njit(cache=True, nogil=True, inline="always")
def unlink(s: Seats, table: int) -> None:
    """An empty table goes."""
    string, room = s.string[table], s.room[table]
    ahead, after = s.ahead[table], s.after[table]
    if ahead >= 0:
        s.after[ahead] = after
    else:
        s.head[string, room] = after
    if after >= 0:
        s.ahead[after] = ahead
    s.tables[string, room] -= 1
    s.all_tables[room] -= 1


@njit(cache=True, nogil=True, inline="always")
def link(s: Seats, table: int) -> None:
    """A table comes, without customers yet."""
    string, room = s.string[table], s.room[table]
    after = s.head[string, room]
    s.after[table], s.ahead[table] = after, -1
    if after >= 0:
        s.ahead[after] = table
    s.head[string, room] = table
    s.tables[string, room] += 1
    s.all_tables[room] += 1


@njit(cache=True, nogil=True)
def give_back(s: Seats, tables: Array, many: int) -> None:
    """Their numbers may be used again."""
    for k in range(many):
        s.free[s.used[FREE]] = tables[k]
        s.used[FREE] += 1


@njit(cache=True, nogil=True)
def seat(
    g: Grammar,
    s: Seats,
    w: Work,
    text: Text,
    at: int,
    n: int,
    owner: int,
    top: int,
    given: bool,  # seat the analysis that the owner has; else draw one, from the end of the pool on
    blank: bool,  # new units may join any table: for the start of a chain
    discount: Array,
    strength: Array,
    state: Array,  # of random numbers
) -> float:
    """Seat an analysis of a sentence or a string, old or drawn; the ratio of probabilities (see above)."""
    queue, stack, pool, side = w.queue, w.stack, s.pool, n + 1
    s.used[SEATING] += 1
    now = s.used[SEATING]
    queue[0, 0], queue[0, 1], queue[0, 2] = owner, 0, n
    many, q, touched, ratio = 1, 0, 0, 1.0
    while q < many:
        who = queue[q, 0]
        if not given and q > 0:
            s.start[who] = s.used[POOL]
        c = s.start[who] if given else s.used[POOL]
        begun = c
        stack[0, 0] = top if q == 0 else g.symbol[s.room[who]]
        stack[0, 1], stack[0, 2] = queue[q, 1], queue[q, 2]
        depth, first = 1, True
        q += 1
        while depth > 0:
            depth -= 1
            A, i, j = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            klass = g.klass[A]
            if klass >= 0:
                v = text.words[at + i]
                ratio *= (s.shown[klass, v] + 1.0) / (s.shown_of[klass] + g.members[klass]) / w.show[klass, i]
                s.shown[klass, v] += 1
                s.shown_of[klass] += 1
                continue
            here, room = i * side + j, g.kind[A]
            if room >= 0 and not first:
                a, b, string = discount[room], strength[room], text.cells[at + j - 1, j - i - 1]
                table, join, fresh = -1, False, False
                if given:
                    table = pool[c]
                    fresh = s.size[table] == 0
                    join = not fresh and s.made[table] == now
                else:
                    u = uniform(state) * w.inside[here, A]
                    if u < w.old[here, room]:
                        left = u / w.old[here, room] * (w.old[here, room] * w.customers[room] / w.power[j - i])
                        k = s.head[string, room]
                        while k >= 0:
                            before = s.size[k] - s.added[k]
                            if before > 0:
                                table = k
                                left -= before - a
                                if left < 0.0:
                                    break
                            k = s.after[k]
                if (given and not fresh and not join) or (not given and table >= 0):  # a table of before
                    before = s.size[table] - s.added[table]
                    now_p = (s.size[table] - a) / (s.all_customers[room] + b)
                    ratio *= now_p / ((before - a) / w.customers[room])
                else:
                    shared = 0.0  # tables of this seating
                    k = s.head[string, room]
                    while k >= 0:
                        if s.made[k] == now or blank:
                            shared += s.size[k] - a
                        k = s.after[k]
                    new = w.tables[room] * w.base[here, room] / w.power[j - i]
                    if not given:
                        left = uniform(state) * (shared + new)
                        fresh = not left < shared
                        if not fresh:
                            join = True
                            k = s.head[string, room]
                            while k >= 0:
                                if s.made[k] == now or blank:
                                    table = k
                                    left -= s.size[k] - a
                                    if left < 0.0:
                                        break
                                k = s.after[k]
                    if join:
                        now_p = (s.size[table] - a) / (s.all_customers[room] + b)
                        ratio *= now_p / (new / w.customers[room] * (s.size[table] - a) / (shared + new))
                    else:
                        now_p = (a * s.all_tables[room] + b) / (s.all_customers[room] + b)
                        ratio *= now_p / (w.tables[room] / w.customers[room] * new / (shared + new))
                        if not given:
                            if s.used[FREE] > 0:
                                s.used[FREE] -= 1
                                table = s.free[s.used[FREE]]
                            else:
                                table = s.used[FRESH]
                                s.used[FRESH] += 1
                            s.size[table], s.added[table] = 0, 0
                            s.string[table], s.room[table] = string, room
                        s.made[table] = now
                        link(s, table)
                        queue[many, 0], queue[many, 1], queue[many, 2] = table, i, j
                        many += 1
                s.size[table] += 1
                s.customers[string, room] += 1
                s.all_customers[room] += 1
                s.added[table] += 1
                w.touched[touched] = table
                touched += 1
                pool[c] = table
                c += 1
                continue
            first = False
            if given:
                r, k = pool[c] >> SHIFT, i + (pool[c] & MASK)
            else:
                total = w.base[here, room] if room >= 0 else w.inside[here, A]
                r, k = choose(g, w, A, i, j, side, uniform(state) * total)
                pool[c] = (r << SHIFT) | (k - i)
            c += 1
            rules = g.first[A + 1] - g.first[A]
            if rules > 1:
                ratio *= (s.rules[r] + 1.0) / (s.rules_of[A] + rules) / w.prob[r]
            s.rules[r] += 1
            s.rules_of[A] += 1
            if g.right[r] >= 0:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.right[r], k, j
                depth += 1
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.left[r], i, k
            else:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = g.left[r], i, j
            depth += 1
        if not given:
            if q > 1:
                s.entries[who] = c - begun
            else:
                w.queue[0, 1] = c - begun  # the entries of the new analysis, which the owner may not take over
            s.used[POOL] = c
    for k in range(touched):
        s.added[w.touched[k]] = 0
    return ratio


@njit(cache=True, nogil=True)
def choose(g: Grammar, w: Work, A: int, i: int, j: int, side: int, left: float) -> tuple[int, int]:
    """A rule of A for the span, and where it cuts it: the weights up to it come to ``left``."""
    here, rule, cut = i * side + j, -1, 0
    for r in range(g.first[A], g.first[A + 1]):
        p = w.prob[r]
        if g.right[r] < 0:
            x = p * w.inside[here, g.left[r]]
            if x > 0.0:
                rule, cut = r, i
                left -= x
                if left < 0.0:
                    return rule, cut
            continue
        for k in range(i + 1, j):
            x = p * w.inside[i * side + k, g.left[r]] * w.inside[k * side + j, g.right[r]]
            if x > 0.0:
                rule, cut = r, k
                left -= x
                if left < 0.0:
                    return rule, cut
    return rule, cut  # rounding: the last one that can be
