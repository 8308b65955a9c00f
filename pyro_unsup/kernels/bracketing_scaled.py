"""Inside-outside over the binary trees of a sentence, in scaled real space.

Every binary tree over n words has the same number of constituents, so one factor a constituent, chosen for each
sentence, keeps all numbers small: the largest weight becomes 1/4, and then no sum over the trees of a span exceeds 1,
because Catalan(m) < 4^m. Nothing overflows, and what underflows was below ``tiny`` (the smallest normal number): it
would have added at most ``tiny`` times the outside weight of its span, as a share of the total. Hence, if no outside
weight exceeds a limit, the share lost is below ``tiny * limit`` a span, far under the rounding error. A sentence that
breaks the limit is done again in log space (:mod:`.bracketing_log`).

Spans of a sentence lie by width, then by start: (0,1) (1,2) .. (0,2) (1,3) .. (0,n).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .limits import FAST

Array = np.ndarray[Any, Any]

LOG_4 = float(np.log(4.0))


@njit(cache=True, nogil=True)
def within(spans: Array, yields: int, contexts: int) -> bool:  # (spans, 2)
    """Whether all yields and contexts exist; one look at each is faster than a general search for the extremes."""
    fine = True
    for s in range(len(spans)):
        fine &= 0 <= spans[s, 0] < yields and 0 <= spans[s, 1] < contexts
    return fine


@njit(cache=True, nogil=True)
def log_ratios(
    yields: Array,  # (Y, 2) log-weights as distituent, as constituent
    contexts: Array,  # (X, 2)
    node: Array,  # (W + 1,)
    spans: Array,  # (spans, 2) yield and context of each
    at: int,  # first span of the sentence
    n: int,  # words, at least 1
    ratio: Array,  # (n (n + 1) / 2,) out
) -> tuple[float, float, bool]:
    """What each constituent multiplies the weight of a tree by, in logs.

    A span that every tree has (one word, all words) goes into the part that trees share. A span that cannot be a
    distituent must be in the tree. Trees without it are those that have a span across it: those spans get -inf.

    :return: the log-weight that all trees share, the largest ratio, and whether some span must be in the tree.
    """
    shared, top, forced = 0.0, -np.inf, False
    m = 0
    for w in range(1, n + 1):
        for _ in range(n - w + 1):
            y, x = spans[at + m, 0], spans[at + m, 1]
            inside = yields[y, 1] + contexts[x, 1]
            if w > 1:
                inside += node[w]
            ratio[m] = 0.0
            if w == 1 or w == n:
                shared += inside
            else:
                outside = yields[y, 0] + contexts[x, 0]
                ratio[m] = inside
                if outside == -np.inf:
                    forced = True
                else:
                    ratio[m] -= outside
                    shared += outside
                top = max(top, ratio[m])
            m += 1
    if forced:
        top = _forbid_crossing(yields, contexts, spans, at, n, ratio)
    return shared, top, forced


@njit(cache=True, nogil=True)
def _forbid_crossing(yields: Array, contexts: Array, spans: Array, at: int, n: int, ratio: Array) -> float:
    m = n
    for w in range(2, n):
        for a in range(n - w + 1):
            b = a + w
            if yields[spans[at + m, 0], 0] + contexts[spans[at + m, 1], 0] == -np.inf:
                k = n
                for v in range(2, n):
                    for i in range(n - v + 1):
                        if i < a < i + v < b or a < i < b < i + v:
                            ratio[k] = -np.inf
                        k += 1
            m += 1
    top = -np.inf
    for k in range(n, m):
        top = max(top, ratio[k])
    return top


@njit(cache=True, nogil=True, fastmath=FAST)
def scaled_pass(
    yields: Array,  # (Y, 2) log-weights as distituent, as constituent
    contexts: Array,  # (X, 2)
    node: Array,  # (W + 1,)
    tree: Array,  # (W + 1,)
    spans: Array,  # (spans, 2)
    lengths: Array,  # (B,)
    offsets: Array,  # (B + 1,) of the spans
    first: int,  # which sentences
    last: int,
    limit: float,
    log_z: Array,  # (B,) out
    trouble: Array,  # (B,) out: do this one again in log space
    marginals: Array,  # (spans,) out; empty if only log Z is wanted
) -> None:
    longest = 0
    for b in range(first, last):
        longest = max(longest, lengths[b])
    ratio = np.empty(longest * (longest + 1) // 2)
    # Sums over the trees of span (i, j), once as [i, j] and once as [j, i], so that inner loops run along rows.
    inside = np.empty((longest + 1, longest + 1))
    mirror = np.empty((longest + 1, longest + 1))
    # Outside sums, with the weight of the span itself.
    around = np.empty((longest + 1, longest + 1))
    around_mirror = np.empty((longest + 1, longest + 1))

    for b in range(first, last):
        n, at = lengths[b], offsets[b]
        log_z[b] = 0.0
        trouble[b] = False
        if n == 0:
            continue
        shared, top, forced = log_ratios(yields, contexts, node, spans, at, n, ratio)
        shared += tree[n]
        shift = top + LOG_4 if top > -np.inf else 0.0
        for i in range(n):
            inside[i, i + 1] = 1.0
            mirror[i + 1, i] = 1.0
        m = n
        for w in range(2, n):
            for i in range(n - w + 1):
                j = i + w
                weight = np.exp(ratio[m] - shift)
                ratio[m] = weight
                total = 0.0
                for k in range(i + 1, j):
                    total += inside[i, k] * mirror[j, k]
                inside[i, j] = mirror[j, i] = total * weight
                m += 1
        total = 1.0 if n == 1 else 0.0
        for k in range(1, n):
            total += inside[0, k] * mirror[n, k]
        if not (total > 1 / limit) or not (shared > -np.inf):
            trouble[b] = True
            continue
        log_z[b] = shared + np.log(total) + max(n - 2, 0) * shift
        if len(marginals) == 0:
            continue

        around[0, n] = around_mirror[n, 0] = 1 / total
        worst = 0.0
        for w in range(n - 1, 1, -1):
            for i in range(n - w, -1, -1):
                m -= 1
                j = i + w
                mass = 0.0
                for k in range(i):
                    mass += around_mirror[j, k] * mirror[i, k]
                for k in range(j + 1, n + 1):
                    mass += around[i, k] * inside[j, k]
                worst = max(worst, mass)
                marginals[at + m] = min(mass * inside[i, j], 1.0)
                around[i, j] = around_mirror[j, i] = mass * ratio[m]
        if not (worst <= limit):
            trouble[b] = True
            continue
        settle(yields, contexts, spans, at, n, forced, marginals)


@njit(cache=True, nogil=True)
def settle(yields: Array, contexts: Array, spans: Array, at: int, n: int, forced: bool, marginals: Array) -> None:
    """Spans that must be in the tree are there for certain: rounding must not leave a count for what is impossible."""
    last = at + n * (n + 1) // 2 - 1
    marginals[at : at + n] = 1.0
    marginals[last] = 1.0
    if forced:
        for s in range(at + n, last):
            if yields[spans[s, 0], 0] + contexts[spans[s, 1], 0] == -np.inf:
                marginals[s] = 1.0


@njit(cache=True, nogil=True)
def count_pass(
    spans: Array,  # (spans, 2)
    lengths: Array,  # (B,)
    offsets: Array,  # (B + 1,) of the spans
    first: int,  # which sentences
    last: int,
    scale: Array,  # (B,) how much the counts of each sentence weigh
    marginals: Array,  # (spans,)
    n_yields: Array,  # (Y, 2) added to
    n_contexts: Array,  # (X, 2) added to
    n_node: Array,  # (W + 1,) added to
    n_tree: Array,  # (W + 1,) added to
) -> None:
    """Turn the posteriors of spans into counts of what they use."""
    for b in range(first, last):
        n, s = lengths[b], offsets[b]
        if n == 0 or scale[b] == 0:
            continue
        n_tree[n] += scale[b]
        for w in range(1, n + 1):
            for _ in range(n - w + 1):
                yes = marginals[s] * scale[b]
                no = scale[b] - yes
                n_yields[spans[s, 0], 1] += yes
                n_yields[spans[s, 0], 0] += no
                n_contexts[spans[s, 1], 1] += yes
                n_contexts[spans[s, 1], 0] += no
                if w > 1:
                    n_node[w] += yes
                s += 1
