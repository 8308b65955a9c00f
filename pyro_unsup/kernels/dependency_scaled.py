"""Inside-outside over the dependency trees of a sentence, in scaled real space.

Every word has one arc above it and stops twice, whatever the tree. So one factor a word and one a stop, chosen for each
sentence, keep all numbers small: the best arc above a word becomes 4/27, the better way to stop 1, and then no sum over
the ways to build a half exceeds 1, because there are fewer than (27/4)^m trees with m arcs. Nothing overflows, and what
underflows was below ``tiny`` (the smallest normal number): it would have added at most ``tiny`` times its outside
weight, as a share of the total. Hence, if no outside weight exceeds a limit, the share lost is below ``tiny * limit``
a number, far under the rounding error. A sentence that breaks the limit is done again in log space
(:mod:`.dependency_log`).

The recursion is that of :class:`pyro_unsup.distributions.Dependency`. Charts that inner loops run
through by the last word of a half are kept the other way round, as [last, first], so that all loops run along rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .limits import FAST

Array = np.ndarray[Any, Any]

ARC = 4 / 27


@njit(cache=True, nogil=True)
def fill_arcs(
    root: Array,  # (K,) log-weights
    attach: Array,  # (K, 2, K)
    arcs: Array,  # (cells,) or empty
    tags: Array,  # (n,) of this sentence
    cell: int,  # its first cell
    arc: Array,  # (n, n + 1) out: by child and head, head 0 being the root
) -> None:
    """The log-weights of all arcs of a sentence."""
    n = len(tags)
    for c in range(n):
        arc[c, 0] = root[tags[c]]
        for h in range(n):
            arc[c, h + 1] = -np.inf if h == c else attach[tags[h], int(h < c), tags[c]]
        if len(arcs) > 0:
            for h in range(n + 1):
                arc[c, h] += arcs[cell + c * (n + 1) + h]


@njit(cache=True, nogil=True, fastmath=FAST)
def scaled_pass(
    root: Array,  # (K,) log-weights
    attach: Array,  # (K, 2, K) log-weights, the better way to continue included
    ends: Array,  # (K, 2, 2, 2) by head, direction, adjacency, decision: real, as a share of the better adjacency
    stops: Array,  # (K,) log-weight of the better ways to stop, left and right together
    arcs: Array,  # (cells,) log-weights, or empty
    tags: Array,  # (tokens,)
    types: Array,  # (tokens,) the row of ``ends`` and ``stops`` that each word has
    offsets: Array,  # (B + 1,) of the tokens
    corners: Array,  # (B + 1,) of the cells
    first: int,  # which sentences
    last: int,
    limit: float,
    scale: Array,  # (B,) how much the counts of each sentence weigh; empty if only log Z is wanted
    log_z: Array,  # (B,) out
    trouble: Array,  # (B,) out: do this one again in log space
    n_root: Array,  # (K,) added to
    n_attach: Array,  # (K, 2, K) added to
    n_stop: Array,  # (K, 2, 2, 2) added to
    marginals: Array,  # (cells,) out, or empty
    decisions: Array,  # (tokens, 2, 2, 2) out, or empty: how often each word is expected to decide so
) -> None:
    N = 0
    for b in range(first, last):
        N = max(N, offsets[b + 1] - offsets[b])
    arc = np.empty((N, N + 1))
    chart, outer = np.empty((8, N, N)), np.empty((8, N, N))  # inside sums, and outside sums of the same
    right, right_back, right_open, right_half = chart[0], chart[1], chart[2], chart[3]
    left, left_back, left_open_back, left_half_back = chart[4], chart[5], chart[6], chart[7]
    o_right, o_right_back, o_right_open, o_right_half = outer[0], outer[1], outer[2], outer[3]
    o_left, o_left_back, o_left_open_back, o_left_half_back = outer[4], outer[5], outer[6], outer[7]
    decided = np.empty((N, 2, 2, 2))

    for b in range(first, last):
        at, cell = offsets[b], corners[b]
        n = offsets[b + 1] - at
        log_z[b] = 0.0
        trouble[b] = False
        if n == 0:
            continue
        words, kinds = tags[at : at + n], types[at : at + n]
        fill_arcs(root, attach, arcs, words, cell, arc)
        shift = 0.0
        for c in range(n):
            top = -np.inf
            for h in range(n + 1):
                top = max(top, arc[c, h])
            if top > -np.inf:
                shift += top
                for h in range(n + 1):
                    arc[c, h] = np.exp(arc[c, h] - top) * ARC
            else:
                arc[c, : n + 1] = 0.0
            end = ends[kinds[c]]
            shift += stops[kinds[c]]
            right[c, c] = right_back[c, c] = end[1, 0, 0]
            right_open[c, c] = end[1, 0, 1]
            left[c, c] = left_back[c, c] = end[0, 0, 0]
            left_open_back[c, c] = end[0, 0, 1]

        for w in range(1, n):
            for i in range(n - w):
                j = i + w
                to_right, to_left = 0.0, 0.0
                for k in range(i, j):
                    to_right += right_open[i, k] * left_back[j, k + 1]
                    to_left += right[i, k] * left_open_back[j, k + 1]
                right_half[i, j] = to_right * arc[j, i + 1]
                left_half_back[j, i] = to_left * arc[i, j + 1]
                to_right, to_left = 0.0, 0.0
                for k in range(i, j):
                    to_right += right_half[i, k + 1] * right_back[j, k + 1]
                    to_left += left[i, k] * left_half_back[j, k]
                from_i, from_j = ends[kinds[i], 1, 1], ends[kinds[j], 0, 1]
                right[i, j] = right_back[j, i] = to_right * from_i[0]
                right_open[i, j] = to_right * from_i[1]
                left[i, j] = left_back[j, i] = to_left * from_j[0]
                left_open_back[j, i] = to_left * from_j[1]
        total = 0.0
        for r in range(n):
            total += arc[r, 0] * left[0, r] * right_back[n - 1, r]
        if not (total > 1 / limit) or not (shift > -np.inf):
            trouble[b] = True
            continue
        log_z[b] = shift + np.log(total) - n * np.log(ARC)
        if len(scale) == 0:
            continue

        outer[:, :n, :n] = 0.0
        decided[:n] = 0.0
        worst = 0.0
        for r in range(n):
            around = arc[r, 0] / total
            o_left[0, r] = around * right_back[n - 1, r]
            o_right_back[n - 1, r] = around * left[0, r]
            arc[r, 0] = o_left[0, r] * left[0, r]  # from here on, arcs become their posteriors
        for w in range(n - 1, 0, -1):
            for i in range(n - w):
                j = i + w
                sealed, opened = o_right[i, j] + o_right_back[j, i], o_right_open[i, j]
                worst = max(worst, sealed, opened)
                decided[i, 1, 1, 0] += sealed * right[i, j]
                decided[i, 1, 1, 1] += opened * right_open[i, j]
                from_i, from_j = ends[kinds[i], 1, 1], ends[kinds[j], 0, 1]
                mass = sealed * from_i[0] + opened * from_i[1]
                for k in range(i + 1, j + 1):
                    o_right_half[i, k] += mass * right_back[j, k]
                    o_right_back[j, k] += mass * right_half[i, k]
                sealed, opened = o_left[i, j] + o_left_back[j, i], o_left_open_back[j, i]
                worst = max(worst, sealed, opened)
                decided[j, 0, 1, 0] += sealed * left[i, j]
                decided[j, 0, 1, 1] += opened * left_open_back[j, i]
                mass = sealed * from_j[0] + opened * from_j[1]
                for k in range(i, j):
                    o_left_half_back[j, k] += mass * left[i, k]
                    o_left[i, k] += mass * left_half_back[j, k]
                worst = max(worst, o_right_half[i, j], o_left_half_back[j, i])
                mass, other = o_right_half[i, j] * arc[j, i + 1], o_left_half_back[j, i] * arc[i, j + 1]
                for k in range(i, j):
                    o_right_open[i, k] += mass * left_back[j, k + 1]
                    o_left_back[j, k + 1] += mass * right_open[i, k]
                    o_right[i, k] += other * left_open_back[j, k + 1]
                    o_left_open_back[j, k + 1] += other * right[i, k]
                arc[j, i + 1] = o_right_half[i, j] * right_half[i, j]
                arc[i, j + 1] = o_left_half_back[j, i] * left_half_back[j, i]
        for i in range(n):
            decided[i, 1, 0, 0] = (o_right[i, i] + o_right_back[i, i]) * right[i, i]
            decided[i, 1, 0, 1] = o_right_open[i, i] * right_open[i, i]
            decided[i, 0, 0, 0] = (o_left[i, i] + o_left_back[i, i]) * left[i, i]
            decided[i, 0, 0, 1] = o_left_open_back[i, i] * left_open_back[i, i]
        if not (worst <= limit):
            trouble[b] = True
            continue
        count(words, kinds, at, cell, scale[b], arc, decided, n_root, n_attach, n_stop, marginals, decisions)


@njit(cache=True, nogil=True)
def count(
    words: Array,  # (n,)
    kinds: Array,  # (n,)
    at: int,  # first token
    cell: int,  # first cell
    scale: float,
    arc: Array,  # (n, n + 1) posteriors
    decided: Array,  # (n, 2, 2, 2) expected decisions
    n_root: Array,  # (K,) added to
    n_attach: Array,  # (K, 2, K) added to
    n_stop: Array,  # (K, 2, 2, 2) added to
    marginals: Array,  # (cells,) out, or empty
    decisions: Array,  # (tokens, 2, 2, 2) out, or empty
) -> None:
    """Put what is expected of one sentence where it belongs."""
    n = len(words)
    for c in range(n):
        tag = words[c]
        n_root[tag] += scale * arc[c, 0]
        for h in range(n):
            if h != c:
                n_attach[words[h], int(h < c), tag] += scale * arc[c, h + 1]
        for side in range(2):
            for adjacency in range(2):
                for decision in range(2):
                    n_stop[kinds[c], side, adjacency, decision] += scale * decided[c, side, adjacency, decision]
    if len(marginals) > 0:
        for c in range(n):
            for h in range(n + 1):
                marginals[cell + c * (n + 1) + h] = min(arc[c, h], 1.0)
        decisions[at : at + n] = decided[:n]
