from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate import SignTest, sign_test_sentences, sign_test_tokens

property_test = settings(derandomize=True, deadline=None, max_examples=200)
tokens = st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=1, max_size=60)


def exact(wins: int, losses: int) -> float:
    """Both tails of a fair coin, by counting outcomes."""
    n, k = wins + losses, min(wins, losses)
    return float(min(Fraction(1), Fraction(2 * sum(comb(n, i) for i in range(k + 1)), 2**n)))


@property_test
@given(tokens)
def test_by_token_against_counting_and_scipy(rows):
    gold, first, second = np.array(rows).T
    wins = sum(g == a != b for g, a, b in rows)
    losses = sum(g == b != a for g, a, b in rows)
    result = sign_test_tokens(gold, first, second)
    assert (result.wins, result.losses, result.ties) == (wins, losses, len(rows) - wins - losses)
    assert result.p_value == pytest.approx(exact(wins, losses), rel=1e-12)
    if wins + losses:
        assert result.p_value == pytest.approx(binomtest(wins, wins + losses).pvalue, rel=1e-12)
    assert sign_test_tokens(gold, second, first) == SignTest(losses, wins, result.ties, result.p_value)


@property_test
@given(tokens, st.lists(st.integers(0, 60), max_size=8))
def test_by_sentence_against_a_loop(rows, cuts):
    gold, first, second = np.array(rows).T
    offsets = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    leads = [sum((g == a) - (g == b) for g, a, b in rows[start:stop]) for start, stop in pairwise(offsets)]
    wins, losses = sum(d > 0 for d in leads), sum(d < 0 for d in leads)
    result = sign_test_sentences(gold, first, second, offsets)
    assert (result.wins, result.losses, result.ties) == (wins, losses, len(leads) - wins - losses)
    assert result.p_value == pytest.approx(exact(wins, losses), rel=1e-12)


def test_by_hand():
    gold = np.zeros(10, int)
    first, second = gold.copy(), np.ones(10, int)
    first[9], second[9] = 1, 0
    assert sign_test_tokens(gold, first, second) == SignTest(9, 1, 0, pytest.approx(22 / 1024))
    # Sentences of 5: the first wins both, so a half is the smallest p-value there can be.
    assert sign_test_sentences(gold, first, second, [0, 5, 10]) == SignTest(2, 0, 0, 0.5)


def test_no_difference_is_no_evidence():
    assert sign_test_tokens([0, 1], [0, 0], [0, 2]) == SignTest(0, 0, 2, 1.0)
    assert sign_test_tokens([0, 1], [0, 0], [1, 1]) == SignTest(1, 1, 0, 1.0)
    assert sign_test_sentences([0, 1], [0, 0], [1, 1], [0, 2]) == SignTest(0, 0, 1, 1.0)


def test_a_cluster_without_a_tag_is_wrong():
    assert sign_test_tokens([0, 1], [0, 1], [-1, -1]) == SignTest(2, 0, 0, 0.5)


def test_bad_input():
    with pytest.raises(UnsupError, match="second has 1 tokens but gold has 2: score the same text on both sides"):
        sign_test_tokens([0, 1], [0, 1], [0])
    with pytest.raises(UnsupError, match="gold is empty"):
        sign_test_tokens([], [], [])
    with pytest.raises(UnsupError, match="first has id -2 at token 0, expected -1 or more"):
        sign_test_tokens([0], [-2], [0])
    for offsets in ([0, 1], [1, 2], [0, 2, 1, 2], [0]):
        with pytest.raises(UnsupError, match="offsets must rise from 0 to the number of tokens, 2, actual first and"):
            sign_test_sentences([0, 1], [0, 1], [0, 1], offsets)
