"""The table of tags against clusters, maps between them, and ids that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate import (
    accuracy,
    clusters_used,
    confusion,
    contingency,
    many_to_one,
    one_to_one,
    relabel,
    tagging_report,
    v_measure,
)

from .cases import GOLD, PREDICTED, TABLE, pairs, property_test


def test_contingency_and_maps_on_a_small_table():
    assert contingency(GOLD, PREDICTED).tolist() == TABLE
    assert many_to_one(GOLD, PREDICTED) == (5 + 4 + 2) / 16
    assert one_to_one(GOLD, PREDICTED) == (4 + 4 + 2) / 16
    assert relabel(GOLD, PREDICTED).tolist() == [0, 0, 2]
    assert relabel(GOLD, PREDICTED, "one_to_one").tolist() == [1, 0, 2]
    assert clusters_used(PREDICTED) == 3


@property_test
@given(pairs, st.sampled_from(["many_to_one", "one_to_one"]))
def test_relabel_reaches_the_score_it_is_named_after(pair, how):
    gold, predicted = pair
    mapping = relabel(gold, predicted, how, predicted_size=9)
    score = {"many_to_one": many_to_one, "one_to_one": one_to_one}[how]
    assert mapping.shape == (9,)
    assert accuracy(gold, mapping[predicted]) == score(gold, predicted)
    assert mapping[8] == -1  # never predicted
    taken = mapping[mapping >= 0]
    assert how == "many_to_one" or len(set(taken)) == len(taken)
    assert all(((gold == tag) & (predicted == cluster)).any() for cluster, tag in enumerate(mapping) if tag >= 0)


@property_test
@given(pairs, st.sampled_from(["many_to_one", "one_to_one"]))
def test_confusion_orders_its_columns_by_the_map(pair, how):
    gold, predicted = pair
    table = confusion(gold, predicted, gold_labels=list("NVADPX"), how=how)
    np.testing.assert_array_equal(table.counts, contingency(gold, predicted, 6)[:, table.clusters])
    np.testing.assert_array_equal(table.mapping, relabel(gold, predicted, how)[table.clusters])
    assert table.gold_labels == tuple("NVADPX")
    assert table.predicted_labels == tuple(str(i) for i in table.clusters)
    ranks = [(6, 0) if tag < 0 else (tag, -table.counts[tag, i]) for i, tag in enumerate(table.mapping)]
    assert ranks == sorted(ranks)


def test_confusion_names_clusters_on_request():
    table = confusion([0, 1, 1], [1, 0, 0], ["noun", "verb"], ["a", "b", "never"])
    assert table.predicted_labels == ("b", "a", "never")
    assert table.counts.tolist() == [[1, 0, 0], [0, 2, 0]]


@pytest.mark.parametrize("score", [contingency, many_to_one, one_to_one, v_measure, relabel, accuracy, tagging_report])
@pytest.mark.parametrize(
    ("gold", "predicted", "message"),
    [
        ([0, 1], [0, 1, 1], "predicted has 3 tokens but gold has 2: score the same text on both sides"),
        ([], [], "gold is empty: there is no token to score"),
        ([0], [], "predicted is empty"),
        ([0, 1, -1], [0, 1, 1], "gold has id -1 at token 2, expected 0 or more: drop such tokens first"),
        ([0, 1], [0, -7], "predicted has id -7 at token 1"),
        ([0, 1], [0.0, 1.0], "predicted must hold integer ids, actual type float64"),
        ([[0, 1]], [0, 1], r"gold must be a flat array of ids, shape \(tokens,\), actual shape \(1, 2\)"),
    ],
)
def test_bad_ids(score, gold, predicted, message):
    with pytest.raises(UnsupError, match=message):
        score(gold, predicted)


def test_bad_names_sizes_and_maps():
    with pytest.raises(UnsupError, match="how must be 'many_to_one' or 'one_to_one', got 'greedy'"):
        relabel([0], [0], "greedy")
    with pytest.raises(UnsupError, match="gold has id 2, expected less than 2"):
        confusion([0, 2], [0, 0], ["noun", "verb"])
    with pytest.raises(UnsupError, match="renumber them first"):
        many_to_one([0, 10**9], [0, 10**9])
