"""Inside-outside over the headed binary trees of a sentence, in scaled real space.

There is one such tree for each dependency tree. It has one arc above every word, two stops a word, and one constituent
an arc, whatever the tree. So one factor a word, one a stop and one a constituent, chosen for each sentence, keep all
numbers small: the best arc above a word becomes 4/27, the better way to stop and the largest ratio of a constituent 1,
and then no sum over the ways to build a span exceeds 1, because there are fewer than (27/4)^m dependency trees with m
arcs. Why that is exact, and when a sentence is done again in log space (:mod:`.headed_bracketing_log`), is said in
:mod:`.dependency_scaled`.

The recursion is that of :class:`pyro_unsup.distributions.HeadedBracketing`. Words are
0 .. n - 1 and spans go between fenceposts 0 .. n; inner loops run along rows of heads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .bracketing_scaled import log_ratios, settle
from .dependency_scaled import ARC, fill_arcs
from .limits import FAST

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True)
def turn(arc: Array, ends: Array, ratio: Array, n: int) -> None:
    """A sentence in a mirror, in place: left for right. Twice is nothing.

    Heads take the children on their right first here; in a mirror they take those on their left first.

    :param arc: (n, n + 1) by child and head, the root first.
    :param ends: (n, 2, 2, 2) by head, direction, adjacency, decision.
    :param ratio: (n, n + 1) by fenceposts.
    """
    arc[:n, 0] = arc[:n, 0][::-1].copy()
    arc[:n, 1 : n + 1] = arc[:n, 1 : n + 1][::-1, ::-1].copy()
    ends[:n] = ends[:n][::-1, ::-1].copy()
    for i in range(n):
        for j in range(i + 1, n + 1):
            if i + j < n:
                ratio[i, j], ratio[n - j, n - i] = ratio[n - j, n - i], ratio[i, j]


@njit(cache=True, nogil=True)
def spread(flat: Array, n: int, grid: Array) -> None:
    """Numbers of spans that lie by width, then by start, as a grid by fenceposts."""
    m = 0
    for w in range(1, n + 1):
        for i in range(n - w + 1):
            grid[i, i + w] = flat[m]
            m += 1


@njit(cache=True, nogil=True)
def put(
    arc: Array,  # (n, n + 1) posteriors
    decided: Array,  # (n, 2, 2, 2) expected decisions
    span: Array,  # (n, n + 1) posteriors
    n: int,
    arcs: Array,  # (n (n + 1),) out
    decisions: Array,  # (n, 2, 2, 2) out
    spans: Array,  # (n (n + 1) / 2,) out
) -> None:
    """What is known of one sentence, where it belongs."""
    for c in range(n):
        for h in range(n + 1):
            arcs[c * (n + 1) + h] = min(arc[c, h], 1.0)
    decisions[:] = decided[:n]
    m = 0
    for w in range(1, n + 1):
        for i in range(n - w + 1):
            spans[m] = min(span[i, i + w], 1.0)
            m += 1


@njit(cache=True, nogil=True, fastmath=FAST)
def scaled_pass(
    root: Array,  # (K,) log-weights
    attach: Array,  # (K, 2, K) log-weights, the better way to continue included
    ends: Array,  # (K, 2, 2, 2) by head, direction, adjacency, decision: real, as a share of the better adjacency
    lost: Array,  # (K,) log-weight of the better ways to stop, left and right
    extra: Array,  # (cells,) log-weights of arcs, or empty
    yields: Array,  # (Y, 2) log-weights as distituent, as constituent
    contexts: Array,  # (X, 2)
    node: Array,  # (W + 1,)
    tree: Array,  # (W + 1,)
    tags: Array,  # (tokens,)
    types: Array,  # (tokens,) the row of ``ends`` and ``lost`` that each word has
    spans: Array,  # (spans, 2)
    offsets: Array,  # (B + 1,) of the tokens
    corners: Array,  # (B + 1,) of the cells
    edges: Array,  # (B + 1,) of the spans
    mirror: bool,  # children on the left first
    first: int,  # which sentences
    last: int,
    limit: float,
    log_z: Array,  # (B,) out
    trouble: Array,  # (B,) out: do this one again in log space
    arcs: Array,  # (cells,) out; empty if only log Z is wanted
    decisions: Array,  # (tokens, 2, 2, 2) out
    inside: Array,  # (spans,) out
) -> None:
    N = 0
    for b in range(first, last):
        N = max(N, offsets[b + 1] - offsets[b])
    flat, ratio, arc, stop = (
        np.empty(N * (N + 1) // 2),
        np.empty((N, N + 1)),
        np.empty((N, N + 1)),
        np.empty((N, 2, 2, 2)),
    )
    # By first fencepost, last fencepost and head. Of the first, the head is the first word.
    right, right_open = np.empty((N, N + 1)), np.empty((N, N + 1))
    left, left_open, full = np.empty((N, N + 1, N)), np.empty((N, N + 1, N)), np.empty((N, N + 1, N))
    below = np.empty((N, N + 1, N))  # a full span and the arc to it from a head outside of it
    o_right_open, o_left_open, o_below = np.empty((N, N + 1)), np.empty((N, N + 1, N)), np.empty((N, N + 1, N))
    o_full, o_left = np.empty(N), np.empty(N)
    posterior, decided, known = np.empty((N, N + 1)), np.empty((N, 2, 2, 2)), np.empty((N, N + 1))

    for b in range(first, last):
        at, cell, edge = offsets[b], corners[b], edges[b]
        n = offsets[b + 1] - at
        log_z[b] = 0.0
        trouble[b] = False
        if n == 0:
            continue
        words, kinds = tags[at : at + n], types[at : at + n]
        shift, top, forced = log_ratios(yields, contexts, node, spans, edge, n, flat)
        shift += tree[n]
        top = top if top > -np.inf else 0.0
        shift += top * max(n - 2, 0)
        for m in range(n, n * (n + 1) // 2 - 1):
            flat[m] = np.exp(flat[m] - top)
        flat[:n] = 1.0
        flat[n * (n + 1) // 2 - 1] = 1.0
        spread(flat, n, ratio)
        fill_arcs(root, attach, extra, words, cell, arc)
        for c in range(n):
            best = -np.inf
            for h in range(n + 1):
                best = max(best, arc[c, h])
            if best > -np.inf:
                shift += best
                for h in range(n + 1):
                    arc[c, h] = np.exp(arc[c, h] - best) * ARC
            else:
                arc[c, : n + 1] = 0.0
            stop[c] = ends[kinds[c]]
            shift += lost[kinds[c]]
        if mirror:
            turn(arc, stop, ratio, n)

        for w in range(1, n + 1):
            for i in range(n - w + 1):
                j, some = i + w, int(w > 1)
                total = 0.0
                for k in range(i + 1, j):
                    total += right_open[i, k] * below[k, j, i]
                right[i, j] = total * ratio[i, j] if w > 1 else 1.0
                right_open[i, j] = right[i, j] * stop[i, 1, some, 1]
                row = left[i, j]
                row[i] = right[i, j] * stop[i, 1, some, 0]
                row[i + 1 : j] = 0.0
                for k in range(i + 1, j):
                    for h in range(k, j):
                        row[h] += below[i, k, h] * left_open[k, j, h]
                full[i, j, i] = row[i] * stop[i, 0, 0, 0]
                left_open[i, j, i] = row[i] * stop[i, 0, 0, 1]
                for h in range(i + 1, j):
                    row[h] *= ratio[i, j]
                    full[i, j, h] = row[h] * stop[h, 0, 1, 0]
                    left_open[i, j, h] = row[h] * stop[h, 0, 1, 1]
                if w == n:
                    break
                row = below[i, j]
                row[:n] = 0.0
                for c in range(i, j):
                    for h in range(n):
                        row[h] += full[i, j, c] * arc[c, h + 1]
        total = 0.0
        for r in range(n):
            total += full[0, n, r] * arc[r, 0]
        if not (total > 1 / limit) or not (shift > -np.inf):
            trouble[b] = True
            continue
        log_z[b] = shift + np.log(total) - n * np.log(ARC)
        if len(arcs) == 0:
            continue

        o_right_open[:n, : n + 1] = 0.0
        o_left_open[:n, : n + 1, :n] = 0.0
        o_below[:n, : n + 1, :n] = 0.0
        posterior[:n, : n + 1] = 0.0
        decided[:n] = 0.0
        worst = 0.0
        for w in range(n, 0, -1):
            for i in range(n - w + 1):
                j, some = i + w, int(w > 1)
                if w == n:
                    for h in range(n):
                        o_full[h] = arc[h, 0] / total
                        posterior[h, 0] = o_full[h] * full[0, n, h]
                else:
                    for c in range(i, j):
                        mass = 0.0
                        for h in range(n):
                            mass += o_below[i, j, h] * arc[c, h + 1]
                            posterior[c, h + 1] += o_below[i, j, h] * full[i, j, c] * arc[c, h + 1]
                        o_full[c] = mass
                    for h in range(n):
                        worst = max(worst, o_below[i, j, h])
                yes = 0.0
                for h in range(i, j):
                    beyond = int(h > i)
                    decided[h, 0, beyond, 0] += o_full[h] * full[i, j, h]
                    decided[h, 0, beyond, 1] += o_left_open[i, j, h] * left_open[i, j, h]
                    o_left[h] = o_full[h] * stop[h, 0, beyond, 0] + o_left_open[i, j, h] * stop[h, 0, beyond, 1]
                    worst = max(worst, o_full[h], o_left_open[i, j, h])
                    if h > i:
                        yes += o_left[h] * left[i, j, h]
                        o_left[h] *= ratio[i, j]
                for k in range(i + 1, j):
                    for h in range(k, j):
                        o_below[i, k, h] += o_left[h] * left_open[k, j, h]
                        o_left_open[k, j, h] += o_left[h] * below[i, k, h]
                decided[i, 1, some, 0] += o_left[i] * left[i, j, i]
                decided[i, 1, some, 1] += o_right_open[i, j] * right_open[i, j]
                mass = o_left[i] * stop[i, 1, some, 0] + o_right_open[i, j] * stop[i, 1, some, 1]
                worst = max(worst, mass)
                known[i, j] = yes + mass * right[i, j]
                mass *= ratio[i, j]
                for k in range(i + 1, j):
                    o_right_open[i, k] += mass * below[k, j, i]
                    o_below[k, j, i] += mass * right_open[i, k]
        if not (worst <= limit):
            trouble[b] = True
            continue
        if mirror:
            turn(posterior, decided, known, n)
        put(
            posterior,
            decided,
            known,
            n,
            arcs[cell : corners[b + 1]],
            decisions[at : at + n],
            inside[edge : edges[b + 1]],
        )
        settle(yields, contexts, spans, edge, n, forced, inside)
