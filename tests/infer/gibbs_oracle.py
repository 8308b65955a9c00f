"""The joint probability of tags and words written out as urns, and the exact posterior by enumeration."""

from __future__ import annotations

import itertools
from collections import Counter
from math import exp, log
from typing import Any

import numpy as np


def log_joint(
    tags: Any, words: Any, lengths: Any, K: int, types: Any, alpha: Any, beta: Any, order: int, stop: bool
) -> float:
    """Draw after draw, each with the probability that its row's urn gives it."""
    cells: Counter[Any] = Counter()
    totals: Counter[Any] = Counter()
    found, i = 0.0, 0

    def draw(row: Any, outcome: Any, a: float, outcomes: int) -> float:
        p = (cells[row, outcome] + a) / (totals[row] + outcomes * a)
        cells[row, outcome] += 1
        totals[row] += 1
        return log(p)

    for length in lengths:
        context = ("start",) * order
        for _ in range(length):
            tag, pads = tags[i], context.count("start")
            found += draw(context, tag, alpha[pads], K if pads == order else K + stop)
            found += draw(("word", tag), words[i], beta[tag], types[tag])
            context, i = (*context, tag)[1:], i + 1
        if stop and length:
            found += draw(context, "stop", alpha[context.count("start")], K + stop)
    return found


def posterior(words: Any, lengths: Any, allowed: Any, **model: Any) -> dict[tuple[int, ...], float]:
    """Probability of every sequence of tags."""
    choices = [np.flatnonzero(allowed[:, w]).tolist() for w in words]
    types = allowed.sum(1)
    states = list(itertools.product(*choices))
    logs = np.array([log_joint(z, words, lengths, len(allowed), types, **model) for z in states])
    p = np.exp(logs - logs.max())
    return dict(zip(states, p / p.sum(), strict=True))


def ratio(logs: Any) -> Any:
    """Log weights as probabilities."""
    p = np.array([exp(x - max(logs)) for x in logs])
    return p / p.sum()
