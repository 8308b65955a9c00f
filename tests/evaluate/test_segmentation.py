"""Scores of segmentations: by hand, and against sets of words spelled out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pyro_unsup.errors import UnsupError
from pyro_unsup.evaluate import segmentation_report


def report(gold: list[str], predicted: list[str]) -> dict[str, float]:
    """Of lines with spaces."""
    plain = [line.replace(" ", "") for line in gold]
    assert plain == [line.replace(" ", "") for line in predicted]
    symbols = np.array([ord(c) for c in "".join(plain)])
    return segmentation_report(ends(gold), ends(predicted), symbols, np.array([len(line) for line in plain]))


def ends(lines: list[str]) -> np.ndarray:
    return np.array([int(i == len(word) - 1) for line in lines for word in line.split() for i in range(len(word))])


def test_by_hand() -> None:
    """the dog / a dog / dog as thed og / a dog / d og: 2 of 6 words, 2 of 3 gold words right ..."""
    found = report(["the dog", "a dog", "dog"], ["thed og", "a dog", "d og"])
    assert found == pytest.approx(
        {
            "token_precision": 2 / 6,  # a, dog of thed, og, a, dog, d, og
            "token_recall": 2 / 5,
            "token_f1": 4 / 11,
            "boundary_precision": 1 / 3,  # only that of the second line
            "boundary_recall": 1 / 2,
            "boundary_f1": 2 / 5,
            "lexicon_precision": 2 / 5,  # a, dog of thed, og, a, dog, d
            "lexicon_recall": 2 / 3,
            "lexicon_f1": 4 / 8,
        }
    )


def test_right_and_wrong() -> None:
    lines = ["ab c", "d", "ab d"]
    assert set(report(lines, lines).values()) == {1.0}
    joined = report(["a b", "c d"], ["ab", "cd"])
    assert joined["boundary_precision"] == joined["boundary_recall"] == joined["boundary_f1"] == 0
    assert joined["token_f1"] == joined["lexicon_f1"] == 0
    assert set(report(["ab", "c"], ["ab", "c"]).values()) == {1.0}  # no boundary to find, and none found
    assert report(["ab"], ["a b"])["boundary_f1"] == 0


def test_words_that_look_alike_are_told_apart() -> None:
    """Ids 1, 2 and the one id 12 (or 1 << 8 | 2) are not the same word; nor do words cross sentences."""
    gold, predicted = [1, 1, 1], [1, 1, 1]
    same = segmentation_report(gold, predicted, [1, 258, 2], [1, 1, 1])
    assert same["lexicon_f1"] == 1
    assert segmentation_report([0, 1, 1], [1, 1, 1], [1, 2, 258], [2, 1])["lexicon_f1"] == pytest.approx(2 / 5)


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    lines = draw(st.lists(st.text("ab", min_size=1, max_size=6), min_size=1, max_size=4))

    def cut(line: str) -> str:
        return "".join(c + (" " if i < len(line) - 1 and draw(st.booleans()) else "") for i, c in enumerate(line))

    return [cut(line) for line in lines], [cut(line) for line in lines]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(pair=pairs())
def test_against_sets(pair: tuple[list[str], list[str]]) -> None:
    def parts(lines: list[str]) -> dict[str, set]:
        tokens, cuts = set(), set()
        for b, line in enumerate(lines):
            at = 0
            for word in line.split():
                tokens.add((b, at, at + len(word)))
                at += len(word)
                cuts.add((b, at))
            cuts.remove((b, at))
        return {"token": tokens, "boundary": cuts, "lexicon": {word for line in lines for word in line.split()}}

    gold, predicted = map(parts, pair)
    found = report(*pair)
    for name in gold:
        right, total = len(gold[name] & predicted[name]), len(gold[name]) + len(predicted[name])
        assert found[f"{name}_f1"] == pytest.approx(2 * right / total if total else 1.0)
        assert found[f"{name}_recall"] == pytest.approx(
            right / len(gold[name]) if gold[name] else float(not predicted[name])
        )
        assert found[f"{name}_precision"] == pytest.approx(
            right / len(predicted[name]) if predicted[name] else float(not gold[name])
        )


def test_tensors_truth_values_and_empty_sentences() -> None:
    expected = segmentation_report([0, 1, 1], [1, 1, 1], [0, 1, 2], [2, 1])
    gold, predicted = torch.tensor([False, True, True]), torch.tensor([1, 1, 1])
    assert segmentation_report(gold, predicted, torch.tensor([0, 1, 2]), torch.tensor([2, 0, 1])) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lengths": [2]}, "lengths add up to 2, actual number of symbols 3"),
        ({"gold": [1, 1]}, "gold has 2 tokens but gold has 3"),
        ({"predicted": [1, 1, 2]}, "predicted must be 1 where a word ends and 0 elsewhere, found another number"),
        ({"predicted": [-1, -1, 1]}, "predicted must be 1 where a word ends and 0 elsewhere, found another number"),
        ({"predicted": [1, 0, 1]}, "predicted must end a word with every sentence, but sentences end inside words"),
        ({"symbols": []}, "symbols is empty"),
    ],
)
def test_errors(changes: dict, message: str) -> None:
    given = {"gold": [0, 1, 1], "predicted": [1, 1, 1], "symbols": [0, 1, 2], "lengths": [2, 1], **changes}
    with pytest.raises(UnsupError) as error:
        segmentation_report(**given)
    assert message in str(error.value)
