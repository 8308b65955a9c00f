"""What mini-batches of stepwise EM have in common for grammars (see :mod:`.stepwise`).

Weights are read as real numbers, so that they need neither logs nor exponentials. What underflows is below ``tiny``
over the largest weight of its kind, and that is at least `LOW`.
"""

from __future__ import annotations

import numpy as np

from .stepwise import stepping

#: What the largest rule has to weigh, and the likeliest label of a word and of a sentence.
LOW = 1e-40
#: There are less than 4^m binary trees with m nodes.
NODE = 1 / 4


@stepping
def read_column(cells, extra, units, beta, column, out):  # -> (rows,)
    """The weights of one outcome in all rows; gives the largest."""
    rows, top = len(units), 0.0
    for a in range(rows):
        out[a] = (cells[column * rows + a] + extra) * units[a]
    if beta != 1.0:
        for a in range(rows):
            out[a] = out[a] ** beta
    for a in range(rows):
        top = max(top, out[a])
    return top


@stepping
def weigh_words(cells, extra, units, beta, words, weights):  # (n,) -> (n, P)
    """The weights of the labels of words, the largest of each being 1; gives the log of what they were divided by."""
    shift, product = 0.0, 1.0
    for i in range(len(words)):
        top = read_column(cells, extra, units, beta, words[i], weights[i])
        if not (top > LOW):
            return -np.inf
        unit = 1.0 / top
        for p in range(len(units)):
            weights[i, p] *= unit
        product *= top
        if product < LOW:
            shift += np.log(product)
            product = 1.0
    return shift + np.log(product)


@stepping
def weigh_roots(cells, extra, unit, beta, out):  # -> (N,)
    """The weights of the labels of sentences, the largest being 1; gives the log of what they were divided by."""
    top = 0.0
    for a in range(len(out)):
        out[a] = (cells[a] + extra) * unit
        if beta != 1.0:
            out[a] = out[a] ** beta
        top = max(top, out[a])
    if not (top > LOW):
        return -np.inf
    for a in range(len(out)):
        out[a] /= top
    return np.log(top)


@stepping
def add_words(cells, sums, words, gain, counts):  # (n,), (n, P)
    """Add how often each word is expected to have each label."""
    P = len(sums)
    for i in range(len(words)):
        for p in range(P):
            count = gain * min(counts[i, p], 1.0)
            cells[words[i] * P + p] += count
            sums[p] += count
