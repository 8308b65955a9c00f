"""One sweep of collapsed Gibbs sampling over the clusters of documents, a mixture of multinomials integrated out.

Cluster k of a document with words w that occur c_w times and n in all, all counts without this document, has

    p(k) ~ (n(k) + alpha) * prod_w (n(k, w) + beta_k) .. (n(k, w) + beta_k + c_w - 1)
           / ((N(k) + V beta_k) .. (N(k) + V beta_k + n - 1)).

The product is taken factor by factor, and its log only where it might leave the range of floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from .gibbs_choice import choose
from .gibbs_joint import rising

Array = Any

#: A product between 10^-DIGITS and 10^DIGITS is well within float64.
DIGITS = 300.0


@njit(cache=True, nogil=True)
def weigh(
    words: Array,  # (cells,) of one document, which the counts are without
    times: Array,  # (cells,)
    length: int,
    n_doc: Array,  # (K,) int32
    n_word: Array,  # (V, K) int32
    n_all: Array,  # (K,) int64
    alpha: float,
    beta: Array,  # (K,)
    beta_mass: Array,  # (K,)
    logs: Array,  # (K,) out: of the weights
    part: Array,  # (K,) scratch
) -> None:
    K = len(n_doc)
    low, high = beta.min(), beta.max() + n_all.max() + length  # of a factor
    many = int(DIGITS / max(-np.log10(low), np.log10(high), 1.0))  # of them cannot leave the range
    for k in range(K):
        logs[k] = np.log(n_doc[k] + alpha) - rising(beta_mass[k] + n_all[k], length)
        part[k] = 1.0
    factors = 0
    for i in range(len(words)):
        row = n_word[words[i]]
        for j in range(times[i]):
            for k in range(K):
                part[k] *= row[k] + j + beta[k]
            factors += 1
            if factors == many:
                factors = 0
                for k in range(K):
                    logs[k] += np.log(part[k])
                    part[k] = 1.0
    for k in range(K):
        logs[k] += np.log(part[k])


@njit(cache=True, nogil=True)
def sweep(
    words: Array,  # (cells,)
    times: Array,  # (cells,)
    offsets: Array,  # (B + 1,)
    lengths: Array,  # (B,) words of each document, each as often as it occurs
    labels: Array,  # (B,) int32, in and out
    n_doc: Array,
    n_word: Array,
    n_all: Array,
    alpha: float,
    beta: Array,
    beta_mass: Array,
    power: float,  # one over the temperature
    uniforms: Array,  # (B,)
) -> None:
    """Draw a new cluster for each document, in order."""
    K = len(n_doc)
    logs, part = np.empty(K), np.empty(K)
    for s in range(len(labels)):
        lo, hi, old = offsets[s], offsets[s + 1], labels[s]
        n_doc[old] -= 1
        n_all[old] -= lengths[s]
        for i in range(lo, hi):
            n_word[words[i], old] -= times[i]
        weigh(words[lo:hi], times[lo:hi], lengths[s], n_doc, n_word, n_all, alpha, beta, beta_mass, logs, part)
        top = logs.max()
        for k in range(K):
            part[k] = np.exp(power * (logs[k] - top))
        new = choose(part, K, 1.0, uniforms[s])
        labels[s] = new
        n_doc[new] += 1
        n_all[new] += lengths[s]
        for i in range(lo, hi):
            n_word[words[i], new] += times[i]
