"""Binary trees in log space: for sentences that scaled arithmetic cannot hold, and for decoding. All float64.

Spans lie as in :mod:`.bracketing_scaled`: by width, then by start.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .bracketing_scaled import log_ratios, settle
from .log_sum import log_sum

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True)
def _fill(ratio: Array, n: int, best: bool, inside: Array) -> None:  # (spans,), inside: (n + 1, n + 1) out
    """Sums over the trees of every span, or (``best``) the weight of the best one. A single word weighs 1."""
    for i in range(n):
        inside[i, i + 1] = 0.0
    m = n
    for w in range(2, n + 1):
        for i in range(n - w + 1):
            j = i + w
            top = -np.inf
            for k in range(i + 1, j):
                top = max(top, inside[i, k] + inside[k, j])
            if not best and top > -np.inf:
                total = 0.0
                for k in range(i + 1, j):
                    total += np.exp(inside[i, k] + inside[k, j] - top)
                top += np.log(total)
            inside[i, j] = top + ratio[m]
            m += 1


@njit(cache=True, nogil=True)
def log_pass(
    yields: Array,  # (Y, 2) log-weights as distituent, as constituent
    contexts: Array,  # (X, 2)
    node: Array,  # (W + 1,)
    tree: Array,  # (W + 1,)
    spans: Array,  # (spans, 2)
    lengths: Array,  # (B,)
    offsets: Array,  # (B + 1,) of the spans
    todo: Array,  # which sentences
    log_z: Array,  # (B,) out
    marginals: Array,  # (spans,) out; empty if only log Z is wanted
) -> None:
    longest = 0
    for b in todo:
        longest = max(longest, lengths[b])
    ratio = np.empty(longest * (longest + 1) // 2)
    inside = np.empty((longest + 1, longest + 1))
    around = np.empty((longest + 1, longest + 1))  # outside sums, with the weight of the span itself
    terms = np.empty(longest + 1)
    for b in todo:
        n, at = lengths[b], offsets[b]
        shared, _, forced = log_ratios(yields, contexts, node, spans, at, n, ratio)
        _fill(ratio, n, False, inside)
        total = inside[0, n]
        log_z[b] = shared + tree[n] + total
        if len(marginals) == 0:
            continue
        if log_z[b] == -np.inf:  # impossible: it counts for nothing
            marginals[at : offsets[b + 1]] = 0.0
            continue
        around[0, n] = -total
        m = len(spans[at : offsets[b + 1]]) - 1
        for w in range(n - 1, 1, -1):
            for i in range(n - w, -1, -1):
                m -= 1
                j = i + w
                size = 0
                for k in range(i):
                    terms[size] = around[k, j] + inside[k, i]
                    size += 1
                for k in range(j + 1, n + 1):
                    terms[size] = around[i, k] + inside[j, k]
                    size += 1
                mass = log_sum(terms[:size])
                around[i, j] = mass + ratio[m]
                marginals[at + m] = min(np.exp(mass + inside[i, j]), 1.0)
        settle(yields, contexts, spans, at, n, forced, marginals)


@njit(cache=True, nogil=True)
def all_ratios(
    yields: Array,  # (Y, 2)
    contexts: Array,  # (X, 2)
    node: Array,  # (W + 1,)
    spans: Array,  # (spans, 2)
    lengths: Array,  # (B,)
    offsets: Array,  # (B + 1,)
    ratio: Array,  # (spans,) out
) -> None:
    for b in range(len(lengths)):
        if lengths[b] > 0:
            log_ratios(yields, contexts, node, spans, offsets[b], lengths[b], ratio[offsets[b] : offsets[b + 1]])


@njit(cache=True, nogil=True)
def decode_pass(
    score: Array,  # (spans,) what a constituent adds, if it is not one word
    lengths: Array,  # (B,)
    offsets: Array,  # (B + 1,) of the spans
    uniforms: Array,  # (words,) float64 in [0, 1), or empty
    structure: Array,  # (spans,) out: 1 for a constituent, 0 for a distituent, -1 where there is no tree at all
) -> None:
    """The best tree of every sentence (``uniforms`` empty), or a draw in proportion to exp(sum of its scores)."""
    draw = len(uniforms) > 0
    longest = 0
    for n in lengths:
        longest = max(longest, n)
    inside = np.empty((longest + 1, longest + 1))
    todo = np.empty((longest + 1, 2), np.int64)  # spans still to be split
    used = 0
    for b in range(len(lengths)):
        n, at = lengths[b], offsets[b]
        if n == 0:
            continue
        _fill(score[at : offsets[b + 1]], n, not draw, inside)
        if inside[0, n] == -np.inf:
            structure[at : offsets[b + 1]] = -1
            used += n
            continue
        structure[at : offsets[b + 1]] = 0
        structure[at : at + n] = 1
        todo[0, 0], todo[0, 1] = 0, n
        size, word = (1, used) if n > 1 else (0, used)
        while size > 0:
            size -= 1
            i, j = todo[size, 0], todo[size, 1]
            w = j - i
            structure[at + (w - 1) * n - (w - 1) * (w - 2) // 2 + i] = 1
            k = _split(inside, i, j, uniforms[word]) if draw else _best_split(inside, i, j, n)
            word += 1
            if k - i > 1:
                todo[size, 0], todo[size, 1] = i, k
                size += 1
            if j - k > 1:
                todo[size, 0], todo[size, 1] = k, j
                size += 1
        used += n


@njit(cache=True, nogil=True)
def _best_split(inside: Array, i: int, j: int, n: int) -> int:
    """The best place to split a span. Equals are chosen from as if at random, but always in the same way: the first of
    them, or the last, would make branching trees of sentences that a model knows nothing about. The choice goes with
    the length of the sentence, not with its number, so that no sentence's tree depends on its neighbours."""
    top, ties = -np.inf, 0
    for k in range(i + 1, j):
        found = inside[i, k] + inside[k, j]
        if found > top:
            top, ties = found, 1
        elif found == top:
            ties += 1
    mixed = ((n * 1009 + i) * 1013 + j) * 40503 + 12345
    mixed ^= mixed >> 7
    left = (mixed * 2654435761 % 4294967296 >> 11) % ties
    for k in range(i + 1, j):
        if inside[i, k] + inside[k, j] == top:
            if left == 0:
                return k
            left -= 1
    return i + 1


@njit(cache=True, nogil=True)
def _split(inside: Array, i: int, j: int, u: float) -> int:
    """Where to split a span, drawn with the uniform number u."""
    top, best = -np.inf, i + 1
    for k in range(i + 1, j):
        top = max(top, inside[i, k] + inside[k, j])
    total = 0.0
    for k in range(i + 1, j):
        total += np.exp(inside[i, k] + inside[k, j] - top)
    left = u * total
    for k in range(i + 1, j):
        step = np.exp(inside[i, k] + inside[k, j] - top)
        if step > 0:
            best = k
            left -= step
            if left < 0:
                break
    return best
