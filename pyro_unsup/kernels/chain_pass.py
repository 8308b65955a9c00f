"""The chain of first or second order over the states that each word allows: one recursion, for sums in real numbers and
in logs, for draws, and for the best states.

The message at position t lives on pairs (a, b): b ranges over the states allowed at t, and a over those at t - 1
(second order), over the start pad (position 0), or over nothing (first order: one dummy a = 0). The next message is

    first order    new[0, c] = emit[c] * sum_b  old[0, b] * trans[0, b, c]
    second order   new[b, c] = emit[c] * sum_a  old[a, b] * trans[a, b, c]

so that a step costs the product of the supports it joins, never K cubed.

Every message forwards is divided by its norm, however long the sequence: by its sum in real numbers, which is what the
certificate of :mod:`.limits` asks for; by its largest weight in logs, where that only saves digits. Messages backwards
are divided by the same norms, so that their products with those forwards add up to 1.
"""

from __future__ import annotations

import math

import numpy as np

from .choice import choose
from .ring import LOG, MAX, REAL, add, as_log, as_real, compiled, inverse, longest_of, plus, times, total

#: The product of norms stays in this range, far from the ends of float64: so no digit is lost.
LOW, HIGH = 2.0**-500, 2.0**500

# In real numbers, messages are of the dtype of the weights. Sums over many terms that go into one number are then
# written out, as a number that is added up in float64 would slow them down.


@compiled
def message_sizes(second, tokens, support_at, words, begin, at):  # at: (T + 1,) out
    """Lay the messages of one sequence end to end; ``at[t]`` is where the message of position t begins."""
    at[0] = 0
    before = 1
    for t in range(tokens):
        w = words[begin + t]
        here = support_at[w + 1] - support_at[w]
        at[t + 1] = at[t] + (before if second else 1) * here
        before = here


@compiled
def room_for(second, support_at, words, offsets, todo):
    """The length of the longest sequence, and the cells of the messages that take the most room."""
    T, cells = longest_of(offsets, todo), 0
    at = np.empty(T + 1, np.int64)
    for s in todo:
        message_sizes(second, offsets[s + 1] - offsets[s], support_at, words, offsets[s], at)
        cells = max(cells, at[offsets[s + 1] - offsets[s]])
    return T, cells


@compiled
def pairs_at(second, K, support_at, words, begin, t):
    """Where the states b of position t begin in the support, and how many there are; where the states a begin, and how
    many; and the state that stands for all a, -1 if there is none."""
    w = words[begin + t]
    s0, nb = support_at[w], support_at[w + 1] - support_at[w]
    if not second:
        return s0, nb, 0, 1, 0
    if t == 0:
        return s0, nb, 0, 1, K
    v = words[begin + t - 1]
    return s0, nb, support_at[v], support_at[v + 1] - support_at[v], -1


def forward_pass(mode):
    """The way forwards through one sequence."""

    @compiled
    def forward(
        start,  # (K,) weights; real ones are such that the largest of each table is 1
        trans,  # (1, K, K) first order; (K + 1, K, K) second order, the last block being that of the start pad
        support_at,  # (V + 1,) range of each word in the next two
        support,  # (cells,) states
        emit,  # (cells,) their weights
        emit_top,  # (V,) what was divided out, in logs
        words,  # (tokens,)
        begin,  # of the sequence
        T,
        limit,
        at,  # (T + 1,) out: where messages begin
        ahead,  # out: the messages
        tops,  # as ahead, out: the largest terms of sums in logs
        norm,  # (T,) out
    ):
        """log of all norms together; -inf where the sequence is impossible, or beyond the limit of real numbers."""
        K, second, z, product = len(start), len(trans) > 1, 0.0, 1.0
        nothing = start.dtype.type(0.0)
        message_sizes(second, T, support_at, words, begin, at)
        for t in range(T):
            s0, nc, _, _, _ = pairs_at(second, K, support_at, words, begin, t)
            new, weights = ahead[at[t] : at[t + 1]], emit[s0 : s0 + nc]
            if t == 0:
                for c in range(nc):
                    new[c] = start[support[s0 + c]]
            else:
                old = ahead[at[t - 1] : at[t]]
                for k in range(len(new)):
                    new[k] = -np.inf if mode == MAX else nothing
                    if mode == LOG:
                        tops[k] = -np.inf
                p0, nb, a0, na, pad = pairs_at(second, K, support_at, words, begin, t - 1)
                for a in range(na):
                    i = pad if pad >= 0 else support[a0 + a]
                    for b in range(nb):
                        mass, edges, row = old[a * nb + b], trans[i, support[p0 + b]], b * nc if second else 0
                        if nc == K and mode != LOG:  # all states: a loop that is vectorised
                            part = new[row : row + K]
                            for c in range(K):
                                part[c] = plus(mode, part[c], times(mode, mass, edges[c]))
                            continue
                        for c in range(nc):
                            step = times(mode, mass, edges[support[s0 + c]])
                            if mode == LOG:
                                tops[row + c], new[row + c] = add(mode, tops[row + c], new[row + c], step)
                            else:
                                new[row + c] = plus(mode, new[row + c], step)
                if mode == LOG:
                    for k in range(len(new)):
                        new[k] = total(mode, tops[k], new[k])
            whole = nothing if mode == REAL else -np.inf
            for row in range(0, len(new), max(nc, 1)):
                part = new[row : row + nc]
                for c in range(nc):
                    part[c] = times(mode, part[c], weights[c])
                    whole = whole + part[c] if mode == REAL else max(whole, part[c])
            if not (whole > 1 / limit if mode == REAL else whole > -np.inf):
                return -np.inf
            norm[t] = whole
            z += emit_top[words[begin + t]]
            if mode == REAL:  # a log of a product, as with few states one for every position is a good part of the time
                more = product * whole
                if not (LOW < more < HIGH):
                    z += math.log(product)
                    more = float(whole)
                product = more
            else:
                z += whole
            shrink = inverse(mode, norm[t])
            for k in range(len(new)):
                new[k] = times(mode, new[k], shrink)
        return z + math.log(product)

    return forward


forward_real, forward_log, forward_max = forward_pass(REAL), forward_pass(LOG), forward_pass(MAX)


@compiled
def stop_weights(stop, support_at, support, words, begin, T, out):  # out: as the last message
    """What the states of the last message weigh at the end."""
    s0, nb, a0, na, pad = pairs_at(len(stop) > 1, stop.shape[1], support_at, words, begin, T - 1)
    for a in range(na):
        i = pad if pad >= 0 else support[a0 + a]
        for b in range(nb):
            out[a * nb + b] = stop[i, support[s0 + b]]


@compiled
def keep_possible(trans, support_at, support, words, begin, t, least, back, onward):
    """Raise the messages backwards at t - 1 that are possible to a least value; those at t are given."""
    K, second = trans.shape[1], len(trans) > 1
    s0, nc, _, _, _ = pairs_at(second, K, support_at, words, begin, t)
    p0, nb, a0, na, pad = pairs_at(second, K, support_at, words, begin, t - 1)
    for a in range(na):
        i = pad if pad >= 0 else support[a0 + a]
        for b in range(nb):
            edges, row = trans[i, support[p0 + b]], b * nc if second else 0
            for c in range(nc):
                if back[a * nb + b] < least and edges[support[s0 + c]] > 0 and onward[row + c] > 0:
                    back[a * nb + b] = least


def sum_pass(mode):
    """log Z and counts. In logs a sequence of weight zero has log Z = -inf and no counts."""

    @compiled
    def run(
        start,
        trans,
        stop,  # (1, K) or (K + 1, K); ones where there is no stop event
        support_at,
        support,
        emit,
        emit_top,
        words,
        offsets,  # (B + 1,)
        todo,  # (n,) which sequences
        scale,  # (B,) how much the counts of each sequence weigh
        want_counts,
        limit,
        least,  # what a backward message is at least in real numbers, where it is possible
        log_z,  # (B,) out
        trouble,  # (B,) out: do this one again in logs
        n_start,  # (K,) float64, added to
        n_trans,  # as trans, float64, added to; real ones are still to be multiplied by trans
        n_stop,  # as stop, float64, added to
        n_emit,  # (cells,) float64, added to
    ):
        K, second = len(start), len(trans) > 1
        T, room = room_for(second, support_at, words, offsets, todo)
        at, norm, ahead = np.empty(T + 1, np.int64), np.empty(T, start.dtype), np.empty(room, start.dtype)
        back, pull = np.empty(room, start.dtype), np.empty(room if want_counts else 0, start.dtype)
        tops = np.empty(room if mode == LOG else 0)
        nothing = start.dtype.type(0.0)

        for s in todo:
            begin, T = offsets[s], offsets[s + 1] - offsets[s]
            log_z[s], trouble[s] = 0.0, False
            if T == 0:
                continue
            place = (words, begin, T, limit, at, ahead, tops, norm)
            if mode == REAL:
                z = forward_real(start, trans, support_at, support, emit, emit_top, *place)
            else:
                z = forward_log(start, trans, support_at, support, emit, emit_top, *place)
            top, rest = -np.inf, 0.0
            if z > -np.inf:
                stop_weights(stop, support_at, support, words, begin, T, back[at[T - 1] : at[T]])
                for k in range(at[T - 1], at[T]):
                    top, rest = add(mode, top, rest, times(mode, ahead[k], back[k]))
            whole = total(mode, top, rest)
            if mode == REAL and not (whole > 1 / limit):
                trouble[s] = True
                continue
            log_z[s] = z + as_log(mode, whole)
            if not want_counts or log_z[s] == -np.inf:
                continue
            for k in range(at[T - 1], at[T]):
                back[k] = times(mode, back[k], inverse(mode, whole))

            for t in range(T - 1, -1, -1):
                s0, nc, _, _, _ = pairs_at(second, K, support_at, words, begin, t)
                here, reach, weights = back[at[t] : at[t + 1]], pull[at[t] : at[t + 1]], emit[s0 : s0 + nc]
                shrink, most = inverse(mode, norm[t]), nothing
                for row in range(0, len(here), nc):
                    for c in range(nc):
                        scaled = times(mode, here[row + c], shrink)
                        most = max(most, scaled)
                        reach[row + c] = times(mode, scaled, weights[c])
                if mode == REAL and not (most <= limit):
                    trouble[s] = True
                    break
                if t == 0:
                    break
                p0, nb, a0, na, pad = pairs_at(second, K, support_at, words, begin, t - 1)
                for a in range(na):
                    i = pad if pad >= 0 else support[a0 + a]
                    for b in range(nb):
                        edges, row = trans[i, support[p0 + b]], b * nc if second else 0
                        mass, top, rest = nothing, -np.inf, 0.0
                        if mode == LOG:
                            for c in range(nc):
                                top, rest = add(mode, top, rest, edges[support[s0 + c]] + reach[row + c])
                            mass = total(mode, top, rest)
                        elif nc == K:
                            part = reach[row : row + K]
                            for c in range(K):
                                mass += edges[c] * part[c]
                        else:
                            for c in range(nc):
                                mass += edges[support[s0 + c]] * reach[row + c]
                        back[at[t - 1] + a * nb + b] = mass
                if mode == REAL:
                    low = 0
                    for k in range(at[t - 1], at[t]):
                        low += back[k] < least
                    if low > 0:
                        keep_possible(trans, support_at, support, words, begin, t, least, back[at[t - 1] : at[t]], here)
            if trouble[s]:
                continue
            used = (ahead, back, pull, scale[s], n_start, n_trans, n_stop, n_emit)
            if mode == REAL:
                count_real(trans, support_at, support, words, begin, T, at, *used)
            else:
                count_log(trans, support_at, support, words, begin, T, at, *used)

    return run


def count_pass(mode):
    """Turn the messages of one sequence into counts."""

    @compiled
    def count(
        trans,
        support_at,
        support,
        words,
        begin,
        T,
        at,  # (T + 1,)
        ahead,
        back,
        pull,  # as back, over the norm and times the emission
        scale,
        n_start,
        n_trans,
        n_stop,
        n_emit,
    ):
        K, second, weight = trans.shape[1], len(trans) > 1, ahead.dtype.type(scale)
        for t in range(T):
            s0, nb, a0, na, pad = pairs_at(second, K, support_at, words, begin, t)
            c0, nc, _, _, _ = pairs_at(second, K, support_at, words, begin, min(t + 1, T - 1))
            reach = pull[at[t + 1] : at[min(t + 2, T)]]  # none behind the last
            for a in range(na):
                i = pad if pad >= 0 else support[a0 + a]
                for b in range(nb):
                    j, mass = support[s0 + b], ahead[at[t] + a * nb + b]
                    p = as_real(mode, times(mode, mass, back[at[t] + a * nb + b])) * weight
                    n_emit[s0 + b] += p
                    if t == 0:
                        n_start[j] += p
                    if t == T - 1:
                        n_stop[i, j] += p
                        continue
                    steps, row = n_trans[i, j], b * nc if second else 0
                    if mode == LOG:
                        for c in range(nc):
                            k = support[c0 + c]
                            steps[k] += weight * math.exp(mass + trans[i, j, k] + reach[row + c])
                        continue
                    mass *= weight
                    if nc == K:
                        part = reach[row : row + K]
                        for c in range(K):
                            steps[c] += mass * part[c]
                    else:
                        for c in range(nc):
                            steps[support[c0 + c]] += mass * reach[row + c]

    return count


count_real, count_log = count_pass(REAL), count_pass(LOG)


def decode_pass(mode):
    """The best states of every sequence (MAX), or a draw of them (from sums in logs or in real numbers)."""

    @compiled
    def run(
        start,
        trans,
        stop,
        support_at,
        support,
        emit,
        emit_top,
        words,
        offsets,
        todo,
        uniforms,  # (tokens,); any, if the best are wanted
        states,  # (tokens,) out; -1 throughout a sequence that is impossible
    ):
        K, second = len(start), len(trans) > 1
        T, room = room_for(second, support_at, words, offsets, todo)
        at, norm = np.empty(T + 1, np.int64), np.empty(T)
        ahead, tops, terms = np.empty(room), np.empty(room if mode == LOG else 0), np.empty(max(room, 1))
        for s in todo:
            begin, T = offsets[s], offsets[s + 1] - offsets[s]
            if T == 0:
                continue
            place = (words, begin, T, np.inf, at, ahead, tops, norm)
            if mode == REAL:
                z = forward_real(start, trans, support_at, support, emit, emit_top, *place)
            elif mode == LOG:
                z = forward_log(start, trans, support_at, support, emit, emit_top, *place)
            else:
                z = forward_max(start, trans, support_at, support, emit, emit_top, *place)
            possible = z > -np.inf
            if possible:
                last = terms[: at[T] - at[T - 1]]
                stop_weights(stop, support_at, support, words, begin, T, last)
                for k in range(len(last)):
                    last[k] = times(mode, last[k], ahead[at[T - 1] + k])
                possible = last.max() > (0.0 if mode == REAL else -np.inf)
            if not possible:
                states[begin : begin + T] = -1
                continue
            _, nb, _, _, _ = pairs_at(second, K, support_at, words, begin, T - 1)
            a, b = divmod(choose(mode, last, 0.0 if mode == MAX else uniforms[begin + T - 1]), nb)
            for t in range(T - 1, -1, -1):
                j = states[begin + t] = support[support_at[words[begin + t]] + b]
                if t == 0:
                    break
                p0, nb, a0, na, pad = pairs_at(second, K, support_at, words, begin, t - 1)
                u = 0.0 if mode == MAX else uniforms[begin + t - 1]
                if second:  # (a, b) came from (o, a): which o
                    for o in range(na):
                        i = pad if pad >= 0 else support[a0 + o]
                        terms[o] = times(mode, ahead[at[t - 1] + o * nb + a], trans[i, support[p0 + a], j])
                    b, a = a, choose(mode, terms[:na], u)
                else:  # which b came before b
                    for o in range(nb):
                        terms[o] = times(mode, ahead[at[t - 1] + o], trans[0, support[p0 + o], j])
                    b = choose(mode, terms[:nb], u)

    return run


sparse_pass, log_pass = sum_pass(REAL), sum_pass(LOG)
best_pass, draw_log_pass, draw_scaled_pass = decode_pass(MAX), decode_pass(LOG), decode_pass(REAL)
