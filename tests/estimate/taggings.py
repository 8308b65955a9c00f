"""The evidence of a bigram tagger by enumeration, whatever its rows are integrated by."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import torch


def sum_over_taggings(data: list[list[int]], K: int, V: int, row: Callable[[np.ndarray], float]) -> float:
    """log p(data): over all taggings, the log probabilities of the rows of counts that each gives.

    :param row: log probability of the counts of a row, its weights integrated out.
    """
    totals = []
    for flat in itertools.product(range(K), repeat=sum(map(len, data))):
        start, trans, emit = np.zeros(K), np.zeros((K, K)), np.zeros((K, V))
        states = iter(flat)
        for sentence in data:
            before = None
            for word in sentence:
                z = next(states)
                emit[z, word] += 1
                if before is None:
                    start[z] += 1
                else:
                    trans[before, z] += 1
                before = z
        totals.append(row(start) + sum(map(row, trans)) + sum(map(row, emit)))
    return float(torch.logsumexp(torch.tensor(totals), 0))
