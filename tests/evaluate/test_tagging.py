"""Scores against scikit-learn, scipy and trying everything."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy
from sklearn.metrics import accuracy_score, v_measure_score
from sklearn.metrics.cluster import contingency_matrix

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate import (
    accuracy,
    accuracy_ambiguous,
    bits_per_word,
    clusters_used,
    contingency,
    many_to_one,
    one_to_one,
    tag_entropy,
    tagging_report,
    v_measure,
    variation_of_information,
)

from .cases import GOLD, PREDICTED, pairs, property_test


@pytest.mark.parametrize(
    ("gold", "predicted", "bits"),
    [
        ([0, 0, 1, 1], [0, 1, 0, 1], 2.0),
        ([0, 0, 1, 1, 2], [2, 2, 0, 0, 1], 0.0),
        ([0, 0, 0, 1], [0, 0, 1, 1], 1.18872),
        ([0], [3], 0.0),
    ],
)
def test_variation_of_information_goldens(gold, predicted, bits):
    assert variation_of_information(gold, predicted) == pytest.approx(bits, abs=5e-6)
    assert variation_of_information(predicted, gold) == pytest.approx(bits, abs=5e-6)


def test_equal_clusterings_score_exactly():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 45, 100_000)
    report = tagging_report(gold, rng.permutation(45)[gold])
    assert report == {"many_to_one": 1.0, "one_to_one": 1.0, "v_measure": 1.0, "vi_bits": 0.0, "clusters_used": 45}


@property_test
@given(pairs)
def test_scores_against_scikit_learn_and_scipy(pair):
    gold, predicted = pair
    dense = contingency(gold, predicted)
    used = dense[dense.any(axis=1)][:, dense.any(axis=0)]
    np.testing.assert_array_equal(used, contingency_matrix(gold, predicted))
    assert v_measure(gold, predicted) == pytest.approx(v_measure_score(gold, predicted), abs=1e-12)
    oracle = 2 * entropy(dense.ravel(), base=2) - entropy(dense.sum(0), base=2) - entropy(dense.sum(1), base=2)
    assert variation_of_information(gold, predicted) == pytest.approx(oracle, abs=1e-12)
    assert variation_of_information(gold, predicted) <= 2 * math.log2(max(used.shape)) + 1e-12
    assert accuracy(gold, predicted) == accuracy_score(gold, predicted)


@property_test
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_maps_against_trying_all_of_them(rows):
    gold, predicted = np.array(rows).T
    maps = [np.array(m) for m in itertools.product(range(4), repeat=4)]
    assert many_to_one(gold, predicted) == max(accuracy(gold, m[predicted]) for m in maps)
    assert one_to_one(gold, predicted) == max(accuracy(gold, m[predicted]) for m in maps if len(set(m)) == 4)


@property_test
@given(pairs)
def test_scores_ignore_the_names_and_the_order(pair):
    gold, predicted = pair
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(len(gold))
    renamed = rng.permutation(8)[predicted]
    expected = tagging_report(gold, predicted)
    assert tagging_report(gold[shuffled], renamed[shuffled]) == pytest.approx(expected, abs=1e-12)
    # Splitting every cluster can only help many-to-one.
    assert many_to_one(gold, predicted * 2 + rng.integers(0, 2, len(gold))) >= expected["many_to_one"]


def test_one_cluster_can_have_the_best_variation_of_information():
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 12, 5000)
    useful = np.where(rng.random(5000) < 0.5, gold, rng.integers(0, 12, 5000))
    lazy = np.zeros(5000, int)
    assert variation_of_information(gold, lazy) < variation_of_information(gold, useful)
    assert many_to_one(gold, lazy) < 0.1 < 0.5 < many_to_one(gold, useful)
    assert one_to_one(gold, lazy) < 0.1 < 0.5 < one_to_one(gold, useful)
    assert v_measure(gold, lazy) == 0.0
    assert (clusters_used(lazy), clusters_used(useful)) == (1, 12)


def test_one_cluster_on_the_wsj_sample(real_data):
    import lzma

    with lzma.open(real_data / "wsj_nltk.mrg.xz", "rt", encoding="utf-8") as file:
        tags = re.findall(r"\(([^\s()]+) [^\s()]+\)", file.read())
    gold = np.unique([tag for tag in tags if tag != "-NONE-"], return_inverse=True)[1]
    assert len(gold) == 94_084
    assert variation_of_information(gold, np.zeros_like(gold)) == pytest.approx(4.33, abs=0.005)


def test_numpy_torch_and_lists_agree():
    expected = tagging_report(GOLD, PREDICTED)
    assert tagging_report(torch.tensor(GOLD), torch.tensor(PREDICTED, dtype=torch.int32)) == expected
    assert tagging_report(GOLD.tolist(), PREDICTED.astype(np.uint8)) == expected
    p = torch.full((3, 4), 0.25, requires_grad=True)
    assert tag_entropy(p) == 2.0


def test_report_adds_what_applies():
    clusters = {"many_to_one", "one_to_one", "v_measure", "vi_bits", "clusters_used"}
    assert set(tagging_report(GOLD, PREDICTED)) == clusters
    ambiguous = GOLD < 2
    report = tagging_report(GOLD, PREDICTED, same_tags=True, ambiguous=ambiguous, log_likelihood=-16 * math.log(4))
    assert set(report) == clusters | {"accuracy", "accuracy_ambiguous", "bits_per_word"}
    assert report["accuracy"] == accuracy(GOLD, PREDICTED) == 8 / 16
    assert report["accuracy_ambiguous"] == accuracy_ambiguous(GOLD, PREDICTED, torch.tensor(ambiguous)) == 6 / 14
    assert report["bits_per_word"] == pytest.approx(2.0)
    assert "accuracy_ambiguous" not in tagging_report(GOLD, PREDICTED, same_tags=True, ambiguous=GOLD > 2)


def test_bits_per_word():
    assert bits_per_word(-10 * math.log(1000), 10) == pytest.approx(math.log2(1000))
    assert bits_per_word(torch.tensor(-math.inf), 3) == math.inf
    with pytest.raises(UnsupError, match="bits_per_word needs at least 1 token, got 0"):
        bits_per_word(-1.0, 0)
    with pytest.raises(UnsupError, match="the log-likelihood is NaN"):
        bits_per_word(math.nan, 1)


def test_tag_entropy_against_scipy_over_several_chunks():
    p = np.random.default_rng(2).dirichlet(np.full(5, 0.3), size=70_000)
    p[p < 0.01] = 0
    p /= p.sum(axis=1, keepdims=True)
    assert tag_entropy(p) == pytest.approx(entropy(p, base=2, axis=1).mean(), rel=1e-12)
    assert tag_entropy(p.astype(np.float32)) == pytest.approx(tag_entropy(p), rel=1e-6)
    p[69_999, 0] += 0.1
    with pytest.raises(UnsupError, match=r"marginals of token 69999 are no distribution: they sum to 1\.1"):
        tag_entropy(p)


@pytest.mark.parametrize(
    ("marginals", "message"),
    [
        ([0.5, 0.5], r"marginals must have shape \(tokens, K\) and at least one entry, actual shape \(2,\)"),
        (np.zeros((0, 3)), r"actual shape \(0, 3\)"),
        ([[0.0, -math.inf]], r"marginals of token 0 are no distribution: .*\(probabilities are expected, not logar"),
        ([[0.5, 0.5], [math.nan, 1.0]], "marginals of token 1 are no distribution: they sum to nan"),
        ([[1.5, -0.5]], "marginals of token 0 are no distribution: they sum to 1, the least is -0.5"),
    ],
)
def test_tag_entropy_refuses(marginals, message):
    with pytest.raises(UnsupError, match=message):
        tag_entropy(marginals)


def test_bad_ambiguity():
    with pytest.raises(UnsupError, match="pass same_tags=True"):
        tagging_report([0], [0], ambiguous=[True])
    with pytest.raises(UnsupError, match="no token is ambiguous"):
        accuracy_ambiguous([0], [0], [False])
    with pytest.raises(UnsupError, match=r"ambiguous must be a flat boolean array, actual type int64, shape \(1,\)"):
        accuracy_ambiguous([0], [0], [1])
    with pytest.raises(UnsupError, match="ambiguous has 2 tokens but gold has 1"):
        accuracy_ambiguous([0], [0], [True, False])
