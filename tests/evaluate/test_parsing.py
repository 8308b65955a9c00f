"""Scores of brackets, against hand-made cases, sets of tuples, and what others report."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.data import bracket_rows, read_brackets, short_tag_sequences, toy
from pyro_unsup.errors import InputError, UnsupError
from pyro_unsup.evaluate import (
    SignTest,
    bracket_counts,
    bracket_scores,
    jackknife,
    labelled_scores,
    left_branching,
    right_branching,
    sign_test_parses,
    upper_bound,
)
from pyro_unsup.evaluate.parsing import VARIANTS, Variant

from ..distributions.bracketing_case import all_trees

Row = tuple[int, int, int]


def test_a_pair_of_sentences_by_hand() -> None:
    gold = [[0, 0, 5], [0, 0, 2], [0, 2, 5], [0, 3, 5], [0, 4, 5], [1, 0, 3], [1, 1, 3]]
    ours = [[0, 0, 5], [0, 1, 5], [0, 1, 3], [0, 3, 5], [0, 0, 1], [1, 0, 3], [1, 0, 2]]
    counts = bracket_counts(gold, ours, [5, 3])
    assert (counts.gold.tolist(), counts.predicted.tolist()) == ([3, 1], [3, 1])
    assert (counts.matched.tolist(), counts.crossing.tolist()) == ([1, 0], [2, 1])
    expected = {"recall": 1 / 4, "precision": 1 / 4, "f1": 1 / 4, "crossing": 3 / 2, "sentences": 2}
    assert bracket_scores(gold, ours, [5, 3]) == expected
    whole = bracket_scores(torch.tensor(gold), torch.tensor(ours), torch.tensor([5, 3]), "klein_manning_2004")
    assert whole == {"recall": 1 / 2, "precision": 1 / 2, "f1": 1 / 2, "crossing": 3 / 2, "sentences": 2}
    means = bracket_scores(gold, ours, [5, 3], "klein_manning_2002")
    assert means == {**expected, "recall": 1 / 6, "precision": 1 / 6, "f1": 1 / 6}


def test_two_brackets_cross() -> None:
    assert bracket_scores([[0, 0, 2]], [[0, 1, 3]], [3])["crossing"] == 1


def test_the_mean_over_sentences_of_nothing_to_find_and_nothing_claimed() -> None:
    gold, ours = [[1, 0, 2], [2, 0, 2]], [[0, 0, 2], [2, 0, 2]]  # and sentence 3 has no bracket at all
    scores = bracket_scores(gold, ours, [3, 3, 3, 2], "klein_manning_2002")
    assert (scores["recall"], scores["precision"]) == ((1 + 0 + 1) / 3, (0 + 1 + 1) / 3)
    scores = bracket_scores(gold, [], [3, 3, 3, 2])
    assert (scores["recall"], scores["precision"], scores["f1"]) == (0, 1, 0)
    assert bracket_scores(gold, [[1, 1, 3]], [3, 3, 3, 2])["f1"] == 0


@st.composite
def instance(draw: st.DrawFn) -> tuple[list[Row], list[Row], list[int]]:
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    rows = [
        [(b, *span) for b, n in enumerate(lengths) for span in draw(st.sampled_from(all_trees(0, n)))] for _ in range(2)
    ]
    gold = draw(st.lists(st.sampled_from(rows[0]), unique=True))
    return gold, rows[1], lengths


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(instance=instance(), variant=st.sampled_from(list(VARIANTS)))
def test_scores_are_those_of_sets(instance: tuple[list[Row], list[Row], list[int]], variant: Variant) -> None:
    gold, ours, lengths = instance
    most = [n + (variant == "klein_manning_2004") for n in lengths]
    right, found = ({row for row in rows if 1 < row[2] - row[1] < most[row[0]]} for rows in (gold, ours))
    counts = bracket_counts(gold, ours, lengths, variant)
    by_sentence = [
        [sum(row[0] == b for row in rows) for b in range(len(lengths))] for rows in (right, found, right & found)
    ]
    assert [counts.gold.tolist(), counts.predicted.tolist(), counts.matched.tolist()] == by_sentence
    crossing = [any(b == c and (i < k < j < m or k < i < m < j) for c, k, m in right) for b, i, j in found]
    assert counts.crossing.sum() == sum(crossing)
    if not right | found:
        with pytest.raises(UnsupError, match=rf"no bracket to score in {len(lengths)} sentences: single words never"):
            counts.scores()
        return
    scores = counts.scores()
    if variant != "klein_manning_2002":
        assert scores["recall"] == (len(right & found) / len(right) if right else 1)
        assert scores["precision"] == (len(right & found) / len(found) if found else 1)
    else:
        some = [(g, p, m) for g, p, m in zip(*by_sentence, strict=True) if g + p]
        assert scores["recall"] == pytest.approx(np.mean([m / g if g else 1 for g, _, m in some]))
        assert scores["precision"] == pytest.approx(np.mean([m / p if p else 1 for _, p, m in some]))
    assert scores["crossing"] == pytest.approx(sum(crossing) / len(lengths))
    swapped = bracket_scores(ours, gold, lengths, variant)
    assert (swapped["recall"], swapped["precision"]) == (scores["precision"], scores["recall"])


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(instance=instance())
def test_no_binary_tree_beats_the_upper_bound(instance: tuple[list[Row], list[Row], list[int]]) -> None:
    gold, _, lengths = instance
    bound = upper_bound(gold, lengths)
    for b, n in enumerate(lengths):
        tree = {(i, j) for c, i, j in bound.tolist() if c == b} | {(i, i + 1) for i in range(n)}
        assert tree in all_trees(0, n)
        assert {(i, j) for c, i, j in gold if c == b} <= tree


def test_branching() -> None:
    lengths = [1, 3, 0, 2]
    assert left_branching(lengths).tolist() == [[1, 0, 2], [1, 0, 3], [3, 0, 2]]
    assert right_branching(lengths).tolist() == [[1, 0, 3], [1, 1, 3], [3, 0, 2]]
    assert upper_bound([], lengths).tolist() == right_branching(lengths).tolist()


def test_sign_tests() -> None:
    lengths = [4] * 12
    gold = [(b, 0, 4) for b in range(12)] + [(b, 0, 2) for b in range(12)] + [(b, 2, 4) for b in range(12)]
    good = gold[:36]
    bad = [(b, 0, 4) for b in range(12)] + [(b, 1, 3) for b in range(10)] + gold[22:24]
    assert sign_test_parses(gold, good, bad, lengths) == SignTest(12, 0, 0, 2 / 2**12)
    assert sign_test_parses(gold, bad, good, lengths) == SignTest(0, 12, 0, 2 / 2**12)
    assert sign_test_parses(gold, good, bad, lengths, by="crossings") == SignTest(10, 0, 2, 2 / 2**10)
    brackets = sign_test_parses(gold, good, bad, lengths, by="brackets")
    assert (brackets.wins, brackets.losses, brackets.ties) == (22, 0, 2)
    assert sign_test_parses(gold, good, bad, lengths, by="brackets", variant="klein_manning_2004").ties == 14
    with pytest.raises(UnsupError, match="by must be 'matches', 'crossings' or 'brackets', actual 'words'"):
        sign_test_parses(gold, good, bad, lengths, by="words")  # type: ignore[arg-type]


def test_counts_are_resampled() -> None:
    corpus = toy.sentences(60, seed=1)
    gold, ours = bracket_rows(corpus), right_branching(corpus.lengths)
    counts = bracket_counts(gold, ours, corpus.lengths)
    found = jackknife(lambda kept: counts.select(kept).scores()["f1"], len(counts), parts=6)
    assert found.mean == pytest.approx(counts.scores()["f1"], abs=0.01)
    kept = np.arange(10, 60)
    fewer = corpus.select(kept)
    again = bracket_scores(bracket_rows(fewer), right_branching(fewer.lengths), fewer.lengths)
    assert counts.select(kept).scores() == again


def test_errors_say_what_was_expected() -> None:
    with pytest.raises(UnsupError, match="variant must be one of smith_eisner_2004, klein_manning_2004, klein_mann"):
        bracket_scores([], [], [3], "evalb")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"predicted: the span \(0, 4\) does not lie in sentence 0 \(3 words\)"):
        bracket_scores([[0, 0, 2]], [[0, 0, 4]], [3])
    with pytest.raises(InputError, match=r"gold: the spans \(0, 2\) and \(1, 3\) of sentence 0 cross, expected a tree"):
        upper_bound([[0, 0, 2], [0, 1, 3]], [3])
    for bad in ([], [[3]], [3.5], [-1]):
        with pytest.raises(UnsupError, match="lengths must be whole numbers, one a sentence"):
            bracket_scores([], [], bad)
    with pytest.raises(UnsupError, match="no bracket to score in 1 sentences: single words never count"):
        bracket_scores([], [], [1])


def test_baselines_on_the_wall_street_journal(real_data: Path) -> None:
    corpus = read_brackets(real_data / "wsj_nltk.mrg.xz")
    short, longer = short_tag_sequences(corpus), short_tag_sequences(corpus, max_length=20)

    def f1(some, make, variant: Variant = "smith_eisner_2004") -> float:
        return 100 * bracket_scores(bracket_rows(some), make(some), some.lengths, variant)["f1"]

    right, left, bound = (
        lambda some: right_branching(some.lengths),
        lambda some: left_branching(some.lengths),
        lambda some: upper_bound(bracket_rows(some), some.lengths),
    )
    assert f1(short, right) == pytest.approx(55.0, abs=0.05)
    assert f1(short, left) == pytest.approx(13.4, abs=0.05)
    assert f1(longer, right) == pytest.approx(42.7, abs=0.05)
    # Reported for the ten times larger corpus that this is a sample of.
    assert f1(short, bound) == pytest.approx(85.5, abs=1)
    assert f1(short, bound, "klein_manning_2004") == pytest.approx(88.1, abs=1)
    assert f1(short, bound, "klein_manning_2002") == pytest.approx(85.1, abs=1)
    assert f1(short, right, "klein_manning_2004") == pytest.approx(61.7, abs=2)
    assert f1(short, left, "klein_manning_2004") == pytest.approx(28.7, abs=2)


def test_every_pair_of_trees_of_four_words() -> None:
    trees = [[(0, *span) for span in tree] for tree in all_trees(0, 4)]
    scores = {(a, b): bracket_scores(trees[a], trees[b], [4]) for a, b in itertools.product(range(5), repeat=2)}
    for (a, b), found in scores.items():
        assert (found["f1"] == 1) == (a == b)
        assert found["f1"] == scores[b, a]["f1"]
        assert (found["crossing"] == 0) == (a == b)  # both are full, so what is not shared crosses


def test_labels_count_as_the_gold_label_they_meet_most_often() -> None:
    gold = [[0, 0, 5], [0, 0, 2], [0, 2, 5], [0, 3, 5], [1, 0, 3], [1, 1, 3]]
    names = ["S", "NP", "VP", "NP", "S", "NP"]
    ours = [[0, 0, 5], [0, 0, 2], [0, 2, 5], [0, 3, 5], [0, 0, 1], [1, 0, 3], [1, 0, 2]]
    labels = [9, 1, 1, 2, 3, 9, 1]
    # 1 meets NP and VP once each, 2 meets NP: two of four gold brackets, and of four that were found.
    expected = {"labelled_recall": 0.5, "labelled_precision": 0.5, "labelled_f1": 0.5}
    assert labelled_scores(gold, names, ours, labels, [5, 3]) == expected
    whole = labelled_scores(gold, names, gold, names, [5, 3])
    assert set(whole.values()) == {1.0}
    alike = labelled_scores(gold, names, gold, ["X"] * 6, [5, 3])
    assert alike["labelled_f1"] == 0.75  # all are noun phrases
    assert labelled_scores(gold, names, np.zeros((0, 3), int), [], [5, 3])["labelled_f1"] == 0.0


def test_labelled_scores_are_no_better_than_brackets_alone() -> None:
    random = np.random.default_rng(0)
    corpus = short_tag_sequences(toy.sentences(80, seed=2), 9, ["PUNCT"])
    gold, ours = bracket_rows(corpus), right_branching(corpus.lengths)
    names, labels = random.integers(0, 3, len(gold)), random.integers(0, 4, len(ours))
    plain, found = (
        bracket_scores(gold, ours, corpus.lengths),
        labelled_scores(gold, names, ours, labels, corpus.lengths),
    )
    assert 0 < found["labelled_f1"] <= plain["f1"]
    same = labelled_scores(gold, np.zeros(len(gold)), ours, labels, corpus.lengths)
    assert same["labelled_f1"] == pytest.approx(plain["f1"])
    assert same["labelled_recall"] == pytest.approx(plain["recall"])


def test_labels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UnsupError, match=r"predicted: expected one label for each of the 1 brackets, actual \(2,\)"):
        labelled_scores([[0, 0, 2]], ["A"], [[0, 0, 2]], ["A", "B"], [3])
    with pytest.raises(UnsupError, match="no bracket to score: single words and whole sentences never count"):
        labelled_scores([[0, 0, 2]], ["A"], [[0, 0, 2]], ["A"], [2])
