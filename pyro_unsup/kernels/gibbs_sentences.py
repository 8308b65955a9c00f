"""Tags of a whole sentence at once: forward filtering, backward sampling, for bigrams and trigrams.

The weight of tag c after the row r (the tag before it, or the two before it) is ``num[r, c] * inv[r]``, that of a word
``num_cell[cell] * inv_tag[c]``: where they come from counts, one count more changes one number of each.

    f_t[b, c] = w(word_t | c) sum_a f_{t-1}[a, b] w(c | a, b)
    then, from the end,  p(a | b, c) ~ f_{t-1}[a, b] w(c | a, b)

and for bigrams the same without the older tag. Whether a sum underflows, in which case no tags are drawn, depends on
weights and words and never on the present tags: leaving those as they are is then a valid step too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .gibbs_choice import choose

Array = Any


@njit(cache=True, nogil=True)
def row_of(a: int, b: int, size: int, second: bool) -> int:
    """The row of the table of transitions that a context has."""
    return a * size + b if second else b


@njit(cache=True, nogil=True)
def draw_sentence(
    words: Array,  # (tokens,) of the sentence
    at: Array,  # (V + 1,)
    tag_of: Array,  # (cells,)
    num: Array,  # (rows, K + 1)
    inv: Array,  # (rows,)
    num_cell: Array,  # (cells,)
    inv_tag: Array,  # (K,)
    second: bool,
    stop: bool,
    uniforms: Array,  # (tokens,)
    cells: Array,  # (tokens,) out: the cell of each word's new tag
) -> bool:
    T, S = len(words), num.shape[1]
    K = S - 1
    begins = np.empty(T + 1, np.int64)  # of the messages, which lie end to end
    begins[0] = 0
    before, widest = 1, 1
    for t in range(T):
        here = at[words[t] + 1] - at[words[t]]
        begins[t + 1] = begins[t] + (before if second else 1) * here
        widest = max(widest, begins[t + 1] - begins[t])
        before = here
    f = np.zeros(begins[T])
    scratch = np.empty(widest)
    for t in range(T):
        c0, nc = at[words[t]], at[words[t] + 1] - at[words[t]]
        if t == 0:
            r = row_of(K, K, S, second)
            for c in range(nc):
                f[c] = num[r, tag_of[c0 + c]] * inv[r]
        else:
            b0, nb = at[words[t - 1]], at[words[t - 1] + 1] - at[words[t - 1]]
            na = (begins[t] - begins[t - 1]) // nb
            a0 = at[words[t - 2]] if t > 1 else 0
            for a in range(na):
                older = tag_of[a0 + a] if t > 1 else K
                for b in range(nb):
                    r = row_of(older, tag_of[b0 + b], S, second)
                    weight = f[begins[t - 1] + a * nb + b] * inv[r]
                    base = begins[t] + (b * nc if second else 0)
                    if nc == K:  # all tags, in order: the loop becomes vector code
                        for c in range(K):
                            f[base + c] += weight * num[r, c]
                    else:
                        for c in range(nc):
                            f[base + c] += weight * num[r, tag_of[c0 + c]]
        total = 0.0
        for row in range((begins[t + 1] - begins[t]) // nc):
            for c in range(nc):
                k = begins[t] + row * nc + c
                f[k] *= num_cell[c0 + c] * inv_tag[tag_of[c0 + c]]
                total += f[k]
        if not total > 0.0:
            return False
        for k in range(begins[t], begins[t + 1]):
            f[k] /= total
    c0, nc = at[words[T - 1]], at[words[T - 1] + 1] - at[words[T - 1]]
    size = begins[T] - begins[T - 1]
    a0 = at[words[T - 2]] if T > 1 else 0
    total = 0.0
    for k in range(size):
        scratch[k] = f[begins[T - 1] + k]
        if stop:
            r = row_of(tag_of[a0 + k // nc] if T > 1 else K, tag_of[c0 + k % nc], S, second)
            scratch[k] *= num[r, K] * inv[r]
        total += scratch[k]
    if not total > 0.0:
        return False
    k = choose(scratch, size, 1.0, uniforms[T - 1])
    cells[T - 1] = c0 + k % nc
    if second and T > 1:
        cells[T - 2] = a0 + k // nc
    for t in range(T - 2 if second else T - 1, 0, -1):  # the tag at t is known, and at t + 1; draw that at t - 1
        a0, na = at[words[t - 1]], at[words[t - 1] + 1] - at[words[t - 1]]
        nb = at[words[t] + 1] - at[words[t]]
        j = cells[t] - at[words[t]]
        for a in range(na):
            if second:
                r = row_of(tag_of[a0 + a], tag_of[cells[t]], S, second)
                scratch[a] = f[begins[t] + a * nb + j] * num[r, tag_of[cells[t + 1]]] * inv[r]
            else:
                r = tag_of[a0 + a]
                scratch[a] = f[begins[t - 1] + a] * num[r, tag_of[cells[t]]] * inv[r]
        cells[t - 1] = a0 + choose(scratch, na, 1.0, uniforms[t - 1])
    return True


@njit(cache=True, nogil=True)
def draw_sentences(
    words: Array,  # (tokens,)
    offsets: Array,  # (B + 1,)
    first: int,
    last: int,
    at: Array,
    tag_of: Array,
    num: Array,
    inv: Array,
    num_cell: Array,
    inv_tag: Array,
    second: bool,
    stop: bool,
    uniforms: Array,  # (tokens,)
    cells: Array,  # (tokens,) in and out
) -> None:
    """New tags of the sentences from ``first`` up to ``last``, the weights being fixed."""
    for s in range(first, last):
        lo, hi = offsets[s], offsets[s + 1]
        if hi > lo:
            found = np.empty(hi - lo, np.int64)
            w = words[lo:hi]
            if draw_sentence(w, at, tag_of, num, inv, num_cell, inv_tag, second, stop, uniforms[lo:hi], found):
                for t in range(hi - lo):
                    cells[lo + t] = found[t]
