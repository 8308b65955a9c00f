"""The four readings of the harmonic start, against sums by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pyro_unsup.errors import StructureError
from pyro_unsup.models import DMV
from pyro_unsup.models.harmonic import READINGS, by_counts, by_parameters, by_trees, by_viterbi

LEFT, RIGHT = 0, 1


def case(*sentences: list[int]) -> tuple[Tensor, Tensor]:
    return torch.tensor([tag for s in sentences for tag in s]), torch.tensor([len(s) for s in sentences])


def test_counts_of_three_words_by_hand() -> None:
    """Words a b c. Of 1 / distance, a has 1 from b and 1/2 from c, so b is its head 2/3 * 2/3 of the time."""
    counts = by_counts(*case([0, 1, 2]), 3, smoothing=0.0, share=0.9)
    assert counts["root"].tolist() == pytest.approx([1 / 3] * 3)
    attach = torch.zeros(3, 2, 3)
    attach[1, LEFT, 0] = attach[1, RIGHT, 2] = 2 / 3 * 2 / 3
    attach[2, LEFT, 0] = attach[0, RIGHT, 2] = 2 / 3 * 1 / 3
    attach[0, RIGHT, 1] = attach[2, LEFT, 1] = 2 / 3 * 1 / 2
    torch.testing.assert_close(counts["attach"], attach)
    assert float(counts["root"].sum() + counts["attach"].sum()) == pytest.approx(3)
    # Children: a has 2/9 + 3/9 to its right, b 4/9 on each side. The least of them limits e.
    e = 0.9 * 4 / 9
    expected = {(0, RIGHT): 5 / 9, (1, LEFT): 4 / 9, (1, RIGHT): 4 / 9, (2, LEFT): 5 / 9}
    for (tag, side), k in expected.items():
        assert counts["stop"][tag, side].tolist() == [pytest.approx([1 - e, e]), pytest.approx([e, k - e])]
    for tag, side in ((0, LEFT), (2, RIGHT)):  # no place for a child
        assert counts["stop"][tag, side].tolist() == [[1, 0], [0, 0]]


def test_counts_add_up_over_sentences_and_tags() -> None:
    """Smoothing goes before e is chosen, and a lone word is a root that stops."""
    one, two = by_counts(*case([0, 1, 0]), 2, smoothing=0.0), by_counts(*case([0, 1, 0], [0, 1, 0]), 2, smoothing=0.0)
    for name, counts in one.items():
        torch.testing.assert_close(two[name], 2 * counts)
    alone = by_counts(*case([0]), 1, smoothing=0.1)
    assert alone["root"].tolist() == pytest.approx([1.1])
    assert alone["attach"].reshape(-1).tolist() == pytest.approx([0.1, 0.1])
    assert alone["stop"][0, LEFT].tolist() == [pytest.approx([1.1, 0.1]), pytest.approx([0.1, 0.1])]
    smoothed = by_counts(*case([0, 1, 2]), 3, smoothing=0.1)
    e = 0.9 * (4 / 9 + 0.1)
    assert smoothed["stop"][1, LEFT].tolist() == [
        pytest.approx([1.1 - e, 0.1 + e]),
        pytest.approx([0.1 + e, 4 / 9 + 0.1 - e]),
    ]
    capped = by_counts(*case([0, 1, 2]), 3, smoothing=5.0)
    assert float(capped["stop"][1, LEFT, 0, 1]) == pytest.approx(5.9)


def trees_of_three(distance: float, adjacent: float, beyond: float) -> list[tuple[list[int], float]]:
    """The seven trees, and their weights: neighbours 1 / (1 + distance), else 1 / (2 + distance); stops by hand."""
    near, far = 1 / (1 + distance), 1 / (2 + distance)
    go, more = 1 - adjacent, 1 - beyond
    chain = adjacent**4 * go**2 * beyond**2  # two sides with one child each
    both = adjacent**5 * go * more * beyond  # one side with two children
    return [
        ([0, 1, 2], near * near * chain),
        ([0, 3, 1], far * near * chain),
        ([0, 1, 1], near * far * both),
        ([2, 0, 2], near * near * chain),
        ([2, 3, 0], near * near * chain),
        ([3, 1, 0], far * near * chain),
        ([3, 3, 0], far * near * both),
    ]


@pytest.mark.parametrize(
    ("reading", "distance", "adjacent", "beyond"),
    [(by_trees, 2.0, 0.5, 0.5), (by_trees, 5.0, 0.3, 0.8), (by_parameters, 1.0, 0.25, 0.75)],
)
def test_expected_counts_of_three_words_by_hand(reading, distance: float, adjacent: float, beyond: float) -> None:
    constants = {"distance": distance, "adjacent": adjacent, "beyond": beyond}
    constants = {} if reading is by_parameters else constants
    counts = reading(*case([0, 1, 2]), 3, smoothing=0.0, **constants)
    trees = trees_of_three(distance, adjacent, beyond)
    total = sum(weight for _, weight in trees)
    root, attach = torch.zeros(3), torch.zeros(3, 2, 3)
    for heads, weight in trees:
        for child, head in enumerate(heads):
            if head == 0:
                root[child] += weight / total
            else:
                attach[head - 1, int(head - 1 < child), child] += weight / total
    torch.testing.assert_close(counts["root"], root)
    torch.testing.assert_close(counts["attach"], attach)
    assert float(counts["stop"][..., 0].sum()) == pytest.approx(6)
    assert float(counts["stop"][..., 1].sum()) == pytest.approx(2)


def test_the_best_trees_share_alike() -> None:
    """Three chains of neighbours, one for each root."""
    counts = by_viterbi(*case([0, 1, 2]), 3, smoothing=0.0)
    torch.testing.assert_close(counts["root"], torch.full((3,), 1 / 3))
    attach = torch.zeros(3, 2, 3)
    attach[0, RIGHT, 1] = attach[2, LEFT, 1] = 1 / 3
    attach[1, RIGHT, 2] = attach[1, LEFT, 0] = 2 / 3
    torch.testing.assert_close(counts["attach"], attach)
    assert float(by_viterbi(*case([0, 1, 2]), 3)["root"].sum()) == pytest.approx(4)  # 1 is added to each


@pytest.mark.parametrize("reading", READINGS)
def test_every_reading_gives_tables(reading: str) -> None:
    """Of tags that occur and of one that does not; rows sum to one."""
    sentences = [[0, 1, 2], [2, 0, 1, 0, 2], [1]]
    model = DMV(4)
    tables = model.harmonic_start(sentences, reading=reading)(model.declarations(), torch.Generator())
    for name, table in model.declarations().items():
        assert tables[name].shape == table.layout.shape
        torch.testing.assert_close(tables[name].exp().sum(-1), torch.ones(table.layout.rows))
        assert not tables[name].isnan().any()


@pytest.mark.parametrize(
    ("constants", "said"),
    [
        ({"distance": -1}, "distance must be above -1, for words next to each other, actual -1"),
        ({"smoothing": -0.1}, "smoothing must be zero or more, and finite, actual -0.1"),
        ({"share": 1.5}, "must lie between 0 and 1, actual 1.5"),
    ],
)
def test_bad_constants(constants: dict[str, float], said: str) -> None:
    model = DMV(2)
    with pytest.raises(StructureError, match=said):
        model.harmonic_start([[0, 1]], **constants)(model.declarations(), torch.Generator())
