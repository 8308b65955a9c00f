"""First-order chains in which every observation has weights of its own: time series.

Forwards and backwards are two passes that do not know of each other, so that one long series keeps two threads busy.
Messages forwards, a, sum to 1; those backwards, b, have a largest number of 1. With the weights e of an observation and
the norm c by which its forward message was divided,

    a_t = (a_{t-1} T) e_t / c_t          b_t = T (e_{t+1} b_{t+1}) / its largest

    P(z_t = k)              = a_t[k] b_t[k] / d_t                    d_t = a_t . b_t
    P(z_{t-1} = i, z_t = j) = a_{t-1}[i] T[i, j] e_t[j] b_t[j] / (c_t d_t)

A product that underflows on the way was below the least number before a message was divided by its norm. So it would
have added at most that number over the norm to a d. If no d times its norms, forwards and backwards, is below the limit
of :mod:`.limits`, nothing that matters was lost. Else the series is done again in logs. A path must not be lost in both
directions, where no d would tell of it: what is possible backwards is never below the least number of :mod:`.limits`.
"""

from __future__ import annotations

import math

import numpy as np

from .exp_log import exp_possible
from .limits import leads_on
from .ring import TINY, compiled


@compiled
def scaled(logs, out):  # (n,) -> (n,)
    """Real weights with a maximum of 1. What is possible never becomes zero. Gives the log of what was divided out."""
    top = -np.inf
    for x in logs:
        top = max(top, x)
    top = top if top > -np.inf else 0.0
    for k in range(len(logs)):
        found = math.exp(logs[k] - top)
        out[k] = TINY if found < TINY and logs[k] > -np.inf else found
    return top


@compiled
def less_the_highest(emit, first, last, out, top):  # (N, K), rows first .. last -> (N, K), (N,)
    """Log-weights of observations, and what was taken off them so that the highest of each is 0."""
    K = emit.shape[1]
    for t in range(first, last):
        highest = -np.inf
        for k in range(K):
            highest = max(highest, emit[t, k])
        highest = highest if highest > -np.inf else 0.0
        top[t] = highest
        for k in range(K):
            out[t, k] = emit[t, k] - highest


@compiled
def forward_series(
    start,  # (K,) real weights
    trans,  # (1, K, K), or (N, K, K) for each position that it leads to; (old, new)
    emit,  # (N, K)
    offsets,  # (B + 1,)
    first,  # series first .. last
    last,
    limit,
    ahead,  # (N, K) out
    norm,  # (N,) out
    log_z,  # (B,) out, without what was divided out of the weights and without the end
    trouble,  # (B,) out
):
    K, varies = len(start), len(trans) > 1
    zero = start.dtype.type(0.0)
    for s in range(first, last):
        z, product = 0.0, 1.0
        trouble[s] = False
        for t in range(offsets[s], offsets[s + 1]):
            new, weights = ahead[t], emit[t]
            if t == offsets[s]:
                for c in range(K):
                    new[c] = start[c]
            else:
                old, table = ahead[t - 1], trans[t if varies else 0]
                for c in range(K):
                    new[c] = zero
                for b in range(K):
                    mass, edges = old[b], table[b]
                    for c in range(K):
                        new[c] += mass * edges[c]
            whole = zero
            for c in range(K):
                new[c] *= weights[c]
                whole += new[c]
            if not (whole > 1 / limit):
                trouble[s] = True
                break
            norm[t] = whole
            shrink = 1 / whole
            for c in range(K):
                new[c] *= shrink
            more = product * whole
            if not (2.0**-500 < more < 2.0**500):
                z += math.log(product)
                more = float(whole)
            product = more
        log_z[s] = z + math.log(product)


@compiled
def backward_series(trans, stop, emit, offsets, first, last, limit, least, back, tops, trouble):
    """Messages backwards, (N, K), and the largest number of each before it was made 1, (N,)."""
    K, varies = trans.shape[1], len(trans) > 1
    zero, reach = trans.dtype.type(0.0), np.empty(K, trans.dtype)
    for s in range(first, last):
        trouble[s] = False
        for t in range(offsets[s + 1] - 1, offsets[s] - 1, -1):
            here, most = back[t], zero
            if t == offsets[s + 1] - 1:
                for b in range(K):
                    here[b] = stop[b]
                    most = max(most, here[b])
            else:
                table, weights, later = trans[t + 1 if varies else 0], emit[t + 1], back[t + 1]
                for c in range(K):
                    reach[c] = weights[c] * later[c]
                for b in range(K):
                    mass, edges = zero, table[b]
                    for c in range(K):
                        mass += edges[c] * reach[c]
                    if mass < least and leads_on(edges, weights, later):
                        mass = least
                    here[b] = mass
                    most = max(most, mass)
            if not (most > 1 / limit):
                trouble[s] = True
                break
            tops[t] = most
            shrink = 1 / most
            for b in range(K):
                here[b] *= shrink


@compiled
def count_series(
    emit,
    stop,
    offsets,
    first,
    last,
    begin,  # positions begin .. end of these series
    end,
    scale,  # (B,)
    limit,
    ahead,
    norm,
    tops,
    back,  # in the end the posterior of the states
    log_z,
    trouble,  # series that had trouble are left alone, and those that get into it here are marked
    n_start,  # (K,) added to
    n_trans,  # (1, K, K) added to, or (N, K, K) out; still to be multiplied by trans
    n_stop,  # (K,) added to
):
    K, varies = emit.shape[1], len(n_trans) > 1
    reach, own = np.empty(K, emit.dtype), np.empty((K, K))
    for s in range(first, last):
        a, b = max(offsets[s], begin), min(offsets[s + 1], end)
        if trouble[s] or a >= b:
            continue
        own[:] = 0.0  # apart from those of other series, until it is known that there is no trouble
        for t in range(b - 1, a - 1, -1):
            whole = emit.dtype.type(0.0)
            for k in range(K):
                whole += ahead[t, k] * back[t, k]
            if not (whole * min(norm[t], tops[t]) > 1 / limit):
                trouble[s] = True
                break
            if t == offsets[s + 1] - 1:
                total = emit.dtype.type(0.0)
                for k in range(K):
                    total += ahead[t, k] * stop[k]
                log_z[s] += math.log(total)
            shrink = scale[s] / whole
            if t > offsets[s]:
                factor = shrink / norm[t]
                for c in range(K):
                    reach[c] = emit[t, c] * back[t, c] * factor
                steps = n_trans[t] if varies else own
                for i in range(K):
                    mass = ahead[t - 1, i]
                    for c in range(K):
                        steps[i, c] += mass * reach[c]
            for k in range(K):
                back[t, k] *= ahead[t, k] * shrink
        if trouble[s]:
            continue
        for k in range(K):
            if a == offsets[s]:
                n_start[k] += back[a, k]
            if b == offsets[s + 1]:
                n_stop[k] += back[b - 1, k]
            if not varies:
                for c in range(K):
                    n_trans[0, k, c] += own[k, c]


@compiled
def sum_series(
    start, trans, stop, emit, offsets, scale, limit, least, work, log_z, n_start, n_trans, n_stop, states, trouble
):
    """All of the above on one thread, from log-weights. Small data come often: they should cost one call.

    :param work: (N (2 K + 3),) room for messages.
    :param states: (N, K) out: the posterior of the states.
    :param trouble: (B,) out: series that had trouble. All else is right for the others only.
    :return: how many had trouble.
    """
    (N, K), B = emit.shape, len(offsets) - 1
    real_start, real_trans, real_stop = np.empty(start.shape), np.empty(trans.shape), np.empty(stop.shape)
    start_top = scaled(start, real_start)
    trans_top = scaled(trans.reshape(-1), real_trans.reshape(-1))
    stop_top = scaled(stop, real_stop)
    rows, ahead = work[: N * K].reshape(N, K), work[N * K : 2 * N * K].reshape(N, K)
    top, norm, tops = (
        work[2 * N * K : 2 * N * K + N],
        work[2 * N * K + N : 2 * N * K + 2 * N],
        work[2 * N * K + 2 * N :],
    )
    less_the_highest(emit, 0, N, rows, top)
    exp_possible(work[: N * K])  # side by side, so that several are done at a time
    other = np.empty(B, np.bool_)
    forward_series(real_start, real_trans, rows, offsets, 0, B, limit, ahead, norm, log_z, trouble)
    backward_series(real_trans, real_stop, rows, offsets, 0, B, limit, least, states, tops, other)
    for s in range(B):
        trouble[s] |= other[s]
    where = (ahead, norm, tops, states, log_z, trouble, n_start, n_trans, n_stop)
    count_series(rows, real_stop, offsets, 0, B, 0, N, scale, limit, *where)
    n_trans *= real_trans
    add_tops(start_top, trans_top, stop_top, top, offsets, log_z)
    return trouble.sum()


@compiled
def sum_points(start, stop, emit, scale, first, last, states, log_z, n):
    """The same for series of one observation each, first .. last, as those of a mixture. Nothing can get lost here.

    :param n: (K,) added to: counts of starts, and of stops.
    """
    K, block = emit.shape[1], 64
    both = start + stop
    for begin in range(first, last, block):
        end = min(begin + block, last)
        for s in range(begin, end):
            highest = -np.inf
            for k in range(K):
                states[s, k] = both[k] + emit[s, k]
                highest = max(highest, states[s, k])
            log_z[s] = highest
            highest = highest if highest > -np.inf else 0.0
            for k in range(K):
                states[s, k] -= highest
        exp_possible(states[begin:end].reshape(-1))  # side by side, so that several are done at a time
        for s in range(begin, end):
            whole = 0.0
            for k in range(K):
                whole += states[s, k]
            if not whole > 0.0:  # impossible, or no number
                continue
            log_z[s] += math.log(whole)
            share = scale[s] / whole
            for k in range(K):
                states[s, k] *= share
                n[k] += states[s, k]


@compiled
def are_points(offsets):
    """Whether every series has one observation."""
    for s in range(len(offsets)):  # noqa: SIM110 (compiled code has no generators)
        if offsets[s] != s:
            return False
    return True


@compiled
def add_tops(start, trans, stop, top, offsets, log_z):
    """Add the logs of what was divided out of weights; ``top``, (N,), are those of the observations."""
    for s in range(len(log_z)):
        T = offsets[s + 1] - offsets[s]
        if T == 0:
            log_z[s] = 0.0
            continue
        more = start + stop + (T - 1) * trans
        for t in range(offsets[s], offsets[s + 1]):
            more += top[t]
        log_z[s] += more


@compiled
def forward_is_certain(start, trans, emit, offsets, ahead):  # real weights, and messages that sum to 1
    """Whether forward messages alone can be trusted: no weight and no message was so small that it was cut.

    What is lost here cannot be told by messages backwards, for those are not looked at.
    """
    K, varies, least = emit.shape[1], len(trans) > 1, 2 * TINY
    for x in start:
        if 0.0 < x <= least:
            return False
    for table in trans:
        for b in range(K):
            for c in range(K):
                if 0.0 < table[b, c] <= least:
                    return False
    for s in range(len(offsets) - 1):
        for t in range(offsets[s], offsets[s + 1]):
            for c in range(K):
                if 0.0 < emit[t, c] <= 4e-308:  # what exp cuts off
                    return False
                if ahead[t, c] > least or emit[t, c] == 0.0:
                    continue
                if t == offsets[s]:
                    if start[c] > 0.0:
                        return False
                    continue
                table = trans[t if varies else 0]
                for b in range(K):
                    if ahead[t - 1, b] > 0.0 and table[b, c] > 0.0:
                        return False
    return True


@compiled
def log_series(
    start,  # (K,) logs
    trans,  # (1 or N, K, K)
    stop,  # (K,)
    emit,  # (N, K)
    offsets,
    todo,  # which series
    scale,
    want_counts,
    log_z,  # (B,) out
    n_start,
    n_trans,  # added to, or out
    n_stop,
    states,  # (N, K) out: the posterior of the states
):
    """The same in logs. A series of weight zero has log Z = -inf and no counts."""
    K, varies = len(start), len(trans) > 1
    longest = 0
    for s in todo:
        longest = max(longest, offsets[s + 1] - offsets[s])
    ahead, back, terms = np.empty((longest, K)), np.empty(K), np.empty(K)
    reach = np.empty(K)
    for s in todo:
        begin, T = offsets[s], offsets[s + 1] - offsets[s]
        for t in range(T):
            for c in range(K):
                if t == 0:
                    ahead[t, c] = start[c] + emit[begin, c]
                    continue
                for b in range(K):
                    terms[b] = ahead[t - 1, b] + trans[begin + t if varies else 0, b, c]
                ahead[t, c] = log_sum(terms) + emit[begin + t, c]
        for k in range(K):
            terms[k] = ahead[T - 1, k] + stop[k]
            back[k] = stop[k]
        z = log_sum(terms)
        log_z[s] = z
        if not want_counts:
            continue
        if z == -np.inf:
            states[begin : begin + T] = 0.0
            continue
        for t in range(T - 1, -1, -1):
            for k in range(K):
                p = scale[s] * math.exp(ahead[t, k] + back[k] - z)
                states[begin + t, k] = p
                if t == 0:
                    n_start[k] += p
                if t == T - 1:
                    n_stop[k] += p
            if t == 0:
                break
            table = trans[begin + t if varies else 0]
            for c in range(K):
                reach[c] = emit[begin + t, c] + back[c]
            for b in range(K):
                for c in range(K):
                    terms[c] = table[b, c] + reach[c]
                    n_trans[begin + t if varies else 0, b, c] += scale[s] * math.exp(ahead[t - 1, b] + terms[c] - z)
                back[b] = log_sum(terms)


@compiled
def log_sum(terms):  # (n,)
    top = -np.inf
    for x in terms:
        top = max(top, x)
    if top == -np.inf:
        return top
    rest = 0.0
    for x in terms:
        rest += math.exp(x - top)
    return top + math.log(rest)


@compiled
def decode_series(start, trans, stop, emit, offsets, first, last, uniforms, states):
    """The best states of each series, or drawn ones if there are uniform numbers, (N,); -1 where it is impossible."""
    K, varies, draw = len(start), len(trans) > 1, len(uniforms) > 0
    longest = 0
    for s in range(first, last):
        longest = max(longest, offsets[s + 1] - offsets[s])
    ahead, terms = np.empty((longest, K)), np.empty(K)
    for s in range(first, last):
        begin, T = offsets[s], offsets[s + 1] - offsets[s]
        if T == 0:
            continue
        for t in range(T):
            for c in range(K):
                if t == 0:
                    ahead[t, c] = start[c] + emit[begin, c]
                    continue
                for b in range(K):
                    terms[b] = ahead[t - 1, b] + trans[begin + t if varies else 0, b, c]
                ahead[t, c] = (log_sum(terms) if draw else terms.max()) + emit[begin + t, c]
        for k in range(K):
            terms[k] = ahead[T - 1, k] + stop[k]
        if terms.max() == -np.inf:
            states[begin : begin + T] = -1
            continue
        for t in range(T - 1, -1, -1):
            chosen = 0
            if draw:
                top, whole = terms.max(), 0.0
                for k in range(K):
                    whole += math.exp(terms[k] - top)
                left = uniforms[begin + t] * whole
                for k in range(K):
                    p = math.exp(terms[k] - top)
                    if p > 0:
                        chosen = k
                    left -= p
                    if left < 0:
                        break
            else:
                for k in range(1, K):
                    if terms[k] > terms[chosen]:
                        chosen = k
            states[begin + t] = chosen
            if t > 0:
                for b in range(K):
                    terms[b] = ahead[t - 1, b] + trans[begin + t if varies else 0, b, chosen]
