"""Is one tagging better than another by more than luck? The exact two-sided sign test.

Under the null hypothesis each unit (a token, a sentence) on which the two systems differ is a fair coin. Tokens of one
sentence are not independent, so the test by sentence is the safer one.

**References:**

[1] Dixon and Mood (1946) "The statistical sign test"
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate.labels import UNMAPPED, Array, Ids, flat_ids, same_length


@dataclass(frozen=True)
class SignTest:
    """What a sign test found.

    :param wins: units on which the first system is better.
    :param losses: units on which the second is better.
    :param ties: units on which they are equal; the test leaves them out.
    :param p_value: probability of a split at least this uneven if both systems were equally good.

    >>> from pyro_unsup.evaluate import sign_test_tokens
    >>> found = sign_test_tokens([0, 1, 1, 0], [0, 1, 1, 0], [1, 1, 0, 0])
    >>> found.wins, found.losses, found.ties, found.p_value
    (2, 0, 2, 0.5)
    """

    wins: int
    losses: int
    ties: int
    p_value: float


def sign_test_tokens(gold: Array, first: Array, second: Array) -> SignTest:
    """Compare two systems token by token.

    :param gold: gold tag ids, shape (tokens,).
    :param first: tags predicted by the first system, shape (tokens,); map clusters to tags first, -1 is wrong.
    :param second: tags predicted by the second system, shape (tokens,).

    >>> from pyro_unsup.evaluate import sign_test_tokens
    >>> sign_test_tokens([0, 0, 1, 1], [0, 0, 1, 0], [1, 1, 0, 0])
    SignTest(wins=3, losses=0, ties=1, p_value=0.25)
    """
    return _sign_test(_lead(gold, first, second))


def sign_test_sentences(gold: Array, first: Array, second: Array, offsets: Array) -> SignTest:
    """Compare two systems sentence by sentence: the one with more right tags in a sentence wins it.

    :param gold: gold tag ids, shape (tokens,).
    :param first: tags predicted by the first system, shape (tokens,); map clusters to tags first, -1 is wrong.
    :param second: tags predicted by the second system, shape (tokens,).
    :param offsets: where sentences start, and the end of the last, shape (sentences + 1,).

    >>> from pyro_unsup.evaluate import sign_test_sentences
    >>> sign_test_sentences([0, 0, 1, 1], [0, 0, 1, 0], [1, 1, 0, 0], offsets=[0, 2, 4])
    SignTest(wins=2, losses=0, ties=0, p_value=0.5)
    """
    lead = _lead(gold, first, second)
    bounds = flat_ids(offsets, "offsets")
    if bounds[0] != 0 or bounds[-1] != lead.size or (np.diff(bounds) < 0).any():
        raise UnsupError(
            f"offsets must rise from 0 to the number of tokens, {lead.size}, actual first and last {bounds[0]}"
            f" and {bounds[-1]}"
        )
    return _sign_test(np.diff(np.concatenate(([0], np.cumsum(lead)))[bounds]))


def _lead(gold: Array, first: Array, second: Array) -> Ids:
    """1 where only the first system is right, -1 where only the second is, else 0; shape (tokens,)."""
    tags = flat_ids(gold, "gold")
    right: list[NDArray[np.int64]] = []
    for name, system in (("first", first), ("second", second)):
        predicted = flat_ids(system, name, least=UNMAPPED)
        same_length(tags.size, predicted, name)
        right.append((predicted == tags).astype(np.int64))
    return right[0] - right[1]


def _sign_test(lead: Ids) -> SignTest:
    from scipy.stats import binomtest

    wins, losses = int(np.count_nonzero(lead > 0)), int(np.count_nonzero(lead < 0))
    ties = int(lead.size) - wins - losses
    p_value = 1.0 if wins == losses else float(binomtest(wins, wins + losses).pvalue)
    return SignTest(wins, losses, ties, p_value)
