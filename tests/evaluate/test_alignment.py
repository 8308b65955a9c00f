"""Alignment error rate, precision and recall: by hand, and against sets."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data import Links
from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate import alignment_error_rate, alignment_report

links = st.sets(st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(0, 3)), max_size=12)


def test_by_hand() -> None:
    gold = Links(1, [[0, 1, 1], [0, 2, 2]], [True, False])
    assert alignment_report(gold, [[0, 1, 1], [0, 2, 2]]) == {"aer": 0.0, "precision": 1.0, "recall": 1.0}
    # Four links predicted, one of them sure, one more possible; two sure ones.
    gold = Links(2, [[0, 0, 0], [0, 1, 1], [1, 0, 0]], [True, False, True])
    found = [[0, 0, 0], [0, 1, 1], [0, 1, 0], [1, 1, 0]]
    expected = {"aer": pytest.approx(1 - (1 + 2) / (4 + 2)), "precision": 0.5, "recall": 0.5}
    assert alignment_report(gold, found) == expected
    assert alignment_report(gold, Links(2, found)) == expected
    assert alignment_report(gold, torch.tensor(found)) == expected
    assert alignment_report(gold, []) == {"aer": 1.0, "precision": 1.0, "recall": 0.0}


@settings(max_examples=100, derandomize=True, deadline=None, database=None)
@given(links, links, links)
def test_against_sets(sure: set, possible: set, found: set) -> None:
    rows = [*sure, *possible]
    gold = Links(3, rows, [True] * len(sure) + [False] * len(possible))
    if not found and not sure:
        with pytest.raises(UnsupError, match="neither predicted nor sure links: the alignment error rate is undefined"):
            alignment_report(gold, [])
        return
    report = alignment_report(gold, [*found])
    S, P = sure, sure | possible
    assert report["aer"] == pytest.approx(1 - (len(found & S) + len(found & P)) / (len(found) + len(S)))
    assert alignment_error_rate(gold, [*found]) == report["aer"]
    assert report["precision"] == (len(found & P) / len(found) if found else 1.0)
    assert report["recall"] == (len(found & S) / len(S) if S else 1.0)


@settings(max_examples=50, derandomize=True, deadline=None, database=None)
@given(links, links, st.sets(st.integers(0, 2), min_size=1))
def test_pairs_that_are_not_annotated_do_not_count(sure: set, found: set, known: set) -> None:
    sure = {row for row in sure if row[0] in known} | {(min(known), 0, 0)}
    annotated = np.isin(np.arange(3), [*known])
    report = alignment_report(Links(3, [*sure], annotated=annotated), [*found])  # type: ignore[arg-type]
    inside = [row for row in found if row[0] in known]
    assert report == alignment_report(Links(3, [*sure]), inside)  # type: ignore[arg-type]
    part = [Links(3, [*rows]).select(annotated) for rows in (sure, inside)]  # type: ignore[arg-type]
    assert report == alignment_report(*part)


def test_other_pairs() -> None:
    with pytest.raises(UnsupError, match="predicted links of 3 pairs but gold links of 2: score the same text"):
        alignment_report(Links(2, [[0, 0, 0]]), Links(3, np.zeros((0, 3), int)))
