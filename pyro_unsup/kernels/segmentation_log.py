"""Segmentations in log space: for sentences that scaled arithmetic cannot hold, and for decoding. All float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .log_sum import log_sum
from .segmentation_scaled import count_segments

Array = np.ndarray[Any, Any]


@njit(cache=True, nogil=True)
def score_pass(
    segments: Array,  # (S + 1,) log-weights; the last is -inf, for what cannot be a segment (number -1)
    length: Array,  # (L + 1,) log-weights, with the weight of going on put in
    cells: Array,  # (symbols, L)
    offsets: Array,  # (B + 1,)
    score: Array,  # (symbols, L) out
) -> None:
    """The log-weight of every segment, by its end and its length; -inf beyond the edge of a sentence."""
    L = len(length) - 1
    score[:] = -np.inf
    for b in range(len(offsets) - 1):
        begin = offsets[b]
        for t in range(1, offsets[b + 1] - begin + 1):
            for w in range(1, min(L, t) + 1):
                score[begin + t - 1, w - 1] = segments[cells[begin + t - 1, w - 1]] + length[w]


@njit(cache=True, nogil=True)
def log_pass(
    segments: Array,  # (S + 1,) log-weights; the last is -inf, for what cannot be a segment (number -1)
    length: Array,  # (L + 1,) log-weights, with the weight of going on put in
    log_stop: float,
    cells: Array,  # (symbols, L)
    offsets: Array,  # (B + 1,)
    todo: Array,  # which sentences
    scale: Array,  # (B,) how much the counts of each sentence weigh; empty if only log Z is wanted
    log_z: Array,  # (B,) out
    n_segments: Array,  # (S + 1,) added to
    n_length: Array,  # (L + 1,) added to
    n_stop: Array,  # (2,) added to
) -> None:
    """log Z and counts of the sentences in ``todo``. A sentence of weight zero has log Z = -inf and no counts."""
    L = len(length) - 1
    longest = 0
    for b in todo:
        longest = max(longest, offsets[b + 1] - offsets[b])
    ahead = np.empty(longest + 1)
    behind = np.empty(longest + 1)
    terms = np.empty(L)
    share = np.empty((longest + 1, L + 1))  # of each segment, by its end and its length: its weight, then its posterior
    for b in todo:
        begin, n = offsets[b], offsets[b + 1] - offsets[b]
        ahead[0] = 0.0
        for t in range(1, n + 1):
            reach = min(L, t)
            for w in range(1, reach + 1):
                share[t, w] = segments[cells[begin + t - 1, w - 1]] + length[w]
                terms[w - 1] = ahead[t - w] + share[t, w]
            ahead[t] = log_sum(terms[:reach])
        log_z[b] = ahead[n] + log_stop
        if len(scale) == 0 or scale[b] == 0 or log_z[b] == -np.inf:
            continue
        behind[n] = 0.0
        for t in range(n - 1, -1, -1):
            reach = min(L, n - t)
            for w in range(1, reach + 1):
                terms[w - 1] = share[t + w, w] + behind[t + w]
            behind[t] = log_sum(terms[:reach])
        for t in range(1, n + 1):
            for w in range(1, min(L, t) + 1):
                share[t, w] = np.exp(ahead[t - w] + share[t, w] + behind[t] - ahead[n])
        count_segments(share, cells, begin, n, scale[b], n_segments, n_length, n_stop)


@njit(cache=True, nogil=True)
def decode_pass(
    score: Array,  # (symbols, L) what a segment adds, by its end and its length
    offsets: Array,  # (B + 1,)
    uniforms: Array,  # (symbols,) float64 in [0, 1), or empty
    structure: Array,  # (symbols,) out: 1 where a segment ends, 0 inside one, -1 where there is no segmentation at all
) -> None:
    """The best segmentation of every sentence (``uniforms`` empty), or a draw in proportion to exp(its score)."""
    draw = len(uniforms) > 0
    L = score.shape[1]
    longest = 0
    for b in range(len(offsets) - 1):
        longest = max(longest, offsets[b + 1] - offsets[b])
    ahead = np.empty(longest + 1)
    terms = np.empty(L)
    for b in range(len(offsets) - 1):
        begin, n = offsets[b], offsets[b + 1] - offsets[b]
        ahead[0] = 0.0
        for t in range(1, n + 1):
            reach = _ways(score, ahead, begin, t, terms)
            ahead[t] = log_sum(terms[:reach]) if draw else terms[:reach].max()
        if ahead[n] == -np.inf:
            structure[begin : begin + n] = -1
            continue
        structure[begin : begin + n] = 0
        t = n
        while t > 0:
            structure[begin + t - 1] = 1
            reach = _ways(score, ahead, begin, t, terms)
            t -= _pick(terms[:reach], uniforms[begin + t - 1] if draw else -1.0) + 1


@njit(cache=True, nogil=True)
def _ways(score: Array, ahead: Array, begin: int, t: int, terms: Array) -> int:
    """What leads to a cut after t symbols, by the length of the last segment; and how many lengths there are."""
    reach = min(len(terms), t)
    for w in range(1, reach + 1):
        terms[w - 1] = ahead[t - w] + score[begin + t - 1, w - 1]
    return reach


@njit(cache=True, nogil=True)
def _pick(x: Array, u: float) -> int:
    """The index of the largest entry, the lowest of equals (u < 0), or of one drawn in proportion to exp(x)."""
    top, best = -np.inf, 0
    for i in range(len(x)):
        if x[i] > top:
            top, best = x[i], i
    if u < 0:
        return best
    left = u * np.exp(log_sum(x) - top)
    for i in range(len(x)):
        step = np.exp(x[i] - top)
        if step > 0:
            best = i
            left -= step
            if left < 0:
                break
    return best
